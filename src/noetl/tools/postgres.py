"""kind: postgres. SQL on PostgreSQL, and bulk inserts by COPY."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from noetl.model.kind import Kind
from noetl.tools.fields import Auth, Columns, Command, Params, Query, Rows, Table


class Inputs(Struct, forbid_unknown_fields=True, kw_only=True):
    auth: Auth = None
    dsn: Annotated[
        str | None,
        Meta(description="Connection string, for classic playbooks; `auth` keeps it out of the text"),
    ] = None
    command: Command = None
    query: Query = None
    params: Params = None
    table: Table = None
    columns: Columns = None
    rows: Rows = None


KIND = Kind(
    name="postgres",
    summary="Runs SQL on PostgreSQL; the result is `{rows, row_count, columns}`",
    inputs=Inputs,
    timeout=300,
    extra="postgres",
    sql=("command", "query"),
    outcome="pg",
    result="rows",
    one_of=(("command", "query", "table"),),
)
