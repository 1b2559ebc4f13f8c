"""The thread in which all calls of a store run.

A switch to another thread and back costs more than most queries. So calls that arrive while the thread is busy run in
one batch, and their results are delivered together. Equal reads of a batch, such as many lookups of one path, run once.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from time import perf_counter
from typing import Any, NamedTuple, TypeVar

Value = TypeVar("Value")
InStore = Callable[..., Awaitable[Any]]  # calls a function with arguments in the thread of a store
Result = tuple[Any, BaseException | None]

MAX_DELAY_SECONDS = 0.001  # maximum time for which a result waits for other results of its batch


class StoreCall(NamedTuple):
    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    future: asyncio.Future[Any]
    shared: bool

    def run(self) -> Result:
        try:
            return self.function(*self.arguments), None
        except BaseException as error:  # raised to the caller, as by any executor
            return None, error


class StoreThread(ThreadPoolExecutor):
    """Runs calls in one thread, in their order. Belongs to one event loop."""

    def __init__(self) -> None:
        super().__init__(1, "noetl-store")
        self._calls: deque[StoreCall] = deque()

    def ask(self, function: Callable[..., Value], *arguments: Any, shared: bool = False) -> asyncio.Future[Value]:
        """Call a function in the thread. `shared` is for a function that only reads: equal calls that wait at the same
        time share one result, which is never older than the call."""
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
        while count := len(self._calls):
            of_equal_calls: dict[tuple[Any, ...], Result] = {}
            results: list[tuple[asyncio.Future[Any], Result]] = []
            since = perf_counter()
            for rest in reversed(range(count)):
                call = self._calls.popleft()
                if call.shared:  # the whole batch was waiting before its first call ran
                    key = (call.function, *call.arguments)
                    result = of_equal_calls[key] = of_equal_calls.get(key) or call.run()
                else:
                    result = call.run()
                results.append((call.future, result))
                if not rest or perf_counter() - since > MAX_DELAY_SECONDS:
                    if not loop.is_closed():
                        loop.call_soon_threadsafe(_deliver, results)
                    results, since = [], perf_counter()


def _deliver(results: list[tuple[asyncio.Future[Any], Result]]) -> None:
    for future, (value, error) in results:
        if future.done():  # the caller was cancelled
            continue
        if error is None:
            future.set_result(value)
        else:
            future.set_exception(error)
