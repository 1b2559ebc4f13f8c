"""The whole engine in one process, for `noetl run`: a runtime, a worker, timers and child executions.

All state is in the log: after a crash, `drive` continues from there.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Collection
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from noetl.clock import Clock
from noetl.engine.commands import Lost, TimerDue
from noetl.engine.state import Execution
from noetl.errors import StoreError
from noetl.host.background import Backoff
from noetl.host.children import ChildExecutions, Families, FindPlaybook
from noetl.host.dispatcher import Dispatcher, LoadedWork, ReadyQueue
from noetl.host.local_link import LocalLink
from noetl.model.actor import Actor
from noetl.model.status import OPEN
from noetl.runtime.loaded_playbooks import LoadedPlaybooks
from noetl.runtime.runtime import OnWarnings, OpenCredential, Runtime, no_credentials
from noetl.store.store import Store
from noetl.tools.registry import Registry
from noetl.worker.output import OutputBuffer
from noetl.worker.worker import Worker

if TYPE_CHECKING:
    from noetl.nats.objects import ObjectBuckets

FOREIGN_CHANGES_SECONDS = 0.1
ALL = 1_000_000


class Embedded:
    def __init__(
        self,
        playbooks: LoadedPlaybooks,
        registry: Registry,
        clock: Clock,
        find_playbook: FindPlaybook,
        *,
        slots: int = 64,
        name: str = "local",
        open_credential: OpenCredential = no_credentials,
        buckets: ObjectBuckets | None = None,
        on_warnings: OnWarnings = lambda state: None,
    ) -> None:
        self.clock = clock
        self.queue, self.families = ReadyQueue(any_pool=True), Families()
        on_events = (self.queue.on_events, self.families.on_events)
        self.runtime = Runtime(
            playbooks,
            clock,
            open_credential=open_credential,
            buckets=buckets,
            on_events=on_events,
            on_warnings=on_warnings,
        )
        self.source = LoadedWork(self.runtime.executions)
        dispatcher = Dispatcher(self.runtime, self.queue, self.source, Backoff(clock), _raise)
        output = OutputBuffer(clock, max_lines=None)
        self.link = LocalLink(dispatcher, output)
        self.worker = Worker(f"{name}-{os.getpid()}", self.link, registry, clock, slots, output.write)
        self.children = ChildExecutions(self.runtime, find_playbook)

    async def start(
        self,
        execution: str,
        digest: str,
        payload: dict[str, Any],
        ctx: dict[str, Any],
        actor: Actor | None = None,
        strict_keys: Collection[str] = (),
    ) -> Execution:
        return await self.runtime.start(digest, payload, ctx, execution, actor=actor, strict_keys=strict_keys)

    async def adopt(self, execution: str) -> Execution:
        """Take over an execution whose process has ended, with its open descendants: their leases are void."""
        below = await self.runtime.thread.ask(open_below, self.runtime.store, execution)
        for id in (execution, *below):
            loaded = await self.runtime.executions.load(id)
            for fence in list(loaded.state.leases):
                await self.runtime.committer.handle(id, Lost(fence))
            self._notice(loaded.state)
        return self.runtime.executions[execution].state

    async def drive(self, execution: str) -> Execution:
        """Run until the execution has ended, or is paused and idle."""
        committer = self.runtime.committer
        while True:
            committed = committer.committed
            state = await self.runtime.executions.state(execution)
            if self.worker.fault is not None:
                raise self.worker.fault
            idle = state.over or (state.status == "paused" and not self.worker.tasks)
            if idle:  # as decided: wait until it is stored
                state = await committer.stored_state(execution)
            for id in self.families.take():
                await self.children.sync(id)
            if idle and (state.over or state.status == "paused"):
                if self.families.to_sync:  # children have followed, and theirs have to
                    continue
                await self.link.store_output()
                return state
            for id, timer in await self.source.due(self.clock.now()):
                await committer.handle(id, TimerDue(timer))
            await self.link.revoke_void(self.worker)
            await self.worker.claim()
            if committer.committed is committed:
                await self._sleep(committed)

    async def close(self) -> None:
        """Stop the worker and close the store; unfinished executions can be resumed."""
        await self.worker.stop()
        await self.worker.registry.close()
        with suppress(StoreError):  # `drive` has raised the error of the store
            await self.link.store_output()
        self.runtime.close()

    async def _sleep(self, committed: asyncio.Event) -> None:
        """Wait until the next commit, the next timer, or the next check for changes by other processes."""
        limit, due = FOREIGN_CHANGES_SECONDS, self.next_due()
        if due is not None:
            limit = min(limit, max(0.0, due - self.clock.now()))
        try:
            async with asyncio.timeout(limit):
                await committed.wait()
            return
        except TimeoutError:
            await self.link.store_output()
        if await self.runtime.thread.ask(self.runtime.store.changed_elsewhere):
            for loaded in list(self.runtime.executions.values()):
                if not loaded.state.over:
                    await self.refresh(loaded.state.id)

    def next_due(self) -> float | None:
        return min((at for state in self.source.active() for at in state.timers.values()), default=None)

    async def refresh(self, execution: str) -> None:
        """Act on changes that other processes have committed."""
        self._notice(await self.runtime.committer.stored_state(execution))

    def _notice(self, state: Execution) -> None:
        self.queue.on_events(state, [])
        self.families.add([state.id])


def _raise(execution: str, error: Exception) -> None:
    raise error


def open_below(store: Store, execution: str) -> list[str]:
    """Executions that have not ended and descend from this one."""
    listed = [summary for status in OPEN for summary in store.summaries(statuses=[status], limit=ALL)]
    parents = {summary.execution_id: summary.parent for summary in listed}
    descendants = []
    for id, above in list(parents.items()):
        while above is not None and above != execution:
            if above not in parents:
                parents[above] = next((summary.parent for summary in store.summaries(prefix=above, limit=1)), None)
            above = parents[above]
        if above == execution:
            descendants.append(id)
    return descendants
