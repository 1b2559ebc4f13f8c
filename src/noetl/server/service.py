"""What a server does for all executions of a store: hands out their work, keeps their time, and notices lost workers.

Any number of servers may do this on one store. Each decision is committed at the seq it was made from, so two servers
that act on the same thing at once do it once: the other one's commit is refused and decided again. Nothing that matters
is kept here. `turns` says who is served next; what a crash takes away with it is found again in the rows of the store.
"""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from itertools import islice
from typing import Any, NamedTuple, TypeVar

from msgspec.structs import replace

from noetl.clock import Clock
from noetl.engine import events as e
from noetl.engine.commands import Claim, Command, Lost, Report, Start, TimerDue
from noetl.engine.state import Execution
from noetl.errors import NoetlError, NotFound, StoreError
from noetl.model.identity import uuid7
from noetl.model.playbook import Playbook
from noetl.runtime.family import Family, Find
from noetl.runtime.loaded import starts_others
from noetl.runtime.runtime import Answer, OpenCredential, Refresh, Runtime
from noetl.store.ports import Store, WorkerSession
from noetl.worker.wire import Verdict
from noetl.worker.work import Work

TICK_SECONDS = 0.1
"""How often due timers and changes of other servers are looked for."""
REAP_SECONDS = 5.0
SWEEP_SECONDS = 30.0
"""How often everything is looked at that should have been noticed at once, in case a server died in between."""
TURN_SECONDS = 0.1
"""How long a worker goes on with one execution while others wait. Short runs are done by then: a step that ends and the
next one that is handed out are one commit, and nobody waits in the queue at each step."""
GRANT_SECONDS = 15.0
"""A lease that its worker does not name by then never reached it."""
KEPT_CLAIMS = 1_000
KEPT_FINISHED = 10_000
KEPT_PARENTS = 10_000
KEPT_TURNS = 10_000
"""So many executions wait here for their turn; the others wait in the store."""
AT_ONCE = 100
PAGE = 1_000
LEAVE_SECONDS = 30.0
"""How long an execution is left alone that could not be dealt with."""
KEPT_CELLS = 1_000
"""So many executions that nobody works on are kept in memory; others are read again when something happens to them."""

Value = TypeVar("Value")


class Waiting:
    """Who waits for the end of an execution."""

    def __init__(self) -> None:
        self.event = asyncio.Event()
        self.waiters = 0


class Reported(NamedTuple):
    """What became of a report."""

    verdict: Verdict
    held: bool
    """Whether the lease goes on."""
    works: list[Work]


