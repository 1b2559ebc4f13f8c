"""Connections that are kept between calls, for each event loop and each target.

A connection goes back clean or not at all: its transaction is rolled back and everything a session can hold (settings,
role, temporary tables, locks) is discarded, so that a call never sees what another one left.
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
from noetl.tools.postgres_client.faults import connecting
from noetl.tools.postgres_client.hosts import with_addresses
from noetl.tools.postgres_client.loaders import ADAPTERS

SIZE = 16
IDLE_SECONDS = 60
CLEAN_SECONDS = 5
PAUSE_SECONDS = 0.2
"""Before a second attempt to connect; doubled each time."""

Connection = AsyncConnection[Any]
_pools: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[str, Pool]] = WeakKeyDictionary()


def pool_of(target: str) -> Pool:
    """The pool of this event loop for a connection string."""
    pools = _pools.setdefault(asyncio.get_running_loop(), {})
    if target not in pools:
        pools[target] = Pool(target)
    return pools[target]


async def close_pools() -> None:
    """Close what is idle on this event loop."""
    for pool in _pools.pop(asyncio.get_running_loop(), {}).values():
        await pool.close()


class Pool:
    """At most `SIZE` connections to one target."""

    def __init__(self, target: str) -> None:
        self.target = target
        self.room = asyncio.Semaphore(SIZE)
        self.idle: list[tuple[float, Connection]] = []
        """The connections that nobody uses, and since when; the last one is used first."""
        self.users = 0
        self.sweeper: asyncio.TimerHandle | None = None

    @asynccontextmanager
    async def connection(self, retries: int = 0) -> AsyncIterator[Connection]:
        """A connection for the time of one call."""
        self.users += 1
        try:
            async with self.room:
                connection = await self._alive() or await self._connect(retries)
                try:
                    yield connection
                except asyncio.CancelledError:
                    await _dropped(connection)
                    raise
                finally:
                    await self._back(connection)
        finally:
            self.users -= 1
            self._forget()

    async def _alive(self) -> Connection | None:
        while self.idle:
            _, connection = self.idle.pop()
            if not connection.closed and not _has_news(connection):
                return connection
            await connection.close()
        return None

    async def _connect(self, retries: int) -> Connection:
        pause = PAUSE_SECONDS
        while True:
            try:
                return await _connected(self.target)
            except (psycopg.Error, OSError, ValueError) as error:  # the last for a host that is no name
                failure = connecting(error)
            fault = failure.outcome.error
            if retries <= 0 or fault is None or not fault.retryable:
                raise failure
            await asyncio.sleep(pause)
            retries, pause = retries - 1, pause * 2

    async def _back(self, connection: Connection) -> None:
        """Keep the connection if it can be made clean, else close it."""
        clean = False
        try:
            if not connection.closed and connection.pgconn.transaction_status != TransactionStatus.ACTIVE:
                with suppress(psycopg.Error, TimeoutError):
                    async with asyncio.timeout(CLEAN_SECONDS):
                        await _cleaned(connection)
                        clean = True
        finally:
            if not clean:
                await _dropped(connection)
        if clean:
            self.idle.append((asyncio.get_running_loop().time(), connection))
            self._sweep_later()

    def _forget(self) -> None:
        """A pool that holds nothing is not kept: there may be ever new targets."""
        if not self.idle and not self.users:
            _pools.get(asyncio.get_running_loop(), {}).pop(self.target, None)

    def _sweep_later(self) -> None:
        if self.sweeper is None and self.idle:
            loop = asyncio.get_running_loop()
            self.sweeper = loop.call_at(self.idle[0][0] + IDLE_SECONDS, self._sweep)

    def _sweep(self) -> None:
        """Close what nobody has used for a while."""
        self.sweeper = None
        before = asyncio.get_running_loop().time() - IDLE_SECONDS
        for since, connection in self.idle:
            if since <= before:
                connection.pgconn.finish()
        self.idle = [(since, connection) for since, connection in self.idle if since > before]
        self._sweep_later()
        self._forget()

    async def close(self) -> None:
        if self.sweeper is not None:
            self.sweeper.cancel()
        for _, connection in self.idle:
            await connection.close()
        self.idle = []


async def _connected(target: str) -> Connection:
    if anything_is_forbidden():
        target = await asyncio.to_thread(with_addresses, target)
    connection = await AsyncConnection.connect(
        target,
        autocommit=True,
        prepare_threshold=None,  # DISCARD ALL would pull prepared statements away from under the driver
        context=ADAPTERS_CONTEXT,
    )
    try:
        await _expected(connection)
    except BaseException:
        await connection.close()
        raise
    return connection


class _Adapted:
    """What psycopg takes a set of loaders from."""

    adapters = ADAPTERS
    connection = None


ADAPTERS_CONTEXT = _Adapted()


async def _cleaned(connection: Connection) -> None:
    if connection.pgconn.transaction_status != TransactionStatus.IDLE:
        await connection.execute("ROLLBACK")
    await connection.execute("DISCARD ALL")
    await _expected(connection)


async def _expected(connection: Connection) -> None:
    """How strings and dates are written, if the server's default is another than what we read and write."""
    status = connection.info.parameter_status
    if status("standard_conforming_strings") == "off":
        await connection.execute("SET standard_conforming_strings = on")
    if not (status("DateStyle") or "ISO").startswith("ISO"):
        await connection.execute("SET datestyle = 'ISO'")


async def _dropped(connection: Connection) -> None:
    """Close a connection that can't be kept, and stop on the server what still runs on it."""
    try:
        if not connection.closed and connection.pgconn.transaction_status == TransactionStatus.ACTIVE:
            with suppress(psycopg.Error):
                await connection.cancel_safe(timeout=CLEAN_SECONDS)
    finally:
        await connection.close()


def _has_news(connection: Connection) -> bool:
    """Whether the server has sent something to an idle connection: nearly always that it is gone."""
    poll = select.poll()
    poll.register(connection.pgconn.socket, select.POLLIN)
    return bool(poll.poll(0))
