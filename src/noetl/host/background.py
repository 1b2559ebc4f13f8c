"""Background work of a server: loops that survive errors, and commands that no caller waits for."""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Awaitable, Callable, Iterable

from noetl.clock import Clock
from noetl.engine.commands import Command
from noetl.errors import NoetlError, StoreError
from noetl.runtime.committer import Committer

RESTART_SECONDS = 1.0
MIN_BACKOFF_SECONDS, MAX_BACKOFF_SECONDS = 1.0, 30.0
"""The first retry delay of an execution, which doubles with each further failure, and the maximum delay."""

OnError = Callable[[str, str | None], None]  # called with a message and the execution it concerns


async def keep_running(seconds: float, once: Callable[[], Awaitable[object]], on_error: OnError) -> None:
    """Call a function with a pause after each call, and soon again after an error, until cancelled."""
    while True:
        try:
            await once()
        except Exception as error:
            on_error(f"background task failed, restarting in {RESTART_SECONDS:g} s: {described(error)}", None)
            await asyncio.sleep(RESTART_SECONDS)
        else:
            await asyncio.sleep(seconds)


class Backoff:
    """Retry delays of executions that cannot make progress. A success, or a time without failures, resets them."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.pauses: dict[str, tuple[float, float]] = {}  # by execution, the end of its delay, and its seconds

    def __len__(self) -> int:
        return len(self.pauses)

    def fail(self, execution: str, seconds: float | None = None) -> float:
        """Start the next delay of an execution, of the given length or twice the last one; returns its seconds."""
        _, last = self.pauses.get(execution, (0.0, MIN_BACKOFF_SECONDS / 2))
        seconds = seconds or min(MAX_BACKOFF_SECONDS, 2 * last)
        self.pauses[execution] = self.clock.now() + seconds, seconds
        return seconds

    def succeed(self, execution: str) -> None:
        self.pauses.pop(execution, None)

    def is_paused(self, execution: str) -> bool:
        if execution not in self.pauses:
            return False
        now, (until, _) = self.clock.now(), self.pauses[execution]
        if now > until + MAX_BACKOFF_SECONDS:
            del self.pauses[execution]
        return now < until


class BackgroundCommands:
    """Sends commands without a caller. An execution that fails is retried with a backoff."""

    def __init__(self, committer: Committer, backoff: Backoff, on_error: OnError) -> None:
        self.committer, self.backoff, self.on_error = committer, backoff, on_error

    async def send(self, commands: Iterable[tuple[str, Command]]) -> None:
        ready = [(execution, command) for execution, command in commands if not self.backoff.is_paused(execution)]
        handled = (self.committer.handle(execution, command) for execution, command in ready)
        unavailable: StoreError | None = None
        for (execution, _), answer in zip(ready, await asyncio.gather(*handled, return_exceptions=True), strict=True):
            if isinstance(answer, StoreError):  # the database failed: retried soon, logged once for all executions
                self.backoff.fail(execution, seconds=MIN_BACKOFF_SECONDS)
                unavailable = answer
            elif isinstance(answer, Exception):
                self.back_off(execution, answer)
            elif isinstance(answer, BaseException):
                raise answer
            else:
                self.backoff.succeed(execution)
        if unavailable is not None:
            self.on_error(f"database unavailable, retrying in {MIN_BACKOFF_SECONDS:g} s: {unavailable}", None)

    def back_off(self, execution: str, error: Exception) -> None:
        seconds = self.backoff.fail(execution)
        message = f"execution {execution} cannot make progress, retrying in {seconds:g} s: {described(error)}"
        self.on_error(message, execution)


def described(error: Exception) -> str:
    """The error for the log: the message of a NoetlError, otherwise the type and location."""
    if isinstance(error, NoetlError):
        return str(error)
    *_, last = traceback.extract_tb(error.__traceback__) or [None]
    return type(error).__name__ + (f" in {last.name}, line {last.lineno}" if last is not None else "")
