"""The beginning of an execution: the request, its workload, and the first token."""

from __future__ import annotations

from typing import Any

from noetl.engine import events as e
from noetl.engine.commands import Start
from noetl.engine.patch import plain_patch
from noetl.engine.turn import Turn
from noetl.errors import TemplateError
from noetl.expression import render
from noetl.scope import Scope


def start(turn: Turn, command: Start) -> None:
    """Write the request, merge and render the workload, put the token on the entry step."""
    state = turn.state
    if state.seq:
        return
    playbook = state.net.playbook
    turn.emit(e.ExecutionRequested(state.digest, playbook.path, command.payload, command.parent))
    try:
        workload = materialised(playbook.workload, command.payload, state.id)
    except TemplateError as error:
        failure = {"kind": "template", "message": f"workload: {error.message}"}
        turn.emit(e.RequestEvaluated(error=failure))
        turn.emit(e.PlaybookProcessed("failed", error=failure))
        return
    turn.emit(e.RequestEvaluated(workload))
    turn.emit(e.PlaybookStarted())
    turn.emit(e.WorkflowStarted())
    if command.ctx:
        turn.emit(e.CtxPatched(plain_patch(command.ctx)))
    turn.emit(e.TokenEnqueued(state.next_token, playbook.entry))


def materialised(defaults: dict[str, Any], payload: dict[str, Any], execution: str) -> dict[str, Any]:
    """The payload laid over the defaults as data; then the remaining templates, in document order (S26)."""
    workload: dict[str, Any] = {}
    scope = Scope(workload=_overlaid(defaults, payload), execution_id=execution)
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


def _overlaid(default: Any, given: Any) -> Any:
    if not (isinstance(default, dict) and isinstance(given, dict)):
        return given
    return {**default, **{key: _overlaid(default.get(key), value) for key, value in given.items()}}
