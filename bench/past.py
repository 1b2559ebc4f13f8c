"""The past of a long run over HTTP: its state at any event, explanations, outline, items, rows, beside a short run.

`python -m bench.past 100000` does it alone, with a run of about that many events. The servers, one on SQLite and one on
Postgres, are processes of their own. Figures are medians.
"""

from __future__ import annotations

import os
import random
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from statistics import median
from typing import Any

from tests.acceptance.modes import stage
from tests.servers import postgres

from bench.long_run import fill
from bench.measure import Figure, print_figures, resident_megabytes
from noetl.model.identity import uuid7
from noetl.store.open import open_store

EVENTS = 1_000_000
SHORT = 20
REQUESTS = 10
ITEMS = 100
BARS = {"state at any event": 300, "explain": 500, "outline": 50, f"{ITEMS} items": 100, "100 rows": 30}  # milliseconds


def figures(events: int = EVENTS) -> Iterator[Figure]:
    with tempfile.TemporaryDirectory(dir=os.environ.get("NOETL_BENCH_DIR")) as text:
        folder = Path(text)
        yield from _store_figures("SQLite", folder, str(folder / "noetl.db"), events)
        server = postgres.PostgresServer()
        try:
            yield from _store_figures("Postgres", folder, stage.database(server, "past"), events)
        finally:
            server.close()


def _store_figures(name: str, folder: Path, db: str, events: int) -> Iterator[Figure]:
    counts = {}
    with closing(open_store(db, synchronous="normal")) as store:
        for length in (SHORT, events):
            execution = uuid7(time.time(), os.urandom(8))
            counts[execution] = fill(store, length, execution)
    with stage.served(folder, db, 1, 0) as mode:
        process = mode.servers[0].process
        assert process is not None
        for execution, count in counts.items():
            first = _milliseconds(mode.client, f"/executions/{execution}/outline")
            yield Figure(f"{name}, {count:,} events: outline, asked for the first time", f"{first:,.1f} ms")
            (path, *_) = paths(f"{ITEMS} items", execution, count)
            first, bar = _milliseconds(mode.client, path), BARS[f"{ITEMS} items"]
            named = f"{name}, {count:,} events: {ITEMS} items, asked for the first time"
            yield Figure(named, f"{first:,.1f} ms", f"under {bar} ms", first < bar)
            for request, bar in BARS.items():
                took = median(_milliseconds(mode.client, path) for path in paths(request, execution, count))
                value = f"{took:,.1f} ms"
                yield Figure(f"{name}, {count:,} events: {request}", value, f"under {bar} ms", took < bar)
            yield Figure("  memory of the server after that", f"{resident_megabytes(process.pid)} MB")


def paths(request: str, execution: str, count: int) -> Iterator[str]:
    chosen = random.Random(count)
    for _ in range(REQUESTS):
        seq = chosen.randrange(1, count + 1)
        yield (
            f"/executions/{execution}/"
            + {
                "state at any event": f"state?at={seq}",
                "explain": f"explain?step={chosen.choice(['first', 'many', 'last'])}",
                "outline": "outline",
                f"{ITEMS} items": f"items?run=many%231&limit={ITEMS}&after={seq // 4}",
                "100 rows": f"events?view=row&limit=100&before={seq + 1}",
            }[request]
        )


def _milliseconds(client: Any, path: str) -> float:
    start = time.perf_counter()
    client.ask("GET", path)
    return (time.perf_counter() - start) * 1000


if __name__ == "__main__":
    print_figures(figures(int(sys.argv[1]) if len(sys.argv) > 1 else EVENTS))
