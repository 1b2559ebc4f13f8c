"""verify(...): does a stored log keep what the engine promises? Pure: rows in, violations out.

Each promise is a class below with a name and the events it looks at. It sees every event before the event is folded
into the state, so `self.log.state` is what was known when the event was written. Checks that need no fold go on where
a damaged log can't be folded any further.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from hashlib import sha256
from typing import Any, ClassVar, NamedTuple, Protocol

import msgspec

from noetl.engine import events as e
from noetl.engine.evolve import evolve
from noetl.engine.net import Net
from noetl.engine.patch import SET, BadPatch, Patch, apply_patch
from noetl.engine.state import Execution, Run
from noetl.model.identity import TaskId, iteration_id, step_of
from noetl.reference import CHUNKS, SECRET, read_spelled

MAX_EVENT_BYTES = 64 * 1024
PASSING = frozenset(["net", "digest", "changed", "listening", "outbox"])
"""Fields of the state that say nothing between turns, or are given and not folded."""

Load = Callable[[str, str], bytes | None]
"""Gives the content that a store has under a key."""
NetOf = Callable[[str], Net]
"""Gives the playbook of a digest, for forks that go on with an edited one."""


class StoredRow(Protocol):
    """A row of a log."""

    @property
    def seq(self) -> int: ...
    @property
    def type(self) -> str: ...
    @property
    def at(self) -> float: ...
    @property
    def data(self) -> bytes: ...
    @property
    def hash(self) -> bytes: ...


class Codec(Protocol):
    """How rows are written; the module `noetl.store.codec` is one."""

    MARK: str
    ZERO: bytes

    def decode(self, name: str, data: bytes) -> e.Event: ...
    def chained(self, before: bytes, name: str, at: float, data: bytes) -> bytes: ...


class Violation(msgspec.Struct, frozen=True):
    """A promise that a log does not keep, and where it was seen."""

    execution_id: str
    seq: int
    invariant: str
    message: str


class Derived(Protocol):
    """Parts of the fold that a store keeps as rows."""

    @property
    def ready(self) -> dict[str, str]: ...
    @property
    def leases(self) -> Mapping[int, tuple[str, str, float, float]]: ...
    @property
    def timers(self) -> dict[str, float]: ...


class Frozen(NamedTuple):
    """A stored snapshot: the state as of a row, and that row's hash."""

    seq: int
    hash: bytes
    state: Execution


def verify(
    execution: str,
    rows: Iterable[StoredRow],
    net: Net,
    codec: Codec,
    load: Load | None = None,
    status: str | None = None,
    snapshot: Frozen | None = None,
    derived: Derived | None = None,
    net_of: NetOf | None = None,
) -> list[Violation]:
    """Every violation in a log. `net` is the playbook it begins with. `load` finds stored content; `status` is what
    lists say of the execution, `derived` what the store keeps as rows, both as of the last row."""
    log = Log(execution, net, codec, load, net_of)
    for row in rows:
        log.take(row)
        if snapshot is not None and snapshot.seq == row.seq:
            log.compare(row, snapshot)
    log.end(status, snapshot)
    if derived is not None and log.foldable:
        log.compare_rows(derived)
    return log.found


