"""DuckDB as the kinds `duckdb` and `transfer` open it: locked down, shared where DuckDB insists, with its errors read.

Locked down means that statements reach no file but those declared and no network at all, load no extension and can't
change any of that. DuckDB itself follows links and `..` before it compares a path with the declared ones.

DuckDB opens a file once in a process, with one set of settings. Calls with the same settings share what is open. A call
with others waits until it is closed, and calls come to their turn in the order in which they asked. A file is closed
when its last call ends, so that other processes can open it.
"""

from __future__ import annotations

import os
import tempfile
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakValueDictionary

import msgspec

from noetl.model.outcome import Failure
from noetl.sql import quoted
from noetl.tools.files import task_file, task_folder
from noetl.tools.rows.thread import Stop

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection, Error

SPILL_LIMIT = "20GB"
LOGS = (".wal", ".wal.checkpoint", ".wal.recovery")
"""What stands beside a database file while it is open."""
CLOSED = {
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "allow_community_extensions": "false",
    "allow_persistent_secrets": "false",
    "python_enable_replacements": "false",
    "errors_as_json": "true",
}


class Access(NamedTuple):
    """How a database is opened. Calls that agree in it can share what is open."""

    read_only: bool = False
    paths: tuple[str, ...] = ()
    memory: str = "1GB"
    threads: int = 2
    alone: object = None
    """Something of its own, for a caller that shares with nobody."""


# -- opening ----------------------------------------------------------------------------------------------------------


@contextmanager
def opened(database: str | None, access: Access, stop: Stop) -> Iterator[DuckDBPyConnection]:
    """A connection to a file, or to a database in memory that ends with it."""
    for declared in access.paths:
        task_folder(declared, "paths")
    if database is None:
        instance = open_instance(":memory:", access)
        try:
            yield _stoppable(instance, stop)
        finally:
            instance.close()
        return
    path = task_file(database, "database")
    with file_turn(path, access, stop) as file:
        connection = file.instance.cursor()
        try:
            yield _stoppable(connection, stop)
        finally:
            connection.close()


def _stoppable(connection: DuckDBPyConnection, stop: Stop) -> DuckDBPyConnection:
    stop.by(connection.interrupt)
    return connection


