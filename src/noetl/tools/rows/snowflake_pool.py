"""A pool of Snowflake sessions: a login takes a second or more."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakKeyDictionary

from noetl.tools.rows.blocking import Cancellation, in_thread
from noetl.tools.rows.snowflake_session import SnowflakeSession, login

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

    from snowflake.connector import SnowflakeConnection

MAX_IDLE = 8
IDLE_SECONDS = 300.0
UNCHECKED_SECONDS = 30.0


class IdleConnection(NamedTuple):
    connection: SnowflakeConnection
    since: float


class SnowflakePool:
    """The sessions of one event loop. One call uses a session at a time; a session that it changed is closed."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._idle: dict[str, list[IdleConnection]] = {}

    @contextmanager
    def session(self, fields: Mapping[str, Any], cancellation: Cancellation) -> Iterator[SnowflakeSession]:
        key = repr(sorted(fields.items()))
        connection = self._take(key) or login(fields)
        session = SnowflakeSession(connection, cancellation)
        try:
            yield session
        except BaseException:
            session.clean = False  # a transaction may be open, or a statement still running
            raise
        finally:
            if session.clean and not session.interrupted:
                self._put(key, connection)
            else:
                _end(connection)

    def _take(self, key: str) -> SnowflakeConnection | None:
        now = time.monotonic()
        while True:
            with self._lock:
                idle = self._idle.get(key) or []
                if not idle:
                    return None
                connection, since = idle.pop()
            age = now - since
            if age < UNCHECKED_SECONDS or (age < IDLE_SECONDS and connection.is_valid()):
                return connection
            _end(connection)

    def _put(self, key: str, connection: SnowflakeConnection) -> None:
        now = time.monotonic()
        with self._lock:
            entries = [*self._idle.get(key, []), IdleConnection(connection, now)]
            fresh = [entry for entry in entries if now - entry.since <= IDLE_SECONDS][:MAX_IDLE]
            self._idle[key] = fresh
        for entry in entries:
            if entry not in fresh:
                _end(entry.connection)

    def close(self) -> None:
        with self._lock:
            entries = [entry for idle in self._idle.values() for entry in idle]
            self._idle.clear()
        for entry in entries:
            _end(entry.connection)


def _end(connection: SnowflakeConnection) -> None:
    with suppress(Exception):  # whether or not the server is reachable
        connection.close(retry=False)


_POOLS: WeakKeyDictionary[AbstractEventLoop, SnowflakePool] = WeakKeyDictionary()


def pool_of(loop: AbstractEventLoop) -> SnowflakePool:
    return _POOLS.setdefault(loop, SnowflakePool())


async def close_pool(loop: AbstractEventLoop) -> None:
    pool = _POOLS.pop(loop, None)
    if pool is not None:
        await in_thread(lambda cancellation: pool.close())
