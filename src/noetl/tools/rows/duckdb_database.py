"""One call of `kind: duckdb`, and DuckDB itself for the kinds `duckdb` and `transfer`: opened, and locked down.

Locked down means that statements can access no file but the declared ones and no network, load no extension and change
none of that. DuckDB itself resolves links and `..` before it compares a path with the declared ones.

DuckDB opens a file once in a process, with one set of options. Calls with the same options share it. A call with other
options waits until it is closed; calls wait in the order in which they came. A file is closed when its last call ends,
so that other processes can open it.
"""

from __future__ import annotations

import os
import tempfile
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from typing import Any, NamedTuple
from weakref import WeakValueDictionary

import duckdb
import msgspec
from duckdb import DuckDBPyConnection, Error, Statement, StatementType

from noetl.model.outcome import Failure, Outcome
from noetl.sql.statements import Sql, WrittenSql, quoted, simple_literal, statements, written
from noetl.tools.base import Context
from noetl.tools.duckdb import Inputs
from noetl.tools.files import task_file, task_folder
from noetl.tools.rows.blocking import Cancellation, in_thread
from noetl.tools.rows.values import changed, combined, distinct_names, from_json, plain, read_rows, row_values

WAL_SUFFIXES = (".wal", ".wal.checkpoint", ".wal.recovery")
INSERT_ROWS = 10_000
INEXACT = frozenset(["interval", "timestamp_ns", "time_ns"])  # they lose precision in Python, and are read as text
PARAMETER_STATEMENTS = (StatementType.SELECT, StatementType.INSERT, StatementType.UPDATE, StatementType.DELETE)

Params = list[Any] | dict[str, Any] | None


class OpenOptions(NamedTuple):
    """Calls with the same options share an open database."""

    read_only: bool = False
    paths: tuple[str, ...] = ()
    memory: str = "1GB"
    threads: int = 2


@contextmanager
def open_database(
    database: str | None, options: OpenOptions, cancellation: Cancellation
) -> Iterator[DuckDBPyConnection]:
    for declared in options.paths:
        task_folder(declared, "paths")
    with ExitStack() as stack:
        if database is None:
            connection = open_instance(":memory:", options)
        else:
            path = task_file(database, "database")
            connection = stack.enter_context(hold_file(path, options, cancellation)).instance.cursor()
        stack.callback(connection.close)
        cancellation.on_cancel(connection.interrupt)
        yield connection


class DatabaseFile:
    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.queue: deque[object] = deque()
        self.users = 0
        self.options: OpenOptions | None = None
        self.instance: Any = None


_FILES: WeakValueDictionary[str, DatabaseFile] = WeakValueDictionary()
_LOCK = threading.Lock()


@contextmanager
def hold_file(path: str, options: OpenOptions | None, cancellation: Cancellation) -> Iterator[DatabaseFile]:
    """Wait for a file and hold it open. Without options it is not opened, and shared with no other call."""
    with _LOCK:
        file = _FILES.setdefault(path, DatabaseFile())
    with file.changed:
        ticket = object()
        file.queue.append(ticket)
        try:
            while file.queue[0] is not ticket or (file.users and (options is None or file.options != options)):
                cancellation.check()
                file.changed.wait(0.05)
        finally:
            file.queue.remove(ticket)
            file.changed.notify_all()
        if file.users == 0 and options is not None:
            file.instance = open_instance(path, options)
        file.users, file.options = file.users + 1, options
    try:
        yield file
    finally:
        with file.changed:
            file.users -= 1
            if file.users == 0 and file.instance is not None:
                file.instance.close()
                file.instance = None
            file.changed.notify_all()


