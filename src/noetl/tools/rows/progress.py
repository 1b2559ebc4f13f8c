"""Progress of a transfer, logged at most once a second."""

from __future__ import annotations

import time
from collections.abc import Callable

LOG_INTERVAL_SECONDS = 1.0


class Progress:
    def __init__(self, log: Callable[[str], object]) -> None:
        self.log = log
        self.rows = 0
        self._logged = time.monotonic()

    def reach(self, rows: int) -> None:
        self.rows = rows
        now = time.monotonic()
        if now - self._logged >= LOG_INTERVAL_SECONDS:
            self._logged = now
            self.log(f"{rows:,} rows")
