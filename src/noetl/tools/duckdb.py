"""kind: duckdb. SQL on DuckDB, in memory or in a file, over Parquet, CSV and JSON.

Statements reach the files and folders that `paths` declares and nothing else: no other file, no network, no extension.
Relative paths begin in the folder that the worker runs in. Several statements are one transaction, unless they have
`BEGIN` themselves. Templates become parameters wherever DuckDB takes one, and literals elsewhere.

In the result decimals, dates, times, UUIDs, intervals and whole numbers above 64 bits are text, JSON columns, lists,
structs and maps are values, and a BLOB is binary content. `outcome.duckdb.code` is the kind of error in DuckDB's words,
such as `Constraint`; null where there is none. A file that another process has open gives a `connect` error, retryable.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import msgspec
from msgspec import Meta, Struct

from noetl.model.kind import Kind
from noetl.model.outcome import Failure, Outcome
from noetl.tools.base import Context, missing_driver
from noetl.tools.fields import Columns, Command, Params, Query, Rows, Table

if TYPE_CHECKING:
    from collections.abc import Callable

    from duckdb import DuckDBPyConnection, Statement

    from noetl.sql import Part, Sql
    from noetl.tools.rows.thread import Stop

MAX_RESULT_BYTES = 50 * 2**20
FETCH_ROWS = 1_000
INSERT_ROWS = 10_000
INEXACT = frozenset(["interval", "timestamp_ns", "time_ns"])
"""Types of which Python keeps less than there is; they are read as text."""


class Inputs(Struct, forbid_unknown_fields=True, kw_only=True):
    database: Annotated[
        str | None, Meta(description="File of the database; in memory, for this call only, if not given")
    ] = None
    read_only: Annotated[bool, Meta(description="Open the file for reading only")] = False
    paths: Annotated[list[str], Meta(description="Folders and files that the statements may read and write")] = []
    memory: Annotated[
        str,
        Meta(pattern=r"^[1-9]\d*(KB|MB|GB|KiB|MiB|GiB)$", description="Memory that DuckDB may use, such as `512MB`"),
    ] = "1GB"
    threads: Annotated[int, Meta(ge=1, le=64, description="Threads that DuckDB may use")] = 2
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


async def run(inputs: Inputs, context: Context) -> Outcome:
    """Run the statements, or insert the rows, in a thread."""
    try:
        import duckdb  # noqa: F401
    except ImportError:
        return missing_driver("duckdb", "duckdb")
    from noetl.tools.rows.duck import about
    from noetl.tools.rows.thread import in_thread

    try:
        result = await in_thread(lambda stop: _work(inputs, context, stop))
    except Failure as failure:
        return failure.outcome
    return Outcome(result=result, extra=about(None))


def _work(inputs: Inputs, context: Context, stop: Stop) -> dict[str, Any]:
    from noetl.tools.rows.duck import Access, opened

    access = Access(inputs.read_only, tuple(inputs.paths), inputs.memory, inputs.threads)
    with opened(inputs.database, access, stop) as connection:
        if inputs.table is not None:
            return _insert(connection, inputs, context)
        sql = context.bound["command" if inputs.command is not None else "query"]
        return _run(connection, sql, inputs.params, stop)


# -- statements -------------------------------------------------------------------------------------------------------


class Ready(NamedTuple):
    """A statement with its values, as it goes to DuckDB."""

    statement: Statement
    values: list[Any] | dict[str, Any] | None
    parts: list[tuple[Part, str]]
    """What was written for each part, to find the line of an error."""
    line: int


def _run(
    connection: DuckDBPyConnection, sql: Sql, params: list[Any] | dict[str, Any] | None, stop: Stop
) -> dict[str, Any]:
    import duckdb

    from noetl.sql import statements

    ready = [one for statement in statements(sql) for one in _ready(connection, statement, params)]
    if not ready:
        raise Failure("input", "there is no statement in the SQL")
    written = any(one.statement.type == duckdb.StatementType.TRANSACTION for one in ready)
    if len(ready) == 1 or written:
        results = [_result(connection, one, stop) for one in ready]
    else:
        connection.begin()
        results = [_result(connection, one, stop) for one in ready]
        _checked(connection.commit)
    if len(results) == 1:
        return results[0]
    told = [{key: value for key, value in result.items() if key != "rows"} for result in results]
    return results[-1] | {"statements": told}


def _ready(connection: DuckDBPyConnection, sql: Sql, params: list[Any] | dict[str, Any] | None) -> list[Ready]:
    """The statement with parameters where it takes them, else with literals.

    DuckDB's own parser says which it is: a parameter can't stand where only a literal can (`FROM '{{ file }}'`,
    `DATE '{{ day }}'`), and only statements that read or change rows take parameters everywhere.
    """
    import duckdb

    kinds = duckdb.StatementType
    if params is None:
        values: list[Any] = []
        parts = _parts(sql, lambda value: _parameter(value, values))
        try:
            found = connection.extract_statements("".join(text for _, text in parts))
        except duckdb.Error:
            found = []
        if len(found) == 1 and found[0].type in (kinds.SELECT, kinds.INSERT, kinds.UPDATE, kinds.DELETE):
            return [Ready(found[0], values or None, parts, sql.line)]
    from noetl.tools.rows.duck import literal

    parts = _parts(sql, literal)
    try:
        found = connection.extract_statements("".join(text for _, text in parts))
    except duckdb.Error as error:
        raise _located(error, parts, sql.line) from None
    return [Ready(one, params if one.named_parameters else None, parts, sql.line) for one in found]


def _parts(sql: Sql, value: Callable[[Any], str]) -> list[tuple[Part, str]]:
    from noetl.sql import written_parts

    return written_parts(sql, value)


def _parameter(value: Any, values: list[Any]) -> str:
    """The placeholder of a value, which is kept."""
    from noetl.tools.rows.duck import as_json, is_array

    if isinstance(value, int) and not -(2**127) <= value < 2**127:
        raise Failure("input", f"a number of {value.bit_length()} bits is more than DuckDB takes")
    nested = isinstance(value, dict) or (isinstance(value, list) and not is_array(value))
    values.append(as_json(value) if nested else value)
    return f"${len(values)}::JSON" if nested else f"${len(values)}"


def _result(connection: DuckDBPyConnection, ready: Ready, stop: Stop) -> dict[str, Any]:
    import duckdb

    stop.check()
    try:
        connection.execute(ready.statement, ready.values)
        if ready.statement.type == duckdb.StatementType.SELECT and _inexact(connection):
            connection.execute(_as_text(connection, ready), ready.values)
        return _read(connection, stop)
    except duckdb.InterruptException:
        stop.check()
        raise
    except duckdb.Error as error:
        raise _located(error, ready.parts, ready.line) from None


def _checked(act: Callable[[], object]) -> None:
    import duckdb

    from noetl.tools.rows.duck import failure

    try:
        act()
    except duckdb.Error as error:
        raise failure(error) from None


def _inexact(connection: DuckDBPyConnection) -> bool:
    return any(column[1].id in INEXACT for column in connection.description or ())


def _as_text(connection: DuckDBPyConnection, ready: Ready) -> str:
    """The same query with what Python would cut short as text. Results are streamed: nothing has been read yet."""
    from noetl.sql import quoted

    columns = connection.description or []
    names = ", ".join(f"c{number}" for number in range(len(columns)))
    shown = ", ".join(
        f"{f'c{number}::VARCHAR' if column[1].id in INEXACT else f'c{number}'} AS {quoted((column[0],))}"
        for number, column in enumerate(columns)
    )
    return f"SELECT {shown} FROM ({ready.statement.query.rstrip().rstrip(';')}\n) AS exact({names})"


def _located(error: Any, parts: list[tuple[Part, str]], line: int) -> Failure:
    """The error with the line it is about, counted in what the author wrote."""
    from noetl.tools.rows.duck import complaint, failure

    said = complaint(error)
    if said.code == "Permission":
        return failure(error, advice="Files and folders that statements may use are declared in `paths`")
    position = said.position
    if position is None:
        return failure(error)
    for part, written in parts:
        if isinstance(part, str):
            line += written.encode()[: max(position, 0)].count(b"\n")
        position -= len(written.encode())
        if position < 0:
            break
    return failure(error, line)


# -- results ----------------------------------------------------------------------------------------------------------


def _read(connection: DuckDBPyConnection, stop: Stop) -> dict[str, Any]:
    from noetl.tools.rows.plain import distinct

    changed: int = connection.rowcount
    if changed >= 0:
        connection.fetchall()
        return {"rows": [], "row_count": changed, "columns": []}
    columns = connection.description or []
    names = distinct(column[0] for column in columns)
    readers = [_reader(column[1]) for column in columns]
    rows: list[dict[str, Any]] = []
    size = 0
    while batch := connection.fetchmany(FETCH_ROWS):
        stop.check()
        found = [{name: read(value) for name, read, value in zip(names, readers, row, strict=True)} for row in batch]
        size += len(msgspec.json.encode(found))
        if size > MAX_RESULT_BYTES:
            message = f"the result is above {MAX_RESULT_BYTES >> 20} MiB: add a LIMIT, or move the rows with `transfer`"
            raise Failure("too_large", message, limit=MAX_RESULT_BYTES)
        rows += found
    if not rows and names == ["Count"]:
        names = []  # what DuckDB says of a statement that gives nothing
    return {"rows": rows, "row_count": len(rows), "columns": names}


def _reader(kind: Any) -> Callable[[Any], Any]:
    """What makes a value of that type plain."""
    from noetl.tools.rows.plain import from_json, plain

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


# -- bulk -------------------------------------------------------------------------------------------------------------


def _insert(connection: DuckDBPyConnection, inputs: Inputs, context: Context) -> dict[str, Any]:
    """All rows in one transaction. They travel as JSON, which is thirty times as fast as one by one."""
    import duckdb

    from noetl.tools.rows.duck import failure
    from noetl.tools.rows.shape import shaped

    assert inputs.table is not None
    columns, rows = shaped(inputs.rows, inputs.columns, context.own_args)
    try:
        if rows:
            insert_rows(connection, inputs.table, columns, rows)
    except duckdb.Error as error:
        raise failure(error) from None
    return {"rows": [], "row_count": len(rows), "columns": []}


def insert_rows(connection: DuckDBPyConnection, table: str, columns: list[str], rows: list[list[Any]]) -> None:
    from noetl.sql import quoted
    from noetl.tools.rows.duck import table_name

    name = table_name(table)
    types = {row[0].lower(): row[1] for row in connection.execute(f"DESCRIBE {name}").fetchall()}
    unknown = [column for column in columns if column.lower() not in types]
    if unknown:
        raise Failure("input", f"{table} has no column {unknown[0]!r}; it has {', '.join(types)}")
    kinds = [types[column.lower()] for column in columns]
    values = [_from_cell(f"cell[{number}]", kind) for number, kind in enumerate(kinds, start=1)]
    binary = [place for place, kind in enumerate(kinds) if kind == "BLOB"]
    into = f"INSERT INTO {name} ({', '.join(quoted((column,)) for column in columns)})"
    connection.begin()
    for start in range(0, len(rows), INSERT_ROWS):
        batch = rows[start : start + INSERT_ROWS]
        cells = msgspec.json.encode([_in_bytes(row, binary) for row in batch] if binary else batch).decode()
        unpacked = """SELECT unnest(from_json($1, '[["JSON"]]')) AS cell"""
        connection.execute(f"{into} SELECT {', '.join(values)} FROM ({unpacked})", [cells])
    connection.commit()


def _in_bytes(row: list[Any], places: list[int]) -> list[Any]:
    """The row with bytes in place of text where the column is binary: JSON has them in base64."""
    return [value.encode() if isinstance(value, str) and place in places else value for place, value in enumerate(row)]


def _from_cell(cell: str, kind: str) -> str:
    """A JSON value as the column's type: nested ones as they are, text and numbers as a literal would be read."""
    if kind == "JSON" or kind.endswith("]") or kind.startswith(("STRUCT", "MAP", "UNION", "VARIANT")):
        return f"CAST({cell} AS {kind})"
    text = f"({cell}->>'$')"
    return f"from_base64({text})" if kind == "BLOB" else f"CAST({text} AS {kind})"
