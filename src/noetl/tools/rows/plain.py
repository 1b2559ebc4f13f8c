"""What a value of a database becomes in a result: what JSON has, and bytes.

Decimals (every digit kept), dates, times and UUIDs are text as in results of `kind: python`. A whole number of more
than 64 bits is text as well, and so are NaN and the infinities, which JSON does not have.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from datetime import date, time, timedelta
from math import isfinite, isnan
from typing import Any

import msgspec

LOWEST, HIGHEST = -(2**63), 2**63 - 1
MANY_DIGITS = re.compile(r"\d{19}|[eE][+-]?\d{3}")
EASY = frozenset([str, bool, type(None), bytes])


def plain(value: Any) -> Any:
    """The value as a result can hold it."""
    kind = type(value)
    if kind in EASY:
        return value
    if kind is int:
        return value if LOWEST <= value <= HIGHEST else str(value)
    if kind is float:
        return value if isfinite(value) else "NaN" if isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, dict):
        return {str(plain(key)): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, (bytearray, memoryview)):
        return bytes(value)
    if isinstance(value, (date, time)):
        return value.isoformat()
    if isinstance(value, timedelta):
        return f"{value.total_seconds():f} seconds"
    return str(value)


def from_json(text: str | None) -> Any:
    """The value of a JSON column. Numbers that no float and no whole number of 64 bits can hold keep their digits."""
    if text is None:
        return None
    if MANY_DIGITS.search(text) is None:
        return msgspec.json.decode(text)
    return plain(json.loads(text, parse_float=lambda digits: float(digits) if isfinite(float(digits)) else digits))


def distinct(names: Iterable[str]) -> list[str]:
    """The names of columns as keys of a row: the second `id` is `id_2`."""
    found: dict[str, None] = {}
    for name in names:
        key, number = name, 2
        while key in found:
            key, number = f"{name}_{number}", number + 1
        found[key] = None
    return list(found)
