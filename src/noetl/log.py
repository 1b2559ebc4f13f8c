"""The log of servers and workers: one line per event on standard error, as JSON for programs or as text for people.

A line never contains request bodies, query strings, payloads or secrets: callers name the fields.
"""

from __future__ import annotations

import logging
import sys
import time
import traceback
from collections.abc import Callable
from typing import Any, Literal, TextIO

import msgspec

from noetl.printable import printable, printable_json
from noetl.timestamps import rfc3339

Form = Literal["text", "json"]
Level = Literal["debug", "info", "warning", "error"]
ORDER: dict[Level, int] = {"debug": 0, "info": 1, "warning": 2, "error": 3}
PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-/:{}@+")
"""Characters of a value that needs no quotes in a text line."""
LIBRARY_LINES, LIBRARY_SECONDS = 20, 60.0  # maximum lines per library in that time


class Log:
    def __init__(self, form: Form = "json", level: Level = "info", stream: TextIO | None = None) -> None:
        self.form, self.level = form, level
        self._lowest = ORDER[level]
        self._stream = stream

    def write(self, level: Level, message: str, **fields: Any) -> None:
        """A line. Fields that are None are left out."""
        if ORDER[level] < self._lowest:
            return
        at = rfc3339(time.time())
        present = {name: value for name, value in fields.items() if value is not None}
        if self.form == "json":
            line = printable_json(msgspec.json.encode({"ts": at, "level": level, "msg": message} | present).decode())
        else:
            words = [at, level.upper(), message, *(f"{name}={_text(value)}" for name, value in present.items())]
            line = printable(" ".join(words))
        try:
            (self._stream or sys.stderr).write(line + "\n")
        except (OSError, ValueError):  # standard error is closed
            self._lowest = len(ORDER)

    def defect(self, error: BaseException, **fields: Any) -> None:
        """An unexpected error: its places in the code, without values."""
        frames = traceback.extract_tb(error.__traceback__)
        places = [f"{frame.filename.rpartition('/')[2]}:{frame.lineno} {frame.name}" for frame in frames[-12:]]
        self.write("error", "internal error", error=type(error).__name__, at=places, **fields)


class _RateWindow(msgspec.Struct):
    started: float
    written: int = 1
    suppressed: int = 0


class _Libraries(logging.Handler):
    """Logs the first line of warnings of libraries, without the traceback and its values.

    Clients can make a library warn as often as they like (invalid requests, too many connections), so the lines of each
    library are limited; the next line has the number of suppressed ones.
    """

    def __init__(self, log: Log, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(logging.WARNING)
        self.log, self.clock = log, clock
        self._windows: dict[str, _RateWindow] = {}

    def emit(self, record: logging.LogRecord) -> None:
        library, now = record.name, self.clock()
        window = self._windows.get(library)
        suppressed = 0 if window is None else window.suppressed
        if window is None or now - window.started >= LIBRARY_SECONDS:
            self._windows[library] = _RateWindow(now)
        elif window.written >= LIBRARY_LINES:
            window.suppressed += 1
            return
        else:
            window.written += 1
        level: Level = "error" if record.levelno >= logging.ERROR else "warning"
        kind = record.exc_info[0] if record.exc_info else None
        message = record.getMessage().partition("\n")[0][:200]
        error = None if kind is None else kind.__name__
        self.log.write(level, message, library=library, error=error, suppressed=suppressed or None)


def capture_warnings(log: Log) -> None:
    logging.getLogger().handlers = [_Libraries(log)]


def _text(value: Any) -> str:
    if isinstance(value, str) and value and PLAIN.issuperset(value):
        return value
    return msgspec.json.encode(value).decode()
