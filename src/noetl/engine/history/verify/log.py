"""Reads a log in one pass and passes each event to the checks."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Any, ClassVar, Literal, NamedTuple

import msgspec

from noetl.engine import events as e
from noetl.engine.evolve import evolve
from noetl.engine.history.outline import Block, OutlineWriter, decode_block, is_same_block
from noetl.engine.history.verify.rows import Codec, Load, Rows, StoredRow
from noetl.engine.net import Net
from noetl.engine.state import Execution
from noetl.model.identity import step_of
from noetl.model.playbook import Loop

LIVE_ONLY = frozenset(["net", "digest", "changed", "deliverable"])  # only used within a decision, or inputs of the fold
MAX_LISTED = 1_000  # maximum number of violations listed per invariant; the rest is counted, which bounds memory

Part = Literal["whole", "rows", "fold"]
"""Which invariants are checked: all; those that need no fold; those that look at the fold. A large log is checked by
two processes, each with one part."""
StoredBlock = Callable[[int], bytes | None]  # returns a stored block of the outline by its number
NetOf = Callable[[str], Net]  # returns the playbook of a digest, for forks that continue with an edited one
Handler = Callable[[Any], object]
Handlers = Mapping[type[e.Event], Handler]


class Violation(msgspec.Struct, frozen=True):
    execution_id: str
    seq: int
    invariant: str
    message: str


class Frozen(NamedTuple):
    """A stored snapshot: the state as of a row (None if it cannot be read), and that row's hash."""

    seq: int
    hash: bytes
    state: Execution | None


def derived_rows(state: Execution) -> dict[str, dict[Any, Any]]:
    """The rows of ready work, leases and timers, by table and key."""
    leases = {fence: (lease.run, lease.worker, lease.since, lease.ttl) for fence, lease in state.leases.items()}
    return {"ready": state.ready, "leases": leases, "timers": state.timers}


def differences(first: Execution, second: Execution) -> list[str]:
    """The fields in which two folds of a log differ."""
    fields = (field for field in Execution.__struct_fields__ if field not in LIVE_ONLY)
    differing = [field for field in fields if getattr(first, field) != getattr(second, field)]
    return [field for field in differing if field != "continued" or not _equal_but_items(first, second)]


def _equal_but_items(first: Execution, second: Execution) -> bool:
    """Whether two folds have the same errors in `continued`; earlier versions stored them without their items."""
    return len(first.continued) == len(second.continued) and all(
        a.keys() ^ b.keys() <= {"item"} and a | b == b | a
        for a, b in zip(first.continued, second.continued, strict=True)
    )


@cache
def _handled(bases: frozenset[type[e.Event]]) -> list[tuple[type[e.Event], type[e.Event]]]:
    """The event types that one of these classes handles, with the nearest class."""
    nearest = ((kind, next((base for base in kind.__mro__ if base in bases), None)) for kind in e.EVENTS.values())
    return [(kind, base) for kind, base in nearest if base is not None]


