"""The loops of an outline: how far a loop got in a block, which items ended, how long they took and why they failed."""

from __future__ import annotations

import sys
from bisect import bisect_right, insort
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

import msgspec

from noetl.engine import events as e

BINS = 24
"""Durations of items: bin 0 is below 1 ms, bin n below 2 to the power of n ms, the last one has all longer ones."""
MAX_ERRORS = 20  # different errors of a loop in a block
MAX_MESSAGE = 200
MAX_SLOWEST = 5
POINT_EVENTS = 50  # minimum distance of two points of the progress of a loop
ITEM_EVENTS = [e.IterationStarted, e.TaskStarted, e.TaskDone, e.IterationDone]  # of an item with one task


class ItemError(msgspec.Struct, array_like=True):
    """Failed items with the same error: how many, and the first and the last of them."""

    kind: str
    message: str
    count: int
    first: int
    last: int


class LoopPart(msgspec.Struct, array_like=True):
    """The part of a loop in a block. Ranges are flat lists of starts and ends."""

    run: int
    total: int = -1  # the number of items, if the loop starts in this block
    points: list[int] = []  # offset, items that succeeded and failed since the start of the block, items in flight
    done: list[int] = []  # ranges of items that succeeded
    failed: list[int] = []  # ranges of items that failed
    touched: list[int] = []  # ranges of other items with events
    bins: list[int] = []  # numbers of bins and of items in them
    unknown: int = 0  # items that ended without a known duration
    errors: list[ItemError] = []
    slowest: list[tuple[int, int]] = []  # milliseconds and item
    open: list[tuple[int, int, int]] = []  # items in flight: index, start and work so far, in milliseconds
    parked: list[tuple[int, int]] = []  # waiting items: index and kind of the wait
    waits: list[int] | None = None
    """When all started items begin to wait, and when one works again: milliseconds since 1970, and the kind of the wait
    or 0. None in a block that an earlier version stored."""


def ranges(numbers: Iterable[int]) -> list[int]:
    """Numbers as a flat list of starts and ends of intervals."""
    return joined([border for number in numbers for border in (number, number + 1)])


def joined(flat: list[int]) -> list[int]:
    """Ranges in any order as ranges in ascending order, none of which touch."""
    if len(flat) <= 2:
        return flat
    ordered = sorted(zip(flat[::2], flat[1::2], strict=True))
    joined = list(ordered[0])
    for start, end in ordered:
        if start > joined[-1]:
            joined += (start, end)
        elif end > joined[-1]:
            joined[-1] = end
    return joined


def like_items(types: list[type[e.Event]], start: int) -> int:
    """How many events from `start` on are of items with one task that start and succeed one after the other."""
    count = (len(types) - start) // 4
    if types[start : start + 4 * count] == ITEM_EVENTS * count:
        return 4 * count
    others = (place for place, kind in enumerate(types[start:]) if kind is not ITEM_EVENTS[place % 4])
    return next(others) // 4 * 4


