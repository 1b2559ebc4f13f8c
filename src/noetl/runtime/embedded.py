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
from noetl.reference import Reference
from noetl.runtime.runtime import OpenCredential, Refresh, Runtime
from noetl.store.ports import Store
from noetl.tools.registry import Registry
from noetl.worker.worker import Worker

LOOK_SECONDS = 0.1
"""How often the store is asked whether another process has written to it."""
MAX_DEPTH = 20
OPEN = ("pending", "running", "waiting", "paused", "cancelling")
"""What an execution is before it has ended."""
ALL = 1_000_000

Find = Callable[[Execution, dict[str, Any]], str]
"""Finds the playbook of a child and makes it known to the runtime: the digest. NoetlError if there is none."""


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
        self.clock, self.find = clock, find
        self.worker.log = self._log
        self.lines: list[tuple[str, str, float, str, str]] = []

    async def start(self, execution: str, digest: str, payload: dict[str, Any], ctx: dict[str, Any]) -> Execution:
        """Begin a new execution."""
        self.runtime.create(execution, digest)
        return (await self.runtime.handle(execution, Start(payload, ctx))).state

    async def adopt(self, execution: str) -> Execution:
        """Take over an execution whose process is gone, and what is open below it: their leases are void.

        A child may have outlived what started it; `drive` lets it share that fate.
        """
        loop = asyncio.get_running_loop()
        below = await loop.run_in_executor(self.runtime.thread, open_below, self.runtime.store, execution)
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
            over = await self._has_ended(state)
            await self._children()
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
            if state.parent is not None:
                above = self.runtime.cells.get(state.parent[0]) or await self.runtime.load(state.parent[0])
                await self._follow(above.state, state)

    async def _follow(self, parent: Execution, child: Execution) -> None:
        if await self._has_ended(parent):
            await self.runtime.handle(child.id, Cancel("the playbook that started it has ended"))
        elif not await self._awaited(parent, child.id):
            await self.runtime.handle(child.id, Cancel("nobody waits for it any more"))
        elif parent.status == "paused" and child.status == "running":
            await self.runtime.handle(child.id, Pause())
        elif parent.status == "running" and child.status == "paused":
            await self.runtime.handle(child.id, Resume())

    async def _awaited(self, parent: Execution, child: str) -> bool:
        """Whether a run waits for the child: it does not after a time limit, or when its loop has failed elsewhere."""
        if any(parked.key == child for _, parked in _parked(parent, "child")):
            return True
        parent = (await self.runtime.handle(parent.id, Refresh())).state  # as it is stored
        return any(parked.key == child for _, parked in _parked(parent, "child"))

    async def _child(self, parent: Execution, parked: Parked) -> None:
        child = parked.key
        cell = self.runtime.cells.get(child)
        if cell is None and await self._known(child):
            await self.runtime.load(child)
        elif cell is None:
            await self._start_child(parent, child, parked.request or {})
        elif await self._has_ended(cell.state):
            await self.runtime.handle(parent.id, ChildEnded(child, _child_outcome(cell.state)))
            self.runtime.cells.pop(child, None)

    async def _has_ended(self, state: Execution) -> bool:
        """Whether an end is stored, and not only decided."""
        return state.over and (await self.runtime.handle(state.id, Refresh())).state.over

    async def _known(self, execution: str) -> bool:
        loop = asyncio.get_running_loop()
        return bool(await loop.run_in_executor(self.runtime.thread, self.runtime.store.seq, execution))

    async def _start_child(self, parent: Execution, child: str, request: dict[str, Any]) -> None:
        if parent.depth + 1 > MAX_DEPTH:
            deep = failed("limit", f"playbooks call each other more than {MAX_DEPTH} levels deep")
            await self.runtime.handle(parent.id, ChildEnded(child, deep))
            return
        try:
            digest = self.find(parent, request)
            payload = request.get("payload", {})
            payload = await self.runtime.fetch(payload) if isinstance(payload, Reference) else payload
        except NoetlError as error:
            await self.runtime.handle(parent.id, ChildEnded(child, failed("not_found", str(error))))
            return
        self.runtime.create(child, digest)
        origin = (parent.id, request.get("step", ""), parent.depth + 1)
        await self.runtime.handle(child, Start(payload, {}, origin))

    # -- output of tasks --------------------------------------------------------------------------------------------

    def _log(self, task: str, stream: str, line: str) -> None:
        self.lines.append((task.partition("|")[0], task.partition("|")[2], self.clock.now(), stream, line))

    async def _keep_log(self) -> None:
        lines, self.lines = self.lines, []
        if lines:
            await asyncio.get_running_loop().run_in_executor(self.runtime.thread, self.runtime.store.log, lines)


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
