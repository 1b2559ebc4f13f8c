"""What tasks write to their standard output and error, on its way to the log of the server."""

from __future__ import annotations

from threading import Event, Lock

from noetl.clock import Clock
from noetl.store.ports import LogLine

WAITING_LINES = 20_000
"""So many lines wait while the server is away; what comes after them is counted, not kept."""
AT_ONCE = 5_000


class Output:
    """Lines that wait to be sent. Written by the worker, taken by whatever speaks to the server next."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.waits = Event()
        """Set while there are lines."""
        self._lines: list[LogLine] = []
        self._left_out = 0
        self._lock = Lock()

    def write(self, task: str, stream: str, line: str) -> None:
        """A line of a task, which is named `EXECUTION|TASK`."""
        execution, _, name = task.partition("|")
        with self._lock:
            if len(self._lines) >= WAITING_LINES:
                self._left_out += 1
                return
            if self._left_out:
                gap = f"[{self._left_out:,} lines are missing here: they came faster than they could be sent]"
                self._lines.append((execution, name, self.clock.now(), stream, gap))
                self._left_out = 0
            self._lines.append((execution, name, self.clock.now(), stream, line))
            self.waits.set()

    def take(self) -> list[LogLine]:
        """The oldest lines; whoever takes them sends them, or puts them back."""
        with self._lock:
            taken, self._lines = self._lines[:AT_ONCE], self._lines[AT_ONCE:]
            if not self._lines:
                self.waits.clear()
            return taken

    def put_back(self, lines: list[LogLine]) -> None:
        """They could not be sent."""
        with self._lock:
            self._lines[:0] = lines
            if self._lines:
                self.waits.set()
