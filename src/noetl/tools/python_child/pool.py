"""The children of `kind: python`: which of them runs which call."""

from __future__ import annotations

import asyncio
import os
import sys
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from msgspec import Struct, field

from noetl.model.outcome import Failure
from noetl.tools.base import Redact
from noetl.tools.process.launcher import INSIDE as PROCESS_INSIDE
from noetl.tools.process.launcher import READ_BYTES, ForkedChild, Launcher, PerLoop, program_of
from noetl.tools.process.output import LogBudget, OutputLines

CHILDREN_PER_LANE = min(len(os.sched_getaffinity(0)), 4)
MAX_CHILDREN = 64
MAX_IDLE = 16
"""Idle children of all lanes that are not surplus."""
MAX_CALLS = 1000
GROW_SECONDS = 0.005
"""When every child of a lane is busy for so long and calls wait, it gets more."""
SURPLUS_SECONDS = 1.0
IDLE_SECONDS = 30.0
KILL_SECONDS = 10.0
ENDING_SECONDS = 3.0
"""Longer than it takes until the end of a child is reported, also on a busy machine."""
MAX_RESPONSE_BYTES = 256 * 1024 * 1024
HEAD_BYTES = 10
INSIDE = os.path.join(os.path.dirname(__file__), "inside")
SERVE = "program.Runner(control, lambda: linux.LIBC.fflush(None), plain).run()"
START = "sys.argv = ['']\nsys.path.insert(0, '')\ncontrol = 3\n"
STANDALONE = program_of(("program", "plain", "linux"), START + SERVE)
"""The program of a child that is not forked from the zygote, because it runs in another sandbox."""


class ChildCall(Struct, eq=False):
    frame: bytes
    budget: LogBudget
    response: asyncio.Future[tuple[bool, bytearray]]
    child: PythonChild | None = None

    def fail(self, message: str, *, retryable: bool = False) -> None:
        if not self.response.done():
            self.response.set_exception(Failure("python", message, retryable=retryable))


class Lane(Struct, eq=False):
    """The children and waiting calls of one execution, one set of credentials and one sandbox."""

    name: str
    settings: dict[str, Any]
    children: set[PythonChild] = set()
    idle: list[PythonChild] = []
    waiting: deque[ChildCall] = field(default_factory=deque)
    timer: asyncio.TimerHandle | None = None


