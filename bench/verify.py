"""Verifying a long log: events a second and peak memory of `noetl verify`.

`python -m bench.verify 4000000` does it alone, with a log of that many events.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from bench.language import NOETL
from bench.long_run import write
from bench.measure import Figure, print_figures

EVENTS = 400_000
EVENTS_A_SECOND, MEGABYTES = 100_000, 150


def figures(events: int = EVENTS) -> Iterator[Figure]:
    with tempfile.TemporaryDirectory(dir=os.environ.get("NOETL_BENCH_DIR")) as folder:
        path = Path(folder) / "bench.db"
        count = write(path, events)
        took, peak = _verified(path)
    rate = count / took
    yield Figure(
        f"noetl verify of a run of {count:,} events",
        f"{rate:,.0f} events/s",
        f"at least {EVENTS_A_SECOND:,}",
        rate >= EVENTS_A_SECOND,
    )
    yield Figure("  peak memory of its larger process", f"{peak:,.0f} MB", f"under {MEGABYTES} MB", peak < MEGABYTES)


def _verified(path: Path) -> tuple[float, float]:
    """Seconds and megabytes of `noetl verify`; in a process of its own, whose only children are those of verify."""
    code = (
        "import resource, subprocess, sys, time; start = time.perf_counter(); "
        "subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL); "
        "print(time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024)"
    )
    command = [sys.executable, "-c", code, NOETL, "verify", "--db", str(path)]
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    seconds, megabytes = map(float, printed.split())
    return seconds, megabytes


if __name__ == "__main__":
    print_figures(figures(int(sys.argv[1]) if len(sys.argv) > 1 else EVENTS))
