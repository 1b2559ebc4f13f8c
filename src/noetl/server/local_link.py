"""The link of a worker that lives in the process of the server."""

from __future__ import annotations

import asyncio
from typing import Any

from msgspec.structs import replace

from noetl.engine.commands import Claim, Report
from noetl.keychain.keychain import StoredCredential
from noetl.model.playbook import Playbook
from noetl.pipeline.plan import PipelinePlan
from noetl.reference import Reference, TooLarge
from noetl.server.service import Service, described
from noetl.store.ports import WorkerSession
from noetl.worker.output import Output
from noetl.worker.terms import HEARTBEAT_SECONDS
from noetl.worker.work import Work
from noetl.worker.worker import Worker

POLL_SECONDS = 20.0
LOOK_SECONDS = 0.5
"""How soon work whose lease is void is stopped, and lines of tasks are kept."""


class LocalLink:
    """How a worker speaks to the service beside it."""

    most_content: int | None = None

    def __init__(self, service: Service, pool: str, output: Output) -> None:
        self.service, self.pool, self.output = service, pool, output
        self.reporting: set[tuple[str, int]] = set()
        """Leases that a report is on its way for; the worker may not list them any more."""

    async def claim(self, command: Claim) -> list[Work]:
        return await self.service.claim(replace(command, pool=self.pool), POLL_SECONDS)

    async def report(self, execution: str, report: Report) -> tuple[bool, list[Work]]:
        if report.claim is not None:
            report = replace(report, claim=replace(report.claim, pool=self.pool))
        self.reporting.add((execution, report.fence))
        try:
            await self.keep_lines()
            found = await self.service.report(execution, report)
            return found.held, found.works
        finally:
            self.reporting.discard((execution, report.fence))

    async def keep_lines(self) -> None:
        """Bring what tasks have written into the store."""
        if lines := self.output.take():
            runtime = self.service.runtime
            await runtime.thread.ask(runtime.store.append_output, lines)

    async def holds(self, execution: str, fence: int) -> bool:
        return await self.service.runtime.holds(execution, fence)

    def plan(self, digest: str, step: str) -> PipelinePlan:
        return self.service.runtime.plan(digest, step)

    def playbook(self, digest: str) -> Playbook:
        return self.service.runtime.playbook(digest)

    def folder(self, digest: str) -> str:
        return self.service.runtime.folder(digest)

    def place(self, digest: str, part: str) -> tuple[str, int] | None:
        return self.service.runtime.place(digest, part)

    def paused(self, execution: str) -> bool:
        return self.service.runtime.paused(execution)

    async def fetch(self, reference: Reference) -> Any:
        return await self.service.runtime.fetch(reference)

    async def fetch_bytes(self, reference: Reference) -> bytes | TooLarge:
        return await self.service.runtime.fetch_bytes(reference)

    async def shelve(self, bucket: str, key: str, content: bytes) -> None:
        await self.service.runtime.shelve(bucket, key, content)

    async def credential(self, execution: str, name: str) -> StoredCredential:
        return await self.service.runtime.credential(execution, name)


class Pulse:
    """The heartbeat of such a worker. It needs no thread: where the loop is busy, the server beside it is as well."""

    def __init__(self, worker: Worker, link: LocalLink, session: WorkerSession) -> None:
        self.worker, self.link, self.session = worker, link, session

    async def run(self) -> None:
        """Beat until it is cancelled."""
        due, loop = 0.0, asyncio.get_running_loop()
        while True:
            try:
                if loop.time() >= due:
                    await self.beat()
                    due = loop.time() + HEARTBEAT_SECONDS
                await self.link.keep_lines()
            except Exception as error:  # any error: the next heartbeat may succeed
                due = 0.0
                self.link.service.on_error(f"heartbeat of the embedded worker failed: {described(error)}", None)
            self.stop_void()
            await asyncio.sleep(LOOK_SECONDS)

    async def beat(self) -> None:
        """Name the leases that are held here."""
        leases: dict[str, list[int]] = {}
        for execution, fence in {*self.worker.leases, *self.link.reporting}:
            leases.setdefault(execution, []).append(fence)
        revoked, _ = await self.link.service.heartbeat(replace(self.session, leases=leases))
        for execution, fence in revoked:
            self.worker.revoke(execution, fence)

    def stop_void(self) -> None:
        """Stop work whose lease is gone, as far as is known in memory."""
        cells = self.link.service.runtime.cells
        for execution, fence in list(self.worker.leases):
            if execution in cells and fence not in cells[execution].state.leases:
                self.worker.revoke(execution, fence)
