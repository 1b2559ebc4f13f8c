"""How connections are made: as the client makes them, but to no address that is forbidden."""

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
    """Looks at all addresses of a host before it connects, and at the one that it has reached before anything is sent.

    The first look keeps it from knocking at all; the second holds when the DNS gives another answer a moment later.
    """

    def __init__(self, inner: httpcore2.AsyncNetworkBackend) -> None:
        self._inner = inner

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 - the client's own signature
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        if not anything_is_forbidden():
            return Stream(await self._inner.connect_tcp(host, port, timeout, local_address, socket_options))
        for address in await _addresses(host, port, timeout):
            _check(host, address)
        stream = await self._inner.connect_tcp(host, port, timeout, local_address, socket_options)
        try:
            _check(host, stream.get_extra_info("server_addr")[0])
        except httpcore2.ConnectError:
            await stream.aclose()
            raise
        return Stream(stream)

    async def sleep(self, seconds: float) -> None:
        await self._inner.sleep(seconds)


class Stream(httpcore2.AsyncNetworkStream):
    """A connection that tells quickly whether its server has hung up.

    The pool asks every idle connection for each request, and the way through the layers below takes as long as a third
    of a request where fifty are idle.
    """

    def __init__(self, inner: httpcore2.AsyncNetworkStream) -> None:
        self._inner = inner
        self.read, self.write, self.aclose = inner.read, inner.write, inner.aclose  # type: ignore[method-assign]
        self._socket, self._poll = inner.get_extra_info("socket"), select.poll()
        self._poll.register(self._socket, select.POLLIN)

    async def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,  # noqa: ASYNC109 - the client's own signature
    ) -> httpcore2.AsyncNetworkStream:
        return Stream(await self._inner.start_tls(ssl_context, server_hostname, timeout))

    def get_extra_info(self, info: str) -> Any:
        if info == "is_readable":  # what is closed has no number any more, and its old one may be somebody else's
            return self._socket.fileno() < 0 or bool(self._poll.poll(0))
        return self._inner.get_extra_info(info)


async def _addresses(host: str, port: int, limit: float | None) -> set[str]:
    """What the name means now. Of a name that means nothing the client itself will tell."""
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(limit):
            with suppress(OSError):
                found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
                return {str(one[4][0]) for one in found}
    except TimeoutError:
        raise httpcore2.ConnectTimeout(f"no address of {host} came") from None
    return set()


def _check(host: str, address: str) -> None:
    """Convert errors to the types of the client; `is_refusal` finds their cause."""
    try:
        check_address(host, address)
    except ForbiddenAddress as error:
        raise httpcore2.ConnectError(str(error)) from error


def guard(client: AsyncClient) -> AsyncClient:
    """Let a client connect to no forbidden address.

    It would take a transport, but then leave out the proxies of the environment; so its own one is changed.
    """
    pool: Any = client._transport._pool  # type: ignore[attr-defined]
    pool._network_backend = GuardedNetwork(pool._network_backend)
    return client


def check_request(request: Request) -> None:
    """Check every request before it is sent: a proxy would connect to a forbidden address."""
    try:
        check_address(request.url.host, request.url.host)
    except ForbiddenAddress as error:
        raise ConnectError(str(error), request=request) from error


def is_refusal(error: BaseException | None) -> bool:
    """Whether the address guard refused the connection."""
    return any(isinstance(cause, ForbiddenAddress) for cause in causes(error))


def causes(error: BaseException | None) -> Iterator[BaseException]:
    """The error and what led to it, the outermost first."""
    while error is not None:
        yield error
        inner = error.exceptions[0] if isinstance(error, BaseExceptionGroup) else None
        error = inner or error.__cause__ or error.__context__
