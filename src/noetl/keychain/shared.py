"""Work that several may ask for at once and that is done once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Hashable
from typing import Any, Generic, TypeVar

Result = TypeVar("Result")


class Shared(Generic[Result]):
    """Who asks while it is under way gets the same result. It is cancelled when nobody waits for it any more."""

    def __init__(self) -> None:
        self._running: dict[Hashable, asyncio.Task[Result]] = {}
        self._waiting: dict[asyncio.Task[Result], int] = {}

    async def do(self, what: Hashable, make: Callable[[], Coroutine[Any, Any, Result]]) -> Result:
        """The result of `make`, called now or by an earlier caller for the same `what`."""
        key = (asyncio.get_running_loop(), what)
        task = self._running.get(key)
        if task is None or task.done():
            task = self._running[key] = asyncio.create_task(make())
        self._waiting[task] = self._waiting.get(task, 0) + 1
        try:
            return await asyncio.shield(task)
        finally:
            self._leave(key, task)

    def _leave(self, key: Hashable, task: asyncio.Task[Result]) -> None:
        self._waiting[task] -= 1
        if not self._waiting[task]:
            del self._waiting[task]
            task.cancel()  # nothing happens to one that is done
            if self._running.get(key) is task:
                del self._running[key]
