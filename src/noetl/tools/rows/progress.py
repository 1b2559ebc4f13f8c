"""How far a transfer has come, told at most once a second."""

from __future__ import annotations

import time
from collections.abc import Callable

EVERY_SECONDS = 1.0


class Progress:
    """Counts rows and tells the log."""

    def __init__(self, tell: Callable[[str], object]) -> None:
        self.tell = tell
        self.rows = 0
        self._told = time.monotonic()

    def reach(self, rows: int) -> None:
        self.rows = rows
        now = time.monotonic()
        if now - self._told >= EVERY_SECONDS:
            self._told = now
            self.tell(f"{rows:,} rows")
