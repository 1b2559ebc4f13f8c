"""The beginning of an execution: the request, its workload, and the first token."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from noetl.engine import events as e
from noetl.engine.commands import Start
from noetl.engine.fit import Oversized, fitted
from noetl.engine.patch import plain_patch
from noetl.engine.turn import Turn
from noetl.errors import TemplateError
from noetl.expression import BUDGET_KEY, NOW_KEY, parse, render
from noetl.scope import Scope


def start(turn: Turn, command: Start) -> None:
    """Write the request, merge and render the workload, put the token on the entry step."""
    state = turn.state
    if state.seq:
        return
    if command.refused is not None:
        _refuse(turn, command, command.refused)
        return
    playbook = state.net.playbook
    try:
        requested = fitted(
            e.ExecutionRequested(state.digest, playbook.path, command.payload, command.parent), turn.blobs
        )
        workload = materialised(turn, playbook.workload, command.payload)
        evaluated = fitted(e.RequestEvaluated(workload), turn.blobs)
        patched = fitted(e.CtxPatched(plain_patch(command.ctx)), turn.blobs) if command.ctx else None
    except TemplateError as error:
        _refuse(turn, command, _failure("template", f"workload: {error.message} in {error.source[:200]!r}"))
        return
    except Oversized as error:
        _refuse(turn, replace(command, payload={}), _failure("too_large", f"the request can't be stored: {error}"))
        return
    turn.emit(requested)
    turn.emit(evaluated)
    turn.emit(e.PlaybookStarted())
    turn.emit(e.WorkflowStarted())
    if patched is not None:
        turn.emit(patched)
    turn.emit(e.TokenEnqueued(state.next_token, playbook.entry))


def _failure(kind: str, message: str) -> dict[str, Any]:
    return {"kind": kind, "message": message, "place": "workload"}


def _refuse(turn: Turn, command: Start, failure: dict[str, Any]) -> None:
    """Record the request, and end the execution at once."""
    state = turn.state
    turn.emit(e.ExecutionRequested(state.digest, state.net.playbook.path, command.payload, command.parent))
    turn.emit(e.RequestEvaluated(error=failure))
    turn.emit(e.PlaybookProcessed("failed", error=failure))


def materialised(turn: Turn, defaults: dict[str, Any], payload: dict[str, Any]) -> dict[str, Any]:
    """The payload laid over the defaults as data; then the remaining templates, in document order (S26)."""
    workload: dict[str, Any] = {}
    scope = Scope(workload=_overlaid(_ready(defaults), payload), execution_id=turn.state.id)
    scope[NOW_KEY] = turn.now
    scope[BUDGET_KEY] = turn.budget
    with turn.allowance:
        for key, value in defaults.items():
            workload[key] = _rendered(value, payload[key], scope) if key in payload else render(value, scope)
            scope["workload"] = {**scope["workload"], key: workload[key]}
    return {**workload, **{key: value for key, value in payload.items() if key not in defaults}}


def _rendered(default: Any, given: Any, scope: Scope) -> Any:
    """Templates of the default where the payload is silent; what it gives is data and stays as it is."""
    if not (isinstance(default, dict) and isinstance(given, dict)):
        return given
    merged = {
        key: _rendered(value, given[key], scope) if key in given else render(value, scope)
        for key, value in default.items()
    }
    return {**merged, **{key: value for key, value in given.items() if key not in default}}


def _ready(value: Any) -> Any:
    """The value without its templates: one that has not been rendered yet is not there."""
    if isinstance(value, dict):
        return {key: _ready(item) for key, item in value.items() if isinstance(item, dict) or not _waits(item)}
    return value


def _waits(value: Any) -> bool:
    if isinstance(value, str):
        return not parse(value).is_constant
    if isinstance(value, dict):
        return any(map(_waits, value.values()))
    return isinstance(value, list) and any(map(_waits, value))


def _overlaid(default: Any, given: Any) -> Any:
    if not (isinstance(default, dict) and isinstance(given, dict)):
        return given
    return {**default, **{key: _overlaid(default.get(key), value) for key, value in given.items()}}
