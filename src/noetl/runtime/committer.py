"""The shell around the core: decide, and append the events at the expected seq, in one transaction.

Commands of all executions go through one committer. Those that arrive while a transaction is under way are decided
together and committed together, and each command is answered after its events are durable. If the log of an execution
has grown meanwhile (another process wrote to it), its state is loaded again and the command is decided again.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Any, NamedTuple

from noetl.clock import Clock
from noetl.engine import events as e
from noetl.engine.admissible import Inadmissible
from noetl.engine.commands import Command, Start
from noetl.engine.decide import carry_on, decide
from noetl.engine.decision import Decision
from noetl.engine.history.outline import encode_block
from noetl.engine.lifecycle import remedy_for
from noetl.engine.state import Execution
from noetl.reference import Need, Reference
from noetl.runtime.contents import Contents, DecisionContents
from noetl.runtime.loaded_executions import LoadedExecution, LoadedExecutions
from noetl.store.codec import freeze, packed, rows_of
from noetl.store.store import Change, Leased, Row
from noetl.worker.work import Work, work_of

BATCH_SECONDS = 0.05
"""Maximum time for which commands are decided before their events are stored; it blocks the event loop."""
MAX_ERROR_CHARACTERS = 1_000
SNAPSHOT_EVENTS = 10_000
MAX_QUIET_EXECUTIONS = 20

GRANTS = frozenset([e.StepStarted, e.StepRegranted])
OnEvents = Callable[[Execution, list[e.Event]], None]
"""Called with stored events, for each command that changed something."""
OnCommit = Callable[[int, float], None]  # Called after a commit with the number of executions and the seconds it took


class CommandResult(NamedTuple):
    events: list[e.Event]
    works: list[Work]
    state: Execution


class Refresh:
    """Pseudo-command: check whether another process has written to the log of the execution."""

    def grants(self, state: Execution) -> list[e.StepStarted]:
        return []


class Regrant(Refresh):
    """Pseudo-command: return the work of a lease again, if it was granted to this claim and the worker has not reported
    under it."""

    def __init__(self, fence: int, claim: str) -> None:
        self.fence, self.claim = fence, claim

    def grants(self, state: Execution) -> list[e.StepStarted]:
        lease = state.leases.get(self.fence)
        if lease is None or lease.claim != self.claim or lease.facts:
            return []
        loop = state.runs[lease.run].loop
        items = None if loop is None else loop.lanes.get(self.fence)  # none for the branches of a classic loop
        return [e.StepStarted(lease.run, self.fence, lease.worker, items, lease.claim)]


class Undecidable(Exception):
    """A command could not be decided, or its events could not be encoded; has the error as its argument."""


class PendingCommand(NamedTuple):
    execution: str
    command: Command | Refresh
    result: asyncio.Future[CommandResult]

    def fail(self, error: Exception) -> None:
        if not self.result.done():
            self.result.set_exception(error)


def round_robin(commands: list[PendingCommand]) -> list[PendingCommand]:
    """Interleave commands, so that a busy execution does not delay the others."""
    counts: Counter[str] = Counter()

    def rank(pending: PendingCommand) -> int:
        counts[pending.execution] += 1
        return counts[pending.execution]

    return sorted(commands, key=rank)


class Batch:
    """Commands that are decided and committed together, by execution."""

    def __init__(self) -> None:
        self.results: dict[str, list[tuple[PendingCommand, CommandResult]]] = {}
        self.changes: dict[str, Change] = {}


class Committer:
    """Handles commands of any number of executions on one store.

    `shared` says that other processes grant work of the same executions: then even a result without events is checked
    against the store, since its state may be stale.
    """

    def __init__(
        self,
        executions: LoadedExecutions,
        contents: Contents,
        clock: Clock,
        *,
        shared: bool = False,
        on_events: Sequence[OnEvents] = (),
        on_commit: Sequence[OnCommit] = (),
    ) -> None:
        self.executions, self.contents, self.clock, self.shared = executions, contents, clock, shared
        self.on_events, self.on_commit = on_events, on_commit
        self.pending: list[PendingCommand] = []
        self.committed = asyncio.Event()  # Set after the next commit, and replaced by a new one
        self._task: asyncio.Task[None] | None = None

    async def handle(self, execution: str, command: Command | Refresh) -> CommandResult:
        """Decide a command and store its events; returns when they are durable. NotFound if there is no execution.

        An execution is loaded before its command joins a batch, since loading may take long and would delay the batch.
        """
        if execution not in self.executions:
            await self.executions.require(execution)
        result: asyncio.Future[CommandResult] = asyncio.get_running_loop().create_future()
        self.pending.append(PendingCommand(execution, command, result))
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._commit_all())
        return await result

    async def stored_state(self, execution: str) -> Execution:
        """The state with changes by other processes."""
        return (await self.handle(execution, Refresh())).state

    async def has_ended(self, state: Execution) -> bool:
        """Whether an end is stored, and not only decided."""
        return state.over and (await self.stored_state(state.id)).over

    # -- batches ----------------------------------------------------------------------------------------------------

    async def _commit_all(self) -> None:
        while self.pending:
            if self.shared and self.executions.playbooks.cache.evicted:
                self.executions.unload_evicted()
            commands = round_robin(self.pending) if len(self.pending) > 1 else self.pending
            self.pending, self.contents.pending_blobs = [], {}
            batch, give_up = Batch(), perf_counter() + BATCH_SECONDS
            for count, pending in enumerate(commands, start=1):
                await self._decide(pending, batch)
                if perf_counter() > give_up:
                    self.pending = commands[count:] + self.pending
                    break
            if self.shared:
                for execution, results in batch.results.items():
                    if execution not in batch.changes:
                        batch.changes[execution] = Change(execution, results[-1][1].state.seq, [])
            try:
                written = await self._store(batch.changes, alone=len(commands) == 1) if batch.changes else {}
            except Exception as error:  # nothing was stored: the senders get the error, and the states are dropped
                for execution, results in batch.results.items():
                    self.executions.pop(execution, None)
                    for pending, _ in results:
                        pending.fail(error)
            else:
                await self._complete(batch, written)
            self.committed.set()
            self.committed = asyncio.Event()
            if self.pending:
                await asyncio.sleep(0)  # who was answered reads the state before the next decisions change it
        self.contents.pending_blobs = {}

    async def _store(self, changes: dict[str, Change], *, alone: bool) -> dict[str, bool]:
        order, started = sorted(changes), perf_counter()
        ordered = [changes[execution] for execution in order]
        for change in ordered:
            loaded = self.executions.get(change.execution)  # None: unloaded meanwhile
            if loaded is None or loaded.state.over or loaded.state.seq - loaded.snapshot_seq < SNAPSHOT_EVENTS:
                continue
            change.snapshot = freeze(loaded.state)
            change.stale_snapshots = loaded.add_snapshot(loaded.state.seq)
        if alone and not self.shared and self._is_quiet:
            accepted = self._write(ordered)  # the thread would cost more than it frees
        else:
            accepted = await self.executions.thread.ask(self._write, ordered)
        for on_commit in self.on_commit:
            on_commit(len(order), perf_counter() - started)
        return dict(zip(order, accepted, strict=True))

    @property
    def _is_quiet(self) -> bool:
        """Whether there is at most one lease; False if there are too many executions to count their leases."""
        executions = self.executions
        return (
            len(executions) <= MAX_QUIET_EXECUTIONS
            and sum(len(loaded.state.leases) for loaded in executions.values()) <= 1
        )

    def _write(self, changes: list[Change]) -> list[bool]:
        for change in changes:
            if change.snapshot is not None:
                change.snapshot = packed(change.snapshot)
        return self.executions.store.commit(changes)

    async def _complete(self, batch: Batch, written: dict[str, bool]) -> None:
        for execution, results in batch.results.items():
            if written.get(execution, True):
                state, loaded = results[-1][1].state, self.executions.get(execution)
                if loaded is not None and loaded.state is state:
                    loaded.stored_seq = state.seq  # no later event is decided: the next batch waits for this one
                for pending, result in results:
                    if result.events:
                        for on_events in self.on_events:
                            on_events(result.state, result.events)
                    if not pending.result.cancelled():
                        pending.result.set_result(result)
            else:  # another process wrote first: decide again
                self.pending = [pending for pending, _ in results] + self.pending
                try:
                    await self.executions.reload(execution)
                except Exception:  # the sender gets the error when the command is decided again
                    self.executions.pop(execution, None)

    # -- decisions --------------------------------------------------------------------------------------------------

    async def _decide(self, pending: PendingCommand, batch: Batch) -> None:
        execution, command, loaded = pending.execution, pending.command, None
        try:
            loaded = self.executions.get(execution) or await self.executions.load(execution)
            now, before = self.clock.now(), loaded.state.seq
            rows: list[Row] = []
            grants: Sequence[Any]
            if isinstance(command, Refresh):
                undecided = not self.shared and execution not in batch.changes  # else the commit checks the seq
                if undecided and await self.executions.thread.ask(self.executions.store.seq, execution) != before:
                    loaded = await self.executions.reload(execution)
                decision, grants = Decision(loaded.state, now), command.grants(loaded.state)
            else:
                decision, rows = await self._decision(loaded.state, command, now, loaded.head)
                grants = [event for event in decision.events if type(event) in GRANTS]
            self.contents.pending_blobs.update(decision.blobs)
            works = [await self._work(loaded, grant) for grant in grants if grant.fence in loaded.state.leases]
            if rows:
                self._add(batch, loaded, decision, before, rows)
        except Exception as error:
            self._discard(pending, batch, error, loaded)
            return
        batch.results.setdefault(execution, []).append((pending, CommandResult(decision.events, works, loaded.state)))

    def _add(self, batch: Batch, loaded: LoadedExecution, decision: Decision, before: int, rows: list[Row]) -> None:
        """Add a decision to what is committed of its execution, whose seq was `before`."""
        execution = loaded.state.id
        loaded.head = rows[-1].hash
        if execution not in batch.changes:  # the change of a new fork starts with the events of its source
            batch.changes[execution] = loaded.fork_prefix or Change(execution, before, [], blobs=[])
            loaded.fork_prefix = None
        change = batch.changes[execution]
        change.rows += rows
        change.blobs += decision.blobs
        if loaded.outline is not None:
            change.outline += map(encode_block, loaded.outline.extend(decision.events, decision.now))
        self._derive(change, loaded, decision.events, decision.now)

    def _derive(self, change: Change, loaded: LoadedExecution, events: list[e.Event], now: float) -> None:
        state = loaded.state
        ready, leases, timers = state.drain()
        change.ready.update(ready)
        change.leases.update(
            (fence, None if lease is None else Leased(lease.run, lease.worker, lease.since, lease.ttl))
            for fence, lease in leases.items()
        )
        change.timers.update(timers)
        if (summary := loaded.new_summary(events, now, local=not self.shared)) is not None:
            change.summary = summary

    def _discard(self, pending: PendingCommand, batch: Batch, error: Exception, loaded: LoadedExecution | None) -> None:
        """Drop a state that a command left half changed, and decide its other commands of this batch again. An
        undecidable command is replaced by a substitute if there is one; otherwise its sender gets the error."""
        execution, command, remedy = pending.execution, pending.command, None
        self.executions.pop(execution, None)
        batch.changes.pop(execution, None)
        self.pending += [other for other, _ in batch.results.pop(execution, [])]
        if isinstance(error, Undecidable) and loaded is not None and not isinstance(command, Refresh):
            (error,) = error.args
            text = f"{type(error).__name__}: {error}"[:MAX_ERROR_CHARACTERS]
            readable = text.encode("utf-8", "backslashreplace").decode()
            message = f"internal error while deciding the next events: {readable}"
            remedy = remedy_for(command, {"kind": "internal", "message": message})
            if isinstance(remedy, Start):
                self.executions.create(execution, loaded.state.net, loaded.state.digest)
        if remedy is None:
            pending.fail(error)
        else:
            self.pending.append(pending._replace(command=remedy))

    async def _decision(
        self, state: Execution, command: Command, now: float, head: bytes
    ) -> tuple[Decision, list[Row]]:
        """Decide a command, and load the content that templates read."""
        contents = DecisionContents()
        decision, first = Decision(state, now, contents), state.seq + 1
        step = decide
        while True:
            try:
                step(decision, command)
                return decision, rows_of(decision.events, first, now, head)
            except Need as need:
                self.contents.pending_blobs.update(decision.blobs)
                await self.contents.load_for_template(need.reference, contents)
                step = carry_on if decision.events else decide
            except Inadmissible:  # the report is rejected; the execution is unaffected
                raise
            except Exception as error:  # any error: a retry of the command would raise it again
                raise Undecidable(error) from error

    async def _work(self, loaded: LoadedExecution, event: e.StepStarted) -> Work:
        """The work of a grant; the items of a large loop are loaded once and cached while it runs."""
        run = loaded.state.runs[event.run]
        items = run.loop.items if run.loop is not None and event.items is not None else None
        if isinstance(items, Reference):
            if run.id not in loaded.items:
                loaded.items = {name: cached for name, cached in loaded.items.items() if name in loaded.state.runs}
                loaded.items[run.id] = await self.contents.read(items)
            items = loaded.items[run.id]
        return work_of(loaded.state, event, items)
