"""The connection string of a call, from its credential, with checked addresses.

libpq accepts an address beside a name (`hostaddr` beside `host`): it connects to the address and verifies the
certificate of the name. So it connects only to checked addresses, even if a DNS response changes meanwhile.
"""

from __future__ import annotations

from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from noetl.addresses import anything_is_forbidden, check_address, checked_addresses
from noetl.model.outcome import Failure
from noetl.tools.base import Context
from noetl.tools.postgres import Inputs

CONNECT_SECONDS = 10
DEFAULT_ENTRY = "postgres"
DEFAULT_PORT = "5432"
NAMES = {"database": "dbname", "username": "user"}
"""Fields of a credential with another name in libpq."""
DEFAULTS = {"connect_timeout": CONNECT_SECONDS, "application_name": "noetl", "password": "", "passfile": ""}
"""Empty passwords keep libpq from sending those of the worker's own environment and files to a server."""


async def conninfo_of(inputs: Inputs, context: Context) -> str:
    """The connection string, which has the password: no part of it may occur in a message."""
    if inputs.dsn is not None:
        return _conninfo(inputs.dsn, {})
    credential = await context.credential(DEFAULT_ENTRY if inputs.auth is None else inputs.auth)
    fields = {
        NAMES.get(name, name): value for name, value in credential.items() if name != "kind" and value is not None
    }
    dsn = fields.pop("dsn", "")
    if not dsn and not fields:
        raise Failure("auth", "the credential has no fields: it needs `dsn`, or `host`, `user`, `password`, `database`")
    return _conninfo(str(dsn), fields)


def _conninfo(dsn: str, fields: dict[str, Any]) -> str:
    try:
        dsn_fields = conninfo_to_dict(dsn)
    except psycopg.Error:
        message = "the dsn is invalid: write postgresql://user@host:5432/database, or `host=... dbname=...`"
        raise Failure("input", message) from None
    try:
        return make_conninfo(**{**DEFAULTS, **dsn_fields, **fields, "client_encoding": "utf8"})
    except psycopg.Error:
        valid = "host, port, user, password, database, sslmode and the other keywords of libpq"
        names = ", ".join(sorted(fields))
        raise Failure("auth", f"the credential has a field that is not one of {valid} (it has {names})") from None


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
    columns = (_filled(parts, count) for parts in (hosts, addresses, ports))
    endpoints = [
        (host, checked, port)
        for host, address, port in zip(*columns, strict=True)
        for checked in _addresses(host, address, port)
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