class LoopWriter:
    """A loop while its block is being written."""

    def __init__(self) -> None:
        self.total = -1
        self.open: dict[int, int] = {}  # start of the items in flight, in milliseconds
        self.work: dict[int, float] = {}  # milliseconds that their tasks took
        self.parked: dict[int, int] = {}
        self.waits_for = 0  # the kind of wait, while all started items wait
        self.clear()

    def clear(self) -> None:
        """Begin the next block with the items in flight, their work rounded as the previous block stored it."""
        self.work = {index: float(int(work)) for index, work in self.work.items() if index in self.open}
        self.total = -1
        self.points: list[int] = []
        self.next_point = 0  # the offset from which it is due
        self.succeeded = 0  # items
        self.done: list[int] = []  # their ranges, as they came
        self.failed: list[int] = []
        self.touched: set[int] = set()
        self.bins = [0] * BINS
        self.unknown = 0
        self.errors: dict[tuple[str, str], ItemError] = {}
        self.slowest: list[tuple[int, int]] = []
        self.threshold = -1
        self.waits: list[int] = []

    @property
    def is_idle(self) -> bool:
        return not (self.open or self.parked or self.done or self.failed or self.touched) and self.total < 0

    def add_items(self, events: Iterator[Any], run: str, first: int, offset: int) -> int:
        """Add items from `first` on that start and succeed one after the other, each with the events `ITEM_EVENTS`.
        Returns the number of events before the first item that is another one, failed or was in flight before. Takes an
        iterator, because a slice would write to the reference count of every event."""
        if self.parked:
            return 0
        item, least, noted = first - 1, self._least_noted, 0
        successors = range(first, self._next_in_flight(first))
        for item, start, called, returned, ended in zip(successors, events, events, events, events, strict=False):
            task = returned.task
            if (
                (called.task is not task and called.task != task)
                or item != start.index
                or item != task.index
                or item != ended.index
                or run != start.run
                or run != task.run
                or run != ended.run
                or returned.outcome.error is not None
                or "/" in task.path
            ):
                break
            if returned.duration_ms >= least:
                self.end_item(item, int(returned.duration_ms))
                least, noted = self._least_noted, noted + 1
        else:
            item += 1
        count = item - first
        if count:
            self.bins[0] += count - noted
            self._add_points(count, offset)
            self.succeed(first, item)
        return 4 * count

    @property
    def _least_noted(self) -> int:
        """Shorter items, in milliseconds, are only counted."""
        return 0 if self.threshold < 0 else 1

    def _next_in_flight(self, first: int) -> int:
        return min((item for item in self.open.keys() | self.work.keys() if item >= first), default=sys.maxsize)

    def _add_points(self, count: int, offset: int) -> None:
        """The points of items that succeed from an offset on, each with four events."""
        before, item = self.succeeded, 0
        while (item := max(item + 1, (self.next_point - offset + 4) // 4)) <= count:
            self.succeeded = before + item
            self.add_point(offset + 4 * item - 1)
        self.succeeded = before

    def succeed(self, first: int, end: int) -> None:
        done = self.done
        if done and done[-1] == first:
            done[-1] = end
        else:
            done += (first, end)
        self.succeeded += end - first

    def end_open_item(self, index: int, now: int) -> None:
        start, work = self.open.pop(index, None), self.work.pop(index, None)
        if self.parked:
            self._end_beside_waiting(index, now if start is None else start, now, int(work or 0))
        if start is None and work is None:
            self.unknown += 1
        else:
            self.end_item(index, max(0 if start is None else now - start, int(work or 0), 0))

    def end_item(self, index: int, took: int) -> None:
        width = took.bit_length()
        self.bins[width if width < BINS else -1] += 1
        if took > self.threshold:
            self.add_slow_item(index, took)

    def add_slow_item(self, index: int, took: int) -> None:
        insort(self.slowest, (took, index))
        del self.slowest[:-MAX_SLOWEST]
        self.threshold = self.slowest[0][0] if len(self.slowest) == MAX_SLOWEST else -1

    def add_error(self, index: int, error: Any) -> None:
        key = error.kind, error.message[:MAX_MESSAGE]
        group = self.errors.get(key)
        if group is None and len(self.errors) >= MAX_ERRORS:
            key = "", ""  # all others
            group = self.errors.get(key)
        if group is None:
            self.errors[key] = ItemError(*key, 1, index, index)
        else:
            group.count, group.first, group.last = group.count + 1, min(group.first, index), max(group.last, index)

    # -- waits --------------------------------------------------------------------------------------------------------

    def park(self, index: int, kind: int, now: int) -> None:
        self._end_common_wait(now)
        self.parked[index] = kind
        self._note_wait(self.common_wait, now)

    def resume(self, index: int, now: int) -> None:
        self._end_common_wait(now)
        self.parked.pop(index, None)
        self.touched.add(index)
        self._note_wait(self.common_wait, now)

    def resume_all(self, kind: int, now: int) -> None:
        """End the waits of a kind."""
        self._end_common_wait(now)
        self.touched.update(self.parked)
        self.parked = {item: other for item, other in self.parked.items() if other != kind}
        self._note_wait(self.common_wait, now)

    def stop(self, now: int) -> None:
        """End all items in flight."""
        self._end_common_wait(now)
        self.touched.update(self.open, self.parked)
        self.open, self.work, self.parked = {}, {}, {}
        self._note_wait(self.common_wait, now)

    def _end_beside_waiting(self, index: int, start: int, now: int, work: int) -> None:
        if self.parked.pop(index, None) is None:
            self._end_common_wait(now, min(start, now - work))
        self._note_wait(self.common_wait, now)

    def _end_common_wait(self, now: int, began: int | None = None) -> None:
        """End the common wait of all started items when the first one began that has started since. Only the events of
        waits look for it, so that the start of an item costs nothing. `began`: an item that has just ended."""
        if not self.waits_for:
            return
        since = islice(reversed(self.open.items()), max(0, len(self.open) - len(self.parked)))
        begins = [min(start, now - int(self.work.get(index, 0))) for index, start in since]  # work is reported later
        if began is not None:
            begins.append(began)
        if begins:
            self._note_wait(0, min(begins))

    @property
    def common_wait(self) -> int:
        """The kind of wait of the item that was the last to wait; 0 if an item works or none waits."""
        return next(reversed(self.parked.values())) if self.parked and len(self.open) <= len(self.parked) else 0

    def _note_wait(self, kind: int, at: int) -> None:
        if kind != self.waits_for:
            self.waits_for = kind
            self.waits += (at, kind)

    def part(self, run: int, now: int) -> LoopPart:
        self._end_common_wait(now)
        done = joined(self.done)
        touched = {*self.touched, *self.open, *self.parked}
        touched = {item for item in touched.difference(self.failed) if bisect_right(done, item) % 2 == 0}
        return LoopPart(
            run,
            self.total,
            self.points,
            done,
            ranges(self.failed),
            ranges(touched),
            [number for pair in enumerate(self.bins) if pair[1] for number in pair],
            self.unknown,
            list(self.errors.values()),
            self.slowest,
            [(index, start, int(self.work.get(index, 0))) for index, start in self.open.items()],
            list(self.parked.items()),
            self.waits,
        )

    def add_point(self, offset: int) -> None:
        point = offset, self.succeeded, len(self.failed), len(self.open) - len(self.parked)
        if self.points[-4:-3] == [offset]:
            self.points[-4:] = point
        else:
            self.points += point
        self.next_point = offset + POINT_EVENTS
