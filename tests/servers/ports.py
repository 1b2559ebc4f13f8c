"""Ports that a test names before a server listens on them."""

from __future__ import annotations

import socket


def reserved_port() -> int:
    """A port where nobody listens, and which nobody else gets until this process ends.

    It stays bound without listening: connections are refused, and the kernel gives it to no other socket. A server
    that sets SO_REUSEADDR, as all of them do, can listen on it, and again after a restart.
    """
    holder = socket.socket()
    holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    holder.bind(("127.0.0.1", 0))
    port: int = holder.getsockname()[1]
    holder.detach()  # leave it open
    return port
