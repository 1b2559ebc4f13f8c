"""Executions in memory: their state, folded from the log, and the hash of its last row."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

import msgspec

from noetl.engine import events as e
from noetl.engine.evolve import evolve
from noetl.engine.history.outline import OutlineBuffer, OutlineWriter
from noetl.engine.net import Net
from noetl.engine.state import Execution
from noetl.errors import NotFound
from noetl.runtime.activity import PROGRESS_SECONDS, Activity, Details, activity_of
from noetl.runtime.loaded_playbooks import LoadedPlaybooks, single_flight
from noetl.runtime.outlines import resumed_writer
from noetl.runtime.snapshots import surplus
from noetl.store.codec import ZERO, decode, digest_of, readable_snapshot, thaw
from noetl.store.store import Change, Row, Snapshot, Summary

Stored = tuple[Row, Snapshot | None, list[int], list[Row], Summary | None, OutlineWriter | None]


class LoadedExecution:
    """The state of an execution, and the data for its next commit."""

    __slots__ = (
        *("fork_prefix", "head", "items", "outline", "snapshots", "state", "stored_seq"),
        *("summarised", "summary", "urgent"),
    )

    def __init__(self, state: Execution, head: bytes, summary: Summary | None, outline: OutlineWriter | None) -> None:
        self.state, self.head, self.summary = state, head, summary
        # None if the block before is not stored: readers make the blocks that are missing
        self.outline = OutlineBuffer(outline) if outline is not None else None
        self.summarised = 0.0  # when its progress was last checked for the summary
        self.urgent: object = None  # the part of its activity that is stored at once when it changes
        self.items: dict[str, list[Any]] = {}  # items of running loops that are stored by reference, by run
        self.snapshots: list[int] = []  # the seqs of those that are stored
        self.stored_seq = state.seq
        self.fork_prefix: Change | None = None  # events of the source of a fork, until they are stored with its first

    @property
    def snapshot_seq(self) -> int:
        return self.snapshots[-1] if self.snapshots else 0

    def add_snapshot(self, seq: int) -> list[int]:
        """Add a snapshot; the seqs of those that it makes superfluous."""
        seqs = [*self.snapshots, seq]
        superfluous = surplus(seqs)
        self.snapshots = [seq for seq in seqs if seq not in superfluous]
        return superfluous

    def new_summary(self, events: Iterable[e.Event], now: float, local: bool) -> Summary | None:
        """The summary after events, if it is to be stored: at once when its status, waits or errors have changed, and
        at most once a second for its progress alone."""
        state, old, activity = self.state, self.summary, None
        if old is not None and old.status == state.shown_status and old.continued_errors == state.continued_errors:
            tokens = state.held or state.delayed or (state.waiting and any(state.waiting.values()))
            if old.waits or tokens or state.failure is not None or not WAITS.isdisjoint(map(type, events)):
                activity = activity_of(state)
            is_urgent = activity is not None and activity.urgent != self.urgent
            if not is_urgent and now - self.summarised < PROGRESS_SECONDS:
                return None
        activity = activity or activity_of(state)
        self.summarised, self.urgent = now, activity.urgent
        started, local = (old.started, old.local) if old is not None else (now, local)
        self.summary = summary_of(state, started, now, local, activity)
        return self.summary


WAITS = frozenset([e.StepPaused, e.StepResumed])  # events after which a run waits, or no longer waits


class LoadedExecutions(dict[str, LoadedExecution]):
    def __init__(self, playbooks: LoadedPlaybooks) -> None:
        super().__init__()
        self.playbooks, self.store, self.thread = playbooks, playbooks.store, playbooks.thread
        self._loading: dict[str, asyncio.Task[LoadedExecution]] = {}

    def create(self, execution: str, net: Net, digest: str) -> None:
        self[execution] = LoadedExecution(Execution(execution, net, digest), ZERO, None, OutlineWriter())

    async def require(self, execution: str) -> LoadedExecution:
        """The execution, loaded once for concurrent callers; NotFound if there is none."""
        loaded = self.get(execution)
        if loaded is None:
            loaded = await single_flight(self._loading, execution, lambda: self.load(execution))
        return loaded

    async def state(self, execution: str) -> Execution:
        """The state in memory, which may be older than the log if other processes write to it."""
        return (self.get(execution) or await self.load(execution)).state

    async def load(self, execution: str) -> LoadedExecution:
        """Fold the log, from its latest snapshot on; NotFound if there is none."""
        first, snapshot, snapshots, rows, summary, outline = await self.thread.ask(self._stored, execution)
        state = await self.begin(execution, first)
        if snapshot is not None:
            state = thaw(snapshot.data, await self.playbooks.load(digest_of(snapshot.data)), execution)
        for row in rows:
            event = decode(row.type, row.data)
            await self.change_net(state, event)
            evolve(state, event, row.at)
        state.changed = state.deliverable = True  # a paused execution may hold changes that nothing has acted on
        state.drain()  # stored with the events that caused them
        last = rows[-1] if rows else first
        head = snapshot.hash if snapshot and not rows else last.hash
        started, local = (summary.started, summary.local) if summary else (first.at, False)
        loaded = LoadedExecution(state, head, summary_of(state, started, last.at, local), outline)
        loaded.snapshots = snapshots
        present = self.get(execution)
        if present is not None and present.state.seq >= state.seq:
            return present  # another task has loaded it meanwhile
        self[execution] = loaded
        return loaded

    def _stored(self, execution: str) -> Stored:
        first = self.store.read(execution, 0, 1)
        if not first:
            raise NotFound(f"execution {execution!r} not found")
        snapshot = readable_snapshot(self.store.snapshot(execution))
        summary = next(iter(self.store.summaries(prefix=execution, limit=1)), None)
        snapshots = self.store.snapshot_seqs(execution) if snapshot else []
        rows = self.store.read(execution, snapshot.seq if snapshot else 0)
        outline = resumed_writer(self.store, execution, rows[-1].seq if rows else snapshot.seq if snapshot else 0)
        return first[0], snapshot, snapshots, rows, summary, outline

    async def reload(self, execution: str) -> LoadedExecution:
        self.pop(execution, None)
        return await self.load(execution)

    async def copy_snapshots(self, source: str, fork: str, until: int) -> None:
        """Give a fork the snapshots of its source, up to the last event that both have."""

        def copy() -> list[int]:
            self.store.copy_snapshots(source, fork, until)
            return self.store.snapshot_seqs(fork)

        seqs, loaded = await self.thread.ask(copy), self.get(fork)
        if loaded is not None:
            loaded.snapshots = sorted({*loaded.snapshots, *seqs})

    async def begin(self, execution: str, first: Row) -> Execution:
        """The state before the first event of a log, which names the playbook."""
        requested = decode(first.type, first.data)
        assert isinstance(requested, e.ExecutionRequested)
        return Execution(execution, await self.playbooks.load(requested.playbook), requested.playbook)

    async def change_net(self, state: Execution, event: e.Event) -> None:
        """Load the playbook of a fork, which may be an edited one. Call it before each event is folded."""
        if isinstance(event, e.ExecutionForked):
            state.net = await self.playbooks.load(event.playbook or state.digest)

    def current_summary(self, summary: Summary, now: float) -> Summary:
        """A summary with the progress of the state in memory, if that is later than the stored one."""
        loaded = self.get(summary.execution_id)
        if summary.ended is not None or loaded is None or loaded.stored_seq != loaded.state.seq:
            return summary
        events = msgspec.json.decode(summary.details, type=Details).events
        if loaded.state.seq <= events or loaded.state.over:
            return summary
        return summary_of(loaded.state, summary.started, now, summary.local)

    def unload_evicted(self) -> None:
        """Unload idle executions of playbooks that were evicted. Only while no decision is under way."""
        self.playbooks.cache.evicted = False
        for execution, loaded in list(self.items()):
            state = loaded.state
            stored = 0 < loaded.stored_seq == state.seq and loaded.fork_prefix is None
            if stored and not state.leases and not state.ready and state.digest not in self.playbooks.cache:
                del self[execution]


def summary_of(state: Execution, started: float, now: float, local: bool, activity: Activity | None = None) -> Summary:
    playbook, ended = state.net.playbook, now if state.over else None
    parent, source = state.parent[0] if state.parent else None, state.forked[0] if state.forked else None
    about = playbook.name, playbook.path, state.shown_status, started, ended, state.digest, parent, local
    activity = activity or activity_of(state)
    details = msgspec.structs.replace(activity.details, events=state.seq, at=now)
    more = activity.sentence, activity.waits, _encode(details)
    return Summary(state.id, *about, state.continued_errors, source, *more)


_encode = msgspec.json.Encoder().encode
