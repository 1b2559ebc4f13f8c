"""kind: transfer. Copies rows between databases, files and HTTP, in batches."""

from __future__ import annotations

from importlib import import_module
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from noetl.model.kind import Kind, doc
from noetl.model.outcome import Outcome
from noetl.tools.base import Context, missing_driver
from noetl.tools.fields import Auth, Key, Mode, Scalar

EndpointKind = Literal["postgres", "duckdb", "snowflake", "http", "file"]
Format = Literal["csv", "json", "jsonl", "parquet"]


class TransferSource(Struct, forbid_unknown_fields=True, kw_only=True):
    kind: Annotated[EndpointKind, doc("Where the rows come from")]
    auth: Auth = None
    query: Annotated[str | None, doc("SQL that returns the rows")] = None
    params: Annotated[list[Any] | dict[str, Any] | None, doc("Values for placeholders of the SQL")] = None
    table: Annotated[str | None, doc("Table to read whole, in place of a query")] = None
    database: Annotated[str | None, doc("File of a DuckDB database, or a database")] = None
    url: Annotated[str | None, doc("URL that responds with the rows")] = None
    headers: Annotated[dict[str, Scalar], doc("Headers to send to the URL")] = {}
    rows: Annotated[str | None, doc("Path of the rows in the response, such as `data.items`")] = None
    path: Annotated[str | None, doc("File to read")] = None
    format: Annotated[Format | None, doc("Format of the file; by default that of its suffix")] = None


class TransferTarget(Struct, forbid_unknown_fields=True, kw_only=True):
    kind: Annotated[EndpointKind, doc("Where the rows go")]
    auth: Auth = None
    table: Annotated[str | None, doc("Table to write to; created if it does not exist")] = None
    database: Annotated[str | None, doc("File of a DuckDB database, or a database")] = None
    url: Annotated[str | None, doc("URL that receives each batch as a JSON list")] = None
    method: Annotated[Literal["POST", "PUT"], doc("HTTP method")] = "POST"
    headers: Annotated[dict[str, Scalar], doc("Headers to send to the URL")] = {}
    path: Annotated[str | None, doc("File to write")] = None
    format: Annotated[Format | None, doc("Format of the file; by default that of its suffix")] = None


class Inputs(Struct, forbid_unknown_fields=True, kw_only=True):
    source: Annotated[TransferSource, doc("Where the rows come from")]
    target: Annotated[TransferTarget, doc("Where the rows go")]
    columns: Annotated[
        dict[str, str] | None, doc("Columns to write, each with its column in the source; all by default")
    ] = None
    mode: Mode = "append"
    key: Key = []
    batch_size: Annotated[int, Meta(ge=1, description="Number of rows in a batch")] = 10_000


KIND = Kind(
    name="transfer",
    summary="Copies rows between databases, HTTP and files in batches",
    inputs=Inputs,
    timeout=3600,
    extra="duckdb",
    sql=("source.query",),
)

DRIVERS = {"duckdb": "duckdb", "postgres": "psycopg", "snowflake": "snowflake.connector"}


async def run(inputs: Inputs, context: Context) -> Outcome:
    for kind in ("duckdb", inputs.source.kind, inputs.target.kind):  # every transfer needs DuckDB
        try:
            if kind in DRIVERS:
                import_module(DRIVERS[kind])
        except ImportError:
            return missing_driver("transfer", kind)
    from noetl.tools.rows.transfer_job import call

    return await call(inputs, context)
