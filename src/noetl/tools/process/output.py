"""Output of a process: lines for the log, and what is kept of it, both within bounds.

A text is only ever cut after its secrets were hidden, and far enough from its end that no secret can lie across the
cut: half a secret is not recognised.
"""

from __future__ import annotations

from codecs import getincrementaldecoder
from collections.abc import Callable
from typing import NamedTuple

from noetl.tools.base import Redact

LINE_BYTES = 16 * 1024
"""A longer line comes in pieces."""
MARGIN = 16 * 1024
"""Characters that are held back from a cut, more than a secret has."""
CALL_BYTES = 1024 * 1024
CALL_LINES = 10_000


class Budget:
    """What a call may still write into the log, over both streams."""

    __slots__ = ("lines", "log", "most_bytes", "most_lines", "redact", "size")

    def __init__(
        self,
        log: Callable[[str, str], None],
        redact: Redact,
        most_bytes: int = CALL_BYTES,
        most_lines: int = CALL_LINES,
    ) -> None:
        self.log, self.redact = log, redact
        self.most_bytes, self.most_lines = most_bytes, most_lines
        self.size = 0
        self.lines = 0

    @property
    def spent(self) -> bool:
        return self.size > self.most_bytes or self.lines > self.most_lines

    def write(self, stream: str, line: str) -> None:
        if self.spent:
            return
        self.size += len(line) + 1
        self.lines += 1
        if self.spent:
            limit = f"{self.most_lines:,} lines" if self.lines > self.most_lines else f"{self.most_bytes // 1024:,} KiB"
            self.log("stderr", f"[output of this call beyond {limit} is not kept]")
        else:
            self.log(stream, line.removesuffix("\r"))


class Stream:
    """Makes lines of one stream of a child, over its calls."""

    __slots__ = ("decoder", "name", "rest")

    def __init__(self, name: str) -> None:
        self.name = name
        self.rest = ""
        self.decoder = getincrementaldecoder("utf-8")("replace")

    def feed(self, data: bytes, budget: Budget) -> None:
        if budget.spent:
            return
        *lines, self.rest = (self.rest + self.decoder.decode(data)).split("\n")
        for line in lines:
            self._write(line, budget)
        if len(self.rest) > 4 * MARGIN:
            text = budget.redact(self.rest)
            safe = max(0, len(text) - MARGIN)
            self._pieces(text[:safe], budget)
            self.rest = text[safe:]

    def end(self, budget: Budget) -> None:
        """The call is over: what has no end of line yet is a line."""
        rest, self.rest = self.rest + self.decoder.decode(b"", final=True), ""
        self.decoder.reset()
        if rest:
            self._write(rest, budget)

    def _write(self, line: str, budget: Budget) -> None:
        if len(line) * 4 <= LINE_BYTES:
            budget.write(self.name, line)
        else:
            self._pieces(budget.redact(line), budget)

    def _pieces(self, text: str, budget: Budget) -> None:
        """A long text in pieces of whole characters."""
        raw = text.encode("utf-8", "surrogatepass")
        while len(raw) > LINE_BYTES:
            cut = LINE_BYTES
            while raw[cut] & 0xC0 == 0x80:
                cut -= 1
            budget.write(self.name, raw[:cut].decode("utf-8", "replace"))
            raw = raw[cut:]
        budget.write(self.name, raw.decode("utf-8", "replace"))


class Kept(NamedTuple):
    """What is kept of a stream: its beginning for the result, its end for an error."""

    text: str
    tail: str
    cut: bool
    """Whether there was more than `text`."""


class Capture:
    """Keeps the beginning and the end of one stream."""

    __slots__ = ("head", "most", "size", "tail", "tail_bytes")

    def __init__(self, most: int, tail_bytes: int) -> None:
        self.most, self.tail_bytes = most, tail_bytes
        self.head, self.tail = bytearray(), bytearray()
        self.size = 0

    def feed(self, data: bytes) -> None:
        self.size += len(data)
        room = self.most + MARGIN - len(self.head)
        if room > 0:
            self.head += data[:room]
        self.tail += data
        if len(self.tail) > 2 * (self.tail_bytes + MARGIN):
            del self.tail[: -(self.tail_bytes + MARGIN)]

    def kept(self, redact: Redact) -> Kept:
        text = redact(self.head.decode("utf-8", "replace"))
        if self.size > self.most:
            text = text[: min(self.most, max(0, len(text) - MARGIN))]
        tail = redact(self.tail.decode("utf-8", "replace"))
        if len(tail) > self.tail_bytes:
            start = len(tail) - self.tail_bytes
            tail = tail[start if self.size == len(self.tail) else max(start, min(MARGIN, len(tail))) :]
        return Kept(text, tail, self.size > self.most)
