"""The shell around the core: load, decide, append at the expected seq, in one transaction.

Commands of all executions go through one committer. What arrives while a transaction is under way is decided
together and committed together, and each command is answered after its events are durable. An execution's state is
kept in memory and evolved as its commands are decided; if its log has moved meanwhile (another process wrote to it),
the state is dropped, read again, and the command decided anew.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from noetl.classic.hooks import step_plan
from noetl.clock import Clock
from noetl.dsl.tree import Mark
from noetl.engine import events as e
from noetl.engine.admissible import Inadmissible
from noetl.engine.commands import Claim, Command, Report, Start
from noetl.engine.decide import carry_on, decide
from noetl.engine.decision import Decision
from noetl.engine.evolve import evolve
from noetl.engine.lifecycle import remedy_for
from noetl.engine.net import Net
from noetl.engine.state import Execution
from noetl.errors import NatsUnavailable, NotFound
from noetl.keychain.keychain import StoredCredential
from noetl.model.playbook import Playbook
from noetl.pipeline.plan import PipelinePlan
from noetl.reference import Gone, Need, Reference, TooLarge, loaded
from noetl.results.read import Admit, Damaged, admit_all, read_json, read_value
from noetl.runtime.loaded import LoadedPlaybook, PlaybookCache, single_flight
from noetl.runtime.store_thread import StoreThread
from noetl.store.codec import ZERO, decode, rows_of
from noetl.store.ports import Change, Leased, Row, Snapshot, Store, Summary
from noetl.store.snapshot import freeze, readable, thaw
from noetl.tools.registry import KINDS
from noetl.worker.work import Work, work_of

if TYPE_CHECKING:
    from noetl.nats.objects import ObjectBuckets

Value = TypeVar("Value")

SERVER_BYTES = 8 << 20
WORKER_BYTES = 64 << 20
"""How much a template may load on the server and on a worker."""
DECISION_BYTES = 16 << 20
"""Bytes that all templates of one decision may load together."""
DECISION_BRACKETS = 500_000
"""Lists and maps in the stored values that one decision may load. A list of one digit takes 4 bytes of JSON and 100
bytes of memory, and decoding holds the interpreter lock."""
BATCH_SECONDS = 0.05
"""How long commands are decided before what follows from them is stored: nobody else is listened to meanwhile."""
MAX_ERROR_CHARACTERS = 1_000
SNAPSHOT_EVENTS = 10_000
"""How many events may lie behind a snapshot."""


Compile = Callable[[str, bytes], Awaitable[LoadedPlaybook]]
"""Compiles a stored text, by its file name. NoetlError if this version can't read it."""
OpenCredential = Callable[[str], StoredCredential]
"""Finds a credential and opens it; NoetlError if there is none. Blocks."""


def no_credentials(name: str) -> StoredCredential:
    """For engines without a store of credentials."""
    raise NotFound(f"there is no credential {name!r} here")


class Answer(NamedTuple):
    """What came of a command."""

    events: list[e.Event]
    works: list[Work]
    state: Execution


class Refresh:
    """Pseudo-command: check whether another process has written to the log of the execution."""


class Undecidable(Exception):
    """A command could not be decided, or its events could not be encoded."""

    def __init__(self, error: Exception) -> None:
        super().__init__(str(error))
        self.error = error

    def as_data(self) -> dict[str, Any]:
        """The error that ends the execution."""
        text = f"{type(self.error).__name__}: {self.error}"[:MAX_ERROR_CHARACTERS]
        readable = text.encode("utf-8", "backslashreplace").decode()
        return {"kind": "internal", "message": f"internal error while deciding the next events: {readable}"}


class Asked(NamedTuple):
    """A command on its way."""

    execution: str
    command: Command | Refresh
    answer: asyncio.Future[Answer]


def in_turn(asked: list[Asked]) -> list[Asked]:
    """Each execution's first command, then each one's second, and so on: who has much to say keeps nobody waiting."""
    if len(asked) < 2:
        return asked
    counts: dict[str, int] = {}
    ranks = []
    for one in asked:
        ranks.append(counts.get(one.execution, 0))
        counts[one.execution] = ranks[-1] + 1
    return [one for _, _, one in sorted(zip(ranks, range(len(asked)), asked, strict=True))]


