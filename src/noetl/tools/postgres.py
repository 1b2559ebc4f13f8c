"""kind: postgres. SQL on PostgreSQL, and bulk inserts by COPY.

A template in `command` or `query` is one value: text, a number, a list (an array; `IN ({{ ids }})` takes it as its
list), a map (jsonb) or null, never a piece of SQL. Text goes as a literal without a type, so `id = {{ "7" }}` works on
a column of numbers. `{{ name | ident }}` is a name. `params` fill the placeholders of the driver, `%s` or `%(name)s`.

Without `auth` and `dsn` the call signs in with the keychain entry `postgres`. Connections are kept for a minute, and
nothing that a call does to its session is seen by the next one.

Several statements are one transaction, unless they begin and end transactions themselves. A single statement is
committed by itself, so what refuses transactions (VACUUM, CREATE DATABASE) works alone. With `table` the rows are
copied into it, all or none.

In the result whole numbers, floats, booleans and JSON are what they are, arrays are lists and bytea is binary content;
numeric (every digit kept), dates and times (ISO 8601), UUIDs, intervals and all other types are text: cast to
`float8` what is to be calculated with. `row_count` is the number of rows that were read or changed. Of several
statements the result is the last one's, and `statements` has `row_count` and `columns` of each. A result above
50 MiB is an error.

`outcome.pg` has `code` and `sqlstate`, null where all went well; after an error of the server also what it told of
`severity`, `constraint`, `table`, `column`, `position` and `line`.

`spec.exactly_once: true` writes a row into the table `noetl_ledger` of the current schema in the same transaction. A
call that was committed and is made again, because the answer was lost, does nothing and gives the first result again,
binary content as base64 and without the rows if they are above 1 MiB. The table is made if it is missing; its rows may
be deleted once their executions are over.
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
        str | None,
        Meta(description="Connection string, for classic playbooks; `auth` keeps it out of the text"),
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
    pool = sys.modules.get("noetl.tools.postgres_client.pool")
    if pool is not None:
        await pool.close_pools()
