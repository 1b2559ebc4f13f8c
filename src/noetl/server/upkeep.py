"""Long work on a store that must not stand in the way of its commits: removing what is old, and verifying logs.

It has a connection and a thread of its own. Commits and removals then take turns at the database itself, in
transactions that are short on both sides. Any number of servers may do this at once: what one has marked for removal
and could not finish, the next one to come finishes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from time import monotonic
from typing import Any, NamedTuple, TypeVar

from noetl.engine.history.verify import Violation
from noetl.errors import NotFound
from noetl.runtime.audit import Audit, Batches
from noetl.store.store import Store, Summary

VERIFY_SECONDS = 5.0
"""A page of verified executions ends after that time, with at least one."""

Value = TypeVar("Value")
InStore = Callable[..., Awaitable[Any]]
"""Asks the store of the server, in its thread."""


class VerifyResult(NamedTuple):
    """How many executions were looked at, what is wrong with them, and behind which one there are more."""

    executions: int
    violations: list[Violation]
    more: str | None


class Upkeep:
    """What is done on a second connection, which is opened when it is first needed."""

    def __init__(self, store: Store, in_store: InStore) -> None:
        self._first, self._in_store = store, in_store
        self._second: Store | None = None
        self._thread = ThreadPoolExecutor(1, "noetl-upkeep")

    async def prunable(self, before: float, limit: int) -> list[Summary]:
        """Executions that ended before that time and may be removed."""
        return await self._do(lambda store: store.prunable(before, limit))

    async def prune(self, before: float, limit: int) -> int:
        """Remove up to so many of them; how many. Whether content is old enough is judged by the store's clock."""
        return await self._do(lambda store: store.prune(before, limit))

    async def verify(self, execution: str) -> VerifyResult:
        """What is wrong with an execution; NotFound if there is none."""
        listed = await self._do(lambda store: store.summaries(prefix=execution, limit=1))
        if not listed:
            raise NotFound(f"no execution {execution}")
        audit = await self._do(Audit)
        return VerifyResult(1, await self._verified(audit, listed[0]), None)

    async def verify_page(self, cursor: str, limit: int) -> VerifyResult:
        """What is wrong with executions behind a cursor, newest first."""
        listed = await self._do(lambda store: store.summaries(before=cursor, limit=limit + 1))
        audit, give_up = await self._do(Audit), monotonic() + VERIFY_SECONDS
        violations: list[Violation] = []
        checked = 0
        for summary in listed[:limit]:
            violations += await self._verified(audit, summary)
            checked += 1
            if monotonic() > give_up:
                break
        return VerifyResult(checked, violations, listed[checked - 1].execution_id if checked < len(listed) else None)

    async def _verified(self, audit: Audit, summary: Summary) -> list[Violation]:
        """A batch of events at a time: other work on the store goes between them."""
        batches = audit.batches(summary)
        while True:
            violations = await self._do(lambda store: _next_batch(batches))
            if violations is not None:
                return violations

    async def _do(self, work: Callable[[Store], Value]) -> Value:
        loop = asyncio.get_running_loop()
        if self._second is None:
            self._second = await loop.run_in_executor(self._thread, self._first.reopen)
        if self._second is self._first:  # a store without connections
            found: Value = await self._in_store(work, self._first)
            return found
        return await loop.run_in_executor(self._thread, work, self._second)

    def close(self) -> None:
        self._thread.shutdown()
        if self._second is not None and self._second is not self._first:
            self._second.close()


def _next_batch(batches: Batches) -> list[Violation] | None:
    """Check one more batch; the violations after the last one."""
    try:
        next(batches)
    except StopIteration as stop:
        violations: list[Violation] = stop.value
        return violations
    return None
