"""Listens: sockets, uvicorn, and connection limits, which apply before authentication.

A connection *waits* while the client has to send data, and has a deadline then; it is *busy* while the server has to
respond, as in long polls and event streams. When all connections, or those of an address, are used, the server closes
the oldest one that has never completed a request, or else the one that has been idle longest. So idle connections
cannot lock out clients that send complete requests.
"""

from __future__ import annotations

import asyncio
import resource
import socket
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from errno import EADDRINUSE
from ipaddress import ip_address, ip_network
from typing import Any

import h11
import msgspec
import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from noetl.errors import Conflict, UsageError
from noetl.store.access import Access

BACKLOG = 2048
ACCEPTED_AT_ONCE = 64
"""Connections accepted per turn of the loop before surplus ones are closed; also the failed attempts per turn without
free descriptors."""
TICKS_PER_SECOND = 10
CLOSE_SECONDS = 3  # time for open requests after a stop signal
DESCRIPTORS = 65_536  # requested file descriptor limit; a server needs a few more descriptors than connections
RESERVED_DESCRIPTORS = 128  # kept free for the database, files, and connections accepted before another is closed


class ConnectionLimits(msgspec.Struct, frozen=True, kw_only=True):
    connections: int = 4_096
    address_share: float = 0.5  # fraction of all connections available to one address; a trusted proxy may use all
    header_seconds: float = 10.0  # from the start of a connection or a later request to the end of its headers
    body_idle_seconds: float = 10.0
    body_seconds: float = 60.0  # time for a whole request body, plus its size at the minimum rate
    body_bytes_per_second: int = 16_384
    write_seconds: float = 60.0  # maximum time for which a client may not read the response
    idle_seconds: int = 75


