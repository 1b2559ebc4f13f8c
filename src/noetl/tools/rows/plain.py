"""Database values as JSON values or bytes.

Decimals (without loss of digits), dates, times and UUIDs are text, as in results of `kind: python`, and so are whole
numbers of more than 64 bits, NaN and the infinities, which JSON does not have.
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
UNCHANGED = frozenset([str, bool, type(None), bytes])


def plain(value: Any) -> Any:
    kind = type(value)
    if kind in UNCHANGED:
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
    """The value of a JSON column. Numbers that fit neither a float nor 64 bits are text."""
    if text is None:
        return None
    if MANY_DIGITS.search(text) is None:
        return msgspec.json.decode(text)
    return json.loads(text, parse_int=_whole, parse_float=_fraction)


def _whole(digits: str) -> int | str:
    value = int(digits) if len(digits) < 30 else HIGHEST + 1
    return value if LOWEST <= value <= HIGHEST else digits


def _fraction(digits: str) -> float | str:
    value = float(digits)
    return value if isfinite(value) else digits


def distinct_names(names: Iterable[str]) -> list[str]:
    """Column names made unique: the second `id` is `id_2`."""
    keys: dict[str, None] = {}
    for name in names:
        key, number = name, 2
        while key in keys:
            key, number = f"{name}_{number}", number + 1
        keys[key] = None
    return list(keys)
