"""Forks: an execution that begins with the events of another one, and then goes its own way.

`half_told` says after which events that can be: what the engine decides in one breath is not torn apart. `failure_of`
finds where a failed execution is to be taken up again: a retry is a fork just before that.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from noetl.engine import events as e
from noetl.engine.commands import Fork
from noetl.engine.fit import weight
from noetl.engine.net import Net, StepPlan
from noetl.engine.patch import plain_patch
from noetl.engine.start import materialised
from noetl.engine.state import MAX_CTX_BYTES, Execution, Progress, Run
from noetl.engine.turn import Turn
from noetl.errors import Conflict, TemplateError, UsageError
from noetl.model.identity import TaskId, step_of
from noetl.model.playbook import Goto, Step, Task

# -- the decision ---------------------------------------------------------------------------------------------------


def fork(turn: Turn, command: Fork) -> None:
    """Leave the source behind. Asked twice, it is one fork."""
    state = turn.state
    if state.forked is not None and state.forked[0] == command.source_id:
        return
    workload = None
    if command.net is not None:
        if faults := list(hindrances(state, command.net)):
            raise Conflict("the run can't go on with this playbook: " + "; ".join(faults))
        workload = _workload(turn, command, command.net)
    _check_ctx(state, command.ctx)
    if command.net is not None:
        state.net = command.net
    turn.emit(
        e.ExecutionForked(
            command.source_id,
            command.source_seq,
            "fork" if command.retry is None else "retry",
            command.digest,
            workload,
            plain_patch(command.ctx),
            (command.retry,) if command.retry in state.runs else (),
            max(0.0, turn.now - command.since),
        )
    )


def _workload(turn: Turn, command: Fork, net: Net) -> dict[str, Any] | None:
    """The payload laid over the edited workload; None if nothing was edited there: then what was rendered stays."""
    defaults = net.playbook.workload
    if defaults == turn.state.net.playbook.workload:
        return None
    try:
        return materialised(turn, defaults, command.payload)
    except TemplateError as error:
        raise Conflict(f"the workload of this playbook: {error.message} in {error.source[:200]!r}") from None


def _check_ctx(state: Execution, ctx: dict[str, Any]) -> None:
    kept = sum(size for key, size in state.ctx_weights.items() if key not in ctx)
    if ctx and kept + weight(ctx, MAX_CTX_BYTES) > MAX_CTX_BYTES:
        raise UsageError(f"ctx would take more than {MAX_CTX_BYTES:,} bytes")


# -- another playbook -----------------------------------------------------------------------------------------------


def hindrances(state: Execution, net: Net) -> Iterator[str]:
    """Why what is alive can't go on in another net."""
    places = [(f"token {token.id}", token.step) for token in state.tokens.values()]
    places += [(run.id, run.step) for run in state.runs.values()]
    places += [(run, step_of(run)) for run in state.ended]
    for who, step in places:
        if step not in net.steps:
            yield f"{who} is at the step {step!r}, which it does not have"
    for run in state.runs.values():
        if run.step in net.steps:
            yield from _hindrances(run, net.steps[run.step])


def _hindrances(run: Run, plan: StepPlan) -> Iterator[str]:
    if (run.loop is None) != (plan.step.loop is None):
        before, after = ("no loop", "a loop") if run.loop is None else ("a loop", "no loop")
        yield f"{run.id} is under way as {before}, and the step {run.step!r} is {after} there"
    elif (run.tail is None) != (plan.step.tail is None):
        yield f"{run.id} is under way, and what the step {run.step!r} does behind its tool is another dialect there"
    elif not plan.step.tasks and run.tail is None:
        yield f"{run.id} is under way, and the step {run.step!r} has no task there"
    for key, progress in run.progress.items():
        path = key.partition(":")[2] if ":" in key else key
        for label in _labels(progress):
            if not _has(plan.step, path, label):
                yield f"{run.id} is at the task {label!r}, which the step {run.step!r} does not have there"


def _labels(progress: Progress) -> Iterator[str]:
    if progress.at is not None and not progress.ended:
        yield progress.at
    if progress.failure is not None:
        yield progress.failure[1]


