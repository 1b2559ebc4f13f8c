"""The duration of a loop item, as the outline defines it: from the event of its start to that of its end, or the work
of its tasks if that is longer. Times are whole milliseconds, so that two readers of a log agree."""

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

    started_ms: int
    work_ms: int


class ItemClock(msgspec.Struct):
    """Measures one item, event by event."""

    started_ms: int | None = None
    work_ms: float | None = None
    block: int = 0  # of its last event

    @property
    def is_running(self) -> bool:
        return self.started_ms is not None

    def start(self, seq: int, at: float) -> None:
        """An item that starts again before its end, with another worker, keeps its start."""
        self._enter(seq)
        if self.started_ms is None:
            self.started_ms = int(at * 1000)

    def add_work(self, seq: int, milliseconds: float) -> None:
        self._enter(seq)
        self.work_ms = (self.work_ms or 0.0) + milliseconds

    def end(self, seq: int, at: float) -> int | None:
        """The duration of the item, None if neither its start nor its work is known. The item may start again."""
        self._enter(seq)
        started, work = self.started_ms, self.work_ms
        self.stop()
        if started is None:
            return None if work is None else int(work)
        return max(int(at * 1000) - started, int(work or 0), 0)

    def stop(self) -> None:
        """Forget an item that does not end by itself."""
        self.started_ms = self.work_ms = None

    def resume(self, block: int, item: InFlight | None) -> None:
        """Continue after a block whose outline has the item in flight; None if it does not."""
        self.block = block
        self.started_ms, self.work_ms = (None, None) if item is None else (item.started_ms, float(item.work_ms))

    def _enter(self, seq: int) -> None:
        """Round the work when a block begins, as the outline does, and drop that of an item that has not started."""
        block = (seq - 1) // BLOCK_EVENTS
        if block != self.block:
            self.block = block
            self.work_ms = None if self.started_ms is None or self.work_ms is None else float(int(self.work_ms))
