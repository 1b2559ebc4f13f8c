"""Durations as authors write them: a number of seconds, or `30s`, `5m`, `1h30m`."""

from __future__ import annotations

import re

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_PART = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,6})?)(ms|s|m|h|d)")
_WHOLE = re.compile(rf"(?:{_PART.pattern})+")
MAX_SECONDS = 10 * 366 * 86400.0


def seconds(value: object) -> float | None:
    """The duration in seconds, or None if `value` is not one."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        total = float(value)
    elif isinstance(value, str) and _WHOLE.fullmatch(value.strip()):
        total = sum(float(number) * _UNITS[unit] for number, unit in _PART.findall(value))
    else:
        return None
    return total if 0 <= total <= MAX_SECONDS else None
