"""Executions as the API and the command line show them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import msgspec

from noetl.engine.state import Execution
from noetl.model.actor import Actor
from noetl.runtime.report import ErrorView, items_of, report, running_tasks, waits
from noetl.server.record_views import RecordView
from noetl.store.store import Summary
from noetl.timestamps import optional_rfc3339
from noetl.worker.playbook_cache import File

Status = Literal["pending", "running", "waiting", "paused", "cancelling", "succeeded", "failed", "cancelled"]
TokenStatus = Literal["ready", "waiting", "held", "delayed"]


class LoopView(msgspec.Struct, frozen=True):
    """The progress of a loop."""

    total: int
    ok: int
    failed: int
    running: int


class StepView(msgspec.Struct, frozen=True):
    """The latest run of a step, the number of its runs, and the items of its loop."""

    status: str
    runs: int
    result: Any
    error: dict[str, Any] | None
    items: LoopView | None


class TokenView(msgspec.Struct, frozen=True):
    """A token that has not been consumed yet."""

    id: int
    step: str
    status: TokenStatus
    due: str | None


class RunningTaskView(msgspec.Struct, frozen=True):
    """A task that a worker is running."""

    step: str
    run: str
    task: str
    item: int | None
    attempt: int
    started: str
    duration_ms: float


class WaitView(msgspec.Struct, frozen=True):
    """What a run, an item or a token waits for. `names` are signals; `commands` end the wait."""

    step: str
    run: str | None
    item: int | None
    kind: Literal["signal", "child", "retry", "event", "delay", "gate", "join"]
    names: list[str]
    child: str | None
    commands: list[str]
    until: str | None
    message: str


def _progress(state: Execution) -> dict[str, Any]:
    tokens = []
    for token in state.tokens.values():
        status: TokenStatus = "waiting" if token.id in state.waiting.get(token.step, ()) else "ready"
        status = "held" if token.id in state.held else "delayed" if token.id in state.delayed else status
        tokens.append(TokenView(token.id, token.step, status, optional_rfc3339(token.due)))
    return {"tokens": tokens, "progress": {run.id: items_of(run) for run in state.runs.values() if run.loop}}


class ExecutionView(RecordView, frozen=True, kw_only=True):
    """An execution. Large values are references; GET /results/KEY has their content."""

    execution_id: str
    status: Status
    result: Any
    ctx: dict[str, Any]
    steps: dict[str, StepView]
    error: ErrorView | None
    continued_errors: int  # number of errors that a policy continued past, failed items of loops included
    continued: list[ErrorView]  # the first of them
    warnings: list[str]  # warnings about the payload: keys that nothing reads, values of another type
    events: int
    duration_ms: float
    name: str
    path: str
    playbook_id: str
    parent: str | None
    actor: Actor | None  # who requested it; null for a child
    missing_pools: list[str]  # pools with ready work of it, of which no worker is connected
    cancel_reason: str | None
    cancelled_by: Actor | None
    started: str
    ended: str | None
    tokens: list[TokenView]
    progress: dict[str, LoopView]
    running: list[RunningTaskView]
    waiting: list[WaitView]


def execution_view(
    state: Execution, summary: Summary, file: File, now: float, missing_pools: Sequence[str] = ()
) -> ExecutionView:
    reported = report(state, file.name, dict(file.places), _seconds(summary, now))
    now_active = {"running": running_tasks(state, now), "waiting": waits(state)}
    about = {**_progress(state), **_actors(state), **now_active}
    return ExecutionView.of(summary, **reported, **about, missing_pools=list(missing_pools), playbook_id=summary.digest)


def _actors(state: Execution) -> dict[str, Any]:
    return {"actor": state.actor, "cancel_reason": state.cancel_reason, "cancelled_by": state.cancelled_by}


class ExecutionItem(RecordView, frozen=True):
    """An execution in a list."""

    execution_id: str
    name: str
    path: str
    status: Status
    started: str
    ended: str | None
    duration_ms: float
    playbook_id: str
    parent: str | None
    continued_errors: int  # number of errors that policies continued past


def execution_item(summary: Summary, now: float) -> ExecutionItem:
    return ExecutionItem.of(summary, duration_ms=round(_seconds(summary, now) * 1000, 3), playbook_id=summary.digest)


def _seconds(summary: Summary, now: float) -> float:
    return max(0.0, (summary.ended if summary.ended is not None else now) - summary.started)


class EventView(msgspec.Struct, frozen=True):
    """An event. The fields after `payload` are other names of the ones before it."""

    event_id: str
    seq: int
    event_type: str
    timestamp: str
    source: str
    entity_type: str
    entity_id: str
    parent_id: str | None
    status: str
    execution_id: str
    step_run_id: str | None
    task_run_id: str | None
    iteration_id: str | None
    task_label: str | None
    attempt: int | None
    action_id: str | None
    trace_id: str
    actor: Actor | None
    payload: dict[str, Any]
    name: str
    ts: str
    entity: str
    data: dict[str, Any]
    workflow_run_id: str
    tool_run_id: str | None
    iteration: int | None
    page: int | None


class StateView(RecordView, frozen=True, kw_only=True):
    """The state of an execution after its event `seq`."""

    execution_id: str
    seq: int
    timestamp: str | None
    status: Status
    workload: dict[str, Any]
    ctx: dict[str, Any]
    steps: dict[str, StepView]
    tokens: list[TokenView]
    progress: dict[str, LoopView]
    result: Any
    error: ErrorView | None


def state_view(state: Execution, at: float | None, file: File) -> StateView:
    reported = report(state, file.name, dict(file.places), 0.0)
    values = {name: value for name, value in reported.items() if name in StateView.__struct_fields__}
    return StateView.of(state, **values, **_progress(state), timestamp=optional_rfc3339(at))
