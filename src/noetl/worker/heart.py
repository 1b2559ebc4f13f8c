"""The heartbeat of a worker: a thread of its own, so that it goes on while the event loop is busy.

Each beat names the leases that the worker holds; the answer says which of them are void and which executions are
paused. While no beat gets through, tool calls that have begun go on, for the server may only have been away; but none
is begun under a lease that the server may have given to others meanwhile (`terms.py`).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from threading import Event, Thread

import httpx2

from noetl.clock import uptime
from noetl.errors import AuthError, Conflict
from noetl.log import Level
from noetl.worker import wire
from noetl.worker.http_link import HttpLink, api, headers, refusal
from noetl.worker.worker import Worker

BEAT_SECONDS = 5.0
AGAIN_SECONDS = 1.0
"""How soon a beat that did not get through is tried again."""
LINES_SECONDS = 0.5
"""How soon lines that tasks have written are brought to the server."""
CALL = httpx2.Timeout(5.0)


class Heart(Thread):
    """Beats from `start` until `stop`."""

    def __init__(
        self, url: str, token: str, worker: Worker, link: HttpLink, about: wire.Heartbeat, *, beat: float = BEAT_SECONDS
    ) -> None:
        super().__init__(name="noetl-heart", daemon=True)
        self.client = httpx2.Client(base_url=api(url), headers=headers(token), timeout=CALL)
        self.worker, self.link, self.about, self.seconds = worker, link, about, beat
        self.loop = asyncio.get_running_loop()
        self.refused: Callable[[AuthError], None] = lambda error: None
        """Called in the loop when the server does not let us in any more."""
        self.say: Callable[[Level, str], None] = lambda level, text: None
        """Told when beats stop to get through, when they get through again, and when leases are void."""
        self.missing = False
        self.stopped, self.urgent = Event(), Event()
        """Whether to stop, and whether to send the next heartbeat at once."""
        self.number = 0
        """Number of heartbeats sent."""
        link.terms.request_heartbeat = self.hurry

    def run(self) -> None:
        with self.client:
            while not self.stopped.is_set():
                self._pause(self.seconds if self._beat() else min(self.seconds, AGAIN_SECONDS))
            self._beat()  # the last lines, and that nothing is held any more

    def stop(self) -> None:
        """One more beat, and it is over."""
        self.stopped.set()
        self.hurry()

    def hurry(self) -> None:
        """Send a heartbeat at once."""
        self.urgent.set()
        self.link.output.waits.set()

    def _pause(self, seconds: float) -> None:
        """Until the next beat; not as long where lines wait."""
        end = time.monotonic() + seconds
        while not self.stopped.is_set() and (left := end - time.monotonic()) > 0:
            if self.link.output.waits.wait(left):
                self.urgent.wait(min(left, LINES_SECONDS))
                return

    def _beat(self) -> bool:
        """Whether the server has answered."""
        self.urgent.clear()
        lines = self.link.output.take()
        sent, message = uptime(), self._message(lines)
        try:
            pulse = self._exchange(message)
        except Exception as error:  # any error: the next heartbeat may succeed
            self.link.output.put_back(lines)
            self._missed(error)
            return False
        if self.missing:
            self.missing = False
            self.say("info", "the server answers again")
        self._in_loop(lambda: self._obey(message, pulse, sent))
        return True

    def _message(self, lines: list[tuple[str, str, float, str, str]]) -> wire.Heartbeat:
        leases: dict[str, list[int]] = {}
        for execution, fence in sorted({*list(self.worker.leases), *list(self.link.held)}):
            leases.setdefault(execution, []).append(fence)
        about = self.about
        self.number += 1
        return wire.Heartbeat(
            about.worker, about.pool, about.slots, leases, about.host, about.started, about.version, lines, self.number
        )

    def _exchange(self, message: wire.Heartbeat) -> wire.Pulse:
        answer = self.client.post(
            "/heartbeat", content=wire.encode(message), headers={"Content-Type": "application/json"}
        )
        if not answer.is_success:
            raise refusal(answer)
        pulse: wire.Pulse = wire.decode_as(wire.Pulse, answer.content)
        return pulse

    def _missed(self, error: Exception) -> None:
        if isinstance(error, AuthError):  # it answers, and whoever is refused says so
            self._in_loop(lambda: self.refused(error))
            return
        if isinstance(error, Conflict):
            self._in_loop(self._yield)
        if not self.missing:
            self.missing = True
            reason = str(error) or type(error).__name__
            refused = isinstance(error, Conflict)
            self.say("warning", reason if refused else f"the server does not answer: {reason}")

    # -- in the loop ------------------------------------------------------------------------------------------------

    def _in_loop(self, act: Callable[[], None]) -> None:
        if not self.loop.is_closed():
            self.loop.call_soon_threadsafe(act)

    def _yield(self) -> None:
        """Another process has the worker's name and its leases: drop all work and claim none until it is gone."""
        self.link.known.clear()
        for execution, fence in list(self.worker.leases):
            self.worker.revoke(execution, fence)

    def _obey(self, message: wire.Heartbeat, pulse: wire.Pulse, sent: float) -> None:
        named = {(execution, fence) for execution, fences in message.leases.items() for fence in fences}
        self.link.terms.renew(named.difference(pulse.revoked), sent)
        self.link.known.set()
        self.link.paused_executions = frozenset(pulse.paused)
        for execution, fence in pulse.revoked:
            if (execution, fence) in self.worker.leases:  # else the report that ended it is still in flight
                self.say("info", f"lease {fence} of execution {execution} was revoked")
                self.worker.revoke(execution, fence)
