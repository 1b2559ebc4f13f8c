"""The parts that all endpoints of a transfer share: the staging database, pipes, sources, targets and progress."""

from __future__ import annotations

import fcntl
import os
import re
import select
import tempfile
import threading
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from itertools import count
from typing import Any, BinaryIO, NamedTuple, TypeVar

import duckdb
from duckdb import DuckDBPyConnection

from noetl.model.outcome import Failure
from noetl.sql.statements import quoted
from noetl.tools.files import task_file
from noetl.tools.rows import duckdb_database
from noetl.tools.rows.blocking import Cancellation, start_thread
from noetl.tools.rows.duckdb_database import OpenOptions, literal, sql_errors

T = TypeVar("T")
LOG_INTERVAL_SECONDS = 1.0
PIPE_BYTES = 1 << 20
MAX_ROW_BYTES = 16 << 20  # DuckDB allocates two buffers of that size while it reads
POLL_SECONDS = 0.02
FIRST_ERROR_SECONDS = 0.2  # how long the other end may take to report the error that broke the pipe
NULL = r"\N"  # Null in CSV. The text of these two characters is in quotes.
DECIMAL_DIGITS = 38
SUB_TIMESTAMPS = ("TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS")


class Column(NamedTuple):
    name: str
    type: str

    @property
    def quoted(self) -> str:
        return quoted(self.name)

    @property
    def nested(self) -> bool:
        """Whether databases without such a type get its values as JSON."""
        return self.type == "JSON" or self.type.endswith("]") or self.type.startswith(("STRUCT", "MAP", "UNION"))


class TransferProgress:
    def __init__(self, log: Callable[[str], object]) -> None:
        self.log, self._logged = log, time.monotonic()

    def reach(self, rows: int) -> None:
        now = time.monotonic()
        if now - self._logged >= LOG_INTERVAL_SECONDS:
            self._logged = now
            self.log(f"{rows:,} rows")


class Staging(NamedTuple):
    """A DuckDB in memory between source and target, which passes the rows on at its own speed."""

    connection: DuckDBPyConnection
    folder: str

    def describe(self, query: str) -> list[Column]:
        with_zone = r"^TIMESTAMP WITH TIME ZONE"
        return [Column(row[0], re.sub(with_zone, "TIMESTAMPTZ", row[1])) for row in self.rows(f"DESCRIBE {query}")]

    def rows(self, query: str, params: list[Any] | None = None) -> list[Any]:
        with sql_errors():
            return self.connection.execute(query, params).fetchall()

    def batches(self, query: str, size: int) -> Iterator[list[Any]]:
        with sql_errors():
            self.connection.execute(query)
            while batch := self.connection.fetchmany(size):
                yield batch

    def execute(self, statement: str, params: Any = None) -> int:
        """Run a statement; return how many rows it changed or wrote."""
        with sql_errors():
            self.connection.execute(statement, params)
            return max(0, int(self.connection.rowcount))


@contextmanager
def open_staging(
    databases: dict[str, tuple[str, bool]], paths: list[str], cancellation: Cancellation
) -> Iterator[Staging]:
    """A staging database with attached files by alias, each with whether it is only read; and access to the paths
    only."""
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="noetl-transfer-"))
        files = {alias: (task_file(path, "database"), reads) for alias, (path, reads) in databases.items()}
        for path in sorted({path for path, _ in files.values()}):
            stack.enter_context(duckdb_database.hold_file(path, None, cancellation))
        options = OpenOptions(memory="128MB")
        connection = stack.enter_context(duckdb_database.open_instance(":memory:", options, locked=False))
        cancellation.on_cancel(connection.interrupt)
        for alias, (path, reads) in files.items():
            if reads and not os.path.exists(path):
                raise Failure("not_found", f"the database {path} does not exist")
            access = "READ_ONLY" if reads else "READ_WRITE"
            try:
                connection.execute(f"ATTACH {literal(path)} AS {quoted(alias)} ({access})")
            except duckdb.Error as error:
                raise duckdb_database.open_failure(path, error) from None
        duckdb_database.lock_down(connection, [folder, *paths])
        yield Staging(connection, folder)


class Aborted(Exception):
    """DuckDB will never open its end of the pipe."""


