"""One call of `kind: snowflake`: it runs statements, or loads rows into a table."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from snowflake.connector.constants import FIELD_ID_TO_NAME
from snowflake.connector.cursor import SnowflakeCursor

from noetl.model.outcome import Failure, Outcome
from noetl.sql.statements import Sql, statements
from noetl.tools.base import Context
from noetl.tools.rows.blocking import Cancellation, in_thread
from noetl.tools.rows.snowflake_database import (
    CHANGES,
    POOLS,
    READS,
    STATELESS,
    SnowflakePool,
    SnowflakeSession,
    first_word,
    folded,
    snowflake_extra,
)
from noetl.tools.rows.snowflake_table import SnowflakeTable
from noetl.tools.rows.tables import Load, check_exact, load_of
from noetl.tools.rows.values import changed, combined, distinct_names, from_json, plain, read_rows
from noetl.tools.snowflake import Inputs

TYPES = {
    "boolean": "BOOLEAN",
    "integer": "NUMBER(38,0)",
    "large": "NUMBER(38,0)",
    "number": "FLOAT",
    "text": "VARCHAR",
    "binary": "BINARY",
    "json": "VARIANT",
}


async def call(inputs: Inputs, context: Context) -> Outcome:
    fields = await context.credential(inputs.auth or "snowflake")
    own = {name: getattr(inputs, name) for name in ("warehouse", "database", "schema", "role")}
    fields = {**fields, **{name: value for name, value in own.items() if value is not None}}
    loop, load = asyncio.get_running_loop(), load_of(inputs, context.own_args)
    pool = POOLS.setdefault(loop, SnowflakePool())

    def log(line: str) -> None:
        loop.call_soon_threadsafe(context.log, "stdout", line)

    def work(cancellation: Cancellation) -> Outcome:
        with pool.session(fields, cancellation) as session:
            if load is None:
                return _run(session, context.bound[inputs.sql_field], inputs.params)
            return Outcome(result=changed(len(load.rows)), extra=snowflake_extra(None, None, _load(session, load, log)))

    return await in_thread(work)


def _load(session: SnowflakeSession, load: Load, log: Callable[[str], None]) -> str | None:
    """Write the rows; return the id of the last query that wrote rows."""
    table = SnowflakeTable(session, load.table, load.mode, load.key)
    if not load.rows and not (table.types and load.mode == "replace"):
        return None
    session.clean = not load.upserts  # or else it has a temporary table
    names = [folded(column) for column in load.columns]
    check_exact(load, [table.whole.get(name, "") for name in names], [table.dates.get(name, "") for name in names])
    created = {} if table.types else load.types(TYPES)
    table.prepare(load.columns, created)
    if created:
        log(f"created the table {load.table} ({', '.join(f'{name} {kind}' for name, kind in created.items())})")
    query = table.insert(load.columns, load.rows)
    if load.upserts:
        table.merge(load.columns, "`rows`")
    table.commit()
    return query


def _run(session: SnowflakeSession, sql: Sql, params: list[Any] | dict[str, Any] | None) -> Outcome:
    commands = [(first_word(statement), statement) for statement in statements(sql)]
    if not commands:
        raise Failure("input", "the SQL has no statement")
    if any(word in ("PUT", "GET") for word, _ in commands):
        raise Failure("input", "PUT and GET access files of the worker: copy rows with `transfer`")
    if params is not None and len(commands) > 1:
        raise Failure("input", "`params` are for one statement: use templates")
    if isinstance(params, dict):
        raise Failure("input", "`params` for snowflake is a list, for the placeholders `?`")
    session.clean = all(word in STATELESS for word, _ in commands)
    transaction = len(commands) > 1 and session.clean
    if transaction:
        session.execute("BEGIN")
    results = []
    for word, statement in commands:
        cursor = session.execute_sql(statement, params)
        results.append(_result(cursor, word, session.cancellation))
    if transaction:
        session.execute("COMMIT")
    return Outcome(result=combined(results), extra=snowflake_extra(None, None, cursor.sfqid))


def _result(cursor: SnowflakeCursor, word: str, cancellation: Cancellation) -> dict[str, Any]:
    if word not in READS:
        return changed(cursor.rowcount or 0 if word in CHANGES else 0)
    names = distinct_names(column.name for column in cursor.description)
    kinds = [FIELD_ID_TO_NAME[column.type_code] for column in cursor.description]
    readers = [_semi_structured if kind in ("VARIANT", "OBJECT", "ARRAY") else plain for kind in kinds]
    rows = read_rows(cursor.fetchmany, names, readers, cancellation)
    return {"rows": rows, "row_count": len(rows), "columns": names}


def _semi_structured(value: Any) -> Any:
    """A value that the server writes as JSON, with `undefined` for a missing value."""
    try:
        return from_json(value)
    except ValueError:
        return str(value)
