"""How long an item of a loop takes, by the definition of the outline: from the event of its start to that of its end,
or as long as its tasks work if that is longer. Times are whole milliseconds, so that two readers of a log agree."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from noetl.engine import events as e
from noetl.engine.history.outline import BLOCK_EVENTS

END_EVENTS = (
    *(e.StepDone, e.LoopDone, e.StepFailed),
    *(e.WorkflowFinished, e.PlaybookProcessed, e.PlaybookCancelled),
)
"""Events that end the items in flight: of their run, or of all."""


class InFlight(NamedTuple):
    """An item that has started and not ended."""

    started: int
    work: int


class ItemClock(msgspec.Struct):
    started: int | None = None
    work: float | None = None
    block: int = 0  # of its last event

    @property
    def is_running(self) -> bool:
        return self.started is not None

    def start(self, seq: int, at: float) -> None:
        """An item that starts again before its end, with another worker, keeps its start."""
        self._enter(seq)
        if self.started is None:
            self.started = int(at * 1000)

    def add_work(self, seq: int, milliseconds: float) -> None:
        self._enter(seq)
        self.work = (self.work or 0.0) + milliseconds

    def end(self, seq: int, at: float) -> int | None:
        """The duration of the item, which may start again; None if neither its start nor its work is known."""
        self._enter(seq)
        started, work = self.started, self.work
        self.stop()
        if started is None:
            return None if work is None else int(work)
        return max(int(at * 1000) - started, int(work or 0), 0)

    def stop(self) -> None:
        """Forget an item that does not end by itself."""
        self.started = self.work = None

    def resume(self, block: int, item: InFlight | None) -> None:
        """Continue after a block of the outline, which has the items in flight at its end."""
        self.block = block
        self.started, self.work = (None, None) if item is None else (item.started, float(item.work))

    def _enter(self, seq: int) -> None:
        """A block of the outline has the work so far in whole milliseconds, of items that have started."""
        block = (seq - 1) // BLOCK_EVENTS
        if block != self.block:
            self.block = block
            self.work = None if self.started is None or self.work is None else float(int(self.work))