class Log:
    """A log on its way through the checks."""

    def __init__(self, execution: str, net: Net, codec: Codec, load: Load | None, net_of: NetOf | None = None) -> None:
        self.execution, self.net, self.codec, self.load, self.net_of = execution, net, codec, load, net_of
        self.state = Execution(execution, net, "")
        self.foldable = True
        self.seq = 0
        self.found: list[Violation] = []
        self.of_rows = [kind(self) for kind in OF_ROWS]
        self.of_events = [kind(self) for kind in OF_EVENTS]

    def take(self, row: StoredRow) -> None:
        self.seq = row.seq
        for check in self.of_rows:
            check.row(row)
        try:
            event = self.codec.decode(row.type, row.data)
        except Exception as error:
            self.note("readable", str(error))
            self.foldable = False
            return
        for one in self.of_events:
            one.event(event)
        self._fold(event, row.at)

    def _fold(self, event: e.Event, at: float) -> None:
        if not self.foldable:
            return
        try:
            if isinstance(event, e.ExecutionForked) and event.playbook and self.net_of is not None:
                self.net = self.state.net = self.net_of(event.playbook)
            evolve(self.state, event, at)
        except Exception as error:  # a log that breaks its promises can break anything
            self.foldable = False
            self.note("replay", f"{event.name} does not follow from what came before ({type(error).__name__}: {error})")

    def compare(self, row: StoredRow, snapshot: Frozen) -> None:
        """A snapshot is the fold up to its row."""
        if snapshot.hash != row.hash:
            self.note("snapshot", "was taken of another log: the hash of its row differs")
        for name in Execution.__struct_fields__ if self.foldable else ():
            if name not in PASSING and getattr(snapshot.state, name) != getattr(self.state, name):
                self.note("snapshot", f"its {name} is not what the log gives")

    def end(self, status: str | None, snapshot: Frozen | None) -> None:
        for check in self.of_events:
            check.end()
        if self.foldable and status is not None and status != self.state.shown_status:
            self.note("replay", f"lists say {status}, the log says {self.state.shown_status}")
        if snapshot is not None and snapshot.seq > self.seq:
            self.note("snapshot", f"stands at {snapshot.seq}, and the log ends at {self.seq}")

    def compare_rows(self, derived: Derived) -> None:
        """Ready work, leases and timers as rows are those of the fold, both ways."""
        state = self.state
        leases = {fence: (lease.run, lease.worker, lease.since, lease.ttl) for fence, lease in state.leases.items()}
        self._compare_table("ready", derived.ready, state.ready)
        self._compare_table("lease", {fence: tuple(row) for fence, row in derived.leases.items()}, leases)
        self._compare_table("timer", derived.timers, state.timers)

    def _compare_table(self, table: str, rows: Mapping[Any, Any], fold: Mapping[Any, Any]) -> None:
        for key in rows.keys() | fold.keys():
            if key not in fold:
                self.note("rows", f"the {table} row {key!r} is not in the log")
            elif key not in rows:
                self.note("rows", f"the log has {table} {key!r}, and there is no row of it")
            elif rows[key] != fold[key]:
                self.note("rows", f"the {table} row {key!r} says {rows[key]}, the log {fold[key]}")

    def note(self, invariant: str, message: str) -> None:
        self.found.append(Violation(self.execution, self.seq, invariant, message))


# -- promises about rows --------------------------------------------------------------------------------------------


class RowCheck:
    """Looks at rows as they are stored."""

    name: ClassVar[str]

    def __init__(self, log: Log) -> None:
        self.log = log

    def row(self, row: StoredRow) -> None:
        raise NotImplementedError

    def fail(self, message: str) -> None:
        self.log.note(self.name, message)


class Gapless(RowCheck):
    """Rows are numbered 1, 2, 3 and so on."""

    name = "seq"

    def __init__(self, log: Log) -> None:
        super().__init__(log)
        self.last = 0

    def row(self, row: StoredRow) -> None:
        if row.seq != self.last + 1:
            self.fail(f"follows {self.last}")
        self.last = row.seq


class Chained(RowCheck):
    """Each row carries a hash over itself and the row before it."""

    name = "hash_chain"

    def __init__(self, log: Log) -> None:
        super().__init__(log)
        self.head = log.codec.ZERO

    def row(self, row: StoredRow) -> None:
        if row.hash != self.log.codec.chained(self.head, row.type, row.at, row.data):
            self.fail(f"the hash of this {row.type} does not follow from the row before it: one of them was changed")
        self.head = row.hash


class Small(RowCheck):
    """An event is at most 64 KiB."""

    name = "size"

    def row(self, row: StoredRow) -> None:
        if len(row.data) > MAX_EVENT_BYTES:
            self.fail(f"{row.type} has {len(row.data):,} bytes, more than {MAX_EVENT_BYTES:,}")