class LogReader:
    """Reads the rows of a log in batches and returns the violations at the end."""

    def __init__(
        self,
        checks: Iterable[type[LogCheck]],
        execution: str,
        net: Net,
        codec: Codec,
        load: Load | None = None,
        snapshots: Iterable[Frozen] = (),
        net_of: NetOf | None = None,
        part: Part = "whole",
        stored_block: StoredBlock | None = None,
    ) -> None:
        self.execution, self.net, self.codec, self.net_of = execution, net, codec, net_of
        self.snapshots = iter(snapshots)
        self.snapshot = next(self.snapshots, None)  # the next one in the log
        self.state = Execution(execution, net, "")
        self.foldable = part != "rows"  # whether `state` is the fold of all rows so far
        self.seq = 0
        self.stored_block = stored_block
        self.outline = OutlineWriter() if stored_block is not None and part != "fold" else None
        self.finished: dict[str, Intervals] = {}  # items that have ended, by step run with a loop under way
        self.violations: list[Violation] = []
        self.counts: dict[str, int] = {}
        self.rows = Rows(self.note, codec, load) if part != "fold" else None
        self.checks: list[LogCheck] = [kind(self) for kind in checks if part in ("whole", kind.part)]
        self.handlers: dict[type[e.Event], tuple[Handler, ...]] = dict.fromkeys(e.EVENTS.values(), ())
        for check in self.checks:
            self.watch(check.handlers())
        self.watch({e.ExecutionForked: self._change_net})

    def watch(self, kinds: Handlers) -> None:
        """Call a handler for each event of a type, after the handlers it has; a subclass is handled like its base."""
        for kind, base in _handled(frozenset(kinds)):
            self.handlers[kind] = (*self.handlers[kind], kinds[base])

    def take(self, rows: Iterable[StoredRow]) -> None:
        check = self.rows.check if self.rows is not None else None
        decode, handlers, state = self.codec.decode, self.handlers, self.state
        frozen_at = self.snapshot.seq if self.snapshot is not None else None
        unoutlined: list[e.Event] = []  # the latest events, all of one time
        unoutlined_at = 0.0
        for seq, name, at, data, hashed in rows:
            self.seq = seq
            if check is not None:
                check(seq, name, at, data, hashed)
            try:
                event = decode(name, data)
            except Exception as error:
                self._extend_outline(unoutlined, unoutlined_at, seq - 1)
                self.foldable, self.outline = False, None  # nor can later rows be
                if check is not None:
                    self.note("readable", str(error))
                continue
            for handler in handlers[type(event)]:
                try:
                    handler(event)
                except Exception as error:  # a damaged log can raise any exception
                    self.note("readable", f"{event.name} cannot be checked ({type(error).__name__}: {error})")
            if self.outline is not None:
                if at != unoutlined_at:
                    self._extend_outline(unoutlined, unoutlined_at, seq - 1)
                    unoutlined, unoutlined_at = [], at
                unoutlined.append(event)
            if self.foldable:
                try:
                    evolve(state, event, at)
                except Exception as error:
                    self._break_off(event, error)
            if seq == frozen_at:
                frozen_at = self._check_snapshot(hashed)
        self._extend_outline(unoutlined, unoutlined_at, self.seq)
        state.drain()

    def _check_snapshot(self, hashed: bytes) -> int | None:
        """Compare the snapshot of this row with the fold; returns the seq of the next one."""
        snapshot = self.snapshot
        assert snapshot is not None
        if snapshot.hash != hashed:
            self.note("snapshot", "was taken of another log: the hash of its row differs")
        if snapshot.state is None:
            self.note("snapshot", "cannot be read")
        elif self.foldable:
            for field in differences(snapshot.state, self.state):
                self.note("snapshot", f"its {field} differs from the fold of the log")
        self.snapshot = next(self.snapshots, None)
        return self.snapshot.seq if self.snapshot is not None else None

    def _extend_outline(self, events: list[e.Event], at: float, last: int) -> None:
        """Add events that were stored at one time, up to a seq, and compare the blocks that they complete."""
        if self.outline is None or not events:
            return
        try:
            complete = self.outline.extend(events, at)
        except Exception as error:  # a damaged log can raise any exception
            self.outline = None
            message = f"the events before event {last + 1} do not fit the outline ({type(error).__name__}: {error})"
            self.note("outline", message, last)
            return
        for block in complete:
            self._check_block(block, block.first + block.events - 1)

    def _check_block(self, block: Block, last: int) -> None:
        assert self.stored_block is not None
        data = self.stored_block(block.number)
        try:
            if data is not None and not is_same_block(decode_block(data), block):  # a missing one is made when read
                self.note("outline", f"block {block.number} differs from the events {block.first} to {last}", last)
        except ValueError as error:
            self.note("outline", f"block {block.number} cannot be read: {error}", last)

    def _change_net(self, event: e.ExecutionForked) -> None:
        if event.playbook and self.net_of is not None:
            try:
                self.net = self.state.net = self.net_of(event.playbook)
            except Exception as error:
                self._break_off(event, error)

    def _break_off(self, event: e.Event, error: Exception) -> None:
        if self.foldable:
            self.note(
                "replay", f"{event.name} does not follow from the events before it ({type(error).__name__}: {error})"
            )
        self.foldable = False

    def end(self, status: str | None = None, derived: msgspec.Struct | None = None) -> list[Violation]:
        state = self.state
        for check in self.checks:
            try:
                check.end()
            except Exception as error:  # a damaged log can raise any exception
                self.note(check.name, f"cannot be checked ({type(error).__name__}: {error})")
        if self.foldable and status is not None and status != state.shown_status:
            self.note("replay", f"the execution is listed as {status}, but its log results in {state.shown_status}")
        if self.snapshot is not None and self.snapshot.seq > self.seq:
            self.note("snapshot", f"was taken at event {self.snapshot.seq}, but the log ends at {self.seq}")
        if self.foldable and derived is not None:
            stored = msgspec.to_builtins(derived)
            for name, fold in derived_rows(state).items():
                rows, table = stored[name], name.removesuffix("s")
                for key in rows.keys() | fold.keys():
                    if key not in fold:
                        self.note("rows", f"the {table} row {key!r} is not in the log")
                    elif key not in rows:
                        self.note("rows", f"the log has {table} {key!r}, but there is no row for it")
                    elif rows[key] != fold[key]:
                        self.note("rows", f"the {table} row {key!r} says {rows[key]}, the log {fold[key]}")
        for invariant, count in self.counts.items():
            if count > MAX_LISTED:
                message = f"and {count - MAX_LISTED:,} more of this kind, up to here"
                self.violations.append(Violation(self.execution, self.seq, invariant, message))
        return self.violations

    def note(self, invariant: str, message: str, seq: int | None = None) -> None:
        """Add a violation of an event; by default of the current one."""
        count = self.counts[invariant] = self.counts.get(invariant, 0) + 1
        if count <= MAX_LISTED:
            self.violations.append(Violation(self.execution, self.seq if seq is None else seq, invariant, message))


