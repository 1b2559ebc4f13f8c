"""The history of one step run, or of one item of its loop: leases, waits, writes and attempts of tasks."""

from __future__ import annotations

from typing import Any

import msgspec

from noetl.engine import events as e
from noetl.engine.envelope import subject_of
from noetl.engine.history.event_summaries import event_summary
from noetl.engine.history.item_clock import END_EVENTS, InFlight, ItemClock
from noetl.engine.patch import Patch
from noetl.model.identity import TaskId

MAX_LEASES, MAX_WAITS, MAX_WRITES, MAX_VISITS, MAX_ATTEMPTS = 100, 100, 200, 200, 100


class LeaseRecord(msgspec.Struct):
    fence: int
    worker: str
    start: float
    items: tuple[int, int] | None = None
    end: float | None = None
    end_reason: str | None = None  # `ended`, or why it ended before its work: `lost`, `returned`, `waiting`, `forked`

    def close(self, at: float, reason: str) -> None:
        if self.end is None:
            self.end, self.end_reason = at, reason


class WaitRecord(msgspec.Struct):
    item: int | None
    until: str
    names: tuple[str, ...]  # of the signals, or the id of the child
    task: str  # the label of the task that waits
    due: float | None
    since: float
    message: str
    end: float | None = None


class WriteRecord(msgspec.Struct):
    seq: int
    scope: str
    key: str
    op: str
    value: Any


class AttemptRecord(msgspec.Struct):
    attempt: int
    seq: int
    started: float
    duration_ms: float | None = None
    status: str = "running"  # then that of its outcome, `skipped` or `lost`
    do: str | None = None
    to: str | None = None
    error: Any = None
    due: float | None = None  # when the next attempt is due


