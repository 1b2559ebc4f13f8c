"""How tests wait: for as long as a busy machine may take, and never for ever."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

PATIENCE_SECONDS = 300.0
LOOK_SECONDS = 0.02


def until(true: Callable[[], object]) -> None:
    """Wait for something that is bound to happen."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not true():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(LOOK_SECONDS)


async def until_async(true: Callable[[], object]) -> None:
    """The same beside others; `true` may block."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not await asyncio.to_thread(true):
        assert time.monotonic() < deadline, "it did not happen"
        await asyncio.sleep(LOOK_SECONDS)
