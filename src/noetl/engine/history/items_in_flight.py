"""The items of a loop that have started and not ended. They have a common wait while all of them wait."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from itertools import islice


class ItemsInFlight:
    """All times are milliseconds since 1970. `items` are their indexes, starts and work, `parked` those that wait and
    the kinds of their waits, 1 or more."""

    def __init__(self, items: Sequence[tuple[int, int, int]] = (), parked: Iterable[tuple[int, int]] = ()) -> None:
        self.open = {index: start for index, start, _ in items}  # starts
        self.work = {index: float(work) for index, _, work in items}  # milliseconds that their tasks took
        self.parked = dict(parked)
        self.common_wait = self._last_wait()  # its kind; 0 if there is none
        self.waits: list[int] = []  # of the block: when common waits began and ended, and the kind or 0

    def __bool__(self) -> bool:
        return bool(self.open or self.parked)

    @property
    def running(self) -> int:
        return len(self.open) - len(self.parked)

    def begin_block(self) -> None:
        """Round the work, as the previous block stored it."""
        self.work = {index: float(int(work)) for index, work in self.work.items() if index in self.open}
        self.waits = []

    def next_item(self, first: int) -> int:
        """The first item from an index on that is in flight or has work."""
        return min((item for item in self.open.keys() | self.work.keys() if item >= first), default=sys.maxsize)

    def end(self, index: int, now: int) -> int | None:
        """The duration of an item that ends now; None if neither its start nor its work is known."""
        start, work = self.open.pop(index, None), self.work.pop(index, None)
        if self.parked:
            self._end_beside_parked(index, now if start is None else start, now, int(work or 0))
        if start is None and work is None:
            return None
        duration = 0 if start is None else now - start
        if work is not None and work > duration:
            duration = int(work)
        return duration if duration > 0 else 0  # not `max`: this runs for every item

    def park(self, index: int, kind: int, now: int) -> None:
        self.end_common_wait(now)
        self.parked[index] = kind
        self._set_common_wait(self._last_wait(), now)

    def resume(self, index: int, now: int) -> None:
        self.end_common_wait(now)
        self.parked.pop(index, None)
        self._set_common_wait(self._last_wait(), now)

    def resume_all(self, kind: int, now: int) -> None:
        """End the waits of a kind."""
        self.end_common_wait(now)
        self.parked = {item: other for item, other in self.parked.items() if other != kind}
        self._set_common_wait(self._last_wait(), now)

    def stop(self, now: int) -> None:
        """End all items."""
        self.end_common_wait(now)
        self.open, self.work, self.parked = {}, {}, {}
        self._set_common_wait(0, now)

    def end_common_wait(self, now: int, ended_start: int | None = None) -> None:
        """End the common wait at the start of the first item that has started since it began, if there is one. Only the
        events of waits and the end of a block call this, so that the start of an item costs nothing. `ended_start` is
        the start of an item that has just ended."""
        if not self.common_wait:
            return
        latest = islice(reversed(self.open.items()), max(0, self.running))
        starts = [min(start, now - int(self.work.get(index, 0))) for index, start in latest]  # work is reported later
        if ended_start is not None:
            starts.append(ended_start)
        if starts:
            self._set_common_wait(0, min(starts))

    def _end_beside_parked(self, index: int, start: int, now: int, work: int) -> None:
        if self.parked.pop(index, None) is None:
            self.end_common_wait(now, min(start, now - work))
        self._set_common_wait(self._last_wait(), now)

    def _last_wait(self) -> int:
        """The kind of wait of the item that was the last to wait; 0 if an item works or none waits."""
        return next(reversed(self.parked.values())) if self.parked and self.running <= 0 else 0

    def _set_common_wait(self, kind: int, at: int) -> None:
        if kind != self.common_wait:
            self.common_wait = kind
            self.waits += (at, kind)
