"""PostgreSQL as a side of a transfer: COPY out of it and COPY into it.

Both use the driver's own libpq calls. `cursor.copy()` makes several Python objects of each row, and reading takes three
times as long with it.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from typing import TYPE_CHECKING, Any

from noetl.model.outcome import Failure
from noetl.sql import quoted
from noetl.tools.rows.columns import Column, from_postgres, to_postgres
from noetl.tools.rows.duck import table_name
from noetl.tools.rows.ends import Rows
from noetl.tools.rows.hub import Hub
from noetl.tools.rows.pipe import NULL, Aborted, Pipe, all_taken, alongside
from noetl.tools.rows.progress import Progress
from noetl.tools.rows.thread import Stop

if TYPE_CHECKING:
    from psycopg import Connection
    from psycopg.pq.abc import PGconn, PGresult

    from noetl.sql import Sql

SETTINGS = "SET LOCAL datestyle = 'ISO'; SET LOCAL intervalstyle = 'postgres'; SET LOCAL timezone = 'UTC'"
FORM = f"(FORMAT csv, NULL '{NULL}')"


# -- connection -------------------------------------------------------------------------------------------------------


class Link:
    """A connection of this transfer only."""

    def __init__(self, connection: Connection[Any]) -> None:
        self.connection = connection
        self.aborted = self.committing = False

    @property
    def pq(self) -> PGconn:
        return self.connection.pgconn

    def abort(self) -> None:
        """End the running statement from another thread; asked again, cut the connection."""
        if self.connection.closed:
            return
        if not self.aborted:
            self.aborted = True
            with suppress(Exception):
                self.connection.cancel_safe(timeout=2)
                return
        with suppress(Exception), socket.socket(fileno=os.dup(self.pq.socket)) as wire:
            wire.shutdown(socket.SHUT_RDWR)

    def rows(self, statement: str, params: Any = None) -> list[tuple[Any, ...]]:
        cursor = self.connection.execute(statement, params)
        return cursor.fetchall() if cursor.description else []

    def begin_copy(self, statement: str) -> None:
        from psycopg.pq import ExecStatus

        result = self.pq.exec_(statement.encode())
        if result.status not in (ExecStatus.COPY_OUT, ExecStatus.COPY_IN):
            raise _error(result)

    def end_copy(self) -> int:
        """How many rows it was, once the server has said that all went well."""
        from psycopg import OperationalError
        from psycopg.pq import ExecStatus

        rows, error = 0, None
        while (result := self.pq.get_result()) is not None:
            if result.status in (ExecStatus.COPY_IN, ExecStatus.COPY_OUT):  # it would go on saying so for ever
                raise OperationalError("the copy was cut off")
            if result.status == ExecStatus.FATAL_ERROR:
                error = error or _error(result)
            rows = result.command_tuples or 0
        if error is not None:
            raise error
        return rows

    def copied(self) -> Iterator[memoryview]:
        """The rows of a COPY out, one by one."""
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
def linked(conninfo: str, stop: Stop) -> Iterator[Link]:
    """A connection with one transaction, which is rolled back unless it was committed."""
    import psycopg

    from noetl.tools.postgres_client.faults import connecting, refused
    from noetl.tools.postgres_client.hosts import with_addresses

    try:
        connection = psycopg.connect(with_addresses(conninfo))
    except (psycopg.Error, OSError) as error:
        raise connecting(error) from None
    link = Link(connection)
    link.pq.nonblocking = 0  # else data would pile up in the driver, and the end of it might never be sent
    try:
        stop.by(link.abort)
        connection.execute(SETTINGS)
        yield link
    except psycopg.Error as error:
        stop.check()
        raise refused(error, None, not link.committing) from None
    finally:
        connection.close()


# -- source -----------------------------------------------------------------------------------------------------------


class PostgresSource:
    """The rows of a query, in a transaction that sees one moment."""

    def __init__(self, link: Link, query: str) -> None:
        self.link, self.query = link, query
        link.rows("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
        self.names, self.types = self._described()
        self.columns: list[Column] = []
        self.relation = ""
        self.pipe: Pipe | None = None
        self.sent = 0

    def _described(self) -> tuple[list[str], list[str]]:
        """Names and types of the columns, in PostgreSQL's words."""
        cursor = self.link.connection.execute(f"SELECT * FROM ({self.query}\n) AS q LIMIT 0")
        result = cursor.pgresult
        assert result is not None
        kinds = [(result.ftype(number), result.fmod(number)) for number in range(result.nfields)]
        names = [column.name for column in cursor.description or ()]
        oids, mods = [oid for oid, _ in kinds], [mod for _, mod in kinds]
        listed = "unnest(%s::oid[], %s::int[]) WITH ORDINALITY AS t(oid, mod, n)"
        rows = self.link.rows(f"SELECT format_type(oid, mod) FROM {listed} ORDER BY n", (oids, mods))
        return names, [row[0] for row in rows]

    def through(self, hub: Hub, *, typed: bool) -> PostgresSource:
        """Make it readable for the hub. `typed`: the types decide what the target's will be."""
        kinds = [from_postgres(kind) for kind in self.types]
        if typed:
            kinds = self._with_scales(kinds)
        self.pipe = hub.pipe()
        self.columns = [Column(name, kind) for name, kind in zip(self.names, kinds, strict=True)]
        raw = [Column(f"c{number}", _carried(column)) for number, column in enumerate(self.columns)]
        values = ", ".join(
            f"{_unpacked(source.name, column)} AS {column.quoted}"
            for source, column in zip(raw, self.columns, strict=True)
        )
        self.relation = f"(SELECT {values} FROM {self.pipe.relation(raw)})"
        return self

    def _with_scales(self, kinds: list[str]) -> list[str]:
        """A `numeric` without a precision gets the scale that its values need, so that every digit is kept."""
        bare = [number for number, kind in enumerate(self.types) if kind == "numeric"]
        if not bare:
            return kinds
        scales = ", ".join(f"coalesce(max(scale(c{number})), 0)" for number in bare)
        found = self.link.rows(f"SELECT {scales} FROM {self._inner()}")[0]
        kinds = list(kinds)
        for number, scale in zip(bare, found, strict=True):
            kinds[number] = f"DECIMAL(38,{scale})" if scale < 38 else "VARCHAR"
        return kinds

    def _inner(self) -> str:
        names = ", ".join(f"c{number}" for number in range(len(self.names)))
        return f"({self.query}\n) AS q({names})"

    def begin(self) -> None:
        values = ", ".join(_packed(f"c{number}", kind) for number, kind in enumerate(self.types))
        # A line must not be empty, as it would be for an empty text that is the only column.
        form = FORM.replace(")", ", FORCE_QUOTE *)") if len(self.names) == 1 else FORM
        self.link.begin_copy(f"COPY (SELECT {values} FROM {self._inner()}) TO STDOUT {form}")

    def flow(self, consume: Callable[[], int], progress: Progress) -> int:
        pipe = self.pipe
        assert pipe is not None

        def abort() -> None:
            pipe.over.set()
            self.link.abort()

        taken = alongside(lambda: self._feed(pipe, progress), consume, abort)
        return all_taken(self.sent, taken)

    def _feed(self, pipe: Pipe, progress: Progress) -> None:
        self.begin()
        writer = pipe.writer()
        if writer is None:
            raise Aborted
        with writer:
            write = writer.write
            for count, row in enumerate(self.link.copied(), start=1):
                write(row)
                if not count & 0xFFF:
                    progress.reach(count)
            self.sent = self.link.end_copy()


