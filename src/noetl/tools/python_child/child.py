"""One child as the engine sees it: three descriptors, and the call it runs."""

from __future__ import annotations

import asyncio
import os
import socket
from typing import NamedTuple, Protocol

from noetl.tools.process.output import LogBudget, OutputLines

MAX_RESPONSE_BYTES = 256 * 1024 * 1024
"""More than a child ever sends."""
READ_BYTES = 65536
DRAIN_READS = 32
HEAD_BYTES = 10
END_SECONDS = 0.1
"""Longer than it takes until the end of a child is reported."""


class ChildDied(Exception):
    """The process that ran a call ended before it responded."""


class ChildResponse(NamedTuple):
    """The result or the error of a call, as JSON."""

    well: bool
    content: bytes | bytearray


class ChildCall:
    """A call: its frame, the budget of its output, and the future of its response."""

    __slots__ = ("budget", "child", "frame", "response")

    def __init__(self, frame: bytes, budget: LogBudget, response: asyncio.Future[ChildResponse]) -> None:
        self.frame, self.budget, self.response = frame, budget, response
        self.child: Child | None = None


class Owner(Protocol):
    loop: asyncio.AbstractEventLoop

    def released(self, child: Child) -> None:
        """The child has responded and is free."""

    def kill(self, child: Child) -> None:
        """The child is not usable any more."""


class Child:
    """The engine's end of one child."""

    def __init__(self, owner: Owner, number: int, lane: str) -> None:
        self.owner, self.number, self.lane = owner, number, lane
        self.loop = owner.loop
        self.pid: int | None = None
        self.call: ChildCall | None = None
        self.calls = 0
        self.worn_out = False
        self.protocol_error: str | None = None
        """Why it is being killed, if it violated the protocol."""
        self.busy_since: float | None = None
        """Since when it is busy; None while it is being forked."""
        self.idle_since = 0.0
        self.gone: asyncio.Future[None] = self.loop.create_future()
        self.pending: memoryview | None = None
        """The part of the call that is not sent yet."""
        self.head = b""
        self.body: bytearray | None = None
        self.filled = 0
        self.theirs: list[int] = []
        """The child's ends, until it has been forked."""
        self.streams: dict[int, OutputLines] = {}
        ours, theirs = socket.socketpair()
        self.control = ours.detach()
        self.theirs.append(theirs.detach())
        try:
            for name in ("stdout", "stderr"):
                end, write_end = os.pipe2(os.O_CLOEXEC)
                self.streams[end] = OutputLines(name)
                self.theirs.append(write_end)
            os.set_blocking(self.control, False)
            self.loop.add_reader(self.control, self._readable)
            for end in self.streams:
                os.set_blocking(end, False)
                self.loop.add_reader(end, self._output, end)
        except OSError:
            self.close()
            raise

    def forked(self) -> None:
        """The process has its descriptors: close our copies of them."""
        for fd in self.theirs:
            os.close(fd)
        self.theirs = []

    def close(self) -> None:
        """Close all descriptors. Needs no running loop."""
        open_loop = not self.loop.is_closed()
        for fd in (self.control, *self.streams):
            if open_loop:
                self.loop.remove_reader(fd)
                self.loop.remove_writer(fd)
            os.close(fd)
        self.streams = {}
        self.forked()

    # -- calls --------------------------------------------------------------------------------------------------------

    def start(self, call: ChildCall) -> bool:
        """Send a call; False if the process has ended and has not received it."""
        self.call, call.child = call, self
        self.calls += 1
        if self.pid is not None:
            self.busy_since = self.loop.time()
        head = len(call.frame).to_bytes(4, "little") + self.calls.to_bytes(4, "little")
        try:
            sent = os.writev(self.control, (head, call.frame))
        except OSError:
            self.call = call.child = None
            return False
        if sent < len(head) + len(call.frame):
            self.pending = memoryview(head + call.frame)[sent:]
            self.loop.add_writer(self.control, self._writable)
        return True

    def _writable(self) -> None:
        assert self.pending is not None
        try:
            self.pending = self.pending[os.write(self.control, self.pending) :]
        except BlockingIOError:
            return
        except OSError:
            self.pending = None
        if not self.pending:
            self.pending = None
            self.loop.remove_writer(self.control)

    def _readable(self) -> None:
        try:
            if self.body is not None:
                got = os.readv(self.control, [memoryview(self.body)[self.filled :]])
                self.filled += got
            else:
                chunk = os.read(self.control, READ_BYTES)
                got = len(chunk)
                self.head += chunk
        except BlockingIOError:
            return
        except OSError:
            got = 0
        if got == 0 or not self._frame():
            self.loop.remove_reader(self.control)
            if got == 0 and self.call is not None:  # most likely it has just ended, which is reported soon
                self.loop.call_later(END_SECONDS, self._abort, "has closed its channel to the engine")
            else:
                self._abort("has written to its channel to the engine")

    def _abort(self, reason: str) -> None:
        if not self.gone.done():
            self.protocol_error = reason
            self.owner.kill(self)

    def _frame(self) -> bool:
        """Check whether the response is complete; False if it is not a response."""
        head = self.head
        if len(head) < HEAD_BYTES:
            return True
        size = int.from_bytes(head[:4], "little")
        if self.body is None:
            asked = self.call is not None and int.from_bytes(head[4:8], "little") == self.calls
            if not asked or size > MAX_RESPONSE_BYTES or len(head) > HEAD_BYTES + size:
                return False
            if len(head) < HEAD_BYTES + size:
                self.body = bytearray(size)
                self.filled = len(head) - HEAD_BYTES
                self.body[: self.filled] = head[HEAD_BYTES:]
                self.head = head[:HEAD_BYTES]
                return True
        elif self.filled < size:
            return True
        content = head[HEAD_BYTES:] if self.body is None else self.body
        self.head, self.body = b"", None
        self._responded(ChildResponse(head[8] == 1, content), worn_out=head[9] != 0)
        return True

    def _responded(self, response: ChildResponse, *, worn_out: bool) -> None:
        call = self.call
        assert call is not None
        self.worn_out = self.worn_out or worn_out
        try:
            self.finish_output()
        finally:
            self.call = None
            if not call.response.done():
                call.response.set_result(response)
            self.owner.released(self)

    # -- output -------------------------------------------------------------------------------------------------------

    def finish_output(self) -> None:
        """Read all remaining output of the call."""
        for fd, stream in tuple(self.streams.items()):
            for _ in range(DRAIN_READS):
                if not self._output(fd):
                    break
            if self.call is not None:
                stream.end(self.call.budget)

    def _output(self, fd: int) -> bool:
        """Read from a stream; return whether there may be more."""
        try:
            data = os.read(fd, READ_BYTES)
        except BlockingIOError:
            return False
        if not data:  # closed by the code
            self.worn_out = True
            self.loop.remove_reader(fd)
            os.close(fd)
            stream = self.streams.pop(fd)
            if self.call is not None:
                stream.end(self.call.budget)
            return False
        if self.call is not None:
            self.streams[fd].feed(data, self.call.budget)
        return True
