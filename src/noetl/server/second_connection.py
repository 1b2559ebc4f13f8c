"""A second connection to a store, with its own thread, for reads and maintenance that must not delay commits.

Its work is done one piece after another. `runtime/past.py` folds logs in several threads, and can be cancelled.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from noetl.runtime.store_thread import InStore
from noetl.store.store import Store

Value = TypeVar("Value")


class SecondConnection:
    """Opened when it is first used. A store without connections, such as that in memory, does the work itself."""

    def __init__(self, store: Store, in_store: InStore, name: str) -> None:
        self._first, self._in_store = store, in_store
        self._second: Store | None = None
        self._thread = ThreadPoolExecutor(1, f"noetl-{name}")

    async def do(self, work: Callable[[Store], Value]) -> Value:
        loop = asyncio.get_running_loop()
        if self._second is None:
            self._second = await loop.run_in_executor(self._thread, self._first.reopen)
        if self._second is self._first:  # a store without connections
            result: Value = await self._in_store(work, self._first)
            return result
        return await loop.run_in_executor(self._thread, work, self._second)

    def close(self) -> None:
        self._thread.shutdown()
        if self._second is not None and self._second is not self._first:
            self._second.close()
