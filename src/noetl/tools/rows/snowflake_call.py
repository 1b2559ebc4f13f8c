"""One call of `kind: snowflake`."""

from __future__ import annotations

import asyncio
from typing import Any

from snowflake.connector.constants import FIELD_ID_TO_NAME
from snowflake.connector.cursor import SnowflakeCursor

from noetl.model.outcome import Failure, Outcome
from noetl.sql.statements import Sql, statements
from noetl.tools.base import Context
from noetl.tools.rows import snowflake_database as database
from noetl.tools.rows.blocking import Cancellation, in_thread
from noetl.tools.rows.values import changed, combined, distinct_names, from_json, plain, read_rows, row_values
from noetl.tools.snowflake import Inputs

CHANGES = frozenset(["INSERT", "UPDATE", "DELETE", "MERGE"])
READS = frozenset(["SELECT", "WITH", "SHOW", "DESCRIBE", "DESC", "EXPLAIN", "LIST", "LS", "CALL", "VALUES"])
STATELESS = (CHANGES | READS) - {"CALL"}


async def call(inputs: Inputs, context: Context) -> Outcome:
    fields = await context.credential(inputs.auth or "snowflake")
    own = {name: getattr(inputs, name) for name in ("warehouse", "database", "schema", "role")}
    fields = {**fields, **{name: value for name, value in own.items() if value is not None}}
    pool = database.POOLS.setdefault(asyncio.get_running_loop(), database.SnowflakePool())

    def work(cancellation: Cancellation) -> Outcome:
        with pool.session(fields, cancellation) as session:
            if inputs.table is None:
                return _run(session, context.bound[inputs.sql_field], inputs.params)
            columns, rows = row_values(inputs.rows, inputs.columns, context.own_args)
            query_id = None
            if rows:
                session.execute("BEGIN")
                query_id = database.insert(session, database.quoted_name(inputs.table), columns, rows)
                session.execute("COMMIT")
            return Outcome(result=changed(len(rows)), extra=database.snowflake_extra(None, None, query_id))

    return await in_thread(work)


def _run(session: database.SnowflakeSession, sql: Sql, params: list[Any] | dict[str, Any] | None) -> Outcome:
    commands = [(database.first_word(statement), statement) for statement in statements(sql)]
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
    return Outcome(result=combined(results), extra=database.snowflake_extra(None, None, cursor.sfqid))


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
