"""Forks: an execution that begins with the events of another one, and then continues on its own.

A log can be cut only where `is_incomplete` is false: the events of one transition are not split. `Retrace` finds where
a failed execution is resumed: a retry is a fork just before that.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import msgspec

from noetl.classic.state import AfterCallProgress
from noetl.engine import events as e
from noetl.engine.commands import Fork
from noetl.engine.ctx import MAX_CTX_BYTES, patch_ctx
from noetl.engine.limits import encoded_size
from noetl.engine.loops import reopen, return_items, return_lane
from noetl.engine.net import Net
from noetl.engine.patch import apply_patch, plain_patch
from noetl.engine.start import materialised
from noetl.engine.state import Execution, Handlers, Run
from noetl.engine.step_runs import refresh_ready
from noetl.engine.timer_keys import ExecutionTimeout, RunTimeout, StepTimer, WaitLimit, timer_of
from noetl.errors import Conflict, TemplateError, UsageError
from noetl.model.identity import TaskId, step_of

if TYPE_CHECKING:
    from noetl.engine.decision import Decision


def fork(decision: Decision, command: Fork) -> None:
    """Make the execution a fork of its source. A repeated command changes nothing."""
    state, net, workload = decision.state, command.net, None
    if state.forked is not None and state.forked[0] == command.source_id:
        return
    if net is not None:
        check_playbook(state, net)
    defaults = (net or state.net).playbook.workload
    if command.sets_payload or defaults != state.net.playbook.workload:  # else the rendered one stays
        try:
            workload = materialised(decision, defaults, command.payload)
        except TemplateError as error:
            message = f"the workload of this playbook: {error.message} in {error.source[:200]!r}"
            raise Conflict(message) from None
    rest = sum(size for key, size in state.ctx_sizes.items() if key not in command.ctx)
    if command.ctx and rest + encoded_size(command.ctx, MAX_CTX_BYTES) > MAX_CTX_BYTES:
        raise UsageError(f"ctx would take more than {MAX_CTX_BYTES:,} bytes")
    if net is not None:
        state.net = net
    decision.emit(
        e.ExecutionForked(
            command.source_id,
            command.source_seq,
            "fork" if command.retry is None else "retry",
            command.digest,
            workload,
            plain_patch(command.ctx),
            (command.retry,) if command.retry in state.runs else (),
            max(0.0, decision.now - command.since),
            command.reopen,
            command.payload if command.sets_payload else None,
            command.actor,
            command.warnings,
        )
    )


def _forked(state: Execution, event: e.ExecutionForked, at: float) -> None:
    """Drop the leases of the source. A run that waits for a child starts one of its own, because the id of a child
    comes from the execution's. Timers keep their remaining time. Results, `ctx`, signals and progress stay."""
    state.forked, state.parent, state.actor = (event.source_id, event.source_seq), None, event.actor
    state.changed = state.deliverable = True
    if state.status == "paused":
        state.status = "running"
    state.leases.clear()
    for run in state.runs.values():
        _return_run(state, run, event.moved, at)
    for token in state.tokens.values():
        token.due, token.since = _later(token.due, event.moved), at
    for name, due in list(state.timers.items()):
        state.timers[name] = due + event.moved
    if event.workload is not None:
        state.workload = event.workload
    if event.playbook or event.payload is not None:
        state.warnings = event.warnings
    if event.playbook:
        _change_playbook(state, event)
    if event.reason == "retry":
        _retry(state, event, at)
    if event.reopened:
        reopen(state.runs[event.reopened])
    patch_ctx(state, event.set_ctx)
    for run in state.runs.values():
        if run.started is not None or run.loop is not None:
            apply_patch(run.ctx, event.set_ctx)
        state.ready.pop(run.id)
        refresh_ready(state, run)


def _return_run(state: Execution, run: Run, moved: float, at: float) -> None:
    run.since = at
    if run.loop is not None:
        for rest in run.loop.lanes.values():
            return_lane(run, run.loop, *rest)
        run.loop.lanes.clear()
    run.fence = None
    run.losses.clear()
    for _, progress in run.all_progress():
        progress.due = _later(progress.due, moved)
    for key, parked in list(run.parked.items()):
        if parked.until != "child":
            parked.due, parked.since = _later(parked.due, moved), at
            continue
        run.parked.pop(key)  # the child belongs to the source: its task runs once more, and starts another one
        state.timers.pop(WaitLimit(run.id, key).name, None)
        in_item = run.loop is not None and not parked.chain
        waiting = run.pipelines(key).get("") if in_item else run.progress.get(parked.chain)
        if waiting is not None:
            waiting.started = False
        if run.loop is not None and in_item:
            return_items(run, run.loop, (key, key + 1))


