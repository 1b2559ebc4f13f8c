"""The connection string of a call, and the connections that calls share, for each event loop and connection string.

A connection returns to the pool clean or not at all: its transaction is rolled back, and settings, role, temporary
tables and locks are discarded, so that no call sees the session state of another.
"""

from __future__ import annotations

import asyncio
import select
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from types import SimpleNamespace
from typing import Any
from weakref import WeakKeyDictionary

import psycopg
from psycopg import AsyncConnection
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.pq import TransactionStatus

from noetl.addresses import anything_is_forbidden, check_address, checked_addresses
from noetl.model.outcome import Failure
from noetl.printable import RAW_PASSWORD, has_raw_password
from noetl.tools.base import Context
from noetl.tools.postgres import Inputs
from noetl.tools.postgres_client.session import connect_failure
from noetl.tools.postgres_client.values import ADAPTERS

SIZE = 16
IDLE_SECONDS = 60
CLEAN_SECONDS = 5
DEFAULT_PORT = "5432"
NAMES = {"database": "dbname", "username": "user"}
DEFAULTS = {"connect_timeout": 10, "application_name": "noetl", "password": "", "passfile": ""}
"""Empty passwords keep libpq from sending those of the worker's own environment and files to a server."""

ADAPT_CONTEXT = SimpleNamespace(adapters=ADAPTERS, connection=None)
Connection = AsyncConnection[Any]


async def conninfo_of(inputs: Inputs, context: Context) -> str:
    """The connection string, which has the password: no part of it may occur in a message."""
    auth = "postgres" if inputs.auth is None else inputs.auth
    credential = await context.credential(auth if inputs.dsn is None else {"dsn": inputs.dsn})
    fields = {NAMES.get(name, name): value for name, value in credential.items() if value is not None}
    fields.pop("kind", None)
    dsn = str(fields.pop("dsn", ""))
    if not dsn and not fields and inputs.dsn is None:
        message = "the credential has no fields: it needs `dsn`, or `host`, `user`, `password`, `database`"
        raise Failure("auth", message)
    if has_raw_password(dsn):
        raise Failure("input", f"the dsn is invalid: {RAW_PASSWORD}")
    try:
        dsn_fields = conninfo_to_dict(dsn)
    except psycopg.Error:
        message = "the dsn is invalid: write postgresql://user@host:5432/database, or `host=... dbname=...`"
        raise Failure("input", message) from None
    try:
        return make_conninfo(**{**DEFAULTS, **dsn_fields, **fields, "client_encoding": "utf8"})
    except psycopg.Error:
        valid = "host, port, user, password, database, sslmode and the other keywords of libpq"
        names = ", ".join(sorted(fields))
        raise Failure("auth", f"the credential has a field that is not one of {valid} (it has {names})") from None


def with_addresses(target: str) -> str:
    """The connection string with a checked address for each host, which is repeated for each of its addresses.
    ForbiddenAddress or OSError if there is none. Blocks. libpq connects to the address (`hostaddr`) and verifies the
    certificate of the name, even if a DNS response changes meanwhile."""
    if not anything_is_forbidden():
        return target
    fields = conninfo_to_dict(target)
    hosts, addresses, ports = (
        [part.strip() for part in str(fields[name]).split(",")] if fields.get(name) else []
        for name in ("host", "hostaddr", "port")
    )
    count = max(len(hosts), len(addresses))
    if count == 0:  # a socket of this machine, or a host from the worker's environment
        return target
    columns = (  # as in libpq, a single port is used for all hosts
        parts * count if len(parts) == 1 else [*parts, *[""] * (count - len(parts))]
        for parts in (hosts, addresses, ports or [DEFAULT_PORT])
    )
    endpoints = []
    for host, address, port in zip(*columns, strict=True):
        checked = [address]
        if address:
            check_address(host or address, address)
        elif host and host[0] not in "/@":
            checked = checked_addresses(host, port or DEFAULT_PORT)
        endpoints += [(host, checked_address, port) for checked_address in checked]
    host, hostaddr, port = (",".join(part) for part in zip(*endpoints, strict=True))
    return make_conninfo(target, host=host, hostaddr=hostaddr, port=port)


