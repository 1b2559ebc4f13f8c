"""Expires leases of workers that send no heartbeats."""

from __future__ import annotations

from noetl.engine.commands import Lost
from noetl.host.background import BackgroundCommands
from noetl.host.heartbeats import StallDetector
from noetl.runtime.runtime import Runtime

LEASES_PER_SCAN = 100


class Reaper:
    """After a stall of the server itself, workers get time to send a heartbeat first."""

    def __init__(self, runtime: Runtime, commands: BackgroundCommands, stall: StallDetector) -> None:
        self.runtime, self.commands, self.stall = runtime, commands, stall

    async def reap_once(self) -> None:
        attentive = self.stall.attentive_seconds()
        limit = LEASES_PER_SCAN + len(self.commands.backoff)  # paused executions must not hide the others
        lost = await self.runtime.thread.ask(self.runtime.store.expired_leases, None, limit, attentive)
        if self.stall.attentive_seconds() >= attentive:  # else the stall began with the query
            await self.commands.send((execution, Lost(fence)) for execution, fence in lost)
