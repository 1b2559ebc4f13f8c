"""kind: transfer. Copies rows between databases, files and HTTP, in batches."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any, Literal

from msgspec import Meta, Struct

from noetl.model.kind import Kind
from noetl.model.outcome import Failure, Outcome
from noetl.tools import http, postgres
from noetl.tools.base import Context, missing_driver
from noetl.tools.fields import Auth, Scalar

if TYPE_CHECKING:
    from concurrent.futures import Future

    from noetl.tools.rows.transfer_job import Transfer

EndpointKind = Literal["postgres", "duckdb", "snowflake", "http", "file"]
Format = Literal["csv", "json", "jsonl", "parquet"]


class Source(Struct, forbid_unknown_fields=True, kw_only=True):
    kind: Annotated[EndpointKind, Meta(description="Where the rows come from")]
    auth: Auth = None
    query: Annotated[str | None, Meta(description="SQL that returns the rows")] = None
    params: Annotated[list[Any] | dict[str, Any] | None, Meta(description="Values for placeholders of the SQL")] = None
    table: Annotated[str | None, Meta(description="Table to read whole, in place of a query")] = None
    database: Annotated[str | None, Meta(description="File of a DuckDB database, or a database")] = None
    url: Annotated[str | None, Meta(description="URL that responds with the rows")] = None
    headers: Annotated[dict[str, Scalar], Meta(description="Headers to send to the URL")] = {}
    rows: Annotated[str | None, Meta(description="Path of the rows in the response, such as `data.items`")] = None
    path: Annotated[str | None, Meta(description="File to read")] = None
    format: Annotated[Format | None, Meta(description="Format of the file; by default that of its suffix")] = None


class Target(Struct, forbid_unknown_fields=True, kw_only=True):
    kind: Annotated[EndpointKind, Meta(description="Where the rows go")]
    auth: Auth = None
    table: Annotated[str | None, Meta(description="Table to write to; created if it does not exist")] = None
    database: Annotated[str | None, Meta(description="File of a DuckDB database, or a database")] = None
    url: Annotated[str | None, Meta(description="URL that receives each batch as a JSON list")] = None
    method: Annotated[Literal["POST", "PUT"], Meta(description="HTTP method")] = "POST"
    headers: Annotated[dict[str, Scalar], Meta(description="Headers to send to the URL")] = {}
    path: Annotated[str | None, Meta(description="File to write")] = None
    format: Annotated[Format | None, Meta(description="Format of the file; by default that of its suffix")] = None


class Inputs(Struct, forbid_unknown_fields=True, kw_only=True):
    source: Annotated[Source, Meta(description="Where the rows come from")]
    target: Annotated[Target, Meta(description="Where the rows go")]
    columns: Annotated[
        dict[str, str] | None, Meta(description="Columns to write, each with its column in the source; all by default")
    ] = None
    mode: Annotated[
        Literal["append", "replace", "upsert"],
        Meta(description="Append, replace all rows, or update rows with the same `key`"),
    ] = "append"
    key: Annotated[list[str], Meta(description="Columns that identify a row, for `upsert`")] = []
    batch_size: Annotated[int, Meta(ge=1, description="Number of rows in a batch")] = 10_000


KIND = Kind(
    name="transfer",
    summary="Copies rows between databases, HTTP and files in batches",
    inputs=Inputs,
    timeout=3600,
    extra="duckdb",
    sql=("source.query",),
)

FIELDS = {
    "postgres": ("auth", "query", "params", "table"),
    "duckdb": ("database", "query", "params", "table"),
    "snowflake": ("auth", "query", "params", "table", "database"),
    "http": ("auth", "url", "headers", "rows"),
    "file": ("path", "format"),
}
"""Fields of each kind of endpoint beside `kind` and `method`."""
REQUIRED = {
    "http": ("url",),
    "file": ("path",),
    "duckdb": ("database", "table"),
    "postgres": ("table",),
    "snowflake": ("table",),
}
DRIVERS = {"duckdb": "duckdb", "postgres": "psycopg", "snowflake": "snowflake.connector"}


async def run(inputs: Inputs, context: Context) -> Outcome:
    for kind in ("duckdb", inputs.source.kind, inputs.target.kind):  # every transfer needs DuckDB
        try:
            if kind in DRIVERS:
                import_module(DRIVERS[kind])
        except ImportError:
            return missing_driver("transfer", kind)
    from noetl.tools.rows.blocking import in_thread

    _check(inputs)
    transfer = await _transfer(inputs, context)
    return Outcome(result=await in_thread(transfer.run))


def _check(inputs: Inputs) -> None:
    source, target = inputs.source, inputs.target
    for side, endpoint in (("source", source), ("target", target)):
        fields = (*FIELDS[endpoint.kind], "kind", "method")
        for field in endpoint.__struct_fields__:
            if field not in fields and getattr(endpoint, field):
                raise Failure("input", f"{endpoint.kind} has no `{side}.{field}`: leave it out")
    if source.kind in ("postgres", "duckdb", "snowflake"):
        if (source.query is None) == (source.table is None):
            raise Failure("input", "the source needs either `query` or `table`")
    elif getattr(source, REQUIRED[source.kind][0]) is None:
        raise Failure("input", f"the source needs `{REQUIRED[source.kind][0]}`")
    for field in REQUIRED[target.kind]:
        if not getattr(target, field):
            raise Failure("input", f"the target needs `{field}`")
    if inputs.mode == "upsert" and not inputs.key:
        raise Failure("input", "`upsert` needs a `key`")
    if inputs.key and inputs.mode != "upsert":
        raise Failure("input", "`key` is only for `mode: upsert`: leave it out")
    if target.kind == "http" and inputs.mode != "append":
        raise Failure("input", "http only appends rows: leave `mode` out")


async def _transfer(inputs: Inputs, context: Context) -> Transfer:
    import asyncio

    from noetl.tools.rows.staged_endpoints import rows_of
    from noetl.tools.rows.transfer_job import Transfer

    source, target, loop = inputs.source, inputs.target, asyncio.get_running_loop()

    def log(line: str) -> None:
        loop.call_soon_threadsafe(context.log, "progress", line)

    async def request(endpoint: Source | Target, headers: Mapping[str, Scalar], **body: Any) -> Any:
        """The body of the response; Failure if the request fails."""
        call = http.Inputs(url=endpoint.url or "", headers={**headers}, auth=endpoint.auth, **body)
        outcome = await http.run(call, context)
        if (error := outcome.error) is not None:
            raise Failure(error.kind, error.message, retryable=error.retryable, extra=outcome.extra, **error.details)
        return outcome.result["data"]

    def send(batch: list[dict[str, Any]], number: int) -> Future[None]:
        headers = {"Idempotency-Key": f"{context.idempotency_key}.{number}", **target.headers}
        sending = request(target, headers, method=target.method, json=batch)
        return asyncio.run_coroutine_threadsafe(sending, loop)

    async def auth(endpoint: Source | Target) -> Any:
        """A connection string for postgres, the fields of the credential for snowflake."""
        if endpoint.kind == "postgres":
            from noetl.tools.postgres_client.connections import conninfo_of

            return await conninfo_of(postgres.Inputs(auth=endpoint.auth), context)
        return await context.credential(endpoint.auth or "snowflake") if endpoint.kind == "snowflake" else None

    auths = await auth(source), await auth(target)
    rows = rows_of(await request(source, source.headers), source.rows) if source.kind == "http" else []
    return Transfer(inputs, context.bound.get("source.query"), *auths, rows, send, log)
