"""Executions as the API and the command line show them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from itertools import islice
from typing import Any, Literal

import msgspec
from msgspec import UNSET, UnsetType
from msgspec.structs import asdict

from noetl.engine.state import Execution
from noetl.engine.waits import received_signals
from noetl.model.actor import Actor
from noetl.runtime.activity import (
    Details,
    ErrorLine,
    LoopProgress,
    Trigger,
    Wait,
    activity_of,
    counted_waits,
    first_waits,
    trigger_of,
    unattended_sentence,
    unattended_waits,
    waits_of,
)
from noetl.runtime.report import (
    MAX_LISTED,
    ErrorView,
    execution_error,
    items_of,
    located,
    report,
    run_status,
    running_tasks,
    steps,
    waits,
)
from noetl.server.record_views import RecordView
from noetl.server.stored_details import ForkPoint, StoredDetails
from noetl.store.store import Summary
from noetl.timestamps import optional_rfc3339, rfc3339
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
    """The wait of a run, an item or a token. `names` are signals; `commands` end the wait."""

    step: str
    run: str | None
    item: int | None
    kind: Literal["signal", "child", "retry", "event", "delay", "gate", "join", "resume"]
    names: list[str]
    child: str | None
    commands: list[str]
    until: str | None
    message: str


def _tokens(state: Execution) -> list[TokenView]:
    tokens = []
    for token in state.tokens.values():
        status: TokenStatus = "waiting" if token.id in state.waiting.get(token.step, ()) else "ready"
        status = "held" if token.id in state.held else "delayed" if token.id in state.delayed else status
        tokens.append(TokenView(token.id, token.step, status, optional_rfc3339(token.due)))
    return tokens


def _loops(state: Execution) -> dict[str, Any]:
    return {run.id: items_of(run) for run in state.runs.values() if run.loop}


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
    missing_pools: list[str]  # pools with ready work of it that have no active worker
    cancel_reason: str | None
    cancelled_by: Actor | None
    started: str
    ended: str | None
    tokens: list[TokenView]
    progress: dict[str, LoopView]
    running: list[RunningTaskView]
    waiting: list[WaitView]
    waits: list[Wait]  # the same waits as lists have them, and those for workers
    activity: str  # what it does, what it waits for, or why it failed; empty if it has no activity
    trigger: Trigger
    source: str | None  # the execution from which it was forked
    local: bool  # whether a process of `noetl run` runs it, and not a server
    file: str  # the file of the playbook, or its path
    version: int | None  # the version of the playbook; null if it is not registered under this path
    payload: dict[str, Any]  # of the request, or of the last fork that changed it
    forked_from: ForkPoint | None
    children: int
    forks: int


def execution_view(
    state: Execution,
    summary: Summary,
    details: StoredDetails,
    file: File,
    now: float,
    missing_pools: Sequence[str] = (),
) -> ExecutionView:
    reported = report(state, file.name, dict(file.places), _seconds(summary, now))
    pending = [] if state.over else counted_waits(state, MAX_LISTED).first
    unattended = unattended_waits(state, missing_pools)
    listed = list(islice(waits_of(state, (*unattended, *pending)), MAX_LISTED))
    now_active = {"running": running_tasks(state, now), "waiting": waits(pending, state), "waits": listed}
    activity = unattended_sentence(unattended[0]) if unattended else activity_of(state).sentence
    about = {"tokens": _tokens(state), "progress": _loops(state), **_actors(state), **now_active}
    more = {"activity": activity, "trigger": trigger_of(state), "file": file.name, "playbook_id": summary.digest}
    more |= {"missing_pools": list(missing_pools), **asdict(details)}
    return ExecutionView.of(summary, **reported, **about, **more)


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
    version: int | None  # the version of the playbook; null if it is not registered under this path
    parent: str | None
    source: str | None  # the execution from which it was forked
    local: bool  # whether a process of `noetl run` runs it, and not a server
    continued_errors: int  # number of errors that policies continued past
    activity: str  # what it does, what it waits for, or why it failed; empty if it has no activity
    progress: LoopProgress | None
    failed_items: int
    waits: list[Wait]  # the first three
    error: ErrorLine | None
    trigger: Trigger | None  # null for executions of earlier versions
    events: int | None  # number of its events, at most a second ago; null for executions of earlier versions


def execution_item(summary: Summary, now: float, activity: str, details: Details, version: int | None) -> ExecutionItem:
    return ExecutionItem.of(
        summary,
        duration_ms=round(_seconds(summary, now) * 1000, 3),
        playbook_id=summary.digest,
        version=version,
        activity=activity,
        progress=details.progress,
        failed_items=details.failed_items,
        waits=details.waits,
        error=details.error,
        trigger=details.trigger,
        events=details.events or None,
    )


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


class StateRunView(msgspec.Struct, frozen=True):
    """A run of a step that has not ended. `task` is the one that runs or waits; a loop has none."""

    run: str
    step: str
    status: Literal["scheduled", "running", "waiting"]
    started: str | None
    task: str | None
    worker: str | None
    pool: str
    waits: list[Wait]


class TimerView(msgspec.Struct, frozen=True):
    """A timer that has been set."""

    name: str
    due: str


class StateView(msgspec.Struct, frozen=True, kw_only=True):
    """The state of an execution after its event `seq`. With `parts`, others are left out."""

    execution_id: str
    seq: int
    timestamp: str | None
    status: Status
    workload: dict[str, Any] | UnsetType = UNSET
    ctx: dict[str, Any] | UnsetType = UNSET
    steps: dict[str, StepView] | UnsetType = UNSET
    tokens: list[TokenView] | UnsetType = UNSET
    progress: dict[str, LoopView] | UnsetType = UNSET
    result: Any | UnsetType = UNSET
    error: ErrorView | UnsetType | None = UNSET
    runs: list[StateRunView] | UnsetType = UNSET
    signals: dict[str, int] | UnsetType = UNSET  # how many of each name wait to be received
    timers: list[TimerView] | UnsetType = UNSET


def _runs(state: Execution, file: File) -> list[StateRunView]:
    workers = {lease.run: lease.worker for lease in state.leases.values()}
    received = received_signals(state)
    views = []
    for run in state.runs.values():
        own, worker = run.progress.get(""), workers.get(run.id)
        views.append(
            StateRunView(
                run.id,
                run.step,
                run_status(run, worker is not None),
                optional_rfc3339(run.started),
                own.at if own is not None and run.loop is None else None,
                worker,
                state.net.steps[run.step].pool or state.net.playbook.executor.pool,
                list(islice(waits_of(state, first_waits(state, run, MAX_LISTED, received)), MAX_LISTED)),
            )
        )
    return views


STATE_PARTS: dict[str, Callable[[Execution, File], Any]] = {
    "workload": lambda state, file: state.workload,
    "ctx": lambda state, file: state.ctx,
    "steps": lambda state, file: steps(state),
    "tokens": lambda state, file: _tokens(state),
    "progress": lambda state, file: _loops(state),
    "result": lambda state, file: state.result,
    "error": lambda state, file: located(execution_error(state), file.name, file.places),
    "runs": _runs,
    "signals": lambda state, file: {name: len(queue) for name, queue in state.signals.items() if queue},
    "timers": lambda state, file: [TimerView(name, rfc3339(due)) for name, due in state.timers.items()],
}


def state_view(state: Execution, at: float | None, file: File, parts: Collection[str] = STATE_PARTS) -> StateView:
    """The requested parts of the state; only these are computed."""
    values = {name: view(state, file) for name, view in STATE_PARTS.items() if name in parts}
    about = {"execution_id": state.id, "seq": state.seq, "status": state.shown_status}
    return StateView(**about, timestamp=optional_rfc3339(at), **values)  # type: ignore[arg-type]
