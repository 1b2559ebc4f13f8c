"""kind: transfer. Rows from one place to another, in batches."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from noetl.model.kind import Kind
from noetl.tools.fields import Auth, Scalar

End = Literal["postgres", "duckdb", "snowflake", "http", "file"]
Format = Literal["csv", "json", "jsonl", "parquet"]


class Source(Struct, forbid_unknown_fields=True, kw_only=True):
    kind: Annotated[End, Meta(description="Where the rows come from")]
    auth: Auth = None
    query: Annotated[str | None, Meta(description="SQL that gives the rows")] = None
    params: Annotated[list[Any] | dict[str, Any] | None, Meta(description="Values for the placeholders of the SQL")] = (
        None
    )
    table: Annotated[str | None, Meta(description="Table to read whole, in place of a query")] = None
    database: Annotated[str | None, Meta(description="File of a DuckDB database, or a database")] = None
    url: Annotated[str | None, Meta(description="Address that answers with the rows")] = None
    headers: Annotated[dict[str, Scalar], Meta(description="Headers to send to that address")] = {}
    rows: Annotated[str | None, Meta(description="Path of the rows in the answer, such as `data.items`")] = None
    path: Annotated[str | None, Meta(description="File to read")] = None
    format: Annotated[Format | None, Meta(description="Format of the file; its name decides if not given")] = None


class Target(Struct, forbid_unknown_fields=True, kw_only=True):
    kind: Annotated[End, Meta(description="Where the rows go")]
    auth: Auth = None
    table: Annotated[str | None, Meta(description="Table to write to")] = None
    database: Annotated[str | None, Meta(description="File of a DuckDB database, or a database")] = None
    url: Annotated[str | None, Meta(description="Address that takes each batch as a JSON list")] = None
    method: Annotated[Literal["POST", "PUT"], Meta(description="Method to send it with")] = "POST"
    headers: Annotated[dict[str, Scalar], Meta(description="Headers to send to that address")] = {}
    path: Annotated[str | None, Meta(description="File to write")] = None
    format: Annotated[Format | None, Meta(description="Format of the file; its name decides if not given")] = None


class Inputs(Struct, forbid_unknown_fields=True, kw_only=True):
    source: Annotated[Source, Meta(description="Where the rows come from")]
    target: Annotated[Target, Meta(description="Where the rows go")]
    columns: Annotated[
        dict[str, str] | None,
        Meta(description="Columns to write, each with the source's column to fill it from; all if not given"),
    ] = None
    mode: Annotated[
        Literal["append", "replace", "upsert"],
        Meta(description="Add to what is there, replace it, or update the rows that have the same `key`"),
    ] = "append"
    key: Annotated[list[str], Meta(description="Columns that tell rows apart, for `upsert`")] = []
    batch_size: Annotated[int, Meta(ge=1, description="Rows in one batch")] = 10_000


KIND = Kind(
    name="transfer",
    summary="Moves rows between databases, HTTP and files in batches",
    inputs=Inputs,
    timeout=3600,
    sql=("source.query",),
)
