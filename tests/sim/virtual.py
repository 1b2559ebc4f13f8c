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
import time
from collections import deque
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from contextvars import Context, ContextVar, copy_context
from functools import partial
from heapq import heappop, heappush
from itertools import count
from random import Random
from typing import Any
from unittest.mock import patch

START_TIME = 1_700_000_000.0


class VirtualHandle:
    """A callback, which belongs to the node of its context."""

    __slots__ = ("args", "callback", "context", "is_cancelled", "node", "time")

    def __init__(self, time: float, callback: Any, args: tuple[Any, ...], context: Context | None) -> None:
        self.time, self.callback, self.args, self.is_cancelled = time, callback, args, False
        self.context = context if context is not None else copy_context()
        self.node = self.context.get(CURRENT)

    def when(self) -> float:
        return self.time

    def cancel(self) -> None:
        self.is_cancelled = True
        self.callback = self.args = None  # type: ignore[assignment]

    def cancelled(self) -> bool:
        return self.is_cancelled


class VirtualLoop(asyncio.BaseEventLoop):
    """An event loop in which nothing comes from outside: when no callback is ready, the time of the next timer is now.

    It has its own queues, since most of the cost of a seed is that of the loop."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.ready: deque[VirtualHandle] = deque()
        self._timers: list[tuple[float, int, VirtualHandle]] = []
        self._numbers = count()
        self.create_future = partial(asyncio.Future, loop=self)  # type: ignore[method-assign]
        self.get_debug = bool  # type: ignore[method-assign]  # returns False, without a call of Python code

    def time(self) -> float:
        return self.now

    def create_task(self, coro: Any, **options: Any) -> asyncio.Task[Any]:
        return asyncio.Task(coro, loop=self, **options)

    def call_soon(self, callback: Any, *args: Any, context: Context | None = None) -> Any:
        handle = VirtualHandle(self.now, callback, args, context)
        self.ready.append(handle)
        return handle

    call_soon_threadsafe = call_soon

    def call_at(self, when: float, callback: Any, *args: Any, context: Context | None = None) -> Any:
        handle = VirtualHandle(when, callback, args, context)
        heappush(self._timers, (when, next(self._numbers), handle))
        return handle

    def call_later(self, delay: float, callback: Any, *args: Any, context: Context | None = None) -> Any:
        return self.call_at(self.now + delay, callback, *args, context=context)

    def _run_once(self) -> None:
        """Run all callbacks until the loop is stopped."""
        ready, timers = self.ready, self._timers
        while not self._stopping:  # type: ignore[attr-defined]
            if not ready:
                if not timers:
                    raise AssertionError("deadlock: no task is ready and no timer is set")
                when, _, timer = heappop(timers)
                if not timer.is_cancelled:
                    self.now = max(self.now, when)
                    ready.append(timer)
                continue
            handle = ready.popleft()
            node = handle.node
            if handle.is_cancelled:
                continue
            if node is not None and node.is_halted:
                node.hold(handle)
                continue
            try:
                handle.context.run(handle.callback, *handle.args)
            except (SystemExit, KeyboardInterrupt):
                raise
            except BaseException as error:  # as any event loop does
                self.call_exception_handler({"message": "error in a callback", "exception": error})


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
        self.is_stopped = self.is_dead = self.is_halted = False
        self.context = copy_context()
        self.context.run(CURRENT.set, self)
        self._held: list[VirtualHandle] = []
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

    def hold(self, handle: VirtualHandle) -> None:
        """Keep a callback of a halted node, which runs it when it goes on."""
        self._held.append(handle)

    def stop(self) -> None:
        self.is_stopped = self.is_halted = True

    def go_on(self) -> None:
        self.is_stopped, self.is_halted = False, self.is_dead
        if not self.is_dead:
            self.loop.ready.extend(self._held)
            self._held = []

    def kill(self) -> None:
        self.is_dead = self.is_halted = True


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
