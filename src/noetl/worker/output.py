"""Standard output and error of tasks, buffered until they are sent to the server."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from threading import Event, Lock

from noetl.clock import Clock
from noetl.store.store import LogLine

MAX_LINES = 20_000  # lines that wait while the server does not answer; further ones are counted and dropped
LINES_PER_MESSAGE = 5_000

WriteOutput = Callable[[str, str, str], None]  # takes a line of a task: `EXECUTION|TASK`, the stream and the line


class OutputBuffer:
    """Lines that wait to be sent, at most `max_lines`; None: no limit."""

    def __init__(self, clock: Clock, max_lines: int | None = MAX_LINES) -> None:
        self.clock, self.max_lines = clock, max_lines
        self.waits, self.urgent = Event(), Event()
        """Set while there are lines to send, and while the next message must be sent at once."""
        self._lines: list[LogLine] = []
        self._dropped: Counter[tuple[str, str, str]] = Counter()  # lines by execution, task and stream
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._lines)

    def send_now(self) -> None:
        """Wake the sender, even if there are no lines."""
        self.urgent.set()
        self.waits.set()

    def write(self, task: str, stream: str, line: str) -> None:
        execution, _, name = task.partition("|")
        with self._lock:
            if self.max_lines is not None and len(self._lines) >= self.max_lines:
                self._dropped[execution, name, stream] += 1
                return
            self._add_gap_lines()
            self._lines.append((execution, name, self.clock.now(), stream, line))
            self.waits.set()

    def take(self) -> list[LogLine]:
        """The oldest lines; the caller sends them, or puts them back."""
        with self._lock:
            lines, self._lines = self._lines[:LINES_PER_MESSAGE], self._lines[LINES_PER_MESSAGE:]
            self._add_gap_lines()
            if not self._lines:
                self.waits.clear()
            return lines

    def _add_gap_lines(self) -> None:
        for (execution, name, stream), count in self._dropped.items():
            gap = f"[{count:,} lines dropped: the task wrote faster than the worker could send]"
            self._lines.append((execution, name, self.clock.now(), stream, gap))
        self._dropped.clear()

    def put_back(self, lines: list[LogLine]) -> None:
        with self._lock:
            self._lines[:0] = lines
            if self._lines:
                self.waits.set()