class Resolves(RowCheck):
    """What a row refers to is stored, as it was when it was referred to."""

    name = "references"

    def row(self, row: StoredRow) -> None:
        mark = self.log.codec.MARK
        if self.log.load is None or f'"{mark}"'.encode() not in row.data:
            return
        try:
            data = msgspec.json.decode(row.data)
        except msgspec.DecodeError:
            return
        for reference in _references(data, mark):
            if reference.get("store") != SECRET:  # a handle has no content that a store could show
                self._resolve(reference, self.log.load)

    def _resolve(self, reference: dict[str, Any], load: Load) -> None:
        key, size = str(reference.get("key")), reference.get("size")
        content = load(str(reference.get("store")), key)
        if content is None:
            self.fail(f"refers to {key[:16]}, which is not stored")
        elif f"sha256:{sha256(content).hexdigest()}" != reference.get("checksum") or len(content) != size:
            self.fail(f"refers to {key[:16]}, whose content was changed")
        elif reference.get("schema_hint") == CHUNKS:
            for chunk in msgspec.json.decode(content)["chunks"]:
                part = load("db", chunk)
                if part is None or sha256(part).hexdigest() != chunk:
                    self.fail(f"refers to {key[:16]}, whose part {chunk[:16]} is missing or was changed")


def _references(data: Any, mark: str) -> Iterator[dict[str, Any]]:
    if isinstance(data, dict):
        inner = data.get(mark)
        if len(data) == 1 and isinstance(inner, dict):
            yield inner
        else:
            for value in data.values():
                yield from _references(value, mark)
    elif isinstance(data, list):
        for value in data:
            yield from _references(value, mark)


# -- promises about events ------------------------------------------------------------------------------------------


class Check:
    """Looks at events, each before it is folded into `self.log.state`."""

    name: ClassVar[str]

    def __init__(self, log: Log) -> None:
        self.log = log

    def event(self, event: e.Event) -> None:
        raise NotImplementedError

    def end(self) -> None:
        """The log has no more events."""

    def fail(self, message: str) -> None:
        self.log.note(self.name, message)


class OneEnd(Check):
    """There is one terminal event, and nothing after it."""

    name = "terminal"

    def __init__(self, log: Log) -> None:
        super().__init__(log)
        self.finished = self.processed = 0

    def event(self, event: e.Event) -> None:
        if self.processed:
            self.fail(f"{event.name} comes after the end, which is {self.processed}")
        if isinstance(event, e.WorkflowFinished):
            if self.finished:
                self.fail("the workflow finished twice")
            self.finished = self.log.seq
        if isinstance(event, e.PlaybookProcessed):
            self.processed = self.log.seq


class Tokens(Check):
    """Every token is consumed by one run, or denied, or still waits or is held; none comes from nowhere."""

    name = "tokens"

    def __init__(self, log: Log) -> None:
        super().__init__(log)
        self.alive: dict[int, str] = {}
        self.next = 1
        self.owed: dict[str, int] = {}

    def event(self, event: e.Event) -> None:
        match event:
            case e.TokenEnqueued():
                self._enqueued(event)
            case e.StepScheduled(run=run, tokens=tokens):
                for token in tokens:
                    self._gone(token, f"consumed by {run}", step_of(run))
                if not tokens and step_of(run) != self.log.net.playbook.final:
                    self.fail(f"{run} consumed no token")
            case e.TokenDenied(token=token):
                self._gone(token, "denied")
            case e.TokenHeld(token=token) if token not in self.alive:
                self.fail(f"token {token} is held and does not exist")
            case e.NextEvaluated(run=run, selected=selected, to=to):
                self.owed[run] = len(selected) + len(to)
            case e.WorkflowFinished(outcome="succeeded"):
                for token, step in self.alive.items():
                    self.fail(f"token {token} at {step} is neither consumed nor denied, and the workflow finished")
                self._settle()
            case e.WorkflowFinished() | e.PlaybookCancelled():
                self.alive.clear()
                self.owed.clear()

    def _enqueued(self, event: e.TokenEnqueued) -> None:
        if event.token != self.next:
            self.fail(f"token {event.token} was made where {self.next} is next")
        if event.origin is not None:
            self.owed[event.origin] = self.owed.get(event.origin, 0) - 1
            if self.owed[event.origin] < 0:
                self.fail(f"{event.origin} sent token {event.token}, which none of its arcs selected")
        elif event.token != 1:
            self.fail(f"token {event.token} comes from nowhere")
        self.next = max(self.next, event.token) + 1
        self.alive[event.token] = event.step

    def _gone(self, token: int, how: str, step: str | None = None) -> None:
        at = self.alive.pop(token, None)
        if at is None:
            self.fail(f"token {token} was {how} and does not exist, or not any more")
        elif step is not None and at != step:
            self.fail(f"token {token} was {how} and is at {at}")

    def _settle(self) -> None:
        for run, count in self.owed.items():
            if count > 0:
                self.fail(f"{run} selected {count} arc{'s' * (count != 1)} more than it sent tokens")


