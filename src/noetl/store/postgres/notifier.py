"""Notifies other processes of commits with NOTIFY.

NOTIFY takes a lock on the whole database when its transaction commits, so commits that contain one would wait for each
other's disk sync. It is sent after them instead, in a statement of its own, at most every 20 ms. A process that is
killed in between notifies nobody: a notification is a hint, and listeners also poll.
"""

from __future__ import annotations

from contextlib import suppress
from threading import Event, Thread

from noetl.errors import StoreError
from noetl.store.database import Database

MIN_INTERVAL_SECONDS = 0.02
CLOSE_SECONDS = 5.0


class Notifier:
    """Notifies in a thread soon after `notify`, once for all calls in the meantime."""

    def __init__(self, database: Database) -> None:
        self._db = database
        self._pending, self._closed = Event(), Event()
        self._thread: Thread | None = None

    def notify(self) -> None:
        self._pending.set()
        if self._thread is None:
            self._thread = Thread(target=self._run, name="noetl-notifier", daemon=True)
            self._thread.start()

    def _run(self) -> None:
        while self._pending.wait():
            self._pending.clear()
            with suppress(StoreError):
                self._db.rows("notify")
            if self._closed.wait(MIN_INTERVAL_SECONDS) and not self._pending.is_set():
                return

    def close(self) -> None:
        if self._thread is not None:
            self._closed.set()
            self._pending.set()
            self._thread.join(CLOSE_SECONDS)
