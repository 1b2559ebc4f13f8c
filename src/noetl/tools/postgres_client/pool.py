"""Connections that calls share, for each event loop and connection string.

A connection returns to the pool clean or not at all: its transaction is rolled back, and settings, role, temporary
tables and locks are discarded, so that no call sees the session state of another.
"""

from __future__ import annotations

import asyncio
import select
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any
from weakref import WeakKeyDictionary

import psycopg
from psycopg import AsyncConnection
from psycopg.pq import TransactionStatus

from noetl.addresses import anything_is_forbidden
from noetl.tools.postgres_client.conninfo import with_addresses
from noetl.tools.postgres_client.errors import connect_failure
from noetl.tools.postgres_client.results import ADAPTERS

SIZE = 16
IDLE_SECONDS = 60
CLEAN_SECONDS = 5
RETRY_SECONDS = 0.2
"""Before a second attempt to connect; doubled each time."""

Connection = AsyncConnection[Any]
_pools: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[str, ConnectionPool]] = WeakKeyDictionary()


def pool_of(target: str) -> ConnectionPool:
    """The pool of this event loop for a connection string."""
    pools = _pools.setdefault(asyncio.get_running_loop(), {})
    if target not in pools:
        pools[target] = ConnectionPool(target)
    return pools[target]


async def close_pools() -> None:
    for pool in _pools.pop(asyncio.get_running_loop(), {}).values():
        await pool.close()


class ConnectionPool:
    """At most `SIZE` connections to one target."""

    def __init__(self, target: str) -> None:
        self.target = target
        self.room = asyncio.Semaphore(SIZE)
        self.idle: dict[Connection, asyncio.TimerHandle] = {}
        """Unused connections, each with the timer that closes it; the last one is used first."""
        self.users = 0

    @asynccontextmanager
    async def connection(self, retries: int = 0) -> AsyncIterator[Connection]:
        self.users += 1
        try:
            async with self.room:
                connection = await self._take_idle() or await self._connect(retries)
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
                if not poll.poll(0):  # what an idle connection can read is nearly always that the server closed it
                    return connection
            await connection.close()
        return None

    async def _connect(self, retries: int) -> Connection:
        delay = RETRY_SECONDS
        while True:
            try:
                return await _connect(self.target)
            except (psycopg.Error, OSError, ValueError) as error:  # the last for an invalid host name
                failure = connect_failure(error)
            reason = failure.outcome.error
            if retries <= 0 or reason is None or not reason.retryable:
                raise failure
            await asyncio.sleep(delay)
            retries, delay = retries - 1, delay * 2

    async def _return(self, connection: Connection) -> None:
        """Keep the connection if it can be cleaned, or else close it."""
        clean = False
        try:
            if not connection.closed and connection.pgconn.transaction_status != TransactionStatus.ACTIVE:
                with suppress(psycopg.Error, TimeoutError):
                    async with asyncio.timeout(CLEAN_SECONDS):
                        if connection.pgconn.transaction_status != TransactionStatus.IDLE:
                            await connection.execute("ROLLBACK")
                        await connection.execute("DISCARD ALL")
                        await _set_formats(connection)
                        clean = True
        finally:
            if not clean:
                await _drop(connection)
        if clean:
            loop = asyncio.get_running_loop()
            self.idle[connection] = loop.call_later(IDLE_SECONDS, self._retire, connection)

    def _remove_if_empty(self) -> None:
        """Remove an empty pool: there may be ever new connection strings."""
        if not self.idle and not self.users:
            _pools.get(asyncio.get_running_loop(), {}).pop(self.target, None)

    def _retire(self, connection: Connection) -> None:
        del self.idle[connection]
        connection.pgconn.finish()
        self._remove_if_empty()

    async def close(self) -> None:
        while self.idle:
            connection, timer = self.idle.popitem()
            timer.cancel()
            await connection.close()


async def _connect(target: str) -> Connection:
    if anything_is_forbidden():
        target = await asyncio.to_thread(with_addresses, target)
    connection = await AsyncConnection.connect(
        target,
        autocommit=True,
        prepare_threshold=None,  # DISCARD ALL would remove prepared statements that the driver expects
        context=_AdaptContext(),
    )
    try:
        await _set_formats(connection)
    except BaseException:
        await connection.close()
        raise
    return connection


class _AdaptContext:
    """Passes our loaders to psycopg."""

    adapters = ADAPTERS
    connection = None


async def _set_formats(connection: Connection) -> None:
    """Set how strings and dates are written, if the defaults of the server differ from ours."""
    status = connection.info.parameter_status
    if status("standard_conforming_strings") == "off":
        await connection.execute("SET standard_conforming_strings = on")
    if not (status("DateStyle") or "ISO").startswith("ISO"):
        await connection.execute("SET datestyle = 'ISO'")


async def _drop(connection: Connection) -> None:
    """Close a connection, and cancel the statement that still runs on it."""
    try:
        if not connection.closed and connection.pgconn.transaction_status == TransactionStatus.ACTIVE:
            with suppress(psycopg.Error):
                await connection.cancel_safe(timeout=CLEAN_SECONDS)
    finally:
        await connection.close()
