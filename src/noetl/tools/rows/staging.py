"""The staging database of a transfer: a DuckDB in memory between source and target.

It reads the source as a relation and passes its rows to the target at DuckDB's own speed. Database files of both
endpoints are attached to it; statements can access those, the files that are read or written, and nothing else.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, TypeVar

from noetl.model.outcome import Failure
from noetl.sql import quoted
from noetl.tools.files import task_file
from noetl.tools.rows.blocking import Cancellation
from noetl.tools.rows.columns import Column
from noetl.tools.rows.duckdb_database import (
    OpenOptions,
    hold_file,
    literal,
    lock_down,
    open_failure,
    open_instance,
    sql_failure,
)
from noetl.tools.rows.pipe import Pipe

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

T = TypeVar("T")
MEMORY, THREADS = "128MB", 2


class Staging:
    """A connection, and a folder for pipes and temporary files."""

    def __init__(self, connection: DuckDBPyConnection, folder: str) -> None:
        self.connection, self.folder = connection, folder

    def pipe(self) -> Pipe:
        return Pipe(self.folder)

    def describe(self, query: str) -> list[Column]:
        rows = self.checked(lambda: self.connection.execute(f"DESCRIBE {query}").fetchall())
        return [Column(row[0], row[1]) for row in rows]

    def execute(self, statement: str) -> int:
        """Run a statement; return how many rows it changed or wrote."""

        def run() -> int:
            self.connection.execute(statement)
            return max(0, int(self.connection.rowcount))

        return self.checked(run)

    def checked(self, operation: Callable[[], T]) -> T:
        """The result of an operation, with a Failure in place of an error of DuckDB."""
        import duckdb

        try:
            return operation()
        except duckdb.Error as error:
            raise sql_failure(error) from None


@contextmanager
def open_staging(
    databases: dict[str, tuple[str, bool]], paths: list[str], cancellation: Cancellation
) -> Iterator[Staging]:
    """A staging database with attached files by alias, each with whether it is only read, and the paths to allow."""
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="noetl-transfer-"))
        files = {alias: (task_file(path, "database"), reads) for alias, (path, reads) in databases.items()}
        for path in sorted({path for path, _ in files.values()}):
            stack.enter_context(hold_file(path, OpenOptions(alone=object()), cancellation, open_it=False))
        connection = stack.enter_context(
            open_instance(":memory:", OpenOptions(memory=MEMORY, threads=THREADS), locked=False)
        )
        cancellation.on_cancel(connection.interrupt)
        for alias, (path, reads) in files.items():
            _attach(connection, alias, path, reads)
        lock_down(connection, [folder, *paths])
        yield Staging(connection, folder)


def _attach(connection: DuckDBPyConnection, alias: str, path: str, reads: bool) -> None:
    import duckdb

    if reads and not os.path.exists(path):
        raise Failure("not_found", f"the database {path} does not exist")
    try:
        connection.execute(f"ATTACH {literal(path)} AS {quoted((alias,))} ({'READ_ONLY' if reads else 'READ_WRITE'})")
    except duckdb.Error as error:
        raise open_failure(path, error) from None
