"""The DuckDB in memory that stands between the two sides of a transfer.

It reads the source as a relation and hands its rows to the target in DuckDB's own speed. Database files of either side
are attached to it; statements reach those, the files that are read or written, and nothing else.
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
from noetl.tools.rows.columns import Column
from noetl.tools.rows.duck import Access, failure, file_turn, literal, lock_down, open_instance, unopened
from noetl.tools.rows.pipe import Pipe
from noetl.tools.rows.thread import Stop

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

T = TypeVar("T")
MEMORY, THREADS = "128MB", 2


class Hub:
    """One connection, and a folder for pipes and for what has to be laid down in between."""

    def __init__(self, connection: DuckDBPyConnection, folder: str) -> None:
        self.connection, self.folder = connection, folder

    def pipe(self) -> Pipe:
        return Pipe(self.folder)

    def describe(self, query: str) -> list[Column]:
        rows = self.checked(lambda: self.connection.execute(f"DESCRIBE {query}").fetchall())
        return [Column(row[0], row[1]) for row in rows]

    def execute(self, statement: str) -> int:
        """Run a statement; how many rows it has changed or written."""

        def run() -> int:
            self.connection.execute(statement)
            return max(0, int(self.connection.rowcount))

        return self.checked(run)

    def checked(self, act: Callable[[], T]) -> T:
        """What DuckDB is asked for, with its errors made ours."""
        import duckdb

        try:
            return act()
        except duckdb.Error as error:
            raise failure(error) from None


@contextmanager
def opened_hub(databases: dict[str, tuple[str, bool]], paths: list[str], stop: Stop) -> Iterator[Hub]:
    """A hub with database files by alias, each with whether it is only read, and the paths that may be used."""
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="noetl-transfer-"))
        files = {alias: (task_file(path, "database"), reads) for alias, (path, reads) in databases.items()}
        for path in sorted({path for path, _ in files.values()}):
            stack.enter_context(file_turn(path, Access(alone=object()), stop, open_it=False))
        connection = stack.enter_context(
            open_instance(":memory:", Access(memory=MEMORY, threads=THREADS), locked=False)
        )
        stop.by(connection.interrupt)
        for alias, (path, reads) in files.items():
            _attach(connection, alias, path, reads)
        lock_down(connection, [folder, *paths])
        yield Hub(connection, folder)


def _attach(connection: DuckDBPyConnection, alias: str, path: str, reads: bool) -> None:
    import duckdb

    if reads and not os.path.exists(path):
        raise Failure("not_found", f"there is no database {path}")
    try:
        connection.execute(f"ATTACH {literal(path)} AS {quoted((alias,))} ({'READ_ONLY' if reads else 'READ_WRITE'})")
    except duckdb.Error as error:
        raise unopened(path, error) from None