class Cell:
    """An execution in memory: its state and the hash of its last row."""

    __slots__ = ("frozen", "head", "items", "opening", "state", "stored", "summary")

    def __init__(self, state: Execution, head: bytes, summary: Summary | None) -> None:
        self.state, self.head, self.summary = state, head, summary
        self.items: dict[str, list[Any]] = {}
        self.frozen = state.seq
        """The seq of its latest snapshot."""
        self.stored = state.seq
        """How much of its log is known to be in the store."""
        self.opening: Change | None = None
        """What comes before the first decision: the events that a fork has from its source."""


class Runtime:
    """Handles commands of any number of executions on one store."""

    most_content: int | None = None
    """A worker in the same process hands over what there is room for."""

    def __init__(self, store: Store, clock: Clock, open_credential: OpenCredential | None = None) -> None:
        self.store, self.clock, self.open_credential = store, clock, open_credential or no_credentials
        self.cells: dict[str, Cell] = {}
        self.playbooks = PlaybookCache()
        self.compile: Compile = compile_here
        self._loading: dict[str, asyncio.Task[LoadedPlaybook]] = {}
        self._reading: dict[str, asyncio.Task[Cell]] = {}
        self.thread = StoreThread()
        self.asked: list[Asked] = []
        self.committing: asyncio.Task[None] | None = None
        self.unstored: dict[str, bytes] = {}
        """Content that decisions of this batch refer to, and that will be stored with them."""
        self.moved = asyncio.Event()
        """Set after every commit, for those who watch."""
        self.shared = False
        """Whether others hand out work of the same executions: then an answer of "nothing to do" is checked against
        the store like a write, since the state it was made from may be old."""
        self.told: Callable[[Execution, list[e.Event]], None] = lambda state, events: None
        """Called with what is durable, for each command that changed something."""
        self.committed: Callable[[int, float], None] = lambda executions, seconds: None
        """Called after a commit: how many executions it was about, and how long it took."""
        self.shelf: ObjectBuckets | None = None
        """Where large values go beside the store, if there is NATS."""

    # -- playbooks --------------------------------------------------------------------------------------------------

    def add(self, playbook: Playbook, file: str = "", places: Mapping[str, Mark] | None = None) -> str:
        """Bring a playbook into memory, with the places of its parts in its file; returns its digest."""
        digest = playbook.digest
        if self.playbooks.get(digest) is None:
            self.playbooks.add(LoadedPlaybook(playbook, file, places))
        return digest

    def loaded_playbook(self, digest: str) -> LoadedPlaybook:
        """A playbook that is in memory, as that of every execution in memory is; NotFound if it is not."""
        playbook = self.playbooks.get(digest)
        if playbook is None:
            raise NotFound(f"the playbook {digest[:12]} is not in memory")
        return playbook

    def folder(self, digest: str) -> str:
        """For workers: the folder of a playbook's file; empty if it has none here."""
        return self.loaded_playbook(digest).file.folder

    def place(self, digest: str, part: str) -> tuple[str, int] | None:
        """For workers: the file and line where a part of a playbook stands."""
        file = self.loaded_playbook(digest).file
        mark = file.places.get(part)
        return None if mark is None else (file.name, mark.line)

    def plan(self, digest: str, step: str) -> PipelinePlan:
        """The compiled pipeline of a step, made when it is first asked for."""
        playbook = self.loaded_playbook(digest)
        if step not in playbook.plans:
            playbook.plans[step] = step_plan(playbook.steps[step].step, _kind_of)
        return playbook.plans[step]

    def playbook(self, digest: str) -> Playbook:
        """The playbook of a digest that is in memory."""
        return self.loaded_playbook(digest).playbook

    async def net(self, digest: str) -> LoadedPlaybook:
        """A playbook that is in memory or in the store; NotFound if there is none."""
        playbook = self.playbooks.get(digest)
        if playbook is None:
            playbook = await single_flight(self._loading, digest, lambda: self._read(digest))
        return playbook

    async def _read(self, digest: str) -> LoadedPlaybook:
        stored = await self._in_thread(self.store.playbook, digest)
        if stored is None:
            raise NotFound(f"there is no playbook {digest!r} in the store")
        playbook = await self.compile(*stored)
        self.playbooks.add(playbook)
        return playbook

    def _unload(self) -> None:
        """Executions that nobody works on leave memory together with a playbook that was evicted. Only while no
        decision is under way; the next command reads them again."""
        self.playbooks.evicted = False
        for execution, cell in list(self.cells.items()):
            state = cell.state
            stored = 0 < cell.stored == state.seq and cell.opening is None
            if stored and not state.leases and not state.ready and state.digest not in self.playbooks:
                del self.cells[execution]

    async def credential(self, execution: str, name: str) -> StoredCredential:
        """For workers: a credential of the store, opened."""
        return await self._in_thread(self.open_credential, name)

    # -- commands ---------------------------------------------------------------------------------------------------

    async def create(self, execution: str, digest: str) -> None:
        """Make room for a new execution; its first command is Start."""
        self._begin(execution, await self.net(digest), digest)

    def _begin(self, execution: str, net: Net, digest: str) -> None:
        self.cells[execution] = Cell(Execution(execution, net, digest), ZERO, None)

    async def handle(self, execution: str, command: Command | Refresh) -> Answer:
        """Decide a command and store what follows; answered when it is durable.

        An execution is read before its command joins a batch: reading it may take long, and batches come one by one.
        """
        if execution not in self.cells:
            await single_flight(self._reading, execution, lambda: self.load(execution))
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self.asked.append(Asked(execution, command, answer))
        if self.committing is None or self.committing.done():
            self.committing = asyncio.create_task(self._commit())
        return await answer

    async def claim(self, command: Claim) -> list[Work]:
        """Work of any execution in this runtime that has some."""
        works: list[Work] = []
        for execution, cell in list(self.cells.items()):
            slots = command.slots - len(works)
            if slots > 0 and cell.state.ready and cell.state.status == "running":
                works += (await self.handle(execution, Claim(command.worker, slots))).works
        return works

    async def report(self, execution: str, report: Report) -> tuple[bool, list[Work]]:
        """Facts from a worker; whether the lease is still its own, and the work it asked for."""
        answer = await self.handle(execution, report)
        return report.fence in answer.state.leases, answer.works

    async def holds(self, execution: str, fence: int) -> bool:
        """For workers: whether a lease is alive."""
        cell = self.cells.get(execution) or await self.load(execution)
        return fence in cell.state.leases

    def paused(self, execution: str) -> bool:
        """For workers: whether nothing new is to be begun."""
        cell = self.cells.get(execution)
        return cell is not None and cell.state.status == "paused"

    async def _commit(self) -> None:
        """Decide and store everything that has been asked, until nothing is left."""
        while self.asked:
            if self.shared and self.playbooks.evicted:
                self._unload()
            batch, self.asked, self.unstored = in_turn(self.asked), [], {}
            decided: dict[str, list[tuple[Asked, Answer]]] = {}
            changes: dict[str, Change] = {}
            give_up = perf_counter() + BATCH_SECONDS
            for place, asked in enumerate(batch, start=1):
                await self._decide(asked, decided, changes)
                if perf_counter() > give_up:
                    self.asked = batch[place:] + self.asked
                    break
            written = {}
            if self.shared:
                for execution, answers in decided.items():
                    if execution not in changes:
                        changes[execution] = Change(execution, answers[-1][1].state.seq, [])
            if changes:
                order, began = sorted(changes), perf_counter()
                ordered = [self._with_snapshot(changes[one]) for one in order]
                try:
                    if len(batch) == 1 and not self.shared and self._alone():
                        stored = self.store.commit(ordered)
                    else:
                        stored = await self._in_thread(self.store.commit, ordered)
                except Exception as error:
                    self._refuse(decided, error)
                    continue
                written = dict(zip(order, stored, strict=True))
                self.committed(len(order), perf_counter() - began)
            await self._answer(decided, written)
        self.unstored = {}

    def _with_snapshot(self, change: Change) -> Change:
        """A long log gets a snapshot of the state at its end, so that nobody has to fold all of it again."""
        cell = self.cells.get(change.execution)
        if cell is None:  # put aside meanwhile, and read again when it is needed
            return change
        if cell.state.seq - cell.frozen >= SNAPSHOT_EVENTS and not cell.state.over:
            cell.frozen, change.snapshot = cell.state.seq, freeze(cell.state)
        return change

    def _alone(self) -> bool:
        """Whether nothing but the asker is at work: then a hop to the store's thread costs more than it frees."""
        return sum(len(cell.state.leases) for cell in self.cells.values()) <= 1

    async def _decide(
        self, asked: Asked, decided: dict[str, list[tuple[Asked, Answer]]], changes: dict[str, Change]
    ) -> None:
        execution = asked.execution
        try:
            cell = self.cells.get(execution) or await self.load(execution)
            now = self.clock.now()
            before = cell.state.seq
            if isinstance(asked.command, Refresh):
                if not self.shared:  # else all that changes nothing is looked at when the batch is stored
                    cell = await self._refreshed(cell, execution in changes)
                decision = Decision(cell.state, now)
            else:
                decision = await self._decision(cell.state, asked.command, now)
            events = decision.events
            rows = _rows(events, before + 1, now, cell.head)
            self.unstored.update(decision.blobs)
            works = [await self._work(cell, event) for event in events if _hands_out(cell.state, event)]
        except Undecidable as undecidable:
            self._forget(execution, decided, changes)
            self._remedy(asked, undecidable, cell.state)
            return
        except Exception as error:
            self._forget(execution, decided, changes)
            _raise(asked, error)
            return
        if events:
            cell.head = rows[-1].hash
            change = changes.get(execution)
            if change is None:
                change = changes[execution] = cell.opening or Change(execution, before, [], blobs=[])
                cell.opening = None
            change.rows += rows
            change.blobs += decision.blobs
            _derive(change, cell.state)
            self._summarise(cell, change, now)
        decided.setdefault(execution, []).append((asked, Answer(events, works, cell.state)))

    def _forget(
        self, execution: str, decided: dict[str, list[tuple[Asked, Answer]]], changes: dict[str, Change]
    ) -> None:
        """A command left the state half changed: drop it, and decide what was decided on it in this batch again."""
        self.cells.pop(execution, None)
        changes.pop(execution, None)
        self.asked += [asked for asked, _ in decided.pop(execution, [])]

    def _remedy(self, asked: Asked, undecidable: Undecidable, state: Execution) -> None:
        """Handle an undecidable command: decide a substitute, or raise the error to its sender."""
        assert not isinstance(asked.command, Refresh)
        remedy = remedy_for(asked.command, undecidable.as_data())
        if remedy is None:
            _raise(asked, undecidable.error)
            return
        if isinstance(remedy, Start):
            self._begin(asked.execution, state.net, state.digest)
        self.asked.append(asked._replace(command=remedy))

    async def _decision(self, state: Execution, command: Command, now: float) -> Decision:
        """Decide, loading what templates want to look into on the way."""
        decision = Decision(state, now)
        contents = LoadedContents()
        step = decide
        while True:
            try:
                with loaded(contents):
                    step(decision, command)
                return decision
            except Need as need:
                self.unstored.update(decision.blobs)
                await self.look_into(need.reference, contents)
                step = carry_on if decision.events else decide
            except Inadmissible:  # the report is rejected; the execution is unaffected
                raise
            except Exception as error:  # any error: a retry of the command would raise it again
                raise Undecidable(error) from error

    async def look_into(self, reference: Reference, contents: LoadedContents) -> None:
        """Load the content of a reference for a template on the server."""
        try:
            if contents.bytes_left < reference.size <= SERVER_BYTES:
                raise ReadTooMuch(_TOO_MANY_BYTES)
            contents[reference.key] = await self._content(reference, SERVER_BYTES, contents.take)
        except ReadTooMuch as error:
            contents[reference.key] = TooLarge(str(error))
        except Damaged as error:  # a template that can't be evaluated, not the end of the engine
            contents[reference.key] = Gone(str(error))

    async def work(self, execution: str, fence: int) -> Work:
        """What a lease hands out, for a worker that it has not reached."""
        cell = self.cells.get(execution) or await self.load(execution)
        lease = cell.state.leases[fence]
        loop = cell.state.runs[lease.run].loop
        items = None if loop is None else loop.lanes[fence]
        return await self._work(cell, e.StepStarted(lease.run, fence, lease.worker, items, lease.claim))

    async def _work(self, cell: Cell, event: Any) -> Work:
        """The work that a grant hands out; the items of a large loop are loaded once and kept while it runs."""
        run = cell.state.runs[event.run]
        items = run.loop.items if run.loop is not None and event.items is not None else None
        if isinstance(items, Reference):
            if run.id not in cell.items:
                cell.items = {name: kept for name, kept in cell.items.items() if name in cell.state.runs}
                cell.items[run.id] = await self._content(items, WORKER_BYTES)
            items = cell.items[run.id]
        return work_of(cell.state, event, items)

    async def _content(self, reference: Reference, limit: int, admit: Admit = admit_all) -> Any:
        """The value behind a reference, its checksum verified."""
        if reference.size > limit:
            return TooLarge(f"limit {limit:,}")
        contents = Contents(self.store, self.unstored)
        if reference.store == "object":  # who waits for the store need not wait for another
            return await asyncio.to_thread(read_value, contents, reference, admit)
        return await self._in_thread(read_value, contents, reference, admit)

    async def fetch(self, reference: Reference) -> Any:
        """For workers: the value behind a reference."""
        return await self._content(reference, WORKER_BYTES)

    async def fetch_bytes(self, reference: Reference) -> bytes | TooLarge:
        """For workers: the JSON of the value behind a reference."""
        if reference.size > WORKER_BYTES:
            return TooLarge(f"limit {WORKER_BYTES:,}")
        if reference.store == "object":
            return await asyncio.to_thread(read_json, self.store, reference)
        return await self._in_thread(read_json, self.store, reference)

    async def shelve(self, bucket: str, key: str, content: bytes) -> None:
        """For workers: put content, which the store is going to have, into a bucket of NATS as well."""
        if self.shelf is not None:
            with suppress(NatsUnavailable):  # it is told elsewhere, and nothing is missing
                await self.shelf.put(bucket, key, content)

    async def _refreshed(self, cell: Cell, deciding: bool) -> Cell:
        """The cell, read again if its log has moved. One with undecided changes will notice when they are stored."""
        if deciding:
            return cell
        seq = await self._in_thread(self.store.seq, cell.state.id)
        return cell if seq == cell.state.seq else await self._reload(cell.state.id)

    def _summarise(self, cell: Cell, change: Change, now: float) -> None:
        old = cell.summary
        if old is None or old.status != cell.state.shown_status:
            started, local = (old.started, old.local) if old else (now, not self.shared)
            cell.summary = change.summary = _summary(cell.state, started, now, local)

    def _refuse(self, decided: dict[str, list[tuple[Asked, Answer]]], error: Exception) -> None:
        """Nothing was stored: what was decided never happened."""
        for execution, answers in decided.items():
            self.cells.pop(execution, None)
            for asked, _ in answers:
                _raise(asked, error)
        self._wake()

    async def _answer(self, decided: dict[str, list[tuple[Asked, Answer]]], written: dict[str, bool]) -> None:
        for execution, answers in decided.items():
            if written.get(execution, True):
                self._note_stored(execution, answers[-1][1].state)
                for asked, answer in answers:
                    if answer.events:
                        self.told(answer.state, answer.events)
                    if not asked.answer.cancelled():
                        asked.answer.set_result(answer)
            else:  # somebody else wrote first: read again, decide again
                self.asked = [asked for asked, _ in answers] + self.asked
                try:
                    await self._reload(execution)
                except Exception:  # whoever asked will hear of it when the command is decided again
                    self.cells.pop(execution, None)
        self._wake()

    def _note_stored(self, execution: str, state: Execution) -> None:
        """What was decided is durable now. Nothing has been decided since: the next batch waits for this one."""
        cell = self.cells.get(execution)
        if cell is not None and cell.state is state:
            cell.stored = state.seq

    def _wake(self) -> None:
        self.moved.set()
        self.moved = asyncio.Event()

    # -- loading ----------------------------------------------------------------------------------------------------

    async def load(self, execution: str) -> Cell:
        """Fold an execution's log, from its latest snapshot on."""
        first, snapshot, rows, listed = await self._in_thread(self._stored, execution)
        state = await self.begin(execution, first)
        if snapshot is not None:
            state = thaw(snapshot.data, await self.net(listed.digest) if listed else state.net)
        frozen = state.seq
        for row in rows:
            event = decode(row.type, row.data)
            await self.change_net(state, event)
            evolve(state, event, row.at)
        state.changed = state.deliverable = True  # paused, it may hold what nobody has looked at yet
        state.drain()  # stored with the events that moved it
        last = rows[-1] if rows else first
        head = snapshot.hash if snapshot and not rows else last.hash
        started, local = (listed.started, listed.local) if listed else (first.at, False)
        cell = Cell(state, head, _summary(state, started, last.at, local))
        cell.frozen = frozen
        present = self.cells.get(execution)
        if present is not None and present.state.seq >= state.seq:
            return present  # loaded by another task meanwhile, and perhaps moved on
        self.cells[execution] = cell
        return cell

    async def _reload(self, execution: str) -> Cell:
        """Discard a state that is not in the log, and fold the log again."""
        self.cells.pop(execution, None)
        return await self.load(execution)

    async def begin(self, execution: str, first: Row) -> Execution:
        """The state before the first event of a log, which names the playbook."""
        requested = decode(first.type, first.data)
        assert isinstance(requested, e.ExecutionRequested)
        return Execution(execution, await self.net(requested.playbook), requested.playbook)

    async def change_net(self, state: Execution, event: e.Event) -> None:
        """To be done before an event is folded: a fork may go on with an edited playbook."""
        if isinstance(event, e.ExecutionForked):
            state.net = await self.net(event.playbook or state.digest)

    def _stored(self, execution: str) -> tuple[Row, Snapshot | None, list[Row], Summary | None]:
        """The first row of a log, its latest snapshot, the rows behind that, and how lists show it."""
        first = self.store.read(execution, 0, 1)
        if not first:
            raise NotFound(f"no execution {execution}")
        snapshot = readable(self.store.snapshot(execution))
        listed = next(iter(self.store.summaries(prefix=execution, limit=1)), None)
        return first[0], snapshot, self.store.read(execution, snapshot.seq if snapshot else 0), listed

    async def _in_thread(self, call: Callable[..., Value], *args: Any) -> Value:
        return await self.thread.ask(call, *args)

    def close(self) -> None:
        self.thread.shutdown()
        self.store.close()


