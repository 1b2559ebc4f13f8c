"""Requests and responses of /executions."""

from __future__ import annotations

from typing import Annotated, Any, Literal, cast

import msgspec

from noetl.engine.envelope import envelope
from noetl.engine.state import Execution, Token
from noetl.reference import Reference
from noetl.runtime.loaded import File
from noetl.runtime.report import located, report, steps
from noetl.server.models.base import Count, Limit, Page, QueryString, RequestBody, VersionNumber, text
from noetl.store.codec import decode
from noetl.store.ports import Row, Summary
from noetl.timestamps import optional_rfc3339, rfc3339

Status = Literal["pending", "running", "waiting", "paused", "cancelling", "succeeded", "failed", "cancelled"]


def plain(value: Any) -> Any:
    """For the JSON encoder: references to stored values are sent as references."""
    if isinstance(value, Reference):
        return value.as_data()
    raise TypeError(f"a value of type {type(value).__name__} cannot be encoded as JSON")


# -- starting -------------------------------------------------------------------------------------------------------


class StartRequest(RequestBody, frozen=True):
    """What to run: a registered `path` (of a `version`), a `playbook_id`, or the text of a `playbook`."""

    path: str | None = None
    version: VersionNumber | None = None
    playbook_id: str | None = None
    playbook: str | None = None
    payload: dict[str, Any] = {}
    ctx: dict[str, Any] = {}


class Started(msgspec.Struct, frozen=True):
    """The new execution."""

    execution_id: str


# -- reading --------------------------------------------------------------------------------------------------------


class StepView(msgspec.Struct, frozen=True):
    """The latest run of a step, and the number of its runs."""

    status: str
    runs: int
    result: Any
    error: dict[str, Any] | None


class ErrorView(msgspec.Struct, frozen=True):
    """Why an execution failed, and at which place of the playbook."""

    kind: str | None
    message: str | None
    step: str | None
    task: str | None
    attempt: int | None
    file: str
    line: int | None
    column: int | None


class TokenView(msgspec.Struct, frozen=True):
    """A token that has not been consumed yet."""

    id: int
    step: str
    status: Literal["ready", "waiting", "held", "delayed"]
    due: str | None

    @classmethod
    def all_of(cls, state: Execution) -> list[TokenView]:
        return [
            cls(token.id, token.step, _token_status(state, token), optional_rfc3339(token.due))
            for token in state.tokens.values()
        ]


def _token_status(state: Execution, token: Token) -> Literal["ready", "waiting", "held", "delayed"]:
    if token.id in state.held:
        return "held"
    if token.id in state.delayed:
        return "delayed"
    return "waiting" if token.id in state.waiting.get(token.step, ()) else "ready"


class LoopView(msgspec.Struct, frozen=True):
    """The progress of a loop."""

    total: int
    ok: int
    failed: int
    running: int

    @classmethod
    def all_of(cls, state: Execution) -> dict[str, LoopView]:
        """The running loops, by step run."""
        loops = ((run.id, run.loop) for run in state.runs.values() if run.loop is not None)
        return {run: cls(loop.total, loop.ok, loop.failed, len(loop.lanes)) for run, loop in loops}


class ExecutionView(msgspec.Struct, frozen=True, kw_only=True):
    """An execution. Large values are references; GET /results/KEY has their content."""

    execution_id: str
    status: Status
    result: Any
    ctx: dict[str, Any]
    steps: dict[str, StepView]
    error: ErrorView | None
    events: int
    duration_ms: float
    name: str
    path: str
    playbook_id: str
    parent: str | None
    started: str
    ended: str | None
    tokens: list[TokenView]
    progress: dict[str, LoopView]

    @classmethod
    def of(cls, state: Execution, summary: Summary, file: File, now: float) -> ExecutionView:
        return cls(
            **report(state, file.name, dict(file.places), _seconds(summary, now)),
            name=summary.name,
            path=summary.path,
            playbook_id=summary.digest,
            parent=summary.parent,
            started=rfc3339(summary.started),
            ended=optional_rfc3339(summary.ended),
            tokens=TokenView.all_of(state),
            progress=LoopView.all_of(state),
        )


