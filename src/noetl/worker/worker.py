"""The worker: slots that run work under leases and report the outcomes.

Each slot runs one lease at a time. The report that ends a lease claims the next one, so a sequence of steps costs one
commit per step.
"""

from __future__ import annotations

import asyncio

from noetl.clock import Clock
from noetl.engine.commands import Claim
from noetl.keychain.redact import Redactor
from noetl.latest import Latest
from noetl.tools.registry import Registry
from noetl.worker.lease_run import LeaseRun
from noetl.worker.link import Link, Rejected
from noetl.worker.output import WriteOutput
from noetl.worker.work import Work

MAX_REDACTORS = 1_000


class Worker:
    def __init__(
        self, name: str, link: Link, registry: Registry, clock: Clock, slots: int, write_output: WriteOutput
    ) -> None:
        self.name, self.link, self.registry, self.clock = name, link, registry, clock
        self.slots, self.write_output = slots, write_output
        self.claimed = 0  # slots that a claim in flight is to fill
        self.draining = False  # whether nothing new may start: running tasks finish, the rest is handed back
        self.tasks: set[asyncio.Task[None]] = set()
        self.leases: dict[tuple[str, int], asyncio.Task[None]] = {}
        self.fault: BaseException | None = None  # the first error that stopped a slot; its work can only be resumed
        self.redactors: Latest[str, Redactor] = Latest(MAX_REDACTORS)  # a secret may reappear in a later lease

    def redactor(self, execution: str) -> Redactor:
        redactor = self.redactors[execution] = self.redactors.get(execution) or Redactor()
        return redactor

    @property
    def free(self) -> int:
        return self.slots - len(self.tasks) - self.claimed

    async def claim(self) -> None:
        if self.free > 0:
            self.claimed = self.free
            try:
                works = await self.link.claim(Claim(self.name, self.claimed))
            finally:
                self.claimed = 0
            self.take(works)

    def take(self, works: list[Work]) -> None:
        def free_slot(task: asyncio.Task[None]) -> None:
            self.tasks.discard(task)
            if not task.cancelled() and task.exception() is not None:
                self.fault = self.fault or task.exception()

        for work in works:
            task = asyncio.create_task(self._slot(work))
            self.tasks.add(task)
            task.add_done_callback(free_slot)

    def revoke(self, execution: str, fence: int) -> None:
        if (task := self.leases.get((execution, fence))) is not None:
            task.cancel()

    async def stop(self) -> None:
        for task in list(self.tasks):
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)

    async def _slot(self, work: Work | None) -> None:
        while work is not None:
            key = (work.execution, work.fence)
            task = asyncio.current_task()
            assert task is not None
            self.leases[key] = task
            try:
                more = await LeaseRun(self, work).run()
            except Rejected:
                return
            finally:
                self.leases.pop(key, None)
            work = more[0] if more else None
            self.take(more[1:])
