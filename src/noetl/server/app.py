"""The application: all endpoints behind the guard."""

from __future__ import annotations

from collections.abc import Iterator

from noetl.server.api import Api
from noetl.server.endpoint import Endpoint
from noetl.server.guard import Guard
from noetl.server.options import ServerSettings
from noetl.server.routes import (
    access,
    credentials,
    executions,
    health,
    history,
    hooks,
    maintenance,
    playbooks,
    schedules,
    sessions,
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
    maintenance,
    health,
)


def create_app(service: Service, settings: ServerSettings | None = None) -> Guard:
    """The server's API on a service, as an ASGI application. Call `api.stop()` before the server ends.

    From now on the service finds the playbooks of children in the catalog.
    """
    return Guard(Api(service, settings or ServerSettings()), endpoints())


def endpoints() -> Iterator[Endpoint]:
    for module in MODULES:
        yield from module.routes.endpoints
