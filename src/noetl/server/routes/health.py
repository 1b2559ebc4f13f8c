from __future__ import annotations

import asyncio
from contextlib import suppress
from time import time
from typing import Literal

import msgspec
from starlette.responses import Response

from noetl.errors import NoetlError
from noetl.model.status import OPEN
from noetl.server.endpoint import ApiCall, Routes, json_response
from noetl.server.etag import tagged
from noetl.server.health import TIMEOUT_SECONDS, Dependency
from noetl.server.parameters import JSON
from noetl.server.roles import PREFIX
from noetl.server.telemetry import Labels
from noetl.server.worker_views import worker_status
from noetl.store.store import Store

routes = Routes(prefix="")


class Liveness(msgspec.Struct, frozen=True):
    """The server responds."""

    status: Literal["ok"] = "ok"


@routes.add("GET", "/livez")
async def live(call: ApiCall) -> Liveness:
    """Whether the server responds."""
    return Liveness()


class Readiness(msgspec.Struct, frozen=True):
    """Whether the server can work; `checks` has `ok` or the error of each dependency."""

    status: Literal["ok", "down"]
    checks: dict[str, str]
    dependencies: list[Dependency]


@routes.add("GET", "/readyz", responses={200: Readiness, 503: Readiness})
async def ready(call: ApiCall) -> Response:
    """Whether the server can work, and the status of its dependencies. `nats` is not required."""
    api = call.api
    dependencies = await api.health.check()
    checks = {dependency.name: dependency.detail for dependency in dependencies}
    is_ready = all(dependency.status == "ok" for dependency in dependencies if dependency.required)
    if api.streams.closing.is_set():
        checks["server"], is_ready = "shutting down", False
    return json_response(Readiness("ok" if is_ready else "down", checks, dependencies), 200 if is_ready else 503)


@routes.add("GET", "/metrics", responses={200: "text/plain"})
async def metrics(call: ApiCall) -> Response:
    """Metrics for Prometheus."""
    api, dependencies = call.api, await call.api.health.check()
    gauges: dict[str, dict[Labels, float]] = {
        "noetl_build_info": {(api.settings.version,): 1},
        "noetl_executions_in_memory": {(): len(api.host.runtime.executions)},
        "noetl_event_streams": {(): sum(followed.streams for followed in api.streams.followed.values())},
        "noetl_dependency_up": {(dependency.name,): dependency.status == "ok" for dependency in dependencies},
    }
    if gauges["noetl_dependency_up"]["store",]:
        with suppress(NoetlError, TimeoutError):
            async with asyncio.timeout(TIMEOUT_SECONDS):
                gauges |= await call.in_store(_stored, api.store)
    return Response(api.telemetry.metrics.text(gauges), media_type="text/plain; version=0.0.4; charset=utf-8")


def _stored(store: Store) -> dict[str, dict[Labels, float]]:
    backlog, now = store.backlog(), time()
    workers: dict[Labels, float] = dict.fromkeys([("active",), ("draining",), ("stopping",)], 0)
    slots, busy = dict(workers), dict(workers)
    for worker in store.workers():
        if (status := worker_status(worker, now)) != "gone":
            workers[status,] += 1
            slots[status,] += worker.slots
            busy[status,] += worker.busy
    return {
        "noetl_executions_open": {(status,): backlog.executions.get(status, 0) for status in OPEN},
        "noetl_ready": {(): backlog.ready},
        "noetl_leases": {(): backlog.leases},
        "noetl_timers": {(): backlog.timers},
        "noetl_workers": workers,
        "noetl_worker_slots": slots,
        "noetl_worker_slots_busy": busy,
    }


class Version(msgspec.Struct, frozen=True):
    """The version of the server and of its API."""

    name: str
    version: str
    api: str


@routes.add("GET", "/version")
async def version(call: ApiCall) -> Version:
    """The version of the server."""
    return Version("noetl", call.api.settings.version, "v1")


@routes.add("GET", f"{PREFIX}/openapi.json", responses={200: JSON, 304: None})
async def openapi(call: ApiCall) -> Response:
    """This document."""
    return tagged(call.headers, call.app.openapi)
