"""The invariant of loops."""

from __future__ import annotations

from typing import TYPE_CHECKING

from noetl.engine import events as e
from noetl.engine.history.verify.check import Handlers, Intervals, LogCheck, loop_of
from noetl.model.identity import step_of

if TYPE_CHECKING:
    from noetl.engine.history.verify.log import Log


class Loops(LogCheck):
    """No more items in flight than allowed, each index once, in order where it matters, one end with true counts."""

    name = "loops"

    def __init__(self, log: Log) -> None:
        super().__init__(log)
        self.total: dict[str, int] = {}
        self.failed: dict[str, int] = {}

    def handlers(self) -> Handlers:
        return {
            e.LoopStarted: self._started,
            e.IterationStarted: self._item_started,
            e.IterationDone: self._item_done,
            e.IterationFailed: self._item_failed,
            e.LoopDone: self._done,
            e.StepDone: self._ended,
            e.StepFailed: self._ended,
        }

    def _started(self, event: e.LoopStarted) -> None:
        run = event.run
        if run in self.total:
            self.fail(f"the loop of {run} started twice")
        self.total[run], self.failed[run] = event.total, 0
        self.log.finished[run] = Intervals()

    def _item_started(self, event: e.IterationStarted) -> None:
        run, index = event.run, event.index
        finished = self.log.finished.get(run)
        if finished is None:
            self.fail(f"item {index} of {run}, whose loop has not started")
        elif index in finished:
            self.fail(f"item {index} of {run} started after it was finished")
        elif index != finished.count and (loop := loop_of(self.log.net, run)) and loop.mode == "sequential":
            self.fail(f"item {index} of {run} started where {finished.count} is next")

    def _item_failed(self, event: e.IterationFailed) -> None:
        self._item_done(event)
        self.failed[event.run] = self.failed.get(event.run, 0) + 1

    def _item_done(self, event: e.IterationDone | e.IterationFailed) -> None:
        run, index = event.run, event.index
        finished = self.log.finished.get(run)
        if finished is None:
            finished = self.log.finished[run] = Intervals()
        if not finished.add(index):
            self.fail(f"item {index} of {run} was finished twice")
        elif not 0 <= index < self.total.get(run, 0):
            self.fail(f"item {index} of {run} was finished, and there are {self.total.get(run, 0)}")

    def _done(self, event: e.LoopDone) -> None:
        items, total, failed = self._ended(event)
        if total is None:
            self.fail(f"the loop of {event.run} is done, and it had not started or was done before")
            return
        plan = self.log.net.steps.get(step_of(event.run))
        finished = total if plan is not None and not plan.step.tasks else items.count if items is not None else 0
        if (event.total, event.ok + event.failed, finished, event.failed) != (total, total, total, failed):
            self.fail(
                f"the loop of {event.run} is done with {event.ok} ok and {event.failed} failed items; "
                f"it has {total}, of which {finished} are finished and {failed} failed"
            )

    def _ended(self, event: e.LoopDone | e.StepDone | e.StepFailed) -> tuple[Intervals | None, int | None, int]:
        """Drop and return the finished items of the loop, their total and the number of failed ones."""
        run = event.run
        return self.log.finished.pop(run, None), self.total.pop(run, None), self.failed.pop(run, 0)


class InFlight(LogCheck):
    """The part of `loops` that looks at the lanes under way: no more of them than allowed, and none beyond the end."""

    name = Loops.name
    part = "fold"

    def handlers(self) -> Handlers:
        return {e.StepStarted: self._granted, e.StepRegranted: self._granted}

    def _granted(self, event: e.StepStarted | e.StepRegranted) -> None:
        plan = self.log.net.steps.get(step_of(event.run))
        run = self.log.state.runs.get(event.run) if self.log.foldable else None
        if event.items is None or plan is None or run is None or run.loop is None:
            return
        flying = len(run.loop.lanes) + len(run.parked) + 1
        if flying > plan.lanes:
            self.fail(f"{flying} items of {event.run} are in flight, and {plan.lanes} may be")
        if not 0 <= event.items[0] < event.items[1] <= run.loop.total:
            self.fail(f"items {event.items} of {event.run} were granted, and there are {run.loop.total}")
