"""Keeps the garbage collector from visiting many long-lived objects again and again."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

MAX_FREEZES = 100
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
    """Exempt the objects that the body makes from garbage collection, during which all threads stand still. Only
    reference counts free them, so they must not form cycles. Now and then everything is collected nevertheless, because
    other objects that exist at the moment are exempt with them."""
    global _freezes
    with collector_paused():
        yield
    _freezes += 1
    if _freezes % MAX_FREEZES == 0:
        gc.unfreeze()
        gc.collect()
    gc.freeze()
