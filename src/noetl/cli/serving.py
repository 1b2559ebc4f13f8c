"""What the verbs `server` and `dev` share: the engine of a server, its API, and an orderly end."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import wraps
from typing import TYPE_CHECKING, Any, NamedTuple

import click

import noetl
from noetl.cli.local import opener, safe_of, server_of
from noetl.clock import SystemClock
from noetl.engine.state import Execution
from noetl.errors import Conflict, NotFound
from noetl.log import Log
from noetl.server.api import Api
from noetl.server.app import create_app
from noetl.server.auth import new_token
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
    from noetl.bus.connection import Bus

RETENTION_HELP = (
    "How long executions are kept after their end, such as 90d; off (or 0) keeps them for ever. Else NOETL_RETENTION, "
    "else 30d."
)
AGAIN_SECONDS = 1.0
"""How soon the engine goes on after the store has failed it."""


@contextmanager
def served(db: str | None) -> Iterator[Store]:
    """The database, for a server. A file has one server at a time; Conflict if there is another."""
    chosen = settings(db)
    store = open_store(chosen.db, synchronous=chosen.synchronous)
    owner: Owner | None = None
    try:
        if isinstance(store, SqliteStore):
            owner = Owner.acquire(store, server_of(store))
            if owner is None:
                raise Conflict(f"another server works on {chosen.db}: a file has one at a time, Postgres any number")
        yield store
    finally:
        if owner is not None:
            owner.release()
        store.close()


def retention_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """`--retention`; the verb gets seconds, or None to keep all."""

    @click.option("--retention", "said", metavar="DURATION", help=RETENTION_HELP)
    @wraps(function)
    def verb(*args: Any, said: str | None, **kwargs: Any) -> Any:
        return function(*args, retention=retention(said), **kwargs)

    return verb


class Serving(NamedTuple):
    """How a server is to serve."""

    hosts: tuple[str, ...] = ()
    retention: float | None = None
    """For how many seconds after their end executions are kept; None: for ever."""
    log: Log = Log()
    nats: NatsSettings | None = None
    traces: str | None = None
    """The address that gets spans over OTLP/HTTP."""
    proxies: tuple[str, ...] = ()
    """Proxies whose forwarded headers are trusted."""


class Running(NamedTuple):
    """A server at work."""

    service: Service
    ended: asyncio.Event
    """Set it, and the server ends."""


@asynccontextmanager
async def running(store: Store, found: socket.socket, how: Serving) -> AsyncIterator[Running]:
    """A server that answers at a socket while the block lasts."""

    def on_error(message: str, execution: str | None) -> None:
        how.log.write("error", message, execution_id=execution)

    service = Service(store, SystemClock(), _no_children, open_credential=opener(store), on_error=on_error)
    bus = _bus(how.nats, service, how.log) if how.nats is not None else None
    options = ServerSettings(
        hosts=how.hosts,
        version=noetl.__version__,
        safe=safe_of(store),
        log=how.log,
        bus=bus,
        traces=how.traces or "",
    )
    app = create_app(service, options)
    api: Api = app.api
    ended = asyncio.Event()
    background = [asyncio.create_task(_kept_up(work, how.log)) for work in (service.run, api.scheduler.run)]
    background.append(asyncio.create_task(api.health.run()))
    if bus is not None:
        background.append(asyncio.create_task(bus.run()))
    if how.retention is not None:
        pruner = Pruner(api.upkeep, service.clock, how.retention, api.log, api.metrics)
        background.append(asyncio.create_task(pruner.run()))
    serving = asyncio.create_task(listen(app, found, ended, proxies=how.proxies))
    serving.add_done_callback(lambda _: ended.set())
    try:
        yield Running(service, ended)
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


def _bus(nats: NatsSettings, service: Service, log: Log) -> Bus:
    """The connection to NATS, with hints between servers and the place for large values."""
    from noetl.bus.connection import Bus
    from noetl.bus.hints import Hints
    from noetl.bus.objects import Shelf

    bus = Bus(nats, log.write)
    hints = Hints(bus, service.hear)
    service.announce, service.listen = hints.ready, hints.want
    service.runtime.shelf = Shelf(bus)
    return bus


async def _no_children(parent: Execution, request: dict[str, Any]) -> str:
    """Until the API brings its catalog."""
    raise NotFound("playbooks are found in the catalog")


async def _kept_up(work: Callable[[], Awaitable[None]], log: Log) -> None:
    """Background work of the server. If the store fails, it is tried again until it is back."""
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
    """These tokens have served."""
    with suppress(Exception):  # at the end of a process nobody can be told
        for one in ids:
            store.access.revoke_token(one, SystemClock().now())
