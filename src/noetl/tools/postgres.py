"""kind: postgres. SQL on PostgreSQL, and bulk inserts by COPY.

A template in `command` or `query` is one value: text, a number, a list (an array; `IN ({{ ids }})` takes it as its
list), a map (jsonb) or null, never a piece of SQL. Text goes as a literal without a type, so `id = {{ "7" }}` works on
a column of numbers. `{{ name | ident }}` is a name. `params` fill the placeholders of the driver, `%s` or `%(name)s`.

Without `auth` and `dsn` the call signs in with the keychain entry `postgres`. Connections are reused for a minute;
their session state is discarded after each call.

Several statements are one transaction, unless they begin and end transactions themselves. A single statement is
committed by itself, so a statement that cannot be in a transaction (VACUUM, CREATE DATABASE) works alone. With `table`
the rows are copied into it, all or none.

In the result whole numbers, floats, booleans and JSON are JSON values, arrays are lists and bytea is binary content;
numeric (with every digit), dates and times (ISO 8601), UUIDs, intervals and all other types are text: cast to `float8`
to calculate with it. `row_count` is the number of rows that were read or changed. The result of several statements is
that of the last, and `statements` has `row_count` and `columns` of each. A result above 50 MiB is an error.

`outcome.pg` has `code` and `sqlstate`, null after a success; after an error of the server also `severity`,
`constraint`, `table`, `column`, `position` and `line`, as far as the server sends them.

`spec.exactly_once: true` inserts a row into the table `noetl_ledger` of the current schema in the same transaction. A
committed call that is repeated because its response was lost changes nothing and returns the first result, with binary
content as base64, and without the rows if they are above 1 MiB. A missing table is created; its rows may be deleted
when their executions have ended.
"""

from __future__ import annotations

import sys
from typing import Annotated

from msgspec import Meta

from noetl.model.outcome import Outcome
from noetl.tools.base import Context, missing_driver
from noetl.tools.fields import Auth, SqlInputs, sql_kind


class Inputs(SqlInputs, forbid_unknown_fields=True, kw_only=True):
    auth: Auth = None
    dsn: Annotated[
        str | None, Meta(description="Connection string, for classic playbooks; `auth` keeps it out of the text")
    ] = None


KIND = sql_kind("postgres", "PostgreSQL", Inputs, outcome="pg")


async def run(inputs: Inputs, context: Context) -> Outcome:
    try:
        import psycopg  # noqa: F401
    except ImportError:
        return missing_driver("postgres", "postgres")
    from noetl.tools.postgres_client.call import call

    return await call(inputs, context)


async def close() -> None:
    """Close the idle connections of this event loop."""
    pool = sys.modules.get("noetl.tools.postgres_client.connections")
    if pool is not None:
        await pool.close_pools()
