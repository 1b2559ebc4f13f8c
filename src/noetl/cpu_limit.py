"""A limit of CPU time for work on untrusted text."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from threading import current_thread, main_thread

REPEAT_SECONDS = 0.1  # in case a library swallows the exception


class CpuTimeExceeded(BaseException):
    """Not an Exception: `except Exception` in a library does not swallow it."""


@contextmanager
def cpu_limit(seconds: float) -> Iterator[None]:
    """Raise CpuTimeExceeded when this process has used `seconds` of CPU time in the body. Only the main thread receives
    signals, so a body in another thread has no limit."""
    if current_thread() is not main_thread():
        yield
        return
    is_over = False

    def exceed(number: int, frame: object) -> None:
        if not is_over:
            raise CpuTimeExceeded

    previous = signal.signal(signal.SIGPROF, exceed)
    signal.setitimer(signal.ITIMER_PROF, seconds, REPEAT_SECONDS)
    try:
        yield
    finally:
        is_over = True
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, previous)
