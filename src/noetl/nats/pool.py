"""Connections that calls of the tool kind share: one for each event loop, servers and credential."""

from __future__ import annotations

import asyncio
from asyncio import AbstractEventLoop, Task
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from weakref import WeakKeyDictionary

from noetl.model.outcome import Failure
from noetl.nats.client import ClientConnection
from noetl.settings import NatsSettings

POOL_SIZE = 32
"""Connections kept open for an event loop."""
MAX_BACKOFF_SECONDS = 2.0

Opening = Task[ClientConnection]
"""A connection, or the attempt to open it: calls that arrive meanwhile wait for the same one."""

_POOL: WeakKeyDictionary[AbstractEventLoop, dict[NatsSettings, Opening]] = WeakKeyDictionary()


@asynccontextmanager
async def open_connection(login: NatsSettings, retries: int) -> AsyncIterator[ClientConnection]:
    """A connection of its own, for operations that read a stream of messages: one that is abandoned halfway can only
    be ended by closing the connection."""
    connection = await _connect(login, retries)
    try:
        yield connection
    finally:
        await connection.close()


@asynccontextmanager
async def shared_connection(login: NatsSettings, retries: int) -> AsyncIterator[ClientConnection]:
    pool = _POOL.setdefault(asyncio.get_running_loop(), {})
    opening = pool.pop(login, None)
    if opening is not None and opening.done() and not _usable(opening):
        await _close(opening)
        opening = pool.pop(login, None)  # another call may have opened one meanwhile
    if opening is None:
        opening = asyncio.ensure_future(_connect(login, retries))
        opening.add_done_callback(_usable)
    pool[login] = opening
    await _evict(pool)
    yield await asyncio.shield(opening)


async def _connect(login: NatsSettings, retries: int) -> ClientConnection:
    for attempt in range(retries + 1):
        connection = ClientConnection(login)
        try:
            await connection.connect()
            return connection
        except Failure as failure:
            error = failure.outcome.error
            if error is None or not error.retryable or attempt == retries:
                raise
        except BaseException:
            await connection.close()
            raise
        await asyncio.sleep(min(0.1 * 2**attempt, MAX_BACKOFF_SECONDS))
    raise AssertionError("unreachable")


def _usable(opening: Opening) -> bool:
    return not opening.cancelled() and opening.exception() is None and not opening.result().ended.is_set()


async def _evict(pool: dict[NatsSettings, Opening]) -> None:
    """Close those above the limit that were not used for the longest time, unless a call waits on them."""
    for login, opening in list(pool.items())[:-POOL_SIZE]:
        if opening.done() and (not _usable(opening) or opening.result().idle):
            del pool[login]
            await _close(opening)


async def _close(opening: Opening) -> None:
    if not opening.cancelled() and opening.exception() is None:
        await opening.result().close()


async def close() -> None:
    for opening in _POOL.pop(asyncio.get_running_loop(), {}).values():
        opening.cancel()
        await asyncio.wait((opening,))
        await _close(opening)
