"""Values as SQL literals and text for the server, and values and rows of its results.

Literals work in every statement, parameters of the protocol do not: DDL, SET, `interval {{ x }}`. A text literal has no
type of its own: the server infers it from the context. In results, types without a loader are text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from math import isfinite
from typing import Any

import msgspec
import psycopg
from psycopg.adapt import AdaptersMap, Loader
from psycopg.pq.abc import Escaping
from psycopg.types.string import TextLoader

from noetl.model.outcome import Failure
from noetl.sql.statements import Empty, simple_literal
from noetl.tools.rows.values import check_size, from_json

EMPTY_LIST = Empty("= ANY ('{}')", "<> ALL ('{}')")
"""An empty list has the type of the value it is compared with."""
LARGE_BYTES = 1 << 20
_encode = msgspec.json.Encoder().encode


def literals(escaping: Escaping, encoding: str) -> Callable[[Any], str]:
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
            case list() if (kinds := _array_kinds(value)) is not None:
                return quoted(array_text(value)) if kinds <= {str} else f"ARRAY{bracketed(value)}"
        return f"{quoted(json_text(value))}::jsonb"

    def bracketed(value: list[Any]) -> str:
        return f"[{', '.join(bracketed(item) if isinstance(item, list) else literal(item) for item in value)}]"

    return literal


def _array_kinds(value: list[Any]) -> set[type] | None:
    """The types of the items of an array and its inner arrays, without null. None if the list is not an array: inner
    lists have different lengths, or the items have types of several kinds."""
    kinds = {type(item) for item in value if item is not None}
    if list in kinds:
        if kinds != {list} or None in value or len({len(item) for item in value}) != 1:
            return None
        kinds = set()
        for item in value:
            if (inner := _array_kinds(item)) is None:
                return None
            kinds |= inner
    return kinds if kinds <= {int, float} or (len(kinds) == 1 and kinds <= {str, bool, bytes}) else None


def encoded(text: str, encoding: str) -> bytes:
    """Text as bytes; Failure if PostgreSQL cannot store it."""
    if "\0" in text:
        raise Failure("input", "a text has a null character, which PostgreSQL cannot store: remove it")
    try:
        return text.encode(encoding)
    except UnicodeEncodeError as error:
        raise Failure("input", f"a text cannot be written in {encoding}: {error.reason} at {error.start}") from None


def json_text(value: Any) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise Failure("input", f"a value cannot be written as JSON: {error}") from None


def array_text(value: list[Any]) -> str:
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


AS_TEXT = (
    "numeric", "date", "time", "timetz", "interval", "uuid", "inet", "cidr", "int4range", "int8range", "numrange",
    "daterange", "tsrange", "tstzrange", "int4multirange", "int8multirange", "nummultirange", "datemultirange",
    "tsmultirange", "tstzmultirange", "record",
)  # fmt: skip
TIMESTAMP = re.compile(r"(\d{4,}-\d\d-\d\d) (\d\d:\d\d:\d\d(?:\.\d+)?)(?:([+-]\d\d)(:?[\d:]*))?")


class FloatLoader(Loader):
    """JSON has neither NaN nor infinities: they are text."""

    def load(self, data: Any) -> float | str:
        text = bytes(data)
        value = float(text)
        return value if isfinite(value) else text.decode()


class TimestampLoader(Loader):
    """ISO 8601; `infinity` and years before Christ stay as the server writes them."""

    def load(self, data: Any) -> str:
        text = bytes(data).decode()
        match = TIMESTAMP.fullmatch(text)
        if match is None:
            return text
        day, time, hours, rest = match.groups()
        return f"{day}T{time}" + (f"{hours}{rest or ':00'}" if hours else "")


class JsonLoader(Loader):
    def load(self, data: Any) -> Any:
        return from_json(bytes(data).decode())


LOADERS: dict[str, type[Loader]] = {
    **dict.fromkeys(AS_TEXT, TextLoader),
    **dict.fromkeys(["float4", "float8"], FloatLoader),
    **dict.fromkeys(["timestamp", "timestamptz"], TimestampLoader),
    **dict.fromkeys(["json", "jsonb"], JsonLoader),
}
ADAPTERS = AdaptersMap(psycopg.adapters)
for name, loader in LOADERS.items():
    ADAPTERS.register_loader(name, loader)


class RowBuffer:
    """The rows of a result, up to a limit. Rows are stored as JSON, which takes a fraction of the memory of objects. A
    small result is decoded again; a large one is used as it is. Rows with binary content stay objects: JSON cannot
    represent it."""

    def __init__(self) -> None:
        self.size = 0
        self._texts: list[bytes] = []
        self._rows: list[dict[str, Any]] = []
        self.binary = False

    def add(self, rows: list[dict[str, Any]]) -> None:
        text = _encode(rows)
        self.size += len(text)
        check_size(self.size)
        if self.binary:
            self._rows += rows
        else:
            self._texts.append(text[1:-1])

    def rows(self) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = self._rows or msgspec.json.decode(b"[" + b",".join(self._texts) + b"]")
        return rows

    def result(self, more: dict[str, Any]) -> Any:
        if self.binary or self.size < LARGE_BYTES:
            return {"rows": self.rows(), **more}
        return msgspec.Raw(b'{"rows":[' + b",".join(self._texts) + b"]," + _encode(more)[1:])
