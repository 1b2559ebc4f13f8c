"""Ready work and due timers of a whole store, for a server."""

from __future__ import annotations

from noetl.host.backoff import Backoff
from noetl.runtime.runtime import Runtime

TIMERS_PER_SCAN = 100


class StoredWork:
    def __init__(self, runtime: Runtime, backoff: Backoff) -> None:
        self.runtime, self.backoff = runtime, backoff

    async def ready(self, pool: str, limit: int, after: str) -> list[str]:
        return await self.runtime.thread.ask(self.runtime.store.waiting, pool, limit, after)

    async def due(self, now: float) -> list[tuple[str, str]]:
        limit = TIMERS_PER_SCAN + len(self.backoff)  # paused executions must not hide the others
        return await self.runtime.thread.ask(self.runtime.store.due, now, limit)
