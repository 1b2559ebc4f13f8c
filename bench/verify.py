"""Verifying a long log: events a second and peak memory of `noetl verify`.

`python -m bench.verify 4000000` does it alone, with a log of that many events.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
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
        start = time.perf_counter()
        subprocess.run([NOETL, "verify", "--db", str(path)], check=True, capture_output=True)
        took = time.perf_counter() - start
    rate, peak = count / took, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    yield Figure(
        f"noetl verify of a run of {count:,} events",
        f"{rate:,.0f} events/s",
        f"at least {EVENTS_A_SECOND:,}",
        rate >= EVENTS_A_SECOND,
    )
    yield Figure("  peak memory of its larger process", f"{peak:,.0f} MB", f"under {MEGABYTES} MB", peak < MEGABYTES)


if __name__ == "__main__":
    print_figures(figures(int(sys.argv[1]) if len(sys.argv) > 1 else EVENTS))
