"""Heartbeats of workers: which of their leases are void, and which executions are paused."""

from __future__ import annotations

from collections.abc import Iterable

from noetl.engine.commands import Lost
from noetl.engine.leases import LEASE_SECONDS
from noetl.errors import Conflict
from noetl.host.background import BackgroundCommands
from noetl.host.stall import StallDetector
from noetl.runtime.runtime import Runtime
from noetl.store.store import HeldLease, WorkerSession
from noetl.worker.terms import GRANT_SECONDS

MAX_SESSIONS = 10_000


class Heartbeats:
    def __init__(self, runtime: Runtime, commands: BackgroundCommands, stall: StallDetector) -> None:
        self.runtime, self.commands, self.stall = runtime, commands, stall
        self.latest: dict[str, tuple[float, int]] = {}
        """By worker, the start time of its process and the number of its latest heartbeat."""

    async def record(self, session: WorkerSession, number: int = 0) -> tuple[list[tuple[str, int]], list[str]]:
        """Record a heartbeat; return revoked leases and paused executions.

        `number` counts the heartbeats of a process. A heartbeat that arrives after a later one revokes nothing, since
        it does not name newer leases. Conflict if a process that was started later has the same worker name.
        """
        store, ask = self.runtime.store, self.runtime.thread.ask
        previous = await ask(store.worker_session, session.worker)
        if previous is not None and self._is_superseded(session, previous):
            name = session.worker.rpartition("@")[0] or session.worker
            raise Conflict(f"another process runs as worker {name!r}: stop it, or start this one with another --name")
        restarted = previous is not None and previous.started != session.started
        overtaken = self._is_overtaken(session, number)
        await ask(store.record_heartbeat, session)
        held = await ask(store.leases_of, session.worker)
        if restarted:
            await self._revoke(session, held, 0.0)
        elif not overtaken and self.stall.attentive_seconds() > GRANT_SECONDS:
            await self._revoke(session, held, GRANT_SECONDS)
        valid = {(lease.execution, lease.fence) for lease in held}
        named = [(execution, fence) for execution, fences in session.leases.items() for fence in fences]
        paused = {lease.execution for lease in held if lease.paused}
        return [lease for lease in named if lease not in valid], [id for id in session.leases if id in paused]

    def _is_superseded(self, session: WorkerSession, previous: WorkerSession) -> bool:
        """Whether a process that was started later has the worker's name and is alive. Otherwise the two would take
        each other's leases at every heartbeat."""
        return previous.started > session.started and self.runtime.clock.now() - previous.beat < LEASE_SECONDS

    def _is_overtaken(self, session: WorkerSession, number: int) -> bool:
        """Whether a later heartbeat of the process has arrived before this one."""
        started, latest = self.latest.pop(session.worker, (session.started, 0))
        if started != session.started:
            latest = 0
        self.latest[session.worker] = (session.started, max(latest, number))
        while len(self.latest) > MAX_SESSIONS:
            del self.latest[next(iter(self.latest))]
        return number < latest

    async def _revoke(self, session: WorkerSession, held: Iterable[HeldLease], seconds: float) -> None:
        """Expire leases that the worker does not name, if they were granted more than `seconds` ago."""
        long_ago = self.runtime.clock.now() - seconds
        await self.commands.send(
            (lease.execution, Lost(lease.fence))
            for lease in held
            if lease.fence not in session.leases.get(lease.execution, ()) and lease.since < long_ago
        )
