"""What a server says of itself: lines of JSON on standard error. No content, no query, no secret is ever in them."""

from __future__ import annotations

import sys
import traceback
from datetime import UTC, datetime
from typing import Any, Protocol

import msgspec


class Stream(Protocol):
    def write(self, text: str, /) -> Any: ...


class Log:
    """Writes lines."""

    def __init__(self, stream: Stream | None = None) -> None:
        self._stream = stream

    def write(self, level: str, message: str, **fields: Any) -> None:
        at = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        line = msgspec.json.encode({"ts": at, "level": level, "msg": message} | fields).decode()
        (self._stream or sys.stderr).write(line + "\n")

    def defect(self, error: BaseException, **fields: Any) -> None:
        """An error that nobody expected: where it happened, without the values that were at hand."""
        frames = traceback.extract_tb(error.__traceback__)
        places = [f"{frame.filename.rpartition('/')[2]}:{frame.lineno} {frame.name}" for frame in frames[-12:]]
        self.write("error", "a defect", error=type(error).__name__, at=places, **fields)
