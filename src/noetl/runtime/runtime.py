"""The shell around the core: load, decide, append at the expected seq, in one transaction.

Commands of all executions go through one committer. What arrives while a transaction is under way is decided
together and committed together, and each command is answered after its events are durable. An execution's state is
kept in memory and evolved as its commands are decided; if its log has moved meanwhile (another process wrote to it),
the state is dropped, read again, and the command decided anew.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

from noetl.clock import Clock
from noetl.engine import events as e
from noetl.engine.commands import Claim, Command, Report
from noetl.engine.decide import decide
from noetl.engine.evolve import evolve
from noetl.engine.net import Net
from noetl.engine.state import Execution
from noetl.errors import NoetlError
from noetl.tools.registry import KINDS
from noetl.model.playbook import Playbook
from noetl.pipeline.plan import PipelinePlan
from noetl.store.codec import ZERO, decode, rows_of
from noetl.store.ports import Change, Store, Summary
from noetl.worker.work import Work, work_of


class NotFound(NoetlError):
    """There is no such execution."""


class Answer(NamedTuple):
    """What came of a command."""

    events: list[e.Event]
    works: list[Work]
    state: Execution


class Refresh:
    """Not a command to an execution: look whether another process has written to its log."""


class Asked(NamedTuple):
    """A command on its way."""

    execution: str
    command: Command | Refresh
    answer: asyncio.Future[Answer]


class Cell:
    """An execution in memory: its state and the hash of its last row."""

    __slots__ = ("head", "state", "summary")

    def __init__(self, state: Execution, head: bytes, summary: Summary | None) -> None:
        self.state, self.head, self.summary = state, head, summary


class Runtime:
    """Handles commands of any number of executions on one store."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self.store, self.clock = store, clock
        self.cells: dict[str, Cell] = {}
        self.nets: dict[str, Net] = {}
        self.plans: dict[tuple[str, str], PipelinePlan] = {}
        self.thread = ThreadPoolExecutor(1, "noetl-store")
        self.asked: list[Asked] = []
        self.committing: asyncio.Task[None] | None = None
        self.moved = asyncio.Event()
        """Set after every commit, for those who watch."""

    # -- playbooks --------------------------------------------------------------------------------------------------

    def add(self, playbook: Playbook) -> str:
        """Make a playbook known to this runtime; returns its digest."""
        digest = playbook.digest
        if digest not in self.nets:
            self.nets[digest] = Net(playbook)
        return digest

    def plan(self, digest: str, step: str) -> PipelinePlan:
        """The compiled pipeline of a step, made when it is first asked for."""
        key = (digest, step)
        if key not in self.plans:
            self.plans[key] = PipelinePlan(self.nets[digest].steps[step].step.tasks, _kind_of)
        return self.plans[key]

    # -- commands ---------------------------------------------------------------------------------------------------

    def create(self, execution: str, digest: str) -> None:
        """Make room for a new execution; its first command is Start."""
        self.cells[execution] = Cell(Execution(execution, self.nets[digest], digest), ZERO, None)

    async def handle(self, execution: str, command: Command | Refresh) -> Answer:
        """Decide a command and store what follows; answered when it is durable."""
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
        """Facts from a worker; whether they were accepted, and the work it asked for."""
        answer = await self.handle(execution, report)
        return bool(answer.events) or not report.facts, answer.works

    async def _commit(self) -> None:
        """Decide and store everything that has been asked, until nothing is left."""
        loop = asyncio.get_running_loop()
        while self.asked:
            batch, self.asked = self.asked, []
            decided: dict[str, list[tuple[Asked, Answer]]] = {}
            changes: dict[str, Change] = {}
            for asked in batch:
                await self._decide(asked, decided, changes)
            written = {}
            if changes:
                order = sorted(changes)
                stored = await loop.run_in_executor(self.thread, self.store.commit, [changes[one] for one in order])
                written = dict(zip(order, stored, strict=True))
            self._answer(decided, written)

    async def _decide(
        self, asked: Asked, decided: dict[str, list[tuple[Asked, Answer]]], changes: dict[str, Change]
    ) -> None:
        execution = asked.execution
        try:
            cell = self.cells.get(execution) or await self.load(execution)
            now = self.clock.now()
            before = cell.state.seq
            if isinstance(asked.command, Refresh):
                cell = await self._refreshed(cell, execution in changes)
                events: list[e.Event] = []
            else:
                events = decide(cell.state, asked.command, now)
        except Exception as error:
            self.cells.pop(execution, None)
            asked.answer.set_exception(error)
            return
        if events:
            rows = rows_of(events, before + 1, now, cell.head)
            cell.head = rows[-1].hash
            change = changes.get(execution)
            if change is None:
                change = changes[execution] = Change(execution, before, [])
            change.rows += rows
            self._summarise(cell, change, now)
        works = [work_of(cell.state, event) for event in events if isinstance(event, e.StepStarted | e.StepRegranted) and event.worker != "server" and event.run in cell.state.runs]
        decided.setdefault(execution, []).append((asked, Answer(events, works, cell.state)))

    async def _refreshed(self, cell: Cell, deciding: bool) -> Cell:
        """The cell, read again if its log has moved. One with undecided changes will notice when they are stored."""
        if deciding:
            return cell
        seq = await asyncio.get_running_loop().run_in_executor(self.thread, self.store.seq, cell.state.id)
        return cell if seq == cell.state.seq else await self.load(cell.state.id)

    def _summarise(self, cell: Cell, change: Change, now: float) -> None:
        state, playbook = cell.state, cell.state.net.playbook
        old = cell.summary
        if old is not None and old.status == state.status:
            return
        started = old.started if old else now
        parent = state.parent[0] if state.parent else None
        cell.summary = change.summary = Summary(
            state.id,
            playbook.name,
            playbook.path,
            state.status,
            started,
            now if state.over else None,
            state.digest,
            parent,
        )

    def _answer(self, decided: dict[str, list[tuple[Asked, Answer]]], written: dict[str, bool]) -> None:
        for execution, answers in decided.items():
            if written.get(execution, True):
                for asked, answer in answers:
                    if not asked.answer.cancelled():
                        asked.answer.set_result(answer)
            else:  # somebody else wrote first: read again, decide again
                self.cells.pop(execution, None)
                self.asked = [asked for asked, _ in answers] + self.asked
        self.moved.set()
        self.moved = asyncio.Event()

    # -- loading ----------------------------------------------------------------------------------------------------

    async def load(self, execution: str) -> Cell:
        """Fold an execution's log."""
        loop = asyncio.get_running_loop()
        rows = await loop.run_in_executor(self.thread, self.store.read, execution)
        if not rows:
            raise NotFound(f"no execution {execution}")
        first = decode(rows[0].type, rows[0].data)
        assert isinstance(first, e.ExecutionRequested)
        if first.playbook not in self.nets:
            await self._load_playbook(first.playbook)
        state = Execution(execution, self.nets[first.playbook], first.playbook)
        for row in rows:
            evolve(state, decode(row.type, row.data), row.at)
        state.changed = state.listening = False
        cell = Cell(state, rows[-1].hash, None)
        self.cells[execution] = cell
        return cell

    async def _load_playbook(self, digest: str) -> None:
        from noetl.dsl.compile import load

        stored = await asyncio.get_running_loop().run_in_executor(self.thread, self.store.playbook, digest)
        if stored is None:
            raise NotFound(f"the playbook {digest[:12]} of this execution is not in the store")
        self.add(load(stored[0], stored[1], KINDS).require())

    def close(self) -> None:
        self.thread.shutdown()
        self.store.close()


def _kind_of(name: str) -> Any:
    kind = KINDS.get(name)
    if kind is None:
        raise NotFound(f"no tool kind is called {name!r}")
    return kind
