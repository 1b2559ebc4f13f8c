"""Addresses that nothing is sent to: on a server a playbook's author must not reach what only the machine may reach.

The service at which a machine in a cloud finds its own credentials answers anybody who can connect from there. Nothing
is forbidden unless a role asks for it: `noetl run` is the author's own machine. What counts is the address that is
connected to, so neither a name in the DNS nor a redirect nor another spelling of a number leads around it. Where the
environment names a proxy, names are resolved there: then only addresses that are written out are seen here.
"""

from __future__ import annotations

import socket
from collections.abc import Iterable, Iterator
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

Address = IPv4Address | IPv6Address

LINK_LOCAL = ("169.254.0.0/16", "fe80::/10")
METADATA = ("100.100.100.200/32", "168.63.129.16/32", "192.0.0.192/32", "fd00:ec2::/32", "fd20:ce::/32")
"""Metadata services that are not link-local: of Alibaba, Azure, Oracle, and of AWS and Google over IPv6."""

NAT64 = ip_network("64:ff9b::/96")
COMPATIBLE = ip_network("::/96")
"""Old and new ways to write an IPv4 address as one of IPv6, beside those that the standard library knows."""

_forbidden: tuple[IPv4Network | IPv6Network, ...] = ()


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


def _read(text: str) -> Address | None:
    """The address that is written out, also as one number, in octal or in hexadecimal, as the system reads them."""
    try:
        return ip_address(text)
    except ValueError:
        pass
    try:
        return IPv4Address(socket.inet_aton(text))
    except (OSError, UnicodeEncodeError):
        return None


def _faces(address: Address) -> Iterator[Address]:
    """The address, and the IPv4 address that is inside one of IPv6."""
    yield address
    if isinstance(address, IPv6Address):
        if address in NAT64 or address in COMPATIBLE:
            yield IPv4Address(int(address) & 0xFFFFFFFF)
        yield from (inner for inner in (address.ipv4_mapped, address.sixtofour) if inner is not None)
