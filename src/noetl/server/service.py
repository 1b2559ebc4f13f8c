"""What a server does for all executions of a store: hands out their work, keeps their time, and notices lost workers.

Any number of servers may do this on one store. Each decision is committed at the seq it was made from, so two servers
that act on the same thing at once do it once: the other one's commit is refused and decided again. Nothing that matters
is kept here. `turns` says who is served next; what a crash takes away with it is found again in the rows of the store.
"""

from __future__ import annotations

import asyncio
import os
import traceback
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from itertools import islice
from typing import Any, NamedTuple, TypeVar

from msgspec.structs import replace

from noetl.clock import Clock
from noetl.engine import events as e
from noetl.engine.commands import Claim, Command, Lost, Report, Start, TimerDue
from noetl.engine.state import LEASE_SECONDS, Execution
from noetl.errors import Conflict, NoetlError, NotFound, StoreError
from noetl.model.identity import uuid7
from noetl.model.playbook import Playbook
from noetl.runtime.family import Family, Find
from noetl.runtime.loaded import starts_others
from noetl.runtime.runtime import Answer, OpenCredential, Refresh, Runtime
from noetl.server.backoff import FIRST_SECONDS, Backoff
from noetl.server.stall import StallDetector
from noetl.server.unheard import UnheardChildren
from noetl.store.ports import Held, Store, WorkerSession
from noetl.worker.terms import GRANT_SECONDS
from noetl.worker.wire import Verdict
from noetl.worker.work import Work

TICK_SECONDS = 0.1
"""How often due timers and changes of other servers are looked for."""
REAP_SECONDS = 1.0
"""Interval of the scan for lost leases."""
RECOVER_SECONDS = 1.5
"""Interval of the scan for work that a crashed server left behind."""
SWEEP_SECONDS = 30.0
WATCH_SECONDS = 1.0
"""How often the server observes that it is not stalled."""
RESTART_SECONDS = 1.0
"""The pause after a background loop has failed."""
TURN_SECONDS = 0.1
"""How long a worker goes on with one execution while others wait. Short runs are done by then: a step that ends and the
next one that is handed out are one commit, and nobody waits in the queue at each step."""
KEPT_CLAIMS = 1_000
KEPT_FINISHED = 10_000
KEPT_PARENTS = 10_000
KEPT_SESSIONS = 10_000
KEPT_TURNS = 10_000
"""So many executions wait here for their turn; the others wait in the store."""
AT_ONCE = 100
PAGE = 1_000
KEPT_CELLS = 1_000
"""So many executions that nobody works on are kept in memory; others are read again when something happens to them."""

