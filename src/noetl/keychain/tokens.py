"""Tokens that expire, cached for the whole process until shortly before their end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Hashable
from hashlib import sha256
from time import monotonic
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec

Result = TypeVar("Result")

# A token is not used in its last minute, or in the last tenth of a short lifetime: the request takes time too.
LEEWAY_SECONDS = 60.0
DEFAULT_LIFE_SECONDS = 300.0  # the lifetime of a token whose server does not state it


class AccessToken(NamedTuple):
    value: str
    seconds: float = DEFAULT_LIFE_SECONDS


def lifetime(value: Any) -> float:
    """The lifetime in a response; some servers send it as text."""
    try:
        seconds = float(value)
    except (TypeError, ValueError):
        return DEFAULT_LIFE_SECONDS
    return seconds if seconds > 0 else DEFAULT_LIFE_SECONDS


class SharedTasks(Generic[Result]):
    """Concurrent callers with one key share a task, which is cancelled when no caller waits any more."""

    def __init__(self) -> None:
        self._running: dict[Hashable, asyncio.Task[Result]] = {}
        self._callers: dict[asyncio.Task[Result], int] = {}

    async def do(self, name: Hashable, make: Callable[[], Coroutine[Any, Any, Result]]) -> Result:
        """The result of `make`, called now or by an earlier caller with the same name."""
        key = (asyncio.get_running_loop(), name)
        task = self._running.get(key)
        if task is None or task.done():
            task = self._running[key] = asyncio.create_task(make())
        self._callers[task] = self._callers.get(task, 0) + 1
        try:
            return await asyncio.shield(task)
        finally:
            self._callers[task] -= 1
            if not self._callers[task]:
                del self._callers[task]
                task.cancel()  # does nothing to a task that is done
                if self._running.get(key) is task:
                    del self._running[key]


class TokenCache:
    """Tokens by everything that they were requested with. Concurrent callers share one request."""

    def __init__(self, now: Callable[[], float] = monotonic) -> None:
        self.now = now
        self._tokens: dict[str, tuple[str, float]] = {}
        self._requests: SharedTasks[str] = SharedTasks()

    async def get(self, identity: Any, request: Callable[[], Coroutine[Any, Any, AccessToken]]) -> str:
        """A valid token. `identity` is everything that decides which one, secrets included."""
        key = sha256(msgspec.json.encode(identity, order="sorted")).hexdigest()
        token, until = self._tokens.get(key, ("", 0.0))
        if self.now() < until:
            return token

        async def renew() -> str:
            started = self.now()
            token = await request()
            now = self.now()
            self._tokens = {other: entry for other, entry in self._tokens.items() if now < entry[1]}
            self._tokens[key] = (token.value, started + token.seconds - min(LEEWAY_SECONDS, token.seconds / 10))
            return token.value

        return await self._requests.do(key, renew)


TOKENS = TokenCache()
