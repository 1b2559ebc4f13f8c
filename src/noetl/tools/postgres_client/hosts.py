"""The hosts of a connection string with their addresses, where some are forbidden.

libpq takes an address beside a name (`hostaddr` beside `host`): it connects to the one and checks the certificate of
the other. So it connects to nothing that was not checked, whatever the DNS says a moment later.
"""

from __future__ import annotations

from psycopg.conninfo import conninfo_to_dict, make_conninfo

from noetl.addresses import anything_is_forbidden, check_address, checked_addresses

DEFAULT_PORT = "5432"


def with_addresses(target: str) -> str:
    """The connection string with an address for each host; one with several addresses is listed once for each.
    ForbiddenAddress or OSError if there is none to connect to. Blocks."""
    if not anything_is_forbidden():
        return target
    given = conninfo_to_dict(target)
    hosts, addresses = _listed(given.get("host")), _listed(given.get("hostaddr"))
    count = max(len(hosts), len(addresses))
    if count == 0:  # a socket of this machine, or what the worker's own environment names
        return target
    ports = _listed(given.get("port")) or [DEFAULT_PORT]
    found = [
        (host, address, port)
        for host, address, port in zip(
            _filled(hosts, count), _filled(addresses, count), _filled(ports, count), strict=True
        )
        for address in _addresses(host, address, port)
    ]
    names, known, doors = (",".join(part) for part in zip(*found, strict=True))
    return make_conninfo(target, host=names, hostaddr=known, port=doors)


def _listed(text: object) -> list[str]:
    return [] if text in (None, "") else [part.strip() for part in str(text).split(",")]


def _filled(parts: list[str], count: int) -> list[str]:
    """One for each host, as libpq reads it: a single port is that of all."""
    return parts * count if len(parts) == 1 else [*parts, *[""] * (count - len(parts))]


def _addresses(host: str, address: str, port: str) -> list[str]:
    if address:
        check_address(host or address, address)
        return [address]
    if not host or host[0] in "/@":
        return [""]
    return checked_addresses(host, port or DEFAULT_PORT)
