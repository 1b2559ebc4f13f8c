"""The link of a worker in the process of the engine."""

from __future__ import annotations

import asyncio

from msgspec.structs import replace

from noetl.engine.commands import Claim, Report
from noetl.errors import StoreError
from noetl.host.dispatcher import Dispatcher
from noetl.keychain.keychain import StoredCredential
from noetl.worker.output import OutputBuffer
from noetl.worker.work import Work
from noetl.worker.worker import Worker

POLL_SECONDS = 20.0


class LocalLink:
    """Connects a worker to the dispatcher in its process. Without a pool it claims work of all pools, and does not wait
    for work."""

    most_content: int | None = None

    def __init__(self, dispatcher: Dispatcher, output: OutputBuffer, pool: str | None = None) -> None:
        self.dispatcher, self.runtime, self.output, self.pool = dispatcher, dispatcher.runtime, output, pool
        self.contents, self.playbook = self.runtime.contents, self.runtime.playbooks.get
        self.reporting: set[tuple[str, int]] = set()  # with a report in flight; the worker may not list them
        self._storing = asyncio.Lock()

    async def claim(self, command: Claim) -> list[Work]:
        if self.pool is None:
            return await self.dispatcher.claim(command)
        return await self.dispatcher.claim(replace(command, pool=self.pool), POLL_SECONDS)

    async def report(self, execution: str, report: Report) -> tuple[bool, list[Work]]:
        lease = (execution, report.fence)
        if self.pool is not None and report.claim is not None:
            report = replace(report, claim=replace(report.claim, pool=self.pool))
        self.reporting.add(lease)
        try:
            if len(self.output):
                await self.store_output()  # before a reader can see that the task has ended
            answer, works = await self.dispatcher.report(execution, report)
        finally:
            self.reporting.discard(lease)
        return report.fence in answer.state.leases, works

    async def store_output(self) -> None:
        """Store the output of tasks in its order. What a failing store has not taken waits for the next call."""
        async with self._storing:
            while lines := self.output.take():
                try:
                    await self.runtime.thread.ask(self.runtime.store.append_output, lines)
                except StoreError:
                    self.output.put_back(lines)
                    raise

    async def holds(self, execution: str, fence: int) -> bool:
        loaded = self.runtime.executions.get(execution)
        state = loaded.state if loaded is not None else await self.runtime.executions.state(execution)
        return fence in state.leases

    def paused(self, execution: str) -> bool:
        loaded = self.runtime.executions.get(execution)
        return loaded is not None and loaded.state.status == "paused"

    async def credential(self, execution: str, name: str) -> StoredCredential:
        return await self.runtime.thread.ask(self.runtime.open_credential, name)

    async def revoke_void(self, worker: Worker) -> None:
        """Stop work whose lease has ended. Without a pool, an execution that is not loaded is loaded: it has ended, or
        the committer is just reloading it. With a pool, the heartbeat checks executions that are not loaded."""
        for execution, fence in list(worker.leases):
            is_loaded = self.pool is None or execution in self.runtime.executions
            if is_loaded and not await self.holds(execution, fence):
                worker.revoke(execution, fence)
