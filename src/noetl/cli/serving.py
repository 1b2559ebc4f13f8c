"""What the verbs `server` and `dev` share: the engine of a server, its API, and an orderly end."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import TYPE_CHECKING, Any, NamedTuple

import click

import noetl
from noetl.cli.local import opener, safe_of, server_of
from noetl.clock import SystemClock
from noetl.engine.state import Execution
from noetl.errors import Conflict, NotFound
from noetl.server.app import create_app
from noetl.server.auth import new_token
from noetl.server.listen import listen
from noetl.server.log import Log
from noetl.server.options import ServerSettings
from noetl.server.service import Service
from noetl.settings import NatsSettings, settings
from noetl.store.access import Role
from noetl.store.open import open_store
from noetl.store.ports import Store
from noetl.store.sqlite import Owner, SqliteStore

if TYPE_CHECKING:
    from noetl.bus.connection import Bus

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


class Running(NamedTuple):
    """A server at work."""

    service: Service
    ended: asyncio.Event
    """Set it, and the server ends."""


@asynccontextmanager
async def running(
    store: Store, found: socket.socket, hosts: tuple[str, ...] = (), nats: NatsSettings | None = None
) -> AsyncIterator[Running]:
    """A server that answers at a socket while the block lasts."""
    service = Service(store, SystemClock(), _no_children, open_credential=opener(store))
    bus = _bus(nats, service) if nats is not None else None
    options = ServerSettings(hosts=hosts, version=noetl.__version__, safe=safe_of(store), bus=bus)
    app = create_app(service, options)
    ended = asyncio.Event()
    background = [asyncio.create_task(_engine(service))]
    if bus is not None:
        background.append(asyncio.create_task(bus.run()))
    serving = asyncio.create_task(listen(app, found, ended))
    serving.add_done_callback(lambda _: ended.set())
    try:
        yield Running(service, ended)
    finally:
        app.state.api.stop()
        ended.set()
        await asyncio.gather(serving, return_exceptions=True)
        for task in background:
            task.cancel()
        await asyncio.gather(*background, return_exceptions=True)
        app.state.api.close()
        service.runtime.thread.shutdown()


def _bus(nats: NatsSettings, service: Service) -> Bus:
    """The connection to NATS, with the hints that servers give each other over it."""
    from noetl.bus.connection import Bus
    from noetl.bus.hints import Hints

    bus = Bus(nats, Log().write)
    hints = Hints(bus, service.hear)
    service.announce, service.listen = hints.ready, hints.want
    return bus


def _no_children(parent: Execution, request: dict[str, Any]) -> str:
    """Until the API brings its catalog."""
    raise NotFound("playbooks are found in the catalog")


async def _engine(service: Service) -> None:
    """The background work of the service. If the store fails, it is tried again until it is back."""
    while True:
        try:
            await service.run()
        except* Exception as failed:
            for error in failed.exceptions:
                click.echo(f"noetl: the engine goes on after an error: {type(error).__name__}: {error}", err=True)
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
