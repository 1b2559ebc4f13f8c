"""What the verbs `server` and `dev` share: the engine of a server, its API, and their shutdown."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import wraps
from typing import TYPE_CHECKING, Any, NamedTuple

import click

import noetl
from noetl.access.tokens import new_token
from noetl.client.database import opener, safe_of, server_of
from noetl.clock import SystemClock
from noetl.engine.state import Execution
from noetl.errors import Conflict, NotFound
from noetl.log import Log
from noetl.server.api import Api
from noetl.server.app import create_app
from noetl.server.listen import listen
from noetl.server.options import ServerSettings
from noetl.server.service import Service
from noetl.server.upkeep import Pruner
from noetl.settings import NatsSettings, retention, settings
from noetl.store.access import Role
from noetl.store.open import open_store
from noetl.store.ports import Store
from noetl.store.sqlite import Owner, SqliteStore

if TYPE_CHECKING:
    from noetl.nats.connection import NatsConnection

RETENTION_HELP = (
    "Time after which ended runs are removed, such as 90d; off (or 0) removes none. Default NOETL_RETENTION, then 30d."
)
AGAIN_SECONDS = 1.0
"""Time before a background task restarts after an error."""


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


class Host(NamedTuple):
    """A running server."""

    service: Service
    ended: asyncio.Event
    """Set it to stop the server."""


@asynccontextmanager
async def running(store: Store, listener: socket.socket, options: HostOptions) -> AsyncIterator[Host]:
    """A server on a socket, until the block ends."""

    def on_error(message: str, execution: str | None) -> None:
        options.log.write("error", message, execution_id=execution)

    service = Service(store, SystemClock(), _no_children, open_credential=opener(store), on_error=on_error)
    bus = _bus(options.nats, service, options.log) if options.nats is not None else None
    server_settings = ServerSettings(
        hosts=options.hosts,
        version=noetl.__version__,
        safe=safe_of(store),
        log=options.log,
        bus=bus,
        traces=options.traces or "",
    )
    app = create_app(service, server_settings)
    api: Api = app.api
    ended = asyncio.Event()
    background = [asyncio.create_task(_kept_up(work, options.log)) for work in (service.run, api.scheduler.run)]
    background.append(asyncio.create_task(api.health.run()))
    if bus is not None:
        background.append(asyncio.create_task(bus.run()))
    if options.retention is not None:
        pruner = Pruner(api.upkeep, service.clock, options.retention, api.log, api.metrics)
        background.append(asyncio.create_task(pruner.run()))
    serving = asyncio.create_task(listen(app, listener, ended, proxies=options.proxies))
    serving.add_done_callback(lambda _: ended.set())
    try:
        yield Host(service, ended)
    finally:
        api.stop()
        ended.set()
        await asyncio.gather(serving, return_exceptions=True)
        for task in background:
            task.cancel()
        await asyncio.gather(*background, return_exceptions=True)
        if api.traces is not None:
            await api.traces.close()
        api.close()
        service.runtime.thread.shutdown()


def _bus(nats: NatsSettings, service: Service, log: Log) -> NatsConnection:
    """The connection to NATS, with hints between servers and the place for large values."""
    from noetl.nats.connection import NatsConnection
    from noetl.nats.hints import ReadyHints
    from noetl.nats.objects import ObjectBuckets

    bus = NatsConnection(nats, log.write)
    hints = ReadyHints(bus, service.hear)
    service.announce, service.listen = hints.publish, hints.subscribe
    service.runtime.shelf = ObjectBuckets(bus)
    return bus


async def _no_children(parent: Execution, request: dict[str, Any]) -> str:
    """Replaced by the API, which has the catalog."""
    raise NotFound("playbooks are found in the catalog")


async def _kept_up(work: Callable[[], Awaitable[None]], log: Log) -> None:
    """Run a background task, and restart it after an error."""
    while True:
        try:
            await work()
        except* Exception as failed:
            for error in failed.exceptions:
                message = f"background task failed, restarting in {AGAIN_SECONDS:g} s"
                log.write("error", message, error=f"{type(error).__name__}: {error}")
        await asyncio.sleep(AGAIN_SECONDS)


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
