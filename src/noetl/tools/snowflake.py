"""kind: snowflake. SQL on Snowflake.

Templates that are text are bound; where Snowflake takes a literal only they are quoted. Lists and maps become
`PARSE_JSON(...)`, which Snowflake allows in SELECT and not in VALUES: insert them with `INSERT ... SELECT`. Several
statements that only read and change rows are one transaction; others commit by themselves, as Snowflake has it.
`PUT` and `GET`, which would touch files of the worker, are refused.

In the result decimals, dates and times are text, VARIANT, OBJECT and ARRAY are values, and BINARY is binary content. A
name without quotes is upper case, in results and in Snowflake. `outcome.snowflake` has `code`, `sqlstate` and
`query_id`.

A credential has `account`, `user`, and `password` or `private_key` (PEM, with `private_key_passphrase` where it has
one) or `authenticator` and `token`; `warehouse`, `database`, `schema`, `role`, `host`, `port` and `protocol` as needed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from msgspec import Meta, Struct

from noetl.model.kind import Kind
from noetl.model.outcome import Failure, Outcome
from noetl.tools.base import Context, missing_driver
from noetl.tools.fields import Auth, Columns, Command, Params, Query, Rows, Table

if TYPE_CHECKING:
    from collections.abc import Callable

    from snowflake.connector.cursor import SnowflakeCursor

    from noetl.sql import Sql
    from noetl.tools.rows.snow import Session
    from noetl.tools.rows.thread import Stop

MAX_RESULT_BYTES = 50 * 2**20
FETCH_ROWS = 1_000
DEFAULT_ENTRY = "snowflake"
CHANGES = frozenset(["INSERT", "UPDATE", "DELETE", "MERGE"])
READS = frozenset(["SELECT", "WITH", "SHOW", "DESCRIBE", "DESC", "EXPLAIN", "LIST", "LS", "CALL", "VALUES"])
LEAVES_NO_TRACE = (CHANGES | READS) - {"CALL"}
"""Statements after which a session is as it was before."""


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


async def run(inputs: Inputs, context: Context) -> Outcome:
    """Run the statements, or insert the rows, in a thread."""
    import asyncio

    try:
        import snowflake.connector  # noqa: F401
    except ImportError:
        return missing_driver("snowflake", "snowflake")
    from noetl.tools.rows.snow_pool import pool_of
    from noetl.tools.rows.thread import in_thread

    try:
        fields = await context.credential(inputs.auth or DEFAULT_ENTRY)
        chosen = {name: getattr(inputs, name) for name in ("warehouse", "database", "schema", "role")}
        fields = {**fields, **{name: value for name, value in chosen.items() if value is not None}}
        pool = pool_of(asyncio.get_running_loop())

        def work(stop: Stop) -> Outcome:
            with pool.session(fields, stop) as session:
                return _work(session, inputs, context)

        return await in_thread(work)
    except Failure as failure:
        return failure.outcome


async def close() -> None:
    """End the sessions of this event loop."""
    import asyncio

    from noetl.tools.rows.snow_pool import close_pool

    await close_pool(asyncio.get_running_loop())


def _work(session: Session, inputs: Inputs, context: Context) -> Outcome:
    from noetl.tools.rows.shape import shaped
    from noetl.tools.rows.snow import about

    if inputs.table is not None:
        from noetl.tools.rows.snow_insert import insert_rows

        columns, rows = shaped(inputs.rows, inputs.columns, context.own_args)
        query = insert_rows(session, inputs.table, columns, rows)
        return Outcome(result={"rows": [], "row_count": len(rows), "columns": []}, extra=about(None, None, query))
    sql = context.bound["command" if inputs.command is not None else "query"]
    return _run(session, sql, inputs.params)


def _run(session: Session, sql: Sql, params: list[Any] | dict[str, Any] | None) -> Outcome:
    from noetl.sql import statements
    from noetl.tools.rows.snow import FILE_COMMANDS, about, first_word

    found = [(first_word(one), one) for one in statements(sql)]
    if not found:
        raise Failure("input", "there is no statement in the SQL")
    if any(word in FILE_COMMANDS for word, _ in found):
        raise Failure("input", "PUT and GET touch files of the worker: move rows with `transfer`")
    if params is not None and len(found) > 1:
        raise Failure("input", "`params` are for one statement: use templates")
    session.clean = all(word in LEAVES_NO_TRACE for word, _ in found)
    together = len(found) > 1 and session.clean
    if together:
        session.execute("BEGIN")
    results = []
    query = None
    for word, statement in found:
        cursor = _execute(session, statement, params)
        query = cursor.sfqid
        results.append(_result(cursor, word, session.stop))
    if together:
        session.execute("COMMIT")
    result = results[-1]
    if len(results) > 1:
        told = [{key: value for key, value in one.items() if key != "rows"} for one in results]
        result = result | {"statements": told}
    return Outcome(result=result, extra=about(None, None, query))


def _execute(session: Session, sql: Sql, params: list[Any] | dict[str, Any] | None) -> SnowflakeCursor:
    from noetl.sql import write
    from noetl.tools.rows.snow import literal, written

    if params is None:
        return session.execute(*written(sql))
    if isinstance(params, dict):
        raise Failure("input", "`params` for snowflake is a list, for the placeholders `?`")
    return session.execute(write(sql, literal), params)


# -- results ----------------------------------------------------------------------------------------------------------


def _result(cursor: SnowflakeCursor, word: str, stop: Stop) -> dict[str, Any]:
    from noetl.tools.rows.plain import distinct

    if word in CHANGES:
        return {"rows": [], "row_count": cursor.rowcount or 0, "columns": []}
    if word not in READS:
        return {"rows": [], "row_count": 0, "columns": []}
    names = distinct(column.name for column in cursor.description)
    readers = [_reader(column.type_code) for column in cursor.description]
    rows: list[dict[str, Any]] = []
    size = 0
    while batch := cursor.fetchmany(FETCH_ROWS):
        stop.check()
        found = [{key: read(value) for key, read, value in zip(names, readers, row, strict=True)} for row in batch]
        size += len(msgspec.json.encode(found))
        if size > MAX_RESULT_BYTES:
            message = f"the result is above {MAX_RESULT_BYTES >> 20} MiB: add a LIMIT, or move the rows with `transfer`"
            raise Failure("too_large", message, limit=MAX_RESULT_BYTES)
        rows += found
    return {"rows": rows, "row_count": len(rows), "columns": names}


def _reader(code: int) -> Callable[[Any], Any]:
    """What makes a value of that type plain."""
    from snowflake.connector.constants import FIELD_ID_TO_NAME

    from noetl.tools.rows.plain import plain

    return _semi_structured if FIELD_ID_TO_NAME[code] in ("VARIANT", "OBJECT", "ARRAY") else plain


def _semi_structured(value: Any) -> Any:
    """A value that the server writes as JSON, but for `undefined` in the place of what is not there."""
    from noetl.tools.rows.plain import from_json

    try:
        return from_json(value)
    except ValueError:  # no JSON, in the words of either reader
        return str(value)
