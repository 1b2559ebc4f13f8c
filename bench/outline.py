"""What outlines and snapshots cost: W1 and W2 with and without them, in turn. `python -m bench.outline` runs it alone.

On a shared machine the CPU time of whole runs varies by more than three percent. So runs with and without them take
turns in changing order, and the difference is the mean of the middle half of all pairs. The share of the CPU time that
a run spends in the code of outlines and snapshots varies less, but leaves out what they cost elsewhere.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from statistics import mean
from typing import Any

from bench.engine import CHAIN, NOOP, chain, loop, run
from bench.measure import Figure, print_figures
from noetl.engine.history.outline import OutlineBuffer
from noetl.runtime import committer

PAIRS = 40
TRIES = 5
ITEMS = 20_000
LONG_CHAIN = 5 * CHAIN
PARTS: list[tuple[Any, str]] = [
    (OutlineBuffer, "extend"),
    (committer, "encode_block"),
    (committer, "freeze"),
    (committer, "packed"),
]


def figures() -> Iterator[Figure]:
    for name, text, count in (
        (f"W1 chain of {LONG_CHAIN:,} noop steps", chain(LONG_CHAIN), LONG_CHAIN),
        (f"W2 {ITEMS:,} noop items", loop(ITEMS, NOOP), ITEMS),
    ):
        difference = _difference(text)
        yield Figure(f"{name}: CPU with outline and snapshots", f"{difference:+.1%}", "at most 3 %", difference <= 0.03)
        share, seconds = _share(text)
        yield Figure("  of it in their own code", f"{share:.1%}, {seconds / count * 1e6:.1f} us each")


def _difference(text: str) -> float:
    """The CPU time of runs with outlines and snapshots, relative to runs without them."""
    run(text)  # imports and caches
    differences = []
    for number in range(PAIRS):
        if number % 2:
            with_history, without = _cpu(text), _cpu_without_history(text)
        else:
            without, with_history = _cpu_without_history(text), _cpu(text)
        differences.append(with_history / without - 1)
    return mean(sorted(differences)[PAIRS // 4 : -PAIRS // 4])


def _cpu(text: str) -> float:
    gc.collect()  # each run pays for its own garbage
    return run(text).cpu


def _cpu_without_history(text: str) -> float:
    with _without_history():
        return _cpu(text)


def _share(text: str) -> tuple[float, float]:
    """The share and the seconds of a run that are spent in the code of outlines and snapshots."""
    cpu, spent = 0.0, 0.0
    for _ in range(TRIES):
        with _timed() as seconds:
            cpu += _cpu(text)
        spent += sum(seconds)
    return spent / cpu, spent / TRIES


@contextmanager
def _timed() -> Iterator[list[float]]:
    """The CPU seconds of every call of a part."""
    seconds: list[float] = []

    def timed(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            start = time.thread_time()
            try:
                return function(*arguments)
            finally:
                seconds.append(time.thread_time() - start)

        return call

    originals = [(owner, name, getattr(owner, name)) for owner, name in PARTS]
    for owner, name, function in originals:
        setattr(owner, name, timed(function))
    try:
        yield seconds
    finally:
        for owner, name, function in originals:
            setattr(owner, name, function)


@contextmanager
def _without_history() -> Iterator[None]:
    extend, events = OutlineBuffer.extend, committer.SNAPSHOT_EVENTS
    OutlineBuffer.extend = lambda self, events, at: []  # type: ignore[method-assign]
    committer.SNAPSHOT_EVENTS = 1 << 60
    try:
        yield
    finally:
        OutlineBuffer.extend, committer.SNAPSHOT_EVENTS = extend, events  # type: ignore[method-assign]


if __name__ == "__main__":
    print_figures(figures())
