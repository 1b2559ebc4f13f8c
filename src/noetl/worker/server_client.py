"""Requests of a worker to its server, repeated until the server answers. Reports that gather while others are in flight
share one request."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple

import httpx2

from noetl.errors import AuthError, Conflict, NoetlError, NotFound
from noetl.problem_documents import problem_document
from noetl.worker import wire

CALL = httpx2.Timeout(15.0, connect=5.0)  # without data; then the request is sent again on a new connection
MIN_BACKOFF_SECONDS, MAX_BACKOFF_SECONDS = 0.05, 2.0  # pause before a request is repeated; doubled each time
MAX_SERVER_ERRORS = 8  # internal server errors after which a request is not repeated
TRANSIENT = frozenset([408, 425, 429, 502, 503, 504, 507])  # status codes after which a request is repeated
MAX_REQUESTS = 2  # requests in flight at the same time
MAX_REPORTS, MAX_REPORT_BYTES = 200, 2 << 20  # reports in one request, and their total size


class RequestRejected(NoetlError):
    """The server rejects the request, and would reject it again."""


def http_client(url: str, token: str) -> httpx2.AsyncClient:
    """The client of a worker for the server at a URL."""
    base, headers = f"{url.rstrip('/')}/api/v1/worker", {"Authorization": f"Bearer {token}"}
    return httpx2.AsyncClient(base_url=base, headers=headers, timeout=CALL)


class ServerClient:
    def __init__(self, http: httpx2.AsyncClient) -> None:
        self.http = http

    async def call(
        self, method: str, path: str, content: bytes = b"", *, repeated: bytes = b"", limits: httpx2.Timeout = CALL
    ) -> bytes:
        """The response; retries until there is one, with `again` as the content. Content is JSON, except by PUT."""
        server_errors, pause = 0, MIN_BACKOFF_SECONDS
        kind = "application/octet-stream" if method == "PUT" else "application/json"
        headers = {} if method == "GET" else {"Content-Type": kind}
        while True:
            try:
                response = await self.http.request(method, path, content=content, headers=headers, timeout=limits)
            except httpx2.TransportError:
                response = None
            if response is not None and response.is_success:
                return response.content
            if response is not None and response.status_code not in TRANSIENT:
                server_errors += 1
                if response.status_code < 500 or server_errors >= MAX_SERVER_ERRORS:
                    raise rejection_of(response)
            await asyncio.sleep(pause * (1 + random.random()))
            pause = min(MAX_BACKOFF_SECONDS, pause * 2)
            content = repeated or content


def rejection_of(response: httpx2.Response) -> NoetlError:
    """The error of a response that is not a success, with the detail of its problem document."""
    _, detail = problem_document(response)
    match response.status_code:
        case 401 | 403:
            return AuthError(f"the server rejected this worker's token: {detail}")
        case 404 | 410:
            return NotFound(detail)
        case 409:
            return Conflict(detail)
    return RequestRejected(f"the server responded with status {response.status_code}: {detail}")


class PendingReport(NamedTuple):
    data: bytes
    answer: asyncio.Future[wire.Verdicts]


class Reports:
    """Sends reports. `post` sends a list of them and returns the list of answers, or raises."""

    def __init__(self, post: Callable[[bytes], Awaitable[bytes]]) -> None:
        self.post = post
        self.pending: list[PendingReport] = []
        self.senders = 0  # without those that have no pending reports, even if their task has not ended yet
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
