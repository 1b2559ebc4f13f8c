"""Calls of drivers that block, made from an event loop that must not."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

T = TypeVar("T")
ASK_AGAIN_SECONDS = 0.05
PATIENCE_SECONDS = 3.0


class Stopped(Exception):
    """The call was cancelled while it waited for its turn or between two statements."""


class Stop:
    """Tells a thread to end. What can be interrupted while it runs is named by `by`."""

    def __init__(self) -> None:
        self._event = threading.Event()
        self._interrupts: list[Callable[[], object]] = []

    def by(self, interrupt: Callable[[], object]) -> None:
        """Something that ends what the thread is waiting for. It is called from another thread, maybe repeatedly."""
        self._interrupts.append(interrupt)
        self.check()

    def check(self) -> None:
        if self._event.is_set():
            raise Stopped

    @property
    def asked(self) -> bool:
        return self._event.is_set()

    def ask(self) -> None:
        self._event.set()
        for interrupt in list(self._interrupts):
            with suppress(Exception):  # the connection may have been closed in the meantime
                interrupt()


async def in_thread(work: Callable[[Stop], T]) -> T:
    """Run the work in a thread of its own.

    A cancelled call asks the thread to stop, again and again since an interrupt between two statements has no effect,
    and waits for it to end, but not for ever. The thread is no part of a pool: one that hangs on a dead server takes
    no place from others, and does not keep the process alive.
    """
    loop, stop = asyncio.get_running_loop(), Stop()
    done: asyncio.Future[T] = loop.create_future()

    def body() -> None:
        try:
            settle, value = _set_result, work(stop)
        except BaseException as error:
            settle, value = _set_exception, error  # type: ignore[assignment]
        with suppress(RuntimeError):  # the loop was closed in the meantime
            loop.call_soon_threadsafe(settle, done, value)

    thread = threading.Thread(target=body, daemon=True, name="noetl-rows")
    thread.start()
    try:
        return await asyncio.shield(done)
    except asyncio.CancelledError:
        await _end(done, stop)
        raise
    finally:
        if done.done():
            thread.join()  # it has nothing left to do; a driver complains of threads that live at the very end


async def _end(done: asyncio.Future[Any], stop: Stop) -> None:
    """Ask until the thread has ended or patience has. To ask a server takes time, so that is a thread as well."""
    loop, ended = asyncio.get_running_loop(), threading.Event()
    asked = asyncio.Event()

    def keep_asking() -> None:
        while not ended.is_set():
            stop.ask()
            ended.wait(ASK_AGAIN_SECONDS)
        with suppress(RuntimeError):  # the loop was closed in the meantime
            loop.call_soon_threadsafe(asked.set)

    done.add_done_callback(_forget)
    asking = threading.Thread(target=keep_asking, daemon=True, name="noetl-stop")
    asking.start()
    try:
        await asyncio.wait([done], timeout=PATIENCE_SECONDS)
    finally:
        ended.set()
    if done.done():
        await asked.wait()
        asking.join()


def _forget(done: asyncio.Future[Any]) -> None:
    """Whatever an abandoned call came to has been seen."""
    if not done.cancelled():
        done.exception()


def _set_result(done: asyncio.Future[Any], value: Any) -> None:
    if not done.done():
        done.set_result(value)


def _set_exception(done: asyncio.Future[Any], error: BaseException) -> None:
    if not done.done():
        done.set_exception(error)
