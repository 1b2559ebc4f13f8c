"""Tells other processes that something has been written.

NOTIFY takes a lock on the whole database when its transaction commits, so commits with a NOTIFY inside would go one
after the other, each waiting for the disk. It is sent after them instead, on its own, and at most every 20 ms, however
many commits there are. Who is killed in between has told nobody: it is a hint, and those who listen look by
themselves now and then.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import Event, Thread

PAUSE_SECONDS = 0.02
CLOSE_SECONDS = 5.0


class Bell:
    """Rings soon after it is asked to, and once for all who asked meanwhile."""

    def __init__(self, send: Callable[[], None]) -> None:
        self._send = send
        self._asked, self._closed = Event(), Event()
        self._thread: Thread | None = None

    def ring(self) -> None:
        self._asked.set()
        if self._thread is None:
            self._thread = Thread(target=self._run, name="noetl-bell", daemon=True)
            self._thread.start()

    def _run(self) -> None:
        while self._asked.wait():
            self._asked.clear()
            self._send()
            if self._closed.wait(PAUSE_SECONDS) and not self._asked.is_set():
                return

    def close(self) -> None:
        """Ring for the last time, if somebody has asked."""
        if self._thread is not None:
            self._closed.set()
            self._asked.set()
            self._thread.join(CLOSE_SECONDS)