async def compile_here(file: str, text: bytes) -> LoadedPlaybook:
    """Compile in this process, which serves no other callers."""
    from noetl.dsl.compile import load

    compiled = load(file, text, KINDS)
    return LoadedPlaybook(compiled.require(), file, compiled.places)


class ReadTooMuch(Exception):
    """The limit of a decision was exceeded; the message says which."""


class LoadedContents(dict[str, Any]):
    """Content that the templates of one decision have loaded, by key, and how much they may still load."""

    bytes_left = DECISION_BYTES
    brackets_left = DECISION_BRACKETS

    def take(self, content: bytes) -> None:
        """Count content that is about to be decoded; ReadTooMuch if it is over a limit."""
        self.bytes_left -= len(content)
        if self.bytes_left < 0:
            raise ReadTooMuch(_TOO_MANY_BYTES)
        self.brackets_left -= content.count(b"[") + content.count(b"{")
        if self.brackets_left < 0:
            raise ReadTooMuch(_TOO_MANY_BRACKETS)


_TOO_MANY_BYTES = f"limit {DECISION_BYTES:,} for all stored values of a decision"
_TOO_MANY_BRACKETS = f"limit {DECISION_BRACKETS:,} lists and maps in all stored values of a decision"


class Contents:
    """Contents of a store, including uncommitted ones."""

    def __init__(self, store: Store, unstored: dict[str, bytes]) -> None:
        self.store, self.unstored = store, unstored

    def blob(self, key: str) -> bytes | None:
        return self.unstored.get(key) or self.store.blob(key)


