"""The public envelope of an event. Stored events are compact; the other fields are derived."""

from __future__ import annotations

from typing import Any

import msgspec

from noetl.engine.events import Event, TaskDone, TaskStarted
from noetl.model.actor import Actor
from noetl.model.identity import TaskId, action_id, iteration_id
from noetl.reference import encode_reference
from noetl.timestamps import rfc3339


def subject_of(event: Event) -> tuple[str | None, int | None, TaskId | None]:
    """The step run, the item and the task that an event is about, as far as it has them."""
    label = getattr(event, "task", None)
    task = label if isinstance(label, TaskId) else None
    if task is not None:
        return task.run, task.index, task
    return getattr(event, "run", None), getattr(event, "index", None), None


def entity_of(execution: str, event: Event) -> str:
    """The id of the subject of an event."""
    run, index, task = subject_of(event)
    return _entity(execution, event, task, run, _iteration(run, index))[0]


def status_of(event: Event) -> str:
    if isinstance(event, TaskDone):
        return "skipped" if event.skipped else "success" if event.outcome.ok else "error"
    return "error" if getattr(event, "outcome", None) in ("failed", "cancelled") else event.status


def envelope(execution: str, seq: int, at: float, event: Event, actor: Actor | None = None) -> dict[str, Any]:
    """The event with its ids, and field names of other specifications as aliases. `actor` is that of its lease."""
    run, index, task = subject_of(event)
    iteration = _iteration(run, index)
    entity, parent = _entity(execution, event, task, run, iteration)
    time = rfc3339(event.began(at) if isinstance(event, TaskStarted) else at, "microseconds")
    payload = payload_of(event)
    actor = actor or getattr(event, "actor", None)
    return {
        "event_id": f"{execution}.{seq}",
        "seq": seq,
        "event_type": event.name,
        "timestamp": time,
        "source": event.source,
        "entity_type": event.entity,
        "entity_id": entity,
        "parent_id": parent,
        "status": status_of(event),
        "execution_id": execution,
        "step_run_id": run,
        "task_run_id": str(task) if task else None,
        "iteration_id": iteration,
        "task_label": task.label if task else getattr(event, "task", None),
        "attempt": getattr(event, "attempt", None),
        "action_id": action_id(execution, task) if task else None,
        "trace_id": execution.replace("-", ""),
        "actor": None if actor is None else msgspec.to_builtins(actor),
        "payload": payload,
        "name": "".join(part.capitalize() for part in event.name.replace("_", ".").split(".")),
        "ts": time,
        "entity": event.entity,
        "data": payload,
        "workflow_run_id": execution,
        "tool_run_id": str(task) if task else None,
        "iteration": index,
        "page": None,
    }


def _iteration(run: str | None, index: int | None) -> str | None:
    return iteration_id(run, index) if run is not None and index is not None else None


def _entity(
    execution: str, event: Event, task: TaskId | None, run: str | None, iteration: str | None
) -> tuple[str, str | None]:
    if task is not None:
        return str(task), iteration or run
    if iteration is not None:
        return iteration, run
    if run is not None:
        return (run, execution) if event.entity in ("step", "loop") else (f"{run}/{event.entity}", run)
    token = getattr(event, "token", None)
    if token is not None:
        return f"token:{token}", execution
    return getattr(event, "timer", execution), None


def payload_of(event: Event) -> dict[str, Any]:
    """The fields of the event that differ from their defaults."""
    return event.view(msgspec.to_builtins(event, enc_hook=encode_reference))
