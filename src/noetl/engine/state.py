"""The state of an execution: the fold of its log, mutable and owned by one process.

Finished runs are removed; of a step only the last result remains. So memory grows with open work, not with the log.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from collections.abc import Set as AbstractSet
from itertools import islice
from typing import Any, Generic, TypeAlias, TypeVar

import msgspec

from noetl.classic.state import AfterCallProgress
from noetl.engine.events import Event, Interval
from noetl.engine.net import Net
from noetl.engine.patch import Write
from noetl.model.actor import Actor
from noetl.model.outcome import Error, Outcome
from noetl.model.status import Status
from noetl.reference import SECRET, Reference

MAX_HANDLES = 200
"""The newest handles are kept, since each worker resolves every one of them. No decision depends on the limit."""
WHOLE_RUN = -1  # The index of a run without a loop among parked items and lost leases


Key = TypeVar("Key")
Value = TypeVar("Value")


class Tracked(dict[Key, Value], Generic[Key, Value]):
    """A part of the state that the store also has as rows: it records which keys have changed since they were stored.
    Change it by these methods only."""

    __slots__ = ("existed",)

    def __init__(self, items: Mapping[Key, Value] | None = None) -> None:
        super().__init__(items or {})
        self.existed: dict[Key, bool] = {}  # Keys that have changed, and whether they existed before

    def __setitem__(self, key: Key, value: Value) -> None:
        self.existed.setdefault(key, key in self)
        super().__setitem__(key, value)

    def pop(self, key: Key, default: Any = None) -> Any:
        if key not in self:
            return default
        self.existed.setdefault(key, True)
        return super().pop(key)

    def clear(self) -> None:
        for key in list(self):
            self.pop(key)

    def drain(self) -> dict[Key, Value | None]:
        """The changes since the last call; None for a removed key. A key that came and went is left out."""
        if not self.existed:
            return {}
        existed, self.existed = self.existed, {}
        return {key: self.get(key) for key, existed in existed.items() if existed or key in self}


class Token(msgspec.Struct):
    """A token on its way to a step or waiting there."""

    id: int
    step: str
    args: dict[str, Any]
    origin: str | None = None
    due: float | None = None
    event: dict[str, Any] | None = None  # The boundary event that sent it, for admission rules
    since: float = 0.0  # When it was sent


class PollState(msgspec.Struct):
    """A call that is repeated until its result is ready."""

    first: int  # Its first visit
    due: float | None = None


class Progress(msgspec.Struct):
    """How far a pipeline has come: what a worker needs to continue after the last accepted task."""

    at: str | None = None  # The label that runs next; None before the first task
    attempt: int = 1
    round: int = 1  # The attempt as rules count it: a call with its repetitions by `spec.retry` is one
    round_start: int = 1  # The first attempt of the round
    visits: dict[str, int] = {}
    prev: Any = None
    iter: dict[str, Any] = {}
    tasks: dict[str, Any] = {}  # Outcomes by label, as templates see them
    writes: list[Write] = []
    """The writes of an item of a parallel loop to ctx: it sees these writes, and none of the other items."""
    due: float | None = None  # When the next attempt may begin
    repeats: int = 0
    """How often rules have repeated the next task although it was ok; each time it has its effect again."""
    since: float | None = None  # When the task began that was started last
    started: bool = False  # The next task was started before: it may have had its effect
    delivered: Outcome | None = None  # The outcome of the next task, if it was waited for
    ended: bool = False
    failure: tuple[Error, str, int] | None = None  # Error, task and attempt with which it failed
    polls: dict[str, PollState] = {}  # Polls under way, by label


class Parked(msgspec.Struct):
    """An item, or a whole run, that waits without a lease."""

    until: str
    key: str = ""
    due: float | None = None
    request: dict[str, Any] | None = None
    chain: str = ""  # The chain that waits, if it is one
    keys: tuple[str, ...] = ()  # The names of several signals, of which the first counts
    since: float = 0.0  # When it began to wait

    @property
    def signals(self) -> tuple[str, ...]:
        """The names of the signals that it waits for."""
        return () if self.until != "signal" else self.keys or (self.key,)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the signals, or the id of the child, that it waits for."""
        return (self.key,) if self.until == "child" else self.signals


