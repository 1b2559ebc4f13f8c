"""DuckDB itself for the kinds `duckdb` and `transfer`: opened, and locked down.

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
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple
from weakref import WeakValueDictionary

import duckdb
import msgspec
from duckdb import DuckDBPyConnection, Error

from noetl.model.outcome import Failure
from noetl.sql.statements import WrittenSql, quoted, simple_literal
from noetl.tools.files import task_file, task_folder
from noetl.tools.rows.blocking import Cancellation

WAL_SUFFIXES = (".wal", ".wal.checkpoint", ".wal.recovery")
LOCK_POLL_SECONDS = 0.05


class OpenOptions(NamedTuple):
    """Calls with the same options share an open database."""

    read_only: bool = False
    paths: tuple[str, ...] = ()
    memory: str = "1GB"
    threads: int = 2


@contextmanager
def open_database(
    database: str | None, options: OpenOptions, cancellation: Cancellation, *, alone: bool = False
) -> Iterator[DuckDBPyConnection]:
    """A connection of its own. `alone`: no other such call writes to the file at the same time, so that none of them
    fails with a conflict."""
    for declared in options.paths:
        task_folder(declared, "paths")
    with ExitStack() as stack:
        if database is None:
            connection = open_instance(":memory:", options)
        else:
            path = task_file(database, "database")
            file = stack.enter_context(hold_file(path, options, cancellation))
            if alone:
                stack.enter_context(file.only_writer(cancellation))
            connection = file.instance.cursor()
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
        self._writer = threading.Lock()

    @contextmanager
    def only_writer(self, cancellation: Cancellation) -> Iterator[None]:
        while not self._writer.acquire(timeout=LOCK_POLL_SECONDS):
            cancellation.check()
        try:
            yield
        finally:
            self._writer.release()


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
                file.changed.wait(LOCK_POLL_SECONDS)
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
        place["line"], place["column"], _ = sql.place(len(before) + 1)
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
