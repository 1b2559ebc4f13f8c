"""Connections of the driver, and the pool that calls of the tool kind share: one per event loop, servers and login.

A connection that is lost stays lost: a request is never sent twice without the caller's knowledge.
"""

from __future__ import annotations

import asyncio
import re
from asyncio import AbstractEventLoop, Future, Task
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from typing import Any, TypeVar
from urllib.parse import urlsplit
from weakref import WeakKeyDictionary

from nats.aio.client import Client, RawCredentials
from nats.errors import AuthorizationError, Error, InvalidUserCredentialsError

from noetl.addresses import check_host
from noetl.model.outcome import Failure
from noetl.settings import NatsSettings

T = TypeVar("T")

CONNECT_SECONDS = 5.0
POOL_SIZE = 32
LOGIN_ERRORS = (AuthorizationError, InvalidUserCredentialsError)
PERMISSION_ERROR = r"(?i)permissions violation for .*?\"(.*?)\""


class ClientConnection:
    """A connection, and the operations that wait on it. `on_denied` receives a permission error of the server, whatever
    operation it is about. With it, every waiting operation fails on such an error; without it only those on the subject
    or bucket that the server names."""

    def __init__(
        self, login: NatsSettings, options: dict[str, Any] | None = None, on_denied: Callable[[str], None] | None = None
    ) -> None:
        self.login, self.options, self.on_denied = login, options or {}, on_denied
        self.client = Client()
        self.ended = asyncio.Event()
        self.waiting: dict[Future[None], str] = {}
        """A future that fails with the connection, and the subject or bucket, of each waiting operation."""
        self._last_error: Exception | None = None  # the driver itself only reports that no server is left

    async def connect(self) -> None:
        """Try each server once; Failure with the error of the last one."""
        for number, server in enumerate(self.login.servers, 1):
            try:
                async with asyncio.timeout(CONNECT_SECONDS):
                    await self._connect(server)
            except (OSError, Error, ValueError) as error:
                await self.close()
                if number < len(self.login.servers):
                    continue
                cause, where = self._last_error or error, f"NATS at {addresses(self.login)}"
                text = error_text(cause)
                if isinstance(cause, LOGIN_ERRORS) or "authorization violation" in text.lower():
                    raise Failure("auth", f"{where} rejected the login: check the credential") from None
                if isinstance(cause, TimeoutError):
                    text = f"no response within {CONNECT_SECONDS:g} seconds"
                raise Failure("connect", f"no connection to {where}: {text}", retryable=True) from None
            except ImportError:
                raise Failure("not_found", "`creds` need a package that is not installed: pip install nkeys") from None
            else:
                return

    async def _connect(self, server: str) -> None:
        host = None
        with suppress(ValueError):
            host = urlsplit(server).hostname
        if not host:
            raise Failure("input", "a server must be an address such as nats://host:4222")
        await check_host(host)
        login, self._last_error = self.login, None
        self.client = Client()
        await self.client.connect(
            [server],
            allow_reconnect=False,
            verbose=True,  # or else a refused login can be lost when the server closes the connection
            max_reconnect_attempts=1,
            reconnect_time_wait=0,
            connect_timeout=CONNECT_SECONDS,  # type: ignore[arg-type]
            error_cb=self._on_error,
            name="noetl",
            user=login.user,
            password=login.password,
            token=login.token,
            user_credentials=None if login.creds is None else RawCredentials(login.creds),
            **self.options,
        )
        if not self.client.is_connected:  # the driver takes the end of the stream for a response
            raise ConnectionResetError("the server closed the connection")
        # The driver calls `closed_cb` only where it closes the connection, and not where its reader gives up.
        assert self.client._reading_task is not None
        self.client._reading_task.add_done_callback(self._on_end)

    async def _on_error(self, error: Exception) -> None:
        """Fail the operations that a permission error is about: it names a subject, and no request."""
        self._last_error = error
        if (denied := re.search(PERMISSION_ERROR, str(error))) is None:
            return
        if self.on_denied is not None:
            message = f"the login has no permission: {str(error).removeprefix('nats: ')}"
            self.on_denied(message)
            self._fail(Failure("auth", message))
            return
        for future, name in self.waiting.items():
            if not future.done() and _concerns(denied[1], name):
                message = f"NATS denies access to {name!r}: the login has no permission for it"
                future.set_exception(Failure("auth", message))

    def _on_end(self, reader: Task[Any]) -> None:
        self._fail(Failure("connect", f"the connection to NATS at {addresses(self.login)} broke", retryable=True))
        self.ended.set()

    def _fail(self, failure: Failure) -> None:
        for future in self.waiting:
            if not future.done():
                future.set_exception(failure)

    async def guard(self, operation: Coroutine[Any, Any, T], name: str) -> T:
        """The result of an operation on a subject or bucket; Failure if the connection breaks, or access is denied."""
        broken: Future[None] = asyncio.get_running_loop().create_future()
        self.waiting[broken] = name
        task = asyncio.ensure_future(operation)
        try:
            await asyncio.wait((task, broken), return_when=asyncio.FIRST_COMPLETED)
            if broken.done():
                broken.result()
            return task.result()
        finally:
            del self.waiting[broken]
            broken.cancel()
            task.cancel()
            await asyncio.wait((task,), timeout=CONNECT_SECONDS)
            if task.done() and not task.cancelled():
                task.exception()  # or else the loop reports it as never retrieved

    async def close(self) -> None:
        """Close it. The driver may fail to close the transport of a broken connection."""
        if self.client._transport is None:  # it was never open, and the driver fails to close such a client
            return
        with suppress(OSError, Error):
            await self.client.close()
        if (transport := self.client._transport) is not None:
            transport.close()  # type: ignore[no-untyped-call]