class ChildPool:
    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.launcher = Launcher(loop, ("program", "plain"), SERVE, (INSIDE,))
        self.lanes: dict[str, Lane] = {}
        self.alive = 0
        """Children that are not being killed."""
        self.sweeper: asyncio.TimerHandle | None = None

    async def call(
        self, name: str, settings: dict[str, Any], frame: bytes, log: Callable[[str, str], None], redact: Redact
    ) -> tuple[bool, bytearray]:
        """Run a call in a child of a lane with these settings: whether it succeeded, and its result or error as JSON.
        Failure if the child ends. Cancelling kills it and its descendants."""
        call = ChildCall(frame, LogBudget(log, redact), self.loop.create_future())
        lane = self.lanes.get(name)
        if lane is None:
            lane = self.lanes[name] = Lane(name, settings)
        lane.waiting.append(call)
        self.pump(lane)
        try:
            return await call.response
        except asyncio.CancelledError:
            child = call.child
            if child is None:
                with suppress(ValueError):  # the pool was closed
                    lane.waiting.remove(call)
                self.remove_if_empty(lane)
            elif child.call is call:
                self.kill(child)
                self.add_children_everywhere()
                await asyncio.wait((child.gone,), timeout=KILL_SECONDS)
            raise

    def pump(self, lane: Lane) -> None:
        while lane.waiting and lane.idle:
            child = lane.idle.pop()
            if child.start(lane.waiting[0]):
                lane.waiting.popleft()
            else:
                self.kill(child)  # it ended while it was idle
        if lane.waiting:
            self.add_children(lane)

    def add_children(self, lane: Lane) -> None:
        while lane.waiting and len(lane.children) < CHILDREN_PER_LANE and self.fork_child(lane):
            pass
        if lane.waiting and lane.timer is None:
            lane.timer = self.loop.call_later(GROW_SECONDS, self.grow, lane)

    def grow(self, lane: Lane) -> None:
        busy_before = self.loop.time() - GROW_SECONDS
        if all(child.busy_since is not None and child.busy_since <= busy_before for child in lane.children):
            for _ in range(min(len(lane.waiting), max(1, len(lane.children)))):
                if not self.fork_child(lane):
                    break
        lane.timer = self.loop.call_later(GROW_SECONDS, self.grow, lane) if lane.waiting else None

    def fork_child(self, lane: Lane) -> bool:
        """Fork a child for the first waiting call; False at the limit, when no child is idle that could be killed."""
        if self.alive >= MAX_CHILDREN:
            if not (idle := self.idle_children()):
                return False
            self.kill(idle[0])
        folder, child = "", None
        with suppress(FileNotFoundError):
            folder = os.getcwd()
        try:
            child = PythonChild(self, lane)
            self.launcher.fork(child, lane.settings | {"cwd": folder})
        except OSError as error:
            if child is not None:
                child.close()
            if isinstance(error, BrokenPipeError | ConnectionResetError):
                return False  # the zygote has ended: as soon as the launcher knows, there will be another
            lane.waiting.popleft().fail(f"no process could be started: {error}", retryable=True)
            return True
        self.alive += 1
        lane.children.add(child)
        child.start(lane.waiting.popleft())
        return True

    def idle_children(self) -> list[PythonChild]:
        idle = [child for lane in self.lanes.values() for child in lane.idle]
        return sorted(idle, key=lambda child: child.idle_since)

    def released(self, child: PythonChild) -> None:
        lane = child.lane
        if child not in lane.children:
            return  # it is being killed
        spare = self.alive >= MAX_CHILDREN and not (lane.waiting and len(lane.children) == 1)
        needed = spare and any(other.waiting and not other.children for other in self.lanes.values())
        if child.worn_out or child.calls >= MAX_CALLS or needed:
            self.kill(child)
            self.add_children_everywhere()
            return
        child.idle_since = self.loop.time()
        lane.idle.append(child)
        if lane.waiting:
            self.pump(lane)
        elif self.sweeper is None:
            self.sweeper = self.loop.call_later(SURPLUS_SECONDS, self.sweep)

    def sweep(self) -> None:
        self.sweeper = None
        now = self.loop.time()
        for child in self.idle_children():
            rest = now - child.idle_since
            surplus = self.alive > MAX_IDLE or len(child.lane.children) > CHILDREN_PER_LANE
            if rest >= IDLE_SECONDS or (surplus and rest >= SURPLUS_SECONDS):
                self.kill(child)
        if self.idle_children():
            self.sweeper = self.loop.call_later(SURPLUS_SECONDS, self.sweep)

    def kill(self, child: PythonChild) -> None:
        """Kill a child. It no longer counts; its `ended` follows."""
        self.detach(child)
        self.launcher.kill(child)

    def detach(self, child: PythonChild) -> None:
        lane = child.lane
        if child in lane.children:
            lane.children.remove(child)
            if child in lane.idle:
                lane.idle.remove(child)
            self.alive -= 1
            self.remove_if_empty(lane)

    def add_children_everywhere(self) -> None:
        short = [lane for lane in self.lanes.values() if lane.waiting and len(lane.children) < CHILDREN_PER_LANE]
        for lane in sorted(short, key=lambda lane: len(lane.children)):
            self.add_children(lane)

    def remove_if_empty(self, lane: Lane) -> None:
        if not lane.children and not lane.waiting and self.lanes.get(lane.name) is lane:
            if lane.timer is not None:
                lane.timer.cancel()
            del self.lanes[lane.name]

    def close(self) -> None:
        """End all processes. Needs no running loop."""
        if self.sweeper is not None:
            self.sweeper.cancel()
        lanes, self.lanes, self.alive = self.lanes, {}, 0
        for lane in lanes.values():
            if lane.timer is not None:
                lane.timer.cancel()
            calls = [call for call in (*(child.call for child in lane.children), *lane.waiting) if call is not None]
            lane.children.clear()
            lane.waiting.clear()
            for call in calls if not self.loop.is_closed() else ():
                call.fail("the pool of processes was closed")
        self.launcher.close()


class PythonChild(ForkedChild):
    def __init__(self, pool: ChildPool, lane: Lane) -> None:
        super().__init__(pool.launcher)
        self.pool, self.lane = pool, lane
        self.call: ChildCall | None = None
        self.calls = 0
        self.worn_out = False
        self.protocol_error: str | None = None
        self.busy_since: float | None = None
        """None while it is being forked."""
        self.idle_since = 0.0
        self.gone: asyncio.Future[None] = self.loop.create_future()
        self.unsent = memoryview(b"")
        self.received = bytearray()
        self.lines = {name: OutputLines(name) for name in self.streams.values()}
        self.loop.add_reader(self.channel, self._readable)

    def start(self, call: ChildCall) -> bool:
        """Send a call; False if the process has ended and has not received it."""
        self.call, call.child = call, self
        self.calls += 1
        if self.pid is not None:
            self.busy_since = self.loop.time()
        head = len(call.frame).to_bytes(4, "little") + self.calls.to_bytes(4, "little")
        try:
            written = os.writev(self.channel.fileno(), (head, call.frame))
        except OSError:
            self.call = call.child = None
            return False
        if written < len(head) + len(call.frame):
            self.unsent = memoryview(head + call.frame)[written:]
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
                call.response.set_result((ok, received))
            self.pool.released(self)
        return True

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

    def ended(self, reason: str, *, lost: bool) -> None:
        if self.loop.is_closed():
            self.close()
            return
        try:
            self._finish_output()
        finally:
            self.close()
            self.gone.set_result(None)
            call, self.call = self.call, None
            if call is not None and lost and self.protocol_error:
                call.fail(f"the process {self.protocol_error}")
            elif call is not None:
                call.fail(f"the process {reason}", retryable=lost)
            self.pool.detach(self)
            self.pool.add_children_everywhere()


def interpreter() -> tuple[list[str], list[str]]:
    folders = [PROCESS_INSIDE, INSIDE]
    return [sys.executable, "-P", "-c", STANDALONE, ":".join(folders)], folders


POOLS = PerLoop(ChildPool)
