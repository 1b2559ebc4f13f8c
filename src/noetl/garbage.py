"""Keeps the garbage collector from visiting many long-lived objects at every collection."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

FREEZES_PER_COLLECTION = 100
_freezes = 0


@contextmanager
def collector_paused() -> Iterator[None]:
    """Disable garbage collection in the body: each collection would visit all objects again."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


@contextmanager
def long_lived() -> Iterator[None]:
    """Exempt the objects that the body creates from garbage collection, which stops all threads. Only reference counts
    free them, so they must not form cycles. All other objects of the process become exempt with them, so every
    hundredth time everything is collected."""
    global _freezes
    with collector_paused():
        yield
    _freezes += 1
    if _freezes % FREEZES_PER_COLLECTION == 0:
        gc.unfreeze()
        gc.collect()
    gc.freeze()
