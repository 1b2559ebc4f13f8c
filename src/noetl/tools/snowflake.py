"""kind: snowflake. SQL on Snowflake."""

from __future__ import annotations

import sys
from typing import Annotated

from noetl.model.kind import doc
from noetl.model.outcome import Outcome
from noetl.tools.base import Context, missing_driver
from noetl.tools.fields import Auth, SqlInputs, sql_kind


class Inputs(SqlInputs, forbid_unknown_fields=True, kw_only=True):
    auth: Auth = None
    warehouse: Annotated[str | None, doc("Warehouse to use")] = None
    database: Annotated[str | None, doc("Database to use")] = None
    schema: Annotated[str | None, doc("Schema to use")] = None
    role: Annotated[str | None, doc("Role to use")] = None


KIND = sql_kind("snowflake", "Snowflake", Inputs, outcome="snowflake", credentials=("snowflake_credential",))


async def run(inputs: Inputs, context: Context) -> Outcome:
    try:
        from noetl.tools.rows.snowflake_call import call
    except ImportError:
        return missing_driver("snowflake", "snowflake")
    return await call(inputs, context)


async def close() -> None:
    if (database := sys.modules.get("noetl.tools.rows.snowflake_database")) is not None:
        await database.close_pool()
