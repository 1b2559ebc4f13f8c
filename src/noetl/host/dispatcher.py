"""Grants ready work to workers, round-robin over the executions, and handles their reports.

Any number of servers may do this on one store. Each decision is committed at the seq it was made from, so if two
servers grant the same work at once, one commit is rejected and decided again. All state here can be lost.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING

from msgspec.structs import replace

from noetl.engine import events as e
from noetl.engine.commands import Claim, Report
from noetl.engine.state import Execution
from noetl.errors import NotFound, StoreError
from noetl.host.background import Backoff
from noetl.latest import Latest
from noetl.runtime.committer import CommandResult, Regrant
from noetl.runtime.loaded_executions import LoadedExecutions
from noetl.runtime.runtime import Runtime
from noetl.worker.wire import Verdict
from noetl.worker.work import Work

if TYPE_CHECKING:
    from noetl.nats.hints import ReadyHints

SCAN_SECONDS = 0.1  # minimum time between two scans for ready work by claims of a pool
SCAN_LIMIT = 100  # executions that a scan for a claim adds to the queue
SCAN_PAGE = 1_000
TURN_SECONDS = 0.1
"""Time for which a worker stays with one execution while others wait. Short runs end within it: the end of a step and
the grant of the next one are one commit, without a wait in the queue."""
MAX_CLAIMS = 1_000
MAX_ENDED_LEASES = 10_000
TIMERS_PER_SCAN = 100
MAX_QUEUED = 10_000  # executions that wait here for their turn; the others wait in the store
DEFAULT_POOL = "default"
ANY_POOL = ""  # the pool of a worker that serves all pools


class StoredWork:
    """The executions of a whole store, for a server."""

    def __init__(self, runtime: Runtime, backoff: Backoff) -> None:
        self.runtime, self.backoff = runtime, backoff

    async def ready(self, pool: str, limit: int, after: str) -> list[str]:
        """Executions with ready work of a pool, ordered by id, after one of them."""
        return await self.runtime.thread.ask(self.runtime.store.waiting, pool, limit, after)

    async def due(self, now: float) -> list[tuple[str, str]]:
        """Timers that are due, with their executions."""
        limit = TIMERS_PER_SCAN + len(self.backoff)  # paused executions must not hide the others
        return await self.runtime.thread.ask(self.runtime.store.due, now, limit)


class LoadedWork:
    """The executions of one process, for `noetl run`. Its worker serves all pools."""

    def __init__(self, executions: LoadedExecutions) -> None:
        self.executions = executions

    async def ready(self, pool: str, limit: int, after: str) -> list[str]:
        ready = (state.id for state in self.active() if state.ready and state.status == "running")
        return sorted(id for id in ready if id > after)[:limit]

    async def due(self, now: float) -> list[tuple[str, str]]:
        return [(state.id, timer) for state in self.active() for timer, at in state.timers.items() if at <= now]

    def active(self) -> Iterator[Execution]:
        for loaded in self.executions.values():
            if not loaded.state.over and loaded.state.status != "paused":
                yield loaded.state


WorkSource = StoredWork | LoadedWork


class ReadyQueue:
    """Executions with ready work by pool, in the order in which they are served. A cache only: the store has all of
    them. With `any_pool` there is one queue for all pools; `publish` tells other servers of a pool with ready work."""

    def __init__(self, *, any_pool: bool = False, publish: Callable[[str], None] | None = None) -> None:
        self.any_pool, self.publish = any_pool, publish
        self.default_pool = ANY_POOL if any_pool else DEFAULT_POOL
        self.by_pool: dict[str, dict[str, None]] = {}
        self.arrived: dict[str, asyncio.Event] = {}  # by pool, set when an execution is added
        self.idle_claims: Counter[str] = Counter()

    def pools_of(self, state: Execution) -> set[str]:
        if not state.ready or state.status != "running":
            return set()
        return {ANY_POOL} if self.any_pool else set(state.ready.values())

    def add(self, pool: str, execution: str) -> None:
        self.by_pool.setdefault(pool, {}).setdefault(execution)
        if (event := self.arrived.get(pool)) is not None:
            event.set()

    def on_events(self, state: Execution, events: list[e.Event]) -> None:
        for pool in self.pools_of(state) if state.ready else ():
            if len(self.by_pool.get(pool, ())) < MAX_QUEUED:
                self.add(pool, state.id)
            if self.publish is not None:
                self.publish(pool)


class Dispatcher:
    """Claims and reports of workers. `on_failure` is called with an execution that could not handle a claim."""

    def __init__(
        self,
        runtime: Runtime,
        queue: ReadyQueue,
        source: WorkSource,
        backoff: Backoff,
        on_failure: Callable[[str, Exception], None],
        hints: ReadyHints | None = None,
    ) -> None:
        self.runtime, self.queue, self.source, self.hints = runtime, queue, source, hints
        self.backoff, self.on_failure = backoff, on_failure
        self.clock = runtime.clock
        self.closing = False
        self.scan_cursor: dict[str, str] = {}  # by pool, the last execution of the latest scan
        self.last_scan: dict[str, float] = {}
        self.turn_started_at: dict[str, float] = {}
        self.answered_claims: Latest[tuple[str, str], None] = Latest(MAX_CLAIMS)  # by worker and id
        self.ended_leases: Latest[tuple[str, int], int] = Latest(MAX_ENDED_LEASES)  # with their reported facts

    async def claim(self, command: Claim, seconds: float = 0.0, *, is_repeated: bool = False) -> list[Work]:
        """Leases on ready work of a pool; waits for work if there is none. A claim that may be
        a repeated request (`is_repeated`) gets the leases again that the worker holds and has not reported under."""
        pool = command.pool or self.queue.default_pool
        give_up = self.clock.now() + seconds if seconds else 0.0
        is_repeated = bool(command.id) and (is_repeated or (command.worker, command.id) in self.answered_claims)
        while True:
            works = (await self._granted(command) if is_repeated else []) or await self._claim(command, pool)
            if works and command.id:
                self.answered_claims[command.worker, command.id] = None
            if works or not seconds or self.closing or (remaining := give_up - self.clock.now()) <= 0:
                return works
            await self._wait_for_work(pool, remaining)

    async def _granted(self, command: Claim) -> list[Work]:
        """The work of leases that the claim received before; the store has the live ones."""
        works: list[Work] = []
        for execution, fence, *_ in await self.runtime.thread.ask(self.runtime.store.leases_of, command.worker):
            with suppress(NotFound):
                works += (await self.runtime.committer.handle(execution, Regrant(fence, command.id))).works
        return works

    async def _wait_for_work(self, pool: str, seconds: float) -> None:
        arrived = self.queue.arrived.setdefault(pool, asyncio.Event())
        arrived.clear()
        if self.queue.by_pool.get(pool):
            return
        self.queue.idle_claims[pool] += 1
        if self.hints is not None:
            self.hints.subscribe(pool, self.on_hint)
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await arrived.wait()
        finally:
            self.queue.idle_claims[pool] -= 1

    async def _claim(self, command: Claim, pool: str) -> list[Work]:
        """Leases from each execution in turn until the slots are full, in one batch of decisions and commits."""
        queue = self.queue.by_pool.setdefault(pool, {})
        works: list[Work] = []
        if not queue and self.clock.now() - self.last_scan.get(pool, 0.0) > SCAN_SECONDS:
            await self.find_ready(pool)
        while queue and len(works) < command.slots:
            executions = list(islice(queue, command.slots - len(works)))
            share = replace(command, slots=max(1, (command.slots - len(works)) // len(executions)))
            for execution in executions:
                del queue[execution]
            results = await asyncio.gather(
                *(self.runtime.committer.handle(execution, share) for execution in executions), return_exceptions=True
            )
            failures = []
            for execution, result in zip(executions, results, strict=True):
                if isinstance(result, CommandResult):
                    self.backoff.succeed(execution)
                    if result.works:
                        self.turn_started_at[execution] = self.clock.now()
                    if pool in self.queue.pools_of(result.state):
                        queue.setdefault(execution)
                    works += result.works
                elif isinstance(result, Exception) and not isinstance(result, StoreError):
                    self.on_failure(execution, result)  # one failing execution must not delay the others
                else:
                    queue.setdefault(execution)
                    failures.append(result)
            if failures and not works:
                raise failures[0]
            if failures:
                break
        return works

    async def find_ready(self, pool: str, enough: int = 0) -> None:
        """Queue executions with ready work until `enough` are queued (or SCAN_LIMIT). Each scan continues where the
        last one ended, so every execution gets its turn, even if those before it never stop being ready."""
        queue, enough = self.queue.by_pool.setdefault(pool, {}), enough or SCAN_LIMIT
        self.last_scan[pool] = self.clock.now()
        page = min(SCAN_PAGE, enough)
        while True:
            executions = await self.source.ready(pool, page, self.scan_cursor.get(pool, ""))
            for execution in executions:
                if not self.backoff.is_paused(execution):
                    self.queue.add(pool, execution)
            self.scan_cursor[pool] = executions[-1] if len(executions) == page else ""
            if len(executions) < page or len(queue) >= enough:
                return

    async def on_hint(self, pool: str) -> bool:
        """Another server has stored ready work of a pool; returns whether a claim waits for it here."""
        waits = self.queue.idle_claims[pool] > 0
        if waits:
            with suppress(StoreError):  # the next scan finds it
                await self.find_ready(pool)
        return waits

    async def report(
        self, execution: str, report: Report, *, is_repeated: bool = False
    ) -> tuple[CommandResult, list[Work]]:
        """Handle a report, and grant the next work: of the same execution, unless its turn is over and others wait.
        `is_repeated`: this may be a repeated request, which was answered with work before."""
        claim = report.claim
        if claim is not None:
            turn_over = self.clock.now() - self.turn_started_at.get(execution, 0.0) > TURN_SECONDS
            queue = self.queue.by_pool.get(claim.pool or self.queue.default_pool, {})
            if is_repeated or (turn_over and len(queue) > (execution in queue)):
                report = replace(report, claim=None)
        result = await self.runtime.committer.handle(execution, report)
        if claim is None or result.works:
            if claim is not None and claim.id:
                self.answered_claims[claim.worker, claim.id] = None
            return result, result.works
        return result, await self.claim(claim, is_repeated=is_repeated)

    def verdict(self, execution: str, report: Report, result: CommandResult) -> Verdict:
        """Whether a report was accepted, has arrived before, or was rejected because its lease has ended."""
        lease, reported = (execution, report.fence), report.first + len(report.facts)
        is_held = report.fence in result.state.leases
        if any(event.source == "worker" or isinstance(event, e.StepPaused) for event in result.events):
            if not is_held:
                self.ended_leases[lease] = reported
            return "accepted"
        if is_held:
            return "duplicate" if report.facts else "accepted"
        return "duplicate" if reported <= self.ended_leases.get(lease, -1) else "rejected"

    def close(self) -> None:
        self.closing = True
        for arrived in self.queue.arrived.values():
            arrived.set()
