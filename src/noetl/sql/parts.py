"""SQL whose data is still data: pieces of text, between them values and names; and its text for a driver."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

from noetl.sql.lexing import STANDARD, Dialect


class Value(NamedTuple):
    """None, a boolean, a number, text, bytes, a list (an array) or a map (JSON)."""

    value: Any


class Identifier(NamedTuple):
    """A name of one or more parts, each to be quoted by itself: `("shop", "orders")` is `"shop"."orders"`."""

    names: tuple[str, ...]


class InList(NamedTuple):
    """`IN (...)` or `NOT IN (...)` as a whole, brackets included. An item that is a list is a row of values."""

    items: tuple[Any, ...]
    negated: bool


Part: TypeAlias = str | Value | Identifier | InList


class Sql(NamedTuple):
    parts: tuple[Part, ...]
    dialect: Dialect = STANDARD
    line: int = 1
    """The line of the whole text that this begins on."""


class Empty(NamedTuple):
    """The SQL for `IN` and `NOT IN` with an empty list: one is never true, the other always."""

    never: str = "IN (SELECT NULL WHERE FALSE)"
    always: str = "NOT IN (SELECT NULL WHERE FALSE)"


STANDARD_EMPTY = Empty()


class WrittenSql(NamedTuple):
    """SQL for a driver: each part with its text."""

    parts: list[tuple[Part, str]]
    line: int

    @property
    def text(self) -> str:
        return "".join(text for _, text in self.parts)

    def place(self, position: int) -> tuple[int, Part | None]:
        """The line in the author's SQL and the part at a position (from 1) of the text."""
        line, end = self.line, 0
        for part, text in self.parts:
            begin, end = end, end + len(text)
            own = text if isinstance(part, str) else ""
            if position <= end:
                return line + own.count("\n", 0, position - begin - 1), part
            line += own.count("\n")
        return line, None


def write(sql: Sql, value: Callable[[Any], str], *, empty: Empty = STANDARD_EMPTY) -> str:
    """The text for a driver. `value` renders each value, in order, as a placeholder or a literal."""
    return written(sql, value, empty=empty).text


def written(sql: Sql, value: Callable[[Any], str], *, empty: Empty = STANDARD_EMPTY) -> WrittenSql:
    """The same, part by part."""
    loose = " \t\n\r\f\v()[],;:"
    parts: list[tuple[Part, str]] = []
    for part, following in zip(sql.parts, (*sql.parts, "")[1:], strict=True):
        text = _written(part, value, empty)
        is_cast = isinstance(following, str) and following.lstrip().startswith("::")
        if text.startswith("-") and is_cast and not isinstance(part, str):
            text = f"({text})"  # -1::text would be -(1::text)
        before, text_before = parts[-1] if parts else ("", "")
        is_data = not (isinstance(before, str) and isinstance(part, str))
        if is_data and text_before[-1:] not in loose and text[:1] not in loose:
            text = f" {text}"  # without a space both might be read as one token
        parts.append((part, text))
    return WrittenSql(parts, sql.line)


def _written(part: Part, value: Callable[[Any], str], empty: Empty) -> str:
    match part:
        case Value(content):
            return value(content)
        case Identifier(names):
            return quoted(*names)
        case InList((), negated):
            return empty.always if negated else empty.never
        case InList(items, negated):
            rows = (f"({', '.join(map(value, item))})" if isinstance(item, list) else value(item) for item in items)
            return f"{'NOT ' if negated else ''}IN ({', '.join(rows)})"
        case str():
            return part


def simple_literal(value: bool | int | None) -> str:
    """A literal that is the same in every database."""
    return "NULL" if value is None else str(value).upper()


def quoted(*names: str) -> str:
    """A name in double quotes, part by part."""
    return ".".join('"' + name.replace('"', '""') + '"' for name in names)
