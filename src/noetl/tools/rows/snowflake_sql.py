"""SQL for Snowflake: bound statements, literals, names, and inserts of many rows."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec

from noetl.model.outcome import Failure
from noetl.sql import InList, Sql, Value, first_words, quoted, simple_literal, write
from noetl.tools.rows.snowflake_session import SnowflakeSession

TYPED_LITERAL = re.compile(r"(?i)\b(?:interval|date|time|timestamp(?:_\w+)?)\s*\Z")
"""After these words Snowflake accepts only a literal."""
BINDS = frozenset(["SELECT", "WITH", "INSERT", "UPDATE", "DELETE", "MERGE", "CALL", "VALUES"])
"""Statements that accept bound values everywhere else."""
BATCH_ROWS, BATCH_VALUES = 5_000, 30_000
"""Snowflake accepts 16,384 rows and about 65,000 values in one statement."""


def bind(sql: Sql) -> tuple[str, list[Any]]:
    """The text of a statement, and its bound values: text wherever Snowflake accepts that; numbers are literals."""
    values: list[Any] = []
    binds = first_word(sql) in BINDS
    only_literals = _only_literals(sql)

    def render(value: Any) -> str:
        only_literal, nested = next(only_literals), isinstance(value, (list, dict))
        if nested:
            value = msgspec.json.encode(value).decode()
        if binds and (nested or (isinstance(value, (str, bytes)) and not only_literal)):
            values.append(value)
            text = "?"
        else:
            text = literal(value)
        return f"PARSE_JSON({text})" if nested else text

    return write(sql, render), values


def _only_literals(sql: Sql) -> Iterator[bool]:
    """For each value, whether it follows a word such as `INTERVAL`."""
    before: Any = ""
    for part in sql.parts:
        if isinstance(part, Value):
            yield isinstance(before, str) and TYPED_LITERAL.search(before) is not None
        elif isinstance(part, InList):
            yield from (False for item in part.items for _ in (item if isinstance(item, list) else [item]))
        before = part


def literal(value: Any) -> str:
    match value:
        case None | bool() | int():
            return simple_literal(value)
        case float():
            text = repr(value)
            return f"'{text}'::FLOAT" if "n" in text else text
        case bytes():
            return f"TO_BINARY('{value.hex()}', 'HEX')"
    return "'" + str(value).replace("\\", "\\\\").replace("'", "''") + "'"


def first_word(sql: Sql) -> str:
    return next(iter(first_words(sql, 1)), "")


def quoted_name(text: str) -> str:
    """The quoted name that Snowflake makes of an unquoted one: `sales.orders` is `"SALES"."ORDERS"`."""
    parts = text.split(".")
    if not all(parts) or "\0" in text:
        raise Failure("input", f"{text!r} cannot be the name of a table or column")
    return quoted(*map(folded, parts))


def folded(part: str) -> str:
    """In upper case if it needs no quotes, as in Snowflake."""
    return part.upper() if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_$]*", part) else part


def insert_rows(session: SnowflakeSession, table: str, columns: list[str], rows: list[list[Any]]) -> str | None:
    """Insert all rows in one transaction; return the id of the last query."""
    if not rows:
        return None
    session.execute("BEGIN")
    query = None
    for batch in batches(rows, len(columns)):
        query = insert_batch(session, quoted_name(table), columns, batch)
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
    writers = [
        _writer({type(row[place]) for row in rows if row[place] is not None}, place in json)
        for place in range(len(columns))
    ]
    values: list[str] = []
    lines = []
    for row in rows:
        cells = []
        for value, (text_of, _) in zip(row, writers, strict=True):
            if value is None or text_of is None:
                cells.append(literal(value))
            else:
                values.append(text_of(value))
                cells.append("?")
        lines.append(f"({', '.join(cells)})")
    converted = ", ".join(form.format(f"column{place}") for place, (_, form) in enumerate(writers, start=1))
    target = f"{into} ({', '.join(map(quoted_name, columns))})"
    return session.execute(f"INSERT INTO {target} SELECT {converted} FROM VALUES {', '.join(lines)}", values).sfqid


def _writer(kinds: set[type], json: bool) -> tuple[Callable[[Any], str] | None, str]:
    """How the values of a column are bound as text, None for literals; and the expression that converts them."""
    if json:
        return str, "PARSE_JSON({})"
    if kinds <= {int, float} or kinds <= {bool}:
        return None, "{}"
    if kinds & {dict, list}:
        return (lambda value: msgspec.json.encode(value).decode()), "PARSE_JSON({})"
    if kinds == {bytes}:
        return bytes.hex, "TO_BINARY({}, 'HEX')"
    if bytes in kinds:
        raise Failure("input", "a column has binary content in one row and another type in another row")
    return (lambda value: str(value).lower() if isinstance(value, bool) else str(value)), "{}"
