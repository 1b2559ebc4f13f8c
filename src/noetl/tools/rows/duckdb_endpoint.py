"""DuckDB as an endpoint of a transfer: a file attached to the staging database, or for a source that database."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from noetl.model.outcome import Failure
from noetl.sql import quoted
from noetl.tools.rows.columns import Column
from noetl.tools.rows.duckdb_database import literal, table_name
from noetl.tools.rows.endpoints import RelationSource, StagedRows
from noetl.tools.rows.progress import Progress
from noetl.tools.rows.staging import Staging

if TYPE_CHECKING:
    from noetl.sql import Sql

SOURCE, TARGET = "source", "target"
"""Aliases of the attached files."""


def duckdb_text(staging: Staging, sql: Sql, params: Any) -> str:
    """The query of a source with literals."""
    import duckdb

    from noetl.sql import write

    text = write(sql, literal)
    statements = staging.checked(lambda: staging.connection.extract_statements(text))
    if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
        raise Failure("input", "`source.query` must be one statement that returns rows, such as SELECT")
    if not params and statements[0].named_parameters:
        raise Failure("input", "`source.query` has placeholders: give `params`")
    return text.strip().rstrip(";")


def duckdb_source(staging: Staging, query: str, params: Any, alias: str | None) -> RelationSource:
    """The rows of a query. Names in it are looked up in the attached file."""
    if alias is not None:
        staging.execute(f"USE {alias}")
    if params:
        staging.checked(lambda: staging.connection.execute(f"CREATE TEMP TABLE chosen AS {query}", params))
        query = "SELECT * FROM chosen"
    return RelationSource(f"({query}\n)", staging.describe(f"({query}\n)"))


def duplicate_key(key: list[str], values: Any) -> Failure:
    text = ", ".join(f"{name} {value}" for name, value in zip(key, values, strict=True))
    return Failure("input", f"the source has two rows with the same key: {text[:200]}")


class DuckdbTarget:
    """A table of the attached file, written in one transaction."""

    def __init__(self, staging: Staging, alias: str, table: str, mode: str, key: list[str]) -> None:
        self.staging, self.mode, self.key = staging, mode, key
        name = table_name(table)
        self.name = f"{alias}.{name}" if "." in table else f"{alias}.main.{name}"
        self.schema, self.table = ("main", table) if "." not in table else tuple(table.rsplit(".", 1))
        self.alias, self.exists = alias, False
        staging.execute("BEGIN")

    def accepts(self) -> dict[str, str] | None:
        sql = (
            "SELECT column_name, data_type FROM duckdb_columns() WHERE database_name = $1 "
            "AND lower(schema_name) = lower($2) AND lower(table_name) = lower($3) ORDER BY column_index"
        )
        values = [self.alias, self.schema, self.table]
        columns = self.staging.checked(lambda: self.staging.connection.execute(sql, values).fetchall())
        self.exists = bool(columns)
        return dict(columns) if columns else None

    def prepare(self, columns: list[Column]) -> None:
        if not self.exists:
            parts = [f"{column.quoted} {column.type}" for column in columns]
            if self.mode == "upsert":
                parts.append(f"PRIMARY KEY ({', '.join(quoted((name,)) for name in self.key)})")
            self.staging.execute(f"CREATE TABLE {self.name} ({', '.join(parts)})")
        elif self.mode == "replace":
            self.staging.execute(f"DELETE FROM {self.name}")

    def write(self, staging: Staging, rows: StagedRows, progress: Progress) -> int:
        names = ", ".join(column.quoted for column in rows.columns)
        into = f"INSERT INTO {self.name} ({names})"
        if self.mode != "upsert":
            return staging.execute(f"{into} {rows.query}")
        count = staging.execute(f"CREATE TEMP TABLE arrived AS {rows.query}")
        self._check_keys(staging)
        staging.execute(f"{into} SELECT {names} FROM arrived {self._conflict(rows.columns)}")
        return count

    def _check_keys(self, staging: Staging) -> None:
        """DuckDB would silently use the last row of a key."""
        keys = ", ".join(quoted((name,)) for name in self.key)
        query = f"SELECT {keys} FROM arrived GROUP BY {keys} HAVING count(*) > 1 LIMIT 1"
        duplicate = staging.checked(lambda: staging.connection.execute(query).fetchone())
        if duplicate is not None:
            raise duplicate_key(self.key, duplicate)

    def _conflict(self, columns: list[Column]) -> str:
        others = [column.quoted for column in columns if column.name not in self.key]
        changes = ", ".join(f"{name} = excluded.{name}" for name in others)
        keys = ", ".join(quoted((name,)) for name in self.key)
        return f"ON CONFLICT ({keys}) " + (f"DO UPDATE SET {changes}" if others else "DO NOTHING")

    def commit(self) -> None:
        self.staging.execute("COMMIT")
