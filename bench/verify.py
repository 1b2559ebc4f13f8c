"""Verifying a long log: events a second and peak memory of `noetl verify`.

`python -m bench.verify 4000000` does it alone, with a log of that many events. It is that of a loop with ten lanes,
four events an item; it is written straight to a database, which is much faster than running it.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from bench.engine import NOOP, loop
from bench.language import NOETL
from bench.measure import Figure, print_figures
from noetl.dsl.compile import load
from noetl.engine import events as e
from noetl.model.identity import TaskId, uuid7
from noetl.model.outcome import Outcome
from noetl.store import codec
from noetl.store.sqlite import SqliteStore
from noetl.store.store import Change, Store, Summary
from noetl.tools.registry import KINDS

EVENTS = 400_000
LANES, ITEMS_A_LANE = 10, 64
BATCH = 10_000
RUN = "start#1"
EVENTS_A_SECOND, MEGABYTES = 100_000, 150


def log(digest: str, items: int) -> Iterator[e.Event]:
    """The events of a loop whose lanes take turns."""
    yield e.ExecutionRequested(digest, "bench/engine")
    yield e.RequestEvaluated()
    yield e.PlaybookStarted()
    yield e.WorkflowStarted()
    yield e.TokenEnqueued(1, "start")
    yield e.StepScheduled(RUN, tokens=(1,))
    yield e.LoopStarted(RUN, items)
    lanes: dict[int, int] = {}
    fence = free = done = 0
    while done < items:
        while len(lanes) < LANES and free < items:
            fence, first, free = fence + 1, free, min(items, free + ITEMS_A_LANE)
            yield e.StepStarted(RUN, fence, "bench", (first, free))
            lanes[fence] = first
        for lane, index in list(lanes.items()):
            yield from item(index)
            done += 1
            if (index + 1) % ITEMS_A_LANE == 0 or index + 1 == items:
                del lanes[lane]
            else:
                lanes[lane] = index + 1
    yield e.LoopDone(RUN, items, items, 0)
    yield e.NextEvaluated(RUN, "loop.done")
    yield e.WorkflowFinished("succeeded")
    yield e.PlaybookProcessed("succeeded")


def item(index: int) -> Iterator[e.Event]:
    task = TaskId(RUN, "t#1", index)
    yield e.IterationStarted(RUN, index)
    yield e.TaskStarted(task)
    yield e.TaskDone(task, 1, Outcome(), "continue", duration_ms=0.02)
    yield e.IterationDone(RUN, index)


def write(path: Path, events: int) -> int:
    """Make a database with a log of about so many events; how many it has."""
    store = SqliteStore(path, synchronous="normal")
    try:
        return fill(store, events)
    finally:
        store.close()


def fill(store: Store, events: int) -> int:
    """Write a log of about so many events; how many it has."""
    text = loop(10, NOOP)
    playbook = load("bench.yaml", text, KINDS).require()
    store.put_playbook(playbook.digest, "bench.yaml", text.encode())
    execution, at = uuid7(time.time(), os.urandom(8)), time.time()
    summary = Summary(execution, "bench", "bench/engine", "succeeded", at, at, playbook.digest)
    told, head, seq = log(playbook.digest, events // 4), codec.ZERO, 0
    while batch := list(islice(told, BATCH)):
        at += 0.01
        rows = codec.rows_of(batch, seq + 1, at, head)
        store.commit([Change(execution, seq, rows, summary)])
        head, seq = rows[-1].hash, rows[-1].seq
    return seq


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
