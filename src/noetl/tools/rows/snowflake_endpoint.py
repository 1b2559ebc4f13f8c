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
from noetl.tools.rows.snowflake_database import SnowflakeSession
from noetl.tools.rows.snowflake_table import SnowflakeTable, other_case

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
        columns = [Column(other_case(field.name), _from_snowflake(field)) for field in self.cursor.description]
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


class SnowflakeTarget(endpoints.TargetEndpoint):
    def __init__(self, session: SnowflakeSession, table: str, mode: str, key: list[str], batch_size: int) -> None:
        self.table, self.batch_size = SnowflakeTable(session, table, mode, key), batch_size
        self.types = self.table.types

    def prepare(self, columns: list[Column]) -> None:
        types = {column.name: _to_snowflake(column.type) for column in columns}
        self.table.prepare(list(types), types)

    def write(self, staging: Staging, rows: StagedRows, progress: TransferProgress) -> int:
        names = [column.name for column in rows.columns]
        json = frozenset(place for place, column in enumerate(rows.columns) if column.nested)
        count = 0
        for batch in staging.batches(rows.select(_for_snowflake), self.batch_size):
            self.table.insert(names, batch, json)
            count += len(batch)
            progress.reach(count)
        if self.table.mode == "upsert":
            self.table.merge(names, "the source")
        return count

    def commit(self) -> None:
        self.table.commit()


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