class File:
    """One database file in this process: who waits for it and what is open."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.queue: deque[object] = deque()
        self.users = 0
        self.access: Access | None = None
        self.instance: Any = None


_FILES: WeakValueDictionary[str, File] = WeakValueDictionary()
_LOCK = threading.Lock()


@contextmanager
def file_turn(path: str, access: Access, stop: Stop, *, open_it: bool = True) -> Iterator[File]:
    """Wait for the turn on a file and keep it open, or with `open_it` false only keep others of this process out."""
    with _LOCK:
        file = _FILES.setdefault(path, File())
    with file.changed:
        _wait(file, access, stop)
        if file.users == 0 and open_it:
            file.instance = open_instance(path, access)
        file.users, file.access = file.users + 1, access
    try:
        yield file
    finally:
        with file.changed:
            file.users -= 1
            if file.users == 0 and file.instance is not None:
                file.instance.close()
                file.instance = None
            file.changed.notify_all()


def _wait(file: File, access: Access, stop: Stop) -> None:
    ticket = object()
    file.queue.append(ticket)
    try:
        while file.queue[0] is not ticket or (file.users and file.access != access):
            stop.check()
            file.changed.wait(0.05)
    finally:
        file.queue.remove(ticket)
        file.changed.notify_all()


def open_instance(path: str, access: Access, *, locked: bool = True) -> DuckDBPyConnection:
    import duckdb

    spill = os.path.join(tempfile.gettempdir(), f"noetl-duckdb-{os.getpid()}-{os.urandom(6).hex()}")
    limits = {"memory_limit": access.memory, "threads": str(access.threads)}
    config: dict[str, Any] = {**CLOSED, **limits, "temp_directory": spill, "max_temp_directory_size": SPILL_LIMIT}
    try:
        instance = duckdb.connect(path, access.read_only, config)
    except duckdb.Error as error:
        raise unopened(path, error) from None
    try:
        instance.execute("SET enable_progress_bar = false")  # on where Python looks interactive; it goes to stdout
        if locked:
            lock_down(instance, access.paths)
    except duckdb.Error as error:
        instance.close()
        raise failure(error) from None
    return instance


def lock_down(connection: DuckDBPyConnection, paths: Sequence[str]) -> None:
    """From here on only the paths can be read and written, and nothing can be configured but the time zone."""
    folders, files = _allowed(paths)
    connection.execute("SET GLOBAL TimeZone = 'UTC'")
    connection.execute(f"SET allowed_directories = {literal(folders)}")
    connection.execute(f"SET allowed_paths = {literal(files)}")
    connection.execute("SET allowed_configs = ['TimeZone']")
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")


def _allowed(paths: Sequence[str]) -> tuple[list[str], list[str]]:
    """Folders and files. What does not exist yet may become either. A file is written beside itself first."""
    folders, files = [], []
    for path in map(os.path.realpath, paths):
        if not os.path.isfile(path):
            folders.append(path)
        if not os.path.isdir(path):
            folder, name = os.path.split(path)
            files += [path, os.path.join(folder, f"tmp_{name}"), *(f"{path}{suffix}" for suffix in LOGS)]
    return folders, files


# -- text -------------------------------------------------------------------------------------------------------------


def literal(value: Any) -> str:
    """A value as DuckDB reads it in a statement."""
    match value:
        case None:
            return "NULL"
        case bool():
            return "TRUE" if value else "FALSE"
        case int():
            return str(value)
        case float():
            written = repr(value)
            return written if "e" in written else f"{written}e0" if "." in written else f"'{written}'::DOUBLE"
        case bytes():
            return "'" + "".join(f"\\x{byte:02X}" for byte in value) + "'::BLOB"
        case list() if is_array(value):
            return f"[{', '.join(map(literal, value))}]"
        case list() | dict():
            return f"{literal(as_json(value))}::JSON"
    return "'" + str(value).replace("'", "''") + "'"


def is_array(value: list[Any]) -> bool:
    """Whether the items are of one simple kind, so that the list is an array; any other list is JSON."""
    kinds = {type(item) for item in value if item is not None}
    return kinds <= {int, float} or (len(kinds) == 1 and kinds <= {str, bool, bytes})


def as_json(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def table_name(name: str) -> str:
    """`schema.table` with each part in quotes."""
    parts = tuple(name.split("."))
    if not all(parts) or "\0" in name:
        raise Failure("input", f"{name!r} is no name of a table")
    return quoted(parts)


# -- errors -----------------------------------------------------------------------------------------------------------


class Complaint(NamedTuple):
    """An error of DuckDB, read."""

    code: str | None
    message: str
    position: int | None


def complaint(error: Error) -> Complaint:
    """What DuckDB says. Its errors are JSON after a title, except those of a connection that is not open yet."""
    text = str(error)
    try:
        said = msgspec.json.decode(text[text.index("{") :])
        position = int(said["position"]) if "position" in said else None
        return Complaint(said["exception_type"], said["exception_message"], position)
    except (ValueError, KeyError, TypeError, msgspec.DecodeError):
        title, _, rest = text.partition(" Error: ")
        return Complaint(title if rest else None, (rest or text).partition("\n\nLINE ")[0], None)


def failure(error: Error, line: int | None = None, *, advice: str | None = None) -> Failure:
    """The outcome of a statement that failed, with what to do about it where that is known."""
    import duckdb

    said = complaint(error)
    kind, message, retryable = "sql", f"{said.code}: {said.message}" if said.code else said.message, False
    match error:
        case duckdb.OutOfMemoryException():
            kind, message = "too_large", message.partition("\n")[0]
        case duckdb.TransactionException():
            retryable = "onflict" in said.message  # another call was first; all else is in the statements
        case duckdb.IOException() if "No files found" in said.message or "No such file" in said.message:
            kind = "not_found"
    if advice is not None:
        message += f". {advice}"
    place = {} if line is None else {"line": line}
    where = "" if line is None else f" (line {line} of the SQL)"
    return Failure(kind, f"{message}{where}", retryable=retryable, extra=about(said.code), **place)


def about(code: str | None) -> dict[str, Any]:
    """`outcome.duckdb`."""
    return {"duckdb": {"code": code}}


def unopened(path: str, error: Error) -> Failure:
    said = complaint(error)
    if "lock on file" in said.message:
        message = f"the database {path} is open in another process: try again when that is done"
        return Failure("connect", message, retryable=True, extra=about(said.code))
    if "does not exist" in said.message or "No such file" in said.message:
        message = f"there is no database {path}, or no folder for it: {said.message}"
        return Failure("not_found", message, extra=about(said.code))
    return Failure("input", f"the database {path} can't be opened: {said.message}", extra=about(said.code))
