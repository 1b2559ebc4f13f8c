"""Executions with ready work, in the order in which they are served. A cache only: the store has all of them."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable

from noetl.engine import events as e
from noetl.engine.state import Execution

MAX_QUEUED = 10_000
"""Executions that wait here for their turn; the others wait in the store."""
DEFAULT_POOL = "default"
ANY_POOL = ""
"""The pool of a worker that serves all pools."""


class ReadyQueue:
    """Executions by pool. With `any_pool` there is one queue for all pools; `publish` tells other servers of a pool
    with ready work."""

    def __init__(self, *, any_pool: bool = False, publish: Callable[[str], None] | None = None) -> None:
        self.any_pool, self.publish = any_pool, publish
        self.default_pool = ANY_POOL if any_pool else DEFAULT_POOL
        self.by_pool: dict[str, dict[str, None]] = {}
        self.arrived: dict[str, asyncio.Event] = {}
        """By pool, set when an execution is added."""
        self.idle_claims: Counter[str] = Counter()

    def pools_of(self, state: Execution) -> set[str]:
        if not state.ready or state.status != "running":
            return set()
        return {ANY_POOL} if self.any_pool else set(state.ready.values())

    def add(self, pool: str, execution: str) -> None:
        self.by_pool.setdefault(pool, {}).setdefault(execution)
        if (event := self.arrived.get(pool)) is not None:
            event.set()

    def on_events(self, state: Execution, events: list[e.Event]) -> None:
        for pool in self.pools_of(state) if state.ready else ():
            if len(self.by_pool.get(pool, ())) < MAX_QUEUED:
                self.add(pool, state.id)
            if self.publish is not None:
                self.publish(pool)