class Runs(Check):
    """Each run of a step is scheduled once and ends once; nothing happens in a run before or after."""

    name = "runs"

    def __init__(self, log: Log) -> None:
        super().__init__(log)
        self.entries: dict[str, int] = {}
        self.alive: dict[str, None] = {}
        self.ended: dict[str, None] = {}

    def event(self, event: e.Event) -> None:
        match event:
            case e.StepScheduled(run=run):
                self._scheduled(run)
            case e.NextEvaluated(run=run):
                if run not in self.ended:
                    self.fail(f"the arcs of {run} were looked at, and it had not ended or they had been looked at")
                self.ended.pop(run, None)
            case e.LoopDone(run=run) if _has_tail(self.log.net, run):
                self._inside(run, event)
            case e.StepDone(run=run) | e.StepFailed(run=run) | e.LoopDone(run=run):
                self._inside(run, event)
                self.alive.pop(run, None)
                self.ended[run] = None
            case e.WorkflowFinished(outcome=outcome):
                self._finished(outcome)
            case e.PlaybookCancelled():
                self.alive.clear()
            case _:
                self._inside(_run_of(event), event)

    def _scheduled(self, run: str) -> None:
        step = step_of(run)
        number = self.entries[step] = self.entries.get(step, 0) + 1
        if run != f"{step}#{number}":
            self.fail(f"{run} was scheduled where {step}#{number} is next")
        if step not in self.log.net.steps:
            self.fail(f"the playbook has no step {step!r}")
        self.alive[run] = None

    def _inside(self, run: str | None, event: e.Event) -> None:
        if run is not None and run not in self.alive:
            self.fail(f"{event.name} of {run}, which had ended or was never scheduled")

    def _finished(self, outcome: str) -> None:
        if outcome == "succeeded":
            for run in self.alive:
                self.fail(f"{run} has not ended, and the workflow finished")
        self.alive.clear()


class Outcomes(Check):
    """A visit of a task has one accepted outcome per attempt; attempts rise by one; after the last comes nothing."""

    name = "outcomes"

    def __init__(self, log: Log) -> None:
        super().__init__(log)
        self.attempts: dict[TaskId, int] = {}
        self.closed: dict[TaskId, None] = {}

    def event(self, event: e.Event) -> None:
        match event:
            case e.TaskDone(task=task, attempt=attempt):
                before = self.attempts.get(task, 0)
                if attempt <= before:
                    self.fail(f"{task} has an outcome of attempt {attempt} after one of attempt {before}")
                elif attempt > before + 1:
                    self.fail(f"{task} has an outcome of attempt {attempt}, and none of attempt {before + 1}")
                if task in self.closed:
                    self.fail(f"{task} has an outcome after its last one")
                self.attempts[task] = attempt
                if event.do != "retry":
                    self.closed[task] = None
            case e.TaskStarted(task=task, attempt=attempt):
                if attempt != self.attempts.get(task, 0) + 1 or task in self.closed:
                    self.fail(f"{task} started attempt {attempt}, which has an outcome or is not the next one")
            case e.StepDone(run=run) | e.StepFailed(run=run) | e.LoopDone(run=run):
                self._forget(run)

    def _forget(self, run: str) -> None:
        """A run that ended is watched by `runs`; memory follows what is alive."""
        for book in (self.attempts, self.closed):
            for task in [task for task in book if task.run == run]:
                del book[task]


