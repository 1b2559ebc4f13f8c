"""The thread in which all calls of a store run.

A switch to another thread and back costs more than most queries. So calls that arrive while the thread is busy run in
one batch, and their results are delivered together. Equal reads of a batch, such as many lookups of one path, run once.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from time import perf_counter
from typing import Any, NamedTuple, TypeVar

Value = TypeVar("Value")

MAX_DELAY_SECONDS = 0.001
"""Maximum time for which a result waits for other results of its batch."""


class StoreCall(NamedTuple):
    """A call that has not run yet."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    future: asyncio.Future[Any]
    shared: bool


class StoreResult(NamedTuple):
    """The result of a call, not delivered yet."""

    future: asyncio.Future[Any]
    value: Any
    error: BaseException | None


class StoreThread(ThreadPoolExecutor):
    """Runs calls in one thread, in their order. Belongs to one event loop."""

    def __init__(self) -> None:
        super().__init__(1, "noetl-store")
        self._calls: deque[StoreCall] = deque()

    async def ask(self, function: Callable[..., Value], *arguments: Any) -> Value:
        """Call a function in the thread; returns its result, or raises its error."""
        return await self._put(function, arguments, shared=False)

    async def ask_shared(self, function: Callable[..., Value], *arguments: Any) -> Value:
        """The same for a function that only reads: equal calls that wait at the same time share one result, which is
        never older than the call."""
        return await self._put(function, arguments, shared=True)

    def _put(
        self, function: Callable[..., Value], arguments: tuple[Any, ...], *, shared: bool
    ) -> asyncio.Future[Value]:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Value] = loop.create_future()
        self._calls.append(StoreCall(function, arguments, future, shared))
        if len(self._calls) == 1:  # else the thread still has to take an earlier call, and takes this one with it
            try:
                self.submit(self._run_all, loop)
            except RuntimeError:  # the thread was shut down
                self._calls.clear()
                raise
        return future

    def _run_all(self, loop: asyncio.AbstractEventLoop) -> None:
        while self._calls:
            self._run_batch(loop, len(self._calls))

    def _run_batch(self, loop: asyncio.AbstractEventLoop, count: int) -> None:
        shared: dict[tuple[Any, ...], StoreResult] = {}
        results: list[StoreResult] = []
        since = perf_counter()
        for _ in range(count):
            results.append(_result_of(self._calls.popleft(), shared))
            if perf_counter() - since > MAX_DELAY_SECONDS:
                _send(loop, results)
                results, since = [], perf_counter()
        _send(loop, results)


def _result_of(call: StoreCall, shared: dict[tuple[Any, ...], StoreResult]) -> StoreResult:
    """The result of a call, or of an equal shared call of the batch: the whole batch was waiting before it ran."""
    function, arguments, future, is_shared = call
    if not is_shared:
        return _run(function, arguments, future)
    key = (function, *arguments)
    if key not in shared:
        shared[key] = _run(function, arguments, future)
    return shared[key]._replace(future=future)


def _run(function: Callable[..., Any], arguments: tuple[Any, ...], future: asyncio.Future[Any]) -> StoreResult:
    try:
        return StoreResult(future, function(*arguments), None)
    except BaseException as error:  # raised to the caller, as by any executor
        return StoreResult(future, None, error)


def _send(loop: asyncio.AbstractEventLoop, results: list[StoreResult]) -> None:
    if results and not loop.is_closed():
        loop.call_soon_threadsafe(_deliver, results)


def _deliver(results: list[StoreResult]) -> None:
    for future, value, error in results:
        if future.done():  # the caller was cancelled
            continue
        if error is None:
            future.set_result(value)
        else:
            future.set_exception(error)
