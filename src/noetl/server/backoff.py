"""Executions that cannot make progress: each is retried after a pause, so that it does not delay the others."""

from __future__ import annotations

from typing import NamedTuple

from noetl.clock import Clock

FIRST_SECONDS, LAST_SECONDS = 1.0, 30.0
"""The pause after the first failure, doubled with each one that follows, and the longest."""


class Pause(NamedTuple):
    """How long an execution is left alone."""

    until: float
    seconds: float


class Backoff:
    """The pauses by execution. A success, or a time without failures, forgets them."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.pauses: dict[str, Pause] = {}

    def __len__(self) -> int:
        return len(self.pauses)

    def fail(self, execution: str, seconds: float | None = None) -> float:
        """Begin the next pause of an execution, of the given length or twice as long as the last; its seconds."""
        before = self.pauses.get(execution)
        seconds = seconds or (FIRST_SECONDS if before is None else min(LAST_SECONDS, 2 * before.seconds))
        self.pauses[execution] = Pause(self.clock.now() + seconds, seconds)
        return seconds

    def succeed(self, execution: str) -> None:
        self.pauses.pop(execution, None)

    def is_paused(self, execution: str) -> bool:
        """Whether the execution is left alone for now."""
        pause = self.pauses.get(execution)
        if pause is None:
            return False
        now = self.clock.now()
        if now > pause.until + LAST_SECONDS:
            del self.pauses[execution]
        return now < pause.until
