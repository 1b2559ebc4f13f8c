"""One child as the engine sees it: three descriptors, and the call it runs."""

from __future__ import annotations

import asyncio
import os
import socket
from typing import NamedTuple, Protocol

from noetl.tools.process.output import Budget, Stream

ANSWER_BYTES = 256 * 1024 * 1024
"""More than a child ever sends: whoever announces more is not our program."""
READ_BYTES = 65536
DRAIN_READS = 32
HEAD_BYTES = 10
DEATH_SECONDS = 0.1
"""Longer than it takes to hear of a death."""


class ChildDied(Exception):
    """The process that ran a call ended before it had answered."""


class Answer(NamedTuple):
    """What a child has sent: the result or the error, as JSON."""

    well: bool
    content: bytes | bytearray


class Call:
    """A call on its way: its frame, where its output goes, and the future of its answer."""

    __slots__ = ("answer", "budget", "child", "frame")

    def __init__(self, frame: bytes, budget: Budget, answer: asyncio.Future[Answer]) -> None:
        self.frame, self.budget, self.answer = frame, budget, answer
        self.child: Child | None = None


class Owner(Protocol):
    """Who is told what becomes of a child."""

    loop: asyncio.AbstractEventLoop

    def released(self, child: Child) -> None:
        """It has answered and is free."""

    def kill(self, child: Child) -> None:
        """It is of no more use."""


class Child:
    """The engine's end of one child."""

    def __init__(self, owner: Owner, number: int, lane: str) -> None:
        self.owner, self.number, self.lane = owner, number, lane
        self.loop = owner.loop
        self.pid: int | None = None
        self.call: Call | None = None
        self.calls = 0
        self.worn = False
        self.fault: str | None = None
        """Why it is being killed, if it broke the protocol."""
        self.busy_since: float | None = None
        """When it began what it does; None while it is being forked."""
        self.idle_since = 0.0
        self.gone: asyncio.Future[None] = self.loop.create_future()
        self.pending: memoryview | None = None
        """What could not be sent yet of the call."""
        self.head = b""
        self.body: bytearray | None = None
        self.filled = 0
        self.theirs: list[int] = []
        """The child's ends, until it has them."""
        self.streams: dict[int, Stream] = {}
        ours, theirs = socket.socketpair()
        self.control = ours.detach()
        self.theirs.append(theirs.detach())
        try:
            for name in ("stdout", "stderr"):
                end, write_end = os.pipe2(os.O_CLOEXEC)
                self.streams[end] = Stream(name)
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
        """Give up all descriptors. Needs no running loop."""
        open_loop = not self.loop.is_closed()
        for fd in (self.control, *self.streams):
            if open_loop:
                self.loop.remove_reader(fd)
                self.loop.remove_writer(fd)
            os.close(fd)
        self.streams = {}
        self.forked()

    # -- calls --------------------------------------------------------------------------------------------------------

    def start(self, call: Call) -> bool:
        """Send a call; False if the process has gone and can't have seen it."""
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
            if got == 0 and self.call is not None:  # most likely it has just died and we are about to hear how
                self.loop.call_later(DEATH_SECONDS, self._break_off, "has closed its line to the engine")
            else:
                self._break_off("has written into its line to the engine")

    def _break_off(self, why: str) -> None:
        if not self.gone.done():
            self.fault = why
            self.owner.kill(self)

    def _frame(self) -> bool:
        """Look whether the answer is complete; False if this is no answer."""
        head = self.head
        if len(head) < HEAD_BYTES:
            return True
        size = int.from_bytes(head[:4], "little")
        if self.body is None:
            asked = self.call is not None and int.from_bytes(head[4:8], "little") == self.calls
            if not asked or size > ANSWER_BYTES or len(head) > HEAD_BYTES + size:
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
        self._answered(Answer(head[8] == 1, content), worn=head[9] != 0)
        return True

    def _answered(self, answer: Answer, *, worn: bool) -> None:
        call = self.call
        assert call is not None
        self.worn = self.worn or worn
        try:
            self.finish_output()
        finally:
            self.call = None
            if not call.answer.done():
                call.answer.set_result(answer)
            self.owner.released(self)

    # -- output -------------------------------------------------------------------------------------------------------

    def finish_output(self) -> None:
        """Take all that the call has written: after this it is over."""
        for fd, stream in tuple(self.streams.items()):
            for _ in range(DRAIN_READS):
                if not self._output(fd):
                    break
            if self.call is not None:
                stream.end(self.call.budget)

    def _output(self, fd: int) -> bool:
        """Take what one stream has; whether there may be more."""
        try:
            data = os.read(fd, READ_BYTES)
        except BlockingIOError:
            return False
        if not data:  # closed by the code
            self.worn = True
            self.loop.remove_reader(fd)
            os.close(fd)
            stream = self.streams.pop(fd)
            if self.call is not None:
                stream.end(self.call.budget)
            return False
        if self.call is not None:
            self.streams[fd].feed(data, self.call.budget)
        return True
