"""Work that several callers may request at once and that is done once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Hashable
from typing import Any, Generic, TypeVar

Result = TypeVar("Result")


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
