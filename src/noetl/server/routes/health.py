"""/livez, /readyz, /metrics, /version, and the description of it all."""

from __future__ import annotations

import asyncio
from time import time
from typing import Any

from starlette.responses import Response

from noetl.errors import NoetlError
from noetl.model.status import OPEN
from noetl.server import show
from noetl.server.api import Api
from noetl.server.call import JSON, Call, Routes, json_response
from noetl.server.health import PATIENCE_SECONDS, Standing
from noetl.server.metrics import Labels
from noetl.server.wire import Health, Readiness, Version
from noetl.store.ports import Store

routes = Routes()

HEARD_SECONDS = 60.0
PROMETHEUS = "text/plain; version=0.0.4; charset=utf-8"


@routes.add("GET", "/livez", prefix="", answers={200: Health})
async def live(call: Call) -> Response:
    """Whether the server answers at all."""
    return json_response({"status": "ok"})


@routes.add("GET", "/readyz", prefix="", answers={200: Readiness, 503: Readiness})
async def ready(call: Call) -> Response:
    """Whether the server can do its work, and how each thing that it depends on stands. It can without `nats`."""
    api = call.api
    standing = await api.health.look()
    checks = {name: one.word for name, one in standing.items()}
    if api.closing.is_set():
        checks["server"] = "it is about to stop"
    good = not api.closing.is_set() and all(one.is_up for one in standing.values() if one.required)
    found = {"status": _word(good), "checks": checks, "dependencies": [_dependency(*pair) for pair in standing.items()]}
    return json_response(found, 200 if good else 503)


def _dependency(name: str, one: Standing) -> dict[str, Any]:
    return {
        "name": name,
        "status": _word(one.is_up),
        "detail": one.word,
        "required": one.required,
        "since": show.stamp(one.since),
        "seconds": round(one.seconds, 3),
    }


def _word(good: bool) -> str:
    return "ok" if good else "down"


@routes.add("GET", "/metrics", prefix="", answers={200: "text/plain"})
async def metrics(call: Call) -> Response:
    """Numbers for Prometheus."""
    return Response(call.api.metrics.text(await _gauges(call.api)), media_type=PROMETHEUS)


async def _gauges(api: Api) -> dict[str, dict[Labels, float]]:
    standing = await api.health.look()
    now: dict[str, dict[Labels, float]] = {
        "noetl_build_info": {(api.settings.version,): 1},
        "noetl_executions_in_memory": {(): len(api.runtime.cells)},
        "noetl_dependency_up": {(name,): one.is_up for name, one in standing.items()},
    }
    if not standing["store"].is_up:
        return now  # the rest is still worth to be known
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            return now | await api.in_store(_stored, api.store)
    except (NoetlError, TimeoutError):
        return now


def _stored(store: Store) -> dict[str, dict[Labels, float]]:
    backlog, heard = store.backlog(), [one for one in store.workers() if one.beat > time() - HEARD_SECONDS]
    return {
        "noetl_executions_open": {(status,): backlog.executions.get(status, 0) for status in OPEN},
        "noetl_ready": {(): backlog.ready},
        "noetl_leases": {(): backlog.leases},
        "noetl_timers": {(): backlog.timers},
        "noetl_workers": {(): len(heard)},
        "noetl_worker_slots": {(): sum(one.slots for one in heard)},
        "noetl_worker_slots_busy": {(): sum(one.busy for one in heard)},
    }


@routes.add("GET", "/version", prefix="", answers={200: Version})
async def version(call: Call) -> Response:
    """What runs here."""
    return json_response({"name": "noetl", "version": call.api.settings.version, "api": "v1"})


@routes.add("GET", "/openapi.json", answers={200: JSON})
async def openapi(call: Call) -> Response:
    """This description."""
    return json_response(call.scope["app"].openapi())
