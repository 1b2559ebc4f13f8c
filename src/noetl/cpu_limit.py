"""A limit of CPU time for work on untrusted text."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from threading import current_thread, main_thread
from time import thread_time

REPEAT_SECONDS = 0.1  # other threads have used the time, or a library has swallowed the exception


class CpuTimeExceeded(BaseException):
    """Not an Exception: `except Exception` in a library does not swallow it."""


@contextmanager
def cpu_limit(seconds: float) -> Iterator[None]:
    """Raise CpuTimeExceeded when this thread has used `seconds` of CPU time in the body. Only the main thread receives
    signals, so a body in another thread has no limit. Neither has a body in a process that uses the signal or its timer
    for something else, such as a profiler."""
    if current_thread() is not main_thread() or _is_in_use():
        yield
        return
    is_over, limit = False, thread_time() + seconds

    def exceed(number: int, frame: object) -> None:
        if not is_over and thread_time() >= limit:  # the timer counts the time of all threads
            raise CpuTimeExceeded

    signal.signal(signal.SIGPROF, exceed)
    signal.setitimer(signal.ITIMER_PROF, seconds, REPEAT_SECONDS)
    try:
        yield
    finally:
        is_over = True
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, signal.SIG_DFL)


def _is_in_use() -> bool:
    return signal.getsignal(signal.SIGPROF) != signal.SIG_DFL or any(signal.getitimer(signal.ITIMER_PROF))