def _packed(name: str, kind: str) -> str:
    """What PostgreSQL writes of a column for DuckDB."""
    if kind == "bytea":
        return f"encode({name}, 'hex')"
    return f"to_json({name})" if kind.endswith("[]") else name


def _carried(column: Column) -> str:
    """The type a column has on its way."""
    return "VARCHAR" if column.type == "BLOB" or column.type.endswith("[]") else column.type


def _unpacked(name: str, column: Column) -> str:
    if column.type == "BLOB":
        return f"unhex({name})"
    return f"CAST({name}::JSON AS {column.type})" if column.type.endswith("[]") else name


def postgres_text(link: Link, sql: Sql, params: Any) -> str:
    """The query of a source as one text: COPY takes no parameters, so values are literals written by the driver."""
    import psycopg
    from psycopg.pq import Escaping

    from noetl.sql import write
    from noetl.tools.postgres_client.literals import NOBODY, literals

    literal = literals(Escaping(link.pq), "utf-8")
    if params is None:
        return write(sql, literal, empty=NOBODY).strip().rstrip(";")
    text = write(sql, lambda value: literal(value).replace("%", "%%"), empty=NOBODY)
    try:
        return psycopg.ClientCursor(link.connection).mogrify(text, params).strip().rstrip(";")
    except (psycopg.DataError, psycopg.ProgrammingError) as error:
        raise Failure("input", f"`source.params` can't be sent to postgres: {error}") from None


