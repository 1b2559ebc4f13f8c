"""The beginning of an execution: the request, its workload, and the first token."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from noetl.engine import events as e
from noetl.engine.commands import Start
from noetl.engine.limits import EventTooLarge, shrink
from noetl.engine.patch import plain_patch
from noetl.engine.state import Execution, Handlers, unchanged
from noetl.engine.timer_keys import ExecutionTimeout
from noetl.errors import TemplateError
from noetl.expression import BUDGET_KEY, CONTENTS_KEY, NOW_KEY, parse, render
from noetl.scope import Scope

if TYPE_CHECKING:
    from noetl.engine.decision import Decision


def start(decision: Decision, command: Start) -> None:
    """Write the request, merge and render the workload, put the token on the entry step."""
    state = decision.state
    if state.seq:
        return
    if command.refused is not None:
        _refuse(decision, command, command.refused)
        return
    playbook = state.net.playbook
    try:
        requested = shrink(_request(state, command), decision.blobs)
        workload = materialised(decision, playbook.workload, command.payload)
        evaluated = shrink(e.RequestEvaluated(workload, warnings=command.warnings), decision.blobs)
        patched = shrink(e.CtxPatched(plain_patch(command.ctx)), decision.blobs) if command.ctx else None
    except TemplateError as error:
        _refuse(decision, command, _failure("template", f"workload: {error.message} in {error.source[:200]!r}"))
        return
    except EventTooLarge as error:
        _refuse(decision, replace(command, payload={}), _failure("too_large", f"the request cannot be stored: {error}"))
        return
    decision.emit(requested)
    decision.emit(evaluated)
    decision.emit(e.PlaybookStarted())
    decision.emit(e.WorkflowStarted())
    if patched is not None:
        decision.emit(patched)
    decision.emit(e.TokenEnqueued(state.next_token, playbook.entry))


def _failure(kind: str, message: str) -> dict[str, Any]:
    return {"kind": kind, "message": message, "place": "workload"}


def _refuse(decision: Decision, command: Start, failure: dict[str, Any]) -> None:
    """Record the request, and end the execution at once."""
    state = decision.state
    decision.emit(_request(state, command))
    decision.emit(e.RequestEvaluated(error=failure))
    decision.emit(e.PlaybookProcessed("failed", error=failure))


def _request(state: Execution, command: Start) -> e.ExecutionRequested:
    path = state.net.playbook.path
    return e.ExecutionRequested(state.digest, path, command.payload, command.parent, command.actor)


def materialised(decision: Decision, defaults: dict[str, Any], payload: dict[str, Any]) -> dict[str, Any]:
    """The payload laid over the defaults as data; then the remaining templates, in document order (S26)."""
    workload: dict[str, Any] = {}
    scope = Scope(workload=overlaid(_ready(defaults), payload), execution_id=decision.state.id)
    scope[NOW_KEY] = decision.now
    scope[BUDGET_KEY] = decision.budget
    scope[CONTENTS_KEY] = decision.contents
    with decision.allowance:
        for key, value in defaults.items():
            workload[key] = _rendered(value, payload[key], scope) if key in payload else render(value, scope)
            scope["workload"] = {**scope["workload"], key: workload[key]}
    return {**workload, **{key: value for key, value in payload.items() if key not in defaults}}


def _rendered(default: Any, payload: Any, scope: Scope) -> Any:
    """The default with its templates rendered, except where the payload, which is data, overrides it."""
    if not (isinstance(default, dict) and isinstance(payload, dict)):
        return payload
    merged = {
        key: _rendered(value, payload[key], scope) if key in payload else render(value, scope)
        for key, value in default.items()
    }
    return {**merged, **{key: value for key, value in payload.items() if key not in default}}


def _ready(value: Any) -> Any:
    """The value without its templates: one that has not been rendered yet is left out."""
    if isinstance(value, dict):
        return {key: _ready(item) for key, item in value.items() if isinstance(item, dict) or not _waits(item)}
    return value


def _waits(value: Any) -> bool:
    if isinstance(value, str):
        return not parse(value).is_constant
    if isinstance(value, dict):
        return any(map(_waits, value.values()))
    return isinstance(value, list) and any(map(_waits, value))


def overlaid(default: Any, payload: Any) -> Any:
    if not (isinstance(default, dict) and isinstance(payload, dict)):
        return payload
    return {**default, **{key: overlaid(default.get(key), value) for key, value in payload.items()}}


# -- events ---------------------------------------------------------------------------------------------------------


def _requested(state: Execution, event: e.ExecutionRequested, at: float) -> None:
    state.parent, state.actor = event.parent, event.actor


def _evaluated(state: Execution, event: e.RequestEvaluated, at: float) -> None:
    state.workload, state.warnings = event.workload, event.warnings
    if state.parent is not None:
        state.note_handles(event.workload)


def _playbook_started(state: Execution, event: e.PlaybookStarted, at: float) -> None:
    state.status = "running"
    limit = state.net.playbook.executor.timeout
    if limit is not None:
        state.timers[ExecutionTimeout().name] = at + limit


HANDLERS: Handlers = {
    e.ExecutionRequested: _requested,
    e.RequestEvaluated: _evaluated,
    e.PlaybookStarted: _playbook_started,
    e.WorkflowStarted: unchanged,
}
