"""/livez, /readyz, /metrics, /version, and the description of it all."""

from __future__ import annotations

import asyncio
from time import time

from starlette.responses import Response

from noetl.errors import NoetlError
from noetl.server.api import Api
from noetl.server.call import JSON, Call, Routes, json_response
from noetl.server.wire import Health, Version

routes = Routes()

PATIENCE_SECONDS = 2.0
HEARD_SECONDS = 60.0
NOBODY = "00000000-0000-0000-0000-000000000000"
PROMETHEUS = "text/plain; version=0.0.4; charset=utf-8"


@routes.add("GET", "/livez", prefix="", answers={200: Health})
async def live(call: Call) -> Response:
    """Whether the server answers at all."""
    return json_response({"status": "ok"})


@routes.add("GET", "/readyz", prefix="", answers={200: Health, 503: Health})
async def ready(call: Call) -> Response:
    """Whether the server can do its work; `checks` says which part can't. It can without `nats`."""
    checks = {"store": await _store(call.api)}
    if call.api.closing.is_set():
        checks["server"] = "it is about to stop"
    good = all(word == "ok" for word in checks.values())
    if (bus := call.api.settings.bus) is not None:
        checks["nats"] = bus.status()  # without it everything works, if a little later
    return json_response({"status": "ok" if good else "down", "checks": checks}, 200 if good else 503)


async def _store(api: Api) -> str:
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            await api.in_store(api.store.seq, NOBODY)
    except TimeoutError:
        return f"no answer for {PATIENCE_SECONDS:g} s"
    except NoetlError as error:
        return str(error)
    return "ok"


@routes.add("GET", "/metrics", prefix="", answers={200: "text/plain"})
async def metrics(call: Call) -> Response:
    """Numbers for Prometheus."""
    return Response(call.api.metrics.text(await _gauges(call.api)), media_type=PROMETHEUS)


async def _gauges(api: Api) -> dict[str, float]:
    cells = api.runtime.cells.values()
    now: dict[str, float] = {
        "executions_in_memory": len(cells),
        "leases": sum(len(cell.state.leases) for cell in cells),
    }
    try:
        heard = [one for one in await api.in_store(api.store.workers) if one.beat > time() - HEARD_SECONDS]
    except NoetlError:  # the rest is still worth to be known
        return now
    return now | {
        "workers": len(heard),
        "worker_slots": sum(one.slots for one in heard),
        "worker_slots_busy": sum(one.busy for one in heard),
    }


@routes.add("GET", "/version", prefix="", answers={200: Version})
async def version(call: Call) -> Response:
    """What runs here."""
    return json_response({"name": "noetl", "version": call.api.settings.version, "api": "v1"})


@routes.add("GET", "/openapi.json", answers={200: JSON})
async def openapi(call: Call) -> Response:
    """This description."""
    return json_response(call.scope["app"].openapi())
