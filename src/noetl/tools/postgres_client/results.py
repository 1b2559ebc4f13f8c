"""Values and rows of results. The docstring of the kind lists which types are JSON values, bytes or text.

Types without a loader are text as the server writes it.
"""

from __future__ import annotations

import re
from math import isfinite
from typing import Any

import msgspec
import psycopg
from psycopg.adapt import AdaptersMap, Loader
from psycopg.types.string import TextLoader

from noetl.tools.rows.values import check_size, from_json

LARGE_BYTES = 1 << 20
_encode = msgspec.json.Encoder().encode
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


LOADERS: dict[type[Loader], tuple[str, ...]] = {
    TextLoader: AS_TEXT,
    FloatLoader: ("float4", "float8"),
    TimestampLoader: ("timestamp", "timestamptz"),
    JsonLoader: ("json", "jsonb"),
}
ADAPTERS = AdaptersMap(psycopg.adapters)
for loader, names in LOADERS.items():
    for name in names:
        ADAPTERS.register_loader(name, loader)


class RowBuffer:
    """The rows of a result, up to a limit.

    Rows are stored as JSON, which takes a fraction of the memory of objects. A small result is decoded again; a large
    one is used as it is. Rows with binary content stay objects: JSON can't represent it.
    """

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