def _later(due: float | None, moved: float) -> float | None:
    return None if due is None else due + moved


def _change_playbook(state: Execution, event: e.ExecutionForked) -> None:
    """The caller of the fold exchanges the net. Tokens stay at its steps, which may join where they did not."""
    state.digest = event.playbook
    state.unadmitted.clear()
    state.waiting.clear()
    for token in state.tokens.values():
        if token.id in state.delayed:
            continue
        if state.net.steps[token.step].joins:
            state.waiting.setdefault(token.step, []).append(token.id)
        elif token.id not in state.held:
            state.unadmitted[token.id] = None


def _retry(state: Execution, event: e.ExecutionForked, at: float) -> None:
    """Failed tasks are visited once more, and time limits start again."""
    limits = {ExecutionTimeout().name: state.net.playbook.executor.timeout}
    limits |= {RunTimeout(name).name: state.net.steps[state.runs[name].step].timeout for name in event.again}
    for timer, limit in limits.items():
        if timer in state.timers and limit is not None:
            state.timers[timer] = at + limit
    for name in event.again:
        run = state.runs[name]
        for _, progress in run.all_progress():
            if progress.failure is not None:
                progress.at, progress.attempt, progress.repeats = progress.failure[1], 1, 0
                progress.started = progress.ended = False
                progress.due = progress.delivered = progress.failure = None
        after = run.after_call
        if after is not None and after.failure is not None and not after.failure_handled:
            run.after_call = AfterCallProgress()  # its call runs again, and nothing has handled the failure


def check_playbook(state: Execution, net: Net) -> None:
    """Conflict if a run in this state cannot continue with the playbook."""
    if faults := list(conflicts(state, net)):
        raise Conflict("the run cannot continue with this playbook: " + "; ".join(faults))


def conflicts(state: Execution, net: Net) -> Iterator[str]:
    places = [(f"token {token.id}", token.step) for token in state.tokens.values()]
    places += [(run.id, run.step) for run in state.runs.values()]
    places += [(run, step_of(run)) for run in state.ended]
    for name, step in places:
        if step not in net.steps:
            yield f"{name} is at the step {step!r}, which it does not have"
    for run in state.runs.values():
        if run.step not in net.steps:
            continue
        plan = net.steps[run.step]
        if (run.loop is None) != (plan.step.loop is None):
            before, after = ("no loop", "a loop") if run.loop is None else ("a loop", "no loop")
            yield f"{run.id} is running as {before}, and the step {run.step!r} is {after} there"
        elif (run.after_call is None) != (plan.after_call is None):
            yield f"{run.id} is running, and the step {run.step!r} belongs to another dialect there"
        elif not plan.step.tasks and run.after_call is None:
            yield f"{run.id} is running, and the step {run.step!r} has no task there"
        for path, progress in run.all_progress():
            labels = [link.label for link in plan.step.links_at(path)]
            current = [progress.at if not progress.ended else None, progress.failure[1] if progress.failure else None]
            for label in filter(None, current):
                if label not in labels:
                    yield f"{run.id} is at the task {label!r}, which the step {run.step!r} does not have there"


# -- where a log can be cut -----------------------------------------------------------------------------------------


def is_incomplete(state: Execution, event: e.Event) -> bool:
    """Whether the event, the last one of the state, is not the last one of its transition."""
    if state.next_token == 1 or state.partial_values or state.inlined_values or state.status == "cancelling":
        return True
    if any(ended.tokens > 0 for ended in state.ended.values()):
        return True
    if state.finished is not None and not state.runs and not state.ended:
        return True
    run = state.runs.get(_run_of(event))
    if run is None:
        return False
    plan, loop = state.net.steps[run.step], run.loop
    if plan.after_call is not None and plan.after_call.is_incomplete(state, event):
        return True
    timer = timer_of(event.timer) if isinstance(event, e.TimerFired) else None
    if isinstance(timer, RunTimeout) or (isinstance(timer, WaitLimit) and timer.item in run.parked):
        return True
    # whether the run is at a point where the engine itself decides what comes next
    if not plan.step.tasks and plan.step.after_call is None:
        return True
    if plan.step.loop is None or (run.after_call is not None and run.after_call.call_has_ended):
        return False
    return loop is None or loop.finished == loop.total or (loop.failed > 0 and plan.step.loop.on_error == "fail")


