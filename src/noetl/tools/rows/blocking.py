"""Calls of blocking drivers from an event loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from typing import TypeVar

T = TypeVar("T")
REPEAT_SECONDS = 0.05  # between two interrupts: one that comes between two statements has no effect
MAX_CANCEL_SECONDS = 3.0


class TransferCancelled(Exception):
    """The call was cancelled while it waited for a database file or between two statements."""


class Cancellation:
    def __init__(self) -> None:
        self._event = threading.Event()
        self._interrupts: list[Callable[[], object]] = []

    def on_cancel(self, interrupt: Callable[[], object]) -> None:
        """Call `interrupt`, from another thread and maybe repeatedly, to end the wait of the thread."""
        self._interrupts.append(interrupt)
        self.check()

    def check(self) -> None:
        if self._event.is_set():
            raise TransferCancelled

    def request(self) -> None:
        self._event.set()
        for interrupt in list(self._interrupts):
            with suppress(Exception):  # the connection may have been closed meanwhile
                interrupt()


async def in_thread(work: Callable[[Cancellation], T]) -> T:
    """Run the work in a thread of its own, which a cancelled call interrupts repeatedly. The thread belongs to no pool:
    one that hangs on a dead server blocks no other call, and does not keep the process alive."""
    cancellation, ended = Cancellation(), threading.Event()
    thread, outcome = start_thread(lambda: work(cancellation))
    waiting = asyncio.wrap_future(outcome)

    def interrupt() -> None:
        while not ended.is_set():
            cancellation.request()
            ended.wait(REPEAT_SECONDS)

    try:
        return await asyncio.shield(waiting)
    except asyncio.CancelledError:
        waiting.add_done_callback(lambda future: future.cancelled() or future.exception())
        interrupter, interrupter_done = start_thread(interrupt)  # since an interrupt may be a request to a server
        try:
            await asyncio.wait([waiting], timeout=MAX_CANCEL_SECONDS)
        finally:
            ended.set()
        if outcome.done():
            await asyncio.wrap_future(interrupter_done)
            interrupter.join()
        raise
    finally:
        if outcome.done():
            thread.join()  # it is about to end; a driver warns of threads that live when the process ends


def start_thread(work: Callable[[], T]) -> tuple[threading.Thread, Future[T]]:
    outcome: Future[T] = Future()
    outcome.set_running_or_notify_cancel()  # so that it cannot be cancelled

    def run() -> None:
        try:
            outcome.set_result(work())
        except BaseException as error:
            outcome.set_exception(error)

    thread = threading.Thread(target=run, daemon=True, name="noetl-rows")
    thread.start()
    return thread, outcome
