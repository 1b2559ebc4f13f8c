"""kind: duckdb. SQL on DuckDB, in memory or in a file, over Parquet, CSV and JSON."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from noetl.model.kind import Kind
from noetl.tools.fields import Columns, Command, Params, Query, Rows, Table


class Inputs(Struct, forbid_unknown_fields=True, kw_only=True):
    database: Annotated[
        str | None, Meta(description="File of the database; in memory, for this call only, if not given")
    ] = None
    read_only: Annotated[bool, Meta(description="Open the file for reading only")] = False
    paths: Annotated[list[str], Meta(description="Folders and files that the statements may read and write")] = []
    command: Command = None
    query: Query = None
    params: Params = None
    table: Table = None
    columns: Columns = None
    rows: Rows = None


KIND = Kind(
    name="duckdb",
    summary="Runs SQL on DuckDB; the result is `{rows, row_count, columns}`",
    inputs=Inputs,
    timeout=300,
    extra="duckdb",
    sql=("command", "query"),
    outcome="duckdb",
    result="rows",
    one_of=(("command", "query", "table"),),
)