class ParkedItems(dict[int, Parked]):
    """The parked items of a run by index, also found by what they wait for: there may be thousands of them. Change it
    by these methods only."""

    __slots__ = ("_by_kind", "_by_name", "_count")

    def __init__(self, items: Mapping[int, Parked]) -> None:
        super().__init__()
        self._count = 0
        self._by_kind: dict[str, dict[int, int]] = {}  # Items and their places in the order in which they were parked
        self._by_name: dict[str, dict[str, dict[int, None]]] = {"signal": {}, "child": {}}
        for index, parked in items.items():
            self[index] = parked

    def __setitem__(self, index: int, parked: Parked) -> None:
        self.pop(index)
        super().__setitem__(index, parked)
        self._count += 1
        self._by_kind.setdefault(parked.until, {})[index] = self._count
        for name in parked.names:
            self._by_name[parked.until].setdefault(name, {})[index] = None

    def pop(self, index: int, default: Any = None) -> Any:
        parked = super().pop(index, None)
        if parked is None:
            return default
        _remove(self._by_kind, parked.until, index)
        for name in parked.names:
            _remove(self._by_name[parked.until], name, index)
        return parked

    def clear(self) -> None:
        super().clear()
        self._by_kind.clear()
        for names in self._by_name.values():
            names.clear()

    @property
    def kinds(self) -> AbstractSet[str]:
        """The kinds of their waits, as in `until`."""
        return self._by_kind.keys()

    @property
    def signals(self) -> AbstractSet[str]:
        """The names of the signals that they wait for."""
        return self._by_name["signal"].keys()

    def first(self, kinds: Collection[str], limit: int) -> list[int]:
        """The items that have waited longest for something of these kinds."""
        places = [
            (place, index) for kind in kinds for index, place in islice(self._by_kind.get(kind, {}).items(), limit)
        ]
        return [index for _, index in sorted(places)[:limit]]

    def count(self, kind: str) -> int:
        """How many wait for something of this kind."""
        return len(self._by_kind.get(kind, ()))

    def all_waiting_for(self, kind: str, name: str) -> Collection[int]:
        """The items that wait for a signal or a child; the first of them has waited longest."""
        return self._by_name[kind].get(name, {}).keys()

    def waiting_for(self, kind: str, name: str) -> int | None:
        """The item that has waited longest for a signal or a child."""
        return next(iter(self.all_waiting_for(kind, name)), None)


def _remove(table: dict[Key, dict[int, Any]], key: Key, index: int) -> None:
    del table[key][index]
    if not table[key]:
        del table[key]


class LoopState(msgspec.Struct):
    """The progress of a loop. Unleased items are those from `next` on, and those in `returned`."""

    total: int
    items: Any
    next: int = 0
    returned: list[Interval] = []
    lanes: dict[int, Interval] = {}  # Remaining items of each lane, by fence
    lane: int = 1  # The lane length of the last grant
    lane_seconds: list[float] = []
    """How long each lane took that ended since the last grant; negative if it was returned."""
    ok: int = 0
    failed: int = 0
    failures: list[dict[str, Any]] = []
    results: list[tuple[int, Any]] = []  # Accepted results that are not in a chunk yet
    bytes: int = 0  # Encoded size of the results that are not in a chunk yet
    chunks: list[Any] = []  # References to chunks of results
    implied_chunks: bool = False  # Whether its log does not name the chunks; see `noetl.engine.upcast`
    writers: dict[str, tuple[int, Any]] = {}  # Who wrote which key of ctx, for write-once

    @property
    def finished(self) -> int:
        return self.ok + self.failed

    def lane_at(self, index: int | None) -> int | None:
        """The fence of the lane whose next item it is; a lane that has just started an item is found at once."""
        lanes = self.lanes
        for fence in reversed(lanes):
            if lanes[fence][0] == index:
                return fence
        return None


