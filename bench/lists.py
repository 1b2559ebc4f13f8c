"""Lists of executions over HTTP: 100,000 runs in one database, 10,000 of them children of one; every filter and the
counts.

`python -m bench.lists` does it alone. The rows are written straight to the store, which is much faster than running
them. Most have succeeded, and few of them wait, fail or belong to a rare playbook: the filters that find little are the
slow ones. The servers, one on SQLite and one on Postgres, are processes of their own. Nothing tidies the tables by
hand: Postgres has its autovacuum, with the defaults, and the first figures may come before it has run.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import quote

from tests.acceptance.modes import stage
from tests.servers import postgres

from bench.measure import Figure, best_seconds, print_figures
from noetl.model.identity import uuid7
from noetl.server.parameters import run_cursor
from noetl.store.open import open_store
from noetl.store.store import Change, RunPosition, Store, Summary
from noetl.timestamps import rfc3339

RUNS, CHILDREN, BATCH = 100_000, 10_000, 5_000
START = 1_700_000_000.0
PAGE, TRIES = 101, 5
LIMIT_MS = 50.0
DETAILS = b'{"trigger":{"kind":"api","name":"ada"},"events":120,"at":1700000000.0}'

Query = Callable[[Store], Any]


def run_id(number: int) -> str:
    return uuid7(START + number, number.to_bytes(8))


PARENT = run_id(50_000)


def summary(number: int) -> Summary:
    status = "failed" if number % 500 == 0 else "waiting" if number % 1_000 == 1 else "succeeded"
    path = "shop/rare" if number % 10_000 == 7 else f"shop/orders{number % 40}"
    waits = " signal " if status == "waiting" else ""
    parent = PARENT if 60_000 <= number < 60_000 + CHILDREN else None
    source = PARENT if number % 20_000 == 3 else None
    started, ended = START + number, None if waits else START + number + 5
    about = path.rpartition("/")[2], path, status, started, ended, "d" * 64, parent, False, 0
    return Summary(run_id(number), *about, source, "", waits, DETAILS)


def fill(store: Store) -> None:
    for start in range(0, RUNS, BATCH):
        store.commit([Change(run_id(number), 0, [], summary(number)) for number in range(start, start + BATCH)])


QUERIES: dict[str, Query] = {
    "first page": lambda store: store.summaries(limit=PAGE),
    "first page without children": lambda store: store.summaries(top=True, limit=PAGE),
    "page in the middle": lambda store: store.summaries(before=RunPosition(START + 40_000, ""), top=True, limit=PAGE),
    "since and until": lambda store: store.summaries(since=START + 100, until=START + 300, limit=PAGE),
    "status": lambda store: store.summaries(statuses=["failed"], top=True, limit=PAGE),
    "statuses without a run": lambda store: store.summaries(statuses=["paused", "cancelling"], limit=PAGE),
    "path": lambda store: store.summaries(path="shop/rare", limit=PAGE),
    "path, beginning": lambda store: store.summaries(path="shop/ra*", limit=PAGE),
    "path and status": lambda store: store.summaries(path="shop/rare", statuses=["succeeded"], limit=PAGE),
    "children of a run": lambda store: store.summaries(parent=PARENT, limit=PAGE),
    "children of a run, failed": lambda store: store.summaries(parent=PARENT, statuses=["failed"], limit=PAGE),
    "forks of a run": lambda store: store.summaries(source=PARENT, limit=PAGE),
    "waits for a signal": lambda store: store.summaries(waits="signal", top=True, limit=PAGE),
    "waits for a child, none": lambda store: store.summaries(waits="child", limit=PAGE),
    "part of a name": lambda store: store.summaries(contains="orders17", top=True, limit=PAGE),
    "part of a name, none": lambda store: store.summaries(contains="nothing", top=True, limit=PAGE),
    "start of an id": lambda store: store.summaries(prefix=PARENT[:13], limit=PAGE),
    "counts": lambda store: store.counts(top=True),
    "counts since": lambda store: store.counts(since=START + RUNS - 5_000),
    "counts of a path": lambda store: store.counts(path="shop/orders17"),
    "children and forks": lambda store: store.count_related(PARENT),
}


LIST, COUNTS = "/executions?limit=100", "/executions/counts?"
MIDDLE = run_cursor(summary(40_000))
REQUESTS: dict[str, str] = {
    "first page": LIST,
    "first page without children": f"{LIST}&parent=none",
    "page in the middle": f"{LIST}&parent=none&cursor={quote(MIDDLE)}",
    "since and until": f"{LIST}&since={rfc3339(START + 100)}&until={rfc3339(START + 300)}",
    "status": f"{LIST}&parent=none&status=failed",
    "statuses without a run": f"{LIST}&status=paused,cancelling",
    "path": f"{LIST}&path=shop/rare",
    "path, beginning": f"{LIST}&path=shop/ra*",
    "path and status": f"{LIST}&path=shop/rare&status=succeeded",
    "children of a run": f"{LIST}&parent={PARENT}",
    "children of a run, failed": f"{LIST}&parent={PARENT}&status=failed",
    "forks of a run": f"/executions/{PARENT}/related?limit=100",
    "waits for a signal": f"{LIST}&parent=none&waits=signal",
    "waits for a child, none": f"{LIST}&waits=child",
    "part of a name": f"{LIST}&parent=none&q=orders17",
    "part of a name, none": f"{LIST}&parent=none&q=nothing",
    "start of an id": f"{LIST}&prefix={PARENT[:13]}",
    "counts": f"{COUNTS}parent=none",
    "counts since": f"{COUNTS}since={rfc3339(START + RUNS - 5_000)}",
    "counts of a path": f"{COUNTS}path=shop/orders17",
}
"""What is measured, by the titles of the queries behind it."""


def figures() -> Iterator[Figure]:
    with tempfile.TemporaryDirectory(dir=os.environ.get("NOETL_BENCH_DIR")) as text:
        folder = Path(text)
        yield from measured("SQLite", folder, str(folder / "noetl.db"))
        server = postgres.PostgresServer()
        try:
            yield from measured("Postgres", folder, stage.database(server, "lists"))
        finally:
            server.close()


def measured(name: str, folder: Path, db: str) -> Iterator[Figure]:
    with closing(open_store(db, synchronous="normal")) as store:
        fill(store)
    with stage.served(folder, db, 1, 0) as mode:
        for title, path in REQUESTS.items():
            mode.client.ask("GET", path)
            milliseconds = best_seconds(lambda path=path: mode.client.ask("GET", path), TRIES) * 1000  # type: ignore[misc]
            bar, reached = f"at most {LIMIT_MS:.0f} ms", milliseconds <= LIMIT_MS
            yield Figure(f"{RUNS:,} runs, {name}, over HTTP: {title}", f"{milliseconds:.1f} ms", bar, reached)


if __name__ == "__main__":
    print_figures(figures())
