"""Reports to a server: those that gather while others are in flight share one request."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple

from noetl.errors import NotFound
from noetl.worker import wire
from noetl.worker.server_client import RequestRejected

MAX_REQUESTS = 2  # requests in flight at the same time
MAX_REPORTS, MAX_REPORT_BYTES = 200, 2 << 20  # reports in one request, and their total size


class PendingReport(NamedTuple):
    data: bytes
    answer: asyncio.Future[wire.Verdicts]


class Reports:
    """Sends reports. `post` sends a list of them and returns the list of answers, or raises."""

    def __init__(self, post: Callable[[bytes], Awaitable[bytes]]) -> None:
        self.post = post
        self.pending: list[PendingReport] = []
        self.senders = 0
        """Active senders. A sender without pending reports does not count, even if its task has not ended yet."""
        self.tasks: set[asyncio.Task[None]] = set()

    async def send(self, request: wire.ReportRequest) -> wire.Verdicts:
        answer: asyncio.Future[wire.Verdicts] = asyncio.get_running_loop().create_future()
        self.pending.append(PendingReport(wire.encode(request), answer))
        if self.senders < MAX_REQUESTS:
            self.senders += 1
            task = asyncio.create_task(self._send_all())
            self.tasks.add(task)
            task.add_done_callback(self.tasks.discard)
        return await answer

    async def _send_all(self) -> None:
        try:
            while batch := self._next_batch():
                await self._post(batch)
        finally:
            self.senders -= 1

    async def _post(self, batch: Sequence[PendingReport]) -> None:
        try:
            data = await self.post(b"[%b]" % b",".join(report.data for report in batch))
            verdicts = wire.decode_as(list[wire.Verdicts], data)
            if len(verdicts) != len(batch):
                raise wire.BadMessage(f"{len(verdicts)} answers to {len(batch)} reports")
        except Exception as error:  # the callers handle it
            if len(batch) > 1 and isinstance(error, NotFound | RequestRejected):
                for report in batch:  # an invalid report must not fail the others
                    await self._post([report])
                return
            for report in batch:
                if not report.answer.done():
                    report.answer.set_exception(error)
            return
        for report, verdict in zip(batch, verdicts, strict=True):
            if not report.answer.done():
                report.answer.set_result(verdict)

    def _next_batch(self) -> list[PendingReport]:
        """The oldest reports, without those whose caller was cancelled."""
        waiting = [report for report in self.pending if not report.answer.done()]
        size, count = 0, 0
        most = min(len(waiting), MAX_REPORTS)
        while count < most and (count == 0 or size + len(waiting[count].data) <= MAX_REPORT_BYTES):
            size += len(waiting[count].data)
            count += 1
        self.pending = waiting[count:]
        return waiting[:count]
