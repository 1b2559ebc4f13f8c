"""What a server does for all executions of a store: hands out their work, keeps their time, and notices lost workers.

Any number of servers may do this on one store. Each decision is committed at the seq it was made from, so two servers
that act on the same thing at once do it once: the other one's commit is refused and decided again. Nothing that matters
is kept here. `turns` says who is served next; what a crash takes away with it is found again in the rows of the store.
"""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from noetl.clock import Clock
from noetl.engine import events as e
from noetl.engine.commands import Claim, Command, Lost, Report, Start, TimerDue
from noetl.engine.state import Execution
from noetl.errors import NoetlError, NotFound, StoreError
from noetl.model.identity import uuid7
from noetl.runtime.family import Family, Find
from noetl.runtime.runtime import Answer, OpenCredential, Refresh, Runtime
from noetl.store.ports import Store, WorkerSession
from noetl.worker.work import Work

TICK_SECONDS = 0.1
"""How often due timers and changes of other servers are looked for."""
REAP_SECONDS = 5.0
SWEEP_SECONDS = 30.0
"""How often everything is looked at that should have been noticed at once, in case a server died in between."""
GRANT_SECONDS = 15.0
"""A lease that its worker does not name by then never reached it."""
KEPT_CLAIMS = 1_000
AT_ONCE = 100
KEPT_CELLS = 1_000
"""So many executions that nobody works on are kept in memory; others are read again when something happens to them."""

Value = TypeVar("Value")