Value = TypeVar("Value")
OnError = Callable[[str, str | None], None]
"""Called with a message and the execution it concerns."""


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
        self,
        store: Store,
        clock: Clock,
        find: Find,
        *,
        open_credential: OpenCredential | None = None,
        on_error: OnError = lambda message, execution: None,
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
        self.answered_claims: dict[tuple[str, str], None] = {}
        """The latest claims that received work here, by worker and id."""
        self.finished: dict[tuple[str, int], int] = {}
        """Leases that have ended lately with a report, and how many facts had been told by then."""
        self.sessions: dict[str, tuple[float, int]] = {}
        """When the process of each worker was started, and the number of its latest heartbeat."""
        self.related: set[str] = set()
        """Executions with a parent or children to which something has happened."""
        self.unrelated: set[str] = set()
        """Executions for which that failed."""
        self.related_stirred = asyncio.Event()
        self.idle: Counter[str] = Counter()
        """How many claims wait here for work of each pool."""
        self.announce: Callable[[str], None] = lambda pool: None
        """Called when work for a pool is stored, so that other servers hear of it at once."""
        self.listen: Callable[[str], None] = lambda pool: None
        """Called when a claim begins to wait for work of a pool."""
        self.parents: dict[str, bool] = {}
        """By digest: whether executions of a playbook may start others. Outlasts the playbook in memory, since every
        scan asks it of all that are open."""
        self.backoff = Backoff(clock)
        """Executions that cannot make progress."""
        self.stall = StallDetector()
        self.unheard = UnheardChildren(store, self._in_store, self._try_to_read, self._is_parental)
        self.on_error = on_error
        """Called with errors of background work, and the execution they concern."""

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
            self._relate_soon([state.id])
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

        `again` says that the worker may have made the claim before. Then it gets the leases that it got then, also from
        another server, as far as they are still its own and nothing was reported under them.
        """
        pool = command.pool or "default"
        give_up = self.clock.now() + seconds
        again = bool(command.id) and (again or (command.worker, command.id) in self.answered_claims)
        while True:
            works = (await self._granted(command) if again else []) or await self._claim(command, pool)
            left = give_up - self.clock.now()
            if works or left <= 0 or self.closing:
                self._remember(command, works)
                return works
            await self._wait_for_work(pool, left)

    def _remember(self, command: Claim, works: list[Work]) -> None:
        if command.id and works:
            self.answered_claims[command.worker, command.id] = None
            while len(self.answered_claims) > KEPT_CLAIMS:
                del self.answered_claims[next(iter(self.answered_claims))]

    async def _granted(self, command: Claim) -> list[Work]:
        """The work of leases that the claim received before; the store knows which of them are alive."""
        works: list[Work] = []
        for execution, fence, *_ in await self._in_store(self.store.held, command.worker):
            with suppress(NotFound):
                state = await self._state(execution)
                if fence not in state.leases:
                    state = await self._stored_state(execution)
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
                    self.backoff.succeed(execution)
                    if answer.works:
                        works += answer.works
                        self.since[execution] = self.clock.now()
                    if pool in answer.state.ready.values() and answer.state.status == "running":
                        turns.setdefault(execution)
                elif isinstance(answer, Exception) and not isinstance(answer, StoreError):
                    self._back_off(execution, answer)  # one failing execution must not delay the others
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
                if not self.backoff.is_paused(execution):
                    self._queue(pool, execution)
            self.looked[pool] = found[-1] if len(found) == page else ""
            if len(found) < page or len(turns) >= enough:
                return

    async def report(self, execution: str, report: Report, *, again: bool = False) -> Reported:
        """Facts from a worker. It goes on with the same execution, unless its turn is over and others wait. `again`
        says that it may have been told before, and given work then."""
        claim = report.claim
        if claim is not None and (again or self._is_due_elsewhere(claim.pool or "default", execution)):
            report = replace(report, claim=None)
        answer = await self.runtime.handle(execution, report)
        works = list(answer.works)
        if claim is not None and works:
            self._remember(claim, works)
        elif claim is not None:
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

    async def heartbeat(self, session: WorkerSession, number: int = 0) -> tuple[list[tuple[str, int]], list[str]]:
        """Record a heartbeat; return revoked leases and paused executions.

        `number` counts the heartbeats of a process. One that was overtaken on its way says nothing about leases that
        were granted since. Conflict if a process that was started later has the name of this one.
        """
        previous = await self._in_store(self.store.worker_session, session.worker)
        if previous is not None and self._is_superseded(session, previous):
            name = session.worker.rpartition("@")[0] or session.worker
            raise Conflict(f"another process runs as worker {name!r}: stop it, or start this one with another --name")
        reborn, overtaken = _is_reborn(session, previous), self._is_overtaken(session, number)
        await self._in_store(self.store.beat, session)
        held = await self._in_store(self.store.held, session.worker)
        known = {(lease.execution, lease.fence) for lease in held}
        named = [(execution, fence) for execution, fences in session.leases.items() for fence in fences]
        if reborn:
            await self._take_back(session, held, 0.0)
        elif not overtaken and self.stall.attentive_seconds() > GRANT_SECONDS:
            await self._take_back(session, held, GRANT_SECONDS)
        paused = {lease.execution for lease in held if lease.paused}
        return [lease for lease in named if lease not in known], [one for one in session.leases if one in paused]

    def _is_superseded(self, session: WorkerSession, previous: WorkerSession) -> bool:
        """Whether a process that was started later has the worker's name and is alive. Otherwise the two would take
        each other's leases at every heartbeat."""
        return previous.started > session.started and self.clock.now() - previous.beat < LEASE_SECONDS

    def _is_overtaken(self, session: WorkerSession, number: int) -> bool:
        """Whether a later heartbeat of the process has arrived before this one."""
        started, latest = self.sessions.pop(session.worker, (session.started, 0))
        if started != session.started:
            latest = 0
        self.sessions[session.worker] = (session.started, max(latest, number))
        while len(self.sessions) > KEPT_SESSIONS:
            del self.sessions[next(iter(self.sessions))]
        return number < latest

    async def _take_back(self, session: WorkerSession, held: Iterable[Held], seconds: float) -> None:
        """Leases that were granted so long ago and that the worker does not have go to somebody else."""
        long_ago = self.clock.now() - seconds
        await self._quietly(
            (lease.execution, Lost(lease.fence))
            for lease in held
            if lease.fence not in session.leases.get(lease.execution, ()) and lease.since < long_ago
        )

    # -- background -------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Run the background loops until cancelled."""
        async with asyncio.TaskGroup() as group:
            for loop in (self._tick, self._reap, self._relate, self._recover, self._sweep, self._watch):
                group.create_task(self._keep_running(loop))

    async def _keep_running(self, loop: Callable[[], Awaitable[None]]) -> None:
        """Run a background loop and restart it after an error."""
        while True:
            try:
                await loop()
            except Exception as error:
                self.on_error(f"background task failed, restarting in {RESTART_SECONDS:g} s: {described(error)}", None)
            await asyncio.sleep(RESTART_SECONDS)

    async def _watch(self) -> None:
        """Observe that the event loop runs and the store answers."""
        while True:
            await self._in_store(self.store.next_due)
            self.stall.observe()
            await asyncio.sleep(WATCH_SECONDS)

    async def _tick(self) -> None:
        """Timers that are due, and ready work that other servers have made."""
        while True:
            due = await self._in_store(self.store.due, self.clock.now(), AT_ONCE + len(self.backoff))
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
        """Expire leases without a heartbeat. After a stall, the server gives workers time to send one first."""
        while True:
            attentive = self.stall.attentive_seconds()
            lost = await self._in_store(self.store.lost, None, AT_ONCE + len(self.backoff), attentive)
            if self.stall.attentive_seconds() >= attentive:  # else the stall began with the query
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
                    self.backoff.succeed(name)
                    self.unrelated.discard(name)
                except Exception as error:  # one failing family must not delay the others
                    self._back_off(name, error)
                    self.unrelated.add(name)

    async def _look_at(self, name: str) -> None:
        state = await self._state(name)
        family = [state]
        if state.parent is not None:  # another server may know more of a parent that is to hear of an end
            read = self._stored_state if state.over else self._state
            family.insert(0, await read(state.parent[0]))
        for one in await self._in_store(self.store.children, name):
            family.append(await self._state(one.execution_id))
        await self.family.look(family)

    async def _state(self, name: str) -> Execution:
        return (self.runtime.cells.get(name) or await self.runtime.load(name)).state

    async def _stored_state(self, name: str) -> Execution:
        """The stored state, including changes by other servers."""
        return (await self.runtime.handle(name, Refresh())).state

    async def _recover(self) -> None:
        """Find what a crashed server left behind: ready work, orphans, ends of children."""
        while True:
            for pool in [pool for pool, claims in self.idle.items() if claims]:
                await self._find_ready(pool, AT_ONCE)
            orphans = await self._in_store(self.store.orphans, AT_ONCE + len(self.backoff))
            unheard = await self.unheard.scan()
            for child in {child for children in unheard.values() for child in children}:
                await self._try_to_read(child)
            found = {*orphans, *unheard, *self.unrelated}
            self._relate_soon(one for one in found if not self.backoff.is_paused(one))
            await asyncio.sleep(RECOVER_SECONDS)

    async def _try_to_read(self, name: str) -> Execution | None:
        """The stored state; None if the execution does not exist or cannot be read."""
        if self.backoff.is_paused(name):
            return None
        try:
            return await self._stored_state(name)
        except NotFound:  # a child that is still to be started, or a playbook that is gone
            return None
        except StoreError:
            raise
        except Exception as error:  # one failing execution must not delay the others
            self._back_off(name, error)
            return None

    def _relate_soon(self, executions: Iterable[str]) -> None:
        self.related.update(executions)
        self.related_stirred.set()

    async def _sweep(self) -> None:
        """Queue all ready work, and unload idle executions."""
        while True:
            for pool in {"default", *self.stirred}:
                await self._find_ready(pool, KEPT_TURNS)
            self._forget_cells()
            await asyncio.sleep(SWEEP_SECONDS)

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
        todo = [(execution, command) for execution, command in commands if not self.backoff.is_paused(execution)]
        asked = (self.runtime.handle(execution, command) for execution, command in todo)
        unstored: StoreError | None = None
        for (execution, _), answer in zip(todo, await asyncio.gather(*asked, return_exceptions=True), strict=True):
            if isinstance(answer, StoreError):  # the database failed: retried soon, logged once for all executions
                self.backoff.fail(execution, seconds=FIRST_SECONDS)
                unstored = answer
            elif isinstance(answer, Exception):
                self._back_off(execution, answer)
            elif isinstance(answer, BaseException):
                raise answer
            else:
                self.backoff.succeed(execution)
        if unstored is not None:
            self.on_error(f"database unavailable, retrying in {FIRST_SECONDS:g} s: {unstored}", None)

    def _back_off(self, execution: str, error: Exception) -> None:
        seconds = self.backoff.fail(execution)
        message = f"execution {execution} cannot make progress, retrying in {seconds:g} s: {described(error)}"
        self.on_error(message, execution)

    async def _in_store(self, ask: Callable[..., Value], *arguments: Any) -> Value:
        return await self.runtime.thread.ask(ask, *arguments)

    def close(self) -> None:
        self.runtime.close()


def described(error: Exception) -> str:
    """The error for the log: the message of a NoetlError, otherwise the type and location."""
    if isinstance(error, NoetlError):
        return str(error)
    *_, last = traceback.extract_tb(error.__traceback__) or [None]
    return type(error).__name__ + (f" in {last.name}, line {last.lineno}" if last is not None else "")


def _is_reborn(session: WorkerSession, previous: WorkerSession | None) -> bool:
    """Whether the process that had the worker's name before is gone, because another one has it now."""
    return previous is not None and previous.started != session.started


def _concerns_others(event: e.Event) -> bool:
    """Whether children have to hear of it, or one is to be started."""
    kind = type(event)
    return kind in FATES or (kind is e.StepPaused and event.until == "child")  # type: ignore[attr-defined]


FATES = frozenset([e.PlaybookProcessed, e.PlaybookPaused, e.PlaybookResumed, e.PlaybookCancelled, e.StepFailed])
"""What children share; nobody waits for those of a step that has failed."""
