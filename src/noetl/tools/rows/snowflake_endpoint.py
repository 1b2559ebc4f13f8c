"""Snowflake as an endpoint of a transfer: rows from a cursor, and INSERTs of many rows.

Names in upper case, which Snowflake makes of unquoted names, are lower case at the other endpoint, and vice versa.
"""

from __future__ import annotations

from datetime import date, datetime, time
from typing import Any

from snowflake.connector.constants import FIELD_ID_TO_NAME

from noetl.sql.statements import Sql
from noetl.tools.rows import endpoints
from noetl.tools.rows.endpoints import DECIMAL_DIGITS, Column, PipedSource, StagedRows, Staging, TransferProgress
from noetl.tools.rows.snowflake_database import SnowflakeSession, folded, insert, literal, quoted_name

FETCH_ROWS = 2_000
UNCHANGED = ("BIGINT", "INTEGER", "SMALLINT", "TINYINT", "BOOLEAN", "BLOB", "DOUBLE", "FLOAT")  # all others are text
FROM_SNOWFLAKE = {
    **{name: name for name in ("DATE", "TIME", "TIMESTAMP", "BOOLEAN")},
    "REAL": "DOUBLE",
    "TIMESTAMP_NTZ": "TIMESTAMP",
    **dict.fromkeys(("TIMESTAMP_LTZ", "TIMESTAMP_TZ"), "TIMESTAMPTZ"),
    **dict.fromkeys(("VARIANT", "OBJECT", "ARRAY"), "JSON"),
    "BINARY": "BLOB",
}
TO_SNOWFLAKE = {
    **{name: name for name in ("BOOLEAN", "DATE", "TIME")},
    **dict.fromkeys(("FLOAT", "DOUBLE"), "FLOAT"),
    **dict.fromkeys(("TIMESTAMP", *endpoints.SUB_TIMESTAMPS), "TIMESTAMP_NTZ"),
    "TIMESTAMPTZ": "TIMESTAMP_TZ",
    "BLOB": "BINARY",
}


class SnowflakeSource(PipedSource):
    def __init__(self, session: SnowflakeSession, staging: Staging, sql: Sql, params: Any) -> None:
        self.session = session
        self.cursor = session.execute_sql(sql, params)
        columns = [Column(_other_case(field.name), _from_snowflake(field)) for field in self.cursor.description]
        super().__init__(endpoints.Pipe(staging.folder), columns)

    def feed(self, progress: TransferProgress) -> None:
        with self.pipe.writer() as writer:
            while batch := self.cursor.fetchmany(FETCH_ROWS):
                self.session.cancellation.check()
                writer.write("".join(",".join(map(_cell, row)) + "\n" for row in batch).encode())
                self.sent += len(batch)
                progress.reach(self.sent)


def _cell(value: Any) -> str:
    if value is None:
        return endpoints.NULL
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


class SnowflakeTarget(endpoints.TargetEndpoint):
    """A table, written in one transaction. Snowflake commits when it creates a table, so that comes first."""

    def __init__(self, session: SnowflakeSession, table: str, mode: str, key: list[str], batch_size: int) -> None:
        self.session, self.mode, self.key, self.batch_size = session, mode, key, batch_size
        self.name = self.into = quoted_name(table)
        *schema, table = (folded(part) for part in table.split("."))
        within = f"table_schema = {literal(schema[-1])}" if schema else "table_schema = CURRENT_SCHEMA()"
        view = f"{quoted_name(schema[0])}.information_schema" if len(schema) > 1 else "information_schema"
        cursor = session.execute(
            f"SELECT column_name, data_type FROM {view}.columns WHERE table_name = {literal(table)} AND {within} "
            "ORDER BY ordinal_position"
        )
        self.types = {_other_case(str(row[0])): str(row[1]) for row in cursor.fetchall()}

    def prepare(self, columns: list[Column]) -> None:
        if not self.types:
            parts = ", ".join(f"{quoted_name(column.name)} {_to_snowflake(column.type)}" for column in columns)
            self.session.execute(f"CREATE TABLE {self.name} ({parts})")
        if self.mode == "upsert":
            names = ", ".join(quoted_name(column.name) for column in columns)
            self.into = quoted_name("NOETL_TRANSFER")
            self.session.execute(f"CREATE TEMPORARY TABLE {self.into} AS SELECT {names} FROM {self.name} WHERE FALSE")
        self.session.execute("BEGIN")
        if self.mode == "replace":
            self.session.execute(f"DELETE FROM {self.name}")

    def write(self, staging: Staging, rows: StagedRows, progress: TransferProgress) -> int:
        names = [column.name for column in rows.columns]
        json = frozenset(place for place, column in enumerate(rows.columns) if column.nested)
        count = 0
        for batch in staging.batches(rows.select(_for_snowflake), self.batch_size):
            insert(self.session, self.into, names, batch, json)
            count += len(batch)
            progress.reach(count)
        if self.mode == "upsert":
            self._merge([quoted_name(name) for name in names])
        return count

    def _merge(self, names: list[str]) -> None:
        keys = [quoted_name(column) for column in self.key]
        key_list = ", ".join(keys)
        duplicates = f"SELECT {key_list} FROM {self.into} GROUP BY {key_list} HAVING COUNT(*) > 1 LIMIT 1"
        if (values := self.session.execute(duplicates).fetchone()) is not None:
            raise endpoints.duplicate_key(self.key, values)
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
    if column.type in UNCHANGED:
        return column.quoted
    as_json = column.nested and column.type != "JSON"
    return f"to_json({column.quoted})::VARCHAR" if as_json else f"{column.quoted}::VARCHAR"


def _from_snowflake(field: Any) -> str:
    kind = FIELD_ID_TO_NAME[field.type_code]
    if kind != "FIXED":
        return FROM_SNOWFLAKE.get(kind, "VARCHAR")
    if field.scale:
        return f"DECIMAL({field.precision or DECIMAL_DIGITS},{field.scale})"
    return "BIGINT" if 0 < (field.precision or 0) <= 18 else f"DECIMAL({DECIMAL_DIGITS},0)"


def _to_snowflake(kind: str) -> str:
    if kind.startswith("DECIMAL"):
        return kind.replace("DECIMAL", "NUMBER")
    if kind.endswith(("INT", "INTEGER")):
        return "NUMBER(38,0)"
    return "VARIANT" if Column("", kind).nested else TO_SNOWFLAKE.get(kind, "VARCHAR")