class Run(msgspec.Struct):
    """One entry into a step."""

    id: str
    step: str
    args: dict[str, Any]
    args_by: dict[str, Any] = {}
    ctx: dict[str, Any] = {}  # `ctx` as it was when the run started, with the run's own writes (S19)
    fence: int | None = None  # The lease of a run without a loop
    started: float | None = None
    loop: LoopState | None = None
    progress: dict[str, Progress] = {}
    """Pipelines of the run itself, by prefix: empty for its own, `each#1[0]/` inside of an iterator task."""
    item_progress: dict[int, dict[str, Progress]] = {}
    """Pipelines of the loop items that are in flight, by index and prefix."""
    parked: dict[int, Parked] = {}  # By the index of the item, or WHOLE_RUN; see `park`
    after_call: AfterCallProgress | None = msgspec.field(default=None, name="tail")  # See `noetl.engine.after_call`
    losses: dict[int, int] = {}
    """Leases lost in a row without an accepted report between them, by the index of the item, or WHOLE_RUN."""
    since: float = 0.0  # When it was scheduled, resumed or last returned by a worker: what is ready waits since then

    def pipelines(self, index: int | None) -> dict[str, Progress]:
        """Progress by prefix, of a loop item or of the run itself. Not to be changed."""
        return self.progress if index is None else self.item_progress.get(index, {})

    def progress_of(self, index: int | None, prefix: str) -> Progress:
        """The progress of a pipeline, which begins here if it is new."""
        pipelines = self.progress
        if index is not None:
            if index not in self.item_progress:
                self.item_progress[index] = {}
            pipelines = self.item_progress[index]
        if prefix not in pipelines:
            pipelines[prefix] = Progress()
        return pipelines[prefix]

    def park(self, index: int, parked: Parked) -> None:
        self.parked = self.parked_items
        self.parked[index] = parked

    @property
    def parked_items(self) -> ParkedItems:
        """The parked items, to be found by what they wait for. Most runs have none, and no such object."""
        return self.parked if isinstance(self.parked, ParkedItems) else ParkedItems(self.parked)

    def all_progress(self) -> Iterator[tuple[str, Progress]]:
        """Every pipeline under way, with its prefix."""
        for pipelines in (self.progress, *self.item_progress.values()):
            yield from pipelines.items()


class StepResult(msgspec.Struct):
    """The last finished run of a step."""

    status: str
    runs: int = 1
    result: Any = None
    error: dict[str, Any] | None = None
    failures: list[dict[str, Any]] | None = None
    items: tuple[int, int, int] | None = None  # Items of its loop: all, succeeded, failed


class Lease(msgspec.Struct):
    """Work that is granted to a worker."""

    run: str
    worker: str
    since: float
    ttl: float  # Seconds after the last heartbeat of the worker until it is lost
    claim: str = ""
    facts: int = 0  # Number of facts accepted under it


class Ended(msgspec.Struct):
    """A run that has ended and is not routed yet."""

    run: str
    on: str
    args: dict[str, Any]
    args_by: dict[str, Any]
    event: dict[str, Any]
    tokens: int = -1  # Number of tokens still to be sent; -1 until it is routed
    after_call: AfterCallProgress | None = msgspec.field(default=None, name="tail")
    failure_handled: bool = False  # It failed, and the step handled the failure itself


