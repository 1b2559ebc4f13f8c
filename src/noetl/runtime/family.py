"""Executions that start others. A child is started once, its end goes back to its parent, and it shares its fate.

Nothing is remembered here. Whatever is to be done follows from the logs of both, so it can be done again after a crash.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any

from noetl.engine.commands import Cancel, ChildEnded, Pause, Resume, Start
from noetl.engine.state import Execution, Parked
from noetl.errors import NoetlError
from noetl.model.outcome import Outcome, failed
from noetl.reference import Reference
from noetl.runtime.runtime import Refresh, Runtime

MAX_DEPTH = 20

Find = Callable[[Execution, dict[str, Any]], Awaitable[str]]
"""Finds the playbook of a child, and stores it: the digest. NoetlError if there is none."""


class Family:
    """Parents and children of one runtime."""

    def __init__(self, runtime: Runtime, find: Find) -> None:
        self.runtime, self.find = runtime, find

    async def look(self, states: Sequence[Execution]) -> None:
        """Start children that are asked for, hand back what they came to, and let them share their parent's fate."""
        for state in states:
            for _, parked in list(_parked(state, "child")):
                await self._child(state, parked)
        for state in states:
            if state.parent is not None and not state.over:
                above = self.runtime.cells.get(state.parent[0]) or await self.runtime.load(state.parent[0])
                await self._follow(above.state, state)

    async def _follow(self, parent: Execution, child: Execution) -> None:
        if await self.has_ended(parent):
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
        """Start a child, or hand its outcome to the run that waits for it."""
        child = parked.key
        cell = self.runtime.cells.get(child)
        if cell is None and not await self._known(child):
            await self._start_child(parent, child, parked.request or {})
            return
        state = (cell or await self.runtime.load(child)).state
        if state.seq == 0:  # its first events are not committed yet
            return
        if state.parent is None or state.parent[0] != parent.id:
            message = f"execution {child} exists and was not started by this run: its result is not available here"
            await self.runtime.handle(parent.id, ChildEnded(child, failed("child_failed", message)))
        elif await self.has_ended(state):
            await self.runtime.handle(parent.id, ChildEnded(child, _child_outcome(state)))
            self.runtime.cells.pop(child, None)

    async def has_ended(self, state: Execution) -> bool:
        """Whether an end is stored, and not only decided."""
        return state.over and (await self.runtime.handle(state.id, Refresh())).state.over

    async def _known(self, execution: str) -> bool:
        return bool(await self.runtime.thread.ask(self.runtime.store.seq, execution))

    async def _start_child(self, parent: Execution, child: str, request: dict[str, Any]) -> None:
        if parent.depth + 1 > MAX_DEPTH:
            deep = failed("limit", f"playbooks call each other more than {MAX_DEPTH} levels deep")
            await self.runtime.handle(parent.id, ChildEnded(child, deep))
            return
        try:
            digest = await self.find(parent, request)
            payload = request.get("payload", {})
            payload = await self.runtime.fetch(payload) if isinstance(payload, Reference) else payload
        except NoetlError as error:
            await self.runtime.handle(parent.id, ChildEnded(child, failed("not_found", str(error))))
            return
        await self.runtime.create(child, digest)
        origin = (parent.id, request.get("step", ""), parent.depth + 1)
        await self.runtime.handle(child, Start(payload, {}, origin))


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
