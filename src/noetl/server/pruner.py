"""Removes executions that ended longer ago than the retention time."""

from __future__ import annotations

from noetl.clock import Clock
from noetl.errors import StoreError
from noetl.log import Log
from noetl.server.metrics import Metrics
from noetl.server.upkeep import Upkeep

EXECUTIONS_PER_BATCH = 100
FIRST_SECONDS, EVERY_SECONDS = 60.0, 3600.0


class Pruner:
    def __init__(self, upkeep: Upkeep, clock: Clock, retention_seconds: float, log: Log, metrics: Metrics) -> None:
        self.upkeep, self.clock, self.retention_seconds = upkeep, clock, retention_seconds
        self.log, self.metrics = log, metrics

    async def run(self) -> None:
        """Prune a minute after the start and then every hour, until cancelled."""
        pause = FIRST_SECONDS
        while True:
            await self.clock.sleep(pause)
            pause = EVERY_SECONDS
            try:
                removed = await self.prune_once(self.clock.now())
            except StoreError as error:  # retried in an hour
                self.log.write("warning", "cannot prune", error=str(error))
                continue
            if removed:
                self.log.write("info", "pruned", executions=removed)

    async def prune_once(self, now: float) -> int:
        """Remove what is older than the retention time, in batches; returns the number of executions."""
        removed = 0
        while batch := await self.upkeep.prune(now - self.retention_seconds, EXECUTIONS_PER_BATCH):
            removed += batch
            self.metrics.count("noetl_executions_pruned_total", batch)
        return removed
