"""Rows of a call: the values to insert, and results as JSON values or bytes.

In results decimals (without loss of digits), dates, times and UUIDs are text, as in results of `kind: python`, and so
are whole numbers of more than 64 bits, NaN and the infinities, which JSON does not have.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Sequence
from datetime import date, time, timedelta
from math import isfinite, isnan
from typing import Any

import msgspec

from noetl.model.outcome import Failure
from noetl.tools.base import MAX_RESULT_BYTES
from noetl.tools.rows.blocking import Cancellation

FETCH_ROWS = 1_000
MAX_LEDGER_BYTES = 1 << 20
MANY_DIGITS = re.compile(r"\d{19}|[eE][+-]?\d{3}")
UNCHANGED = frozenset([str, bool, type(None), bytes])


def changed(row_count: int) -> dict[str, Any]:
    """The result of a statement that returns no rows."""
    return {"rows": [], "row_count": row_count, "columns": []}


def read_rows(
    fetch_many: Callable[[int], list[Any]],
    names: Sequence[str],
    readers: Sequence[Callable[[Any], Any]],
    cancellation: Cancellation,
) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    size = 0
    while batch := fetch_many(FETCH_ROWS):
        cancellation.check()
        maps = [{name: read(value) for name, read, value in zip(names, readers, row, strict=True)} for row in batch]
        size += len(msgspec.json.encode(maps))
        check_size(size)
        rows += maps
    return rows


def check_size(size: int) -> None:
    if size > MAX_RESULT_BYTES:
        message = f"the result is above {MAX_RESULT_BYTES >> 20} MiB: add a LIMIT, or copy the rows with `transfer`"
        raise Failure("too_large", message, limit=MAX_RESULT_BYTES)


def combined(results: list[dict[str, Any]]) -> dict[str, Any]:
    if len(results) == 1:
        return results[0]
    summaries = [{key: value for key, value in result.items() if key != "rows"} for result in results]
    return results[-1] | {"statements": summaries}


def ledger_text(result: Any) -> str:
    """The result of an `exactly_once` call as JSON for the ledger, without its rows if they are above 1 MiB."""
    text = msgspec.json.encode(result)
    if len(text) > MAX_LEDGER_BYTES:
        text = msgspec.json.encode({**msgspec.json.decode(text), "rows": [], "rows_omitted": True})
    return text.decode()


def plain(value: Any) -> Any:
    kind = type(value)
    if kind in UNCHANGED:
        return value
    if kind is int:
        return value if -(2**63) <= value < 2**63 else str(value)
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
    return json.loads(
        text,
        parse_int=lambda digits: plain(int(digits)) if len(digits) < 30 else digits,
        parse_float=lambda digits: value if isfinite(value := float(digits)) else digits,
    )


def distinct_names(names: Iterable[str]) -> list[str]:
    """Column names made unique: the second `id` is `id_2`."""
    keys: dict[str, None] = {}
    for name in names:
        key, number = name, 2
        while key in keys:
            key, number = f"{name}_{number}", number + 1
        keys[key] = None
    return list(keys)
