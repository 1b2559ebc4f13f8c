"""The connection string of a call, from its credential."""

from __future__ import annotations

from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from noetl.model.outcome import Failure
from noetl.tools.base import Context
from noetl.tools.postgres import Inputs

CONNECT_SECONDS = 10
DEFAULT_ENTRY = "postgres"
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
