"""Invariants of a log as a whole: its end, cancelling, forking."""

from __future__ import annotations

from noetl.engine import events as e
from noetl.engine.history.verify.check import Check, Handlers, Watched

BEGINNINGS: tuple[type[e.Event], ...] = (
    e.TokenEnqueued,
    e.StepScheduled,
    e.StepStarted,
    e.StepRegranted,
    e.LoopStarted,
    e.IterationStarted,
    e.TaskStarted,
    e.TimerArmed,
)


class OneEnd(Check):
    """There is one terminal event, and nothing after it."""

    name = "terminal"

    def __init__(self, log: Watched) -> None:
        super().__init__(log)
        self.finished = self.processed = 0

    def handlers(self) -> Handlers:
        return {e.WorkflowFinished: self._finish, e.PlaybookProcessed: self._process}

    def _finish(self, event: e.WorkflowFinished) -> None:
        if self.finished:
            self.fail("the workflow finished twice")
        self.finished = self.log.seq

    def _process(self, event: e.PlaybookProcessed) -> None:
        if not self.processed:
            self.log.watch(dict.fromkeys(e.EVENTS.values(), self._late))
        self.processed = self.log.seq

    def _late(self, event: e.Event) -> None:
        self.fail(f"{event.name} comes after the end, which is {self.processed}")


class Cancelled(Check):
    """After a cancel nothing is scheduled, granted or started."""

    name = "cancel"

    def __init__(self, log: Watched) -> None:
        super().__init__(log)
        self.cancelled = False

    def handlers(self) -> Handlers:
        return {e.PlaybookCancelled: self._cancel}

    def _cancel(self, event: e.PlaybookCancelled) -> None:
        if not self.cancelled:
            self.log.watch(dict.fromkeys(BEGINNINGS, self._begin))
        self.cancelled = True

    def _begin(self, event: e.Event) -> None:
        self.fail(f"{event.name} comes after the cancel")


class Forks(Check):
    """What a fork says of its source is true: all that came before it are the source's events."""

    name = "fork"

    def handlers(self) -> Handlers:
        return {e.ExecutionForked: self._forked}

    def _forked(self, event: e.ExecutionForked) -> None:
        if event.source_id == self.log.execution:
            self.fail("is said to be a fork of itself")
        if event.source_seq != self.log.seq - 1:
            self.fail(f"follows {self.log.seq - 1} events, and is said to share {event.source_seq} with its source")