def raise_descriptor_limit() -> int:
    """Raise the file descriptor limit of this process, up to DESCRIPTORS; returns the new limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    target = DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, DESCRIPTORS)
    if soft != resource.RLIM_INFINITY and soft < target:
        with suppress(OSError, ValueError):  # some systems have a lower limit that they do not report
            resource.setrlimit(resource.RLIMIT_NOFILE, (target, hard))
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return DESCRIPTORS if soft == resource.RLIM_INFINITY else soft


class ConnectionGroup:
    def __init__(self, limit: int) -> None:
        self.limit, self.size = limit, 0
        self.unproven: dict[Connection, None] = {}  # those that have never completed a request, oldest first
        self.idle: dict[Connection, None] = {}  # other waiting connections, the longest idle first

    def remove(self, connection: Connection) -> None:
        self.unproven.pop(connection, None)
        self.idle.pop(connection, None)


class Connections(ServerState):
    def __init__(self, limits: ConnectionLimits, descriptors: int, proxies: Iterable[str] = ()) -> None:
        super().__init__()
        self.limits = limits
        self.all = ConnectionGroup(min(limits.connections, max(descriptors - RESERVED_DESCRIPTORS, descriptors // 2)))
        self.proxies = [ip_network(proxy) for proxy in proxies]
        self.by_address: dict[str, ConnectionGroup] = {}
        self.open: set[Connection] = set()

    def admit(self, connection: Connection, address: str) -> bool:
        """Add a connection and close another one if a limit is reached; False if none can be closed."""
        key = _address_key(address)
        own = self.by_address.get(key)
        if own is None:
            is_proxy = self.proxies and any(ip_address(address) in network for network in self.proxies)
            own = ConnectionGroup(max(1, int(self.all.limit * (1.0 if is_proxy else self.limits.address_share))))
        for group in (own, self.all):
            if group.size >= group.limit:
                victim = next(iter(group.unproven), None) or next(iter(group.idle), None)
                if victim is None:
                    return False
                victim.drop()
        self.by_address[key] = own
        connection.groups = (own, self.all)
        for group in connection.groups:
            group.size += 1
        self.open.add(connection)
        return True

    def discard(self, connection: Connection, address: str) -> None:
        if connection in self.open:
            self.open.discard(connection)
            for group in connection.groups:
                group.size -= 1
                group.remove(connection)
            if connection.groups[0].size == 0:
                self.by_address.pop(_address_key(address), None)


def _address_key(address: str) -> str:
    """The IPv4 address, or the /64 network of an IPv6 address, which belongs to one subscriber."""
    return str(ip_network((address, 64), strict=False)) if ":" in address else address


class Connection(H11Protocol):
    server_state: Connections

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.groups: tuple[ConnectionGroup, ...] = ()
        self.address = ""
        self.is_proven = False  # whether this connection has completed a request
        self.header_deadline: float | None = None
        self.idle_deadline: float | None = None
        self.write_deadline: float | None = None
        self.body_started: float | None = None
        self.body_bytes, self.last_byte = 0, 0.0

    # -- callbacks of uvicorn and the transport ---------------------------------------------------------------------

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.address = self.client[0] if self.client else ""
        if not self.server_state.admit(self, self.address):
            transport.abort()
            return
        self.header_deadline = self.loop.time() + self.server_state.limits.header_seconds
        self._move()

    def connection_lost(self, exc: Exception | None) -> None:
        self.server_state.discard(self, self.address)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        now = self.last_byte = self.loop.time()
        self.body_bytes += len(data)
        if self.header_deadline is None and self.conn.their_state is h11.IDLE:
            self.header_deadline = now + self.server_state.limits.header_seconds
        super().data_received(data)
        self._advance(now)

    def on_response_complete(self) -> None:
        self.is_proven = True
        super().on_response_complete()
        self._advance(self.loop.time())

    def pause_writing(self) -> None:
        super().pause_writing()
        self.write_deadline = self.loop.time() + self.server_state.limits.write_seconds

    def resume_writing(self) -> None:
        super().resume_writing()
        self.write_deadline = None

    # -- state ------------------------------------------------------------------------------------------------------

    @property
    def is_busy(self) -> bool:
        is_answering = self.cycle is not None and not self.cycle.response_complete
        return is_answering and self.conn.their_state is not h11.SEND_BODY

    def _advance(self, now: float) -> None:
        is_reading_body = self.conn.their_state is h11.SEND_BODY
        if self.conn.their_state is not h11.IDLE:
            self.header_deadline = None
        is_idle = self.header_deadline is None and not self.is_busy and not is_reading_body
        self.idle_deadline = now + self.server_state.limits.idle_seconds if is_idle else None
        if not is_reading_body:
            self.body_started = None
        elif self.body_started is None:
            self.body_started, self.body_bytes = now, 0
        self._move()

    def _move(self) -> None:
        """Update which groups may close this connection in favour of others."""
        for group in self.groups:
            if self.is_busy:
                group.remove(self)
            elif not self.is_proven:
                group.unproven.setdefault(self)
            else:
                group.unproven.pop(self, None)
                group.idle.setdefault(self)

    def is_overdue(self, now: float) -> bool:
        limits = self.server_state.limits
        if self.write_deadline is not None and now > self.write_deadline:
            return True
        if self.header_deadline is not None:
            return now > self.header_deadline
        if self.idle_deadline is not None:
            return now > self.idle_deadline
        if self.body_started is None:
            return False
        if now > self.body_started + limits.body_seconds + self.body_bytes / limits.body_bytes_per_second:
            return True
        return now > self.last_byte + limits.body_idle_seconds and not self.flow.read_paused

    def drop(self) -> None:
        self.server_state.discard(self, self.address)
        self.transport.abort()


class HttpServer(uvicorn.Server):
    """uvicorn with limits for connections. `proxies` are the addresses whose forwarded headers are trusted."""

    def __init__(self, app: ASGIApp, limits: ConnectionLimits | None = None, proxies: Sequence[str] = ()) -> None:
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
        self.server_state = self.open = Connections(limits, raise_descriptor_limit(), proxies)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        for listener in sockets or []:
            listener.listen(BACKLOG)  # asyncio has set it to ACCEPTED_AT_ONCE

    async def on_tick(self, counter: int) -> bool:
        if counter % TICKS_PER_SECOND == 0:
            now = asyncio.get_running_loop().time()
            for connection in [connection for connection in self.open.open if connection.is_overdue(now)]:
                connection.drop()
        return await super().on_tick(counter)


def check_address(host: str, access: Access, now: float) -> None:
    """UsageError if others could reach the server although nobody can sign in."""
    if is_loopback(host):
        return
    if access.users() or any(token.is_valid(now) and token.role != "worker" for token in access.tokens()):
        return
    raise UsageError(
        f"{host} can be reached by others, and nobody can sign in yet: make a token (`noetl token create --role "
        "admin`) or a user (`noetl user add admin --role admin`) first, or listen on 127.0.0.1"
    )


def is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


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
        remedy = "; name another port with --port" if error.errno == EADDRINUSE else ""
        raise Conflict(f"cannot listen on {host}:{port}: {error.strerror or error}{remedy}") from None
    return listener


def url_of(listener: socket.socket) -> str:
    return server_url(*listener.getsockname()[:2])


def server_url(host: str, port: int) -> str:
    """The URL at which this machine reaches a server that listens there."""
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


async def listen(app: ASGIApp, listener: socket.socket, ended: asyncio.Event, *, proxies: Sequence[str] = ()) -> None:
    """Serve until `ended` is set; then finish the open requests."""
    server = HttpServer(app, proxies=proxies)
    serving = asyncio.create_task(server.serve([listener]))
    ending = asyncio.create_task(ended.wait())
    await asyncio.wait([serving, ending], return_when=asyncio.FIRST_COMPLETED)
    ending.cancel()
    server.should_exit = True
    await serving
