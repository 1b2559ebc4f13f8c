"""What outlines and snapshots cost: W1 and W2 with and without them, in turn. `python -m bench.outline` runs it alone.

On a shared machine the CPU time of whole runs varies by more than three percent. So runs with and without them take
turns, and the difference is the median of all pairs; the limit applies to the share of the CPU time that a run spends
in the code of outlines and snapshots.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from statistics import median
from typing import Any

from bench.engine import CHAIN, NOOP, chain, loop, run
from bench.measure import Figure, print_figures
from noetl.engine.history.outline import OutlineBuffer
from noetl.runtime import committer

TRIES = 15
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
        share, seconds, difference = _shares(text)
        cost = f"{share:.1%}, {seconds / count * 1e6:.1f} us each"
        yield Figure(f"{name}: CPU in outline and snapshots", cost, "at most 3 %", share <= 0.03)
        yield Figure("  CPU of whole runs with them, against those without", f"{difference:+.1%}")


def _shares(text: str) -> tuple[float, float, float]:
    """The share and the seconds of outlines and snapshots in a run, and the difference to runs without them."""
    run(text)  # imports and caches
    cpu, spent, differences = [], [], []
    for _ in range(TRIES):
        with _without_history():
            without = run(text).cpu
        with_history = run(text).cpu
        differences.append(with_history / without - 1)
        with _timed() as seconds:
            cpu.append(run(text).cpu)
        spent.append(sum(seconds))
    return sum(spent) / sum(cpu), sum(spent) / TRIES, median(differences)


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
