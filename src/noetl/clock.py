"""Time as a port. The engine gets times as arguments."""

from __future__ import annotations

import asyncio
import time
from typing import Protocol


class Clock(Protocol):
    """Time in seconds since the epoch."""

    def now(self) -> float: ...
    async def sleep(self, seconds: float) -> None: ...


def uptime() -> float:
    """Seconds on a monotonic clock that includes the time for which the machine is suspended."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


class SystemClock:
    now = staticmethod(time.time)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