class Fences(Check):
    """Fences rise by one, and what a worker tells is accepted only under a lease that is alive."""

    name = "fences"

    def event(self, event: e.Event) -> None:
        if not self.log.foldable:
            return
        state = self.log.state
        match event:
            case e.StepStarted(fence=fence) | e.StepRegranted(fence=fence):
                if fence != state.fence + 1:
                    self.fail(f"the lease {fence} was granted after {state.fence}")
                self._free(state.runs.get(event.run), event)
            case e.StepPaused(run=name, fence=fence):
                lease = state.leases.get(fence)
                if lease is None or lease.run != name:
                    self.fail(f"{name} gave back the lease {fence}, which it does not hold")
            case e.TaskStarted(task=task) | e.TaskDone(task=task) | e.TaskRetryScheduled(task=task):
                self._under_lease(task.run, task.index, event)
            case e.PollStarted(task=task) | e.PollIteration(task=task) | e.PollFinished(task=task):
                self._under_lease(task.run, task.index, event)
            case e.StepDone(run=name) | e.NextRequested(run=name) | e.BranchSuppressed(run=name):
                self._under_lease(name, None, event)
            case e.IterationStarted(run=name, index=index) | e.IterationDone(run=name, index=index):
                self._under_lease(name, index, event)
            case e.IterationFailed(run=name, index=index):
                self._under_lease(name, index, event)

    def _free(self, run: Run | None, event: e.StepStarted | e.StepRegranted) -> None:
        """A lease is not granted on what another live lease covers."""
        if run is None:
            return
        if event.items is None and run.fence is not None:
            self.fail(f"{run.id} was granted again, and its lease {run.fence} is alive")
        for fence, (first, last) in run.loop.lanes.items() if run.loop and event.items else ():
            if event.items and event.items[0] < last and first < event.items[1]:
                self.fail(f"items {event.items} of {run.id} were granted again, and the lease {fence} is alive")

    def _under_lease(self, name: str, index: int | None, event: e.Event) -> None:
        run = self.log.state.runs.get(name)
        if run is None:
            return  # `runs` tells
        if index is None:
            held = run.fence is not None and run.fence in self.log.state.leases
        else:
            held = run.loop is not None and any(first <= index < last for first, last in run.loop.lanes.values())
        if not held:
            self.fail(f"{event.name} of {iteration_id(name, index)} was accepted, and no lease on it is alive")


