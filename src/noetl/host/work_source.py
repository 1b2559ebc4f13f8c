"""Where a host finds ready work and due timers: in the whole store, or among the executions that it has loaded."""

from __future__ import annotations

from noetl.host.background import Backoff
from noetl.runtime.loaded_executions import LoadedExecutions
from noetl.runtime.runtime import Runtime

TIMERS_PER_SCAN = 100


class StoredWork:
    """The executions of a whole store, for a server."""

    def __init__(self, runtime: Runtime, backoff: Backoff) -> None:
        self.runtime, self.backoff = runtime, backoff

    async def ready(self, pool: str, limit: int, after: str) -> list[str]:
        """Executions with ready work of a pool, ordered by id, after one of them."""
        return await self.runtime.thread.ask(self.runtime.store.waiting, pool, limit, after)

    async def due(self, now: float) -> list[tuple[str, str]]:
        """Timers that are due, with their executions."""
        limit = TIMERS_PER_SCAN + len(self.backoff)  # paused executions must not hide the others
        return await self.runtime.thread.ask(self.runtime.store.due, now, limit)


class LoadedWork:
    """The executions of one process, for `noetl run`. Its worker serves all pools."""

    def __init__(self, executions: LoadedExecutions) -> None:
        self.executions = executions

    async def ready(self, pool: str, limit: int, after: str) -> list[str]:
        return sorted(
            id
            for id, loaded in self.executions.items()
            if id > after and loaded.state.ready and loaded.state.status == "running"
        )[:limit]

    async def due(self, now: float) -> list[tuple[str, str]]:
        return [
            (id, timer)
            for id, loaded in self.executions.items()
            if not loaded.state.over and loaded.state.status != "paused"
            for timer, at in loaded.state.timers.items()
            if at <= now
        ]


WorkSource = StoredWork | LoadedWork