class ExecutionItem(msgspec.Struct, frozen=True, kw_only=True):
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

    @classmethod
    def of(cls, summary: Summary, now: float) -> ExecutionItem:
        return cls(
            execution_id=summary.execution_id,
            name=summary.name,
            path=summary.path,
            status=cast(Status, summary.status),
            started=rfc3339(summary.started),
            ended=optional_rfc3339(summary.ended),
            duration_ms=round(_seconds(summary, now) * 1000, 3),
            playbook_id=summary.digest,
            parent=summary.parent,
        )


def _seconds(summary: Summary, now: float) -> float:
    return max(0.0, (summary.ended if summary.ended is not None else now) - summary.started)


class ExecutionQuery(Page, frozen=True):
    status: Status | None = None
    path: Annotated[str, text("Path of their playbook.")] = ""
    prefix: Annotated[str, text("Start of their ids.")] = ""


class ExecutionPage(msgspec.Struct, frozen=True):
    """Executions, newest first; `next` is the cursor of the next page."""

    items: list[ExecutionItem]
    next: str | None


class AfterQuery(QueryString, frozen=True):
    after: Count = 0
    limit: Limit = 100


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
    payload: dict[str, Any]
    name: str
    ts: str
    entity: str
    data: dict[str, Any]
    workflow_run_id: str
    tool_run_id: str | None
    iteration: int | None
    page: int | None

    @classmethod
    def of(cls, execution_id: str, row: Row) -> EventView:
        return cls(**envelope(execution_id, row.seq, row.at, decode(row.type, row.data)))


class EventPage(msgspec.Struct, frozen=True):
    """Events in order; `next` is the `after` of the next page, null at the end of the log."""

    items: list[EventView]
    next: int | None


class StateQuery(QueryString, frozen=True):
    at: Annotated[VersionNumber | None, msgspec.Meta(description="The seq of its last event; default: all.")] = None


class StateView(msgspec.Struct, frozen=True, kw_only=True):
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

    @classmethod
    def of(cls, state: Execution, at: float | None, file: File) -> StateView:
        return cls(
            execution_id=state.id,
            seq=state.seq,
            timestamp=optional_rfc3339(at),
            status=cast(Status, state.shown_status),
            workload=state.workload,
            ctx=state.ctx,
            steps={name: StepView(**step) for name, step in steps(state).items()},
            tokens=TokenView.all_of(state),
            progress=LoopView.all_of(state),
            result=state.result,
            error=_error(state, file),
        )


def _error(state: Execution, file: File) -> ErrorView | None:
    error = located(state.error or state.failure, file.name, dict(file.places))
    return None if error is None else ErrorView(**error)


class VarsView(msgspec.Struct, frozen=True):
    """The variables of a classic playbook."""

    execution_id: str
    vars: dict[str, Any]


class LogLineView(msgspec.Struct, frozen=True):
    """A line of output of a task."""

    number: int
    task: str
    timestamp: str
    stream: str
    line: str


class LogQuery(QueryString, frozen=True):
    after: Count = 0
    limit: Limit = 1_000


class LogPage(msgspec.Struct, frozen=True):
    """Output of tasks in order; `next` is the `after` of the next page."""

    items: list[LogLineView]
    next: int | None


# -- commands -------------------------------------------------------------------------------------------------------


class CancelRequest(RequestBody, frozen=True):
    """The reason, which is stored in the log."""

    reason: str = ""


class ExecutionStatus(msgspec.Struct, frozen=True):
    """The status of an execution after a command."""

    execution_id: str
    status: Status

    @classmethod
    def of(cls, state: Execution) -> ExecutionStatus:
        return cls(state.id, cast(Status, state.shown_status))


class SignalRequest(RequestBody, frozen=True):
    """A signal. Signals with the same id count once."""

    name: str
    id: str | None = None
    payload: Any = None


class SignalAnswer(msgspec.Struct, frozen=True):
    """`accepted`, `duplicate` if the id was received before, or `late` after the end."""

    execution_id: str
    name: str
    id: str
    answer: Literal["accepted", "duplicate", "late"]
    accepted: bool
    duplicate: bool
    late: bool
