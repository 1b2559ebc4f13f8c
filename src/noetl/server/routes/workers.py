"""/workers and /server: list, drain and stop workers, show and stop a server."""

from __future__ import annotations

from typing import Literal

import msgspec
from msgspec.structs import replace

from noetl.model.status import OPEN
from noetl.server.endpoint import ApiCall, Routes
from noetl.server.parameters import ItemList, Nothing, RequestBody
from noetl.server.worker_views import WorkerView, direct_workers, worker_status, worker_view
from noetl.store.store import Directive, Store, WorkerSession
from noetl.timestamps import rfc3339

routes = Routes()


class WorkerPage(ItemList[WorkerView], frozen=True):
    pass


@routes.add("GET", "/workers", operation="workers_workers")
async def workers(call: ApiCall) -> WorkerPage:
    """The workers at their last heartbeats."""
    sessions, now = await call.in_store(call.api.store.workers), call.api.clock.now()
    return WorkerPage([worker_view(session, now) for session in sessions])


class WorkerSelection(RequestBody, frozen=True):
    """One worker, by its name, or all workers of a pool."""

    worker: str | None = None
    pool: str | None = None


@routes.add("POST", "/workers/drain", status=202)
async def drain(call: ApiCall, body: WorkerSelection) -> WorkerPage:
    """Let workers finish their step runs and claim no new ones. They are notified with their next heartbeat."""
    return await _direct(call, body, "drain")


@routes.add("POST", "/workers/stop", status=202)
async def stop_workers(call: ApiCall, body: WorkerSelection) -> WorkerPage:
    """Let workers finish running tasks, return the rest, and exit. They are notified with their next heartbeat."""
    return await _direct(call, body, "stop")


async def _direct(call: ApiCall, body: WorkerSelection, directive: Directive) -> WorkerPage:
    api = call.api
    views = await call.in_store(direct_workers, api.store, directive, body.worker, body.pool, api.clock.now())
    names = ", ".join(view.worker for view in views)
    api.telemetry.log.write("info", f"{directive} requested by {call.caller.actor}: {names}")
    return WorkerPage(views)


class PoolView(msgspec.Struct, frozen=True):
    """The connected workers of a pool: the active ones with their slots, and those that take no more work."""

    pool: str
    workers: int = 0  # active ones
    slots: int = 0
    busy: int = 0  # slots, those of draining workers included
    draining: int = 0  # workers that finish their work and take no more; they may be stopping

    def with_worker(self, session: WorkerSession, *, is_active: bool) -> PoolView:
        busy = self.busy + session.busy
        if is_active:
            return replace(self, workers=self.workers + 1, slots=self.slots + session.slots, busy=busy)
        return replace(self, draining=self.draining + 1, busy=busy)


class ServerView(msgspec.Struct, frozen=True):
    """A server, and the work of its database."""

    version: str
    started: str
    pools: list[PoolView]
    executions: dict[str, int]  # open ones, by status
    ready: int  # step runs that wait for a worker
    leases: int


@routes.add("GET", "/server", operation="server_status")
async def server_status(call: ApiCall) -> ServerView:
    """The version of the server, its connected workers by pool, and the open executions."""
    api, now = call.api, call.api.clock.now()

    def read(store: Store) -> ServerView:
        backlog = store.backlog()
        pools: dict[str, PoolView] = {}
        for session in store.workers():
            if (status := worker_status(session, now)) != "gone":
                pool = pools.get(session.pool, PoolView(session.pool))
                pools[session.pool] = pool.with_worker(session, is_active=status == "active")
        executions: dict[str, int] = {status: backlog.executions.get(status, 0) for status in OPEN}
        by_name = [pools[name] for name in sorted(pools)]
        version, started = api.settings.version, rfc3339(api.started)
        return ServerView(version, started, by_name, executions, backlog.ready, backlog.leases)

    return await call.in_store(read, api.store)


class Stopping(msgspec.Struct, frozen=True):
    """The server is shutting down."""

    status: Literal["stopping"] = "stopping"


@routes.add("POST", "/server/stop", optional=True, status=202, operation="server_stop")
async def stop_server(call: ApiCall, body: Nothing) -> Stopping:
    """Shut down this server gracefully: requests in progress are answered, and workers that it has started stop."""
    call.api.telemetry.log.write("info", f"stop requested by {call.caller.actor}")
    call.api.stop_requested.set()
    return Stopping()
