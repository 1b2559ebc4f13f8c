"""Classic steps with `eval_mode: on_event`: their branches are looked at on every event of the execution.

A run listens from its entry until a chain has come to a `next`, or no branch is left that could fire. What it waits for
lives in the state and nowhere else: `state.listeners` has the runs, the log has what they heard. So a listener survives
every process, and costs nothing where there is none.

- It hears events in the decision that emits them, before the decision is stored. Nothing is heard twice or lost
  in a crash: either the decision is stored as a whole or it never was.
- It does not hear its own run, nor `case.*`, `next.*` and `token.*` events. Two things of its own it does hear: its
  timers (`spec.timers`), and the end of its own tool, as `call.done` or `call.error`.
- A signal that was sent before the step was entered is heard on entry. One that makes a branch fire is consumed; any
  other stays for whoever waits for it.
- Branches are chosen here, on the server, and a worker runs their chains (`noetl.pipeline.tail`). Events that come
  meanwhile may choose more; those wait as further epochs.
- `else` fires on a message or a timer that no other branch wants.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from noetl.engine import events as e
from noetl.engine.call import call_names, failed_call
from noetl.engine.failures import error_data
from noetl.engine.leases import server_grant
from noetl.engine.net import StepPlan
from noetl.engine.state import Run, StepResult
from noetl.engine.timer_keys import StepTimer, timer_of
from noetl.errors import TemplateError
from noetl.model.identity import TaskId, step_of
from noetl.model.outcome import Error
from noetl.scope import Scope, StepsView

if TYPE_CHECKING:
    from noetl.engine.decision import Decision

UNHEARD = ("case.", "next.", "token.")
POINTS = ("call.done", "call.error")


def listen(decision: Decision, plan: StepPlan, run: str) -> None:
    """A run begins to listen: what was sent before is heard now. Without a tool it starts here, and its time counts."""
    if not plan.step.tasks:
        grant = server_grant(decision.state, run)
        decision.emit(grant)
        decision.emit(e.StepPaused(run, grant.fence, "waiting", until="event", key="call"))
    for type, kept in decision.state.signals.items():
        decision.unheard += ((run, e.MessageReceived(type, number, payload)) for number, payload in kept)


def hear(decision: Decision) -> None:
    """Let the listeners hear what has happened. Each piece of news leaves the list once it was looked at."""
    while decision.unheard:
        name, event = decision.unheard[0]
        run = decision.state.runs.get(name)
        if run is not None and not decision.state.over:
            _hear(decision, run, event)
        del decision.unheard[0]


def _hear(decision: Decision, run: Run, event: e.Event) -> None:
    heard = _heard(run, event)
    if heard is None or not _is_kept(decision, event):
        return
    plan = decision.state.net.steps[run.step]
    assert plan.cases is not None
    assert run.tail is not None
    failed = heard["name"] == "call.error"
    asked = heard["name"] in ("message.received", "timer.fired")
    try:
        scope = branch_scope(decision, run, heard)
        with decision.allowance:
            chosen = plan.cases.chosen(scope, run.tail.fired, failed, last=asked)
    except TemplateError as error:
        decision.emit(e.StepFailed(run.id, Error("template", f"case: {error.message} in {error.source[:200]!r}")))
        return
    if chosen:
        _choose(decision, run, heard, chosen, event.id if isinstance(event, e.MessageReceived) else None)
    elif failed and run.tail.failure is not None and not run.tail.epochs:
        decision.emit(e.StepFailed(run.id, *run.tail.failure))


def _choose(decision: Decision, run: Run, heard: dict[str, Any], chosen: list[str], message: str | None) -> None:
    cases = decision.state.net.steps[run.step].cases
    assert cases is not None
    if heard["name"] not in POINTS:
        decision.emit(e.CaseStarted(run.id, heard["name"]))
    decision.emit(
        e.CaseEvaluated(
            run.id,
            matched=tuple(sorted(chosen, key=branch_number)),
            order=tuple(chosen),
            case_mode=cases.mode,
            eval_mode=cases.evaluate,
            trigger_event=heard["name"],
            event=heard,
            message=message,
        )
    )


def branch_number(name: str) -> int:
    return int(name.rpartition("_")[2])


def _is_kept(decision: Decision, event: e.Event) -> bool:
    """Whether a signal is still there: another listener may have taken it."""
    if not isinstance(event, e.MessageReceived):
        return True
    return any(number == event.id for number, _ in decision.state.signals.get(event.type, ()))


def _heard(run: Run, event: e.Event) -> dict[str, Any] | None:
    """An event as a listener sees it; None for what it does not hear."""
    if isinstance(event, e.CaseStarted) and event.run == run.id and event.trigger_event in POINTS:
        return call_event(run, event.trigger_event)
    if event.name.startswith(UNHEARD) or _run_of(event) == run.id:
        return None
    return {"name": event.name, "data": _data(event)}


def call_event(run: Run, point: str) -> dict[str, Any]:
    """The end of a step's own tool, as its branches see it."""
    tail = run.tail
    if tail is not None and tail.failure is not None:
        error, task, attempt = tail.failure
        return {"name": point, "data": {"error": error_data(error, run.step, task, attempt)}}
    return {"name": point, "data": {"result": _result(run)}}


def _result(run: Run) -> Any:
    if run.tail is not None and run.tail.looped:
        return run.tail.result
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
    """Structs as maps; results and payloads stay what they are, so that references among them can be opened."""
    if isinstance(value, TaskId):
        return str(value)
    if isinstance(value, msgspec.Struct):
        return {field: _plain(getattr(value, field)) for field in value.__struct_fields__}
    return value


def branch_scope(decision: Decision, run: Run, heard: dict[str, Any]) -> Scope:
    """What a branch of a listener sees; its own result once its tool has ended."""
    scope = decision.scope(run.args, run.args_by, heard)
    plan, tail = decision.state.net.steps[run.step], run.tail
    assert plan.step.tail is not None
    assert tail is not None
    outcome: dict[str, Any] = {"status": "ok", "result": None, "error": None, "meta": {}}
    if tail.point:
        outcome = last_outcome(run)
        own = StepResult("failed" if tail.failure else "succeeded", result=_result(run), error=outcome["error"])
        scope["steps"] = StepsView({**decision.state.steps, run.step: own})
    scope.update(call_names(outcome, plan.step.tail.view, plan.step.loop is not None))
    return scope


def last_outcome(run: Run) -> dict[str, Any]:
    """The outcome of the call that ended last."""
    tail, progress = run.tail, run.progress.get("")
    if tail is not None and tail.failure is not None:
        error, task, attempt = tail.failure
        own = progress.tasks.get(task or "") if progress is not None else None
        return own if own is not None else failed_call(error_data(error, run.step, task, attempt))
    if tail is not None and tail.looped:
        return {"status": "ok", "result": tail.result, "error": None, "meta": {}}
    calls = list(progress.tasks.values()) if progress is not None else []
    nothing: dict[str, Any] = {"status": "ok", "result": None, "error": None, "meta": {}}
    return calls[-1] if calls and calls[-1]["status"] == "ok" else nothing  # an error that is ignored is not seen
