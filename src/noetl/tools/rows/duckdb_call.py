"""One call of `kind: duckdb`: it runs statements, or loads rows into a table."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, TypeAlias

import duckdb
from duckdb import DuckDBPyConnection, Statement, StatementType
from msgspec.structs import replace

from noetl.model.outcome import Failure, Outcome
from noetl.sql.statements import Sql, WrittenSql, quoted, statements, written
from noetl.tools.base import Context
from noetl.tools.duckdb import Inputs
from noetl.tools.rows.blocking import Cancellation, in_thread
from noetl.tools.rows.duckdb_database import (
    OpenOptions,
    as_json,
    is_array,
    literal,
    open_database,
    sql_errors,
    sql_failure,
)
from noetl.tools.rows.duckdb_load import load_rows, run_once
from noetl.tools.rows.tables import load_of
from noetl.tools.rows.values import changed, combined, distinct_names, from_json, plain, read_rows

INEXACT = frozenset(["interval", "timestamp_ns", "time_ns"])  # they lose precision in Python, and are read as text
PARAMETER_STATEMENTS = (StatementType.SELECT, StatementType.INSERT, StatementType.UPDATE, StatementType.DELETE)

Params: TypeAlias = list[Any] | dict[str, Any] | None
PreparedStatement: TypeAlias = tuple[Statement, Params, WrittenSql]


async def call(inputs: Inputs, context: Context) -> Outcome:
    loop, load = asyncio.get_running_loop(), load_of(inputs, context.own_args)
    database = None if inputs.is_in_memory else inputs.database
    exactly_once = bool(context.spec.get("exactly_once"))
    if exactly_once and (database is None or inputs.read_only):
        raise Failure("input", "`exactly_once` needs a `database` file that can be written: the ledger is stored in it")

    def log(line: str) -> None:
        loop.call_soon_threadsafe(context.log, "stdout", line)

    def work(cancellation: Cancellation) -> Outcome:
        options = OpenOptions(inputs.read_only, tuple(inputs.paths), inputs.memory, inputs.threads)
        alone = exactly_once or load is not None
        with open_database(database, options, cancellation, alone=alone) as connection:
            if load is None:
                statements = _statements(connection, context.bound[inputs.sql_field], inputs.params)
                job = partial(_run, connection, statements, cancellation)
                controls = any(statement.type == StatementType.TRANSACTION for statement, _, _ in statements)
                transaction = exactly_once or (len(statements) > 1 and not controls)
                if exactly_once and controls:
                    message = "`exactly_once` runs everything in one transaction: leave BEGIN and COMMIT out"
                    raise Failure("input", message)
            else:
                job, transaction = partial(load_rows, connection, load, database, log), True
            if exactly_once:
                result, repeated = run_once(connection, context.idempotency_key, job)
                return Outcome(result=result, extra={"duckdb": {"code": None, "repeated": repeated}})
            if transaction:
                connection.begin()
            result = job()
            if transaction:
                with sql_errors():
                    connection.commit()
            return Outcome(result=result, extra={"duckdb": {"code": None}})

    try:
        return await in_thread(work)
    except Failure as failure:
        error = failure.outcome.error
        if database is None and error is not None and "Table with name" in error.message:
            advice = "a database in memory ends with its task: set `database` to a file that the tasks share"
            error = replace(error, message=f"{error.message}; {advice}")
        return replace(failure.outcome, error=error)


def _statements(connection: DuckDBPyConnection, sql: Sql, params: Params) -> list[PreparedStatement]:
    prepared = [ready for statement in statements(sql) for ready in _prepare(connection, statement, params)]
    if not prepared:
        raise Failure("input", "the SQL has no statement")
    if params and not any(statement.named_parameters for statement, *_ in prepared):
        raise Failure(
            "input", "there are `params`, but the SQL has no placeholder: write `?` or `$name`", input="params"
        )
    return prepared


def _run(
    connection: DuckDBPyConnection, prepared: list[PreparedStatement], cancellation: Cancellation
) -> dict[str, Any]:
    return combined([_result(connection, *ready, cancellation) for ready in prepared])


def _prepare(connection: DuckDBPyConnection, sql: Sql, params: Params) -> list[PreparedStatement]:
    """The statement with parameters if it accepts them, or else with literals. DuckDB's own parser decides: some places
    allow only a literal (`FROM '{{ file }}'`), and only statements that read or change rows accept parameters
    everywhere."""
    values: list[Any] = []

    def parameter(value: Any) -> str:
        if isinstance(value, int) and not -(2**127) <= value < 2**127:
            raise Failure("input", f"a number of {value.bit_length()} bits is more than DuckDB accepts")
        nested = isinstance(value, dict) or (isinstance(value, list) and not is_array(value))
        values.append(as_json(value) if nested else value)
        return f"${len(values)}::JSON" if nested else f"${len(values)}"

    if params is None:
        bound = written(sql, parameter)
        with suppress(duckdb.Error):
            parsed = connection.extract_statements(bound.text)
            if len(parsed) == 1 and parsed[0].type in PARAMETER_STATEMENTS:
                return [(parsed[0], values or None, bound)]
    text = written(sql, literal)
    try:
        parsed = connection.extract_statements(text.text)
    except duckdb.Error as error:
        raise sql_failure(error, text) from None
    return [(statement, params if statement.named_parameters else None, text) for statement in parsed]


def _result(
    connection: DuckDBPyConnection, statement: Statement, values: Params, sql: WrittenSql, cancellation: Cancellation
) -> dict[str, Any]:
    cancellation.check()
    try:
        connection.execute(statement, values)
        columns = connection.description or []
        inexact = any(column[1].id in INEXACT for column in columns)
        if statement.type == StatementType.SELECT and inexact:
            # The same query with these columns as text. Results are streamed: no row has been read yet.
            numbered = ", ".join(f"c{number}" for number in range(len(columns)))
            selected = ", ".join(
                f"c{number}{'::VARCHAR' * (column[1].id in INEXACT)} AS {quoted(column[0])}"
                for number, column in enumerate(columns)
            )
            query = statement.query.rstrip().rstrip(";")
            connection.execute(f"SELECT {selected} FROM ({query}\n) AS exact({numbered})", values)
            columns = connection.description or []
        row_count: int = connection.rowcount
        if row_count >= 0:
            connection.fetchall()
            return changed(row_count)
        names = distinct_names(column[0] for column in columns)
        rows = read_rows(connection.fetchmany, names, [_reader(column[1]) for column in columns], cancellation)
        if not rows and names == ["Count"]:
            names = []  # how DuckDB describes a statement without rows
        return {"rows": rows, "row_count": len(rows), "columns": names}
    except duckdb.InterruptException:
        cancellation.check()
        raise
    except duckdb.Error as error:
        raise sql_failure(error, sql) from None


def _reader(kind: Any) -> Callable[[Any], Any]:
    if str(kind) == "JSON":
        return from_json
    if "JSON" not in str(kind):
        return plain
    inner = [_reader(child) for _, child in kind.children if not isinstance(child, int)]
    match kind.id:
        case "list" | "array":
            return lambda value: None if value is None else [inner[0](item) for item in value]
        case "map":
            return lambda value: None if value is None else {str(plain(k)): inner[1](v) for k, v in value.items()}
        case "struct":
            return lambda value: value and {k: read(v) for (k, v), read in zip(value.items(), inner, strict=True)}
    return plain
