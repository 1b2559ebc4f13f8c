"""kind: transfer. Rows from one place to another, in batches.

Rows go by the fastest way each pair has, most of all COPY, and memory does not grow with their number. A database
target is filled in one transaction: all rows arrive or none. A file is written beside its place and moved there at the
end. Over HTTP each batch is a request of its own with an `Idempotency-Key`, and what was sent stays sent.

A table that does not exist is made with the types of the source. What the other side has no type for travels as JSON
or as text. A row is at most 16 MiB. `replace` empties the table in the same transaction; `upsert` needs a `key` with a
unique index, which a table made here gets. Types that CSV and JSON do not tell are found out from all values of a
column: `007` stays text. The result is `{rows, batches, duration_ms, source, target}`, with `bytes` for a file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from msgspec import Meta, Struct

from noetl.model.kind import Kind
from noetl.model.outcome import Failure, Outcome
from noetl.tools.base import Context, missing_driver
from noetl.tools.fields import Auth, Scalar

if TYPE_CHECKING:
    from concurrent.futures import Future

    from noetl.tools.rows.errand import Errand

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
    table: Annotated[str | None, Meta(description="Table to write to; made if it does not exist")] = None
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
    extra="duckdb",
    sql=("source.query",),
)

TAKES: dict[str, dict[str, tuple[str, ...]]] = {
    "source": {
        "postgres": ("auth", "query", "params", "table"),
        "duckdb": ("database", "query", "params", "table"),
        "snowflake": ("auth", "query", "params", "table", "database"),
        "http": ("auth", "url", "headers", "rows"),
        "file": ("path", "format"),
    },
    "target": {
        "postgres": ("auth", "table"),
        "duckdb": ("database", "table"),
        "snowflake": ("auth", "table", "database"),
        "http": ("auth", "url", "method", "headers"),
        "file": ("path", "format"),
    },
}
"""What each kind of place takes beside `kind`."""
NEEDS = {
    "http": ("url",),
    "file": ("path",),
    "duckdb": ("database", "table"),
    "postgres": ("table",),
    "snowflake": ("table",),
}
DRIVERS = {"duckdb": "duckdb", "postgres": "psycopg", "snowflake": "snowflake.connector"}


async def run(inputs: Inputs, context: Context) -> Outcome:
    """Move the rows in threads; what is async is asked for first."""
    from noetl.tools.rows.thread import in_thread

    if (missing := _missing(inputs)) is not None:
        return missing
    try:
        _check(inputs)
        errand = await _errand(inputs, context)
        return Outcome(result=await in_thread(errand.run))
    except Failure as failure:
        return failure.outcome


def _missing(inputs: Inputs) -> Outcome | None:
    """The outcome where a driver is not there. DuckDB stands between any two places."""
    from importlib import import_module

    for kind in ("duckdb", inputs.source.kind, inputs.target.kind):
        try:
            if kind in DRIVERS:
                import_module(DRIVERS[kind])
        except ImportError:
            return missing_driver("transfer", kind)
    return None


def _check(inputs: Inputs) -> None:
    """Refuse what would be ignored, and what can't be done."""
    source, target = inputs.source, inputs.target
    for side, end in (("source", source), ("target", target)):
        takes = TAKES[side][end.kind]
        for field in end.__struct_fields__:
            if field not in (*takes, "kind", "method") and getattr(end, field):
                raise Failure("input", f"`{side}.{field}` means nothing to {end.kind}: leave it out")
    if source.kind in ("postgres", "duckdb", "snowflake"):
        if (source.query is None) == (source.table is None):
            raise Failure("input", "the source needs `query` or `table`, one of the two")
    elif getattr(source, NEEDS[source.kind][0]) is None:
        raise Failure("input", f"the source needs `{NEEDS[source.kind][0]}`")
    for field in NEEDS[target.kind]:
        if not getattr(target, field):
            raise Failure("input", f"the target needs `{field}`")
    if inputs.mode == "upsert" and not inputs.key:
        raise Failure("input", "`upsert` needs a `key`")
    if inputs.key and inputs.mode != "upsert":
        raise Failure("input", "`key` is for `mode: upsert`")
    if target.kind == "http" and inputs.mode != "append":
        raise Failure("input", "over HTTP rows can only be sent: leave `mode` out")


async def _errand(inputs: Inputs, context: Context) -> Errand:
    """The transfer with everything that only the event loop can give: credentials, answers, and a way to send."""
    import asyncio

    from noetl.tools.rows.errand import Errand

    loop = asyncio.get_running_loop()

    def tell(line: str) -> None:
        loop.call_soon_threadsafe(context.log, "progress", line)

    def send(batch: list[dict[str, Any]], number: int) -> Future[None]:
        return asyncio.run_coroutine_threadsafe(_send(inputs.target, batch, number, context), loop)

    return Errand(
        inputs=inputs,
        sql=context.bound.get("source.query"),
        source_auth=await _auth(inputs.source, context),
        target_auth=await _auth(inputs.target, context),
        answer=await _answer(inputs.source, context) if inputs.source.kind == "http" else [],
        send=send,
        tell=tell,
    )


async def _auth(end: Source | Target, context: Context) -> Any:
    """A connection string for postgres, the fields of the credential for snowflake."""
    if end.kind == "postgres":
        from noetl.tools import postgres
        from noetl.tools.postgres_client.target import target_of

        return await target_of(postgres.Inputs(auth=end.auth), context)
    if end.kind == "snowflake":
        return await context.credential(end.auth or "snowflake")
    return None


# -- http -------------------------------------------------------------------------------------------------------------


async def _answer(source: Source, context: Context) -> list[dict[str, Any]]:
    from noetl.tools import http
    from noetl.tools.rows.http_end import rows_of

    assert source.url is not None
    headers: dict[str, Scalar | None] = {**source.headers}
    outcome = await http.run(http.Inputs(url=source.url, headers=headers, auth=source.auth), context)
    _require(outcome)
    return rows_of(outcome.result["data"], source.rows)


async def _send(target: Target, batch: list[dict[str, Any]], number: int, context: Context) -> None:
    from noetl.tools import http

    assert target.url is not None
    headers: dict[str, Scalar | None] = {"Idempotency-Key": f"{context.idempotency_key}.{number}", **target.headers}
    call = http.Inputs(method=target.method, url=target.url, headers=headers, json=batch, auth=target.auth)
    _require(await http.run(call, context))


def _require(outcome: Outcome) -> None:
    if outcome.error is not None:
        error = outcome.error
        raise Failure(error.kind, error.message, retryable=error.retryable, extra=outcome.extra, **error.details)
