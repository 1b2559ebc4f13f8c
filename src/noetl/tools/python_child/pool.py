"""Which child runs which call."""

from __future__ import annotations

import asyncio
import os
import sys
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from noetl.tools.base import Redact
from noetl.tools.process.launcher import INSIDE as PROCESS_INSIDE
from noetl.tools.process.launcher import Launcher, PerLoop, program_of
from noetl.tools.process.output import LogBudget
from noetl.tools.python_child.child import ChildCall, ChildResponse, PythonChild

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
KILL_SECONDS = 10.0
INSIDE = os.path.join(os.path.dirname(__file__), "inside")
SERVE = "program.serve(control, lambda: confine.LIBC.fflush(None), plain)"
STANDALONE = program_of(
    ("program", "plain", "confine"), f"sys.argv = ['']\nsys.path.insert(0, '')\ncontrol = 3\n{SERVE}"
)
"""The program of a child that is not forked from the zygote, because it runs in another sandbox."""


class Lane:
    """The children and waiting calls of one execution, one set of credentials and one sandbox."""

    __slots__ = ("children", "idle", "name", "settings", "timer", "waiting")

    def __init__(self, name: str, settings: dict[str, Any]) -> None:
        self.name, self.settings = name, settings
        self.children: set[PythonChild] = set()
        self.idle: list[PythonChild] = []
        """The last one is used first."""
        self.waiting: deque[ChildCall] = deque()
        self.timer: asyncio.TimerHandle | None = None


class ChildPool:
    """The children of one event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.launcher = Launcher(loop, ("program", "plain"), SERVE, (INSIDE,))
        self.lanes: dict[str, Lane] = {}
        self.alive = 0
        """Children that are not being killed."""
        self.sweeper: asyncio.TimerHandle | None = None

    async def call(
        self, name: str, settings: dict[str, Any], frame: bytes, log: Callable[[str, str], None], redact: Redact
    ) -> ChildResponse:
        """Run a call in a child of a lane with these settings; ChildDied if that child ends.

        Cancelling kills the child and its descendants.
        """
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
        child: PythonChild | None = None
        try:
            child = PythonChild(self, lane)
            child.fork(lane.settings | {"cwd": _folder()})
        except OSError as error:
            if child is not None:
                child.close()
            if isinstance(error, BrokenPipeError | ConnectionResetError):
                return False  # the zygote has ended: as soon as the launcher knows, there will be another
            lane.waiting.popleft().fail(f"no process could be started: {error}")
            return True
        self.alive += 1
        lane.children.add(child)
        child.start(lane.waiting.popleft())
        return True

    def evict(self) -> bool:
        """Kill the child that is idle for the longest time, if there is one."""
        for child in self.idle_children()[:1]:
            self.kill(child)
            return True
        return False

    def idle_children(self) -> list[PythonChild]:
        """Of all lanes, those that are idle for the longest time first."""
        idle = [child for lane in self.lanes.values() for child in lane.idle]
        return sorted(idle, key=lambda child: child.idle_since)

    # -- children are free --------------------------------------------------------------------------------------------

    def released(self, child: PythonChild) -> None:
        lane = child.lane
        if child not in lane.children:
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
        for child in self.idle_children():
            rest = now - child.idle_since
            surplus = self.alive > MAX_IDLE or len(child.lane.children) > CHILDREN_PER_LANE
            if rest >= IDLE_SECONDS or (surplus and rest >= SURPLUS_SECONDS):
                self.kill(child)
        if self.idle_children():
            self.sweeper = self.loop.call_later(SURPLUS_SECONDS, self.sweep)

    # -- children go --------------------------------------------------------------------------------------------------

    def kill(self, child: PythonChild) -> None:
        """Kill a child. It no longer counts; `ended` follows."""
        self.detach(child)
        child.kill()

    def ended(self, child: PythonChild) -> None:
        self.detach(child)
        self.add_children_everywhere()

    def detach(self, child: PythonChild) -> None:
        lane = child.lane
        if child in lane.children:
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
            calls = [*(child.call for child in lane.children), *lane.waiting]
            lane.children.clear()
            lane.waiting.clear()
            for call in calls if not self.loop.is_closed() else ():
                if call is not None:
                    call.fail("the pool of processes was closed")
        self.launcher.close()


def interpreter() -> tuple[list[str], list[str]]:
    """The command line of a standalone child, and the folders it needs."""
    folders = [PROCESS_INSIDE, INSIDE]
    return [sys.executable, "-P", "-c", STANDALONE, ":".join(folders)], folders


def _folder() -> str:
    try:
        return os.getcwd()
    except FileNotFoundError:
        return ""


POOLS = PerLoop(ChildPool)
