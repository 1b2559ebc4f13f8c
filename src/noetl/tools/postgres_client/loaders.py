"""Values of results: what JSON has, and bytes. See the text of the kind for what becomes what.

Types without a loader of their own are text as the server writes it.
"""

from __future__ import annotations

import json
import re
from math import isfinite
from typing import Any

import msgspec
import psycopg
from psycopg.adapt import AdaptersMap, Loader
from psycopg.types.string import TextLoader

LOWEST, HIGHEST = -(2**63), 2**63 - 1
AS_TEXT = (
    "numeric", "date", "time", "timetz", "interval", "uuid", "inet", "cidr", "int4range", "int8range", "numrange",
    "daterange", "tsrange", "tstzrange", "int4multirange", "int8multirange", "nummultirange", "datemultirange",
    "tsmultirange", "tstzmultirange", "record",
)  # fmt: skip
MANY_DIGITS = re.compile(rb"\d{19}|[eE][+-]?\d{3}")
MOMENT = re.compile(r"(\d{4,}-\d\d-\d\d) (\d\d:\d\d:\d\d(?:\.\d+)?)(?:([+-]\d\d)(:?[\d:]*))?")


def _text(data: Any) -> bytes:
    return bytes(data) if data is not None else b""


class FloatLoader(Loader):
    """JSON has neither NaN nor infinities: they are text."""

    def load(self, data: Any) -> float | str:
        text = _text(data)
        value = float(text)
        return value if isfinite(value) else text.decode()


class MomentLoader(Loader):
    """ISO 8601, as far as the server writes anything like it: `infinity` and years before Christ stay as they are."""

    def load(self, data: Any) -> str:
        text = _text(data).decode()
        match = MOMENT.fullmatch(text)
        if match is None:
            return text
        day, time, hours, rest = match.groups()
        return f"{day}T{time}" + (f"{hours}{rest or ':00'}" if hours else "")


class JsonLoader(Loader):
    """Numbers that are not numbers of 64 bits keep their digits as text."""

    def load(self, data: Any) -> Any:
        text = _text(data)
        if MANY_DIGITS.search(text) is None:
            return msgspec.json.decode(text)
        return json.loads(text, parse_int=_whole, parse_float=_fraction)


def _whole(text: str) -> int | str:
    value = int(text) if len(text) < 30 else HIGHEST + 1
    return value if LOWEST <= value <= HIGHEST else text


def _fraction(text: str) -> float | str:
    value = float(text)
    return value if isfinite(value) else text


def _adapters() -> AdaptersMap:
    adapters = AdaptersMap(psycopg.adapters)
    for name in AS_TEXT:
        adapters.register_loader(name, TextLoader)
    for name in ("float4", "float8"):
        adapters.register_loader(name, FloatLoader)
    for name in ("timestamp", "timestamptz"):
        adapters.register_loader(name, MomentLoader)
    for name in ("json", "jsonb"):
        adapters.register_loader(name, JsonLoader)
    return adapters


ADAPTERS = _adapters()