class Execution(msgspec.Struct):
    """The whole state."""

    id: str
    net: Net
    digest: str
    status: Status = "pending"
    seq: int = 0
    workload: dict[str, Any] = {}
    ctx: dict[str, Any] = {}
    ctx_sizes: dict[str, int] = {}  # Encoded size of each value of ctx, whose total size is limited
    ctx_bytes: int = 0
    parent: tuple[str, str, int] | None = None
    actor: Actor | None = None  # Who requested the execution, or the fork
    forked: tuple[str, int] | None = None  # The source of a fork, and the last event that both have
    tokens: dict[int, Token] = {}
    next_token: int = 1
    fence: int = 0
    runs: dict[str, Run] = {}
    run_count: int = 0
    entries: dict[str, int] = {}  # How often each step was entered
    steps: dict[str, StepResult] = {}
    ready: dict[str, str] = {}  # Runs that can be granted now, with their pool
    leases: dict[int, Lease] = {}
    timers: dict[str, float] = {}
    signals: dict[str, list[tuple[str, Any]]] = {}
    signal_ids: dict[str, Actor | None] = {}  # The sender of each signal
    unadmitted: dict[int, None] = {}  # Tokens at a gate that has not been evaluated for them yet
    waiting: dict[str, list[int]] = {}  # Tokens at steps that join, by step
    held: dict[int, None] = {}
    delayed: dict[int, None] = {}  # Tokens on arcs with a delay
    ended: dict[str, Ended] = {}
    observers: dict[str, None] = msgspec.field(default_factory=dict, name="listeners")
    """Runs that evaluate every event of the execution."""
    occupancy: dict[str, int] = {}  # Number of tokens and runs at each step, for joins
    changed: bool = False  # `ctx` has changed or a signal has come since held tokens were evaluated
    deliverable: bool = msgspec.field(default=False, name="listening")  # A signal, or a run that waits for one, is new
    warnings: tuple[str, ...] = ()  # Warnings about the payload
    failure: dict[str, Any] | None = None
    continued_errors: int = 0  # Number of errors of tasks that a policy continued past (R4)
    continued: list[dict[str, Any]] = []  # The first of them
    errors: list[dict[str, Any]] = []
    deadline_passed: bool = False  # The time limit of the execution has passed: no branch may end first
    cancel_reason: str | None = None
    cancelled_by: Actor | None = None
    finished: str | None = None  # The outcome of the workflow, once only the final step may still run
    last: str | None = None  # The step that ended last
    result: Any = None
    error: dict[str, Any] | None = None
    partial_values: dict[str, str] = {}  # Stored values that are being inlined into the log, as far as they have come
    inlined_values: dict[str, Any] = {}
    """Stored values that the reducers of the next patch read; empty between decisions."""
    handles: dict[str, None] = {}
    """Keys of the secret handles that its tasks received, the newest last: every worker of it redacts their values."""

    def __post_init__(self) -> None:
        for run in self.runs.values():
            run.parked = run.parked_items
        # snapshots of 0.1.0 have empty lists of signals
        self.signals = {name: signals for name, signals in self.signals.items() if signals}
        self.ready, self.leases, self.timers = Tracked(self.ready), Tracked(self.leases), Tracked(self.timers)

    def drain(self) -> tuple[dict[str, str | None], dict[int, Lease | None], dict[str, float | None]]:
        """The changes of `ready`, `leases` and `timers` since the last call; None for a removed key."""
        ready, leases, timers = self.ready, self.leases, self.timers
        assert isinstance(ready, Tracked)
        assert isinstance(leases, Tracked)
        assert isinstance(timers, Tracked)
        return ready.drain(), leases.drain(), timers.drain()

    def note_handles(self, value: Any) -> None:
        """Record the secret handles in a value."""
        remaining = [value]
        while remaining:
            part = remaining.pop()
            if isinstance(part, Reference):
                if part.store == SECRET:
                    self.handles.pop(part.key, None)
                    self.handles[part.key] = None
            elif isinstance(part, dict):
                remaining += part.values()
            elif isinstance(part, list | tuple):
                remaining += part
        while len(self.handles) > MAX_HANDLES:
            del self.handles[next(iter(self.handles))]

    @property
    def depth(self) -> int:
        """Number of executions above this one."""
        return self.parent[2] if self.parent else 0

    @property
    def shown_status(self) -> str:
        """The status to show: `waiting` if no worker can run any of it."""
        idle = (
            self.status == "running" and not self.leases and not self.ready and not self.unadmitted and not self.ended
        )
        return "waiting" if idle and (self.runs or self.tokens) else self.status

    @property
    def over(self) -> bool:
        return self.status in ("succeeded", "failed", "cancelled")


Handlers: TypeAlias = dict[type[Event], Callable[[Execution, Any, float], None]]
"""How each type of event changes the state; the number is the time of the event."""


def unchanged(state: Execution, event: Event, at: float) -> None:
    """The handler of events that change nothing."""
