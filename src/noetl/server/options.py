"""Settings of a server, and the addresses that it may listen on."""

from __future__ import annotations

from ipaddress import ip_address
from typing import TYPE_CHECKING

import msgspec

from noetl.errors import UsageError
from noetl.log import Log
from noetl.runtime.runtime import OpenCredential, no_credentials
from noetl.store.access import Access

if TYPE_CHECKING:
    from noetl.keychain.safe import Safe
    from noetl.nats.connection import NatsConnection


class ServerSettings(msgspec.Struct, frozen=True, kw_only=True):
    hosts: tuple[str, ...] = ()
    """Host names that it accepts, in addition to `localhost` and addresses."""
    version: str = ""
    log_requests: bool = True
    open_credential: OpenCredential = no_credentials
    safe: Safe | None = None
    """The store of credentials; without it the server has none."""
    bus: NatsConnection | None = None
    """The connection to NATS, if there is one. The caller keeps it running."""
    traces: str = ""
    """URL that receives spans over OTLP/HTTP; empty: no spans."""
    log: Log | None = None
    """Default: JSON on standard error."""


def check_address(host: str, access: Access, now: float) -> None:
    """UsageError if others could reach the server although nobody can sign in."""
    if is_loopback(host):
        return
    if access.users() or any(token.is_valid(now) and token.role != "worker" for token in access.tokens()):
        return
    raise UsageError(
        f"{host} can be reached by others, and nobody can sign in yet: make a token (`noetl token create --role "
        "admin`) or a user (`noetl user add NAME --role admin`) first, or listen on 127.0.0.1"
    )


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach the address."""
    if host == "localhost":
        return True
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
