"""An SQL text whose data is still data: pieces of text, and between them values and names."""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

from noetl.sql.lexing import STANDARD, Dialect


class Value(NamedTuple):
    """SingleSlot value: None, a boolean, a number, text, bytes, a list (an array) or a map (JSON)."""

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
    """SQL text, or one of its statements."""

    parts: tuple[Part, ...]
    dialect: Dialect = STANDARD
    line: int = 1
    """The line of the whole text that this begins on."""
