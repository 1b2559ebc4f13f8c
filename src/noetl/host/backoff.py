"""Retry delays of executions that cannot make progress, so that they do not delay the others."""

from __future__ import annotations

from typing import NamedTuple

from noetl.clock import Clock

FIRST_SECONDS, LAST_SECONDS = 1.0, 30.0
"""The first delay, which doubles with each further failure, and the maximum delay."""


class RetryDelay(NamedTuple):
    """The current retry delay of an execution."""

    until: float
    seconds: float


class Backoff:
    """Retry delays by execution. A success, or a time without failures, resets them."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.pauses: dict[str, RetryDelay] = {}

    def __len__(self) -> int:
        return len(self.pauses)

    def fail(self, execution: str, seconds: float | None = None) -> float:
        """Start the next delay of an execution, of the given length or twice the last one; returns its seconds."""
        before = self.pauses.get(execution)
        seconds = seconds or (FIRST_SECONDS if before is None else min(LAST_SECONDS, 2 * before.seconds))
        self.pauses[execution] = RetryDelay(self.clock.now() + seconds, seconds)
        return seconds

    def succeed(self, execution: str) -> None:
        self.pauses.pop(execution, None)

    def is_paused(self, execution: str) -> bool:
        """Whether the delay of the execution has not elapsed."""
        pause = self.pauses.get(execution)
        if pause is None:
            return False
        now = self.clock.now()
        if now > pause.until + LAST_SECONDS:
            del self.pauses[execution]
        return now < pause.until
