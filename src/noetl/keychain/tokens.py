"""Tokens that expire, cached for the whole process until shortly before their end."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from hashlib import sha256
from time import monotonic
from typing import Any, NamedTuple

import msgspec

from noetl.keychain.shared import SharedTasks

LEEWAY_SECONDS = 60.0
"""A token is not used in its last minute, or in the last tenth of a short lifetime: the request takes time too."""
DEFAULT_LIFE_SECONDS = 300.0
"""The lifetime of a token whose server does not state it."""


class Token(NamedTuple):
    """A token, and its lifetime."""

    value: str
    seconds: float = DEFAULT_LIFE_SECONDS


def lifetime(value: Any) -> float:
    """The lifetime in a response; some servers send it as text."""
    try:
        seconds = float(value)
    except (TypeError, ValueError):
        return DEFAULT_LIFE_SECONDS
    return seconds if seconds > 0 else DEFAULT_LIFE_SECONDS


class TokenCache:
    """Tokens by everything that they were requested with. Concurrent callers share one request."""

    def __init__(self, now: Callable[[], float] = monotonic) -> None:
        self.now = now
        self._tokens: dict[str, tuple[str, float]] = {}
        self._requests: SharedTasks[str] = SharedTasks()

    async def get(self, identity: Any, request: Callable[[], Coroutine[Any, Any, Token]]) -> str:
        """A valid token. `identity` is everything that decides which one, secrets included."""
        key = sha256(msgspec.json.encode(identity, order="sorted")).hexdigest()
        token, until = self._tokens.get(key, ("", 0.0))
        if self.now() < until:
            return token
        return await self._requests.do(key, lambda: self._renew(key, request))

    async def _renew(self, key: str, request: Callable[[], Coroutine[Any, Any, Token]]) -> str:
        started = self.now()
        token = await request()
        now = self.now()
        self._tokens = {other: entry for other, entry in self._tokens.items() if now < entry[1]}
        self._tokens[key] = (token.value, started + token.seconds - min(LEEWAY_SECONDS, token.seconds / 10))
        return token.value


TOKENS = TokenCache()
