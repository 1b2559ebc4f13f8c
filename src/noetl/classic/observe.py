"""Classic steps with `eval_mode: on_event`: the server evaluates their branches on every event of the execution.

A run observes from its scheduling until a chain has reached a `next`, or no branch can fire any more. Observers are
part of the state, so they survive a crash. Events are evaluated in the decision that emits them, before it is stored:
none is evaluated twice or lost.

- A run does not observe its own events, nor `case.*`, `next.*` and `token.*`, except its timers (`spec.timers`) and
  the end of its own call, as `call.done` or `call.error`.
- A signal that makes a branch fire is consumed, also one that was sent before the step was entered; any other signal
  stays for other receivers.
- Events that arrive while a worker runs the chosen chains may choose more branches, which wait as further batches.
- `else` fires on a message or a timer that matches no other branch.
"""

from __future__ import annotations

from typing import Any

import msgspec

from noetl.classic.branches import CasePlan, branch_number
from noetl.classic.call_names import NO_CALL, call_names, failed_call
from noetl.classic.events import CaseEvaluated, CaseStarted
from noetl.engine import events as e
from noetl.engine.decision import Decision
from noetl.engine.leases import server_grant
from noetl.engine.state import Run, StepResult
from noetl.engine.step_runs import error_data
from noetl.engine.timer_keys import StepTimer, timer_of
from noetl.errors import TemplateError
from noetl.model.identity import TaskId, step_of
from noetl.model.outcome import Error
from noetl.model.playbook import Step
from noetl.scope import Scope, StepsView

NOT_OBSERVED = ("case.", "next.", "token.")
POINTS = ("call.done", "call.error")


def enter(decision: Decision, step: Step, run: str) -> None:
    """Start to observe: signals that were sent before are evaluated now. A run without a call starts here."""
    if not step.tasks:
        grant = server_grant(decision.state, run)
        decision.emit(grant)
        decision.emit(e.StepPaused(run, grant.fence, "waiting", until="event", key="call"))
    for type, signals in decision.state.signals.items():
        decision.unobserved += ((run, e.MessageReceived(type, number, payload)) for number, payload in signals)


def observe(decision: Decision, cases: CasePlan, run: Run, event: e.Event) -> None:
    after, name, message = run.after_call, event.name, None
    assert after is not None
    if isinstance(event, CaseStarted) and event.run == run.id and event.trigger_event in POINTS:
        name = event.trigger_event
        observed = call_event(run, name)
    elif name.startswith(NOT_OBSERVED) or _run_of(event) == run.id:
        return
    else:
        observed = {"name": name, "data": _data(event)}
    if isinstance(event, e.MessageReceived):
        message = event.id
        if not any(number == message for number, _ in decision.state.signals.get(event.type, ())):
            return  # another observer has consumed it
    failed = name == "call.error"
    try:
        scope = branch_scope(decision, run, observed)
        with decision.allowance:
            chosen = cases.chosen(scope, after.fired, failed, last=name in ("message.received", "timer.fired"))
    except TemplateError as error:
        decision.emit(e.StepFailed(run.id, Error("template", f"case: {error.message} in {error.source[:200]!r}")))
        return
    if chosen:
        if name not in POINTS:
            decision.emit(CaseStarted(run.id, name))
        matched, order = tuple(sorted(chosen, key=branch_number)), tuple(chosen)
        decision.emit(CaseEvaluated(run.id, matched, order, cases.mode, cases.evaluate, name, observed, message))
    elif failed and after.failure is not None and not after.batches:
        decision.emit(e.StepFailed(run.id, *after.failure))


def call_event(run: Run, point: str) -> dict[str, Any]:
    after = run.after_call
    if after is not None and after.failure is not None:
        error, task, attempt = after.failure
        return {"name": point, "data": {"error": error_data(error, run.step, task, attempt)}}
    return {"name": point, "data": {"result": _result(run)}}


def _result(run: Run) -> Any:
    if run.after_call is not None and run.after_call.looped:
        return run.after_call.result
    return run.progress[""].prev if "" in run.progress else None


def _run_of(event: e.Event) -> str | None:
    task = getattr(event, "task", None)
    return task.run if isinstance(task, TaskId) else getattr(event, "run", None)


def _data(event: e.Event) -> dict[str, Any]:
    if isinstance(event, e.MessageReceived):
        more = event.payload if isinstance(event.payload, dict) else {}
        return {**more, "type": event.type, "id": event.id, "payload": event.payload}
    data = {field: getattr(event, field) for field in event.__struct_fields__}
    if isinstance(event, e.TimerFired):
        timer = timer_of(event.timer)
        data["timer_id"] = timer.timer if isinstance(timer, StepTimer) else event.timer
    if (run := _run_of(event)) is not None:
        data |= {"run": run, "step": step_of(run)}
    return {key: _plain(value) for key, value in data.items()}


def _plain(value: Any) -> Any:
    """Structs as maps; results and payloads are not converted, so that their references can be loaded."""
    if isinstance(value, TaskId):
        return str(value)
    if isinstance(value, msgspec.Struct):
        return {field: _plain(getattr(value, field)) for field in value.__struct_fields__}
    return value


def branch_scope(decision: Decision, run: Run, observed: dict[str, Any]) -> Scope:
    """The names that a branch sees; the run's own result once its call has ended."""
    scope = decision.scope(run.args, run.args_by, observed)
    step, after = decision.state.net.steps[run.step].step, run.after_call
    assert step.after_call is not None
    assert after is not None
    outcome = NO_CALL
    if after.point:
        outcome = last_outcome(run)
        own = StepResult("failed" if after.failure else "succeeded", result=_result(run), error=outcome["error"])
        scope["steps"] = StepsView({**decision.state.steps, run.step: own})
    scope.update(call_names(outcome, step.after_call.view, step.loop is not None))
    return scope


def last_outcome(run: Run) -> dict[str, Any]:
    after, progress = run.after_call, run.progress.get("")
    if after is not None and after.failure is not None:
        error, task, attempt = after.failure
        own = progress.tasks.get(task or "") if progress is not None else None
        return own if own is not None else failed_call(error_data(error, run.step, task, attempt))
    if after is not None and after.looped:
        return {**NO_CALL, "result": after.result}
    calls = list(progress.tasks.values()) if progress is not None else []
    return calls[-1] if calls and calls[-1]["status"] == "ok" else NO_CALL  # templates do not see ignored errors
