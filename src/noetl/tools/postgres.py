"""kind: postgres. SQL on PostgreSQL, and bulk inserts by COPY."""

from __future__ import annotations

import sys
from typing import Annotated

from noetl.model.kind import doc
from noetl.model.outcome import Outcome
from noetl.tools.base import Context, missing_driver
from noetl.tools.fields import Auth, SqlInputs, sql_kind


class Inputs(SqlInputs, forbid_unknown_fields=True, kw_only=True):
    auth: Auth = None
    dsn: Annotated[str | None, doc("Connection string, for classic playbooks; prefer `auth`")] = None


KIND = sql_kind("postgres", "PostgreSQL", Inputs, outcome="pg", credentials=("postgres_credential", "basic"))


async def run(inputs: Inputs, context: Context) -> Outcome:
    try:
        from noetl.tools.postgres_client.call import call
    except ImportError:
        return missing_driver("postgres", "postgres")
    return await call(inputs, context)


async def close() -> None:
    if (connections := sys.modules.get("noetl.tools.postgres_client.connections")) is not None:
        await connections.close_pools()
