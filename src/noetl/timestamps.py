"""Times as people and JSON see them: RFC 3339, in UTC."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache
from math import floor

HALF_MICROSECOND = 0.0005  # in milliseconds: a time is exact to a microsecond


def rfc3339(at: float | datetime, timespec: str = "milliseconds") -> str:
    """`2026-03-01T12:00:00.000Z`. `timespec` is that of `datetime.isoformat`; `auto` omits a fraction of zero."""
    if timespec == "milliseconds" and not isinstance(at, datetime):
        return _milliseconds(floor(at * 1000 + HALF_MICROSECOND))
    moment = at.astimezone(UTC) if isinstance(at, datetime) else datetime.fromtimestamp(at, UTC)
    return moment.isoformat(timespec=timespec).replace("+00:00", "Z")


@lru_cache(64)
def _milliseconds(ms: int) -> str:
    """Cached, because every call of a tool has a time, and many fast ones have the same."""
    return f"{datetime.fromtimestamp(ms // 1000, UTC).isoformat()[:19]}.{ms % 1000:03}Z"


def optional_rfc3339(at: float | None) -> str | None:
    return None if at is None else rfc3339(at)
