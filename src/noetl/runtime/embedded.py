"""The whole engine in one process: the runtime, a worker, timers and child executions.

`noetl run` is this on SQLite. Nothing that matters lives here: after a crash, `drive` carries on from the log.
"""

from __future__ import annotations

import asyncio
import os
from typing import Any

from noetl.clock import Clock
from noetl.engine.commands import Lost, Start, TimerDue
from noetl.engine.state import Execution
from noetl.model.status import OPEN
from noetl.runtime.family import Family, Find
from noetl.runtime.runtime import OpenCredential, Refresh, Runtime
from noetl.store.ports import Store
from noetl.tools.registry import Registry
from noetl.worker.worker import Worker

LOOK_SECONDS = 0.1
"""How often the store is asked whether another process has written to it."""
ALL = 1_000_000


class Embedded:
    """Runs executions of one store in this process."""

    def __init__(
        self,
        store: Store,
        registry: Registry,
        clock: Clock,
        find: Find,
        *,
        slots: int = 64,
        name: str = "local",
        open_credential: OpenCredential | None = None,
    ) -> None:
        self.runtime = Runtime(store, clock, open_credential)
        self.worker = Worker(f"{name}-{os.getpid()}", self.runtime, registry, clock, slots)
        self.family = Family(self.runtime, find)
        self.clock = clock
        self.worker.log = self._log
        self.lines: list[tuple[str, str, float, str, str]] = []

    async def start(self, execution: str, digest: str, payload: dict[str, Any], ctx: dict[str, Any]) -> Execution:
        """Begin a new execution."""
        await self.runtime.create(execution, digest)
        return (await self.runtime.handle(execution, Start(payload, ctx))).state

    async def adopt(self, execution: str) -> Execution:
        """Take over an execution whose process is gone, and what is open below it: their leases are void.

        A child may have outlived what started it; `drive` lets it share that fate.
        """
        below = await self.runtime.thread.ask(open_below, self.runtime.store, execution)
        for one in (execution, *below):
            cell = await self.runtime.load(one)
            for fence in list(cell.state.leases):
                await self.runtime.handle(one, Lost(fence))
        return self.runtime.cells[execution].state

    async def drive(self, execution: str) -> Execution:
        """Run until the execution is over, or can only go on after somebody acts on a pause."""
        while True:
            moved = self.runtime.moved
            state = (self.runtime.cells.get(execution) or await self.runtime.load(execution)).state
            if self.worker.fault is not None:
                raise self.worker.fault
            over = await self.family.has_ended(state)
            await self.family.look(self._cells())
            if over or (state.status == "paused" and not self.worker.tasks):
                await self._keep_log()
                return state
            await self._timers()
            self._revoke()
            await self.worker.claim()
            if self.runtime.moved is moved:
                await self._sleep(moved)

    async def close(self) -> None:
        """Stop the worker and give everything back; what is unfinished can be resumed."""
        await self.worker.stop()
        await self.worker.registry.close()
        await self._keep_log()
        self.runtime.close()

    # -- waiting ----------------------------------------------------------------------------------------------------

    async def _sleep(self, moved: asyncio.Event) -> None:
        """Until something is committed, a timer is due, or it is time to look at the store."""
        due = min(
            (at for state in self._cells() if state.status != "paused" for at in state.timers.values()), default=None
        )
        limit = LOOK_SECONDS if due is None else min(LOOK_SECONDS, max(0.0, due - self.clock.now()))
        try:
            async with asyncio.timeout(limit):
                await moved.wait()
            return
        except TimeoutError:
            pass
        await self._keep_log()
        await self._look()

    async def _look(self) -> None:
        if await self.runtime.thread.ask(self.runtime.store.changed_elsewhere):
            for state in self._cells():
                await self.runtime.handle(state.id, Refresh())

    def _cells(self) -> list[Execution]:
        return [cell.state for cell in self.runtime.cells.values() if not cell.state.over]

    async def _timers(self) -> None:
        now = self.clock.now()
        for state in self._cells():
            if state.status != "paused":
                for timer, due in list(state.timers.items()):
                    if due <= now:
                        await self.runtime.handle(state.id, TimerDue(timer))

    def _revoke(self) -> None:
        """Stop work whose lease is void: its run was cancelled, timed out or failed elsewhere."""
        for execution, fence in list(self.worker.leases):
            cell = self.runtime.cells.get(execution)
            if cell is None or fence not in cell.state.leases:
                self.worker.revoke(execution, fence)

    # -- output of tasks --------------------------------------------------------------------------------------------

    def _log(self, task: str, stream: str, line: str) -> None:
        self.lines.append((task.partition("|")[0], task.partition("|")[2], self.clock.now(), stream, line))

    async def _keep_log(self) -> None:
        lines, self.lines = self.lines, []
        if lines:
            await self.runtime.thread.ask(self.runtime.store.append_output, lines)


def open_below(store: Store, execution: str) -> list[str]:
    """Executions that have not ended and were started by it, or by one that it has started, and so on."""
    parents: dict[str, str | None] = {}

    def parent_of(one: str) -> str | None:
        if one not in parents:
            parents[one] = next((found.parent for found in store.summaries(prefix=one, limit=1)), None)
        return parents[one]

    found = []
    for status in OPEN:
        for one in store.summaries(status=status, limit=ALL):
            above = parents[one.execution_id] = one.parent
            while above is not None and above != execution:
                above = parent_of(above)
            if above == execution:
                found.append(one.execution_id)
    return found
