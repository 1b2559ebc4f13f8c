"""The application: endpoints behind the gate."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from noetl.server.api import Api
from noetl.server.call import Call, Endpoint
from noetl.server.gate import KEY, Gate
from noetl.server.openapi import describe
from noetl.server.options import ServerSettings
from noetl.server.roles import ALLOWED
from noetl.server.routes import (
    access,
    credentials,
    executions,
    health,
    history,
    hooks,
    playbooks,
    schedules,
    sessions,
    upkeep,
    worker,
    workers,
)
from noetl.server.service import Service

MODULES = (
    executions,
    history,
    worker,
    playbooks,
    schedules,
    hooks,
    workers,
    credentials,
    access,
    sessions,
    upkeep,
    health,
)


def create_app(service: Service, settings: ServerSettings | None = None) -> FastAPI:
    """The server's API on a service. `app.state.api.stop()` sends away who waits, before the server ends.

    From now on the service finds the playbooks of children in the catalog.
    """
    settings = settings or ServerSettings()
    api = Api(service, settings)
    found = list(endpoints())

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> Any:
        yield
        api.close()

    app = FastAPI(title="noetl", openapi_url=None, docs_url=None, redoc_url=None, lifespan=lifespan)
    app.router.redirect_slashes = False
    app.state.api = api
    app.router.routes = [
        Route(_path(endpoint), _handler(endpoint), methods=[endpoint.method], include_in_schema=False)
        for endpoint in found
    ]
    app.add_middleware(Gate, api=api, endpoints=found)
    document: dict[str, Any] = {}

    def openapi() -> dict[str, Any]:
        if not document:
            document.update(describe(found, settings.version))
        return document

    app.openapi = openapi  # type: ignore[method-assign]
    return app


def endpoints() -> Iterator[Endpoint]:
    """All of them, in the order of the table of roles, which begins with those that are asked most."""
    declared = {(one.method, one.path): one for module in MODULES for one in module.routes.endpoints}
    order = list(ALLOWED)
    yield from sorted(declared.values(), key=lambda one: order.index((one.method, one.path)))


def _path(endpoint: Endpoint) -> str:
    return endpoint.path.replace("{path}", "{path:path}")


def _handler(endpoint: Endpoint) -> Callable[[Request], Awaitable[Response]]:
    async def handle(request: Request) -> Response:
        call: Call = request.scope[KEY]
        assert call.endpoint is endpoint, "the gate has let in another request"
        return await endpoint.function(call)

    return handle
