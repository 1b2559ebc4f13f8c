"""One child as the engine sees it, and the call it runs."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, NamedTuple

from noetl.tools.process.forked import READ_BYTES, ForkedChild
from noetl.tools.process.output import LogBudget, OutputLines

if TYPE_CHECKING:
    from noetl.tools.python_child.pool import ChildPool, Lane

MAX_RESPONSE_BYTES = 256 * 1024 * 1024
"""More than a child ever sends."""
HEAD_BYTES = 10
ENDING_SECONDS = 0.1
"""Longer than it takes until the end of a child is reported."""


class ChildDied(Exception):
    """The process that ran a call ended before it responded."""


class ChildResponse(NamedTuple):
    """The result or the error of a call, as JSON."""

    ok: bool
    content: bytearray


class ChildCall:
    """A call: its frame, the budget of its output, and the future of its response."""

    __slots__ = ("budget", "child", "frame", "response")

    def __init__(self, frame: bytes, budget: LogBudget, response: asyncio.Future[ChildResponse]) -> None:
        self.frame, self.budget, self.response = frame, budget, response
        self.child: PythonChild | None = None

    def fail(self, message: str) -> None:
        if not self.response.done():
            self.response.set_exception(ChildDied(message))


class PythonChild(ForkedChild):
    """Runs one call at a time."""

    def __init__(self, pool: ChildPool, lane: Lane) -> None:
        super().__init__(pool.launcher)
        self.pool, self.lane = pool, lane
        self.call: ChildCall | None = None
        self.calls = 0
        self.worn_out = False
        self.protocol_error: str | None = None
        """Why it is being killed, if it violated the protocol."""
        self.busy_since: float | None = None
        """None while it is being forked."""
        self.idle_since = 0.0
        self.gone: asyncio.Future[None] = self.loop.create_future()
        self.unsent = memoryview(b"")
        """The part of the call that is not sent yet."""
        self.received = bytearray()
        """The part of the response that is received."""
        self.lines = {name: OutputLines(name) for name in self.streams.values()}
        self.loop.add_reader(self.channel, self._readable)

    # -- calls --------------------------------------------------------------------------------------------------------

    def start(self, call: ChildCall) -> bool:
        """Send a call; False if the process has ended and has not received it."""
        self.call, call.child = call, self
        self.calls += 1
        if self.pid is not None:
            self.busy_since = self.loop.time()
        head = len(call.frame).to_bytes(4, "little") + self.calls.to_bytes(4, "little")
        try:
            sent = os.writev(self.channel.fileno(), (head, call.frame))
        except OSError:
            self.call = call.child = None
            return False
        if sent < len(head) + len(call.frame):
            self.unsent = memoryview(head + call.frame)[sent:]
            self.loop.add_writer(self.channel, self._writable)
        return True

    def _writable(self) -> None:
        try:
            self.unsent = self.unsent[self.channel.send(self.unsent) :]
        except BlockingIOError:
            return
        except OSError:
            self.unsent = memoryview(b"")
        if not self.unsent:
            self.loop.remove_writer(self.channel)

    def _readable(self) -> None:
        try:
            chunk = self.channel.recv(READ_BYTES)
        except BlockingIOError:
            return
        except OSError:
            chunk = b""
        self.received += chunk
        if chunk and self._handle_response():
            return
        self.loop.remove_reader(self.channel)
        if not chunk and self.call is not None:  # most likely it has just ended, which is reported soon
            self.loop.call_later(ENDING_SECONDS, self._abort, "has closed its channel to the engine")
        else:
            self._abort("has written to its channel to the engine")

    def _abort(self, reason: str) -> None:
        if not self.gone.done():
            self.protocol_error = reason
            self.pool.kill(self)

    def _handle_response(self) -> bool:
        """Complete the call if the whole response is there; False if it is not a response."""
        received, call = self.received, self.call
        if len(received) < HEAD_BYTES:
            return True
        size = int.from_bytes(received[:4], "little")
        expected = call is not None and int.from_bytes(received[4:8], "little") == self.calls
        if call is None or not expected or size > MAX_RESPONSE_BYTES or len(received) > HEAD_BYTES + size:
            return False
        if len(received) < HEAD_BYTES + size:
            return True
        ok, worn_out = received[8] == 1, received[9] != 0
        self.received = bytearray()
        self.worn_out = self.worn_out or worn_out
        try:
            self._finish_output()
        finally:
            self.call = None
            del received[:HEAD_BYTES]  # without a copy
            if not call.response.done():
                call.response.set_result(ChildResponse(ok, received))
            self.pool.released(self)
        return True

    # -- output and end -----------------------------------------------------------------------------------------------

    def output(self, name: str, data: bytes) -> None:
        if not data:  # closed by the code
            self.worn_out = True
        elif self.call is not None:
            self.lines[name].feed(data, self.call.budget)

    def _finish_output(self) -> None:
        self.drain()
        for lines in self.lines.values():
            if self.call is not None:
                lines.end(self.call.budget)

    def started(self, pid: int) -> None:
        super().started(pid)
        self.busy_since = self.loop.time()

    def ended(self, reason: str, *, killed: bool) -> None:
        if self.loop.is_closed():
            self.close()
            return
        try:
            self._finish_output()
        finally:
            self.close()
            self.gone.set_result(None)
            call, self.call = self.call, None
            if call is not None:
                call.fail(f"the process {self.protocol_error if killed and self.protocol_error else reason}")
            self.pool.ended(self)
