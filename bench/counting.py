"""A process in which the same work always does the same: no threads, no real time, no chance.

`Counters.install` must run before anything of noetl is imported. Time stands still while there is work and jumps to the
next timer when there is none; executors run their calls at once; random numbers come from a fixed seed. So the counts
of a run depend on the code alone.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import gc
import os
import random
import selectors
import sys
import time
from collections import Counter
from collections.abc import Callable, Coroutine
from pathlib import Path
from types import FrameType
from typing import Any, TypeVar

import apsw

Value = TypeVar("Value")
Counts = dict[str, int]

HARNESS = str(Path(__file__).parent)
"""Calls made by files of this folder are not counted."""
START_SECONDS = 1_800_000_000.0
PROCESS = 10_000
BASE = "unix"
"""The file system of SQLite below the one that counts."""
NANOSECONDS = 1_000_000_000


class VirtualTime:
    """The time of the process in seconds since the epoch."""

    def __init__(self) -> None:
        self.now = START_SECONDS

    def install(self) -> None:
        """Replace the clocks of the standard library."""
        for name in ("time", "monotonic", "perf_counter"):
            setattr(time, name, lambda: self.now)
            setattr(time, f"{name}_ns", lambda: int(self.now * NANOSECONDS))
        time.clock_gettime = lambda clock: self.now


class VirtualSelector(selectors.DefaultSelector):
    """Moves the time forward instead of waiting."""

    def __init__(self, clock: VirtualTime) -> None:
        super().__init__()
        self.clock = clock

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if ready:
            return list(ready)
        if timeout is None:
            raise RuntimeError("nothing is left to do, and no timer is set")
        self.clock.now += max(timeout, 0)
        return []


class CountingFile(apsw.VFSFile):
    """A file of SQLite. It counts syncs instead of waiting for the disk."""

    def __init__(self, name: str | apsw.URIFilename | None, flags: list[int], counts: Counter[str]) -> None:
        super().__init__(BASE, name, flags)
        self.counts = counts

    def xWrite(self, data: bytes, offset: int) -> None:
        self.counts["bytes_written"] += len(data)
        super().xWrite(data, offset)

    def xSync(self, flags: int) -> None:
        self.counts["fsyncs"] += 1


class CountingFiles(apsw.VFS):
    """The default file system of SQLite in this process."""

    def __init__(self, counts: Counter[str]) -> None:
        super().__init__("counting", BASE, makedefault=True)
        self.counts = counts

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> CountingFile:
        return CountingFile(name, flags, self.counts)


class Counters:
    """Counts calls, statements, writes and syncs of this process."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.clock = VirtualTime()
        self.files: CountingFiles | None = None

    def install(self) -> None:
        self.clock.install()
        gc.disable()
        numbers = random.Random(0)
        os.urandom = numbers.randbytes
        random.seed(0)
        os.getpid = lambda: PROCESS
        concurrent.futures.ThreadPoolExecutor.submit = _submit  # type: ignore[method-assign]
        self.files = CountingFiles(self.counts)
        apsw.connection_hooks.append(self._trace)

    def run(self, work: Coroutine[Any, Any, Value]) -> Value:
        """The result of a coroutine in a loop of this process."""
        loop = asyncio.SelectorEventLoop(VirtualSelector(self.clock))
        try:
            return loop.run_until_complete(work)
        finally:
            loop.close()

    async def of(self, work: Coroutine[Any, Any, object]) -> Counts:
        """What a coroutine, and whatever runs beside it, counts."""
        self.counts.clear()
        sys.setprofile(self._profile)
        try:
            await work
        finally:
            sys.setprofile(None)
        return dict(self.counts)

    def _profile(self, frame: FrameType, event: str, argument: object) -> None:
        if event == "call":
            if not frame.f_code.co_filename.startswith(HARNESS):
                self.counts["python_calls"] += 1
        elif event == "c_call" and not frame.f_code.co_filename.startswith(HARNESS):
            self.counts["c_calls"] += 1

    def _trace(self, connection: apsw.Connection) -> None:
        connection.trace_v2(apsw.SQLITE_TRACE_STMT, self._statement)

    def _statement(self, event: dict[str, Any]) -> None:
        self.counts["sql_statements"] += 1


def _submit(
    executor: concurrent.futures.Executor, call: Callable[..., Value], /, *arguments: Any, **named: Any
) -> concurrent.futures.Future[Value]:
    """Run a call at once, in the thread of its caller."""
    future: concurrent.futures.Future[Value] = concurrent.futures.Future()
    try:
        future.set_result(call(*arguments, **named))
    except BaseException as error:
        future.set_exception(error)
    return future
