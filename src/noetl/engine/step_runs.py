"""The end of a step run: its result or its error, and everything it held."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from noetl.engine import events as e
from noetl.engine.failures import error_data
from noetl.engine.state import Ended, Execution, Run, StepResult
from noetl.engine.timer_keys import RunTimeout, StepTimer, WaitLimit


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
    result.failures = run.loop.failures if run.loop else None
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


HANDLERS: dict[type[e.Event], Callable[[Execution, Any, float], None]] = {
    e.StepDone: _done,
    e.StepFailed: _failed,
}
