"""Connections of the client, but none to a forbidden address."""

from __future__ import annotations

import asyncio
import select
import socket
import ssl
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any

import httpcore2
from httpx2 import AsyncClient, ConnectError, Request

from noetl.addresses import ForbiddenAddress, anything_is_forbidden, check_address


class GuardedNetwork(httpcore2.AsyncNetworkBackend):
    """Checks all addresses of a host before it connects, and the connected one too: the DNS response may change."""

    def __init__(self, inner: httpcore2.AsyncNetworkBackend) -> None:
        self._inner = inner

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 - as in the base class
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        if anything_is_forbidden():
            for address in await _addresses(host, port, timeout):
                _check(host, address)
        stream = Stream(await self._inner.connect_tcp(host, port, timeout, local_address, socket_options))
        if anything_is_forbidden():
            try:
                _check(host, stream.get_extra_info("server_addr")[0])
            except httpcore2.ConnectError:
                await stream.aclose()
                raise
        return stream

    async def sleep(self, seconds: float) -> None:
        await self._inner.sleep(seconds)


class Stream(httpcore2.AsyncNetworkStream):
    """A connection that detects quickly whether its server has closed it: the pool checks all idle ones per request."""

    def __init__(self, inner: httpcore2.AsyncNetworkStream) -> None:
        self._inner = inner
        self.read, self.write, self.aclose = inner.read, inner.write, inner.aclose  # type: ignore[method-assign]
        self._socket, self._poll = inner.get_extra_info("socket"), select.poll()
        self._poll.register(self._socket, select.POLLIN)

    async def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,  # noqa: ASYNC109 - as in the base class
    ) -> httpcore2.AsyncNetworkStream:
        return Stream(await self._inner.start_tls(ssl_context, server_hostname, timeout))

    def get_extra_info(self, info: str) -> Any:
        if info == "is_readable":  # a closed socket has no file number: its old one may be reused
            return self._socket.fileno() < 0 or bool(self._poll.poll(0))
        return self._inner.get_extra_info(info)


async def _addresses(host: str, port: int, limit: float | None) -> set[str]:
    """The addresses of a name; empty if it does not resolve, which the client reports itself."""
    entries: list[Any] = []
    try:
        async with asyncio.timeout(limit):
            with suppress(OSError):
                entries = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except TimeoutError:
        raise httpcore2.ConnectTimeout(f"the name {host} was not resolved in time") from None
    return {str(entry[4][0]) for entry in entries}


def _check(host: str, address: str) -> None:
    """Convert errors to the types of the client; `is_forbidden_address` finds their cause."""
    try:
        check_address(host, address)
    except ForbiddenAddress as error:
        raise httpcore2.ConnectError(str(error)) from error


def guard(client: AsyncClient) -> AsyncClient:
    """Keep a client from connecting to forbidden addresses. A transport of ours would ignore the environment's proxies,
    so the client's own one is changed."""
    pool: Any = client._transport._pool  # type: ignore[attr-defined]
    pool._network_backend = GuardedNetwork(pool._network_backend)
    return client


def check_request(request: Request) -> None:
    """Check every request before it is sent: a proxy would connect to a forbidden address."""
    try:
        check_address(request.url.host, request.url.host)
    except ForbiddenAddress as error:
        raise ConnectError(str(error), request=request) from error


def is_forbidden_address(error: BaseException | None) -> bool:
    return any(isinstance(cause, ForbiddenAddress) for cause in causes(error))


def causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        inner = error.exceptions[0] if isinstance(error, BaseExceptionGroup) else None
        error = inner or error.__cause__ or error.__context__