_pools: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[str, ConnectionPool]] = WeakKeyDictionary()


def pool_of(target: str) -> ConnectionPool:
    return _pools.setdefault(asyncio.get_running_loop(), {}).setdefault(target, ConnectionPool(target))


async def close_pools() -> None:
    for pool in _pools.pop(asyncio.get_running_loop(), {}).values():
        while pool.idle:
            connection, timer = pool.idle.popitem()
            timer.cancel()
            await connection.close()


class ConnectionPool:
    """At most `SIZE` connections to one target."""

    def __init__(self, target: str) -> None:
        self.target = target
        self.room = asyncio.Semaphore(SIZE)
        self.idle: dict[Connection, asyncio.TimerHandle] = {}
        self.users = 0

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Connection]:
        self.users += 1
        try:
            async with self.room:
                connection = await self._take_idle() or await self._connect()
                try:
                    yield connection
                except asyncio.CancelledError:
                    await _drop(connection)
                    raise
                finally:
                    await self._return(connection)
        finally:
            self.users -= 1
            self._remove_if_empty()

    async def _take_idle(self) -> Connection | None:
        while self.idle:
            connection, timer = self.idle.popitem()
            timer.cancel()
            if not connection.closed:
                poll = select.poll()
                poll.register(connection.pgconn.socket, select.POLLIN)
                if not poll.poll(0):  # an idle connection is nearly always readable because the server closed it
                    return connection
            await connection.close()
        return None

    async def _connect(self) -> Connection:
        target = self.target
        try:
            if anything_is_forbidden():
                target = await asyncio.to_thread(with_addresses, target)
            # DISCARD ALL would remove prepared statements that the driver expects.
            options: Any = {"autocommit": True, "prepare_threshold": None, "context": ADAPT_CONTEXT}
            connection = await AsyncConnection.connect(target, **options)
            try:
                await _set_formats(connection)
            except BaseException:
                await connection.close()
                raise
            return connection
        except (psycopg.Error, OSError, ValueError) as error:  # the last for an invalid host name
            raise connect_failure(error) from None

    async def _return(self, connection: Connection) -> None:
        clean = False
        try:
            if not connection.closed and connection.pgconn.transaction_status != TransactionStatus.ACTIVE:
                with suppress(psycopg.Error, TimeoutError):
                    async with asyncio.timeout(CLEAN_SECONDS):
                        if connection.pgconn.transaction_status != TransactionStatus.IDLE:
                            await connection.execute("ROLLBACK")
                        await connection.execute("DISCARD ALL")
                        await _set_formats(connection)
                    timer = asyncio.get_running_loop().call_later(IDLE_SECONDS, self._retire, connection)
                    self.idle[connection], clean = timer, True
        finally:
            if not clean:
                await _drop(connection)

    def _remove_if_empty(self) -> None:
        """Remove an empty pool: there may be ever new connection strings."""
        if not self.idle and not self.users:
            _pools.get(asyncio.get_running_loop(), {}).pop(self.target, None)

    def _retire(self, connection: Connection) -> None:
        del self.idle[connection]
        connection.pgconn.finish()
        self._remove_if_empty()


async def _set_formats(connection: Connection) -> None:
    status = connection.info.parameter_status
    if status("standard_conforming_strings") == "off":
        await connection.execute("SET standard_conforming_strings = on")
    if not (status("DateStyle") or "ISO").startswith("ISO"):
        await connection.execute("SET datestyle = 'ISO'")


async def _drop(connection: Connection) -> None:
    try:
        if not connection.closed and connection.pgconn.transaction_status == TransactionStatus.ACTIVE:
            with suppress(psycopg.Error):
                await connection.cancel_safe(timeout=CLEAN_SECONDS)
    finally:
        await connection.close()
