"""Invariants of loops, tasks and leases."""

from __future__ import annotations

from noetl.classic.events import BranchSuppressed, NextRequested
from noetl.engine import events as e
from noetl.engine.history.verify.log import Handlers, Intervals, LogCheck, LogReader, loop_of
from noetl.model.identity import TaskId, iteration_id, step_of

Item = dict[str, tuple[int, int, bool]]
"""Of each task of an item the latest visit with an outcome: its number, the attempt, and whether that was the last one.
Visits of a task follow each other, so one before the latest is over."""
NONE = (0, 0, False)


class Outcomes(LogCheck):
    """A visit of a task has one accepted outcome per attempt; attempts rise by one; after the last comes nothing."""

    name = "outcomes"
    runs: dict[str, dict[int | None, Item]]

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
        if "[" in name:  # an iterator task around it may have its last outcome: `each#1` around `each#1[3]/save`
            outer, _, outer_visit = name.rpartition("[")[0].rpartition("#")
            outer_latest, _, outer_closed = item.get(outer, NONE)
            if int(outer_visit) < outer_latest or (outer_closed and int(outer_visit) == outer_latest):
                return attempt if visit == latest else 0, True
        return (attempt, closed) if visit == latest else (0, False)

    def _drop_item(self, event: e.IterationDone | e.IterationFailed) -> None:
        run = self.runs.get(event.run)
        if run is not None:
            run.pop(event.index, None)


class Fences(LogCheck):
    """Fences rise by one, and a report of a worker is accepted only under a valid lease."""

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

    def _granted(self, event: e.StepStarted) -> None:
        """A lease does not cover what another live one covers; for `loops`: not too many lanes, none beyond the end."""
        if not self.log.foldable:
            return
        state, items, plan = self.log.state, event.items, self.log.net.steps.get(step_of(event.run))
        if event.fence != state.fence + 1:
            self.fail(f"lease {event.fence} was granted after lease {state.fence}")
        run = state.runs.get(event.run)
        if run is not None and items is None and run.fence is not None:
            self.fail(f"{run.id} was granted again, but its lease {run.fence} is still valid")
        if run is None or run.loop is None or items is None:
            return
        for fence, (first, last) in run.loop.lanes.items():
            if items[0] < last and first < items[1]:
                self.fail(f"items {items} of {run.id} were granted again, but lease {fence} is still valid")
        flying = len(run.loop.lanes) + len(run.parked) + 1
        if plan is not None and flying > plan.lanes:
            message = f"{flying} items of {run.id} are in flight, more than the maximum of {plan.lanes}"
            self.log.note(Loops.name, message)
        if not 0 <= items[0] < items[1] <= run.loop.total:
            message = f"items {items} of {run.id} were granted, but the loop has {run.loop.total} items"
            self.log.note(Loops.name, message)

    def _paused(self, event: e.StepPaused) -> None:
        lease = self.log.state.leases.get(event.fence)
        if self.log.foldable and (lease is None or lease.run != event.run):
            self.fail(f"{event.run} returned lease {event.fence}, which it does not hold")

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
        self.fail(f"{event.name} of {iteration_id(name, index)} was accepted without a valid lease on it")


class Loops(LogCheck):
    """No more items in flight than allowed, each index once, in order where it matters, one end with true counts."""

    name = "loops"

    def __init__(self, log: LogReader) -> None:
        super().__init__(log)
        self.total: dict[str, int] = {}
        self.failed: dict[str, Intervals] = {}

    def handlers(self) -> Handlers:
        return {
            e.LoopStarted: self._started,
            e.IterationStarted: self._item_started,
            e.IterationDone: self._item_done,
            e.IterationFailed: self._item_failed,
            e.LoopDone: self._done,
            e.StepDone: self._ended,
            e.StepFailed: self._ended,
            e.ExecutionForked: self._reopened,
        }

    def _reopened(self, event: e.ExecutionForked) -> None:
        finished = self.log.finished.get(event.reopened)
        if finished is not None:
            self.log.finished[event.reopened] = finished.without(self.failed.pop(event.reopened, Intervals()))
        elif event.reopened:
            self.fail(f"the failed items of {event.reopened} run again, but its loop is not under way")

    def _started(self, event: e.LoopStarted) -> None:
        run = event.run
        if run in self.total:
            self.fail(f"the loop of {run} started twice")
        self.total[run] = event.total
        self.log.finished[run] = Intervals()

    def _item_started(self, event: e.IterationStarted) -> None:
        run, index, finished = event.run, event.index, self.log.finished.get(event.run)
        if finished is None:
            self.fail(f"item {index} of {run} started before its loop")
        elif index in finished:
            self.fail(f"item {index} of {run} started after it was finished")
        elif index != finished.missing and (loop := loop_of(self.log.net, run)) and loop.mode == "sequential":
            self.fail(f"item {index} of {run} started, but item {finished.missing} is next")

    def _item_failed(self, event: e.IterationFailed) -> None:
        self._item_done(event)
        self.failed.setdefault(event.run, Intervals()).add(event.index)

    def _item_done(self, event: e.IterationDone | e.IterationFailed) -> None:
        run, index = event.run, event.index
        finished = self.log.finished.get(run)
        if finished is None:
            finished = self.log.finished[run] = Intervals()
        if not finished.add(index):
            self.fail(f"item {index} of {run} was finished twice")
        elif not 0 <= index < self.total.get(run, 0):
            self.fail(f"item {index} of {run} was finished, but the loop has {self.total.get(run, 0)} items")

    def _done(self, event: e.LoopDone) -> None:
        items, total, failed = self._ended(event)
        if total is None:
            self.fail(f"the loop of {event.run} is done, but it had not started or was done before")
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
        failed = self.failed.pop(run, None)
        return self.log.finished.pop(run, None), self.total.pop(run, None), failed.count if failed is not None else 0
