"""The application: all endpoints behind the guard."""

from __future__ import annotations

from collections.abc import Iterator

from noetl.clock import Clock
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
from noetl.store.store import Store

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


def create_app(store: Store, clock: Clock, settings: ServerSettings | None = None) -> Guard:
    """The engine and the API of a server on a store, as an ASGI application. Call `api.stop()` before the server ends,
    and `api.close()` after that."""
    return Guard(Api(store, clock, settings or ServerSettings()), endpoints())


def endpoints() -> Iterator[Endpoint]:
    for module in MODULES:
        yield from module.routes.endpoints
