"""The address guard: on a server, a playbook's author must not reach what only the machine itself may reach.

The service at which a machine in a cloud finds its own credentials answers anybody who can connect from there. So every
kind and provider that connects to an address from a playbook or a credential asks this module first. Nothing is
forbidden unless a role asks for it: `noetl run` is the author's own machine.

What counts is the address that is connected to: neither a name in the DNS nor a redirect nor another spelling of a
number leads around it. How close to the connection it is asked depends on the driver:

- `http`, `container` and the providers of the keychain look at the address that a connection has reached, before
  anything is sent (`http_client/network.py`);
- `postgres` and `transfer` connect to the very addresses that were checked (`postgres_client/hosts.py`);
- `s3`, `gcs`, `object`, `nats` and `snowflake` resolve and check the host before each call. Their drivers take no
  address beside a name, so a name whose answer changes in that moment is for the network's own rules to stop.

Where the environment names a proxy, names are resolved there: then only addresses that are written out are seen here.
"""

from __future__ import annotations

import socket
from collections.abc import Iterable, Iterator
from contextlib import suppress
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

from noetl.tools.base import Failure

Address = IPv4Address | IPv6Address

LINK_LOCAL = ("169.254.0.0/16", "fe80::/10")
METADATA = ("100.100.100.200/32", "168.63.129.16/32", "192.0.0.192/32", "fd00:ec2::/32", "fd20:ce::/32")
"""Metadata services that are not link-local: of Alibaba, Azure, Oracle, and of AWS and Google over IPv6."""

LAST_32_BITS = tuple(
    IPv6Network(network)
    for network in (
        "::/96",  # IPv4-compatible
        "::ffff:0:0/96",  # IPv4-mapped
        "::ffff:0:0:0/96",  # SIIT: IPv4-translated
        "64:ff9b::/96",  # NAT64
        "64:ff9b:1::/48",  # NAT64 with a prefix of one's own; of 96 bits, as nearly all have
    )
)
"""IPv6 networks whose addresses end with an IPv4 address."""
LOCAL_NAT64 = IPv6Network("64:ff9b:1::/48")

_forbidden: tuple[IPv4Network | IPv6Network, ...] = ()


class ForbiddenAddress(Failure):
    """The host is at an address that this role does not connect to."""

    def __init__(self, host: str, address: str) -> None:
        where = address if address == host else f"{host} is at {address}, which"
        super().__init__("connect", f"{where} is link-local or a metadata service: nothing is sent there from here")


def forbid_addresses(networks: Iterable[str] = LINK_LOCAL + METADATA) -> None:
    """From now on connect to none of these networks. A role calls this when it starts; no network allows all."""
    global _forbidden
    _forbidden = tuple(ip_network(network) for network in networks)


def anything_is_forbidden() -> bool:
    return bool(_forbidden)


def is_forbidden(address: str) -> bool:
    """Whether nothing may be sent to this address; False for what is none."""
    found = _read(address) if _forbidden else None
    return found is not None and any(face in network for face in _faces(found) for network in _forbidden)


def check_address(host: str, address: str) -> None:
    """ForbiddenAddress if nothing may be sent to an address that a host has."""
    if is_forbidden(address):
        raise ForbiddenAddress(host, address)


async def check_host(host: str) -> None:
    """ForbiddenAddress if a host is at an address that nothing may be sent to. One that is not known passes: the driver
    that asks for it tells so better."""
    import asyncio

    if anything_is_forbidden():
        await asyncio.to_thread(check_host_blocking, host)


def check_host_blocking(host: str) -> None:
    """The same in a thread."""
    if anything_is_forbidden():
        with suppress(OSError, UnicodeError):
            checked_addresses(host)


def checked_addresses(host: str, port: int | str | None = None) -> list[str]:
    """The addresses of a host, all of them allowed; OSError if it has none. Blocks."""
    check_address(host, host)
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    addresses = list(dict.fromkeys(str(one[4][0]) for one in found))
    for address in addresses:
        check_address(host, address)
    return addresses


def _read(text: str) -> Address | None:
    """The address that is written out, also as one number, in octal or in hexadecimal, as the system reads them."""
    text = text.removeprefix("[").removesuffix("]")
    try:
        return ip_address(text)
    except ValueError:
        pass
    try:
        return IPv4Address(socket.inet_aton(text))
    except (OSError, UnicodeEncodeError):
        return None


def _faces(address: Address) -> Iterator[Address]:
    """The address, and every IPv4 address that one of IPv6 may lead to."""
    yield address
    if not isinstance(address, IPv6Address):
        return
    if any(address in network for network in LAST_32_BITS):
        yield IPv4Address(int(address) & 0xFFFFFFFF)
    if address in LOCAL_NAT64:
        yield from _inside_prefix(address)
    if address.sixtofour is not None:
        yield address.sixtofour
    if address.teredo is not None:  # the relay, and the client behind it
        yield from address.teredo


def _inside_prefix(address: IPv6Address) -> Iterator[IPv4Address]:
    """RFC 6052: behind a prefix of 48, 56 or 64 bits the IPv4 address goes around the eighth byte, which is zero."""
    data = address.packed
    for start in (6, 7, 8):
        yield IPv4Address((data[start:8] + data[9:])[:4])
