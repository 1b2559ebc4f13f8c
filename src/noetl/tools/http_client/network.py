"""Connections of the client, but none to a forbidden address."""

from __future__ import annotations

import asyncio
import select
from collections.abc import Iterator
from typing import Any

import httpcore2
from httpx2 import AsyncClient, ConnectError, Request

from noetl.addresses import ForbiddenAddress, anything_is_forbidden, check_address, check_host


class GuardedNetwork(httpcore2.AsyncNetworkBackend):
    """Checks all addresses of a host before it connects, and the connected one too: the DNS response may change."""

    def __init__(self, inner: httpcore2.AsyncNetworkBackend) -> None:
        self._inner = inner

    async def connect_tcp(self, host: str, port: int, *more: Any, **options: Any) -> httpcore2.AsyncNetworkStream:
        """Errors have the types of the client; `is_forbidden_address` finds their cause."""
        if not anything_is_forbidden():
            return Stream(await self._inner.connect_tcp(host, port, *more, **options))
        try:
            async with asyncio.timeout(options.get("timeout")):
                await check_host(host)
        except TimeoutError:
            raise httpcore2.ConnectTimeout(f"the name {host} was not resolved in time") from None
        except ForbiddenAddress as error:
            raise httpcore2.ConnectError(str(error)) from error
        stream = Stream(await self._inner.connect_tcp(host, port, *more, **options))
        try:
            check_address(host, stream.get_extra_info("server_addr")[0])
        except ForbiddenAddress as error:
            await stream.aclose()
            raise httpcore2.ConnectError(str(error)) from error
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

    async def start_tls(self, *arguments: Any, **options: Any) -> httpcore2.AsyncNetworkStream:
        return Stream(await self._inner.start_tls(*arguments, **options))

    def get_extra_info(self, info: str) -> Any:
        if info == "is_readable":  # a closed socket has no file number: its old one may be reused
            return self._socket.fileno() < 0 or bool(self._poll.poll(0))
        return self._inner.get_extra_info(info)


def guard(client: AsyncClient) -> AsyncClient:
    """Keep a client from connecting to forbidden addresses. With a transport of ours it would ignore proxies."""
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
