"""Connections: how many a server keeps open, and how long it waits for whoever is at the other end.

Everything here happens before anybody has shown a token, so every limit holds for anybody. A connection *waits* while
its client has to send something, and is *busy* while the server has to answer: a long poll or an event stream is busy
and may stay so. A waiting connection has a deadline for the request line and headers, for each part of a body and for
the whole of it; one whose client does not read has one as well.

There are limits for all connections together and for those of one address. At a limit the connection that has waited
longest without ever completing a request is closed, then the one that has been idle longest. So connections that are
held open keep nobody out: whoever sends a whole request at once is answered.
"""

from __future__ import annotations

import asyncio
import resource
from collections.abc import Iterable
from contextlib import suppress
from ipaddress import ip_address, ip_network
from typing import Any

import h11
import msgspec
from uvicorn.config import Config
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

DESCRIPTORS = 65_536
"""How many file descriptors a server asks for; it needs a few more than it has connections."""
RESERVED_DESCRIPTORS = 128
"""Kept free for the database, for files, and for connections that are accepted before another one is closed."""


class ConnectionLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits that hold before anybody has shown a token."""

    connections: int = 4_096
    address_share: float = 0.5
    """The part of all connections that one address may have; a trusted proxy may have all."""
    header_seconds: float = 10.0
    """From the start of a connection, or the first byte of a later request, to the end of the headers."""
    body_idle_seconds: float = 10.0
    """The longest silence within a body."""
    body_seconds: float = 60.0
    """The time for a whole body, beside what its size takes at the slowest rate."""
    body_bytes_per_second: int = 16_384
    write_seconds: float = 60.0
    """How long a client may leave an answer unread."""
    idle_seconds: int = 75
    """How long a connection is kept between two requests."""


def raise_descriptor_limit() -> int:
    """Let this process open as many files as it may, up to what a server can use; how many that are."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, DESCRIPTORS)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(OSError, ValueError):  # some systems have a lower limit that they do not tell
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return DESCRIPTORS if soft == resource.RLIM_INFINITY else soft


class Group:
    """Connections that share a limit: all of them, or those of one address."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.size = 0
        self.unproven: dict[Connection, None] = {}
        """Connections that wait and have never completed a request, in the order in which they were opened."""
        self.idle: dict[Connection, None] = {}
        """Other connections that wait, the one that was answered first at the front."""

    def victim(self) -> Connection | None:
        """The connection to close in favour of a new one; None if all are being answered."""
        return next(iter(self.unproven), None) or next(iter(self.idle), None)


class Connections(ServerState):
    """The open connections of a server."""

    def __init__(self, limits: ConnectionLimits, descriptors: int, proxies: Iterable[str] = ()) -> None:
        super().__init__()
        self.limits = limits
        self.all = Group(min(limits.connections, max(descriptors - RESERVED_DESCRIPTORS, descriptors // 2)))
        self.proxies = [ip_network(one) for one in proxies]
        self.by_address: dict[str, Group] = {}
        self.open: set[Connection] = set()

    def admit(self, connection: Connection, address: str) -> bool:
        """Count a new connection, and close another one where there are too many; False if none can be closed."""
        key = self._key(address)
        own = self.by_address.get(key) or Group(self._share(address))
        for group in (own, self.all):
            if group.size >= group.limit:
                victim = group.victim()
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
        """A connection is gone, or as good as gone."""
        if connection in self.open:
            self.open.discard(connection)
            for group in connection.groups:
                group.size -= 1
                group.unproven.pop(connection, None)
                group.idle.pop(connection, None)
            if connection.groups[0].size == 0:
                self.by_address.pop(self._key(address), None)

    def _key(self, address: str) -> str:
        """The address, or the network of an IPv6 address: one subscriber has all addresses of a /64."""
        return str(ip_network((address, 64), strict=False)) if ":" in address else address

    def _share(self, address: str) -> int:
        if self.proxies and any(ip_address(address) in network for network in self.proxies):
            return self.all.limit
        return max(1, int(self.all.limit * self.limits.address_share))

    def close_overdue(self, now: float) -> None:
        """Close the connections whose deadline has passed."""
        for connection in [one for one in self.open if one.is_overdue(now)]:
            connection.drop()


class Connection(H11Protocol):
    """One connection, with deadlines for its client."""

    server_state: Connections

    def __init__(
        self,
        config: Config,
        server_state: Connections,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self.groups: tuple[Group, ...] = ()
        self.address = ""
        self.is_proven = False
        """Whether a request has been answered here."""
        self.header_deadline: float | None = None
        self.idle_deadline: float | None = None
        self.write_deadline: float | None = None
        self.body_started: float | None = None
        self.body_bytes = 0
        self.last_byte = 0.0

    # -- what uvicorn and the transport tell ------------------------------------------------------------------------

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

    # -- where it stands --------------------------------------------------------------------------------------------

    @property
    def is_reading_body(self) -> bool:
        return self.conn.their_state is h11.SEND_BODY

    @property
    def is_busy(self) -> bool:
        """Whether a whole request is here and has not been answered."""
        return self.cycle is not None and not self.cycle.response_complete and not self.is_reading_body

    def _advance(self, now: float) -> None:
        """Set the deadlines for what the client has to send next."""
        if self.conn.their_state is not h11.IDLE:
            self.header_deadline = None
        is_idle = self.header_deadline is None and not self.is_busy and not self.is_reading_body
        self.idle_deadline = now + self.server_state.limits.idle_seconds if is_idle else None
        if not self.is_reading_body:
            self.body_started = None
        elif self.body_started is None:
            self.body_started, self.body_bytes = now, 0
        self._move()

    def _move(self) -> None:
        """Join the connections that may be closed in favour of others, or leave them."""
        for group in self.groups:
            if self.is_busy:
                group.unproven.pop(self, None)
                group.idle.pop(self, None)
            elif not self.is_proven:
                group.unproven.setdefault(self)
            else:
                group.unproven.pop(self, None)
                group.idle.setdefault(self)

    def is_overdue(self, now: float) -> bool:
        """Whether its client has had enough time."""
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
        """Close it without another word."""
        self.server_state.discard(self, self.address)
        self.transport.abort()