class Ctx(Check):
    """`ctx` is the fold of its patches, and in a parallel loop each key is written by one item."""

    name = "ctx"

    def __init__(self, log: Log) -> None:
        super().__init__(log)
        self.ctx: dict[str, Any] = {}
        self.contents: dict[str, Any] = {}
        self.texts: dict[str, str] = {}
        self.writers: dict[str, dict[str, tuple[int, Any]]] = {}

    def event(self, event: e.Event) -> None:
        match event:
            case e.CtxPatched(patch=patch, spelled=spelled):
                self._spell(spelled)
                self._apply(patch)
            case e.ExecutionForked(set_ctx=patch):
                self._apply(patch)
            case e.TaskDone(task=task, set_ctx=patch):
                self._apply(patch)
                self.contents.clear()
                loop = _loop_of(self.log.net, task.run)
                if loop is not None and loop.mode == "parallel" and task.index is not None:
                    self._write_once(task.run, task.index, patch)
            case e.LoopDone(run=run) | e.StepFailed(run=run):
                self.writers.pop(run, None)

    def _spell(self, part: e.Spelled | None) -> None:
        if part is not None:
            self.texts[part.key] = self.texts.get(part.key, "") + part.text
            if not part.more:
                self.contents[part.key] = read_spelled(self.texts.pop(part.key))

    def _apply(self, patch: Patch) -> None:
        try:
            apply_patch(self.ctx, patch, self.contents)
        except BadPatch as error:
            self.fail(f"a patch was accepted that can't be applied: {error}")

    def _write_once(self, run: str, index: int, patch: Patch) -> None:
        written = self.writers.setdefault(run, {})
        for key, operator, value in patch:
            if operator != SET:
                continue
            writer, old = written.setdefault(key, (index, value))
            if writer != index and old != value:
                self.fail(f"ctx.{key} was written by items {writer} and {index} of {run} with different values")
            elif writer == index:
                written[key] = (index, value)

    def end(self) -> None:
        if self.log.foldable and self.ctx != self.log.state.ctx:
            self.fail("ctx is not what its patches make it")


class Loops(Check):
    """No more items in flight than allowed, each index once, in order where it matters, one end with true counts."""

    name = "loops"

    def __init__(self, log: Log) -> None:
        super().__init__(log)
        self.total: dict[str, int] = {}
        self.finished: dict[str, set[int]] = {}
        self.failed: dict[str, int] = {}

    def event(self, event: e.Event) -> None:
        match event:
            case e.LoopStarted(run=run, total=total):
                if run in self.total:
                    self.fail(f"the loop of {run} started twice")
                self.total[run], self.finished[run], self.failed[run] = total, set(), 0
            case e.StepStarted() | e.StepRegranted():
                self._granted(event)
            case e.IterationStarted(run=run, index=index):
                self._order(run, index)
            case e.IterationDone(run=run, index=index) | e.IterationFailed(run=run, index=index):
                self._finish(run, index, isinstance(event, e.IterationFailed))
            case e.LoopDone():
                self._done(event)

    def _granted(self, event: e.StepStarted | e.StepRegranted) -> None:
        plan = self.log.net.steps.get(step_of(event.run))
        run = self.log.state.runs.get(event.run) if self.log.foldable else None
        if event.items is None or plan is None or run is None or run.loop is None:
            return
        flying = len(run.loop.lanes) + len(run.parked) + 1
        if flying > plan.lanes:
            self.fail(f"{flying} items of {event.run} are in flight, and {plan.lanes} may be")
        if not 0 <= event.items[0] < event.items[1] <= run.loop.total:
            self.fail(f"items {event.items} of {event.run} were granted, and there are {run.loop.total}")

    def _order(self, run: str, index: int) -> None:
        loop, finished = _loop_of(self.log.net, run), self.finished.get(run)
        if finished is None:
            self.fail(f"item {index} of {run}, whose loop has not started")
        elif index in finished:
            self.fail(f"item {index} of {run} started after it was finished")
        elif loop is not None and loop.mode == "sequential" and index != len(finished):
            self.fail(f"item {index} of {run} started where {len(finished)} is next")

    def _finish(self, run: str, index: int, failed: bool) -> None:
        finished = self.finished.setdefault(run, set())
        if index in finished:
            self.fail(f"item {index} of {run} was finished twice")
        elif not 0 <= index < self.total.get(run, 0):
            self.fail(f"item {index} of {run} was finished, and there are {self.total.get(run, 0)}")
        finished.add(index)
        self.failed[run] = self.failed.get(run, 0) + failed

    def _done(self, event: e.LoopDone) -> None:
        total, finished = self.total.pop(event.run, None), len(self.finished.pop(event.run, ()))
        failed = self.failed.pop(event.run, 0)
        if total is None:
            self.fail(f"the loop of {event.run} is done, and it had not started or was done before")
            return
        plan = self.log.net.steps.get(step_of(event.run))
        if plan is not None and not plan.step.tasks:
            finished = total
        if (event.total, event.ok + event.failed, finished, event.failed) != (total, total, total, failed):
            self.fail(
                f"the loop of {event.run} is done with {event.ok} ok and {event.failed} failed items; "
                f"it has {total}, of which {finished} are finished and {failed} failed"
            )


