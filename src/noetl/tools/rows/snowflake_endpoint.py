"""Snowflake as a side of a transfer: rows from a cursor, and INSERTs of many rows.

Names that are upper case throughout, as Snowflake makes them of names without quotes, are lower case on the other side,
and the other way round.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import date, datetime, time
from typing import TYPE_CHECKING, Any

from noetl.tools.rows.columns import Column, from_snowflake, to_snowflake
from noetl.tools.rows.duckdb_end import two_rows
from noetl.tools.rows.ends import Rows
from noetl.tools.rows.hub import Hub
from noetl.tools.rows.pipe import NULL, Aborted, all_taken, alongside
from noetl.tools.rows.progress import Progress
from noetl.tools.rows.snow import Session, folded, literal, login, name, written
from noetl.tools.rows.snow_insert import batches, insert_batch
from noetl.tools.rows.thread import Stop

if TYPE_CHECKING:
    from noetl.sql import Sql

FETCH_ROWS = 2_000
STAGE = "NOETL_TRANSFER"


@contextmanager
def session(fields: dict[str, Any], database: str | None, stop: Stop) -> Iterator[Session]:
    """A session of this transfer only."""
    connection = login({**fields, "database": database} if database else fields)
    try:
        yield Session(connection, stop)
    finally:
        with suppress(Exception):
            connection.close(retry=False)


# -- source -----------------------------------------------------------------------------------------------------------


class SnowflakeSource:
    """The rows of a query, through a pipe."""

    def __init__(self, opened: Session, hub: Hub, sql: Sql | None, table: str | None, params: Any) -> None:
        from snowflake.connector.constants import FIELD_ID_TO_NAME

        from noetl.sql import write

        self.session, self.pipe, self.sent = opened, hub.pipe(), 0
        if table is not None or sql is None:
            self.cursor = opened.execute(f"SELECT * FROM {name(table or '')}")
        elif params is not None:
            self.cursor = opened.execute(write(sql, literal), params)
        else:
            self.cursor = opened.execute(*written(sql))
        found = self.cursor.description
        kinds = [from_snowflake(FIELD_ID_TO_NAME[one.type_code], one.precision, one.scale) for one in found]
        self.columns = [Column(_other_case(one.name), kind) for one, kind in zip(found, kinds, strict=True)]
        raw = [Column(f"c{n}", "VARCHAR" if one.type == "BLOB" else one.type) for n, one in enumerate(self.columns)]
        values = ", ".join(
            f"{f'unhex({source.name})' if one.type == 'BLOB' else source.name} AS {one.quoted}"
            for source, one in zip(raw, self.columns, strict=True)
        )
        self.relation = f"(SELECT {values} FROM {self.pipe.relation(raw)})"

    def flow(self, consume: Callable[[], int], progress: Progress) -> int:
        taken = alongside(lambda: self._feed(progress), consume, self.pipe.over.set)
        return all_taken(self.sent, taken)

    def _feed(self, progress: Progress) -> None:
        writer = self.pipe.writer()
        if writer is None:
            raise Aborted
        with writer:
            while batch := self.cursor.fetchmany(FETCH_ROWS):
                self.session.stop.check()
                writer.write(_as_csv(batch))
                self.sent += len(batch)
                progress.reach(self.sent)


def _as_csv(rows: Any) -> bytes:
    """Rows as the pipe has them. Text is in quotes, so that the two characters of a null are told apart from it."""
    return "".join(",".join(map(_cell, row)) + "\n" for row in rows).encode()


def _cell(value: Any) -> str:
    if value is None:
        return NULL
    if isinstance(value, (bytes, bytearray)):
        return value.hex()
    if isinstance(value, (datetime, date, time)):
        return value.isoformat()
    if isinstance(value, str):
        return '"' + value.replace('"', '""') + '"'
    return str(value)


def _other_case(text: str) -> str:
    """`ORDER_ID` is `order_id` elsewhere."""
    return text.lower() if text == folded(text) and text == text.upper() else text


# -- target -----------------------------------------------------------------------------------------------------------


class SnowflakeTarget:
    """A table, filled in one transaction. Snowflake commits when a table is made, so that comes first."""

    def __init__(self, opened: Session, table: str, mode: str, key: list[str], batch_size: int) -> None:
        self.session, self.mode, self.key, self.batch_size = opened, mode, key, batch_size
        self.label, self.name = table, name(table)
        self.into = self.name
        self.exists = False

    def accepts(self) -> dict[str, str] | None:
        """The columns by the names they have on the other side."""
        *schema, table = (folded(part) for part in self.label.split("."))
        within = f"table_schema = {literal(schema[-1])}" if schema else "table_schema = CURRENT_SCHEMA()"
        view = f"{name(schema[0])}.information_schema" if len(schema) > 1 else "information_schema"
        cursor = self.session.execute(
            f"SELECT column_name, data_type FROM {view}.columns WHERE table_name = {literal(table)} AND {within} "
            "ORDER BY ordinal_position"
        )
        found = {_other_case(str(row[0])): str(row[1]) for row in cursor.fetchall()}
        self.exists = bool(found)
        return found or None

    def prepare(self, columns: list[Column]) -> None:
        if not self.exists:
            parts = ", ".join(f"{name(column.name)} {to_snowflake(column.type)}" for column in columns)
            self.session.execute(f"CREATE TABLE {self.name} ({parts})")
        if self.mode == "upsert":
            names = ", ".join(name(column.name) for column in columns)
            self.into = name(STAGE)
            self.session.execute(f"CREATE TEMPORARY TABLE {self.into} AS SELECT {names} FROM {self.name} WHERE FALSE")
        self.session.execute("BEGIN")
        if self.mode == "replace":
            self.session.execute(f"DELETE FROM {self.name}")

    def write(self, hub: Hub, rows: Rows, progress: Progress) -> int:
        shown = ", ".join(f"{_for_snowflake(column)} AS {column.quoted}" for column in rows.columns)
        hub.checked(lambda: hub.connection.execute(f"SELECT {shown} FROM ({rows.query})"))
        names = [column.name for column in rows.columns]
        json = frozenset(place for place, column in enumerate(rows.columns) if column.nested)
        count = 0
        while batch := hub.checked(lambda: hub.connection.fetchmany(self.batch_size)):
            for part in batches(batch, len(names)):
                insert_batch(self.session, self.into, names, part, json)
                count += len(part)
                progress.reach(count)
        if self.mode == "upsert":
            self._merge(rows.columns)
        return count

    def _merge(self, columns: list[Column]) -> None:
        names = [name(column.name) for column in columns]
        keys = [name(one) for one in self.key]
        listed = ", ".join(keys)
        cursor = self.session.execute(f"SELECT {listed} FROM {self.into} GROUP BY {listed} HAVING COUNT(*) > 1 LIMIT 1")
        if (twice := cursor.fetchone()) is not None:
            raise two_rows(self.key, twice)
        same = " AND ".join(f"t.{one} = s.{one}" for one in keys)
        changes = ", ".join(f"{one} = s.{one}" for one in names if one not in keys)
        if changes:
            self.session.execute(f"UPDATE {self.name} AS t SET {changes} FROM {self.into} AS s WHERE {same}")
        new = f"SELECT {', '.join(f's.{one}' for one in names)} FROM {self.into} AS s"
        known = f"SELECT 1 FROM {self.name} AS t WHERE {same}"
        self.session.execute(f"INSERT INTO {self.name} ({', '.join(names)}) {new} WHERE NOT EXISTS ({known})")

    def commit(self) -> None:
        self.session.execute("COMMIT")


def _for_snowflake(column: Column) -> str:
    """What DuckDB hands over of a column: whole numbers, booleans, bytes, and text for all else."""
    if column.nested:
        return f"to_json({column.quoted})::VARCHAR" if column.type != "JSON" else f"{column.quoted}::VARCHAR"
    kept = ("BIGINT", "INTEGER", "SMALLINT", "TINYINT", "BOOLEAN", "BLOB", "DOUBLE", "FLOAT")
    return column.quoted if column.type in kept else f"{column.quoted}::VARCHAR"