class Service:
    """The engine of a server."""

    def __init__(
        self, store: Store, clock: Clock, find: Find, *, open_credential: OpenCredential | None = None
    ) -> None:
        self.runtime = Runtime(store, clock, open_credential)
        self.runtime.shared = True
        self.runtime.told = self._told
        self.store, self.clock = store, clock
        self.family = Family(self.runtime, find)
        self.turns: dict[str, dict[str, None]] = {}
        """Executions with ready work by pool, in the order in which they are served."""
        self.looked: dict[str, str] = {}
        """By pool, up to which execution the store was searched for ready work."""
        self.searched: dict[str, float] = {}
        """When that was."""
        self.since: dict[str, float] = {}
        """When the turn of an execution began."""
        self.stirred: dict[str, asyncio.Event] = {}
        self.ended: dict[str, Waiting] = {}
        """Executions that somebody waits for."""
        self.closing = False
        self.claims: dict[tuple[str, str], list[Work]] = {}
        """Answers to the latest claims, for a worker that asks again because none has reached it."""
        self.finished: dict[tuple[str, int], int] = {}
        """Leases that have ended lately with a report, and how many facts had been told by then."""
        self.sessions: dict[str, float] = {}
        """When the process of each worker was started, as far as it has been heard here."""
        self.related: set[str] = set()
        """Executions with a parent or children to which something has happened."""
        self.related_stirred = asyncio.Event()
        self.idle: Counter[str] = Counter()
        """How many claims wait here for work of each pool."""
        self.announce: Callable[[str], None] = lambda pool: None
        """Called when work for a pool is stored, so that other servers hear of it at once."""
        self.listen: Callable[[str], None] = lambda pool: None
        """Called when a claim begins to wait for work of a pool."""
        self.parents: dict[str, bool] = {}
        """By digest: whether executions of a playbook may start others. Outlasts the playbook in memory, since every
        sweep asks it of all that wait."""
        self.swept = ""
        """Where the last look at waiting executions ended."""
        self.left: dict[str, float] = {}
        """Executions that could not be dealt with, and until when they are left alone."""
        self.complain: Callable[[str], None] = lambda text: None
        """Told what goes wrong where nobody waits for an answer."""

    # -- executions -------------------------------------------------------------------------------------------------

    async def start(
        self, digest: str, payload: dict[str, Any], ctx: dict[str, Any], execution: str | None = None
    ) -> Execution:
        """Begin an execution."""
        name = execution or uuid7(self.clock.now(), os.urandom(8))
        await self.runtime.create(name, digest)
        return (await self.runtime.handle(name, Start(payload, ctx))).state

    async def handle(self, execution: str, command: Command) -> Answer:
        """Tell an execution something; NotFound if there is none."""
        return await self.runtime.handle(execution, command)

    async def wait(self, execution: str, seconds: float) -> Execution:
        """The state when the execution has ended, at whichever server, or when the time is over."""
        ended = self.ended.setdefault(execution, Waiting())
        ended.waiters += 1
        try:
            if not (await self._state(execution)).over and not self.closing:
                with suppress(TimeoutError):
                    async with asyncio.timeout(seconds):
                        await ended.event.wait()
        finally:
            ended.waiters -= 1
            if not ended.waiters:
                self.ended.pop(execution, None)
        return await self._state(execution)

    def let_go(self) -> None:
        """Whoever waits is told how things stand: the server is about to end."""
        self.closing = True
        for event in (*(waiting.event for waiting in self.ended.values()), *self.stirred.values()):
            event.set()

    def _told(self, state: Execution, events: list[e.Event]) -> None:
        """Something is durable: who waits for it hears of it."""
        if state.ready and state.status == "running":
            for pool in set(state.ready.values()):
                if len(self.turns.get(pool, ())) < KEPT_TURNS:
                    self._queue(pool, state.id)
                self.announce(pool)
        if state.parent is not None or (
            self._may_start_others(state.digest, state.net.playbook) and any(map(_concerns_others, events))
        ):
            self.related.add(state.id)
            self.related_stirred.set()
        if state.over:
            self.since.pop(state.id, None)
            if (ended := self.ended.get(state.id)) is not None:
                ended.event.set()

    def _may_start_others(self, digest: str, playbook: Playbook) -> bool:
        """Whether a playbook has tasks that start executions."""
        if digest not in self.parents:
            self.parents[digest] = starts_others(playbook)
            if len(self.parents) > KEPT_PARENTS:
                del self.parents[next(iter(self.parents))]
        return self.parents[digest]

    def _queue(self, pool: str, execution: str) -> None:
        self.turns.setdefault(pool, {}).setdefault(execution)
        if (event := self.stirred.get(pool)) is not None:
            event.set()

    # -- workers ----------------------------------------------------------------------------------------------------

    async def claim(self, command: Claim, seconds: float = 0.0, *, again: bool = False) -> list[Work]:
        """Leases on ready work of a pool, in turn from all executions that have some; waits for it if there is none.

        A claim that was made before gets the leases that it got then, also if that was at another server; `again` says
        that it may have been.
        """
        pool = command.pool or "default"
        if command.id and (known := self.claims.get((command.worker, command.id))) is not None:
            return known
        if again and command.id and (found := await self._granted(command)):
            return found
        give_up = self.clock.now() + seconds
        while True:
            works = await self._claim(command, pool)
            left = give_up - self.clock.now()
            if works or left <= 0 or self.closing:
                break
            await self._wait_for_work(pool, left)
        self._remember(command, works)
        return works

    def _remember(self, command: Claim, works: list[Work]) -> None:
        if command.id and works:
            self.claims[command.worker, command.id] = works
            while len(self.claims) > KEPT_CLAIMS:
                del self.claims[next(iter(self.claims))]

    async def _granted(self, command: Claim) -> list[Work]:
        """What a claim was given of which nothing is known here: its leases are in the store."""
        works: list[Work] = []
        for execution, fence, _ in await self._in_store(self.store.held, command.worker):
            with suppress(NotFound):
                state = (await self.runtime.handle(execution, Refresh())).state
                lease = state.leases.get(fence)
                if lease is not None and lease.claim == command.id and not lease.facts:
                    works.append(await self.runtime.work(execution, fence))
        return works

    async def _wait_for_work(self, pool: str, seconds: float) -> None:
        event = self.stirred.setdefault(pool, asyncio.Event())
        event.clear()
        if self.turns.get(pool):
            return
        self.idle[pool] += 1
        self.listen(pool)
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await event.wait()
        finally:
            self.idle[pool] -= 1

    async def _claim(self, command: Claim, pool: str) -> list[Work]:
        """One lease from each execution in turn until the slots are full; all decided together, committed together."""
        turns = self.turns.setdefault(pool, {})
        works: list[Work] = []
        if not turns and self.clock.now() - self.searched.get(pool, 0.0) > TICK_SECONDS:
            await self._find_ready(pool, AT_ONCE)
        while turns and len(works) < command.slots:
            chosen = list(islice(turns, command.slots - len(works)))
            share = max(1, (command.slots - len(works)) // len(chosen))
            for execution in chosen:
                del turns[execution]
            asked = Claim(command.worker, share, command.pool, command.id)
            answers = await asyncio.gather(
                *(self.runtime.handle(execution, asked) for execution in chosen), return_exceptions=True
            )
            failures = []
            for execution, answer in zip(chosen, answers, strict=True):
                if isinstance(answer, Answer):
                    if answer.works:
                        works += answer.works
                        self.since[execution] = self.clock.now()
                    if pool in answer.state.ready.values() and answer.state.status == "running":
                        turns.setdefault(execution)
                elif isinstance(answer, NoetlError) and not isinstance(answer, StoreError):
                    self._leave_alone(execution, answer)  # those behind it must not wait for it
                else:
                    turns.setdefault(execution)
                    failures.append(answer)
            if failures and not works:
                raise failures[0]
            if failures:
                break
        return works

    async def _find_ready(self, pool: str, enough: int) -> None:
        """Queue executions with ready work that may be known to the store only: some at least, until enough wait here.

        Each look goes on where the last one ended, round and round: so everybody's turn comes, however many there are,
        and also if those that are served do not stop being ready.
        """
        turns = self.turns.setdefault(pool, {})
        self.searched[pool] = self.clock.now()
        page = min(PAGE, enough)
        while True:
            found = await self._in_store(self.store.waiting, pool, page, self.looked.get(pool, ""))
            for execution in found:
                if not self._is_left_alone(execution):
                    self._queue(pool, execution)
            self.looked[pool] = found[-1] if len(found) == page else ""
            if len(found) < page or len(turns) >= enough:
                return

    async def report(self, execution: str, report: Report, *, again: bool = False) -> Reported:
        """Facts from a worker. It goes on with the same execution, unless its turn is over and others wait. `again`
        says that it may have been told before, and given work then."""
        claim = report.claim
        if claim is not None and self._is_due_elsewhere(claim.pool or "default", execution):
            report = replace(report, claim=None)
        answer = await self.runtime.handle(execution, report)
        works = list(answer.works)
        if claim is not None:
            if works:
                self._remember(claim, works)
            else:
                works = await self.claim(claim, again=again)
        return Reported(self._verdict(execution, report, answer), report.fence in answer.state.leases, works)

    def _verdict(self, execution: str, report: Report, answer: Answer) -> Verdict:
        key, told = (execution, report.fence), report.first + len(report.facts)
        held = report.fence in answer.state.leases
        if any(event.source == "worker" or isinstance(event, e.StepPaused) for event in answer.events):
            if not held:
                self.finished[key] = told
                while len(self.finished) > KEPT_FINISHED:
                    del self.finished[next(iter(self.finished))]
            return "accepted"
        if held:
            return "duplicate" if report.facts else "accepted"
        return "duplicate" if told <= self.finished.get(key, -1) else "rejected"

    def _is_due_elsewhere(self, pool: str, execution: str) -> bool:
        turns = self.turns.get(pool, {})
        waits = len(turns) > (execution in turns)
        return waits and self.clock.now() - self.since.get(execution, 0.0) > TURN_SECONDS

    async def heartbeat(self, session: WorkerSession) -> tuple[list[tuple[str, int]], list[str]]:
        """A worker is alive. What it holds in vain, and which of its executions are paused."""
        reborn = await self._is_reborn(session)
        await self._in_store(self.store.beat, session)
        revoked: list[tuple[str, int]] = []
        paused: list[str] = []
        for execution, fences in session.leases.items():
            try:
                state = await self._state(execution)
                if not all(fence in state.leases for fence in fences):  # another server may have granted them
                    state = (await self.runtime.handle(execution, Refresh())).state
            except NotFound:
                revoked += [(execution, fence) for fence in fences]
                continue
            revoked += [(execution, fence) for fence in fences if fence not in state.leases]
            if state.status == "paused":
                paused.append(execution)
        await self._take_back(session, 0.0 if reborn else GRANT_SECONDS)
        return revoked, paused

    async def _is_reborn(self, session: WorkerSession) -> bool:
        """Whether a process that had the worker's name before is gone: another one bears it now."""
        if self.sessions.get(session.worker) == session.started:
            return False
        self.sessions[session.worker] = session.started
        before = {one.worker: one.started for one in await self._in_store(self.store.workers)}
        return before.get(session.worker, session.started) != session.started

    async def _take_back(self, session: WorkerSession, seconds: float) -> None:
        """Leases that were granted so long ago and that the worker does not have go to somebody else."""
        long_ago = self.clock.now() - seconds
        gone: list[tuple[str, Command]] = []
        for execution, fence, since in await self._in_store(self.store.held, session.worker):
            if fence not in session.leases.get(execution, ()) and since < long_ago:
                gone.append((execution, Lost(fence)))
        await self._quietly(gone)

    # -- background -------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Everything that nobody asks for, until it is cancelled."""
        async with asyncio.TaskGroup() as group:
            for loop in (self._tick, self._reap, self._relate, self._sweep):
                group.create_task(loop())

    async def _tick(self) -> None:
        """Timers that are due, and ready work that other servers have made."""
        while True:
            due = await self._in_store(self.store.due, self.clock.now(), AT_ONCE + len(self.left))
            await self._quietly((execution, TimerDue(timer)) for execution, timer in due)
            if await self._in_store(self.store.changed):
                for pool in list(self.stirred):
                    await self._find_ready(pool, AT_ONCE)
                await self._find_ended()
            await asyncio.sleep(TICK_SECONDS)

    async def hear(self, pool: str) -> bool:
        """Another server says that there is work for a pool; whether somebody waits for it here."""
        if waits := self.idle[pool] > 0:
            with suppress(StoreError):  # it will be looked for again
                await self._find_ready(pool, AT_ONCE)
        return waits

    async def _find_ended(self) -> None:
        """Executions that somebody waits for here, and that another server may have brought to their end."""
        names = list(self.ended)
        asked = (self.runtime.handle(name, Refresh()) for name in names)
        for name, answer in zip(names, await asyncio.gather(*asked, return_exceptions=True), strict=True):
            if isinstance(answer, Answer) and answer.state.over and name in self.ended:
                self.ended[name].event.set()

    async def _reap(self) -> None:
        """Leases whose worker has fallen silent."""
        while True:
            lost = await self._in_store(self.store.lost, None, AT_ONCE + len(self.left))
            await self._quietly((execution, Lost(fence)) for execution, fence in lost)
            await self._find_ended()  # nobody may have told us
            await asyncio.sleep(REAP_SECONDS)

    async def _relate(self) -> None:
        """Children are started, their ends handed on, and they follow their parents."""
        while True:
            await self.related_stirred.wait()
            self.related_stirred.clear()
            names, self.related = self.related, set()
            for name in names:
                try:
                    await self._look_at(name)
                except NoetlError as error:
                    self._leave_alone(name, error)

    async def _look_at(self, name: str) -> None:
        state = await self._state(name)
        family = [state]
        if state.parent is not None:
            family.insert(0, await self._state(state.parent[0]))
        for one in await self._in_store(self.store.children, name):
            family.append(await self._state(one.execution_id))
        await self.family.look(family)

    async def _state(self, name: str) -> Execution:
        return (self.runtime.cells.get(name) or await self.runtime.load(name)).state

    async def _sweep(self) -> None:
        """What a server that died may have left undone; also at the start."""
        while True:
            for pool in {"default", *self.stirred}:
                await self._find_ready(pool, KEPT_TURNS)
            orphans = await self._in_store(self.store.orphans, AT_ONCE + len(self.left))
            self.related.update(one for one in orphans if not self._is_left_alone(one))
            self.related.update(await self._waiting_parents())
            self.related_stirred.set()
            self._forget_cells()
            await asyncio.sleep(SWEEP_SECONDS)

    async def _waiting_parents(self) -> list[str]:
        """Executions that may wait for a child which nobody has started, or whose end nobody has told them.

        A part of them each time, beginning behind those of the last time.
        """
        found: list[str] = []
        while len(found) < AT_ONCE:
            page = await self._in_store(lambda: self.store.summaries(status="waiting", before=self.swept, limit=PAGE))
            for one in page:
                self.swept = one.execution_id
                if not one.local and await self._is_parental(one.digest):
                    found.append(one.execution_id)
                if len(found) == AT_ONCE:
                    return found
            if len(page) < PAGE:
                self.swept = ""
                break
        return found

    def _forget_cells(self) -> None:
        idle = [name for name, cell in self.runtime.cells.items() if not cell.state.leases and name not in self.ended]
        for name in idle[:-KEPT_CELLS]:
            self.runtime.cells.pop(name, None)
        self.since = {name: since for name, since in self.since.items() if name in self.runtime.cells}

    async def _is_parental(self, digest: str) -> bool:
        """Whether executions of a stored playbook may start others."""
        if digest in self.parents:
            return self.parents[digest]
        try:
            return self._may_start_others(digest, (await self.runtime.net(digest)).playbook)
        except NoetlError:  # what is wrong with it is said when one of them is looked at
            return True

    async def _quietly(self, commands: Iterable[tuple[str, Command]]) -> None:
        """Commands that nobody waits for, all at once. What has gone meanwhile is no trouble, and what can't be dealt
        with is left alone for a while, so that it is not in the way of others."""
        todo = [(execution, command) for execution, command in commands if not self._is_left_alone(execution)]
        asked = (self.runtime.handle(execution, command) for execution, command in todo)
        for (execution, _), answer in zip(todo, await asyncio.gather(*asked, return_exceptions=True), strict=True):
            if isinstance(answer, NoetlError):
                self._leave_alone(execution, answer)
            elif isinstance(answer, BaseException):
                raise answer

    def _leave_alone(self, execution: str, error: NoetlError) -> None:
        self.left[execution] = self.clock.now() + LEAVE_SECONDS
        self.complain(f"{execution} is left alone for {LEAVE_SECONDS:g} s: {error}")

    def _is_left_alone(self, execution: str) -> bool:
        until = self.left.get(execution)
        if until is not None and until <= self.clock.now():
            del self.left[execution]
        return execution in self.left

    async def _in_store(self, ask: Callable[..., Value], *arguments: Any) -> Value:
        return await self.runtime.thread.ask(ask, *arguments)

    def close(self) -> None:
        self.runtime.close()


def _concerns_others(event: e.Event) -> bool:
    """Whether children have to hear of it, or one is to be started."""
    kind = type(event)
    return kind in FATES or (kind is e.StepPaused and event.until == "child")  # type: ignore[attr-defined]


FATES = frozenset([e.PlaybookProcessed, e.PlaybookPaused, e.PlaybookResumed, e.PlaybookCancelled, e.StepFailed])
"""What children share; nobody waits for those of a step that has failed."""
