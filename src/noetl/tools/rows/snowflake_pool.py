"""Sessions with Snowflake that are kept between calls: signing in takes a second or more."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakKeyDictionary

from noetl.tools.rows.snow import Session, login
from noetl.tools.rows.thread import Stop, in_thread

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

    from snowflake.connector import SnowflakeConnection

KEPT = 8
IDLE_SECONDS = 300.0
UNCHECKED_SECONDS = 30.0


class Idle(NamedTuple):
    """A session that waits for a call, and since when."""

    connection: SnowflakeConnection
    since: float


class Pool:
    """The sessions of one event loop. A call has its session to itself; one that it has changed is not kept."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._idle: dict[str, list[Idle]] = {}

    @contextmanager
    def session(self, fields: Mapping[str, Any], stop: Stop) -> Iterator[Session]:
        key = repr(sorted(fields.items()))
        connection = self._taken(key) or login(fields)
        session = Session(connection, stop)
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

    def _taken(self, key: str) -> SnowflakeConnection | None:
        now = time.monotonic()
        while True:
            with self._lock:
                waiting = self._idle.get(key) or []
                if not waiting:
                    return None
                found = waiting.pop()
            age = now - found.since
            if age < UNCHECKED_SECONDS or (age < IDLE_SECONDS and found.connection.is_valid()):
                return found.connection
            _end(found.connection)

    def _put(self, key: str, connection: SnowflakeConnection) -> None:
        now = time.monotonic()
        with self._lock:
            waiting = self._idle.setdefault(key, [])
            old = [one for one in waiting if now - one.since > IDLE_SECONDS]
            waiting[:] = [one for one in waiting if one not in old]
            if len(waiting) < KEPT:
                waiting.append(Idle(connection, now))
            else:
                old.append(Idle(connection, now))
        for one in old:
            _end(one.connection)

    def close(self) -> None:
        with self._lock:
            idle = [one for waiting in self._idle.values() for one in waiting]
            self._idle.clear()
        for one in idle:
            _end(one.connection)


def _end(connection: SnowflakeConnection) -> None:
    with suppress(Exception):  # whether the server hears of it or not
        connection.close(retry=False)


_POOLS: WeakKeyDictionary[AbstractEventLoop, Pool] = WeakKeyDictionary()


def pool_of(loop: AbstractEventLoop) -> Pool:
    return _POOLS.setdefault(loop, Pool())


async def close_pool(loop: AbstractEventLoop) -> None:
    pool = _POOLS.pop(loop, None)
    if pool is not None:
        await in_thread(lambda stop: pool.close())
