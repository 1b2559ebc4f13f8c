"""The whole engine in one process: the runtime, a worker, timers and child executions.

`noetl run` is this on SQLite. Nothing that matters lives here: after a crash, `drive` carries on from the log.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator
from typing import Any

from noetl.clock import Clock
from noetl.engine.commands import Cancel, ChildEnded, Lost, Pause, Resume, Start, TimerDue
from noetl.engine.state import Execution, Parked
from noetl.errors import NoetlError
from noetl.model.outcome import Outcome, failed
from noetl.runtime.runtime import Refresh, Runtime
from noetl.store.ports import Store
from noetl.tools.registry import Registry
from noetl.worker.worker import Worker

LOOK_SECONDS = 0.1
"""How often the store is asked whether another process has written to it."""
MAX_DEPTH = 20

Find = Callable[[Execution, dict[str, Any]], str]
"""Finds the playbook of a child and makes it known to the runtime: the digest. NoetlError if there is none."""


class Embedded:
    """Runs executions of one store in this process."""

    def __init__(
        self, store: Store, registry: Registry, clock: Clock, find: Find, *, slots: int = 64, name: str = "local"
    ) -> None:
        self.runtime = Runtime(store, clock)
        self.worker = Worker(f"{name}-{os.getpid()}", self.runtime, registry, clock, slots)
        self.clock, self.find = clock, find
        self.worker.log = self._log
        self.lines: list[tuple[str, str, float, str, str]] = []

    async def start(self, execution: str, digest: str, payload: dict[str, Any], ctx: dict[str, Any]) -> Execution:
        """Begin a new execution."""
        self.runtime.create(execution, digest)
        return (await self.runtime.handle(execution, Start(payload, ctx))).state

    async def adopt(self, execution: str) -> Execution:
        """Take over an execution whose process is gone: its leases are void, its children come along."""
        cell = await self.runtime.load(execution)
        for fence in list(cell.state.leases):
            await self.runtime.handle(execution, Lost(fence))
        for _, parked in _parked(self.runtime.cells[execution].state, "child"):
            if await self._known(parked.key):
                await self.adopt(parked.key)
        return self.runtime.cells[execution].state

    async def drive(self, execution: str) -> Execution:
        """Run until the execution is over, or can only go on after somebody acts on a pause."""
        while True:
            moved = self.runtime.moved
            state = (self.runtime.cells.get(execution) or await self.runtime.load(execution)).state
            if self.worker.fault is not None:
                raise self.worker.fault
            if state.over:  # perhaps only decided, not stored yet
                state = (await self.runtime.handle(execution, Refresh())).state
            await self._children()
            if state.over or (state.status == "paused" and not self.worker.tasks):
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
        due = min((at for cell in self._cells() for at in cell.timers.values()), default=None)
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
        loop = asyncio.get_running_loop()
        if await loop.run_in_executor(self.runtime.thread, self.runtime.store.changed):
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

    # -- children ---------------------------------------------------------------------------------------------------

    async def _children(self) -> None:
        """Start children that are asked for, hand back what they came to, and let them share their parent's fate."""
        for state in self._cells():
            for _, parked in list(_parked(state, "child")):
                await self._child(state, parked)
        for state in self._cells():
            above = self.runtime.cells.get(state.parent[0]) if state.parent else None
            if above is not None:
                await self._follow(above.state, state)

    async def _follow(self, parent: Execution, child: Execution) -> None:
        if parent.over:
            await self.runtime.handle(child.id, Cancel("the playbook that started it has ended"))
        elif parent.status == "paused" and child.status == "running":
            await self.runtime.handle(child.id, Pause())
        elif parent.status == "running" and child.status == "paused":
            await self.runtime.handle(child.id, Resume())

    async def _child(self, parent: Execution, parked: Parked) -> None:
        child = parked.key
        cell = self.runtime.cells.get(child)
        if cell is None and await self._known(child):
            await self.adopt(child)
        elif cell is None:
            await self._start_child(parent, child, parked.request or {})
        elif cell.state.over:
            await self.runtime.handle(parent.id, ChildEnded(child, _child_outcome(cell.state)))
            del self.runtime.cells[child]

    async def _known(self, execution: str) -> bool:
        loop = asyncio.get_running_loop()
        return bool(await loop.run_in_executor(self.runtime.thread, self.runtime.store.seq, execution))

    async def _start_child(self, parent: Execution, child: str, request: dict[str, Any]) -> None:
        try:
            if parent.depth + 1 > MAX_DEPTH:
                raise NoetlError(f"playbooks call each other more than {MAX_DEPTH} levels deep")
            digest = self.find(parent, request)
        except NoetlError as error:
            await self.runtime.handle(parent.id, ChildEnded(child, failed("not_found", str(error))))
            return
        self.runtime.create(child, digest)
        origin = (parent.id, request.get("step", ""), parent.depth + 1)
        await self.runtime.handle(child, Start(request.get("payload", {}), {}, origin))

    # -- output of tasks --------------------------------------------------------------------------------------------

    def _log(self, task: str, stream: str, line: str) -> None:
        self.lines.append((task.partition("|")[0], task.partition("|")[2], self.clock.now(), stream, line))

    async def _keep_log(self) -> None:
        lines, self.lines = self.lines, []
        if lines:
            await asyncio.get_running_loop().run_in_executor(self.runtime.thread, self.runtime.store.log, lines)


def _parked(state: Execution, until: str) -> Iterator[tuple[str, Parked]]:
    for run in state.runs.values():
        for parked in run.parked.values():
            if parked.until == until:
                yield run.id, parked


def _child_outcome(state: Execution) -> Outcome:
    if state.status == "succeeded":
        return Outcome(result=state.result)
    error = state.error or {}
    message = error.get("message") or f"the child was {state.status}"
    return failed("child_failed", f"{state.net.playbook.name}: {message}", execution_id=state.id, status=state.status)
