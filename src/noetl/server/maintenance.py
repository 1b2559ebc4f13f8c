"""Long work on a store that must not delay its commits: removing old executions, and verifying logs.

It has its own connection and thread, and takes turns with commits in short transactions of the database. Any number of
servers may do this at once: executions that one has marked for removal and not removed are removed by the next.
"""

from __future__ import annotations

from time import monotonic

import msgspec

from noetl.clock import Clock
from noetl.engine.history.verify.log import Violation
from noetl.errors import NotFound, StoreError
from noetl.runtime.audit import Audit, missing_commits
from noetl.runtime.store_thread import InStore
from noetl.server.parameters import run_cursor
from noetl.server.second_connection import SecondConnection
from noetl.server.telemetry import Telemetry
from noetl.store.store import RunPosition, Store, Summary

VERIFY_SECONDS = 5.0  # a page of verified executions ends after that time, with at least one
EXECUTIONS_PER_BATCH = 100
FIRST_PRUNE_SECONDS, PRUNE_SECONDS = 60.0, 3600.0


class Verified(msgspec.Struct, frozen=True):
    """The number of checked executions, and the invariants that they violate."""

    executions: int
    violations: list[Violation]


class VerifiedPage(Verified, frozen=True):
    """The same for a page of executions; `next` is the cursor of the next page."""

    next: str | None


class Maintenance(SecondConnection):
    def __init__(self, store: Store, in_store: InStore) -> None:
        super().__init__(store, in_store, "maintenance")

    async def verify(self, execution: str) -> Verified:
        summaries = await self.do(lambda store: store.summaries(prefix=execution, limit=1))
        if not summaries:
            raise NotFound(f"execution {execution!r} not found")
        violations = await self.do(missing_commits)
        return Verified(1, violations + await self._violations(await self.do(Audit), summaries[0]))

    async def verify_page(self, before: RunPosition | None, limit: int) -> VerifiedPage:
        summaries = await self.do(lambda store: store.summaries(before=before, limit=limit + 1))
        audit, deadline = await self.do(Audit), monotonic() + VERIFY_SECONDS
        violations = await self.do(missing_commits) if before is None else []  # once, on the first page
        checked = 0
        for summary in summaries[:limit]:
            violations += await self._violations(audit, summary)
            checked += 1
            if monotonic() > deadline:
                break
        following = run_cursor(summaries[checked - 1]) if checked < len(summaries) else None
        return VerifiedPage(checked, violations, following)

    async def _violations(self, audit: Audit, summary: Summary) -> list[Violation]:
        """Checks one batch of events at a time, so that other work on the store can run in between."""
        batches = audit.batches(summary)

        def next_batch(store: Store) -> list[Violation] | None:
            try:
                next(batches)
            except StopIteration as stop:
                result: list[Violation] = stop.value
                return result
            return None

        while (violations := await self.do(next_batch)) is None:
            pass
        return violations


class Pruner:
    """Removes executions that ended longer ago than the retention time."""

    def __init__(self, maintenance: Maintenance, clock: Clock, retention_seconds: float, telemetry: Telemetry) -> None:
        self.maintenance, self.clock = maintenance, clock
        self.retention_seconds, self.telemetry = retention_seconds, telemetry

    async def run(self) -> None:
        pause = FIRST_PRUNE_SECONDS
        while True:
            await self.clock.sleep(pause)
            pause = PRUNE_SECONDS
            try:
                removed = await self.prune_once(self.clock.now())
            except StoreError as error:  # retried in an hour
                self.telemetry.log.write("warning", "cannot prune", error=str(error))
                continue
            if removed:
                self.telemetry.log.write("info", "pruned", executions=removed)

    async def prune_once(self, now: float) -> int:
        """Remove executions older than the retention time, in batches; returns the number of executions."""
        removed = 0
        before = now - self.retention_seconds
        while batch := await self.maintenance.do(lambda store: store.prune(before, EXECUTIONS_PER_BATCH)):
            removed += batch
            self.telemetry.metrics.count("noetl_executions_pruned_total", batch)
        return removed
