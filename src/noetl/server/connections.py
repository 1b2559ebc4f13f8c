"""Connection limits: how many connections a server keeps open, and how long it waits for a client.

They apply before authentication. A connection *waits* while the client has to send data, and is *busy* while the server
has to respond: long polls and event streams are busy and have no deadline. A waiting connection has a deadline for the
headers, for each part of a request body and for the whole body. A client that does not read the response has one, too.

There is a limit for all connections and one per address. When a limit is reached, the server closes the oldest
connection that has never completed a request, or else the one that has been idle longest. So idle connections cannot
lock out clients that send complete requests.
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
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

DESCRIPTORS = 65_536
"""Requested file descriptor limit; a server needs a few more descriptors than connections."""
RESERVED_DESCRIPTORS = 128
"""Kept free for the database, for files, and for connections that are accepted before another one is closed."""


class ConnectionLimits(msgspec.Struct, frozen=True, kw_only=True):
    connections: int = 4_096
    address_share: float = 0.5
    """Fraction of all connections available to one address; a trusted proxy may use all."""
    header_seconds: float = 10.0
    """From the start of a connection, or the first byte of a later request, to the end of the headers."""
    body_idle_seconds: float = 10.0
    body_seconds: float = 60.0
    """Time for a whole request body, plus its size at the minimum rate."""
    body_bytes_per_second: int = 16_384
    write_seconds: float = 60.0
    """Maximum time for which a client may not read the response."""
    idle_seconds: int = 75


def raise_descriptor_limit() -> int:
    """Raise the file descriptor limit of this process, up to DESCRIPTORS; returns the new limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, DESCRIPTORS)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(OSError, ValueError):  # some systems have a lower limit that they do not report
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return DESCRIPTORS if soft == resource.RLIM_INFINITY else soft


class ConnectionGroup:
    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.size = 0
        self.unproven: dict[Connection, None] = {}
        """Waiting connections that have never completed a request, oldest first."""
        self.idle: dict[Connection, None] = {}
        """Other waiting connections, the longest idle first."""

    def victim(self) -> Connection | None:
        """The connection to close in favour of a new one; None if all are busy."""
        return next(iter(self.unproven), None) or next(iter(self.idle), None)


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
        key = self._key(address)
        own = self.by_address.get(key) or ConnectionGroup(self._share(address))
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
        """Remove a connection that is closed or about to be closed."""
        if connection in self.open:
            self.open.discard(connection)
            for group in connection.groups:
                group.size -= 1
                group.unproven.pop(connection, None)
                group.idle.pop(connection, None)
            if connection.groups[0].size == 0:
                self.by_address.pop(self._key(address), None)

    def _key(self, address: str) -> str:
        """The IPv4 address, or the /64 network of an IPv6 address, which belongs to one subscriber."""
        return str(ip_network((address, 64), strict=False)) if ":" in address else address

    def _share(self, address: str) -> int:
        if self.proxies and any(ip_address(address) in network for network in self.proxies):
            return self.all.limit
        return max(1, int(self.all.limit * self.limits.address_share))

    def close_overdue(self, now: float) -> None:
        for connection in [connection for connection in self.open if connection.is_overdue(now)]:
            connection.drop()


class Connection(H11Protocol):
    server_state: Connections

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.groups: tuple[ConnectionGroup, ...] = ()
        self.address = ""
        self.is_proven = False
        """Whether this connection has completed a request."""
        self.header_deadline: float | None = None
        self.idle_deadline: float | None = None
        self.write_deadline: float | None = None
        self.body_started: float | None = None
        self.body_bytes = 0
        self.last_byte = 0.0

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
    def is_reading_body(self) -> bool:
        return self.conn.their_state is h11.SEND_BODY

    @property
    def is_busy(self) -> bool:
        """Whether a complete request was received and its response is not complete."""
        return self.cycle is not None and not self.cycle.response_complete and not self.is_reading_body

    def _advance(self, now: float) -> None:
        """Set the deadlines for the data that the client has to send next."""
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
        """Update which groups may close this connection in favour of others."""
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
        """Close the connection without a response."""
        self.server_state.discard(self, self.address)
        self.transport.abort()