def _has(step: Step, prefix: str, label: str) -> bool:
    """Whether there is such a task, inside of iterators where the prefix leads into them: `each#1[0]/`, or in a chain
    of a classic step: `case_0/`."""
    parts = prefix.split("/")[:-1]
    links: tuple[Task | Goto, ...] = step.tasks
    for part in parts:
        name, mark, _ = part.partition("#")
        if mark:
            links = next((one.body for one in links if isinstance(one, Task) and one.label == name), ())
        else:
            links = step.tail.chains.get(name, ()) if step.tail else ()
    return any(one.label == label for one in links)


# -- where a log can be cut -----------------------------------------------------------------------------------------


def half_told(state: Execution, event: e.Event) -> bool:
    """Whether the engine had more to say when it wrote the event, which is the last one of the state."""
    if state.next_token == 1 or state.spelling or state.spelled or state.status == "cancelling":
        return True
    if any(one.tokens > 0 for one in state.ended.values()):
        return True
    if state.finished is not None and not state.runs and not state.ended:
        return True
    run = state.runs.get(_run_of(event))
    if run is None:
        return False
    heard = isinstance(event, e.CaseStarted) and run.id in state.listeners
    return heard or _has_fired(run, event) or _must_go_on(state, run)


def _has_fired(run: Run, event: e.Event) -> bool:
    """Whether the time of the run, or of what it waits for, is over, and nothing was said of that yet."""
    if not isinstance(event, e.TimerFired):
        return False
    kind, _, key = event.timer.partition(":")[0], *event.timer.rpartition(":")[1:]
    return kind == "timeout" or (kind == "wait" and int(key) in run.parked)


def _must_go_on(state: Execution, run: Run) -> bool:
    """Whether the run is at a point where the engine itself says what comes next."""
    plan, loop = state.net.steps[run.step].step, run.loop
    if not plan.tasks and plan.tail is None:
        return True
    if plan.loop is None or (run.tail is not None and run.tail.begun):
        return False
    return loop is None or loop.finished == loop.total or (loop.failed > 0 and plan.loop.on_error == "fail")


def _run_of(event: Any) -> str:
    match event:
        case e.TimerFired(timer=timer) | e.TimerArmed(timer=timer):
            kind, _, rest = timer.partition(":")
            return rest if kind == "timeout" else rest.rpartition(":")[0]
    task = getattr(event, "task", None)
    return task.run if isinstance(task, TaskId) else getattr(event, "run", "")


class Failure(NamedTuple):
    """Where to take up an execution that has failed or was cancelled: after which event, and which run failed."""

    seq: int
    run: str


class Retrace:
    """Watches a fold for the last point before the failure."""

    def __init__(self) -> None:
        self.settled = 0
        """The last event after which the log could be cut."""
        self.before: dict[str, int] = {}
        """Where it could be cut before a run failed."""
        self.failure: Failure | None = None
        self.ending = 0

    def see(self, state: Execution, event: e.Event) -> None:
        """Takes an event that is already in the state."""
        if isinstance(event, e.StepFailed):
            self.before[event.run] = self.settled
        if isinstance(event, e.WorkflowFinished) and not self.ending:
            self.ending = self.settled
        if self.failure is None and (state.failure is not None or isinstance(event, e.PlaybookCancelled)):
            run = event.run if isinstance(event, e.NextEvaluated) and event.run in self.before else ""
            self.failure = Failure(self.before[run] if run else self.settled, run)
        if isinstance(event, e.NextEvaluated):
            self.before.pop(event.run, None)
        if not half_told(state, event):
            self.settled = state.seq

    def point(self) -> Failure:
        """Where it failed; where only its end failed, the end is looked at again."""
        return self.failure or Failure(self.ending, "")


def under_way(state: Execution, failed: str = "") -> list[dict[str, Any]]:
    """What a fork of this state will do first: runs that go on, and the task each goes on with."""
    found = []
    for run in state.runs.values():
        progress = run.progress.get("")
        task = None
        if run.loop is None and state.net.steps[run.step].labels:
            at = progress.failure[1] if progress and progress.failure else progress.at if progress else None
            task = at or state.net.steps[run.step].labels[0]
        left = None if run.loop is None else run.loop.total - run.loop.ok
        found.append({"run": run.id, "step": run.step, "task": task, "items": left, "failed": run.id == failed})
    return found
