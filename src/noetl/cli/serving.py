"""What the verbs `server` and `dev` share: the engine of a server, its API, and their shutdown."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import wraps
from typing import TYPE_CHECKING, Any, NamedTuple

import click

import noetl
from noetl.access.tokens import new_token
from noetl.client.database import opener, safe_of, server_of
from noetl.clock import SystemClock
from noetl.errors import Conflict
from noetl.host.background import described, keep_running
from noetl.host.server_host import ServerHost
from noetl.log import Log
from noetl.server.api import Api, ServerSettings
from noetl.server.app import create_app
from noetl.server.listen import listen
from noetl.server.maintenance import Pruner
from noetl.settings import NatsSettings, retention, settings
from noetl.store.access import Role
from noetl.store.open import open_store
from noetl.store.sqlite import Owner, SqliteStore
from noetl.store.store import Store

if TYPE_CHECKING:
    from noetl.nats.connection import NatsConnection

RETENTION_HELP = (
    "Time after which ended runs are removed, such as 90d; off (or 0) removes none. Default NOETL_RETENTION, then 30d."
)


@contextmanager
def served(db: str | None) -> Iterator[Store]:
    """The database of a server; Conflict if a file has another server already."""
    chosen = settings(db)
    store = open_store(chosen.db, synchronous=chosen.synchronous)
    owner: Owner | None = None
    try:
        if isinstance(store, SqliteStore):
            owner = Owner.acquire(store, server_of(store))
            if owner is None:
                raise Conflict(f"another server uses {chosen.db}: a file can have one, Postgres any number")
        yield store
    finally:
        if owner is not None:
            owner.release()
        store.close()


def retention_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """`--retention`; the verb gets seconds, or None to keep all runs."""

    @click.option("--retention", "text", metavar="DURATION", help=RETENTION_HELP)
    @wraps(function)
    def verb(*args: Any, text: str | None, **kwargs: Any) -> Any:
        return function(*args, retention=retention(text), **kwargs)

    return verb


class HostOptions(NamedTuple):
    """Settings of a server."""

    hosts: tuple[str, ...] = ()
    retention: float | None = None
    """Seconds after which ended executions are removed; None: never."""
    log: Log = Log()
    nats: NatsSettings | None = None
    traces: str | None = None
    """URL that receives spans over OTLP/HTTP."""
    proxies: tuple[str, ...] = ()
    """Proxies whose forwarded headers are trusted."""


class RunningServer(NamedTuple):
    """A running server."""

    engine: ServerHost
    ended: asyncio.Event
    """Set it to stop the server."""


@asynccontextmanager
async def running(store: Store, listener: socket.socket, options: HostOptions) -> AsyncIterator[RunningServer]:
    """A server on a socket, until the block ends."""
    bus = _connection(options.nats, options.log) if options.nats is not None else None
    server_settings = ServerSettings(
        hosts=options.hosts,
        version=noetl.__version__,
        open_credential=opener(store),
        safe=safe_of(store),
        log=options.log,
        bus=bus,
        traces=options.traces or "",
    )
    app = create_app(store, SystemClock(), server_settings)
    api: Api = app.api
    ended = asyncio.Event()
    loops = [api.scheduler.run, api.health.run]
    if options.retention is not None:
        loops.append(Pruner(api.maintenance, api.clock, options.retention, api.telemetry).run)
    background = [asyncio.create_task(keep_running(0.0, loop, api.host.on_error)) for loop in loops]
    background.append(asyncio.create_task(api.host.run()))
    if bus is not None:
        background.append(asyncio.create_task(bus.run()))

    async def serve() -> None:
        try:
            await listen(app, listener, ended, proxies=options.proxies)
        except Exception as error:
            api.host.on_error(f"the HTTP server failed, shutting down: {described(error)}", None)
        finally:
            ended.set()

    serving = asyncio.create_task(serve())
    try:
        yield RunningServer(api.host, ended)
    finally:
        api.stop()
        ended.set()
        await serving
        for task in background:
            task.cancel()
        await asyncio.gather(*background, return_exceptions=True)
        if api.telemetry.traces is not None:
            await api.telemetry.traces.close()
        api.close()


def _connection(nats: NatsSettings, log: Log) -> NatsConnection:
    from noetl.nats.connection import NatsConnection

    return NatsConnection(nats, log.write)


def make_token(store: Store, role: Role, name: str, pool: str | None = None) -> tuple[str, str]:
    """A new token: its id and its secret."""
    secret, token = new_token(role, name, SystemClock().now(), pool=pool)
    store.access.add_token(token)
    return token.id, secret


def revoke(store: Store, ids: list[str]) -> None:
    """Revoke tokens when the process ends."""
    with suppress(Exception):  # they are only valid for a server that no longer runs
        for id in ids:
            store.access.revoke_token(id, SystemClock().now())
