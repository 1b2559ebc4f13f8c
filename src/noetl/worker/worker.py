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
from noetl.worker.link import Link, Rejected, Reporter
from noetl.worker.output import WriteOutput
from noetl.worker.work import Work

MAX_REDACTORS = 1_000
EARLY_REPORT_SECONDS = 1.0  # how often the facts of running tasks are reported, so that others see which task runs


class Worker:
    def __init__(
        self, name: str, link: Link, registry: Registry, clock: Clock, slots: int, write_output: WriteOutput
    ) -> None:
        self.name, self.link, self.registry, self.clock = name, link, registry, clock
        self.slots, self.write_output = slots, write_output
        self.claimed = 0  # slots that a claim in flight is to fill
        self.accepting = True  # whether it claims work
        self.draining = False  # whether nothing new may start: running tasks finish, the rest is handed back
        self.tasks: set[asyncio.Task[None]] = set()
        self.leases: dict[tuple[str, int], asyncio.Task[None]] = {}
        self.reporters: dict[tuple[str, int], Reporter] = {}
        self._ticker: asyncio.TimerHandle | None = None
        self._early: set[asyncio.Task[None]] = set()
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
        if self._ticker is not None:
            self._ticker.cancel()
        for task in (stopped := [*self.tasks, *self._early]):
            task.cancel()
        await asyncio.gather(*stopped, return_exceptions=True)

    def _tick(self) -> None:
        """Report facts that wait for the end of their task. Runs while there are leases."""
        for reporter in self.reporters.values():
            if reporter.facts:
                task = asyncio.create_task(reporter.send_early())
                self._early.add(task)
                task.add_done_callback(self._early.discard)
        self._ticker = self._next_tick() if self.reporters else None

    def _next_tick(self) -> asyncio.TimerHandle:
        return asyncio.get_running_loop().call_later(EARLY_REPORT_SECONDS, self._tick)

    async def _slot(self, work: Work | None) -> None:
        while work is not None:
            key = (work.execution, work.fence)
            task = asyncio.current_task()
            assert task is not None
            self.revoke(*key)  # the fence was granted again: the database was restored, and the old lease is void
            self.leases[key] = task
            reporter = None
            try:
                run = LeaseRun(self, work)
                reporter = self.reporters[key] = run.reporter
                self._ticker = self._ticker or self._next_tick()
                more = await run.run()
            except Rejected:
                return
            finally:
                if self.leases.get(key) is task:
                    del self.leases[key]
                if self.reporters.get(key) is reporter:
                    self.reporters.pop(key, None)
            work = more[0] if more else None
            self.take(more[1:])
