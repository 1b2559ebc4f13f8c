"""/executions/ID/step-runs and /step-run: the firings of steps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

import msgspec

from noetl.engine.history.outline_fold import LoopDetails, StepRunRow
from noetl.engine.history.run_index import RunIndex
from noetl.engine.history.step_run_history import AttemptRecord, StepRunHistory
from noetl.engine.signal_fields import SignalField
from noetl.errors import NotFound
from noetl.model.outcome import Error
from noetl.runtime.item_pages import check_run
from noetl.runtime.past import PastReader
from noetl.runtime.step_run_pages import StepRunDetails, step_run_details, step_runs_after
from noetl.server.endpoint import ApiCall, Routes
from noetl.server.execution_views import LoopView
from noetl.server.outline_views import Places, StepRunColumns, step_run_columns
from noetl.server.parameters import Count, ItemPage, Limit, QueryString, text
from noetl.server.run_reads import RunQuery, read_run
from noetl.timestamps import optional_rfc3339, rfc3339

routes = Routes()

StepRunStatus = Literal["scheduled", "running", "waiting", "succeeded", "failed", "skipped", "cancelled"]


class WaitedView(msgspec.Struct, frozen=True):
    """Milliseconds that a step run waited for a worker, for a retry, and for signals, children or events."""

    worker: int
    retry: int
    external: int


class StepRunRowView(msgspec.Struct, frozen=True):
    """A step run with the fields of `runs` in the outline: `step` is a place in its `steps`, `loop` one in its `loops`
    or -1, `from_runs` are places among all step runs. Times are milliseconds since the start of the execution; a seq of
    0 and a time of -1: not yet. Statuses: 0 scheduled, 1 running, 2 waiting, 3 succeeded, 4 failed, 5 skipped,
    6 cancelled."""

    place: int  # among all step runs in the order of their scheduling
    run: str  # its name
    senders: list[str]  # the names of `from_runs`
    step: int
    n: int
    scheduled_seq: int
    started_seq: int
    ended_seq: int
    scheduled_ms: int
    started_ms: int
    ended_ms: int
    status: int
    retries: int
    loop: int
    from_runs: list[int]
    waited_ms: WaitedView


class StepRunsQuery(QueryString, frozen=True):
    step: Annotated[str, text("Only step runs of this step.")] = ""
    status: StepRunStatus | None = None
    after: Annotated[Count, msgspec.Meta(description="Only step runs that were scheduled after this event.")] = 0
    limit: Limit = 100


class StepRunPage(ItemPage[StepRunRowView, int], frozen=True):
    """Step runs in the order in which they were scheduled; `next` is the `after` of the next page.

    With filters, a page may have fewer items than its limit before the end.
    """


@routes.add("GET", "/executions/{id}/step-runs")
async def step_runs(call: ApiCall, query: StepRunsQuery) -> StepRunPage:
    """The step runs of an execution, even if they are too many for its outline."""
    execution, outlines = call.path_params["id"], call.api.histories.outlines

    def read(past: PastReader) -> StepRunPage:
        page = step_runs_after(past, execution, query.after, query.limit, query.step, query.status or "")
        fold = outlines.fold(past.store, execution)  # after the page, so that it has all of its steps
        if page.rows and fold.seq < page.rows[-1].scheduled_seq:
            raise NotFound(f"execution {execution!r} not found")  # it was pruned a moment ago
        places = Places(fold)
        places.runs = {name: fold.runs_before[block] + place for name, (block, place) in page.positions.items()}
        return StepRunPage(_rows(page.rows, step_run_columns(page.rows, fold, places), places), page.next)

    return await call.until_disconnect(call.api.host.runtime.past.do(read))


def _rows(rows: Sequence[StepRunRow], columns: StepRunColumns, places: Places) -> list[StepRunRowView]:
    """The columns by row."""
    waited = columns.waited_ms
    waits = [WaitedView(*times) for times in zip(waited.worker, waited.retry, waited.external, strict=True)]
    named = [(places.runs[row.name], row.name, row.from_runs) for row in rows]
    numbers = [getattr(columns, name) for name in columns.__struct_fields__ if name != "waited_ms"]
    return [StepRunRowView(*row, *values) for row, *values in zip(named, *numbers, waits, strict=True)]


class LeaseView(msgspec.Struct, frozen=True, rename={"start": "from", "end": "to"}):
    """The time in which a worker had the step run, or some of its items."""

    fence: int
    worker: str
    start: str
    end: str | None
    end_reason: str | None  # `ended`, `lost`, `returned`, `waiting` or `forked`


class StepRunWaitView(msgspec.Struct, frozen=True, rename={"until": "for", "end": "to"}):
    """The wait of the step run or an item, until `to`. A wait for the first of several signals is listed once for
    each. `fields` are the parts of the payload of a signal that the playbook reads."""

    run: str
    item: int | None
    until: str
    name: str
    due: str | None
    since: str
    end: str | None
    message: str
    fields: list[SignalField]


class WriteView(msgspec.Struct, frozen=True):
    """A change of ctx or iter by a task."""

    seq: int
    scope: str
    key: str
    op: str
    value: Any


class AttemptView(msgspec.Struct, frozen=True):
    """An attempt of a task; `due` is the time of the next one."""

    attempt: int
    seq: int
    started: str
    duration_ms: float | None
    status: str
    do: str | None
    to: str | None
    error: Error | None
    due: str | None


class VisitView(msgspec.Struct, frozen=True):
    """A visit of a task with its attempts."""

    task: str
    label: str
    kind: str
    visit: int
    attempts: list[AttemptView]


class StepRunView(msgspec.Struct, frozen=True):
    """A step run, or an item of its loop. `truncated`: lists are cut, or not all events were read. `waited_ms` leaves
    out the present wait, which began at `waiting_since`."""

    run: str
    item: int | None
    step: str
    status: StepRunStatus
    args: dict[str, Any]
    scheduled: str | None
    started: str | None
    ended: str | None
    worked_ms: float
    waited_ms: float
    waiting_since: str | None
    leases: list[LeaseView]
    waits: list[StepRunWaitView]
    writes: list[WriteView]
    tasks: list[VisitView]
    result: Any
    error: Error | None
    children: list[str]
    loop: LoopView | None
    truncated: bool


class StepRunQuery(RunQuery, frozen=True):
    item: Annotated[Count | None, msgspec.Meta(description="An item of its loop.")] = None


@routes.add("GET", "/executions/{id}/step-run")
async def step_run(call: ApiCall, query: StepRunQuery) -> StepRunView:
    """One step run or one item: its leases, waits, tasks with their attempts, writes and result."""

    def read(past: PastReader, execution: str, index: RunIndex) -> StepRunView:
        check_run(index, execution)
        return _view(index, step_run_details(past, execution, index, query.item))

    return await read_run(call, query, check_run, read)


def _view(index: RunIndex, details: StepRunDetails) -> StepRunView:
    history = details.history
    loop = index.loop if index.loop_block >= 0 and history.item is None else None
    since = _waiting_since(history, loop)
    worked, waited = _times(history, details.now if since is None else since, loop)
    status: Any = history.status
    return StepRunView(
        history.run,
        history.item,
        index.step,
        status,
        details.args,
        optional_rfc3339(history.scheduled),
        optional_rfc3339(history.started),
        optional_rfc3339(history.ended),
        worked,
        waited,
        optional_rfc3339(since),
        [
            LeaseView(lease.fence, lease.worker, rfc3339(lease.start), optional_rfc3339(lease.end), lease.end_reason)
            for lease in history.leases
        ],
        _waits(details),
        [WriteView(write.seq, write.scope, write.key, write.op, write.value) for write in history.writes],
        [_visit(str(task), task.path, attempts, details.kinds) for task, attempts in history.visits.items()],
        history.result,
        history.error,
        history.children,
        None if loop is None else _loop(index),
        details.truncated,
    )


def _waits(details: StepRunDetails) -> list[StepRunWaitView]:
    return [
        StepRunWaitView(
            details.history.run,
            wait.item,
            wait.until,
            name,
            optional_rfc3339(wait.due),
            rfc3339(wait.since),
            optional_rfc3339(wait.end),
            wait.message,
            details.fields.get(wait.task, []) if wait.until == "signal" else [],
        )
        for wait in details.history.waits
        for name in wait.names or ("",)
    ]


def _visit(task: str, path: str, attempts: list[AttemptRecord], kinds: dict[str, str]) -> VisitView:
    label, _, visit = path.rpartition("/")[2].rpartition("#")
    views = [
        AttemptView(
            attempt.attempt,
            attempt.seq,
            rfc3339(attempt.started),
            attempt.duration_ms,
            attempt.status,
            attempt.do,
            attempt.to,
            attempt.error,
            optional_rfc3339(attempt.due),
        )
        for attempt in attempts
    ]
    return VisitView(task, label, kinds.get(label, ""), int(visit), views)


def _waiting_since(history: StepRunHistory, loop: LoopDetails | None) -> float | None:
    """When the present wait of a step run or an item began; a loop waits while all its started items do."""
    if history.ended is not None:
        return None
    if history.started is None:
        return history.scheduled
    if loop is not None:
        return None if loop.wait is None else loop.wait.start / 1000
    waits = (wait.since for wait in reversed(history.waits) if wait.item == history.item and wait.end is None)
    return next(waits, None)


def _times(history: StepRunHistory, until: float, loop: LoopDetails | None) -> tuple[float, float]:
    """Milliseconds of work and of waiting, up to its end or a time. A loop works from its first lease on, except while
    all its started items wait; an item works while its tasks run."""
    begin = history.started if history.item is not None else history.scheduled
    if begin is None:
        return 0.0, 0.0
    end = history.ended if history.ended is not None else until
    total = max(0.0, end - begin) * 1000
    if history.duration_ms is not None:
        total = float(history.duration_ms)
    if history.item is not None:
        worked = history.work_until(end)
    elif loop is not None:
        worked = max(0.0, (end - history.started) * 1000 - loop.waited_ms) if history.started is not None else 0.0
    else:
        worked = sum((lease.end if lease.end is not None else end) - lease.start for lease in history.leases) * 1000
    return round(worked, 3), round(max(0.0, total - worked), 3)


def _loop(index: RunIndex) -> LoopView:
    counts = index.counts()
    return LoopView(index.loop.total, counts["ok"], counts["failed"], counts["running"])
