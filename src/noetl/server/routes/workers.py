"""/workers and /server: list, drain and stop workers, show and stop a server."""

from __future__ import annotations

from typing import Literal

import msgspec
from starlette.responses import Response

from noetl.model.status import OPEN
from noetl.server.endpoint import ApiCall, Routes
from noetl.server.etag import tagged
from noetl.server.parameters import ItemList, Nothing, RequestBody
from noetl.server.worker_views import PoolView, WorkerView, direct_workers, pool_views, worker_view
from noetl.store.store import Store, WorkerDirective
from noetl.timestamps import rfc3339

routes = Routes()


class WorkerPage(ItemList[WorkerView], frozen=True):
    pass


class WorkersView(ItemList[WorkerView], frozen=True):
    """The workers, and the pools with connected workers or queued step runs."""

    pools: list[PoolView]


@routes.add("GET", "/workers", responses={200: WorkersView, 304: None}, operation="workers_workers")
async def workers(call: ApiCall) -> Response:
    """The workers at their last heartbeats, and the pools with their workers and queued work."""
    now = call.api.clock.now()

    def read(store: Store) -> WorkersView:
        return WorkersView([worker_view(session, now) for session in store.workers()], pool_views(store, now))

    return tagged(call.headers, await call.in_store(read, call.api.store))


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


async def _direct(call: ApiCall, body: WorkerSelection, directive: WorkerDirective) -> WorkerPage:
    api = call.api
    views = await call.in_store(direct_workers, api.store, directive, body.worker, body.pool, api.clock.now())
    names = ", ".join(view.worker for view in views)
    api.telemetry.log.write("info", f"{directive} requested by {call.caller.actor}: {names}")
    return WorkerPage(views)


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
        executions: dict[str, int] = {status: backlog.executions.get(status, 0) for status in OPEN}
        version, started = api.settings.version, rfc3339(api.started)
        return ServerView(version, started, pool_views(store, now), executions, backlog.ready, backlog.leases)

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
