"""Output of a process: lines for the log, and a captured part, both of limited size.

A text is truncated only after redaction, and far enough from its end that no secret crosses the cut: half a secret is
not recognised.
"""

from __future__ import annotations

from codecs import getincrementaldecoder
from collections.abc import Callable
from typing import NamedTuple

from msgspec import Struct, field

from noetl.tools.base import Redact

MAX_LINE_BYTES = 16 * 1024
MARGIN = 16 * 1024
"""Characters between a cut and the end of the text: more than a secret has."""


class LogBudget(Struct):
    log: Callable[[str, str], None]
    redact: Redact
    max_bytes: int = 1024 * 1024
    max_lines: int = 10_000
    size: int = 0
    lines: int = 0

    @property
    def spent(self) -> bool:
        return self.size > self.max_bytes or self.lines > self.max_lines

    def write(self, stream: str, line: str) -> None:
        if self.spent:
            return
        self.size += len(line) + 1
        self.lines += 1
        if self.spent:
            limit = f"{self.max_lines:,} lines" if self.lines > self.max_lines else f"{self.max_bytes // 1024:,} KiB"
            self.log("stderr", f"[output of this call beyond {limit} is dropped]")
        else:
            self.log(stream, line.removesuffix("\r"))


class OutputLines:
    __slots__ = ("decoder", "name", "rest")

    def __init__(self, name: str) -> None:
        self.name, self.rest = name, ""
        self.decoder = getincrementaldecoder("utf-8")("replace")

    def feed(self, data: bytes, budget: LogBudget) -> None:
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

    def end(self, budget: LogBudget) -> None:
        """The call has ended: an incomplete line is a line."""
        rest, self.rest = self.rest + self.decoder.decode(b"", final=True), ""
        self.decoder.reset()
        if rest:
            self._write(rest, budget)

    def _write(self, line: str, budget: LogBudget) -> None:
        if len(line) * 4 <= MAX_LINE_BYTES:
            budget.write(self.name, line)
        else:
            self._pieces(budget.redact(line), budget)

    def _pieces(self, text: str, budget: LogBudget) -> None:
        raw = text.encode("utf-8", "surrogatepass")
        while len(raw) > MAX_LINE_BYTES:
            cut = MAX_LINE_BYTES
            while raw[cut] & 0xC0 == 0x80:
                cut -= 1
            budget.write(self.name, raw[:cut].decode("utf-8", "replace"))
            raw = raw[cut:]
        budget.write(self.name, raw.decode("utf-8", "replace"))


class Captured(NamedTuple):
    """The beginning of a stream for the result, and its end for an error."""

    text: str
    tail: str
    cut: bool


class Capture(Struct):
    max_bytes: int = 1024 * 1024
    tail_bytes: int = 8 * 1024
    head: bytearray = field(default_factory=bytearray)
    tail: bytearray = field(default_factory=bytearray)
    size: int = 0

    def feed(self, data: bytes) -> None:
        self.size += len(data)
        room = self.max_bytes + MARGIN - len(self.head)
        if room > 0:
            self.head += data[:room]
        self.tail += data
        if len(self.tail) > 2 * (self.tail_bytes + MARGIN):
            del self.tail[: -(self.tail_bytes + MARGIN)]

    def captured(self, redact: Redact) -> Captured:
        text = redact(self.head.decode("utf-8", "replace"))
        if self.size > self.max_bytes:
            text = text[: min(self.max_bytes, max(0, len(text) - MARGIN))]
        tail = redact(self.tail.decode("utf-8", "replace"))
        if len(tail) > self.tail_bytes:
            start = len(tail) - self.tail_bytes
            tail = tail[start if self.size == len(self.tail) else max(start, min(MARGIN, len(tail))) :]
        return Captured(text, tail, self.size > self.max_bytes)
