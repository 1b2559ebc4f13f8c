"""A table of Snowflake that rows are written into, in one transaction.

Snowflake commits when it creates a table, so that comes first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from noetl.tools.rows.snowflake_database import SnowflakeSession, folded, insert, literal, quoted_name
from noetl.tools.rows.tables import duplicate_key, duplicate_keys


class SnowflakeTable:
    def __init__(self, session: SnowflakeSession, table: str, mode: str, key: list[str]) -> None:
        self.session, self.mode, self.key = session, mode, key
        self.name = self.into = quoted_name(table)
        *schema, table = (folded(part) for part in table.split("."))
        within = f"table_schema = {literal(schema[-1])}" if schema else "table_schema = CURRENT_SCHEMA()"
        view = f"{quoted_name(schema[0])}.information_schema" if len(schema) > 1 else "information_schema"
        cursor = session.execute(
            f"SELECT column_name, data_type, numeric_precision, numeric_scale FROM {view}.columns "
            f"WHERE table_name = {literal(table)} AND {within} ORDER BY ordinal_position"
        )
        rows = cursor.fetchall()
        self.types = {other_case(str(row[0])): str(row[1]) for row in rows}
        """The columns with their types; empty if there is no table."""
        self.whole = {str(row[0]): f"{row[1]}({row[2]},0)" for row in rows if row[3] == 0}
        """The columns of whole numbers, by the name that Snowflake has, with their types."""
        self.dates = {str(row[0]): "DATE" for row in rows if row[1] == "DATE"}

    def prepare(self, columns: Sequence[str], types: Mapping[str, str]) -> None:
        """Create the table with these types if it is missing, begin, and delete the rows that are replaced."""
        if not self.types:
            parts = ", ".join(f"{quoted_name(name)} {kind}" for name, kind in types.items())
            self.session.execute(f"CREATE TABLE {self.name} ({parts})")
        if self.mode == "upsert":
            names = ", ".join(map(quoted_name, columns))
            self.into = quoted_name("NOETL_TRANSFER")
            self.session.execute(f"CREATE TEMPORARY TABLE {self.into} AS SELECT {names} FROM {self.name} WHERE FALSE")
        self.session.execute("BEGIN")
        if self.mode == "replace":
            self.session.execute(f"DELETE FROM {self.name}")

    def insert(
        self, columns: list[str], rows: Sequence[Sequence[Any]], json: frozenset[int] = frozenset()
    ) -> str | None:
        """Insert rows in batches; return the id of the last query."""
        return insert(self.session, self.into, columns, rows, json)

    def merge(self, columns: Sequence[str], origin: str) -> None:
        """Move the rows that were inserted into the table, by their key."""
        names, keys = [*map(quoted_name, columns)], [*map(quoted_name, self.key)]
        if (values := self.session.execute(duplicate_keys(self.into, keys)).fetchone()) is not None:
            raise duplicate_key(self.key, values, origin)
        same = " AND ".join(f"t.{key} = s.{key}" for key in keys)
        changes = ", ".join(f"{column} = s.{column}" for column in names if column not in keys)
        if changes:
            self.session.execute(f"UPDATE {self.name} AS t SET {changes} FROM {self.into} AS s WHERE {same}")
        new = f"SELECT {', '.join(f's.{column}' for column in names)} FROM {self.into} AS s"
        existing = f"SELECT 1 FROM {self.name} AS t WHERE {same}"
        self.session.execute(f"INSERT INTO {self.name} ({', '.join(names)}) {new} WHERE NOT EXISTS ({existing})")

    def commit(self) -> None:
        self.session.execute("COMMIT")


def other_case(text: str) -> str:
    """`ORDER_ID` is `order_id` in other databases."""
    return text.lower() if text == folded(text) and text == text.upper() else text
