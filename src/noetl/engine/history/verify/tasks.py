"""Invariants of tasks and leases: one accepted outcome per attempt, and nothing without a lease."""

from __future__ import annotations

from typing import TYPE_CHECKING

from noetl.classic.events import BranchSuppressed, NextRequested
from noetl.engine import events as e
from noetl.engine.history.verify.check import Handlers, LogCheck
from noetl.model.identity import TaskId, iteration_id

if TYPE_CHECKING:
    from noetl.engine.history.verify.log import Log

Item = dict[str, tuple[int, int, bool]]
"""Of each task of an item the latest visit with an outcome: its number, the attempt, and whether that was the last one.
Visits of a task follow each other, so one before the latest is over."""
NONE = (0, 0, False)


class Outcomes(LogCheck):
    """A visit of a task has one accepted outcome per attempt; attempts rise by one; after the last comes nothing."""

    name = "outcomes"

    def __init__(self, log: Log) -> None:
        super().__init__(log)
        self.runs: dict[str, dict[int | None, Item]] = {}

    def handlers(self) -> Handlers:
        return {
            e.TaskStarted: self._started,
            e.TaskDone: self._done,
            **dict.fromkeys((e.IterationDone, e.IterationFailed), self._drop_item),
            **dict.fromkeys((e.StepDone, e.StepFailed, e.LoopDone), self.drop_run),
            **dict.fromkeys((e.WorkflowFinished, e.PlaybookCancelled), self.drop_all),
        }

    def _started(self, event: e.TaskStarted) -> None:
        task = event.task
        name, _, visit = task.path.rpartition("#")
        attempt, closed = self._before(task, name, int(visit))
        if closed or event.attempt != attempt + 1:
            self.fail(f"{task} started attempt {event.attempt}, which has an outcome or is not the next one")

    def _done(self, event: e.TaskDone) -> None:
        task, attempt = event.task, event.attempt
        name, _, text = task.path.rpartition("#")
        visit = int(text)
        before, closed = self._before(task, name, visit)
        if attempt <= before:
            self.fail(f"{task} has an outcome of attempt {attempt} after one of attempt {before}")
        elif attempt > before + 1:
            self.fail(f"{task} has an outcome of attempt {attempt}, and none of attempt {before + 1}")
        if closed:
            self.fail(f"{task} has an outcome after its last one")
        item = self.runs.setdefault(task.run, {}).setdefault(task.index, {})
        over = event.do != "retry"
        item[name] = visit, attempt, over
        if over and len(item) > 1:
            for inside in [other for other in item if other.startswith(f"{task.path}[")]:
                del item[inside]

    def _before(self, task: TaskId, name: str, visit: int) -> tuple[int, bool]:
        """The last attempt of the visit that has an outcome, and whether no other may follow."""
        run, index = self.runs.get(task.run), task.index
        item = run.get(index) if run is not None else None
        if item is None:
            finished = self.log.finished.get(task.run)
            return 0, finished is not None and index is not None and index in finished
        latest, attempt, closed = item.get(name, NONE)
        if visit < latest:
            return 0, True
        if "[" in name and self._is_inside_closed(item, name):
            return attempt if visit == latest else 0, True
        return (attempt, closed) if visit == latest else (0, False)

    def _is_inside_closed(self, item: Item, name: str) -> bool:
        """Whether an iterator task around the task has its last outcome: `each#1` around `each#1[3]/save`."""
        outer, _, visit = name.rpartition("[")[0].rpartition("#")
        latest, _, closed = item.get(outer, NONE)
        return int(visit) < latest or (closed and int(visit) == latest)

    def _drop_item(self, event: e.IterationDone | e.IterationFailed) -> None:
        """`loops` knows that it is finished."""
        run = self.runs.get(event.run)
        if run is not None:
            run.pop(event.index, None)


class Fences(LogCheck):
    """Fences rise by one, and a report of a worker is accepted only under a lease that is alive."""

    name = "fences"
    part = "fold"

    def handlers(self) -> Handlers:
        tasks = (e.TaskStarted, e.TaskDone, e.TaskRetryScheduled, e.PollStarted, e.PollIteration, e.PollFinished)
        items = (e.IterationStarted, e.IterationDone, e.IterationFailed)
        runs = (e.StepDone, NextRequested, BranchSuppressed)
        return {
            e.StepStarted: self._granted,
            e.StepRegranted: self._granted,
            e.StepPaused: self._paused,
            **dict.fromkeys(tasks, lambda event: self._reported(event, event.task.run, event.task.index)),
            **dict.fromkeys(items, lambda event: self._reported(event, event.run, event.index)),
            **dict.fromkeys(runs, lambda event: self._reported(event, event.run, None)),
        }

    def _granted(self, event: e.StepStarted | e.StepRegranted) -> None:
        """A lease is not granted on what another live lease covers."""
        if not self.log.foldable:
            return
        state, items = self.log.state, event.items
        if event.fence != state.fence + 1:
            self.fail(f"the lease {event.fence} was granted after {state.fence}")
        run = state.runs.get(event.run)
        if run is None:
            return
        if items is None and run.fence is not None:
            self.fail(f"{run.id} was granted again, and its lease {run.fence} is alive")
        for fence, (first, last) in run.loop.lanes.items() if run.loop and items else ():
            if items and items[0] < last and first < items[1]:
                self.fail(f"items {items} of {run.id} were granted again, and the lease {fence} is alive")

    def _paused(self, event: e.StepPaused) -> None:
        lease = self.log.state.leases.get(event.fence)
        if self.log.foldable and (lease is None or lease.run != event.run):
            self.fail(f"{event.run} gave back the lease {event.fence}, which it does not hold")

    def _reported(self, event: e.Event, name: str, index: int | None) -> None:
        state = self.log.state
        run = state.runs.get(name)
        if run is None or not self.log.foldable:
            return  # reported by `runs`
        if index is None:
            if run.fence is not None and run.fence in state.leases:
                return
        elif run.loop is not None:
            for first, last in run.loop.lanes.values():
                if first <= index < last:
                    return
        self.fail(f"{event.name} of {iteration_id(name, index)} was accepted, and no lease on it is alive")
