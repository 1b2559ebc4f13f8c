"""Writes to the log of a server when ready work waits for a pool that has no active worker."""

from __future__ import annotations

from noetl.clock import Clock
from noetl.log import Log
from noetl.runtime.store_thread import InStore
from noetl.server.execution_lists import missing_pools_of
from noetl.store.store import Store

WATCH_SECONDS = 5.0


class PoolWatch:
    def __init__(self, store: Store, in_store: InStore, clock: Clock, log: Log) -> None:
        self.store, self.in_store, self.clock, self.log = store, in_store, clock, log
        self.missing: set[str] = set()  # in the last scan
        self.logged: set[str] = set()

    async def run(self) -> None:
        await self.clock.sleep(WATCH_SECONDS)
        await self.watch_once()

    async def watch_once(self) -> None:
        """Log each pool that has had no worker in two scans, once until it has one again."""
        missing = set(await self.in_store(missing_pools_of, self.store, self.clock.now()))
        for pool in sorted((missing & self.missing) - self.logged):
            message = f"work waits for a worker, and none is active: start one with `noetl worker --pool {pool}`"
            self.log.write("warning", message, pool=pool)
            self.logged.add(pool)
        self.missing = missing
        self.logged &= missing
