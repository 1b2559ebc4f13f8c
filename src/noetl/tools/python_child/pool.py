"""Which child runs which call."""

from __future__ import annotations

import asyncio
import atexit
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
from noetl.tools.process.output import Budget
from noetl.tools.python_child.child import Answer, Call, Child, ChildDied

FEW = min(len(os.sched_getaffinity(0)), 4)
"""Children a lane gets at once, if it has as many calls."""
MOST = 64
"""Children in all."""
KEPT = 16
"""Children in all that may stay idle for longer than a moment."""
CALLS = 1000
"""Calls of a child's life."""
GROW_SECONDS = 0.005
"""When every child of an execution is busy for so long and calls wait, it gets more."""
SURPLUS_SECONDS = 1.0
IDLE_SECONDS = 30.0
DEATH_SECONDS = 10.0
INSIDE = os.path.join(os.path.dirname(__file__), "inside")
BOOT = Boot(("program", "plain"), "program.serve(control, lambda: confine.LIBC.fflush(None), plain)", (INSIDE,))
ALONE = """\
import sys
sys.path[:0] = folders = sys.argv.pop(1).split(":")
import program, plain, confine
del sys.path[:len(folders)], sys.modules["program"], sys.modules["plain"], sys.modules["confine"]
sys.argv = [""]
sys.path.insert(0, "")
program.serve(3, lambda: confine.LIBC.fflush(None), plain)
"""
"""A child that is no copy of the zygote, because it lives where the zygote does not."""


class Lane:
    """The children and waiting calls of one execution, one set of credentials and one sandbox."""

    __slots__ = ("children", "idle", "life", "name", "timer", "waiting")

    def __init__(self, name: str, life: dict[str, Any]) -> None:
        self.name, self.life = name, life
        self.children: set[Child] = set()
        self.idle: list[Child] = []
        """The one that was busy last is the first to be busy again."""
        self.waiting: deque[Call] = deque()
        self.timer: asyncio.TimerHandle | None = None


