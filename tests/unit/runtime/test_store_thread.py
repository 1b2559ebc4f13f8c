"""The thread of a store: calls run in order, results are delivered together, equal shared calls run once."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any

import pytest
from tests.servers.patience import PATIENCE_SECONDS

from noetl.runtime.store_thread import StoreThread


def ran(story: Coroutine[Any, Any, None]) -> None:
    async def in_time() -> None:
        async with asyncio.timeout(PATIENCE_SECONDS):
            await story

    asyncio.run(in_time())


def test_calls_run_in_order() -> None:
    heard: list[int] = []

    def hear(number: int) -> int:
        heard.append(number)
        return number * 2

    async def story() -> None:
        thread = StoreThread()
        assert await asyncio.gather(*(thread.ask(hear, number) for number in range(100))) == [
            2 * number for number in range(100)
        ]
        thread.shutdown()

    ran(story())
    assert heard == list(range(100))


def test_equal_shared_calls_run_once_while_the_thread_is_busy() -> None:
    go_on, looks = threading.Event(), []

    def look(what: str) -> str:
        looks.append(what)
        return what.upper()

    async def story() -> None:
        thread = StoreThread()
        busy = thread.ask(go_on.wait, 30)
        await asyncio.sleep(0)
        asked = [thread.ask(look, name, shared=True) for name in "aabab"]
        await asyncio.sleep(0)
        go_on.set()
        assert await asyncio.gather(*asked) == list("AABAB")
        assert await thread.ask(look, "a", shared=True) == "A"
        await busy
        thread.shutdown()

    ran(story())
    assert looks == ["a", "b", "a"]


def test_an_error_is_raised_to_its_caller() -> None:
    def fail() -> None:
        raise ValueError("no")

    async def story() -> None:
        thread = StoreThread()
        fine = thread.ask(lambda: 1)
        with pytest.raises(ValueError, match="no"):
            await thread.ask(fail)
        assert await fine == 1
        thread.shutdown()

    ran(story())


def test_a_cancelled_caller_does_not_block_others() -> None:
    go_on = threading.Event()

    async def story() -> None:
        thread = StoreThread()
        gone = thread.ask(go_on.wait, 30)
        await asyncio.sleep(0)
        gone.cancel()
        go_on.set()
        assert await thread.ask(lambda: 1) == 1
        thread.shutdown()

    ran(story())


def test_a_thread_that_was_shut_down_reports_it_each_time() -> None:
    async def story() -> None:
        thread = StoreThread()
        thread.shutdown()
        for _ in range(2):
            with pytest.raises(RuntimeError, match="after shutdown"):
                await thread.ask(lambda: 1)

    ran(story())
