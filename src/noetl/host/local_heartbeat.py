"""The heartbeat of a worker in the process of its server."""

from __future__ import annotations

import asyncio

from msgspec.structs import replace

from noetl.host.background import OnError, described
from noetl.host.heartbeats import Heartbeats
from noetl.host.local_link import LocalLink
from noetl.store.store import WorkerSession
from noetl.worker.terms import HEARTBEAT_SECONDS
from noetl.worker.worker import Worker

CHECK_SECONDS = 0.5
"""Interval at which work with a void lease is stopped, and output of tasks is stored."""


class LocalHeartbeat:
    """Runs in the event loop, unlike that of a remote worker: while the loop is busy, so is the server."""

    def __init__(
        self, worker: Worker, link: LocalLink, session: WorkerSession, heartbeats: Heartbeats, on_error: OnError
    ) -> None:
        self.worker, self.link, self.session = worker, link, session
        self.heartbeats, self.on_error = heartbeats, on_error

    async def run(self) -> None:
        """Send heartbeats until cancelled."""
        due, loop = 0.0, asyncio.get_running_loop()
        while True:
            try:
                if loop.time() >= due:
                    await self.send_once()
                    due = loop.time() + HEARTBEAT_SECONDS
                await self.link.store_output()
            except Exception as error:  # any error: the next heartbeat may succeed
                due = 0.0
                self.on_error(f"heartbeat of the embedded worker failed: {described(error)}", None)
            self.link.revoke_void(self.worker)
            await asyncio.sleep(CHECK_SECONDS)

    async def send_once(self) -> None:
        """Name the leases that the worker holds, and revoke the void ones."""
        leases: dict[str, list[int]] = {}
        for execution, fence in {*self.worker.leases, *self.link.reporting}:
            leases.setdefault(execution, []).append(fence)
        revoked, _ = await self.heartbeats.record(replace(self.session, leases=leases))
        for execution, fence in revoked:
            self.worker.revoke(execution, fence)
