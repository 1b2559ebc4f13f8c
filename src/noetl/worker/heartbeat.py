"""The heartbeat of a worker: a separate thread, so that it continues while the event loop is busy.

Each heartbeat names the leases that the worker holds; the reply says which of them are void and which executions are
paused. While the server does not answer, running tool calls continue, since only the server may be down; but no call
starts under a lease that the server may have granted to others meanwhile (`terms.py`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from threading import Event, Thread

import httpx2
from msgspec.structs import replace

from noetl.clock import uptime
from noetl.errors import AuthError, Conflict
from noetl.log import Level
from noetl.store.store import WorkerDirective
from noetl.worker import wire
from noetl.worker.http_link import HttpLink
from noetl.worker.server_client import rejection_of
from noetl.worker.terms import HEARTBEAT_SECONDS
from noetl.worker.worker import Worker

RETRY_SECONDS = 1.0  # pause after a heartbeat that was not answered
OUTPUT_SECONDS = 0.5  # maximum time until output of tasks is sent to the server
TIMEOUT = httpx2.Timeout(5.0)


class Heartbeat(Thread):
    """Sends heartbeats from `start` until `stop`. `session` describes the worker; `on_rejected` is called in the event
    loop when the server rejects the token, `on_directive` with the directive of an operator, `write_log` when
    the server stops and starts answering."""

    def __init__(
        self,
        worker: Worker,
        link: HttpLink,
        session: wire.HeartbeatRequest,
        on_rejected: Callable[[AuthError], None],
        write_log: Callable[[Level, str], None],
        *,
        on_directive: Callable[[WorkerDirective], None] = lambda directive: None,
        seconds: float = HEARTBEAT_SECONDS,
    ) -> None:
        super().__init__(name="noetl-heartbeat", daemon=True)
        self.server = link.server
        self.worker, self.terms, self.output = worker, link.terms, link.output
        self.session, self.seconds = replace(session, replaces=0.0), seconds
        self.on_rejected, self.write_log, self.on_directive = on_rejected, write_log, on_directive
        self.loop = asyncio.get_running_loop()
        self.stopped, self.unanswered = Event(), False

    def run(self) -> None:
        http = self.server.http
        with httpx2.Client(base_url=http.base_url, headers=http.headers, timeout=TIMEOUT) as client:
            while not self.stopped.is_set():
                pause = self.seconds if self._send(client) else min(self.seconds, RETRY_SECONDS)
                if not self.stopped.is_set() and self.output.waits.wait(pause):
                    self.output.urgent.wait(min(pause, OUTPUT_SECONDS))
            while self._send(client) and len(self.output):  # sends the last output, and releases all leases
                pass

    def stop(self) -> None:
        self.stopped.set()
        self.output.send_now()

    def _send(self, client: httpx2.Client) -> bool:
        sent_at, request = uptime(), self.next_request()
        try:
            content, kind = wire.encode(request), {"Content-Type": "application/json"}
            response = client.post("/heartbeat", content=content, headers=kind)
            if not response.is_success:
                raise rejection_of(response)
            reply = wire.decode_as(wire.HeartbeatReply, response.content)
        except Exception as error:  # any error: the next heartbeat may succeed
            self.missed(request, error)
            return False
        return self.answered(request, reply, sent_at) or self._send(client)

    def next_request(self) -> wire.HeartbeatRequest:
        self.output.urgent.clear()
        lines = self.output.take()
        leases: dict[str, list[int]] = {}
        for execution, fence in sorted({*list(self.worker.leases), *list(self.terms.in_flight)}):
            leases.setdefault(execution, []).append(fence)
        self.session = replace(self.session, number=self.session.number + 1)
        return replace(self.session, leases=leases, lines=lines)

    def answered(self, request: wire.HeartbeatRequest, reply: wire.HeartbeatReply, sent_at: float) -> bool:
        """Handle the reply to a request that was sent at that time. False if the next heartbeat is due at once: it
        replaces the process that holds the name of this worker."""
        if self.unanswered:
            self.unanswered = False
            self.write_log("info", "the server responds again")
        self.session = replace(self.session, replaces=reply.holder)
        if reply.holder is not None:
            return False
        self._in_loop(lambda: self._apply(request, reply, sent_at))
        return True

    def missed(self, request: wire.HeartbeatRequest, error: Exception) -> None:
        """Handle the error of a request."""
        self.output.put_back(request.lines)
        if isinstance(error, AuthError):
            self._in_loop(lambda: self.on_rejected(error))
            return
        conflict = isinstance(error, Conflict)
        if conflict:
            self._in_loop(self._yield)
        if not self.unanswered:
            self.unanswered = True
            reason = str(error) or type(error).__name__
            self.write_log("warning", reason if conflict else f"the server does not respond: {reason}")

    # -- in the event loop ------------------------------------------------------------------------------------------

    def _in_loop(self, act: Callable[[], None]) -> None:
        if not self.loop.is_closed():
            self.loop.call_soon_threadsafe(act)

    def _yield(self) -> None:
        """Another process has the worker's name and its leases: drop all work and claim none until that process
        ends."""
        self.terms.registered.clear()
        for execution, fence in list(self.worker.leases):
            self.worker.revoke(execution, fence)

    def _apply(self, request: wire.HeartbeatRequest, reply: wire.HeartbeatReply, sent_at: float) -> None:
        named = {(execution, fence) for execution, fences in request.leases.items() for fence in fences}
        self.terms.renew(named.difference(reply.revoked), sent_at)
        self.terms.registered.set()
        self.terms.paused = frozenset(reply.paused)
        self.on_directive(reply.directive)
        for execution, fence in reply.revoked:
            if (execution, fence) in self.worker.leases:  # else the report that ended it is still in flight
                self.write_log("info", f"lease {fence} of execution {execution} was revoked")
                self.worker.revoke(execution, fence)