class StepRunHistory:
    """Takes the events of one run in order. Lists are limited; `truncated` says whether one was cut."""

    def __init__(self, run: str, item: int | None = None) -> None:
        self.run, self.item = run, item
        self.status = "scheduled"
        self.scheduled: float | None = None
        self.started: float | None = None
        self.ended: float | None = None
        self.leases: list[LeaseRecord] = []
        self.waits: list[WaitRecord] = []
        self.writes: list[WriteRecord] = []
        self.visits: dict[TaskId, list[AttemptRecord]] = {}
        self.children: list[str] = []
        self.result: Any = None
        self.error: Any = None
        self.work_ms = 0.0  # of the tasks of an item, without its waits
        self.duration_ms: int | None = None  # of an item that has ended, if it is known
        self.truncated = False
        self._clock = ItemClock()
        self._wait_ms = 0.0  # of the present task, which reports it as a part of its duration
        self._started_tasks: dict[str, str] = {}  # the label of the latest one by chain

    def resume(self, block: int, item: InFlight | None) -> None:
        """Continue after a block whose events are left out, with the item in flight at its end; None if it is not."""
        self._clock.resume(block, item)
        self.work_ms = 0.0 if item is None else float(item.work_ms)

    def take(self, event: e.Event, seq: int, at: float) -> None:
        run, index, task = subject_of(event)
        if isinstance(event, e.ExecutionForked):
            for lease in self.leases:
                self._end_lease(lease, at, "forked")
            for wait in self.waits:
                if wait.until == "child" and wait.end is None:  # the child belongs to the source
                    self._resume(wait.item, at)
        if isinstance(event, END_EVENTS) and run in (None, self.run):
            self._clock.stop()
        if run != self.run:
            return
        if task is not None:
            if index == self.item:
                self._take_task(event, task, seq, at)
            return
        match event:
            case e.StepScheduled():
                self.scheduled = at
            case e.StepStarted(items=items):
                if items is None or self.item is None or items[0] <= self.item < items[1]:
                    self._grant(event, at)
            case e.StepPaused(fence=fence, reason=reason):
                self._pause(event, at)
                for lease in self.leases:
                    if lease.fence == fence:
                        self._end_lease(lease, at, reason)
            case e.StepResumed() if self.item is None or index == self.item:
                self._resume(index, at)
            case e.IterationStarted() if index == self.item:
                self._start_item(seq, at)
            case e.IterationDone(result=result):
                self._end_item(index, seq, at, "succeeded", result, None)
            case e.IterationFailed(error=error):
                self._end_item(index, seq, at, "failed", None, error)
            case e.StepDone(result=result) | e.LoopDone(result=result):
                self._end(at, "succeeded", result, None)
            case e.StepFailed(error=error):
                self._end(at, "failed", None, error)

    def conclude(self, at: float, is_over: bool) -> None:
        """The last event of the log; what has not ended by the end of the execution was cancelled."""
        if self.ended is None and is_over:
            self._finish(at, "cancelled", None, None)
            self._close_leases(at)

    def work_until(self, at: float) -> float:
        """Milliseconds for which the tasks of an item have worked, the present one included."""
        if self.duration_ms is not None:
            return self.work_ms
        last = [attempts[-1] for task, attempts in self.visits.items() if attempts and "/" not in task.path]
        present = sum((at - attempt.started) * 1000 for attempt in last if attempt.status == "running")
        return self.work_ms + max(0.0, present - self._wait_ms)

    # -- parts --------------------------------------------------------------------------------------------------------

    def _grant(self, event: e.StepStarted, at: float) -> None:
        if self.item is None:
            self.started = at if self.started is None else self.started
            self.status = "running"
        lease = LeaseRecord(event.fence, event.worker, at, event.items)
        self._append(self.leases, lease, MAX_LEASES)

    def _end_lease(self, lease: LeaseRecord, at: float, reason: str) -> None:
        """A lease that ends before its run; items of a loop may have others."""
        lease.close(at, reason)
        if lease.items is None and self.status == "running":
            self.status = "scheduled"

    def _pause(self, event: e.StepPaused, at: float) -> None:
        if event.until is None or (self.item is not None and event.index != self.item):
            return
        names = event.keys or ((event.key,) if event.until in ("signal", "child") else ())
        task = self._started_tasks.get(event.chain, "") if event.index == self.item else ""
        wait = WaitRecord(event.index, event.until, names, task, event.due, at, event_summary(event))
        self._append(self.waits, wait, MAX_WAITS)
        if event.until == "child":
            self._append(self.children, event.key, MAX_WAITS)
        if event.index == self.item:
            self.status = "waiting"

    def _resume(self, index: int | None, at: float) -> None:
        for wait in self.waits:
            if wait.item == index:
                self._end_wait(wait, at)
        if index == self.item:
            self.status = "scheduled" if self.item is None else "running"

    def _end_wait(self, wait: WaitRecord, at: float) -> None:
        if wait.end is None:
            wait.end = at
            if wait.item == self.item and wait.until != "retry":  # attempts have their own durations
                self._wait_ms += max(0.0, at - wait.since) * 1000

    def _start_item(self, seq: int, at: float) -> None:
        if not self._clock.is_running:  # else another worker starts it again
            self.started, self.ended, self.result, self.error = at, None, None, None
            self.work_ms, self._wait_ms, self.duration_ms = 0.0, 0.0, None
        self.status = "running"
        self._clock.start(seq, at)

    def _end_item(self, index: int | None, seq: int, at: float, status: str, result: Any, error: Any) -> None:
        if self.item is not None and index == self.item:
            self.duration_ms = self._clock.end(seq, at)
            self._finish(at, status, result, error)
            self._close_leases(at)  # that the worker goes on with other items is not the item's
        for lease in self.leases:
            if lease.items is not None and index is not None and lease.items[1] == index + 1:
                lease.close(at, "ended")

    def _end(self, at: float, status: str, result: Any, error: Any) -> None:
        if self.item is None:
            self._finish(at, status, result, error)
        self._close_leases(at)

    def _finish(self, at: float, status: str, result: Any, error: Any) -> None:
        self.ended, self.status, self.result, self.error = at, status, result, error
        for wait in self.waits:
            self._end_wait(wait, at)

    def _close_leases(self, at: float) -> None:
        for lease in self.leases:
            lease.close(at, "ended")

    def _take_task(self, event: e.Event, task: TaskId, seq: int, at: float) -> None:
        if isinstance(event, e.TaskStarted):
            self._started_tasks[task.chain] = task.label
            if self.item is not None and self.started is not None:  # stored with the report of its first task
                self.started = min(self.started, event.began(at))
        attempts = self.visits.get(task)
        if attempts is None:
            if len(self.visits) >= MAX_VISITS:
                self.truncated = True
                return
            attempts = self.visits[task] = []
        match event:
            case e.TaskStarted(attempt=number):
                if attempts and attempts[-1].status == "running":
                    attempts[-1].status = "lost"  # with its worker: an attempt that ends says so before the next one
                self._append(attempts, AttemptRecord(number, seq, event.began(at)), MAX_ATTEMPTS)
            case e.TaskDone():
                self._finish_attempt(attempts, event, seq, at)
            case e.TaskRetryScheduled(due=due):
                if attempts:
                    attempts[-1].due = due or None

    def _finish_attempt(self, attempts: list[AttemptRecord], event: e.TaskDone, seq: int, at: float) -> None:
        if not attempts or attempts[-1].attempt != event.attempt or attempts[-1].status != "running":
            attempt = AttemptRecord(event.attempt, seq, at - event.duration_ms / 1000)
            self._append(attempts, attempt, MAX_ATTEMPTS)
        else:
            attempt = attempts[-1]
        attempt.seq, attempt.duration_ms, attempt.do, attempt.to = seq, event.duration_ms, event.do, event.to
        attempt.status = "skipped" if event.skipped else event.outcome.status
        attempt.error = event.error or event.outcome.error
        if "/" not in event.task.path:  # a task inside of another is part of its time
            self.work_ms += max(0.0, event.duration_ms - self._wait_ms)
            self._wait_ms = 0.0
            self._clock.add_work(seq, event.duration_ms)
        self._write(seq, "ctx", event.set_ctx)
        self._write(seq, "iter", event.set_iter)

    def _write(self, seq: int, scope: str, patch: Patch) -> None:
        for key, op, value in patch:
            self._append(self.writes, WriteRecord(seq, scope, key, op, value), MAX_WRITES)

    def _append(self, parts: list[Any], part: Any, limit: int) -> None:
        if len(parts) < limit:
            parts.append(part)
        else:
            self.truncated = True
