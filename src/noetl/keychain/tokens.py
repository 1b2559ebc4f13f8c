"""Tokens that were asked for at some server and run out: kept for the whole process until shortly before their end."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from hashlib import sha256
from time import monotonic
from typing import Any, NamedTuple

import msgspec

from noetl.keychain.shared import Shared

LEEWAY_SECONDS = 60.0
"""A token is not used in its last minute, or in the last tenth of a short life: the call it is for takes time too."""
DEFAULT_LIFE_SECONDS = 300.0
"""The life of a token whose server does not tell it."""


class Token(NamedTuple):
    """What a server gave, and how long it lasts."""

    value: str
    seconds: float = DEFAULT_LIFE_SECONDS


class Tokens:
    """Tokens by what they were asked for with. Callers that come together cause one request."""

    def __init__(self, now: Callable[[], float] = monotonic) -> None:
        self.now = now
        self._held: dict[str, tuple[str, float]] = {}
        self._asking: Shared[str] = Shared()

    async def get(self, what: Any, ask: Callable[[], Coroutine[Any, Any, Token]]) -> str:
        """A token that is good for a while. `what` is everything that decides which one, secrets included."""
        key = sha256(msgspec.json.encode(what, order="sorted")).hexdigest()
        held, until = self._held.get(key, ("", 0.0))
        if self.now() < until:
            return held
        return await self._asking.do(key, lambda: self._renew(key, ask))

    async def _renew(self, key: str, ask: Callable[[], Coroutine[Any, Any, Token]]) -> str:
        began = self.now()
        token = await ask()
        self._forget_old()
        self._held[key] = (token.value, began + token.seconds - min(LEEWAY_SECONDS, token.seconds / 10))
        return token.value

    def _forget_old(self) -> None:
        now = self.now()
        self._held = {key: one for key, one in self._held.items() if now < one[1]}


TOKENS = Tokens()
"""The tokens of this process."""
