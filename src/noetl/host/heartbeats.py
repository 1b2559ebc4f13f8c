"""Heartbeats of workers: which of their leases are void, and which executions are paused."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from noetl.clock import uptime
from noetl.engine.commands import Lost
from noetl.engine.leases import LEASE_SECONDS
from noetl.errors import Conflict
from noetl.host.background import BackgroundCommands, OnError, described
from noetl.runtime.runtime import Runtime
from noetl.store.store import WorkerDirective, WorkerSession
from noetl.worker.terms import GRANT_SECONDS, HEARTBEAT_SECONDS

if TYPE_CHECKING:
    from noetl.host.local_link import LocalLink
    from noetl.worker.worker import Worker

LEASES_PER_SCAN = 100
STALL_SECONDS = 5.0  # A longer pause between two observations is a stall
CHECK_SECONDS = 0.5  # interval at which a local worker stops work with a void lease and stores output


class StallDetector:
    """Measures how long the server has run without a stall, from regular calls of `observe`.

    During a stall (stopped, suspended, out of CPU, or without its database) a server records no heartbeats, so missing
    ones are not the fault of workers: afterwards they get the full lease duration to send one. A jump of the store's
    clock counts as a stall, because leases expire by that clock.
    """

    def __init__(self, now: Callable[[], float] = uptime) -> None:
        self.now = now
        self.last_observed = self.stall_free_since = now()  # the time before the start counts as a stall
        self.store_ahead: float | None = None  # the clock of the store less `now`

    def observe(self, store_time: float) -> None:
        now = self.now()
        ahead = store_time - now
        has_jumped = self.store_ahead is not None and abs(ahead - self.store_ahead) > STALL_SECONDS
        if has_jumped or now - self.last_observed > STALL_SECONDS:
            self.stall_free_since = now
        self.last_observed, self.store_ahead = now, ahead

    def stall_free_seconds(self) -> float:
        """Seconds for which this server has been able to record heartbeats; 0 right after a stall."""
        now = self.now()
        return 0.0 if now - self.last_observed > STALL_SECONDS else now - self.stall_free_since


class NameTaken(Conflict):
    """Another live process has the name of this worker; `holder` is the time at which it started."""

    def __init__(self, worker: str, holder: float) -> None:
        name = worker.rpartition("@")[0] or worker
        super().__init__(f"another process runs as worker {name!r}: stop it, or start this one with another --name")
        self.holder = holder


class HeartbeatResult(NamedTuple):
    revoked: list[tuple[str, int]]
    paused: list[str]
    directive: WorkerDirective


class Heartbeats:
    def __init__(self, runtime: Runtime, commands: BackgroundCommands, stall: StallDetector) -> None:
        self.runtime, self.commands, self.stall = runtime, commands, stall

    async def record(self, session: WorkerSession, replaces: float | None = None) -> HeartbeatResult:
        """Record a heartbeat; return revoked leases, paused executions and the operator's directive. A duplicate, or
        one that a later one has overtaken, revokes no lease, because it does not name newer leases.

        NameTaken if another live process has the same worker name, unless this one `replaces` it: the two would take
        each other's leases. Start times do not order the two, because the clock of a worker may be set back."""
        store, ask = self.runtime.store, self.runtime.thread.ask
        previous = await ask(store.worker_session, session.worker)
        restarted = previous is not None and previous.started != session.started
        if (
            previous is not None
            and previous.started not in (session.started, replaces)
            and await ask(store.clock) - previous.beat < LEASE_SECONDS
        ):
            raise NameTaken(session.worker, previous.started)
        is_latest = await ask(store.record_heartbeat, session)
        leases = await ask(store.leases_of, session.worker)
        if is_latest and (restarted or self.stall.stall_free_seconds() > GRANT_SECONDS):
            min_age = 0.0 if restarted else GRANT_SECONDS
            await self.commands.send(  # leases that the worker does not name
                (lease.execution, Lost(lease.fence))
                for lease in leases
                if lease.fence not in session.leases.get(lease.execution, ()) and lease.age > min_age
            )
        valid = {(lease.execution, lease.fence) for lease in leases}
        reported = [(execution, fence) for execution, fences in session.leases.items() for fence in fences]
        paused = {lease.execution for lease in leases if lease.paused}
        revoked = [lease for lease in reported if lease not in valid]
        directive = previous.directive if previous is not None and not restarted else ""
        return HeartbeatResult(revoked, [id for id in session.leases if id in paused], directive)

    async def expire_once(self) -> None:
        """Expire leases of workers that send no heartbeats."""
        attentive = self.stall.stall_free_seconds()
        limit = LEASES_PER_SCAN + len(self.commands.backoff)  # paused executions must not hide the others
        lost = await self.runtime.thread.ask(self.runtime.store.expired_leases, None, limit, attentive)
        if lost:
            self.stall.observe(await self.runtime.thread.ask(self.runtime.store.clock))
        if self.stall.stall_free_seconds() >= attentive:  # else the stall, or the jump, was before the query
            await self.commands.send((execution, Lost(fence)) for execution, fence in lost)


async def send_heartbeats(
    worker: Worker,
    link: LocalLink,
    session: WorkerSession,
    heartbeats: Heartbeats,
    on_error: OnError,
    on_directive: Callable[[WorkerDirective], None],
) -> None:
    """The heartbeat of a worker in the process of its server, in the event loop: while that is busy, both are."""
    due, loop = 0.0, asyncio.get_running_loop()
    replaces: float | None = 0.0
    while True:
        try:
            if loop.time() >= due:
                leases: dict[str, list[int]] = {}
                for execution, fence in {*worker.leases, *link.reporting}:
                    leases.setdefault(execution, []).append(fence)
                try:
                    answer = await heartbeats.record(replace(session, leases=leases), replaces)
                except NameTaken as error:
                    if replaces is None:
                        raise
                    replaces = error.holder
                    continue
                replaces = None
                on_directive(answer.directive)
                for execution, fence in answer.revoked:
                    worker.revoke(execution, fence)
                due = loop.time() + HEARTBEAT_SECONDS
            await link.store_output()
        except Exception as error:  # any error: the next heartbeat may succeed
            due = 0.0
            on_error(f"heartbeat of the embedded worker failed: {described(error)}", None)
        await link.revoke_void(worker)
        await asyncio.sleep(CHECK_SECONDS)
