"""Adds checked addresses to the hosts of a connection string.

libpq accepts an address beside a name (`hostaddr` beside `host`): it connects to the address and verifies the
certificate of the name. So it connects only to checked addresses, even if a DNS response changes meanwhile.
"""

from __future__ import annotations

from psycopg.conninfo import conninfo_to_dict, make_conninfo

from noetl.addresses import anything_is_forbidden, check_address, checked_addresses

DEFAULT_PORT = "5432"


def with_addresses(target: str) -> str:
    """The connection string with an address for each host, which is repeated for each of its addresses.
    ForbiddenAddress or OSError if there is none. Blocks."""
    if not anything_is_forbidden():
        return target
    fields = conninfo_to_dict(target)
    hosts, addresses = _listed(fields.get("host")), _listed(fields.get("hostaddr"))
    count = max(len(hosts), len(addresses))
    if count == 0:  # a socket of this machine, or a host from the worker's environment
        return target
    ports = _listed(fields.get("port")) or [DEFAULT_PORT]
    endpoints = [
        (host, address, port)
        for host, address, port in zip(
            _filled(hosts, count), _filled(addresses, count), _filled(ports, count), strict=True
        )
        for address in _addresses(host, address, port)
    ]
    host, hostaddr, port = (",".join(part) for part in zip(*endpoints, strict=True))
    return make_conninfo(target, host=host, hostaddr=hostaddr, port=port)


def _listed(text: object) -> list[str]:
    return [] if text in (None, "") else [part.strip() for part in str(text).split(",")]


def _filled(parts: list[str], count: int) -> list[str]:
    """One for each host, as in libpq: a single port is used for all."""
    return parts * count if len(parts) == 1 else [*parts, *[""] * (count - len(parts))]


def _addresses(host: str, address: str, port: str) -> list[str]:
    if address:
        check_address(host or address, address)
        return [address]
    if not host or host[0] in "/@":
        return [""]
    return checked_addresses(host, port or DEFAULT_PORT)