class Waiting:
    """Who waits for the end of an execution."""

    def __init__(self) -> None:
        self.event = asyncio.Event()
        self.waiters = 0


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
        self.stirred: dict[str, asyncio.Event] = {}
        self.ended: dict[str, Waiting] = {}
        """Executions that somebody waits for."""
        self.claims: dict[tuple[str, str], list[Work]] = {}
        """Answers to the latest claims, for a worker that asks again because none has reached it."""
        self.related: set[str] = set()
        """Executions with a parent or children to which something has happened."""
        self.related_stirred = asyncio.Event()
        self.idle: Counter[str] = Counter()
        """How many claims wait here for work of each pool."""
        self.announce: Callable[[str], None] = lambda pool: None
        """Called when work for a pool is stored, so that other servers hear of it at once."""
        self.listen: Callable[[str], None] = lambda pool: None
        """Called when a claim begins to wait for work of a pool."""

    # -- executions -------------------------------------------------------------------------------------------------

    async def start(
        self, digest: str, payload: dict[str, Any], ctx: dict[str, Any], execution: str | None = None
    ) -> Execution:
        """Begin an execution."""
        name = execution or uuid7(self.clock.now(), os.urandom(8))
        self.runtime.create(name, digest)
        return (await self.runtime.handle(name, Start(payload, ctx))).state

    async def handle(self, execution: str, command: Command) -> Answer:
        """Tell an execution something; NotFound if there is none."""
        return await self.runtime.handle(execution, command)

    async def wait(self, execution: str, seconds: float) -> Execution:
        """The state when the execution has ended, or when the time is over."""
        ended = self.ended.setdefault(execution, Waiting())
        ended.waiters += 1
        try:
            if not (await self._state(execution)).over:
                with suppress(TimeoutError):
                    async with asyncio.timeout(seconds):
                        await ended.event.wait()
        finally:
            ended.waiters -= 1
            if not ended.waiters:
                self.ended.pop(execution, None)
        return await self._state(execution)

    def _told(self, state: Execution, events: list[e.Event]) -> None:
        """Something is durable: who waits for it hears of it."""
        if state.ready and state.status == "running":
            for pool in set(state.ready.values()):
                self._queue(pool, state.id)
                self.announce(pool)
        parks = any(isinstance(event, e.StepPaused) and event.until == "child" for event in events)
        if parks or state.parent is not None or any(isinstance(event, FATES) for event in events):
            self.related.add(state.id)
            self.related_stirred.set()
        if state.over and (ended := self.ended.get(state.id)) is not None:
            ended.event.set()

    def _queue(self, pool: str, execution: str) -> None:
        self.turns.setdefault(pool, {}).setdefault(execution)
        if (event := self.stirred.get(pool)) is not None:
            event.set()

    # -- workers ----------------------------------------------------------------------------------------------------

    async def claim(self, command: Claim, seconds: float = 0.0) -> list[Work]:
        """Leases on ready work of a pool, in turn from all executions that have some; waits for it if there is none."""
        pool = command.pool or "default"
        if command.id and (known := self.claims.get((command.worker, command.id))) is not None:
            return known
        give_up = self.clock.now() + seconds
        while True:
            works = await self._claim(command, pool)
            left = give_up - self.clock.now()
            if works or left <= 0:
                break
            await self._wait_for_work(pool, left)
        self._remember(command, works)
        return works

    def _remember(self, command: Claim, works: list[Work]) -> None:
        if command.id and works:
            self.claims[command.worker, command.id] = works
            while len(self.claims) > KEPT_CLAIMS:
                del self.claims[next(iter(self.claims))]

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
        while turns and len(works) < command.slots:
            chosen = list(turns)[: command.slots - len(works)]
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
                    works += answer.works
                    if pool in answer.state.ready.values() and answer.state.status == "running":
                        turns.setdefault(execution)
                elif not isinstance(answer, NotFound):
                    turns.setdefault(execution)
                    failures.append(answer)
            if failures and not works:
                raise failures[0]
            if failures:
                break
        return works

    async def report(self, execution: str, report: Report) -> tuple[bool, list[Work]]:
        """Facts from a worker. It goes on with the same execution, unless others have waited longer."""
        claim = report.claim
        waits = claim is not None and any(other != execution for other in self.turns.get(claim.pool or "default", ()))
        if claim is not None and waits:
            report = Report(report.fence, report.facts, report.first, None, report.hand_back, report.blobs)
        answer = await self.runtime.handle(execution, report)
        works = list(answer.works)
        if claim is not None:
            if works:
                self._remember(claim, works)
            else:
                works = await self.claim(claim)
        return report.fence in answer.state.leases, works

    async def heartbeat(self, session: WorkerSession) -> tuple[list[tuple[str, int]], list[str]]:
        """A worker is alive. What it holds in vain, and which of its executions are paused."""
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
        await self._take_back(session)
        return revoked, paused

    async def _take_back(self, session: WorkerSession) -> None:
        """Leases that were granted and never arrived go to somebody else."""
        long_ago = self.clock.now() - GRANT_SECONDS
        for execution, fence, since in await self._in_store(self.store.held, session.worker):
            if fence not in session.leases.get(execution, ()) and since < long_ago:
                await self._quietly(execution, Lost(fence))

    # -- background -------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Everything that nobody asks for, until it is cancelled."""
        async with asyncio.TaskGroup() as group:
            for loop in (self._tick, self._reap, self._relate, self._sweep):
                group.create_task(loop())

    async def _tick(self) -> None:
        """Timers that are due, and ready work that other servers have made."""
        while True:
            for execution, timer in await self._in_store(self.store.due, self.clock.now(), AT_ONCE):
                await self._quietly(execution, TimerDue(timer))
            if await self._in_store(self.store.changed):
                await self._find_ready()
                await self._find_ended()
            await asyncio.sleep(TICK_SECONDS)

    async def _find_ready(self) -> None:
        for pool in list(self.stirred):
            await self._find_ready_of(pool)

    async def _find_ready_of(self, pool: str) -> None:
        for execution in await self._in_store(self.store.waiting, pool, AT_ONCE):
            self._queue(pool, execution)

    async def hear(self, pool: str) -> bool:
        """Another server says that there is work for a pool; whether somebody waits for it here."""
        if waits := self.idle[pool] > 0:
            with suppress(StoreError):  # it will be looked for again
                await self._find_ready_of(pool)
        return waits

    async def _find_ended(self) -> None:
        """Executions that somebody waits for here, and that another server may have brought to their end."""
        for execution, ended in list(self.ended.items()):
            with suppress(NoetlError):
                if (await self.runtime.handle(execution, Refresh())).state.over:
                    ended.event.set()

    async def _reap(self) -> None:
        """Leases whose worker has fallen silent."""
        while True:
            for execution, fence in await self._in_store(self.store.lost, None, AT_ONCE):
                await self._quietly(execution, Lost(fence))
            await asyncio.sleep(REAP_SECONDS)

    async def _relate(self) -> None:
        """Children are started, their ends handed on, and they follow their parents."""
        while True:
            await self.related_stirred.wait()
            self.related_stirred.clear()
            names, self.related = self.related, set()
            for name in names:
                with suppress(NoetlError):
                    await self._look_at(name)

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
            for pool in ("default", *self.stirred):
                await self._find_ready_of(pool)
            for execution in await self._in_store(self.store.orphans, AT_ONCE):
                self.related.add(execution)
            for summary in await self._waiting():
                self.related.add(summary.execution_id)
            self.related_stirred.set()
            self._forget_cells()
            await asyncio.sleep(SWEEP_SECONDS)

    async def _waiting(self) -> Sequence[Any]:
        return await self._in_store(lambda: self.store.summaries(status="waiting", limit=AT_ONCE))

    def _forget_cells(self) -> None:
        idle = [name for name, cell in self.runtime.cells.items() if not cell.state.leases and name not in self.ended]
        for name in idle[:-KEPT_CELLS]:
            self.runtime.cells.pop(name, None)

    async def _quietly(self, execution: str, command: Command) -> None:
        """A command that nobody waits for; what has gone meanwhile is no trouble."""
        with suppress(NoetlError):
            await self.runtime.handle(execution, command)

    async def _in_store(self, ask: Callable[..., Value], *arguments: Any) -> Value:
        return await asyncio.get_running_loop().run_in_executor(self.runtime.thread, ask, *arguments)

    def close(self) -> None:
        self.runtime.close()


FATES = (e.PlaybookProcessed, e.PlaybookPaused, e.PlaybookResumed, e.PlaybookCancelled)
"""What children share."""