class Pipe:
    """A named pipe, which DuckDB reads and writes as a CSV file. DuckDB opens its end when it runs a statement, which
    may never happen: this end stops waiting when `over` is set."""

    _numbers = count(1)

    def __init__(self, folder: str) -> None:
        self.path = os.path.join(folder, f"pipe-{next(self._numbers)}.csv")
        self.over = threading.Event()
        os.mkfifo(self.path, 0o600)

    def relation(self, columns: list[Column]) -> str:
        types = ", ".join(f"{literal(column.name)}: {literal(column.type)}" for column in columns)
        return (
            f"read_csv({literal(self.path)}, columns = {{{types}}}, auto_detect = false, header = false, delim = ',', "
            f"quote = '\"', escape = '\"', nullstr = {literal(NULL)}, allow_quoted_nulls = false, parallel = false, "
            f"max_line_size = {MAX_ROW_BYTES}, buffer_size = {MAX_ROW_BYTES})"
        )

    def copy(self, query: str, columns: list[Column]) -> str:
        quotes = f", force_quote ({columns[0].quoted})" if len(columns) == 1 else ""  # a line must not be `\.`
        form = f"format csv, header false, delim ',', quote '\"', escape '\"', nullstr {literal(NULL)}{quotes}"
        return f"COPY ({query}) TO {literal(self.path)} ({form})"

    def writer(self) -> BinaryIO:
        while not self.over.is_set():
            with suppress(OSError):  # no reader yet
                descriptor = self._open(os.O_WRONLY)
                os.set_blocking(descriptor, True)
                return open(descriptor, "wb", buffering=PIPE_BYTES // 4)
            time.sleep(POLL_SECONDS / 10)
        raise Aborted

    def chunks(self) -> Generator[bytes]:
        descriptor = self._open(os.O_RDONLY)
        try:
            poll = select.poll()
            poll.register(descriptor, select.POLLIN)
            while not poll.poll(POLL_SECONDS * 1000):
                if self.over.is_set() and not poll.poll(0):
                    return
            os.set_blocking(descriptor, True)
            while chunk := os.read(descriptor, PIPE_BYTES):
                yield chunk
        finally:
            os.close(descriptor)

    def _open(self, flags: int) -> int:
        descriptor = os.open(self.path, flags | os.O_NONBLOCK)
        with suppress(OSError, AttributeError):  # as wide as the system allows
            fcntl.fcntl(descriptor, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
        return descriptor


def run_both(other: Callable[[], object], main: Callable[[], T], abort: Callable[[], object]) -> T:
    """The result of `main`, which runs together with `other`, each at one end of a pipe. When one fails, the other
    finds its pipe broken: the first error is raised. `abort` ends the other if it waits for something else than the
    pipe."""
    thread, outcome = start_thread(other)
    try:
        result = main()
    except BaseException:
        thread.join(FIRST_ERROR_SECONDS)  # if it failed first, it is about to report it
        first = outcome.exception() if outcome.done() else None
        with suppress(Exception):
            abort()
        thread.join()
        if first and not isinstance(first, (BrokenPipeError, Aborted)) and "Broken pipe" not in str(first):
            raise first from None
        raise
    outcome.result()
    return result


class StagedRows(NamedTuple):
    query: str
    columns: list[Column]

    def select(self, expression: Callable[[Column], str]) -> str:
        values = ", ".join(f"{expression(column)} AS {column.quoted}" for column in self.columns)
        return f"SELECT {values} FROM ({self.query})"


class SourceEndpoint:
    """A relation that the staging database reads by itself."""

    def __init__(self, relation: str, columns: list[Column]) -> None:
        self.relation, self.columns = relation, columns

    def flow(self, consume: Callable[[], int], progress: TransferProgress) -> int:
        """Send the rows while `consume` reads them from the relation; return how many it read."""
        return consume()


class PipedSource(SourceEndpoint):
    """A source that writes its rows to a pipe as CSV: binary values in hexadecimal, arrays as JSON."""

    def __init__(self, pipe: Pipe, columns: list[Column]) -> None:
        self.pipe, self.sent = pipe, 0
        raw, values = [], []
        for number, column in enumerate(columns):
            kind, value = column.type, f"c{number}"
            if kind == "BLOB":
                kind, value = "VARCHAR", f"unhex({value})"
            elif kind.endswith("[]"):
                kind, value = "VARCHAR", f"CAST({value}::JSON AS {kind})"
            raw.append(Column(f"c{number}", kind))
            values.append(f"{value} AS {column.quoted}")
        super().__init__(f"(SELECT {', '.join(values)} FROM {pipe.relation(raw)})", columns)

    def flow(self, consume: Callable[[], int], progress: TransferProgress) -> int:
        received = run_both(lambda: self.feed(progress), consume, self.abort)
        if self.sent != received:
            raise Failure("internal", f"{self.sent:,} rows were sent and {received:,} received: nothing was changed")
        return received

    def feed(self, progress: TransferProgress) -> None:
        """Write all rows to the pipe, and count them in `sent`."""
        raise NotImplementedError

    def abort(self) -> None:
        self.pipe.over.set()


class TargetEndpoint:
    """Nothing that it writes is visible to others before `commit`, except over HTTP."""

    types: Mapping[str, str] = {}
    """The existing columns with their types, as the target names them; empty if any columns will do."""

    def prepare(self, columns: list[Column]) -> None:
        """Create the table if it is missing, and delete the rows that are replaced."""

    def write(self, staging: Staging, rows: StagedRows, progress: TransferProgress) -> int:
        """Write all rows; return how many."""
        raise NotImplementedError

    def commit(self) -> None: ...
