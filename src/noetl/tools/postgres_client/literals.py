"""Values as SQL literals, quoted by the driver, and the text form of arrays.

Literals work in every statement, parameters of the protocol do not: DDL, SET, `interval {{ x }}`. A text literal has no
type of its own: the server infers it from the context, as with a literal that an author writes.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from math import isfinite
from typing import Any

from psycopg.pq.abc import Escaping

from noetl.model.outcome import Failure
from noetl.sql import Empty, simple_literal

EMPTY_LIST = Empty("= ANY ('{}')", "<> ALL ('{}')")
"""An empty list has the type of the value it is compared with."""


def literals(escaping: Escaping, encoding: str) -> Callable[[Any], str]:
    """The function that writes a value as a literal."""

    def quoted(text: str) -> str:
        return bytes(escaping.escape_literal(encoded(text, encoding))).decode(encoding).strip()

    def literal(value: Any) -> str:
        match value:
            case None | bool() | int():
                return simple_literal(value)
            case float():
                return repr(value) if isfinite(value) else f"'{value}'::float8"
            case str():
                return quoted(value)
            case bytes():
                return f"'\\x{value.hex()}'::bytea"
            case list():
                return array(value)
        return f"{quoted(json_text(value))}::jsonb"

    def array(value: list[Any]) -> str:
        kinds = set(_leaves(value))
        if not _is_array(value) or not (kinds <= {str} or kinds <= {int, float} or kinds <= {bool} or kinds <= {bytes}):
            return f"{quoted(json_text(value))}::jsonb"
        return quoted(array_text(value)) if kinds <= {str} else f"ARRAY{bracketed(value)}"

    def bracketed(value: list[Any]) -> str:
        return f"[{', '.join(bracketed(item) if isinstance(item, list) else literal(item) for item in value)}]"

    return literal


def encoded(text: str, encoding: str) -> bytes:
    """Text as bytes; Failure if PostgreSQL can't store it."""
    if "\0" in text:
        raise Failure("input", "a text has a null character, which PostgreSQL can't store: remove it")
    try:
        return text.encode(encoding)
    except UnicodeEncodeError as error:
        raise Failure("input", f"a text can't be written in {encoding}: {error.reason} at {error.start}") from None


def json_text(value: Any) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise Failure("input", f"a value can't be written as JSON: {error}") from None


def array_text(value: list[Any]) -> str:
    """A list in the array syntax of the server: `{"a","b",NULL,{...}}`."""

    def element(item: Any) -> str:
        if item is None or isinstance(item, list):
            return "NULL" if item is None else array_text(item)
        return '"' + plain_text(item).replace("\\", "\\\\").replace('"', '\\"') + '"'

    return "{" + ",".join(map(element, value)) + "}"


def plain_text(value: Any) -> str:
    """A value whose type the server knows: a column of COPY, an element of an array."""
    match value:
        case str():
            return value
        case bool():
            return "true" if value else "false"
        case bytes():
            return f"\\x{value.hex()}"
        case int() | float():
            return str(value)
    return json_text(value)


def _leaves(value: list[Any]) -> list[type]:
    """The types of the items of a list and its inner lists, without nulls."""
    types: list[type] = []
    for item in value:
        types += _leaves(item) if isinstance(item, list) else [type(item)] * (item is not None)
    return types


def _is_array(value: list[Any]) -> bool:
    """Whether inner lists all have the same length, as in arrays."""
    inner = [item for item in value if isinstance(item, list)]
    if not inner:
        return True
    return len(inner) == len(value) and len({len(item) for item in inner}) == 1 and all(map(_is_array, inner))
