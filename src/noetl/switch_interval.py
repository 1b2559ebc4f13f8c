"""The switch interval of the interpreter, shortened so that a thread that computes does not delay the event loop."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

SWITCH_SECONDS = 0.001
"""How long a busy thread keeps the interpreter lock while others wait for it. The event loop releases it for every
system call, of which a request makes many: with Python's 5 ms, one busy thread would delay each request by 50 ms. A
server whose threads only write to its store is slower with a short interval, so it is not short all the time."""

_count_lock = threading.Lock()
_busy_threads = 0
_previous_seconds = 0.0


@contextmanager
def short_switch_interval() -> Iterator[None]:
    """Shorten the switch interval of the process while the body runs, in this thread or another."""
    global _busy_threads, _previous_seconds
    with _count_lock:
        if _busy_threads == 0:
            _previous_seconds = sys.getswitchinterval()
            sys.setswitchinterval(SWITCH_SECONDS)
        _busy_threads += 1
    try:
        yield
    finally:
        with _count_lock:
            _busy_threads -= 1
            if _busy_threads == 0:
                sys.setswitchinterval(_previous_seconds)