# -- target -----------------------------------------------------------------------------------------------------------


class PostgresTarget:
    """A table, filled in one transaction."""

    def __init__(self, link: Link, table: str, mode: str, key: list[str]) -> None:
        self.link, self.mode, self.key = link, mode, key
        self.name = table_name(table)
        self.types: dict[str, str] = {}
        self.into = self.name

    def accepts(self) -> dict[str, str] | None:
        sql = (
            "SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute "
            "WHERE attrelid = to_regclass(%s) AND attnum > 0 AND NOT attisdropped AND attgenerated = '' ORDER BY attnum"
        )
        self.types = {row[0]: row[1] for row in self.link.rows(sql, (self.name,))}
        return self.types or None

    def prepare(self, columns: list[Column]) -> None:
        if not self.types:
            self.create({column.name: to_postgres(column.type) for column in columns})
        if self.mode == "replace":
            self.link.rows(f"DELETE FROM {self.name}")
        if self.mode == "upsert":
            self.into = "noetl_transfer"
            names = ", ".join(column.quoted for column in columns)
            self.link.rows(
                f"CREATE TEMP TABLE {self.into} ON COMMIT DROP AS SELECT {names} FROM {self.name} WITH NO DATA"
            )

    def create(self, types: dict[str, str]) -> None:
        """Make the table."""
        self.types = types
        parts = [f"{quoted((name,))} {kind}" for name, kind in types.items()]
        if self.mode == "upsert":
            parts.append(f"PRIMARY KEY ({', '.join(quoted((name,)) for name in self.key)})")
        self.link.rows(f"CREATE TABLE {self.name} ({', '.join(parts)})")

    def write(self, hub: Hub, rows: Rows, progress: Progress) -> int:
        pipe = hub.pipe()
        shown = ", ".join(f"{_for_postgres(one, self.types[one.name])} AS {one.quoted}" for one in rows.columns)
        statement = pipe.copy(f"SELECT {shown} FROM ({rows.query})", rows.columns)

        def copy_out() -> None:
            try:
                hub.execute(statement)
            finally:
                pipe.over.set()

        count = alongside(copy_out, lambda: self._take(pipe, rows.columns, progress), hub.connection.interrupt)
        return self.arrived(rows.columns, count)

    def begin(self, columns: list[Column]) -> None:
        names = ", ".join(column.quoted for column in columns)
        self.link.begin_copy(f"COPY {self.into} ({names}) FROM STDIN {FORM}")

    def _take(self, pipe: Pipe, columns: list[Column], progress: Progress) -> int:
        self.begin(columns)
        put, rows = self.link.pq.put_copy_data, 0
        with closing(pipe.chunks()) as chunks:  # whoever writes must not wait for a reader that is gone
            for chunk in chunks:
                put(chunk)
                rows += chunk.count(b"\n")
                progress.reach(rows)
        self.link.pq.put_copy_end()
        return self.link.end_copy()

    def arrived(self, columns: list[Column], count: int) -> int:
        """Bring rows that were laid aside to the table."""
        if self.mode != "upsert":
            return count
        names = ", ".join(column.quoted for column in columns)
        others = [one.quoted for one in columns if one.name not in self.key]
        changes = ", ".join(f"{name} = excluded.{name}" for name in others)
        then = f"DO UPDATE SET {changes}" if others else "DO NOTHING"
        keys = ", ".join(quoted((name,)) for name in self.key)
        self.link.rows(f"INSERT INTO {self.name} ({names}) SELECT {names} FROM {self.into} ON CONFLICT ({keys}) {then}")
        return count

    def commit(self) -> None:
        self.link.committing = True
        self.link.connection.commit()


def _for_postgres(column: Column, kind: str) -> str:
    """What DuckDB writes of a column for a PostgreSQL type."""
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
    """From one PostgreSQL to another, with nothing in between."""
    source.link.begin_copy(f"COPY ({source.query}\n) TO STDOUT {FORM}")
    target.begin(columns)
    put, rows, held, size = target.link.pq.put_copy_data, 0, [], 0
    for row in source.link.copied():
        held.append(row)
        size += len(row)
        if size > 1 << 18:
            put(b"".join(held))
            rows += len(held)
            progress.reach(rows)
            held, size = [], 0
    source.link.end_copy()
    if held:
        put(b"".join(held))
    target.link.pq.put_copy_end()
    return target.arrived(columns, target.link.end_copy())
