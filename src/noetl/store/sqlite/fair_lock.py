"""A fair lock in front of SQLite's write lock: a waiting writer goes before one that has just committed.

SQLite's lock is not fair. A writer that finds it taken sleeps up to 100 ms and tries again, while a process that
commits all the time takes it again within microseconds: `runs cancel` could wait for seconds beside a busy run. So a
writer holds this lock while it waits for SQLite's, and the process that commits next waits until the other has both.

The lock is an flock on a file, released when its holder dies. Holding it is not required: a writer that cannot get it
in time (its holder may have been stopped) goes on without it, and SQLite's lock still serializes the writers.
"""

from __future__ import annotations

import fcntl
import os
import time
from itertools import count
from pathlib import Path

MAX_WAIT_SECONDS = 2.0


class FairLock:
    """The lock file of one database, as one store has it open; without a file, there is nothing to wait for."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self._descriptor: int | None = None

    def __enter__(self) -> None:
        if self._try():
            return
        deadline = time.monotonic() + MAX_WAIT_SECONDS
        for attempt in count():
            time.sleep(pause(attempt))
            if self._try() or time.monotonic() > deadline:
                return

    def _try(self) -> bool:
        """Whether there is nothing to wait for: the lock is ours, or the folder cannot be written."""
        if self.path is None:
            return True
        try:
            if self._descriptor is None:
                self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                self._descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError:
            return True
        return True

    def __exit__(self, *_: object) -> None:
        if self._descriptor is not None:
            fcntl.flock(self._descriptor, fcntl.LOCK_UN)

    def close(self) -> None:
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)


def pause(attempt: int) -> float:
    """Seconds to sleep before the next attempt: short at first, since a commit takes less than a millisecond."""
    return min(0.000_1 * (1 + attempt), 0.001)
