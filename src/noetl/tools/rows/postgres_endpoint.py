"""PostgreSQL as an endpoint of a transfer, read and written with COPY.

Both use the driver's libpq calls: `cursor.copy()` creates several Python objects for each row, which makes reading
three times slower.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from typing import TYPE_CHECKING, Any

from noetl.model.outcome import Failure
from noetl.sql import quoted
from noetl.tools.rows.blocking import Cancellation
from noetl.tools.rows.columns import Column, from_postgres, to_postgres
from noetl.tools.rows.duckdb_database import table_name
from noetl.tools.rows.endpoints import StagedRows
from noetl.tools.rows.pipe import NULL, Aborted, Pipe, checked_count, run_both
from noetl.tools.rows.progress import Progress
from noetl.tools.rows.staging import Staging

if TYPE_CHECKING:
    from psycopg import Connection
    from psycopg.pq.abc import PGconn, PGresult

    from noetl.sql import Sql

SETTINGS = "SET LOCAL datestyle = 'ISO'; SET LOCAL intervalstyle = 'postgres'; SET LOCAL timezone = 'UTC'"
FORM = f"(FORMAT csv, NULL '{NULL}')"


# -- connection -------------------------------------------------------------------------------------------------------


class TransferConnection:
    """A connection of this transfer only."""

    def __init__(self, driver: Connection[Any]) -> None:
        self.driver = driver
        self.aborted = self.committing = False

    @property
    def pq(self) -> PGconn:
        return self.driver.pgconn

    def abort(self) -> None:
        """Cancel the running statement, from another thread; the second time, shut the socket down."""
        if self.driver.closed:
            return
        if not self.aborted:
            self.aborted = True
            with suppress(Exception):
                self.driver.cancel_safe(timeout=2)
                return
        with suppress(Exception), socket.socket(fileno=os.dup(self.pq.socket)) as wire:
            wire.shutdown(socket.SHUT_RDWR)

    def rows(self, statement: str, params: Any = None) -> list[tuple[Any, ...]]:
        cursor = self.driver.execute(statement, params)
        return cursor.fetchall() if cursor.description else []

    def begin_copy(self, statement: str) -> None:
        from psycopg.pq import ExecStatus

        result = self.pq.exec_(statement.encode())
        if result.status not in (ExecStatus.COPY_OUT, ExecStatus.COPY_IN):
            raise _error(result)

    def end_copy(self) -> int:
        """The number of rows, once the server has confirmed them."""
        from psycopg import OperationalError
        from psycopg.pq import ExecStatus

        rows, error = 0, None
        while (result := self.pq.get_result()) is not None:
            if result.status in (ExecStatus.COPY_IN, ExecStatus.COPY_OUT):  # it would return this for ever
                raise OperationalError("the COPY was interrupted")
            if result.status == ExecStatus.FATAL_ERROR:
                error = error or _error(result)
            rows = result.command_tuples or 0
        if error is not None:
            raise error
        return rows

    def copied(self) -> Iterator[memoryview]:
        get = self.pq.get_copy_data
        while True:
            size, row = get(0)
            if size < 0:
                return
            yield row


def _error(result: PGresult) -> Exception:
    from psycopg.errors import error_from_result

    return error_from_result(result)


@contextmanager
def open_connection(conninfo: str, cancellation: Cancellation) -> Iterator[TransferConnection]:
    """A connection with one transaction, which is rolled back unless it is committed."""
    import psycopg

    from noetl.tools.postgres_client.errors import connect_failure, statement_failure
    from noetl.tools.postgres_client.hosts import with_addresses

    try:
        driver = psycopg.connect(with_addresses(conninfo))
    except (psycopg.Error, OSError) as error:
        raise connect_failure(error) from None
    connection = TransferConnection(driver)
    connection.pq.nonblocking = 0  # or else data would pile up in the driver, and its end might never be sent
    try:
        cancellation.on_cancel(connection.abort)
        driver.execute(SETTINGS)
        yield connection
    except psycopg.Error as error:
        cancellation.check()
        raise statement_failure(error, None, not connection.committing) from None
    finally:
        driver.close()


# -- source -----------------------------------------------------------------------------------------------------------


class PostgresSource:
    """The rows of a query, in a transaction that reads one snapshot."""

    def __init__(self, connection: TransferConnection, query: str) -> None:
        self.connection, self.query = connection, query
        connection.rows("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
        self.names, self.types = self._described()
        self.columns: list[Column] = []
        self.relation = ""
        self.pipe: Pipe | None = None
        self.sent = 0

    def _described(self) -> tuple[list[str], list[str]]:
        """Names and PostgreSQL types of the columns."""
        cursor = self.connection.driver.execute(f"SELECT * FROM ({self.query}\n) AS q LIMIT 0")
        result = cursor.pgresult
        assert result is not None
        kinds = [(result.ftype(number), result.fmod(number)) for number in range(result.nfields)]
        names = [column.name for column in cursor.description or ()]
        oids, mods = [oid for oid, _ in kinds], [mod for _, mod in kinds]
        listed = "unnest(%s::oid[], %s::int[]) WITH ORDINALITY AS t(oid, mod, n)"
        rows = self.connection.rows(f"SELECT format_type(oid, mod) FROM {listed} ORDER BY n", (oids, mods))
        return names, [row[0] for row in rows]

    def through(self, staging: Staging, *, typed: bool) -> PostgresSource:
        """Make it readable for the staging database. `typed`: the target gets the types of the source."""
        kinds = [from_postgres(kind) for kind in self.types]
        if typed:
            kinds = self._with_scales(kinds)
        self.pipe = staging.pipe()
        self.columns = [Column(name, kind) for name, kind in zip(self.names, kinds, strict=True)]
        raw = [Column(f"c{number}", _pipe_type(column)) for number, column in enumerate(self.columns)]
        values = ", ".join(
            f"{_from_pipe(source.name, column)} AS {column.quoted}"
            for source, column in zip(raw, self.columns, strict=True)
        )
        self.relation = f"(SELECT {values} FROM {self.pipe.relation(raw)})"
        return self

    def _with_scales(self, kinds: list[str]) -> list[str]:
        """A `numeric` without a precision gets the scale of its values, so that no digit is lost."""
        bare = [number for number, kind in enumerate(self.types) if kind == "numeric"]
        if not bare:
            return kinds
        scales = ", ".join(f"coalesce(max(scale(c{number})), 0)" for number in bare)
        required = self.connection.rows(f"SELECT {scales} FROM {self._inner()}")[0]
        kinds = list(kinds)
        for number, scale in zip(bare, required, strict=True):
            kinds[number] = f"DECIMAL(38,{scale})" if scale < 38 else "VARCHAR"
        return kinds

    def _inner(self) -> str:
        names = ", ".join(f"c{number}" for number in range(len(self.names)))
        return f"({self.query}\n) AS q({names})"

    def begin(self) -> None:
        values = ", ".join(_to_pipe(f"c{number}", kind) for number, kind in enumerate(self.types))
        # A line must not be empty, as it would be for an empty text that is the only column.
        form = FORM.replace(")", ", FORCE_QUOTE *)") if len(self.names) == 1 else FORM
        self.connection.begin_copy(f"COPY (SELECT {values} FROM {self._inner()}) TO STDOUT {form}")

    def flow(self, consume: Callable[[], int], progress: Progress) -> int:
        pipe = self.pipe
        assert pipe is not None

        def abort() -> None:
            pipe.over.set()
            self.connection.abort()

        taken = run_both(lambda: self._feed(pipe, progress), consume, abort)
        return checked_count(self.sent, taken)

    def _feed(self, pipe: Pipe, progress: Progress) -> None:
        self.begin()
        writer = pipe.writer()
        if writer is None:
            raise Aborted
        with writer:
            write = writer.write
            for count, row in enumerate(self.connection.copied(), start=1):
                write(row)
                if not count & 0xFFF:
                    progress.reach(count)
            self.sent = self.connection.end_copy()


def _to_pipe(name: str, kind: str) -> str:
    """The expression that PostgreSQL writes a column with, for DuckDB."""
    if kind == "bytea":
        return f"encode({name}, 'hex')"
    return f"to_json({name})" if kind.endswith("[]") else name


def _pipe_type(column: Column) -> str:
    """The type of a column in the pipe."""
    return "VARCHAR" if column.type == "BLOB" or column.type.endswith("[]") else column.type


def _from_pipe(name: str, column: Column) -> str:
    if column.type == "BLOB":
        return f"unhex({name})"
    return f"CAST({name}::JSON AS {column.type})" if column.type.endswith("[]") else name


def postgres_text(connection: TransferConnection, sql: Sql, params: Any) -> str:
    """The query of a source with literals: COPY takes no parameters."""
    import psycopg
    from psycopg.pq import Escaping

    from noetl.sql import write
    from noetl.tools.postgres_client.literals import EMPTY_LIST, literals

    literal = literals(Escaping(connection.pq), "utf-8")
    if params is None:
        return write(sql, literal, empty=EMPTY_LIST).strip().rstrip(";")
    text = write(sql, lambda value: literal(value).replace("%", "%%"), empty=EMPTY_LIST)
    try:
        return psycopg.ClientCursor(connection.driver).mogrify(text, params).strip().rstrip(";")
    except (psycopg.DataError, psycopg.ProgrammingError) as error:
        raise Failure("input", f"`source.params` can't be sent to postgres: {error}") from None


# -- target -----------------------------------------------------------------------------------------------------------


class PostgresTarget:
    """A table, filled in one transaction."""

    def __init__(self, connection: TransferConnection, table: str, mode: str, key: list[str]) -> None:
        self.connection, self.mode, self.key = connection, mode, key
        self.name = table_name(table)
        self.types: dict[str, str] = {}
        self.into = self.name

    def accepts(self) -> dict[str, str] | None:
        sql = (
            "SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute "
            "WHERE attrelid = to_regclass(%s) AND attnum > 0 AND NOT attisdropped AND attgenerated = '' ORDER BY attnum"
        )
        self.types = {row[0]: row[1] for row in self.connection.rows(sql, (self.name,))}
        return self.types or None

    def prepare(self, columns: list[Column]) -> None:
        if not self.types:
            self.create({column.name: to_postgres(column.type) for column in columns})
        if self.mode == "replace":
            self.connection.rows(f"DELETE FROM {self.name}")
        if self.mode == "upsert":
            self.into = "noetl_transfer"
            names = ", ".join(column.quoted for column in columns)
            self.connection.rows(
                f"CREATE TEMP TABLE {self.into} ON COMMIT DROP AS SELECT {names} FROM {self.name} WITH NO DATA"
            )

    def create(self, types: dict[str, str]) -> None:
        self.types = types
        parts = [f"{quoted((name,))} {kind}" for name, kind in types.items()]
        if self.mode == "upsert":
            parts.append(f"PRIMARY KEY ({', '.join(quoted((name,)) for name in self.key)})")
        self.connection.rows(f"CREATE TABLE {self.name} ({', '.join(parts)})")

    def write(self, staging: Staging, rows: StagedRows, progress: Progress) -> int:
        pipe = staging.pipe()
        values = ", ".join(f"{_for_postgres(c, self.types[c.name])} AS {c.quoted}" for c in rows.columns)
        statement = pipe.copy(f"SELECT {values} FROM ({rows.query})", rows.columns)

        def copy_out() -> None:
            try:
                staging.execute(statement)
            finally:
                pipe.over.set()

        count = run_both(copy_out, lambda: self._take(pipe, rows.columns, progress), staging.connection.interrupt)
        return self.merge(rows.columns, count)

    def begin(self, columns: list[Column]) -> None:
        names = ", ".join(column.quoted for column in columns)
        self.connection.begin_copy(f"COPY {self.into} ({names}) FROM STDIN {FORM}")

    def _take(self, pipe: Pipe, columns: list[Column], progress: Progress) -> int:
        self.begin(columns)
        put, rows = self.connection.pq.put_copy_data, 0
        with closing(pipe.chunks()) as chunks:  # the writer must not wait for a reader that has ended
            for chunk in chunks:
                put(chunk)
                rows += chunk.count(b"\n")
                progress.reach(rows)
        self.connection.pq.put_copy_end()
        return self.connection.end_copy()

    def merge(self, columns: list[Column], count: int) -> int:
        """Move the rows of an upsert from the temporary table to the target."""
        if self.mode != "upsert":
            return count
        names = ", ".join(column.quoted for column in columns)
        others = [column.quoted for column in columns if column.name not in self.key]
        changes = ", ".join(f"{name} = excluded.{name}" for name in others)
        then = f"DO UPDATE SET {changes}" if others else "DO NOTHING"
        keys = ", ".join(quoted((name,)) for name in self.key)
        self.connection.rows(
            f"INSERT INTO {self.name} ({names}) SELECT {names} FROM {self.into} ON CONFLICT ({keys}) {then}"
        )
        return count

    def commit(self) -> None:
        self.connection.committing = True
        self.connection.driver.commit()


def _for_postgres(column: Column, kind: str) -> str:
    """The expression that DuckDB writes a column with, for a PostgreSQL type."""
    name = column.quoted
    if column.type == "BLOB":
        return rf"'\x' || hex({name})"
    if kind.endswith("[]") and column.nested:
        items = f"CAST({name} AS VARCHAR[])"
        escaped = r"""'"' || replace(replace(item, '\', '\\'), '"', '\"') || '"'"""
        listed = f"list_transform({items}, lambda item: coalesce({escaped}, 'NULL'))"
        return f"'{{' || array_to_string({listed}, ',') || '}}'"
    return f"to_json({name})" if column.nested and column.type != "JSON" else name


def copy_across(source: PostgresSource, target: PostgresTarget, columns: list[Column], progress: Progress) -> int:
    """From one PostgreSQL to another, without the staging database."""
    source.connection.begin_copy(f"COPY ({source.query}\n) TO STDOUT {FORM}")
    target.begin(columns)
    put, rows, buffer, size = target.connection.pq.put_copy_data, 0, [], 0
    for row in source.connection.copied():
        buffer.append(row)
        size += len(row)
        if size > 1 << 18:
            put(b"".join(buffer))
            rows += len(buffer)
            progress.reach(rows)
            buffer, size = [], 0
    source.connection.end_copy()
    if buffer:
        put(b"".join(buffer))
    target.connection.pq.put_copy_end()
    return target.merge(columns, target.connection.end_copy())