def _summary(state: Execution, started: float, now: float, local: bool) -> Summary:
    return Summary(
        state.id,
        state.net.playbook.name,
        state.net.playbook.path,
        state.shown_status,
        started,
        now if state.over else None,
        state.digest,
        state.parent[0] if state.parent else None,
        local,
    )


def _derive(change: Change, state: Execution) -> None:
    """What has moved among ready work, leases and timers goes into the same transaction."""
    ready, leases, timers = state.drain()
    change.ready.update(ready)
    change.leases.update(
        (fence, None if lease is None else Leased(lease.run, lease.worker, lease.since, lease.ttl))
        for fence, lease in leases.items()
    )
    change.timers.update(timers)


def _rows(events: list[e.Event], first: int, now: float, head: bytes) -> list[Row]:
    try:
        return rows_of(events, first, now, head)
    except Exception as error:
        raise Undecidable(error) from error


def _raise(asked: Asked, error: Exception) -> None:
    if not asked.answer.done():
        asked.answer.set_exception(error)


def _hands_out(state: Execution, event: e.Event) -> bool:
    """Whether the event is a grant that still holds at the end of its decision."""
    return isinstance(event, e.StepStarted | e.StepRegranted) and event.fence in state.leases


def _kind_of(name: str) -> Any:
    kind = KINDS.get(name)
    if kind is None:
        raise NotFound(f"unknown tool kind {name!r}")
    return kind
