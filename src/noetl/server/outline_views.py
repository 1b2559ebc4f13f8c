"""The outline of an execution as the API shows it: columns of numbers, times in milliseconds since its start."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal, cast

import msgspec

from noetl.engine.history.outline_fold import (
    Histogram,
    LoopFold,
    OutlineFold,
    StepRunRow,
    TokenRow,
    WaitRow,
    critical_path,
)
from noetl.server.execution_views import Status
from noetl.store.store import Summary
from noetl.timestamps import optional_rfc3339, rfc3339

MAX_SHOWN_LOOPS = 100  # the latest
WaitedKind = Literal["worker", "retry", "external"]


class WaitedColumns(msgspec.Struct, frozen=True):
    """Milliseconds that each step run waited for a worker, for a retry, and for signals, children or events."""

    worker: list[int]
    retry: list[int]
    external: list[int]


class StepRunColumns(msgspec.Struct, frozen=True):
    """Step runs in the order of their scheduling. `step` is a place in `steps`, `loop` one in `loops` or -1, and
    `from_runs` are places among the step runs. A seq of 0 and a time of -1: not yet. Statuses: 0 scheduled, 1 running,
    2 waiting, 3 succeeded, 4 failed, 5 skipped, 6 cancelled."""

    step: list[int]
    n: list[int]
    scheduled_seq: list[int]
    started_seq: list[int]
    ended_seq: list[int]
    scheduled_ms: list[int]
    started_ms: list[int]
    ended_ms: list[int]
    status: list[int]
    retries: list[int]
    loop: list[int]
    from_runs: list[list[int]]
    waited_ms: WaitedColumns


class ParkedColumns(msgspec.Struct, frozen=True):
    """Waits of step runs without a loop; `to_seq` is 0 while one lasts."""

    run: list[int]
    from_seq: list[int]
    to_seq: list[int]


class TokenColumns(msgspec.Struct, frozen=True):
    """Tokens in the order in which they were sent. `from_run` is -1 for the first one, and where the run is unknown."""

    step: list[int]
    from_run: list[int]
    enqueued_seq: list[int]
    consumed_seq: list[int]
    held_seq: list[int]


class ProgressColumns(msgspec.Struct, frozen=True):
    seq: list[int]
    ok: list[int]
    failed: list[int]
    in_flight: list[int]


class LoopWaitColumns(msgspec.Struct, frozen=True):
    """Times in which all started items of a loop waited, in milliseconds since the start of the execution; `to_ms` is
    -1 while it lasts. Of many waits the longest."""

    kind: list[WaitedKind]
    from_ms: list[int]
    to_ms: list[int]


class LoopOutline(msgspec.Struct, frozen=True):
    run: str
    total: int
    progress: ProgressColumns
    waits: LoopWaitColumns


class ArcOutline(msgspec.Struct, frozen=True):
    """How often an arc fired, and when last."""

    step: str
    arc: int
    fired: int
    last_seq: int


class Marker(msgspec.Struct, frozen=True):
    seq: int
    kind: str
    entity: str


class HistogramColumns(msgspec.Struct, frozen=True):
    """Events in bins of equal size, and the time of the last event of each."""

    events_per_bin: int
    events: list[int]
    errors: list[int]
    retries: list[int]
    end_ms: list[int]


class StepOutline(msgspec.Struct, frozen=True):
    """The step runs of a step at the end of each bin of the histogram."""

    step: str
    runs: int
    active: list[int]
    succeeded: list[int]
    failed: list[int]


class OutlineView(msgspec.Struct, frozen=True):
    """The outline of an execution, without its events. Above 5,000 step runs, `by_step` takes the place of `runs`,
    `parked` and `tokens`."""

    execution_id: str
    seq: int
    status: Status
    started: str
    ended: str | None
    digests: list[list[int | str]]  # pairs of a seq and the playbook from there on
    steps: list[str]
    runs: StepRunColumns | None
    parked: ParkedColumns | None
    tokens: TokenColumns | None
    loops: list[LoopOutline]
    arcs: list[ArcOutline]
    markers: list[Marker]
    critical_path: list[int]
    histogram: HistogramColumns
    by_step: list[StepOutline] | None


def shown_status(fold: OutlineFold, summary: Summary) -> Status:
    """The listed status, which distinguishes running and waiting, unless a later event has set it."""
    is_later = summary.ended is not None and fold.ended_ms is None
    return cast(Status, fold.status if is_later or fold.ended_ms is not None else summary.status)


def outline_view(execution: str, fold: OutlineFold, status: Status) -> OutlineView:
    places = Places(fold)
    rows = fold.has_rows
    return OutlineView(
        execution,
        fold.seq,
        status,
        rfc3339(fold.started_ms / 1000),
        optional_rfc3339(None if fold.ended_ms is None else fold.ended_ms / 1000),
        [list(digest) for digest in fold.digests],
        list(places.steps),
        step_run_columns(fold.runs.values(), fold, places) if rows else None,
        parked_columns([wait for waits in fold.waits.values() for wait in waits], places) if rows else None,
        token_columns(list(fold.tokens.values()), places) if rows else None,
        loop_outlines(fold, places),
        [ArcOutline(step, arc, fired, last) for (step, arc), (fired, last) in fold.arcs.items()],
        [Marker(*marker) for marker in fold.markers],
        [places.runs[name] for name in critical_path(fold.runs)] if rows else [],
        _histogram(fold.histogram, fold.started_ms),
        None if rows else _by_step(fold),
    )


class Places:
    """The places of steps, step runs and loops in their columns."""

    def __init__(self, fold: OutlineFold) -> None:
        self.steps = fold.step_names
        self.runs = {name: place for place, name in enumerate(fold.runs)}
        self.loops = {name: place for place, name in enumerate(list(fold.loops)[-MAX_SHOWN_LOOPS:])}


def step_run_columns(runs: Iterable[StepRunRow], fold: OutlineFold, places: Places) -> StepRunColumns:
    rows = list(runs)
    return StepRunColumns(
        [places.steps[row.step] for row in rows],
        [row.n for row in rows],
        [row.scheduled_seq for row in rows],
        [row.started_seq for row in rows],
        [row.ended_seq for row in rows],
        [fold.since_start(row.scheduled_ms) for row in rows],
        [fold.since_start(row.started_ms) for row in rows],
        [fold.since_start(row.ended_ms) for row in rows],
        [row.status for row in rows],
        [row.retries for row in rows],
        [places.loops.get(row.name, -1) for row in rows],
        [[places.runs[name] for name in row.from_runs if name in places.runs] for row in rows],
        WaitedColumns(*([row.waited.get(kind, 0) for row in rows] for kind in WaitedColumns.__struct_fields__)),
    )


def parked_columns(waits: Sequence[WaitRow], places: Places) -> ParkedColumns:
    runs = [places.runs[wait.run] for wait in waits]
    return ParkedColumns(runs, [wait.from_seq for wait in waits], [wait.to_seq for wait in waits])


def token_columns(tokens: Sequence[TokenRow], places: Places) -> TokenColumns:
    return TokenColumns(
        [places.steps[token.step] for token in tokens],
        [places.runs.get(token.origin or "", -1) for token in tokens],
        [token.enqueued_seq for token in tokens],
        [token.consumed_seq for token in tokens],
        [token.held_seq for token in tokens],
    )


def loop_outlines(fold: OutlineFold, places: Places) -> list[LoopOutline]:
    loops = (fold.loops[run] for run in places.loops)
    return [
        LoopOutline(loop.run, loop.total, ProgressColumns(**loop.progress()), loop_waits(loop, fold)) for loop in loops
    ]


def loop_waits(loop: LoopFold, fold: OutlineFold) -> LoopWaitColumns:
    waits = [*loop.waits, *([loop.wait] if loop.wait is not None else [])]
    return LoopWaitColumns(
        [cast(WaitedKind, wait.kind) for wait in waits],
        [fold.since_start(wait.start) for wait in waits],
        [fold.since_start(wait.end) for wait in waits],
    )


def _histogram(histogram: Histogram, started: int) -> HistogramColumns:
    ends = [max(0, end - started) for end in histogram.end_ms]
    return HistogramColumns(histogram.width, histogram.events, histogram.errors, histogram.retries, ends)


def _by_step(fold: OutlineFold) -> list[StepOutline]:
    steps: Sequence[str] = list(fold.steps)
    return [StepOutline(step, fold.steps[step][0], **fold.histogram.step_columns(step)) for step in steps]