def open_instance(path: str, options: OpenOptions, *, locked: bool = True) -> DuckDBPyConnection:
    spill = os.path.join(tempfile.gettempdir(), f"noetl-duckdb-{os.getpid()}-{os.urandom(6).hex()}")
    config: dict[str, Any] = {
        "autoinstall_known_extensions": "false",
        "autoload_known_extensions": "false",
        "allow_community_extensions": "false",
        "allow_persistent_secrets": "false",
        "python_enable_replacements": "false",
        "errors_as_json": "true",
        "memory_limit": options.memory,
        "threads": str(options.threads),
        "temp_directory": spill,
        "max_temp_directory_size": "20GB",
    }
    try:
        instance = duckdb.connect(path, options.read_only, config)
    except duckdb.Error as error:
        raise open_failure(path, error) from None
    try:
        instance.execute("SET enable_progress_bar = false")  # on where Python looks interactive; it goes to stdout
        if locked:
            lock_down(instance, options.paths)
    except duckdb.Error as error:
        instance.close()
        raise sql_failure(error) from None
    return instance


def lock_down(connection: DuckDBPyConnection, paths: Sequence[str]) -> None:
    """From now on only these paths can be read and written (a missing one as a folder or a file, which DuckDB writes
    under another name first), and nothing but the time zone can be configured."""
    folders, files = [], []
    for path in map(os.path.realpath, paths):
        if not os.path.isfile(path):
            folders.append(path)
        if not os.path.isdir(path):
            folder, name = os.path.split(path)
            files += [path, os.path.join(folder, f"tmp_{name}"), *(f"{path}{suffix}" for suffix in WAL_SUFFIXES)]
    connection.execute("SET GLOBAL TimeZone = 'UTC'")
    connection.execute(f"SET allowed_directories = {literal(folders)}")
    connection.execute(f"SET allowed_paths = {literal(files)}")
    connection.execute("SET allowed_configs = ['TimeZone']")
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")


def literal(value: Any) -> str:
    match value:
        case None | bool() | int():
            return simple_literal(value)
        case float():
            text = repr(value)
            return text if "e" in text else f"{text}e0" if "." in text else f"'{text}'::DOUBLE"
        case bytes():
            return "'" + "".join(f"\\x{byte:02X}" for byte in value) + "'::BLOB"
        case list() if is_array(value):
            return f"[{', '.join(map(literal, value))}]"
        case list() | dict():
            return f"{literal(as_json(value))}::JSON"
    return "'" + str(value).replace("'", "''") + "'"


def is_array(value: list[Any]) -> bool:
    """Whether the items have one simple type, so that the list is an array; any other list is JSON."""
    kinds = {type(item) for item in value if item is not None}
    return kinds <= {int, float} or (len(kinds) == 1 and kinds <= {str, bool, bytes})


