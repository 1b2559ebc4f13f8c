"""Child executions: each is started once, its end is delivered to its parent, and it is cancelled with its parent.

There is no state here: every action follows from the two logs, so it is repeated after a crash.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import Any

from noetl.engine import events as e
from noetl.engine.commands import Cancel, ChildEnded, Pause, Resume
from noetl.engine.state import Execution, Parked
from noetl.engine.waits import waiting_for
from noetl.errors import NatsUnavailable, NoetlError, PlaybookInvalid, StoreError, UsageError
from noetl.latest import Latest
from noetl.model.outcome import Outcome, failed
from noetl.model.playbook import Playbook
from noetl.reference import Reference
from noetl.runtime.runtime import Runtime

MAX_DEPTH = 20
MAX_DIGESTS = 10_000

FindPlaybook = Callable[[Execution, dict[str, Any]], Awaitable[str]]
"""Finds and stores the playbook of a child; returns its digest. NoetlError if there is none."""
FAMILY_EVENTS = frozenset([e.PlaybookProcessed, e.PlaybookPaused, e.PlaybookResumed, e.PlaybookCancelled, e.StepFailed])
"""Events that children follow; those of a failed step are cancelled."""


class Families:
    """Executions with a parent or children that have changed since they were last synced, in this order."""

    def __init__(self) -> None:
        self.to_sync: dict[str, None] = {}
        self.failed: dict[str, None] = {}
        self.changed = asyncio.Event()
        self.starts_others: Latest[str, bool] = Latest(MAX_DIGESTS)
        """By digest: whether executions of a playbook may start others. Cached apart from loaded playbooks, since every
        scan needs it for all open executions."""

    def on_events(self, state: Execution, events: list[e.Event]) -> None:
        parental = self.starts_others.get(state.digest)
        if parental is None:
            parental = self.remember(state.digest, state.net.playbook)
        if state.parent is not None or (parental and any(map(_concerns_children, events))):
            self.add([state.id])

    def add(self, executions: Iterable[str]) -> None:
        self.to_sync.update(dict.fromkeys(executions))
        self.changed.set()

    def take(self) -> list[str]:
        self.changed.clear()
        executions, self.to_sync = list(self.to_sync), {}
        return executions

    def remember(self, digest: str, playbook: Playbook) -> bool:
        kinds = {task.kind for step in playbook.steps for _, task in step.every_task}
        parental = self.starts_others[digest] = "playbook" in kinds
        return parental


def _concerns_children(event: e.Event) -> bool:
    return type(event) in FAMILY_EVENTS or (isinstance(event, e.StepPaused) and event.until == "child")


class ChildExecutions:
    def __init__(self, runtime: Runtime, find_playbook: FindPlaybook) -> None:
        self.runtime, self.find_playbook = runtime, find_playbook
        self.committer = runtime.committer

    async def sync(self, execution: str) -> None:
        """Start the children of an execution, deliver their ends and its own, and let them follow their parents."""
        executions = self.runtime.executions
        state = await executions.state(execution)
        if state.parent is not None:  # an ended child reads the stored parent: the state in memory may be older
            read = self.committer.stored_state if state.over else executions.state
            parent = await read(state.parent[0])
            if (waiter := waiting_for(parent, "child", execution)) is not None:
                run, index = waiter
                await self._sync_child(parent, run.parked[index])
            if not state.over:
                await self._follow(parent, state)
        for parked in list(waits_for_children(state)):
            await self._sync_child(state, parked)
        for summary in await self.runtime.thread.ask(self.runtime.store.children, execution):
            child = await executions.state(summary.execution_id)
            if not child.over:
                await self._follow(state, child)

    async def _follow(self, parent: Execution, child: Execution) -> None:
        committer = self.committer
        if await committer.has_ended(parent):
            await committer.handle(child.id, Cancel("the playbook that started it has ended"))
        elif not await self._is_awaited(parent, child.id):
            await committer.handle(child.id, Cancel("its parent no longer waits for it"))  # a timeout, a failed loop
        elif (parent.status == "paused") != (child.status == "paused"):
            status = (await committer.stored_state(parent.id)).status  # another server may have changed it
            if status in ("paused", "running"):
                await committer.handle(child.id, Pause() if status == "paused" else Resume())

    async def _is_awaited(self, parent: Execution, child: str) -> bool:
        if waiting_for(parent, "child", child) is not None:
            return True
        return waiting_for(await self.committer.stored_state(parent.id), "child", child) is not None

    async def _sync_child(self, parent: Execution, parked: Parked) -> None:
        """Start a child, or deliver its outcome to the run that waits for it."""
        child = parked.key
        loaded = self.runtime.executions.get(child)
        if loaded is None and not await self.runtime.thread.ask(self.runtime.store.seq, child):
            if await self._has_stored_wait(parent, child):
                await self._start(parent, child, parked.request or {})
            return
        state = (loaded or await self.runtime.executions.load(child)).state
        if state.seq == 0:  # its first events are not committed yet
            return
        if state.parent is None or state.parent[0] != parent.id:
            message = f"execution {child} exists and was not started by this run: its result is not available here"
            await self.committer.handle(parent.id, ChildEnded(child, failed("child_failed", message)))
        elif await self.committer.has_ended(state):
            outcome, error = Outcome(result=state.result), state.error or {}
            if state.status != "succeeded":
                message = f"{state.net.playbook.name}: {error.get('message') or f'the child was {state.status}'}"
                outcome = failed("child_failed", message, execution_id=child, status=state.status)
            await self.committer.handle(parent.id, ChildEnded(child, outcome))
            self.runtime.executions.pop(child, None)

    async def _has_stored_wait(self, parent: Execution, child: str) -> bool:
        """Whether the wait is stored, and not only decided. If it could not be stored, its child would be cancelled,
        and the repeated task could not start a child with the same id."""
        loaded = self.runtime.executions.get(parent.id)
        if loaded is None or loaded.state is not parent or loaded.stored_seq != parent.seq:
            parent = await self.committer.stored_state(parent.id)
        return waiting_for(parent, "child", child) is not None

    async def _start(self, parent: Execution, child: str, request: dict[str, Any]) -> None:
        if parent.depth + 1 > MAX_DEPTH:
            deep = failed("limit", f"playbooks call each other more than {MAX_DEPTH} levels deep")
            await self.committer.handle(parent.id, ChildEnded(child, deep))
            return
        try:
            digest = await self.find_playbook(parent, request)
            payload = request.get("payload", {})
            payload = await self.runtime.contents.read(payload) if isinstance(payload, Reference) else payload
        except (StoreError, NatsUnavailable):  # it may exist: the next sync tries again
            raise
        except NoetlError as error:
            await self.committer.handle(parent.id, ChildEnded(child, failed("not_found", str(error))))
            return
        origin = (parent.id, request.get("step", ""), parent.depth + 1)
        try:
            await self.runtime.start(digest, payload, {}, child, origin)
        except (PlaybookInvalid, UsageError) as error:  # the child refuses its payload
            await self.committer.handle(parent.id, ChildEnded(child, failed("input", str(error))))


def waits_for_children(state: Execution) -> Iterator[Parked]:
    for run in state.runs.values():
        for parked in run.parked.values():
            if parked.until == "child":
                yield parked
