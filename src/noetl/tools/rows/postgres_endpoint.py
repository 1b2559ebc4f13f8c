"""PostgreSQL as an endpoint of a transfer, read and written with COPY.

Both use the driver's libpq calls: `cursor.copy()` creates several Python objects for each row, which makes reading
three times slower.
"""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from typing import Any

import psycopg
from psycopg import Connection
from psycopg.errors import error_from_result
from psycopg.pq import Escaping, ExecStatus

from noetl.model.outcome import Failure
from noetl.sql.statements import Sql, quoted, write
from noetl.tools.postgres_client.connections import with_addresses
from noetl.tools.postgres_client.session import connect_failure, statement_failure
from noetl.tools.postgres_client.values import EMPTY_LIST, literals
from noetl.tools.rows import endpoints
from noetl.tools.rows.blocking import Cancellation
from noetl.tools.rows.duckdb_database import table_name
from noetl.tools.rows.endpoints import NULL, Column, Pipe, PipedSource, StagedRows, Staging, TransferProgress
from noetl.tools.rows.tables import (
    create_table,
    duplicate_key,
    duplicate_keys,
    insert_or_update,
    no_unique_index,
)

SETTINGS = "SET LOCAL datestyle = 'ISO'; SET LOCAL intervalstyle = 'postgres'; SET LOCAL timezone = 'UTC'"
FORM = f"FORMAT csv, NULL '{NULL}'"
COPYING = (ExecStatus.COPY_OUT, ExecStatus.COPY_IN)
BUFFER_BYTES = 1 << 18
SAME_IN_POSTGRES = ("SMALLINT", "INTEGER", "BIGINT", "BOOLEAN", "DATE", "INTERVAL", "UUID")
FROM_POSTGRES = {
    **{name.lower(): name for name in SAME_IN_POSTGRES},
    "oid": "BIGINT",
    "real": "FLOAT",
    "double precision": "DOUBLE",
    "time without time zone": "TIME",
    "timestamp without time zone": "TIMESTAMP",
    "timestamp with time zone": "TIMESTAMPTZ",
    "bytea": "BLOB",
    "json": "JSON",
    "jsonb": "JSON",
}
TO_POSTGRES = {
    **{name: name.lower() for name in (*SAME_IN_POSTGRES, "TIME", "TIMESTAMP", "TIMESTAMPTZ")},
    **dict.fromkeys(("TINYINT", "UTINYINT"), "smallint"),
    "USMALLINT": "integer",
    "UINTEGER": "bigint",
    "UBIGINT": "numeric(20,0)",
    **dict.fromkeys(("HUGEINT", "UHUGEINT"), "numeric(39,0)"),
    "FLOAT": "real",
    "DOUBLE": "double precision",
    **dict.fromkeys(endpoints.SUB_TIMESTAMPS, "timestamp"),
    "BLOB": "bytea",
}


class TransferConnection:
    def __init__(self, driver: Connection[Any]) -> None:
        self.driver, self.pq = driver, driver.pgconn
        self.aborted = self.committing = False

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
        result = self.pq.exec_(statement.encode())
        if result.status not in COPYING:
            raise error_from_result(result)

    def end_copy(self) -> int:
        rows, error = 0, None
        while (result := self.pq.get_result()) is not None:
            if result.status in COPYING:  # it would return this for ever
                raise psycopg.OperationalError("the COPY was interrupted")
            if result.status == ExecStatus.FATAL_ERROR:
                error = error or error_from_result(result)
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


@contextmanager
def open_connection(conninfo: str, cancellation: Cancellation) -> Iterator[TransferConnection]:
    """A connection with one transaction, which is rolled back unless it is committed."""
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


def postgres_text(connection: TransferConnection, sql: Sql, params: Any) -> str:
    """The query of a source with literals: COPY takes no parameters."""
    literal = literals(Escaping(connection.pq), "utf-8")
    if params is None:
        return write(sql, literal, empty=EMPTY_LIST).strip().rstrip(";")
    text = write(sql, lambda value: literal(value).replace("%", "%%"), empty=EMPTY_LIST)
    try:
        return psycopg.ClientCursor(connection.driver).mogrify(text, params).strip().rstrip(";")
    except (psycopg.DataError, psycopg.ProgrammingError) as error:
        raise Failure("input", f"`source.params` cannot be sent to postgres: {error}") from None


