"""Inserts many rows into a Snowflake table with one statement."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from noetl.model.outcome import Failure
from noetl.tools.rows.snowflake_session import SnowflakeSession, literal, name

BATCH_ROWS, BATCH_VALUES = 5_000, 30_000
"""Snowflake accepts 16,384 rows and about 65,000 values in one statement."""


def insert_rows(session: SnowflakeSession, table: str, columns: list[str], rows: list[list[Any]]) -> str | None:
    """Insert all rows in one transaction; return the id of the last query."""
    if not rows:
        return None
    session.execute("BEGIN")
    query = None
    for batch in batches(rows, len(columns)):
        query = insert_batch(session, name(table), columns, batch)
    session.execute("COMMIT")
    return query


def batches(rows: Sequence[Sequence[Any]], width: int) -> list[Sequence[Sequence[Any]]]:
    size = max(1, min(BATCH_ROWS, BATCH_VALUES // max(1, width)))
    return [rows[start : start + size] for start in range(0, len(rows), size)]


def insert_batch(
    session: SnowflakeSession,
    into: str,
    columns: list[str],
    rows: Sequence[Sequence[Any]],
    json: frozenset[int] = frozenset(),
) -> str | None:
    """One INSERT. The values of a column have one type: numbers are literals, all others are bound as text.

    `json` are the indexes of columns whose values are JSON text already.
    """
    cells_of = [_ColumnValues([row[place] for row in rows], place in json) for place in range(len(columns))]
    values: list[Any] = []
    lines = []
    for number in range(len(rows)):
        cells = [column.cell(number, values) for column in cells_of]
        lines.append(f"({', '.join(cells)})")
    converted = ", ".join(column.converted(f"column{place}") for place, column in enumerate(cells_of, start=1))
    names = ", ".join(map(name, columns))
    return session.execute(
        f"INSERT INTO {into} ({names}) SELECT {converted} FROM VALUES {', '.join(lines)}", values
    ).sfqid


class _ColumnValues:
    """The values of one column in one statement."""

    def __init__(self, values: list[Any], json: bool) -> None:
        self.values, self.json = values, json
        kinds = {type(value) for value in values if value is not None}
        self.literal = kinds <= {int, float} or kinds <= {bool}
        self.nested = json or bool(kinds & {dict, list})
        self.binary = kinds == {bytes}
        if bytes in kinds and not self.binary:
            raise Failure("input", "a column has binary content in one row and another type in another row")

    def cell(self, number: int, bound: list[Any]) -> str:
        value = self.values[number]
        if value is None or self.literal:
            return literal(value)
        bound.append(self._text(value))
        return "?"

    def _text(self, value: Any) -> str:
        if self.nested and not self.json:
            return msgspec.json.encode(value).decode()
        if self.binary:
            return str(value.hex())
        return ("true" if value else "false") if isinstance(value, bool) else str(value)

    def converted(self, column: str) -> str:
        if self.nested:
            return f"PARSE_JSON({column})"
        return f"TO_BINARY({column}, 'HEX')" if self.binary else column