async def flush(client: Client, seconds: float) -> None:
    """Wait until the server has processed every subscription and message, and sent its denials.

    The driver's ping can overtake a command that is not written yet; a second ping comes after it. A cancelled flush
    leaves a ping behind whose response breaks the driver, so it runs to its end even if the call is cancelled.
    """

    async def ping_twice() -> None:
        for _ in range(2):
            await client.flush(timeout=seconds)  # type: ignore[arg-type]

    flushing = asyncio.ensure_future(ping_twice())
    flushing.add_done_callback(lambda task: task.cancelled() or task.exception())
    await asyncio.shield(flushing)


def _concerns(denied: str, name: str) -> bool:
    """Whether a denied subject, in lower case, is `name`, belongs to the bucket `name`, or is the inbox of a
    response."""
    denied, name = denied.lower(), name.lower()
    parts = {name, f"kv_{name}", f"obj_{name}"}
    return denied == name or denied.startswith("_inbox.") or not parts.isdisjoint(denied.split("."))


def addresses(login: NatsSettings) -> str:
    """The servers as text, without the credentials that a URL may contain."""
    return ", ".join(server.partition("://")[2].rpartition("@")[2].rstrip("/") for server in login.servers)


def error_text(error: Exception) -> str:
    return str(getattr(error, "description", None) or error).removeprefix("nats: ") or type(error).__name__


Opening = Task[ClientConnection]  # or an attempt to open one: calls that arrive meanwhile wait for the same

_POOL: WeakKeyDictionary[AbstractEventLoop, dict[NatsSettings, Opening]] = WeakKeyDictionary()


@asynccontextmanager
async def open_connection(login: NatsSettings) -> AsyncIterator[ClientConnection]:
    """A connection of its own, for streams of messages: one that is abandoned halfway ends only with the connection."""
    connection = ClientConnection(login)
    try:
        await connection.connect()
        yield connection
    finally:
        await connection.close()


@asynccontextmanager
async def shared_connection(login: NatsSettings) -> AsyncIterator[ClientConnection]:
    pool = _POOL.setdefault(asyncio.get_running_loop(), {})
    opening = pool.pop(login, None)
    if opening is not None and opening.done() and not _usable(opening):
        await _close(opening)
        opening = pool.pop(login, None)  # another call may have opened one meanwhile
    if opening is None:
        opening = asyncio.ensure_future(_connect(login))
        opening.add_done_callback(_usable)
    pool[login] = opening
    # Close those above the limit that were not used for the longest time, unless a call waits on them.
    for other, open_task in list(pool.items())[:-POOL_SIZE]:
        if open_task.done() and not (_usable(open_task) and open_task.result().waiting):
            del pool[other]
            await _close(open_task)
    yield await asyncio.shield(opening)


async def _connect(login: NatsSettings) -> ClientConnection:
    connection = ClientConnection(login)
    try:
        await connection.connect()
    except BaseException:
        await connection.close()
        raise
    return connection


def _usable(opening: Opening) -> bool:
    return not opening.cancelled() and opening.exception() is None and not opening.result().ended.is_set()


async def _close(opening: Opening) -> None:
    if not opening.cancelled() and opening.exception() is None:
        await opening.result().close()


async def close_pool() -> None:
    for opening in _POOL.pop(asyncio.get_running_loop(), {}).values():
        opening.cancel()
        await asyncio.wait((opening,))
        await _close(opening)
