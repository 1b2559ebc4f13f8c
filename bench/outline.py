"""What outlines and snapshots cost: W1 and W2 with and without them, in turn. `python -m bench.outline` runs it alone.

CPU time is compared, the least of several runs of each: the wall time of a disk says nothing about three percent.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from bench.engine import CHAIN, NOOP, chain, loop, run
from bench.measure import Figure, print_figures
from noetl.engine.history.outline import OutlineWriter
from noetl.runtime import committer

TRIES = 7
ITEMS = 20_000
LONG_CHAIN = 5 * CHAIN


def figures() -> Iterator[Figure]:
    for name, text, count in (
        (f"W1 chain of {LONG_CHAIN:,} noop steps", chain(LONG_CHAIN), LONG_CHAIN),
        (f"W2 {ITEMS:,} noop items", loop(ITEMS, NOOP), ITEMS),
    ):
        with_history, without = _cpu_seconds(text)
        share = with_history / without - 1
        cost = f"{(with_history - without) / count * 1e6:.1f} us each"
        yield Figure(f"{name}: CPU of outline and snapshots", f"{share:+.1%}, {cost}", "at most 3 %", share <= 0.03)


def _cpu_seconds(text: str) -> tuple[float, float]:
    run(text)  # imports and caches
    times: dict[bool, list[float]] = {True: [], False: []}
    for _ in range(TRIES):
        times[True].append(run(text).cpu)
        with _without_history():
            times[False].append(run(text).cpu)
    return min(times[True]), min(times[False])


@contextmanager
def _without_history() -> Iterator[None]:
    extend, events = OutlineWriter.extend, committer.SNAPSHOT_EVENTS
    OutlineWriter.extend = lambda self, events, at: []  # type: ignore[method-assign]
    committer.SNAPSHOT_EVENTS = 1 << 60
    try:
        yield
    finally:
        OutlineWriter.extend, committer.SNAPSHOT_EVENTS = extend, events  # type: ignore[method-assign]


if __name__ == "__main__":
    print_figures(figures())
