"""kind: snowflake. SQL on Snowflake.

Templates that are text are bound; where Snowflake accepts only a literal they are quoted. Lists and maps become
`PARSE_JSON(...)`, which Snowflake allows in SELECT and not in VALUES: insert them with `INSERT ... SELECT`. Several
statements that only read and change rows are one transaction; others commit by themselves, as Snowflake defines it.
`PUT` and `GET`, which would access files of the worker, are rejected.

In the result decimals, dates and times are text, VARIANT, OBJECT and ARRAY are values, and BINARY is binary content. An
unquoted name is upper case, in results as in Snowflake. `outcome.snowflake` has `code`, `sqlstate` and
`query_id`.

A credential has `account`, `user`, and `password` or `private_key` (PEM, with `private_key_passphrase` where it has
one) or `authenticator` and `token`; `warehouse`, `database`, `schema`, `role`, `host`, `port` and `protocol` as needed.
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
    warehouse: Annotated[str | None, Meta(description="Warehouse to use")] = None
    database: Annotated[str | None, Meta(description="Database to use")] = None
    schema: Annotated[str | None, Meta(description="Schema to use")] = None
    role: Annotated[str | None, Meta(description="Role to use")] = None


KIND = sql_kind("snowflake", "Snowflake", Inputs, outcome="snowflake")


async def run(inputs: Inputs, context: Context) -> Outcome:
    try:
        import snowflake.connector  # noqa: F401
    except ImportError:
        return missing_driver("snowflake", "snowflake")
    from noetl.tools.rows.snowflake_call import call

    return await call(inputs, context)


async def close() -> None:
    """End the sessions of this event loop."""
    session = sys.modules.get("noetl.tools.rows.snowflake_session")
    if session is not None:
        await session.close_pool()
