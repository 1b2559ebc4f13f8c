"""Output of a call, line by line and within bounds."""

from __future__ import annotations

from collections.abc import Callable

LINE_BYTES = 16 * 1024
"""A longer line comes in pieces."""
CALL_BYTES = 1024 * 1024
CALL_LINES = 10_000


class Budget:
    """What a call may still write into the log, over both streams."""

    __slots__ = ("lines", "log", "size")

    def __init__(self, log: Callable[[str, str], None]) -> None:
        self.log = log
        self.size = 0
        self.lines = 0

    @property
    def spent(self) -> bool:
        return self.size > CALL_BYTES or self.lines > CALL_LINES

    def write(self, stream: str, line: bytes) -> None:
        if self.spent:
            return
        self.size += len(line) + 1
        self.lines += 1
        if self.spent:
            limit = f"{CALL_LINES:,} lines" if self.lines > CALL_LINES else f"{CALL_BYTES // 1024:,} KiB"
            self.log("stderr", f"[output of this call beyond {limit} is not kept]")
        else:
            self.log(stream, line.removesuffix(b"\r").decode("utf-8", "replace"))


class Stream:
    """Makes lines of one stream of a child, over its calls."""

    __slots__ = ("name", "rest")

    def __init__(self, name: str) -> None:
        self.name = name
        self.rest = b""

    def feed(self, data: bytes, budget: Budget) -> None:
        if budget.spent:
            return
        *lines, self.rest = (self.rest + data).split(b"\n")
        for line in lines:
            self._write(line, budget)
        while len(self.rest) > LINE_BYTES:
            self.rest = self._piece(self.rest, budget)

    def end(self, budget: Budget) -> None:
        """The call is over: what has no end of line yet is a line."""
        if self.rest:
            rest, self.rest = self.rest, b""
            self._write(rest, budget)

    def _write(self, line: bytes, budget: Budget) -> None:
        while len(line) > LINE_BYTES:
            line = self._piece(line, budget)
        budget.write(self.name, line)

    def _piece(self, line: bytes, budget: Budget) -> bytes:
        """Write the beginning of a long line, up to the end of a character; the rest."""
        cut = LINE_BYTES
        while cut > LINE_BYTES - 4 and line[cut] & 0xC0 == 0x80:
            cut -= 1
        budget.write(self.name, line[:cut])
        return line[cut:]