class Pool:
    """The children of one event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.launcher: Launcher | None = None
        self.lanes: dict[str, Lane] = {}
        self.children: dict[int, Child] = {}
        """Every child that is not gone yet, dying ones too."""
        self.alive = 0
        """Children that are not dying."""
        self.numbers = 0
        self.sweeper: asyncio.TimerHandle | None = None

    async def call(
        self, name: str, life: dict[str, Any], frame: bytes, log: Callable[[str, str], None], redact: Redact
    ) -> Answer:
        """Run a call in a child of that lane, which lives as `life` says. Cancelling kills it and what it started."""
        call = Call(frame, Budget(log, redact), self.loop.create_future())
        lane = self.lanes.get(name)
        if lane is None:
            lane = self.lanes[name] = Lane(name, life)
        lane.waiting.append(call)
        self.pump(lane)
        try:
            return await call.answer
        except asyncio.CancelledError:
            child = call.child
            if child is None:
                with suppress(ValueError):  # the pool was closed
                    lane.waiting.remove(call)
                self.tidy(lane)
            elif child.call is call:
                self.kill(child)
                self.staff_starving()
                await asyncio.wait((child.gone,), timeout=DEATH_SECONDS)
            raise

    # -- children come ------------------------------------------------------------------------------------------------

    def pump(self, lane: Lane) -> None:
        """Give waiting calls to idle children, or else to new ones."""
        while lane.waiting and lane.idle:
            child = lane.idle.pop()
            if child.start(lane.waiting[0]):
                lane.waiting.popleft()
            else:
                self.kill(child)  # it has died while it was idle
        if lane.waiting:
            self.staff(lane)

    def staff(self, lane: Lane) -> None:
        """Give waiting calls children of their own as far as that is fair, and see to the rest later."""
        while lane.waiting and len(lane.children) < FEW:
            if not self.hire(lane):
                break
        if lane.waiting and lane.timer is None:
            lane.timer = self.loop.call_later(GROW_SECONDS, self.grow, lane)

    def grow(self, lane: Lane) -> None:
        """Double the children of an execution if all of them seem to be stuck."""
        lane.timer = None
        stuck = self.loop.time() - GROW_SECONDS
        if all(child.busy_since is not None and child.busy_since <= stuck for child in lane.children):
            for _ in range(min(len(lane.waiting), max(1, len(lane.children)))):
                if not self.hire(lane):
                    break
        if lane.waiting:
            lane.timer = self.loop.call_later(GROW_SECONDS, self.grow, lane)

    def hire(self, lane: Lane) -> bool:
        """Fork a child for the first waiting call; False if there are as many as may be."""
        if self.alive >= MOST and not self.evict():
            return False
        self.numbers += 1
        child: Child | None = None
        try:
            child = Child(self, self.numbers, lane.name)
            self.launch().fork(child.number, child.theirs, lane.life | {"cwd": _folder()})
        except (BrokenPipeError, ConnectionResetError):
            assert child is not None
            child.close()
            return False  # the zygote has died: we are about to hear of it, then there will be another
        except OSError as error:
            if child is not None:
                child.close()
            lane.waiting.popleft().answer.set_exception(ChildDied(f"no process could be started: {error}"))
            return True
        self.children[child.number] = child
        self.alive += 1
        lane.children.add(child)
        child.start(lane.waiting.popleft())
        child.forked()
        return True

    def launch(self) -> Launcher:
        """The zygote; a new one if there is none, or no more."""
        if self.launcher is None:
            self.launcher = Launcher(self.loop, self.started, self.ended, BOOT)
        return self.launcher

    def evict(self) -> bool:
        """Kill the child that has been idle for longest, of whatever execution."""
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
        if child.worn or child.calls >= CALLS or self.must_yield(lane):
            self.kill(child)
            self.staff_starving()
        else:
            child.idle_since = self.loop.time()
            lane.idle.append(child)
            if lane.waiting:
                self.pump(lane)
            elif self.sweeper is None:
                self.sweeper = self.loop.call_later(SURPLUS_SECONDS, self.sweep)

    def must_yield(self, lane: Lane) -> bool:
        """Whether another execution has not a single child, and this one can spare one."""
        if self.alive < MOST or (lane.waiting and len(lane.children) == 1):
            return False
        return any(other.waiting and not other.children for other in self.lanes.values())

    def sweep(self) -> None:
        """Dismiss children that are idle for long, or are more than needed."""
        self.sweeper = None
        now = self.loop.time()
        idle = [child for lane in self.lanes.values() for child in lane.idle]
        for child in sorted(idle, key=lambda child: child.idle_since):
            rest = now - child.idle_since
            surplus = self.alive > KEPT or len(self.lanes[child.lane].children) > FEW
            if rest >= IDLE_SECONDS or (surplus and rest >= SURPLUS_SECONDS):
                self.kill(child)
        if any(lane.idle for lane in self.lanes.values()):
            self.sweeper = self.loop.call_later(SURPLUS_SECONDS, self.sweep)

    # -- children go --------------------------------------------------------------------------------------------------

    def kill(self, child: Child) -> None:
        """Have a child killed. It is not counted any more; `ended` comes when it is gone."""
        self.dismiss(child)
        if self.launcher is not None:
            self.launcher.kill(child.number)

    def dismiss(self, child: Child) -> None:
        """Take a child out of its lane."""
        lane = self.lanes.get(child.lane)
        if lane is None or child not in lane.children:
            return
        lane.children.remove(child)
        if child in lane.idle:
            lane.idle.remove(child)
        self.alive -= 1
        self.tidy(lane)

    def staff_starving(self) -> None:
        """There may be room for another child: those who have fewest come first."""
        short = [lane for lane in self.lanes.values() if lane.waiting and len(lane.children) < FEW]
        for lane in sorted(short, key=lambda lane: len(lane.children)):
            self.staff(lane)

    def tidy(self, lane: Lane) -> None:
        """Forget a lane that has nothing in it."""
        if not lane.children and not lane.waiting and self.lanes.get(lane.name) is lane:
            if lane.timer is not None:
                lane.timer.cancel()
            del self.lanes[lane.name]

    def ended(self, number: int | None, why: str, *, killed: bool = False) -> None:
        """A child is gone with all its descendants; without a number, the zygote and so all of them."""
        if number is None:
            self.launcher = None
            for child in list(self.children.values()):
                if child.pid is not None:
                    with suppress(ProcessLookupError, PermissionError):
                        os.killpg(child.pid, signal.SIGKILL)
                self.ended(child.number, f"died with the zygote, which {why}")
            self.staff_starving()
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
            if killed and child.fault is not None:
                why = child.fault
            if call is not None and not call.answer.done():
                call.answer.set_exception(ChildDied(f"the process {why}"))
            self.dismiss(child)
            self.staff_starving()

    def close(self) -> None:
        """End every process. Needs no running loop."""
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
                if not call.answer.done():
                    call.answer.set_exception(ChildDied("the pool of processes was closed"))
        self.children.clear()
        self.lanes.clear()
        self.alive = 0


def interpreter() -> tuple[list[str], list[str]]:
    """The command line of a child of its own, and the folders it needs."""
    folders = [OUTSIDE, INSIDE]
    return [sys.executable, "-P", "-c", ALONE, ":".join(folders)], folders


def _folder() -> str:
    try:
        return os.getcwd()
    except FileNotFoundError:
        return ""


_pools: dict[asyncio.AbstractEventLoop, Pool] = {}


def pool_of(loop: asyncio.AbstractEventLoop) -> Pool:
    """The pool of a loop. Pools whose loops were closed without a word end here."""
    pool = _pools.get(loop)
    if pool is None:
        for other in [other for other in _pools if other.is_closed()]:
            _pools.pop(other).close()
        pool = _pools[loop] = Pool(loop)
    return pool


def close_pool(loop: asyncio.AbstractEventLoop) -> None:
    pool = _pools.pop(loop, None)
    if pool is not None:
        pool.close()


_engine = os.getpid()


@atexit.register
def close_all() -> None:
    """End what nobody has closed; a forked copy of the engine leaves the engine's children alone."""
    if os.getpid() == _engine:
        for loop in list(_pools):
            close_pool(loop)
