"""Which child runs which call."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from noetl.tools.base import Redact
from noetl.tools.process.launcher import INSIDE as OUTSIDE
from noetl.tools.process.launcher import Boot, Launcher
from noetl.tools.process.output import LogBudget
from noetl.tools.process.per_loop import PerLoop
from noetl.tools.python_child.child import Child, ChildCall, ChildDied, ChildResponse

CHILDREN_PER_LANE = min(len(os.sched_getaffinity(0)), 4)
"""Children that a lane gets at once, if it has as many calls."""
MAX_CHILDREN = 64
"""Of all lanes."""
MAX_IDLE = 16
"""Idle children of all lanes that are not surplus."""
MAX_CALLS = 1000
"""Calls of one child, after which it is replaced."""
GROW_SECONDS = 0.005
"""When every child of a lane is busy for so long and calls wait, it gets more."""
SURPLUS_SECONDS = 1.0
IDLE_SECONDS = 30.0
END_SECONDS = 10.0
INSIDE = os.path.join(os.path.dirname(__file__), "inside")
BOOT = Boot(("program", "plain"), "program.serve(control, lambda: confine.LIBC.fflush(None), plain)", (INSIDE,))
STANDALONE = """\
import sys
sys.path[:0] = folders = sys.argv.pop(1).split(":")
import program, plain, confine
del sys.path[:len(folders)], sys.modules["program"], sys.modules["plain"], sys.modules["confine"]
sys.argv = [""]
sys.path.insert(0, "")
program.serve(3, lambda: confine.LIBC.fflush(None), plain)
"""
"""The program of a child that is not forked from the zygote, because it runs in another sandbox."""


class Lane:
    """The children and waiting calls of one execution, one set of credentials and one sandbox."""

    __slots__ = ("children", "idle", "name", "settings", "timer", "waiting")

    def __init__(self, name: str, settings: dict[str, Any]) -> None:
        self.name, self.settings = name, settings
        self.children: set[Child] = set()
        self.idle: list[Child] = []
        """The last one is used first."""
        self.waiting: deque[ChildCall] = deque()
        self.timer: asyncio.TimerHandle | None = None


class ChildPool:
    """The children of one event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.launcher: Launcher | None = None
        self.lanes: dict[str, Lane] = {}
        self.children: dict[int, Child] = {}
        """All children, also those being killed."""
        self.alive = 0
        """Children that are not being killed."""
        self.numbers = 0
        self.sweeper: asyncio.TimerHandle | None = None

    async def call(
        self, name: str, settings: dict[str, Any], frame: bytes, log: Callable[[str, str], None], redact: Redact
    ) -> ChildResponse:
        """Run a call in a child of a lane with these settings. Cancelling kills the child and its descendants."""
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
                await asyncio.wait((child.gone,), timeout=END_SECONDS)
            raise

    # -- children come ------------------------------------------------------------------------------------------------

    def pump(self, lane: Lane) -> None:
        """Give waiting calls to idle children, or else to new ones."""
        while lane.waiting and lane.idle:
            child = lane.idle.pop()
            if child.start(lane.waiting[0]):
                lane.waiting.popleft()
            else:
                self.kill(child)  # it ended while it was idle
        if lane.waiting:
            self.add_children(lane)

    def add_children(self, lane: Lane) -> None:
        """Start children for waiting calls up to the limit of a lane, and check again later."""
        while lane.waiting and len(lane.children) < CHILDREN_PER_LANE:
            if not self.fork_child(lane):
                break
        if lane.waiting and lane.timer is None:
            lane.timer = self.loop.call_later(GROW_SECONDS, self.grow, lane)

    def grow(self, lane: Lane) -> None:
        """Double the children of a lane if all of them are busy for long."""
        lane.timer = None
        busy_before = self.loop.time() - GROW_SECONDS
        if all(child.busy_since is not None and child.busy_since <= busy_before for child in lane.children):
            for _ in range(min(len(lane.waiting), max(1, len(lane.children)))):
                if not self.fork_child(lane):
                    break
        if lane.waiting:
            lane.timer = self.loop.call_later(GROW_SECONDS, self.grow, lane)

    def fork_child(self, lane: Lane) -> bool:
        """Fork a child for the first waiting call; False at the limit."""
        if self.alive >= MAX_CHILDREN and not self.evict():
            return False
        self.numbers += 1
        child: Child | None = None
        try:
            child = Child(self, self.numbers, lane.name)
            self.launch().fork(child.number, child.theirs, lane.settings | {"cwd": _folder()})
        except (BrokenPipeError, ConnectionResetError):
            assert child is not None
            child.close()
            return False  # the zygote has ended, which `ended` will report: then there will be another
        except OSError as error:
            if child is not None:
                child.close()
            lane.waiting.popleft().response.set_exception(ChildDied(f"no process could be started: {error}"))
            return True
        self.children[child.number] = child
        self.alive += 1
        lane.children.add(child)
        child.start(lane.waiting.popleft())
        child.forked()
        return True

    def launch(self) -> Launcher:
        """The zygote, started if it does not run."""
        if self.launcher is None:
            self.launcher = Launcher(self.loop, self.started, self.ended, BOOT)
        return self.launcher

    def evict(self) -> bool:
        """Kill the child that was idle for the longest time, of any lane."""
        idle = [child for lane in self.lanes.values() for child in lane.idle]
        if not idle:
            return False
        self.kill(min(idle, key=lambda child: child.idle_since))
        return True

    def started(self, number: int, pid: int) -> None:
        child = self.children.get(number)
        if child is not None:
            child.pid, child.busy_since = pid, self.loop.time()

    # -- children are free --------------------------------------------------------------------------------------------

    def released(self, child: Child) -> None:
        lane = self.lanes.get(child.lane)
        if lane is None or child not in lane.children:
            return  # it is being killed
        if child.worn_out or child.calls >= MAX_CALLS or self.must_yield(lane):
            self.kill(child)
            self.add_children_everywhere()
        else:
            child.idle_since = self.loop.time()
            lane.idle.append(child)
            if lane.waiting:
                self.pump(lane)
            elif self.sweeper is None:
                self.sweeper = self.loop.call_later(SURPLUS_SECONDS, self.sweep)

    def must_yield(self, lane: Lane) -> bool:
        """Whether another lane has no child at all, and this one has one to spare."""
        if self.alive < MAX_CHILDREN or (lane.waiting and len(lane.children) == 1):
            return False
        return any(other.waiting and not other.children for other in self.lanes.values())

    def sweep(self) -> None:
        """Kill children that are idle for long, or surplus."""
        self.sweeper = None
        now = self.loop.time()
        idle = [child for lane in self.lanes.values() for child in lane.idle]
        for child in sorted(idle, key=lambda child: child.idle_since):
            rest = now - child.idle_since
            surplus = self.alive > MAX_IDLE or len(self.lanes[child.lane].children) > CHILDREN_PER_LANE
            if rest >= IDLE_SECONDS or (surplus and rest >= SURPLUS_SECONDS):
                self.kill(child)
        if any(lane.idle for lane in self.lanes.values()):
            self.sweeper = self.loop.call_later(SURPLUS_SECONDS, self.sweep)

    # -- children go --------------------------------------------------------------------------------------------------

    def kill(self, child: Child) -> None:
        """Kill a child. It no longer counts; `ended` follows."""
        self.detach(child)
        if self.launcher is not None:
            self.launcher.kill(child.number)

    def detach(self, child: Child) -> None:
        """Remove a child from its lane."""
        lane = self.lanes.get(child.lane)
        if lane is None or child not in lane.children:
            return
        lane.children.remove(child)
        if child in lane.idle:
            lane.idle.remove(child)
        self.alive -= 1
        self.remove_if_empty(lane)

    def add_children_everywhere(self) -> None:
        """Start children for waiting calls; lanes with the fewest children come first."""
        short = [lane for lane in self.lanes.values() if lane.waiting and len(lane.children) < CHILDREN_PER_LANE]
        for lane in sorted(short, key=lambda lane: len(lane.children)):
            self.add_children(lane)

    def remove_if_empty(self, lane: Lane) -> None:
        """Remove an empty lane."""
        if not lane.children and not lane.waiting and self.lanes.get(lane.name) is lane:
            if lane.timer is not None:
                lane.timer.cancel()
            del self.lanes[lane.name]

    def ended(self, number: int | None, reason: str, *, killed: bool = False) -> None:
        """A child has ended with all its descendants; without a number the zygote has, and so all of them."""
        if number is None:
            self.launcher = None
            for child in list(self.children.values()):
                if child.pid is not None:
                    with suppress(ProcessLookupError, PermissionError):
                        os.killpg(child.pid, signal.SIGKILL)
                self.ended(child.number, f"ended with the zygote, which {reason}")
            self.add_children_everywhere()
            return
        if number not in self.children:
            return
        child = self.children.pop(number)
        try:
            child.finish_output()
        finally:
            child.close()
            child.gone.set_result(None)
            call, child.call = child.call, None
            if killed and child.protocol_error is not None:
                reason = child.protocol_error
            if call is not None and not call.response.done():
                call.response.set_exception(ChildDied(f"the process {reason}"))
            self.detach(child)
            self.add_children_everywhere()

    def close(self) -> None:
        """End all processes. Needs no running loop."""
        launcher, self.launcher = self.launcher, None
        if launcher is not None:
            launcher.close()
        if self.sweeper is not None:
            self.sweeper.cancel()
        calls = [child.call for child in self.children.values() if child.call is not None]
        for lane in self.lanes.values():
            calls.extend(lane.waiting)
            lane.waiting.clear()
            if lane.timer is not None:
                lane.timer.cancel()
        for child in self.children.values():
            child.close()
        if not self.loop.is_closed():
            for child in self.children.values():
                child.gone.set_result(None)
            for call in calls:
                if not call.response.done():
                    call.response.set_exception(ChildDied("the pool of processes was closed"))
        self.children.clear()
        self.lanes.clear()
        self.alive = 0


def interpreter() -> tuple[list[str], list[str]]:
    """The command line of a standalone child, and the folders it needs."""
    folders = [OUTSIDE, INSIDE]
    return [sys.executable, "-P", "-c", STANDALONE, ":".join(folders)], folders


def _folder() -> str:
    try:
        return os.getcwd()
    except FileNotFoundError:
        return ""


POOLS = PerLoop(ChildPool)
