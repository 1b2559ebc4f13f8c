"""The connection of a server or worker to NATS, which nothing has to wait for.

Only hints and copies go over it: the database has everything that matters. A server that is down is tried again and
again in the background; one that is connected and does not respond is left alone for a while; meanwhile `jetstream`
raises NatsUnavailable at once, and the caller continues without it. The log has the first error, and the recovery.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from noetl.errors import NatsUnavailable, UsageError
from noetl.log import Level
from noetl.model.outcome import Failure
from noetl.settings import NatsSettings

try:
    from nats.aio.client import Client
    from nats.errors import Error
    from nats.js import JetStreamContext

    from noetl.nats.client import ClientConnection, addresses, error_text
except ImportError:
    raise UsageError("NATS needs a driver that is not installed: pip install 'noetl-engine[nats]'") from None

T = TypeVar("T")

MIN_RECONNECT_SECONDS, MAX_RECONNECT_SECONDS = 0.1, 5.0  # between two attempts to connect; doubled each time
STABLE_SECONDS = 10.0  # a connection that lasted so long resets the delay
RESPONSE_SECONDS = 2.0
COOLDOWN_SECONDS = 5.0  # how long a server that did not respond is not tried again
OPTIONS = {"no_echo": True, "ping_interval": 10, "max_outstanding_pings": 2}

WriteLog = Callable[[Level, str], None]


class NatsConnection:
    def __init__(self, settings: NatsSettings, log: WriteLog) -> None:
        self.settings, self._log = settings, log
        self.on_connect: list[Callable[[], Awaitable[None]]] = []
        self.attempted = asyncio.Event()
        self._connection: ClientConnection | None = None
        self._error: str | None = "not connected yet"
        self._error_logged = False
        self._cooldown_until = 0.0

    @property
    def client(self) -> Client:
        """The driver's client; NatsUnavailable if there is no connection."""
        if self._connection is None or self._connection.ended.is_set():
            raise self._unavailable()
        return self._connection.client

    def status(self) -> str:
        return self._error or "ok"

    async def jetstream(self, name: str, operation: Callable[[JetStreamContext], Coroutine[Any, Any, T]]) -> T:
        """The result of an operation on a bucket or stream; NatsUnavailable if JetStream does not respond."""
        client, connection = self.client, self._connection
        assert connection is not None
        if asyncio.get_running_loop().time() < self._cooldown_until:
            raise self._unavailable()
        try:
            result = await connection.guard(operation(client.jetstream(timeout=RESPONSE_SECONDS)), name)
        except (Error, OSError, Failure) as error:  # the driver's own TimeoutError is one of them
            is_timeout = isinstance(error, TimeoutError)
            reason = f"no response within {RESPONSE_SECONDS:g} seconds" if is_timeout else error_text(error)
            self._mark_down(f"{name}: {reason}")
            if self._connection is connection:
                self._cooldown_until = asyncio.get_running_loop().time() + COOLDOWN_SECONDS
            raise self._unavailable() from error
        self._mark_up()
        return result

    def _unavailable(self) -> NatsUnavailable:
        return NatsUnavailable(f"NATS at {addresses(self.settings)}: {self._error}")

    async def run(self) -> None:
        clock, delay = asyncio.get_running_loop().time, MIN_RECONNECT_SECONDS
        while True:
            started, connection = clock(), ClientConnection(self.settings, OPTIONS, self._mark_down)
            try:
                await connection.connect()
                self._connection, self._cooldown_until = connection, 0.0
                for callback in self.on_connect:
                    await callback()
                self._mark_up()
                self.attempted.set()
                await connection.ended.wait()
                self._mark_down(f"the connection to NATS at {addresses(self.settings)} broke")
            except Failure as failure:
                self.attempted.set()
                self._mark_down(str(failure))
            finally:
                self._connection = None
                await connection.close()
            if clock() - started > STABLE_SECONDS:
                delay = MIN_RECONNECT_SECONDS
            await asyncio.sleep(delay)
            delay = min(MAX_RECONNECT_SECONDS, delay * 2)

    def _mark_down(self, error: str) -> None:
        self._error = error
        if not self._error_logged:
            self._error_logged = True
            self._log("warning", f"NATS is unavailable, continuing without it: {error}")

    def _mark_up(self) -> None:
        self._error = None
        if self._error_logged:
            self._error_logged = False
            self._log("info", f"NATS at {addresses(self.settings)} is available again")
