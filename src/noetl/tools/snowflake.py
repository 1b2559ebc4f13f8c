"""kind: snowflake. SQL on Snowflake."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from noetl.model.kind import Kind
from noetl.tools.fields import Auth, Columns, Command, Params, Query, Rows, Table


class Inputs(Struct, forbid_unknown_fields=True, kw_only=True):
    auth: Auth = None
    warehouse: Annotated[str | None, Meta(description="Warehouse that does the work")] = None
    database: Annotated[str | None, Meta(description="Database to be in")] = None
    schema: Annotated[str | None, Meta(description="Schema to be in")] = None
    role: Annotated[str | None, Meta(description="Role to act as")] = None
    command: Command = None
    query: Query = None
    params: Params = None
    table: Table = None
    columns: Columns = None
    rows: Rows = None


KIND = Kind(
    name="snowflake",
    summary="Runs SQL on Snowflake; the result is `{rows, row_count, columns}`",
    inputs=Inputs,
    timeout=300,
    extra="snowflake",
    sql=("command", "query"),
    outcome="snowflake",
    result="rows",
    one_of=(("command", "query", "table"),),
)
