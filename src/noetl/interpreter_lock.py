"""Keeps a thread that computes for long from delaying the event loop, which needs the same interpreter lock."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

SWITCH_SECONDS = 0.001
"""How long a busy thread keeps the lock while others wait for it. The event loop releases it for every system call, of
which a request makes many: with Python's 5 ms, one busy thread would delay each request by 50 ms. Always so short, it
would slow down a server whose threads only write to its store."""

_counting = threading.Lock()
_busy = 0
_usual_seconds = 0.0


@contextmanager
def lock_shared_often() -> Iterator[None]:
    """Shorten the switch interval of the process while the body runs, in this thread or another."""
    global _busy, _usual_seconds
    with _counting:
        if _busy == 0:
            _usual_seconds = sys.getswitchinterval()
            sys.setswitchinterval(SWITCH_SECONDS)
        _busy += 1
    try:
        yield
    finally:
        with _counting:
            _busy -= 1
            if _busy == 0:
                sys.setswitchinterval(_usual_seconds)
