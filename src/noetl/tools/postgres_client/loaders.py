"""Values of results as JSON values or bytes; the docstring of the kind lists the types.

Types without a loader are text as the server writes it.
"""

from __future__ import annotations

import re
from math import isfinite
from typing import Any

import psycopg
from psycopg.adapt import AdaptersMap, Loader
from psycopg.types.string import TextLoader

from noetl.tools.rows.plain import from_json

AS_TEXT = (
    "numeric", "date", "time", "timetz", "interval", "uuid", "inet", "cidr", "int4range", "int8range", "numrange",
    "daterange", "tsrange", "tstzrange", "int4multirange", "int8multirange", "nummultirange", "datemultirange",
    "tsmultirange", "tstzmultirange", "record",
)  # fmt: skip
TIMESTAMP = re.compile(r"(\d{4,}-\d\d-\d\d) (\d\d:\d\d:\d\d(?:\.\d+)?)(?:([+-]\d\d)(:?[\d:]*))?")


def _text(data: Any) -> bytes:
    return bytes(data) if data is not None else b""


class FloatLoader(Loader):
    """JSON has neither NaN nor infinities: they are text."""

    def load(self, data: Any) -> float | str:
        text = _text(data)
        value = float(text)
        return value if isfinite(value) else text.decode()


class TimestampLoader(Loader):
    """ISO 8601; `infinity` and years before Christ stay as the server writes them."""

    def load(self, data: Any) -> str:
        text = _text(data).decode()
        match = TIMESTAMP.fullmatch(text)
        if match is None:
            return text
        day, time, hours, rest = match.groups()
        return f"{day}T{time}" + (f"{hours}{rest or ':00'}" if hours else "")


class JsonLoader(Loader):
    def load(self, data: Any) -> Any:
        return from_json(_text(data).decode())


def _adapters() -> AdaptersMap:
    adapters = AdaptersMap(psycopg.adapters)
    for name in AS_TEXT:
        adapters.register_loader(name, TextLoader)
    for name in ("float4", "float8"):
        adapters.register_loader(name, FloatLoader)
    for name in ("timestamp", "timestamptz"):
        adapters.register_loader(name, TimestampLoader)
    for name in ("json", "jsonb"):
        adapters.register_loader(name, JsonLoader)
    return adapters


ADAPTERS = _adapters()
