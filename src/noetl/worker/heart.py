"""The heartbeat of a worker: a thread of its own, so that it goes on while the event loop is busy.

Each beat names the leases that the worker holds; the answer says which of them are void and which executions are
paused. Where no beat gets through for as long as a lease lives, the server has given the leases to others, and the
worker stops what it does under them.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from threading import Event, Thread

import httpx2

from noetl.errors import AuthError, NoetlError
from noetl.log import Level
from noetl.worker import wire
from noetl.worker.http_link import HttpLink, api, headers, refusal
from noetl.worker.worker import Worker

BEAT_SECONDS = 10.0
AGAIN_SECONDS = 1.0
"""How soon a beat that did not get through is tried again."""
LINES_SECONDS = 0.5
"""How soon lines that tasks have written are brought to the server."""
LEASE_SECONDS = 30.0
"""How long a lease lives without a beat."""
CALL = httpx2.Timeout(10.0, connect=5.0)


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
        self.stopped = Event()
        self.heard = time.monotonic()
        """When the server last answered."""

    def run(self) -> None:
        with self.client:
            while not self.stopped.is_set():
                self._pause(self.seconds if self._beat() else min(self.seconds, AGAIN_SECONDS))
            self._beat()  # the last lines, and that nothing is held any more

    def stop(self) -> None:
        """One more beat, and it is over."""
        self.stopped.set()
        self.link.output.waits.set()

    def _pause(self, seconds: float) -> None:
        """Until the next beat; not as long where lines wait."""
        end = time.monotonic() + seconds
        while not self.stopped.is_set() and (left := end - time.monotonic()) > 0:
            if self.link.output.waits.wait(left):
                self.stopped.wait(min(left, LINES_SECONDS))
                return

    def _beat(self) -> bool:
        """Whether the server has answered."""
        lines = self.link.output.take()
        try:
            pulse = self._exchange(self._message(lines))
        except (NoetlError, httpx2.TransportError) as error:
            self.link.output.put_back(lines)
            self._missed(error)
            return False
        self.heard = time.monotonic()
        if self.missing:
            self.missing = False
            self.say("info", "the server answers again")
        self._in_loop(lambda: self._obey(pulse))
        return True

    def _message(self, lines: list[tuple[str, str, float, str, str]]) -> wire.Heartbeat:
        leases: dict[str, list[int]] = {}
        for execution, fence in sorted({*list(self.worker.leases), *list(self.link.held)}):
            leases.setdefault(execution, []).append(fence)
        about = self.about
        return wire.Heartbeat(
            about.worker, about.pool, about.slots, leases, about.host, about.started, about.version, lines
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
        if not self.missing:
            self.missing = True
            self.say("warning", f"the server does not answer: {str(error) or type(error).__name__}")
        if time.monotonic() - self.heard > LEASE_SECONDS:
            self._in_loop(self._stop_all)

    # -- in the loop ------------------------------------------------------------------------------------------------

    def _in_loop(self, act: Callable[[], None]) -> None:
        if not self.loop.is_closed():
            self.loop.call_soon_threadsafe(act)

    def _obey(self, pulse: wire.Pulse) -> None:
        self.link.known.set()
        self.link.paused_executions = frozenset(pulse.paused)
        for execution, fence in pulse.revoked:
            self.say("info", f"lease {fence} of {execution} is void")
            self.worker.revoke(execution, fence)

    def _stop_all(self) -> None:
        for execution, fence in list(self.worker.leases):
            self.worker.revoke(execution, fence)
