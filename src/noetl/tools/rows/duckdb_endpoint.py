"""DuckDB as an endpoint of a transfer: a file attached to the staging database, or for a source that database."""

from __future__ import annotations

from typing import Any

import duckdb

from noetl.model.outcome import Failure
from noetl.sql import Sql, quoted, write
from noetl.tools.rows.columns import Column
from noetl.tools.rows.duckdb_database import literal, sql_errors, table_name
from noetl.tools.rows.endpoints import (
    SourceEndpoint,
    StagedRows,
    TargetEndpoint,
    TransferProgress,
    create_table,
    duplicate_key,
    insert_or_update,
)
from noetl.tools.rows.staging import Staging

SOURCE, TARGET = "source", "target"
"""Aliases of the attached files."""


def duckdb_source(staging: Staging, sql: Sql, params: Any, alias: str | None) -> SourceEndpoint:
    """The rows of a query. Names in it are looked up in the attached file."""
    text = write(sql, literal)
    with sql_errors():
        statements = staging.connection.extract_statements(text)
    if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
        raise Failure("input", "`source.query` must be one statement that returns rows, such as SELECT")
    if not params and statements[0].named_parameters:
        raise Failure("input", "`source.query` has placeholders: give `params`")
    query = text.strip().rstrip(";")
    if alias is not None:
        staging.execute(f"USE {alias}")
    if params:
        staging.execute(f"CREATE TEMP TABLE chosen AS {query}", params)
        query = "SELECT * FROM chosen"
    return SourceEndpoint(f"({query}\n)", staging.describe(f"({query}\n)"))


class DuckdbTarget(TargetEndpoint):
    """A table of the attached file, written in one transaction."""

    def __init__(self, staging: Staging, table: str, mode: str, key: list[str]) -> None:
        self.staging, self.mode, self.key, self.exists = staging, mode, key, False
        self.name = f"{TARGET}.{'' if '.' in table else 'main.'}{table_name(table)}"
        self.schema, self.table = ("main", table) if "." not in table else table.rsplit(".", 1)
        staging.execute("BEGIN")

    def accepts(self) -> dict[str, str] | None:
        sql = (
            "SELECT column_name, data_type FROM duckdb_columns() WHERE database_name = $1 "
            "AND lower(schema_name) = lower($2) AND lower(table_name) = lower($3) ORDER BY column_index"
        )
        columns = self.staging.rows(sql, [TARGET, self.schema, self.table])
        self.exists = bool(columns)
        return dict(columns) or None

    def prepare(self, columns: list[Column]) -> None:
        if not self.exists:
            key = self.key if self.mode == "upsert" else []
            self.staging.execute(create_table(self.name, {column.name: column.type for column in columns}, key))
        elif self.mode == "replace":
            self.staging.execute(f"DELETE FROM {self.name}")

    def write(self, staging: Staging, rows: StagedRows, progress: TransferProgress) -> int:
        if self.mode != "upsert":
            names = ", ".join(column.quoted for column in rows.columns)
            return staging.execute(f"INSERT INTO {self.name} ({names}) {rows.query}")
        count = staging.execute(f"CREATE TEMP TABLE arrived AS {rows.query}")
        keys = ", ".join(map(quoted, self.key))
        duplicates = f"SELECT {keys} FROM arrived GROUP BY {keys} HAVING count(*) > 1 LIMIT 1"
        for values in staging.rows(duplicates):  # DuckDB would silently use the last row of a key
            raise duplicate_key(self.key, values)
        staging.execute(insert_or_update(self.name, "arrived", rows.columns, self.key))
        return count

    def commit(self) -> None:
        self.staging.execute("COMMIT")
