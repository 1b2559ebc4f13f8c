"""Runs uvicorn; signals, shutdown and the limits of connections are ours."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import uvicorn

from noetl.errors import Conflict, UsageError
from noetl.server.connections import Connection, ConnectionLimits, Connections, raise_descriptor_limit

BACKLOG = 2048
ACCEPTED_AT_ONCE = 64
"""Connections accepted per turn of the loop before surplus ones are closed; also the failed attempts per turn without
free descriptors."""
TICKS_PER_SECOND = 10
CLOSE_SECONDS = 3
"""Time for open requests after the server was told to stop."""


class HttpServer(uvicorn.Server):
    """uvicorn with limits for connections. `proxies` are the addresses whose forwarded headers are trusted."""

    def __init__(self, app: Any, limits: ConnectionLimits | None = None, proxies: Sequence[str] = ()) -> None:
        limits = limits or ConnectionLimits()
        super().__init__(
            uvicorn.Config(
                app,
                http=Connection,
                ws="none",
                backlog=ACCEPTED_AT_ONCE,
                log_config=None,
                access_log=False,
                server_header=False,
                lifespan="off",
                proxy_headers=bool(proxies),
                forwarded_allow_ips=list(proxies),
                timeout_keep_alive=limits.idle_seconds,
                timeout_graceful_shutdown=CLOSE_SECONDS,
            )
        )
        self.open = Connections(limits, raise_descriptor_limit(), proxies)
        self.server_state = self.open

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave the signals to the CLI."""
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        for listener in sockets or []:
            listener.listen(BACKLOG)  # asyncio has set it to ACCEPTED_AT_ONCE

    async def on_tick(self, counter: int) -> bool:
        if counter % TICKS_PER_SECOND == 0:
            self.open.close_overdue(asyncio.get_running_loop().time())
        return await super().on_tick(counter)


def bound(host: str, port: int) -> socket.socket:
    """A listening socket; Conflict if the address is in use."""
    try:
        family, kind, number, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listener = socket.socket(family, kind, number)
    except OSError as error:
        raise UsageError(f"cannot listen on {host}: {error.strerror or error}") from None
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(BACKLOG)  # from here on clients wait, and are not refused
    except OSError as error:
        listener.close()
        raise Conflict(f"cannot listen on {host}:{port}: {error.strerror or error}") from None
    return listener


def url_of(listener: socket.socket) -> str:
    """The URL for clients on this machine."""
    host, port = listener.getsockname()[:2]
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


async def listen(app: Any, listener: socket.socket, ended: asyncio.Event, *, proxies: Sequence[str] = ()) -> None:
    """Serve until `ended` is set; then finish the open requests."""
    server = HttpServer(app, proxies=proxies)
    serving = asyncio.create_task(server.serve([listener]))
    ending = asyncio.create_task(ended.wait())
    await asyncio.wait([serving, ending], return_when=asyncio.FIRST_COMPLETED)
    ending.cancel()
    server.should_exit = True
    await serving