class LogCheck:
    """One invariant. `handlers` maps event types to handlers; a subclass of an event is handled like its base."""

    name: ClassVar[str]
    part: ClassVar[Literal["rows", "fold"]] = "rows"  # `fold` if it reads the state

    def __init__(self, log: LogReader) -> None:
        self.log = log
        self.runs: dict[str, Any] = {}  # data of each step run, dropped when the run ends

    def handlers(self) -> Handlers:
        raise NotImplementedError

    def end(self) -> None:
        """Called after the last event."""

    def fail(self, message: str) -> None:
        self.log.note(self.name, message)

    def drop_run(self, event: Any) -> None:
        self.runs.pop(event.run, None)

    def drop_all(self, event: Any) -> None:
        self.runs.clear()


def loop_of(net: Net, run: str) -> Loop | None:
    plan = net.steps.get(step_of(run))
    return plan.step.loop if plan is not None else None


class Intervals:
    """A set of integers, stored as the fewest intervals: its memory is proportional to its gaps, not to its members."""

    __slots__ = ("_ends", "_starts", "count")

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []
        self.count = 0

    def __contains__(self, number: int) -> bool:
        place = bisect_right(self._starts, number)
        return place > 0 and number < self._ends[place - 1]

    @property
    def missing(self) -> int:
        """The smallest number from 0 on that is not in it."""
        return self._ends[0] if self._starts and self._starts[0] == 0 else 0

    def without(self, other: Intervals) -> Intervals:
        rest = Intervals()
        at = 0
        for start, end in zip(self._starts, self._ends, strict=True):
            while at < len(other._starts) and other._ends[at] <= end:
                rest._append(start, other._starts[at])
                start, at = other._ends[at], at + 1
            rest._append(start, end)
        return rest

    def _append(self, start: int, end: int) -> None:
        if start < end:
            self._starts.append(start)
            self._ends.append(end)
            self.count += end - start

    def add(self, number: int) -> bool:
        """Add a number; False if it was already present."""
        starts, ends = self._starts, self._ends
        place = bisect_right(starts, number)
        if place and number < ends[place - 1]:
            return False
        self.count += 1
        follows = place > 0 and ends[place - 1] == number
        precedes = place < len(starts) and starts[place] == number + 1
        if follows and precedes:
            ends[place - 1] = ends.pop(place)
            del starts[place]
        elif follows:
            ends[place - 1] += 1
        elif precedes:
            starts[place] = number
        else:
            starts.insert(place, number)
            ends.insert(place, number + 1)
        return True
