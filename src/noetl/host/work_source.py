"""Where a host finds ready work and due timers: in the whole store, or among the executions that it has loaded."""

from __future__ import annotations

from typing import Protocol

from noetl.runtime.loaded_executions import LoadedExecutions


class WorkSource(Protocol):
    async def ready(self, pool: str, limit: int, after: str) -> list[str]:
        """Executions with ready work of a pool, ordered by id, after one of them."""

    async def due(self, now: float) -> list[tuple[str, str]]:
        """Timers that are due, with their executions."""


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
