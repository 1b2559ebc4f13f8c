"""Step runs: which of them a worker could work on, and how they end."""

from __future__ import annotations

from typing import Any

from noetl.engine import events as e
from noetl.engine.state import WHOLE_RUN, Ended, Execution, Handlers, Run, StepResult
from noetl.engine.timer_keys import RunTimeout, StepTimer, WaitLimit
from noetl.errors import TemplateError
from noetl.model.outcome import Error

MAX_CONTINUED = 5
"""Errors that a policy continued past and that the state keeps; the others are only counted."""

# -- ready ----------------------------------------------------------------------------------------------------------


def refresh_ready(state: Execution, run: Run) -> None:
    """Add the run to `state.ready` or remove it. Called after every change of the run."""
    if not _is_claimable(state, run):
        state.ready.pop(run.id, None)
    elif run.id not in state.ready:
        state.ready[run.id] = state.net.steps[run.step].pool or state.net.playbook.executor.pool


def _is_claimable(state: Execution, run: Run) -> bool:
    plan, loop = state.net.steps[run.step], run.loop
    if plan.after_call is None and not plan.step.tasks:
        return False
    if plan.step.loop is None or (run.after_call is not None and run.after_call.call_has_ended):
        if run.fence is not None or WHOLE_RUN in run.parked:
            return False
        return plan.after_call is None or not plan.after_call.awaits_event(run)
    if loop is None or (plan.local and loop.lanes):  # one worker has the whole loop
        return False
    return has_room(state, run)


def has_room(state: Execution, run: Run) -> bool:
    """Whether items of a loop are unleased and one more lane may run."""
    loop = run.loop
    if loop is None or not (loop.returned or loop.next < loop.total):
        return False
    return len(loop.lanes) + len(run.parked) < state.net.steps[run.step].lanes


# -- end ------------------------------------------------------------------------------------------------------------


def _done(state: Execution, event: e.StepDone, at: float) -> None:
    run = state.runs[event.run]
    end_run(state, run, StepResult("succeeded", result=event.result), event.name, {"result": event.result})


def _failed(state: Execution, event: e.StepFailed, at: float) -> None:
    run = state.runs[event.run]
    error = error_data(event.error, run.step, event.task, event.attempt)
    data = {"error": error, "task": event.task, "attempt": event.attempt}
    end_run(state, run, StepResult("failed", error=error), event.name, data)
    state.ended[run.id].failure_handled = event.taken


def end_run(state: Execution, run: Run, result: StepResult, on: str, data: dict[str, Any]) -> None:
    """The run leaves, and its arcs are to be evaluated. `on` and `data` are the event that its guards see."""
    before = state.steps.get(run.step)
    result.runs = before.runs + 1 if before else 1
    if run.loop is not None:
        result.failures = run.loop.failures
        result.items = run.loop.total, run.loop.ok, run.loop.failed
    drop_run(state, run)
    state.steps[run.step] = result
    state.last = run.step
    state.ended[run.id] = Ended(
        run.id, on, run.args, run.args_by, {"name": on, "data": data}, after_call=run.after_call
    )


def cancel_run(state: Execution, run: Run) -> None:
    drop_run(state, run)
    before = state.steps.get(run.step)
    state.steps[run.step] = StepResult("cancelled", before.runs + 1 if before else 1)


def drop_run(state: Execution, run: Run) -> None:
    """Release the leases and timers of a run. It still occupies its step until it is routed."""
    del state.runs[run.id]
    state.ready.pop(run.id, None)
    state.observers.pop(run.id, None)
    if run.fence is not None:
        state.leases.pop(run.fence, None)
    for fence in run.loop.lanes if run.loop else ():
        state.leases.pop(fence, None)
    state.timers.pop(RunTimeout(run.id).name, None)
    for timer in state.net.steps[run.step].timers:
        state.timers.pop(StepTimer(run.id, timer).name, None)
    for index in run.parked:
        state.timers.pop(WaitLimit(run.id, index).name, None)


# -- errors as data, for templates and people -----------------------------------------------------------------------


def error_data(error: Error, step: str, task: str | None, attempt: int) -> dict[str, Any]:
    return {
        "kind": error.kind,
        "message": error.message,
        "retryable": error.retryable,
        "details": error.details,
        "step": step,
        "task": task,
        "attempt": attempt,
    }


def note_continued(state: Execution, count: int, errors: list[dict[str, Any]]) -> None:
    """Count errors that a policy continued past (R4), and keep the first ones."""
    state.continued += errors[: max(0, MAX_CONTINUED - len(state.continued))]
    state.continued_errors += count


def template_failure(error: TemplateError, step: str, place: str) -> dict[str, Any]:
    return {"kind": "template", "message": f"{error.message} in {error.source!r}"[:1000], "step": step, "place": place}


def limit_failure(message: str, step: str) -> dict[str, Any]:
    return {"kind": "limit", "message": message, "step": step}


HANDLERS: Handlers = {
    e.StepDone: _done,
    e.StepFailed: _failed,
}
