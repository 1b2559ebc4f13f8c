"""The fold of an outline: what happened to the steps, tokens, arcs and loops of a run, up to an event.

Its size is bounded. Above `MAX_RUNS` step runs it counts them per step instead of keeping a row of each; the histogram
has at most `MAX_BINS` bins, whose width doubles as the log grows; a loop has at most `MAX_POINTS` points.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from heapq import nlargest
from operator import attrgetter, itemgetter
from typing import Any

import msgspec

from noetl.engine.history.outline import (
    CANCELLED,
    EXECUTION_STATUSES,
    FAILED,
    MARKER_KINDS,
    RUNNING,
    SCHEDULED,
    SUCCEEDED,
    WAIT_KINDS,
    WAITING,
    Block,
    Times,
    run_names,
)
from noetl.engine.history.outline_loop import BINS, MAX_ERRORS, ItemError, LoopPart

MAX_RUNS = 5_000
MAX_BINS = 512
MAX_POINTS = 200
MAX_LOOPS = 1_000
MAX_MARKERS = 1_000
MAX_SLOWEST = 10
NOT_YET = -1


class StepRunRow(msgspec.Struct):
    """Events and times of a step run. A seq of 0 and a time of -1: not yet."""

    step: str
    n: int
    scheduled_seq: int = 0
    started_seq: int = 0
    ended_seq: int = 0
    scheduled_ms: int = NOT_YET
    started_ms: int = NOT_YET
    ended_ms: int = NOT_YET
    status: int = SCHEDULED
    retries: int = 0
    from_runs: list[str] = []
    waited: dict[str, int] = {}  # milliseconds that it waited for a worker, a retry, or something external
    idle: tuple[str, int] | None = None  # the kind of its wait, and its start

    @property
    def name(self) -> str:
        return f"{self.step}#{self.n}"

    def wait(self, for_what: str, now: int) -> None:
        self.settle(now)
        self.idle = for_what, now

    def settle(self, now: int) -> None:
        """End its wait, if there is one."""
        if self.idle is not None:
            for_what, since = self.idle
            self.waited[for_what] = self.waited.get(for_what, 0) + max(0, now - since)
            self.idle = None


class TokenRow(msgspec.Struct):
    step: str
    origin: str | None
    enqueued_seq: int
    consumed_seq: int = 0
    held_seq: int = 0


class WaitRow(msgspec.Struct):
    """A wait of a step run without a loop."""

    run: str
    kind: str
    from_seq: int
    to_seq: int = 0


class LoopWait(msgspec.Struct):
    """A time in which all started items of a loop waited, in milliseconds since 1970."""

    kind: str  # `worker`, `retry` or `external`
    start: int
    end: int = NOT_YET

    @property
    def length(self) -> int:
        """0 while it lasts."""
        return max(0, self.end - self.start)


class LoopDetails(msgspec.Struct):
    """Durations and errors of the items of a loop, without their indexes."""

    run: str
    total: int = 0
    bins: list[int] = msgspec.field(default_factory=lambda: [0] * BINS)
    unknown: int = 0
    errors: dict[tuple[str, str], ItemError] = {}
    slowest: list[tuple[int, int]] = []
    waited_ms: int = 0  # in common waits that have ended
    wait: LoopWait | None = None  # the present one

    def add_waits(self, part: LoopPart) -> list[LoopWait]:
        """Add the common waits of a block; returns those that have ended."""
        ended = []
        for at, kind in rows(part.waits or (), 2):
            if self.wait is not None:
                self.wait.end = at
                self.waited_ms += self.wait.length
                ended.append(self.wait)
            self.wait = LoopWait(waited_kind(WAIT_KINDS[kind]), at) if kind else None
        return ended

    def add_details(self, part: LoopPart) -> None:
        if part.total >= 0:
            self.total = part.total
        counts, slowest = iter(part.bins), self.slowest
        for number, count in zip(counts, counts, strict=True):
            self.bins[number] += count
        self.unknown += part.unknown
        for error in part.errors:
            merge_error(self.errors, error)
        if part.slowest and (len(slowest) < MAX_SLOWEST or part.slowest[-1] > slowest[0]):
            self.slowest = sorted([*slowest, *part.slowest])[-MAX_SLOWEST:]

    def reopen(self) -> None:
        """Failed items run again."""
        self.errors = {}


class LoopFold(LoopDetails):
    """Adds the progress of the loop: how many items have ended, and when."""

    ok: int = 0
    failed: int = 0
    points: list[tuple[int, int, int, int]] = []  # seq, succeeded, failed, in flight
    running: int = 0
    waiting: int = 0
    waits: list[LoopWait] = []  # that have ended; of many the longest

    def add(self, part: LoopPart, first: int) -> None:
        self.add_details(part)
        has_room = len(self.points) < MAX_POINTS  # of a long loop, the end of each block is enough
        for at in range(0 if has_room else len(part.points) - 4, len(part.points), 4):
            offset, ok, failed, in_flight = part.points[at : at + 4]
            self.points.append((first + offset, self.ok + ok, self.failed + failed, in_flight))
        if len(self.points) >= 2 * MAX_POINTS:
            self.points = self.points[1::2]
        self.ok += covered(part.done)
        self.failed += covered(part.failed)
        self.running, self.waiting = len(part.open) - len(part.parked), len(part.parked)

    def reopen(self) -> None:
        super().reopen()
        self.failed = 0

    def add_waits(self, part: LoopPart) -> list[LoopWait]:
        ended = super().add_waits(part)
        self.waits += ended
        if len(self.waits) >= 2 * MAX_POINTS:
            longest = nlargest(MAX_POINTS, self.waits, key=attrgetter("length"))
            self.waits = sorted(longest, key=attrgetter("start"))
        return ended

    def progress(self) -> dict[str, list[int]]:
        stride = -(-len(self.points) // MAX_POINTS)
        points = self.points[::-1][::stride][::-1] if stride else []  # the last point always stays
        names = ("seq", "ok", "failed", "in_flight")
        return {name: [point[place] for point in points] for place, name in enumerate(names)}


def covered(flat: Sequence[int]) -> int:
    """How many numbers the ranges have."""
    return sum(flat[1::2]) - sum(flat[::2])


def merge_error(errors: dict[tuple[str, str], ItemError], error: ItemError) -> None:
    """Count an error with those of its kind and message; beyond `MAX_ERRORS` of them, with all others."""
    key = error.kind, error.message
    if key not in errors and len(errors) >= MAX_ERRORS:
        key = "", ""
    group = errors.get(key)
    if group is None:
        errors[key] = ItemError(*key, error.count, error.first, error.last)
    else:
        group.count += error.count
        group.first, group.last = min(group.first, error.first), max(group.last, error.last)


class Histogram(msgspec.Struct):
    """Events, errors and retries in bins of equal numbers of events; the width of a bin doubles when they are full."""

    width: int = 1
    events: list[int] = []
    errors: list[int] = []
    retries: list[int] = []
    end_ms: list[int] = []
    steps: dict[str, dict[int, tuple[int, int, int]]] = {}
    """Active, succeeded and failed runs of each step at the end of the bins in which they change."""

    def bin_of(self, seq: int) -> int:
        return (seq - 1) // self.width

    def add(self, block: Block, times: Times) -> None:
        last = block.first + block.events - 1
        while self.bin_of(last) >= MAX_BINS:
            self._widen()
        missing = self.bin_of(last) + 1 - len(self.events)
        for column in (self.events, self.errors, self.retries, self.end_ms):
            column += [0] * missing
        seq = block.first
        while seq <= last:
            number = self.bin_of(seq)
            end = min(last, (number + 1) * self.width)
            self.events[number] += end - seq + 1
            self.end_ms[number] = times[end - block.first]
            seq = end + 1
        for column, offsets in ((self.errors, block.errors), (self.retries, block.retries)):
            for offset in offsets:
                column[(block.first + offset - 1) // self.width] += 1

    def _widen(self) -> None:
        self.width *= 2
        for column in (self.events, self.errors, self.retries):
            column[:] = [sum(column[at : at + 2]) for at in range(0, len(column), 2)]
        self.end_ms = [self.end_ms[min(at + 1, len(self.end_ms) - 1)] for at in range(0, len(self.end_ms), 2)]
        for step, counts in self.steps.items():
            self.steps[step] = {number // 2: count for number, count in counts.items()}

    def step_columns(self, step: str) -> dict[str, list[int]]:
        columns: dict[str, list[int]] = {"active": [], "succeeded": [], "failed": []}
        count, counts = (0, 0, 0), self.steps.get(step, {})
        for number in range(len(self.events)):
            count = counts.get(number, count)
            for column, value in zip(columns.values(), count, strict=True):
                column.append(value)
        return columns


class OutlineFold(msgspec.Struct):
    """Add the blocks of a log in order, the last of which may be incomplete."""

    seq: int = 0
    status: str = "pending"
    started_ms: int = 0
    now_ms: int = 0  # time of the last event
    ended_ms: int | None = None
    digests: list[tuple[int, str]] = []
    step_names: dict[str, int] = {}  # the place of each step in lists; a step keeps its place
    steps: dict[str, list[int]] = {}  # runs, active ones, succeeded and failed ones of each step
    run_count: int = 0
    runs_before: list[int] = []  # how many step runs were scheduled before each block
    runs: dict[str, StepRunRow] = {}  # in the order of scheduling; if they are too many, only the open ones
    tokens: dict[int, TokenRow] = {}
    waits: dict[str, list[WaitRow]] = {}
    loops: dict[str, LoopFold] = {}
    arcs: dict[tuple[str, int], tuple[int, int]] = {}  # how often each arc fired, and when last
    markers: list[tuple[int, str, str]] = []
    histogram: Histogram = msgspec.field(default_factory=Histogram)

    @property
    def has_rows(self) -> bool:
        """Whether it has a row of every step run."""
        return self.run_count <= MAX_RUNS

    def since_start(self, time_ms: int) -> int:
        """Milliseconds from the start of the execution to a time; -1 for one that has not come."""
        return max(0, time_ms - self.started_ms) if time_ms >= 0 else NOT_YET

    def add(self, block: Block) -> None:
        times, names, first = Times(block), run_names(block), block.first
        if not self.seq:
            self.started_ms = block.ms
        if block.number == len(self.runs_before):  # else the block continues
            self.runs_before.append(self.run_count)
        self.seq, self.now_ms = first + block.events - 1, times[block.events - 1]
        self.histogram.add(block, times)
        self.digests += [(first + offset, digest) for offset, digest in block.digests]
        for part in block.loops:
            self._loop(names[part.run])
        for offset, change, arguments in sorted(self._changes(block, names), key=itemgetter(0)):
            change(first + offset, times[offset], *arguments)
        for part in block.loops:
            self._add_loop(names[part.run], part, first)
        for step, arc, fired, last in rows(block.arcs, 4):
            before, _ = self.arcs.get((block.steps[step], arc), (0, 0))
            self.arcs[block.steps[step], arc] = before + fired, first + last
        for number, count in rows(block.retried, 2):
            if (run := self.runs.get(names[number])) is not None:
                run.retries += count
        self.markers += [(first + offset, MARKER_KINDS[kind], entity) for offset, kind, entity in block.markers]
        if len(self.markers) > MAX_MARKERS:
            self.markers = _sampled(self.markers)
        if not self.has_rows:
            self._drop_rows()
        place = self.histogram.bin_of(self.seq)
        for name in block.steps:
            self.step_names.setdefault(name, len(self.step_names))
            if name in self.steps:
                _, active, succeeded, failed = self.steps[name]
                self.histogram.steps.setdefault(name, {})[place] = active, succeeded, failed

    def _add_loop(self, name: str, part: LoopPart, first: int) -> None:
        loop, run = self._loop(name), self.runs.get(name)
        loop.add(part, first)
        for wait in loop.add_waits(part):
            if run is not None:
                run.waited[wait.kind] = run.waited.get(wait.kind, 0) + wait.length

    def _changes(self, block: Block, names: Sequence[str]) -> list[tuple[int, Callable[..., None], tuple[Any, ...]]]:
        """Offset, method and arguments of each change; those of one event are in the order in which they apply."""
        steps = block.steps
        changes: list[tuple[int, Callable[..., None], tuple[Any, ...]]] = []
        for token, step, origin, offset in rows(block.tokens, 4):
            changes.append((offset, self._enqueue, (token, steps[step], None if origin < 0 else names[origin])))
        changes += [(offset, self._hold, (token, denied)) for token, offset, denied in rows(block.held, 3)]
        changes += [(offset, self._schedule, (names[run], tokens)) for run, offset, tokens in block.scheduled]
        changes += [(offset, self._start, (names[run],)) for run, offset in rows(block.started, 2)]
        changes += [(offset, self._wait, (names[run], kind)) for run, offset, kind in rows(block.waits, 3)]
        changes += [(offset, self._end, (names[run], status)) for run, offset, status in rows(block.ended, 3)]
        changes += [(offset, self._stop, ()) for offset in block.stops]
        changes += [(offset, self._set_status, (status,)) for offset, status in rows(block.statuses, 2)]
        changes += [(offset, self._reopen, (run,)) for offset, run in block.reopened]
        changes += [(offset, self._fork, ()) for offset in block.forks]
        return changes

    # -- changes ------------------------------------------------------------------------------------------------------

    def _enqueue(self, seq: int, now: int, token: int, step: str, origin: str | None) -> None:
        self.tokens[token] = TokenRow(step, origin, seq)

    def _hold(self, seq: int, now: int, token: int, denied: int) -> None:
        row = self.tokens.get(token)
        if row is not None and denied:
            row.consumed_seq = seq
        elif row is not None and not row.held_seq:
            row.held_seq = seq

    def _schedule(self, seq: int, now: int, name: str, tokens: Sequence[int]) -> None:
        step, _, number = name.rpartition("#")
        rows = [self.tokens[token] for token in tokens if token in self.tokens]
        for row in rows:
            row.consumed_seq = seq
        origins = [row.origin for row in rows if row.origin is not None]
        run = self.runs[name] = StepRunRow(step, int(number), seq, scheduled_ms=now, from_runs=origins)
        run.wait("worker", now)
        self.run_count += 1
        counts = self.steps.setdefault(step, [0, 0, 0, 0])
        counts[0] += 1
        counts[1] += 1

    def _start(self, seq: int, now: int, name: str) -> None:
        run = self.runs.get(name)
        if run is None or run.ended_seq:
            return
        run.settle(now)
        run.status = RUNNING
        if not run.started_seq:
            run.started_seq, run.started_ms = seq, now

    def _wait(self, seq: int, now: int, name: str, kind: int) -> None:
        run = self.runs.get(name)
        if run is None or run.ended_seq:
            return
        if WAIT_KINDS[kind] == "worker":
            self._end_lease(run, now)
        elif kind:
            run.wait(waited_kind(WAIT_KINDS[kind]), now)
            run.status = WAITING
            self.waits.setdefault(name, []).append(WaitRow(name, WAIT_KINDS[kind], seq))
        else:
            run.wait("worker", now)
            run.status = SCHEDULED
            self._end_wait(name, seq)

    def _end_lease(self, run: StepRunRow, now: int) -> None:
        if run.status == RUNNING and run.name not in self.loops:  # other workers may have items of a loop
            run.wait("worker", now)
            run.status = SCHEDULED

    def _end_wait(self, name: str, seq: int) -> None:
        for wait in self.waits.get(name, ())[-1:]:
            wait.to_seq = wait.to_seq or seq

    def _end(self, seq: int, now: int, name: str, status: int) -> None:
        run = self.runs.get(name)
        if run is None:
            return
        counts = self.steps[run.step]
        if run.ended_seq:  # a classic loop that continued after its end
            counts[run.status - 1] -= 1
        else:
            counts[1] -= 1
            run.settle(now)
        if status in (SUCCEEDED, FAILED):
            counts[status - 1] += 1
        run.status, run.ended_seq, run.ended_ms = status, seq, now
        self._end_wait(name, seq)

    def _stop(self, seq: int, now: int) -> None:
        for name, run in self.runs.items():
            if not run.ended_seq:
                self._end(seq, now, name, CANCELLED)
        for token in self.tokens.values():
            token.consumed_seq = token.consumed_seq or seq

    def _set_status(self, seq: int, now: int, status: int) -> None:
        self.status = EXECUTION_STATUSES[status]
        self.ended_ms = now if self.status in ("succeeded", "failed", "cancelled") else None

    def _fork(self, seq: int, now: int) -> None:
        """Leases end, and so do the waits for children, which belong to the source."""
        for name, run in self.runs.items():
            self._end_lease(run, now)
            if any(wait.kind == "child" and not wait.to_seq for wait in self.waits.get(name, ())):
                self._wait(seq, now, name, 0)

    def _reopen(self, seq: int, now: int, run: str) -> None:
        self._loop(run).reopen()

    def _loop(self, run: str) -> LoopFold:
        loop = self.loops.get(run)
        if loop is None:
            while len(self.loops) >= MAX_LOOPS:  # the first ones have ended long ago
                del self.loops[next(iter(self.loops))]
            loop = self.loops[run] = LoopFold(run)
        return loop

    def _drop_rows(self) -> None:
        """Keep only the parts that may still change."""
        self.runs = {name: run for name, run in self.runs.items() if not run.ended_seq}
        self.tokens = {number: token for number, token in self.tokens.items() if not token.consumed_seq}
        self.waits = {name: waits[-1:] for name, waits in self.waits.items() if name in self.runs}


def waited_kind(kind: str) -> str:
    """The kind under which an outline counts the time of a wait."""
    return kind if kind in ("worker", "retry") else "external"


def rows(flat: Sequence[int], width: int) -> Iterable[tuple[int, ...]]:
    return zip(*[iter(flat)] * width, strict=True) if flat else ()


def _sampled(markers: list[tuple[int, str, str]]) -> list[tuple[int, str, str]]:
    """Half of the retries and failures; all others."""
    often = [place for place, marker in enumerate(markers) if marker[1] in ("retry", "failure")]
    dropped = set(often[1::2])
    return [marker for place, marker in enumerate(markers) if place not in dropped]


def critical_path(runs: dict[str, StepRunRow]) -> list[str]:
    """The step runs that led to the one that ended last, each to the next."""
    ended = [run for run in runs.values() if run.ended_seq]
    run = max(ended, key=lambda run: run.ended_seq, default=None)
    path: dict[str, None] = {}
    while run is not None and run.name not in path:
        path[run.name] = None
        before = [runs[name] for name in run.from_runs if name in runs]
        run = max(before, key=lambda run: run.ended_seq, default=None)
    return list(path)[::-1]
