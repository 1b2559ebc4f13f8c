"""The server's ear: uvicorn inside a process that has its own idea of signals and of its end."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn

from noetl.errors import Conflict, UsageError

BACKLOG = 2048
CLOSE_SECONDS = 3
"""How long requests may go on after the server was told to end; long polls and streams would for ever."""


class _Ear(uvicorn.Server):
    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Whoever serves decides what a signal means."""
        yield


def bound(host: str, port: int) -> socket.socket:
    """A socket at the address; Conflict if somebody else is there."""
    try:
        family, kind, number, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        found = socket.socket(family, kind, number)
    except OSError as error:
        raise UsageError(f"can't listen on {host}: {error.strerror or error}") from None
    try:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind(address)
        found.listen(BACKLOG)  # from here on clients wait, and are not refused
    except OSError as error:
        found.close()
        raise Conflict(f"can't listen on {host}:{port}: {error.strerror or error}") from None
    return found


def url_of(found: socket.socket) -> str:
    """The address as clients on this machine write it."""
    host, port = found.getsockname()[:2]
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


async def listen(app: Any, found: socket.socket, ended: asyncio.Event) -> None:
    """Answer requests until it is to end; then those under way are finished."""
    ear = _Ear(
        uvicorn.Config(
            app,
            log_config=None,
            access_log=False,
            server_header=False,
            lifespan="off",
            ws="none",
            timeout_keep_alive=75,
            timeout_graceful_shutdown=CLOSE_SECONDS,
        )
    )
    serving = asyncio.create_task(ear.serve([found]))
    ending = asyncio.create_task(ended.wait())
    await asyncio.wait([serving, ending], return_when=asyncio.FIRST_COMPLETED)
    ending.cancel()
    ear.should_exit = True
    await serving
