"""Workers as the API and the command line show them, and directives of operators."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import msgspec
from msgspec.structs import replace

from noetl.engine.state import Execution
from noetl.errors import NotFound, UsageError
from noetl.server.record_views import RecordView
from noetl.store.store import Store, WorkerDirective, WorkerSession
from noetl.timestamps import rfc3339

ALIVE_SECONDS = 60.0  # a worker whose last heartbeat is older is not connected


WorkerStatus = Literal["active", "draining", "stopping", "gone"]
"""`active`: it takes work; `draining`, `stopping`: it is connected, finishes its work and takes no more; `gone`: it has
sent no heartbeat for a minute."""
STATUSES: dict[WorkerDirective, WorkerStatus] = {"": "active", "drain": "draining", "stop": "stopping"}


class WorkerView(RecordView, frozen=True):
    """A worker at its last heartbeat. Only an `active` one takes work. `gone`: it has sent none for a minute."""

    worker: str
    pool: str
    status: WorkerStatus
    slots: int
    busy: int
    host: str
    version: str
    started: str | None
    last_heard: str | None


def is_connected(session: WorkerSession, now: float) -> bool:
    return session.beat > now - ALIVE_SECONDS


def worker_status(session: WorkerSession, now: float) -> WorkerStatus:
    return STATUSES[session.directive] if is_connected(session, now) else "gone"


def missing_pools(state: Execution, sessions: Iterable[WorkerSession], now: float) -> list[str]:
    """The pools with ready work of an execution that have no active worker."""
    return sorted(set(state.ready.values()) - attended_pools(sessions, now))


def attended_pools(sessions: Iterable[WorkerSession], now: float) -> set[str]:
    """The pools that have an active worker."""
    return {session.pool for session in sessions if worker_status(session, now) == "active"}


def worker_view(session: WorkerSession, now: float) -> WorkerView:
    return WorkerView.of(session, status=worker_status(session, now), last_heard=rfc3339(session.beat))


class PoolView(msgspec.Struct, frozen=True):
    """The connected workers of a pool: the active ones with their slots, and those that take no more work; and the step
    runs that wait for a worker of it."""

    pool: str
    workers: int = 0  # active ones
    slots: int = 0
    busy: int = 0  # slots, those of draining workers included
    draining: int = 0  # workers that finish their work and take no more; they may be stopping
    queued: int = 0  # step runs
    oldest: str | None = None  # since when the first of them waits

    def with_worker(self, session: WorkerSession, *, is_active: bool) -> PoolView:
        busy = self.busy + session.busy
        if is_active:
            return replace(self, workers=self.workers + 1, slots=self.slots + session.slots, busy=busy)
        return replace(self, draining=self.draining + 1, busy=busy)


def pool_views(store: Store, now: float) -> list[PoolView]:
    """The pools that have connected workers or queued step runs, by name."""
    pools: dict[str, PoolView] = {}
    for session in store.workers():
        if (status := worker_status(session, now)) != "gone":
            pool = pools.get(session.pool, PoolView(session.pool))
            pools[session.pool] = pool.with_worker(session, is_active=status == "active")
    for queue in store.queues():
        pool = pools.get(queue.pool, PoolView(queue.pool))
        pools[queue.pool] = replace(pool, queued=queue.runs, oldest=rfc3339(queue.oldest))
    return [pools[name] for name in sorted(pools)]


def direct_workers(
    store: Store, directive: WorkerDirective, name: str | None, pool: str | None, now: float
) -> list[WorkerView]:
    """Send a directive to the connected workers of a name or of a pool; NotFound if there is none."""
    if (name is None) == (pool is None):
        raise UsageError("name a worker or a pool")
    connected = [session for session in store.workers() if is_connected(session, now)]
    if name is not None:  # the server has appended the id of its token
        selected = [session for session in connected if name in (session.worker, session.worker.rpartition("@")[0])]
    else:
        selected = [session for session in connected if session.pool == pool]
    if not selected:
        selection = f"worker {name!r}" if name is not None else f"worker of pool {pool!r}"
        raise NotFound(f"connected {selection} not found: `noetl workers list` lists all workers")
    for session in selected:
        store.direct_worker(session.worker, directive)
    names = {session.worker for session in selected}
    return [worker_view(session, now) for session in store.workers() if session.worker in names]