class Branches(Check):
    """A branch of a classic step fires once in a run, in exclusive mode one at most, and only what fired asks for a way
    out or is suppressed."""

    name = "branches"

    def __init__(self, log: Log) -> None:
        super().__init__(log)
        self.fired: dict[str, list[str]] = {}

    def event(self, event: e.Event) -> None:
        match event:
            case e.CaseEvaluated(run=run, order=order, case_mode=mode):
                fired = self.fired.setdefault(run, [])
                for branch in order:
                    if branch in fired:
                        self.fail(f"{branch} of {run} fired twice")
                    fired.append(branch)
                if mode == "exclusive" and len(fired) > 1:
                    self.fail(f"{len(fired)} branches of {run} fired, and one may")
            case e.NextRequested(run=run, branch=branch) | e.BranchSuppressed(run=run, branch=branch):
                if branch not in self.fired.get(run, ()):
                    self.fail(f"{event.name} of {branch} of {run}, which has not fired")
            case e.StepDone(run=run) | e.StepFailed(run=run):
                self.fired.pop(run, None)


class Cancelled(Check):
    """After a cancel nothing is scheduled, granted or started."""

    name = "cancel"

    def __init__(self, log: Log) -> None:
        super().__init__(log)
        self.cancelled = False

    def event(self, event: e.Event) -> None:
        if self.cancelled and event.name in BEGINNINGS:
            self.fail(f"{event.name} comes after the cancel")
        self.cancelled = self.cancelled or isinstance(event, e.PlaybookCancelled)


class Forks(Check):
    """What a fork says of its source is true: all that came before it are the source's events."""

    name = "fork"

    def event(self, event: e.Event) -> None:
        if not isinstance(event, e.ExecutionForked):
            return
        if event.source_id == self.log.execution:
            self.fail("is said to be a fork of itself")
        if event.source_seq != self.log.seq - 1:
            self.fail(f"follows {self.log.seq - 1} events, and is said to share {event.source_seq} with its source")


BEGINNINGS = frozenset(
    kind.name
    for kind in (
        e.TokenEnqueued,
        e.StepScheduled,
        e.StepStarted,
        e.StepRegranted,
        e.LoopStarted,
        e.IterationStarted,
        e.TaskStarted,
        e.TimerArmed,
    )
)

OF_ROWS: tuple[type[RowCheck], ...] = (Gapless, Chained, Small, Resolves)
OF_EVENTS: tuple[type[Check], ...] = (
    OneEnd,
    Tokens,
    Runs,
    Outcomes,
    Fences,
    Ctx,
    Loops,
    Branches,
    Cancelled,
    Forks,
)

INVARIANTS: dict[str, str] = {
    **{kind.name: kind.__doc__ or "" for kind in OF_ROWS},
    **{kind.name: kind.__doc__ or "" for kind in OF_EVENTS},
    "readable": "Every row can be read.",
    "snapshot": "A snapshot is the fold of the log up to its row.",
    "rows": "Ready work, leases and timers are kept as rows just as the log has them, both ways.",
    "replay": "The log can be folded, and the fold is what the store says of the execution.",
}
"""Every promise by name."""


def _run_of(event: e.Event) -> str | None:
    """The run that an event belongs to."""
    task = getattr(event, "task", None)
    return task.run if isinstance(task, TaskId) else getattr(event, "run", None)


def _has_tail(net: Net, run: str) -> bool:
    plan = net.steps.get(step_of(run))
    return plan is not None and plan.step.tail is not None


def _loop_of(net: Net, run: str) -> Any:
    plan = net.steps.get(step_of(run))
    return plan.step.loop if plan is not None else None