def as_json(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def table_name(name: str) -> str:
    parts = tuple(name.split("."))
    if not all(parts) or "\0" in name:
        raise Failure("input", f"{name!r} cannot be the name of a table")
    return quoted(*parts)


def _parse_error(error: Error) -> tuple[str | None, str, int | None]:
    """The code, the message and the position of an error, which is JSON after a title, except one of opening."""
    text = str(error)
    try:
        fields = msgspec.json.decode(text[text.index("{") :])
        position = int(fields["position"]) if "position" in fields else None
        return fields["exception_type"], fields["exception_message"], position
    except (ValueError, KeyError, TypeError, msgspec.DecodeError):
        title, _, rest = text.partition(" Error: ")
        return title if rest else None, (rest or text).partition("\n\nLINE ")[0], None


@contextmanager
def sql_errors() -> Iterator[None]:
    try:
        yield
    except Error as error:
        raise sql_failure(error) from None


def sql_failure(error: Error, sql: WrittenSql | None = None) -> Failure:
    code, text, position = _parse_error(error)
    kind, message, retryable = "sql", f"{code}: {text}" if code else text, False
    match error:
        case duckdb.OutOfMemoryException():
            kind, message = "too_large", message.partition("\n")[0]
        case duckdb.TransactionException():
            retryable = "onflict" in text  # another call was first; any other error is in the statements
        case duckdb.IOException() if "No files found" in text or "No such file" in text:
            kind = "not_found"
    place = {}
    if sql is not None and code == "Permission":
        message += ". Declare the files and folders that statements may use in `paths`"
    elif sql is not None and position is not None:
        before = sql.text.encode()[:position].decode(errors="ignore")
        place["line"], _ = sql.place(len(before) + 1)
        message += f" (line {place['line']} of the SQL)"
    return Failure(kind, message, retryable=retryable, extra={"duckdb": {"code": code}}, **place)


def open_failure(path: str, error: Error) -> Failure:
    code, text, _ = _parse_error(error)
    kind, message = "input", f"the database {path} cannot be opened: {text}"
    if "lock on file" in text:
        kind, message = "connect", f"the database {path} is open in another process: try again when that has ended"
    elif "does not exist" in text or "No such file" in text:
        kind, message = "not_found", f"the database {path} or its folder does not exist: {text}"
    return Failure(kind, message, retryable=kind == "connect", extra={"duckdb": {"code": code}})


async def call(inputs: Inputs, context: Context) -> Outcome:
    def work(cancellation: Cancellation) -> dict[str, Any]:
        options = OpenOptions(inputs.read_only, tuple(inputs.paths), inputs.memory, inputs.threads)
        with open_database(inputs.database, options, cancellation) as connection:
            if inputs.table is not None:
                columns, rows = row_values(inputs.rows, inputs.columns, context.own_args)
                if rows:
                    with sql_errors():
                        _insert(connection, inputs.table, columns, rows)
                return changed(len(rows))
            return _run(connection, context.bound[inputs.sql_field], inputs.params, cancellation)

    return Outcome(result=await in_thread(work), extra={"duckdb": {"code": None}})


def _run(connection: DuckDBPyConnection, sql: Sql, params: Params, cancellation: Cancellation) -> dict[str, Any]:
    prepared = [ready for statement in statements(sql) for ready in _prepare(connection, statement, params)]
    if not prepared:
        raise Failure("input", "the SQL has no statement")
    transaction = len(prepared) > 1 and all(ready[0].type != StatementType.TRANSACTION for ready in prepared)
    if transaction:
        connection.begin()
    results = [_result(connection, *ready, cancellation) for ready in prepared]
    if transaction:
        with sql_errors():
            connection.commit()
    return combined(results)


def _prepare(connection: DuckDBPyConnection, sql: Sql, params: Params) -> list[tuple[Statement, Params, WrittenSql]]:
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


def _insert(connection: DuckDBPyConnection, table: str, columns: list[str], rows: list[list[Any]]) -> None:
    """Insert all rows in one transaction, as JSON, which is thirty times faster than one by one."""
    name = table_name(table)
    types = {row[0].lower(): row[1] for row in connection.execute(f"DESCRIBE {name}").fetchall()}
    unknown = [column for column in columns if column.lower() not in types]
    if unknown:
        raise Failure("input", f"{table} has no column {unknown[0]!r}; it has {', '.join(types)}")
    kinds = [types[column.lower()] for column in columns]
    values = ", ".join(_from_cell(f"cell[{number}]", kind) for number, kind in enumerate(kinds, start=1))
    into = f"INSERT INTO {name} ({', '.join(map(quoted, columns))})"
    if "BLOB" in kinds:  # bytes in place of text, since JSON has bytes in base64
        rows = [
            [v.encode() if k == "BLOB" and isinstance(v, str) else v for v, k in zip(row, kinds, strict=True)]
            for row in rows
        ]
    connection.begin()
    for start in range(0, len(rows), INSERT_ROWS):
        unpacked = """SELECT unnest(from_json($1, '[["JSON"]]')) AS cell"""
        connection.execute(f"{into} SELECT {values} FROM ({unpacked})", [as_json(rows[start : start + INSERT_ROWS])])
    connection.commit()


def _from_cell(cell: str, kind: str) -> str:
    if kind == "JSON" or kind.endswith("]") or kind.startswith(("STRUCT", "MAP", "UNION", "VARIANT")):
        return f"CAST({cell} AS {kind})"
    return f"from_base64({cell}->>'$')" if kind == "BLOB" else f"CAST({cell}->>'$' AS {kind})"