def _run_of(event: Any) -> str:
    if isinstance(event, e.TimerFired | e.TimerArmed):
        key = timer_of(event.timer)
        return key.run if isinstance(key, RunTimeout | WaitLimit | StepTimer) else ""
    task = getattr(event, "task", None)
    return task.run if isinstance(task, TaskId) else getattr(event, "run", "")


class Retrace:
    """Watches a fold for the last point before the failure."""

    def __init__(self) -> None:
        self.settled = 0  # the last event after which the log could be cut
        self.before: dict[str, int] = {}  # where it could be cut before a run failed
        self.failure: tuple[int, str] | None = None
        self.ending = 0

    def see(self, state: Execution, event: e.Event) -> None:
        """Take an event that is already in the state."""
        if isinstance(event, e.StepFailed):
            self.before[event.run] = self.settled
        if isinstance(event, e.WorkflowFinished) and not self.ending:
            self.ending = self.settled
        if self.failure is None and (state.failure is not None or isinstance(event, e.PlaybookCancelled)):
            run = event.run if isinstance(event, e.NextEvaluated) and event.run in self.before else ""
            self.failure = self.before.get(run, self.settled), run
        if isinstance(event, e.NextEvaluated):
            self.before.pop(event.run, None)
        if not is_incomplete(state, event):
            self.settled = state.seq

    def point(self) -> tuple[int, str]:
        """After which event an execution is resumed, and which run failed; none if only its end has to be repeated."""
        return self.failure or (self.ending, "")


class FailedItems:
    """Watches a fold for loops that end with failed items: a fork just before such an end can run these again."""

    def __init__(self) -> None:
        self.loops: dict[str, int] = {}  # the last event before the end, by run

    def see(self, state: Execution, event: e.Event) -> None:
        """Take an event that is not in the state yet."""
        run = state.runs.get(event.run) if isinstance(event, e.LoopDone | e.StepFailed) else None
        if run is not None and run.loop is not None and run.loop.failed and run.loop.finished == run.loop.total:
            self.loops[run.id] = state.seq


class AgainView(msgspec.Struct, frozen=True):
    """A step run that continues: its next task, or the number of items that its loop still runs; neither if a loop
    starts."""

    run: str
    step: str
    task: str | None
    items: int | None
    failed: bool


def under_way(state: Execution, failed: str = "", begins_with: str = "") -> list[AgainView]:
    """The first work of a fork of this state: runs that continue, each with its next task, and a run that starts
    again."""
    runs = []
    for run in state.runs.values():
        progress, labels, task = run.progress.get(""), state.net.steps[run.step].labels, None
        if run.loop is None and labels:
            at = progress.failure[1] if progress and progress.failure else progress.at if progress else None
            task = at or labels[0]
        items = None if run.loop is None else run.loop.total - run.loop.ok
        runs.append(AgainView(run.id, run.step, task, items, run.id == failed))
    if begins_with:
        plan = state.net.steps[step := step_of(begins_with)]
        task = plan.labels[0] if plan.labels and plan.step.loop is None else None
        runs.append(AgainView(begins_with, step, task, None, False))
    return runs


def kept_steps(state: Execution, net: Net) -> tuple[frozenset[str], frozenset[str]]:
    """Steps that no token can start in a fork, and steps that no token can start again although their open loop, which
    keeps its items, continues."""
    loops = {run.step for run in state.runs.values() if run.loop is not None and state.occupancy[run.step] == 1}
    final = net.playbook.final
    reached = {final} if final is not None and state.finished is None else set()
    remaining = [*state.occupancy, *reached]
    while remaining:
        plan = net.steps.get(remaining.pop())
        for target in set(plan.targets(net.steps)) - reached if plan is not None else ():
            reached.add(target)
            remaining.append(target)
    return frozenset(net.steps) - reached - state.occupancy.keys(), frozenset(loops - reached)


HANDLERS: Handlers = {e.ExecutionForked: _forked}
