"""Times as people and JSON see them: RFC 3339, in UTC."""

from __future__ import annotations

from datetime import UTC, datetime


def rfc3339(at: float | datetime, timespec: str = "milliseconds") -> str:
    """`2026-03-01T12:00:00.000Z`. `timespec` is that of `datetime.isoformat`; `auto` omits a fraction of zero."""
    moment = at.astimezone(UTC) if isinstance(at, datetime) else datetime.fromtimestamp(at, UTC)
    return moment.isoformat(timespec=timespec).replace("+00:00", "Z")


def optional_rfc3339(at: float | None) -> str | None:
    return None if at is None else rfc3339(at)
