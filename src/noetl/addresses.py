"""The address guard: refuses connections to link-local addresses and cloud metadata services.

A metadata service gives the credentials of a machine to every process that can connect from it. So every kind and
provider that connects to an address from a playbook or a credential checks it here first. The guard is off unless a
role enables it: `noetl run` runs on the author's own machine.

The guard checks the resolved address, so DNS names, redirects and other notations of an address do not bypass it. When
the check happens depends on the driver:

- `http`, `container` and the providers of the keychain check the address of the open connection, before they send
  anything (`tools/http_client/network.py`);
- `postgres` and `transfer` connect to exactly the addresses that were checked (`tools/postgres_client/connections.py`);
- `s3`, `gcs`, `object`, `nats` and `snowflake` resolve and check the host before each call. Their drivers resolve the
  name again, so only network policies can stop a DNS name that changes in between.

If the environment names a proxy, the proxy resolves names: then the guard checks only literal addresses.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterable, Iterator
from contextlib import suppress
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

from noetl.model.outcome import Failure

Address = IPv4Address | IPv6Address

LINK_LOCAL = ("169.254.0.0/16", "fe80::/10")
# Metadata services that are not link-local: of Alibaba, Azure, Oracle, and of AWS and Google over IPv6.
METADATA = ("100.100.100.200/32", "168.63.129.16/32", "192.0.0.192/32", "fd00:ec2::/32", "fd20:ce::/32")
LOCAL_NAT64 = IPv6Network("64:ff9b:1::/48")  # NAT64 with a prefix of one's own; of 96 bits, as nearly all have
# Networks whose addresses end with an IPv4 address: compatible, mapped, translated (SIIT), NAT64.
IPV4_AT_END = (*map(IPv6Network, ("::/96", "::ffff:0:0/96", "::ffff:0:0:0/96", "64:ff9b::/96")), LOCAL_NAT64)

_forbidden: tuple[IPv4Network | IPv6Network, ...] = ()


class ForbiddenAddress(Failure):
    """The host resolves to an address that this role must not connect to."""

    def __init__(self, host: str, address: str) -> None:
        where = address if address == host else f"{host} is at {address}, which"
        super().__init__("connect", f"{where} is link-local or a metadata service: nothing is sent there from here")


def forbid_addresses(networks: Iterable[str] = LINK_LOCAL + METADATA) -> None:
    """Refuse connections to these networks. A role calls this when it starts; an empty list allows all."""
    global _forbidden
    _forbidden = tuple(ip_network(network) for network in networks)


def anything_is_forbidden() -> bool:
    return bool(_forbidden)


def is_forbidden(address: str) -> bool:
    """Whether this address is forbidden; False for text that is not an address."""
    literal = _parse(address) if _forbidden else None
    return literal is not None and any(form in network for form in _forms(literal) for network in _forbidden)


def check_address(host: str, address: str) -> None:
    if is_forbidden(address):
        raise ForbiddenAddress(host, address)


async def check_host(host: str) -> None:
    if _forbidden:
        await asyncio.to_thread(check_host_blocking, host)


def check_host_blocking(host: str) -> None:
    """ForbiddenAddress if a host resolves to a forbidden address. An unknown host passes: the driver reports it with
    a better error."""
    if _forbidden:
        with suppress(OSError, UnicodeError):
            checked_addresses(host)


def checked_addresses(host: str, port: int | str | None = None) -> list[str]:
    """The addresses of a host; ForbiddenAddress if one is forbidden, OSError if there is none. Blocks."""
    check_address(host, host)
    entries = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    addresses = list(dict.fromkeys(str(entry[4][0]) for entry in entries))
    for address in addresses:
        check_address(host, address)
    return addresses


def _parse(text: str) -> Address | None:
    """The literal address, also as one number, in octal or in hexadecimal, as the system parses it."""
    text = text.removeprefix("[").removesuffix("]")
    try:
        return ip_address(text)
    except ValueError:
        pass
    try:
        return IPv4Address(socket.inet_aton(text))
    except (OSError, UnicodeEncodeError):
        return None


def _forms(address: Address) -> Iterator[Address]:
    yield address
    if not isinstance(address, IPv6Address):
        return
    if any(address in network for network in IPV4_AT_END):
        yield IPv4Address(int(address) & 0xFFFFFFFF)
    if address in LOCAL_NAT64:
        data = address.packed  # RFC 6052: after a prefix of 48, 56 or 64 bits the address skips the eighth byte
        yield from (IPv4Address((data[start:8] + data[9:])[:4]) for start in (6, 7, 8))
    if address.sixtofour is not None:
        yield address.sixtofour
    if address.teredo is not None:  # the relay, and the client behind it
        yield from address.teredo
