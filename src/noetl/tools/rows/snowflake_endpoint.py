"""Snowflake as an endpoint of a transfer: rows from a cursor, and INSERTs of many rows.

Names in upper case, which Snowflake makes of unquoted names, are lower case at the other endpoint, and vice versa.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import date, datetime, time
from typing import TYPE_CHECKING, Any

from noetl.tools.rows.blocking import Cancellation
from noetl.tools.rows.columns import Column, from_snowflake, to_snowflake
from noetl.tools.rows.duckdb_endpoint import duplicate_key
from noetl.tools.rows.endpoints import StagedRows
from noetl.tools.rows.pipe import NULL, Aborted, checked_count, run_both
from noetl.tools.rows.progress import Progress
from noetl.tools.rows.snowflake_insert import batches, insert_batch
from noetl.tools.rows.snowflake_session import SnowflakeSession, bind, folded, literal, login, name
from noetl.tools.rows.staging import Staging

if TYPE_CHECKING:
    from noetl.sql import Sql

FETCH_ROWS = 2_000
STAGING_TABLE = "NOETL_TRANSFER"


@contextmanager
def open_session(
    fields: dict[str, Any], database: str | None, cancellation: Cancellation
) -> Iterator[SnowflakeSession]:
    """A session of this transfer only."""
    connection = login({**fields, "database": database} if database else fields)
    try:
        yield SnowflakeSession(connection, cancellation)
    finally:
        with suppress(Exception):
            connection.close(retry=False)


# -- source -----------------------------------------------------------------------------------------------------------


class SnowflakeSource:
    """The rows of a query, through a pipe."""

    def __init__(
        self, session: SnowflakeSession, staging: Staging, sql: Sql | None, table: str | None, params: Any
    ) -> None:
        from snowflake.connector.constants import FIELD_ID_TO_NAME

        from noetl.sql import write

        self.session, self.pipe, self.sent = session, staging.pipe(), 0
        if table is not None or sql is None:
            self.cursor = session.execute(f"SELECT * FROM {name(table or '')}")
        elif params is not None:
            self.cursor = session.execute(write(sql, literal), params)
        else:
            self.cursor = session.execute(*bind(sql))
        self.columns = [
            Column(
                _other_case(field.name), from_snowflake(FIELD_ID_TO_NAME[field.type_code], field.precision, field.scale)
            )
            for field in self.cursor.description
        ]
        raw = [Column(f"c{n}", "VARCHAR" if c.type == "BLOB" else c.type) for n, c in enumerate(self.columns)]
        values = ", ".join(
            f"{f'unhex({source.name})' if column.type == 'BLOB' else source.name} AS {column.quoted}"
            for source, column in zip(raw, self.columns, strict=True)
        )
        self.relation = f"(SELECT {values} FROM {self.pipe.relation(raw)})"

    def flow(self, consume: Callable[[], int], progress: Progress) -> int:
        received = run_both(lambda: self._feed(progress), consume, self.pipe.over.set)
        return checked_count(self.sent, received)

    def _feed(self, progress: Progress) -> None:
        writer = self.pipe.writer()
        if writer is None:
            raise Aborted
        with writer:
            while batch := self.cursor.fetchmany(FETCH_ROWS):
                self.session.cancellation.check()
                writer.write("".join(",".join(map(_cell, row)) + "\n" for row in batch).encode())
                self.sent += len(batch)
                progress.reach(self.sent)


def _cell(value: Any) -> str:
    """A value in CSV. Text is quoted, which distinguishes it from a null."""
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
    """`ORDER_ID` is `order_id` in other databases."""
    return text.lower() if text == folded(text) and text == text.upper() else text


# -- target -----------------------------------------------------------------------------------------------------------


class SnowflakeTarget:
    """A table, written in one transaction. Snowflake commits when it creates a table, so that comes first."""

    def __init__(self, session: SnowflakeSession, table: str, mode: str, key: list[str], batch_size: int) -> None:
        self.session, self.mode, self.key, self.batch_size = session, mode, key, batch_size
        self.label, self.name = table, name(table)
        self.into = self.name
        self.exists = False

    def accepts(self) -> dict[str, str] | None:
        """The columns by their names at the other endpoint."""
        *schema, table = (folded(part) for part in self.label.split("."))
        within = f"table_schema = {literal(schema[-1])}" if schema else "table_schema = CURRENT_SCHEMA()"
        view = f"{name(schema[0])}.information_schema" if len(schema) > 1 else "information_schema"
        cursor = self.session.execute(
            f"SELECT column_name, data_type FROM {view}.columns WHERE table_name = {literal(table)} AND {within} "
            "ORDER BY ordinal_position"
        )
        types = {_other_case(str(row[0])): str(row[1]) for row in cursor.fetchall()}
        self.exists = bool(types)
        return types or None

    def prepare(self, columns: list[Column]) -> None:
        if not self.exists:
            parts = ", ".join(f"{name(column.name)} {to_snowflake(column.type)}" for column in columns)
            self.session.execute(f"CREATE TABLE {self.name} ({parts})")
        if self.mode == "upsert":
            names = ", ".join(name(column.name) for column in columns)
            self.into = name(STAGING_TABLE)
            self.session.execute(f"CREATE TEMPORARY TABLE {self.into} AS SELECT {names} FROM {self.name} WHERE FALSE")
        self.session.execute("BEGIN")
        if self.mode == "replace":
            self.session.execute(f"DELETE FROM {self.name}")

    def write(self, staging: Staging, rows: StagedRows, progress: Progress) -> int:
        values = ", ".join(f"{_for_snowflake(column)} AS {column.quoted}" for column in rows.columns)
        staging.checked(lambda: staging.connection.execute(f"SELECT {values} FROM ({rows.query})"))
        names = [column.name for column in rows.columns]
        json = frozenset(place for place, column in enumerate(rows.columns) if column.nested)
        count = 0
        while batch := staging.checked(lambda: staging.connection.fetchmany(self.batch_size)):
            for part in batches(batch, len(names)):
                insert_batch(self.session, self.into, names, part, json)
                count += len(part)
                progress.reach(count)
        if self.mode == "upsert":
            self._merge(rows.columns)
        return count

    def _merge(self, columns: list[Column]) -> None:
        names = [name(column.name) for column in columns]
        keys = [name(column) for column in self.key]
        key_list = ", ".join(keys)
        duplicates = f"SELECT {key_list} FROM {self.into} GROUP BY {key_list} HAVING COUNT(*) > 1 LIMIT 1"
        if (values := self.session.execute(duplicates).fetchone()) is not None:
            raise duplicate_key(self.key, values)
        same = " AND ".join(f"t.{key} = s.{key}" for key in keys)
        changes = ", ".join(f"{column} = s.{column}" for column in names if column not in keys)
        if changes:
            self.session.execute(f"UPDATE {self.name} AS t SET {changes} FROM {self.into} AS s WHERE {same}")
        new = f"SELECT {', '.join(f's.{column}' for column in names)} FROM {self.into} AS s"
        existing = f"SELECT 1 FROM {self.name} AS t WHERE {same}"
        self.session.execute(f"INSERT INTO {self.name} ({', '.join(names)}) {new} WHERE NOT EXISTS ({existing})")

    def commit(self) -> None:
        self.session.execute("COMMIT")


def _for_snowflake(column: Column) -> str:
    """The expression that DuckDB passes a column with: numbers, booleans and bytes as they are, all others as text."""
    if column.nested:
        return f"to_json({column.quoted})::VARCHAR" if column.type != "JSON" else f"{column.quoted}::VARCHAR"
    unchanged = ("BIGINT", "INTEGER", "SMALLINT", "TINYINT", "BOOLEAN", "BLOB", "DOUBLE", "FLOAT")
    return column.quoted if column.type in unchanged else f"{column.quoted}::VARCHAR"