def describe(connection: TransferConnection, query: str) -> list[Column]:
    """The columns of a query with their PostgreSQL types. Begins a transaction that reads one snapshot."""
    connection.rows("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
    cursor = connection.driver.execute(f"SELECT * FROM ({query}\n) AS q LIMIT 0")
    result = cursor.pgresult
    assert result is not None
    fields = range(result.nfields)
    types = [result.ftype(field) for field in fields], [result.fmod(field) for field in fields]
    listed = "unnest(%s::oid[], %s::int[]) WITH ORDINALITY AS t(oid, mod, n)"
    rows = connection.rows(f"SELECT format_type(oid, mod) FROM {listed} ORDER BY n", types)
    return [Column(field.name, kind) for field, (kind,) in zip(cursor.description or (), rows, strict=True)]


class PostgresSource(PipedSource):
    """The rows of a query. `typed`: the target gets the types of the source."""

    def __init__(self, connection: TransferConnection, query: str, staging: Staging, *, typed: bool) -> None:
        self.connection = connection
        columns = describe(connection, query)
        names = [f"c{number}" for number in range(len(columns))]
        values = [_to_pipe(name, column.type) for name, column in zip(names, columns, strict=True)]
        inner = f"({query}\n) AS q({', '.join(names)})"
        # A line must not be empty, as it would be for an empty text that is the only column.
        form = f"{FORM}, FORCE_QUOTE *" if len(columns) == 1 else FORM
        self.copy = f"COPY (SELECT {', '.join(values)} FROM {inner}) TO STDOUT ({form})"
        kinds = [_from_postgres(column.type) for column in columns]
        bare = [number for number, column in enumerate(columns) if column.type == "numeric"]
        if typed and bare:  # without a precision it gets the scale of its values, so that no digit is lost
            scales = ", ".join(f"coalesce(max(scale(c{number})), 0)" for number in bare)
            for number, scale in zip(bare, connection.rows(f"SELECT {scales} FROM {inner}")[0], strict=True):
                kinds[number] = f"DECIMAL(38,{scale})" if scale < 38 else "VARCHAR"
        super().__init__(Pipe(staging.folder), [Column(c.name, kind) for c, kind in zip(columns, kinds, strict=True)])

    def feed(self, progress: TransferProgress) -> None:
        self.connection.begin_copy(self.copy)
        with self.pipe.writer() as writer:
            write = writer.write
            for count, row in enumerate(self.connection.copied(), start=1):
                write(row)
                if not count & 0xFFF:
                    progress.reach(count)
            self.sent = self.connection.end_copy()

    def abort(self) -> None:
        super().abort()
        self.connection.abort()


def _to_pipe(name: str, kind: str) -> str:
    if kind == "bytea":
        return f"encode({name}, 'hex')"
    return f"to_json({name})" if kind.endswith("[]") else name


class PostgresTarget(endpoints.TargetEndpoint):
    def __init__(self, connection: TransferConnection, table: str, mode: str, key: list[str]) -> None:
        self.connection, self.table, self.mode, self.key = connection, table, mode, key
        self.name = self.into = table_name(table)
        sql = (
            "SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute "
            "WHERE attrelid = to_regclass(%s) AND attnum > 0 AND NOT attisdropped AND attgenerated = '' ORDER BY attnum"
        )
        self.types = {row[0]: row[1] for row in connection.rows(sql, (self.name,))}

    def prepare(self, columns: list[Column]) -> None:
        if not self.types:
            self.create({column.name: _to_postgres(column.type) for column in columns})
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
        self.connection.rows(create_table(self.name, types, self.key if self.mode == "upsert" else []))

    def write(self, staging: Staging, rows: StagedRows, progress: TransferProgress) -> int:
        pipe = Pipe(staging.folder)
        query = rows.select(lambda column: _for_postgres(column, self.types[column.name]))

        def copy_out() -> None:
            try:
                staging.execute(pipe.copy(query, rows.columns))
            finally:
                pipe.over.set()

        def copy_in() -> int:
            with closing(pipe.chunks()) as chunks:  # the writer must not wait for a reader that has ended
                return self.copy_in(chunks, rows.columns, progress)

        return endpoints.run_both(copy_out, copy_in, staging.connection.interrupt)

    def copy_in(self, chunks: Iterator[bytes], columns: list[Column], progress: TransferProgress) -> int:
        names = ", ".join(column.quoted for column in columns)
        self.connection.begin_copy(f"COPY {self.into} ({names}) FROM STDIN ({FORM})")
        put, rows = self.connection.pq.put_copy_data, 0
        for chunk in chunks:
            put(chunk)
            rows += chunk.count(b"\n")
            progress.reach(rows)
        self.connection.pq.put_copy_end()
        count = self.connection.end_copy()
        if self.mode == "upsert":
            self._merge([column.name for column in columns])
        return count

    def _merge(self, columns: list[str]) -> None:
        for values in self.connection.rows(duplicate_keys(self.into, [*map(quoted, self.key)])):
            raise duplicate_key(self.key, values, "the source")
        try:
            self.connection.rows(insert_or_update(self.name, self.into, columns, self.key))
        except psycopg.errors.InvalidColumnReference:
            raise Failure("sql", no_unique_index(self.table, self.name, self.key)) from None

    def commit(self) -> None:
        self.connection.committing = True
        self.connection.driver.commit()


def _for_postgres(column: Column, kind: str) -> str:
    name = column.quoted
    if column.type == "BLOB":
        return rf"'\x' || hex({name})"
    if kind.endswith("[]") and column.nested:
        items = f"CAST({name} AS VARCHAR[])"
        escaped = r"""'"' || replace(replace(item, '\', '\\'), '"', '\"') || '"'"""
        listed = f"list_transform({items}, lambda item: coalesce({escaped}, 'NULL'))"
        return f"'{{' || array_to_string({listed}, ',') || '}}'"
    return f"to_json({name})" if column.nested and column.type != "JSON" else name


def copy_across(
    source: TransferConnection, query: str, target: PostgresTarget, columns: list[Column], progress: TransferProgress
) -> int:
    source.begin_copy(f"COPY ({query}\n) TO STDOUT ({FORM})")

    def chunks() -> Iterator[bytes]:
        buffer = bytearray()
        for row in source.copied():
            buffer += row
            if len(buffer) > BUFFER_BYTES:
                yield bytes(buffer)
                buffer.clear()
        source.end_copy()
        if buffer:
            yield bytes(buffer)

    return target.copy_in(chunks(), columns, progress)


def _from_postgres(kind: str) -> str:
    if kind.endswith("[]"):
        inner = _from_postgres(kind.removesuffix("[]"))
        return "VARCHAR[]" if inner == "BLOB" else f"{inner}[]"
    if (decimal := re.fullmatch(r"numeric\((\d+),(-?\d+)\)", kind)) and int(decimal[1]) <= endpoints.DECIMAL_DIGITS:
        digits, scale = int(decimal[1]), int(decimal[2])
        return f"DECIMAL({digits},{scale})" if 0 <= scale <= digits else "VARCHAR"
    bare = re.sub(r"\(\d+\)", "", kind)  # timestamp(3) without time zone
    return FROM_POSTGRES.get(bare, "VARCHAR")


def _to_postgres(kind: str) -> str:
    if kind.startswith("DECIMAL"):
        return kind.replace("DECIMAL", "numeric")
    inner = re.fullmatch(r"([^\[\]]+)\[\d*\]", kind)
    if inner and not inner[1].startswith(("STRUCT", "MAP", "UNION", "JSON", "ENUM")):
        return f"{_to_postgres(inner[1])}[]"
    return "jsonb" if Column("", kind).nested else TO_POSTGRES.get(kind, "text")
