"""DuckDB as a side of a transfer: a file attached to the hub, or for a source the hub itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from noetl.model.outcome import Failure
from noetl.sql import quoted
from noetl.tools.rows.columns import Column
from noetl.tools.rows.duck import literal, table_name
from noetl.tools.rows.ends import Plain, Rows
from noetl.tools.rows.hub import Hub
from noetl.tools.rows.progress import Progress

if TYPE_CHECKING:
    from noetl.sql import Sql

SOURCE, TARGET = "source", "target"
"""What the files of the two sides are called in the hub."""


def duckdb_text(hub: Hub, sql: Sql, params: Any) -> str:
    """The query of a source as one text."""
    import duckdb

    from noetl.sql import write

    text = write(sql, literal)
    found = hub.checked(lambda: hub.connection.extract_statements(text))
    if len(found) != 1 or found[0].type != duckdb.StatementType.SELECT:
        raise Failure("input", "`source.query` is one statement that gives rows, such as SELECT")
    if not params and found[0].named_parameters:
        raise Failure("input", "`source.query` has placeholders and there are no `params`")
    return text.strip().rstrip(";")


def duckdb_source(hub: Hub, query: str, params: Any, alias: str | None) -> Plain:
    """The rows of a query. Names in it are looked up in the attached file."""
    if alias is not None:
        hub.execute(f"USE {alias}")
    if params:
        hub.checked(lambda: hub.connection.execute(f"CREATE TEMP TABLE chosen AS {query}", params))
        query = "SELECT * FROM chosen"
    return Plain(f"({query}\n)", hub.describe(f"({query}\n)"))


def two_rows(key: list[str], values: Any) -> Failure:
    shown = ", ".join(f"{name} {value}" for name, value in zip(key, values, strict=True))
    return Failure("input", f"the source has two rows with the same key: {shown[:200]}")


class DuckdbTarget:
    """A table of the attached file, filled in one transaction."""

    def __init__(self, hub: Hub, alias: str, table: str, mode: str, key: list[str]) -> None:
        self.hub, self.mode, self.key = hub, mode, key
        name = table_name(table)
        self.name = f"{alias}.{name}" if "." in table else f"{alias}.main.{name}"
        self.schema, self.table = ("main", table) if "." not in table else tuple(table.rsplit(".", 1))
        self.alias, self.exists = alias, False
        hub.execute("BEGIN")

    def accepts(self) -> dict[str, str] | None:
        sql = (
            "SELECT column_name, data_type FROM duckdb_columns() WHERE database_name = $1 "
            "AND lower(schema_name) = lower($2) AND lower(table_name) = lower($3) ORDER BY column_index"
        )
        values = [self.alias, self.schema, self.table]
        found = self.hub.checked(lambda: self.hub.connection.execute(sql, values).fetchall())
        self.exists = bool(found)
        return dict(found) if found else None

    def prepare(self, columns: list[Column]) -> None:
        if not self.exists:
            parts = [f"{column.quoted} {column.type}" for column in columns]
            if self.mode == "upsert":
                parts.append(f"PRIMARY KEY ({', '.join(quoted((name,)) for name in self.key)})")
            self.hub.execute(f"CREATE TABLE {self.name} ({', '.join(parts)})")
        elif self.mode == "replace":
            self.hub.execute(f"DELETE FROM {self.name}")

    def write(self, hub: Hub, rows: Rows, progress: Progress) -> int:
        names = ", ".join(column.quoted for column in rows.columns)
        into = f"INSERT INTO {self.name} ({names})"
        if self.mode != "upsert":
            return hub.execute(f"{into} {rows.query}")
        count = hub.execute(f"CREATE TEMP TABLE arrived AS {rows.query}")
        self._check_keys(hub)
        hub.execute(f"{into} SELECT {names} FROM arrived {self._conflict(rows.columns)}")
        return count

    def _check_keys(self, hub: Hub) -> None:
        """DuckDB would take the last row of a key without a word."""
        keys = ", ".join(quoted((name,)) for name in self.key)
        query = f"SELECT {keys} FROM arrived GROUP BY {keys} HAVING count(*) > 1 LIMIT 1"
        twice = hub.checked(lambda: hub.connection.execute(query).fetchone())
        if twice is not None:
            raise two_rows(self.key, twice)

    def _conflict(self, columns: list[Column]) -> str:
        others = [column.quoted for column in columns if column.name not in self.key]
        changes = ", ".join(f"{name} = excluded.{name}" for name in others)
        keys = ", ".join(quoted((name,)) for name in self.key)
        return f"ON CONFLICT ({keys}) " + (f"DO UPDATE SET {changes}" if others else "DO NOTHING")

    def commit(self) -> None:
        self.hub.execute("COMMIT")
