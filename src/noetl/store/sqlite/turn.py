"""Writers take turns: who waits for the write lock goes before who has just had it.

SQLite's lock is not fair. Who finds it taken sleeps, up to 100 ms, and tries again, while who commits all the time
takes it again within microseconds: `runs cancel` could wait for seconds beside a busy run. So a writer goes through a
door, one at a time, and holds it while it waits for SQLite's lock. Who commits next has to wait outside until the
other is in.

The door is a locked file, free the moment its holder dies. It is mere politeness: who can't get through in time (its
holder may have been stopped) goes on without, and SQLite's lock still keeps order.
"""

from __future__ import annotations

import fcntl
import os
import time
from itertools import count
from pathlib import Path

PATIENCE_SECONDS = 2.0


class Turn:
    """The door of one database, as seen by one store."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._descriptor: int | None = None

    def __enter__(self) -> None:
        if self._taken():
            return
        give_up = time.monotonic() + PATIENCE_SECONDS
        for turn in count():
            time.sleep(pause(turn))
            if self._taken() or time.monotonic() > give_up:
                return

    def _taken(self) -> bool:
        try:
            if self._descriptor is None:
                self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                self._descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError:  # a folder that can't be written: there is nobody to be polite to
            return True
        return True

    def __exit__(self, *_: object) -> None:
        if self._descriptor is not None:
            fcntl.flock(self._descriptor, fcntl.LOCK_UN)

    def close(self) -> None:
        """Give it back. A second call does nothing."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)


def pause(turn: int) -> float:
    """Seconds to sleep before the next try: short at first, since a commit takes less than a millisecond."""
    return min(0.000_1 * (1 + turn), 0.001)
