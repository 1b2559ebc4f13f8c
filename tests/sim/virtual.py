"""Virtual time, and nodes: processes that share one event loop, and that can be stopped and killed.

Every callback of the loop belongs to the node in whose context it was made. A stopped node runs nothing until it goes
on, and then everything that came due meanwhile, as after SIGSTOP and SIGCONT. A killed node runs nothing ever again:
no `finally`, no cancellation.
"""

from __future__ import annotations

import asyncio
import os
import random
import secrets
import selectors
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from contextvars import Context, ContextVar, copy_context
from heapq import heappush
from random import Random
from typing import Any
from unittest.mock import patch

START_TIME = 1_700_000_000.0


class JumpingSelector(selectors.DefaultSelector):
    """Nothing comes from outside, so nothing is waited for: the time of the next timer is now."""

    def __init__(self) -> None:
        super().__init__()
        self.time = 0.0

    def select(self, timeout: float | None = None) -> Any:
        if timeout is None:
            raise AssertionError("deadlock: no task is ready and no timer is set")
        self.time += max(0.0, timeout)
        return []


class NodeHandle(asyncio.Handle):
    __slots__ = ()

    def _run(self) -> None:
        node = self._context.get(CURRENT)
        if node is None or node.runs(self):
            asyncio.Handle._run(self)


class NodeTimer(asyncio.TimerHandle):
    __slots__ = ()
    _run = NodeHandle._run


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop whose time is that of its selector, and whose callbacks belong to nodes."""

    def __init__(self) -> None:
        self.jumping = JumpingSelector()
        super().__init__(self.jumping)

    def time(self) -> float:
        return self.jumping.time

    def call_soon(self, callback: Any, *args: Any, context: Context | None = None) -> asyncio.Handle:
        handle = NodeHandle(callback, args, self, context)
        self._ready.append(handle)  # type: ignore[attr-defined]
        return handle

    call_soon_threadsafe = call_soon  # type: ignore[assignment]

    def call_at(self, when: float, callback: Any, *args: Any, context: Context | None = None) -> asyncio.TimerHandle:
        timer = NodeTimer(when, callback, args, self, context)
        heappush(self._scheduled, timer)  # type: ignore[attr-defined]
        timer._scheduled = True  # type: ignore[attr-defined]
        return timer


class VirtualClock:
    """The loop's time as a Clock."""

    def now(self) -> float:
        return START_TIME + asyncio.get_running_loop().time()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class Node:
    """A process with a clock of its own. It is a Clock."""

    def __init__(self, name: str, loop: VirtualLoop, random: Random) -> None:
        self.name, self.loop, self.random = name, loop, random
        self.offset = 0.0  # seconds by which its clock is ahead
        self.is_stopped = self.is_dead = False
        self.context = copy_context()
        self.context.run(CURRENT.set, self)
        self._held: list[asyncio.Handle] = []
        self._tasks: list[asyncio.Task[Any]] = []

    def now(self) -> float:
        return START_TIME + self.loop.time() + self.offset

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    def spawn(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Run a coroutine as a task of this node."""
        task: asyncio.Task[Any] = self.context.run(self.loop.create_task, work)
        self._tasks.append(task)
        return task

    def runs(self, handle: asyncio.Handle) -> bool:
        """Whether a callback runs now; a stopped node gets it later."""
        if self.is_dead or self.is_stopped:
            self._held.append(handle)
            return False
        return True

    def stop(self) -> None:
        self.is_stopped = True

    def go_on(self) -> None:
        self.is_stopped = False
        if not self.is_dead:
            self.loop._ready.extend(self._held)  # type: ignore[attr-defined]
            self._held = []

    def kill(self) -> None:
        self.is_dead = True


CURRENT: ContextVar[Node | None] = ContextVar("node", default=None)


@contextmanager
def virtual_processes() -> Iterator[None]:
    """Inside, the code of a node reads the clock of its node, and draws random numbers from it."""

    def virtual(real: Callable[..., Any], of_node: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any) -> Any:
            node = CURRENT.get()
            return real(*args) if node is None else of_node(node, *args)

        return call

    def monotonic(node: Node, *args: Any) -> float:
        return node.loop.time()

    def random_bytes(node: Node, count: int) -> bytes:
        return node.random.randbytes(count)

    replaced: list[tuple[Any, str, Callable[..., Any]]] = [
        (time, "time", Node.now),
        (time, "clock_gettime", monotonic),
        (random, "random", lambda node: node.random.random()),
        (os, "urandom", random_bytes),
        (secrets, "token_hex", lambda node, count: node.random.randbytes(count).hex()),
    ]
    import noetl.runtime.committer as committer

    replaced.append((committer, "perf_counter", monotonic))
    patches = [patch.object(place, name, virtual(getattr(place, name), of_node)) for place, name, of_node in replaced]
    for patched in patches:
        patched.start()
    try:
        yield
    finally:
        for patched in patches:
            patched.stop()
