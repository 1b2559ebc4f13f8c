"""The staging database of a transfer: a DuckDB in memory between source and target.

It reads the source as a relation and passes its rows to the target at DuckDB's own speed. Database files of both
endpoints are attached to it; statements can access those, the files that are read or written, and nothing else.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple

import duckdb
from duckdb import DuckDBPyConnection

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
    sql_errors,
)

MEMORY, THREADS = "128MB", 2


class Staging(NamedTuple):
    connection: DuckDBPyConnection
    folder: str
    """For pipes and temporary files."""

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
    """A staging database with attached files by alias, each with whether it is only read, and the paths to allow."""
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="noetl-transfer-"))
        files = {alias: (task_file(path, "database"), reads) for alias, (path, reads) in databases.items()}
        for path in sorted({path for path, _ in files.values()}):
            stack.enter_context(hold_file(path, None, cancellation))
        connection = stack.enter_context(
            open_instance(":memory:", OpenOptions(memory=MEMORY, threads=THREADS), locked=False)
        )
        cancellation.on_cancel(connection.interrupt)
        for alias, (path, reads) in files.items():
            if reads and not os.path.exists(path):
                raise Failure("not_found", f"the database {path} does not exist")
            access = "READ_ONLY" if reads else "READ_WRITE"
            try:
                connection.execute(f"ATTACH {literal(path)} AS {quoted(alias)} ({access})")
            except duckdb.Error as error:
                raise open_failure(path, error) from None
        lock_down(connection, [folder, *paths])
        yield Staging(connection, folder)
