"""Queues ready work that other scans have missed, and unloads idle executions."""

from __future__ import annotations

from noetl.host.dispatcher import MAX_QUEUED, Dispatcher
from noetl.host.waiters import Waiters

MAX_IDLE_EXECUTIONS = 1_000
"""Executions without leases that stay in memory; the others are loaded again at their next command."""


class Sweeper:
    def __init__(self, dispatcher: Dispatcher, waiters: Waiters) -> None:
        self.dispatcher, self.waiters = dispatcher, waiters

    async def sweep_once(self) -> None:
        queue = self.dispatcher.queue
        for pool in {queue.default_pool, *queue.arrived}:
            await self.dispatcher.find_ready(pool, MAX_QUEUED)
        executions, started = self.dispatcher.runtime.executions, self.dispatcher.turn_started_at
        idle = [id for id, loaded in executions.items() if not loaded.state.leases and id not in self.waiters.ended]
        for id in idle[:-MAX_IDLE_EXECUTIONS]:
            executions.pop(id, None)
        self.dispatcher.turn_started_at = {id: at for id, at in started.items() if id in executions}
