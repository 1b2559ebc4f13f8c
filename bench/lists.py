"""Lists of executions: 100,000 runs in one database, 10,000 of them children of one; every filter and the counts.

`python -m bench.lists` does it alone. The rows are written straight to the store, which is much faster than running
them. Most have succeeded, and few of them wait, fail or belong to a rare playbook: the filters that find little are the
slow ones.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

from tests.servers import postgres

from bench.measure import Figure, best_seconds, print_figures
from noetl.model.identity import uuid7
from noetl.store.postgres import PostgresStore
from noetl.store.sqlite import SqliteStore
from noetl.store.store import Change, RunPosition, Store, Summary

RUNS, CHILDREN, BATCH = 100_000, 10_000, 5_000
START = 1_700_000_000.0
PAGE, TRIES = 101, 5
LIMIT_MS = 50.0
DETAILS = b'{"trigger":{"kind":"api","name":"ada"},"events":120,"at":1700000000.0}'

Query = Callable[[Store], Any]


def run_id(number: int) -> str:
    return uuid7(START + number, number.to_bytes(8))


PARENT = run_id(50_000)


def summaries() -> Iterator[Summary]:
    for number in range(RUNS):
        status = "failed" if number % 500 == 0 else "waiting" if number % 1_000 == 1 else "succeeded"
        path = "shop/rare" if number % 10_000 == 7 else f"shop/orders{number % 40}"
        waits = " signal " if status == "waiting" else ""
        parent = PARENT if 60_000 <= number < 60_000 + CHILDREN else None
        source = PARENT if number % 20_000 == 3 else None
        started, ended = START + number, None if waits else START + number + 5
        about = path.rpartition("/")[2], path, status, started, ended, "d" * 64, parent, False, 0
        yield Summary(run_id(number), *about, source, "", waits, DETAILS)


def fill(store: Store) -> None:
    batch: list[Change] = []
    for summary in summaries():
        batch.append(Change(summary.execution_id, 0, [], summary))
        if len(batch) == BATCH:
            store.commit(batch)
            batch = []


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


def figures() -> Iterator[Figure]:
    with tempfile.TemporaryDirectory() as folder:
        store = SqliteStore(Path(folder) / "lists.db")
        yield from measured("SQLite", store)
        store.close()
    server = postgres.PostgresServer()
    try:
        fields = server.fields()
        where = f"{fields['user']}:{quote(fields['password'])}@{fields['host']}:{fields['port']}/{fields['database']}"
        other = PostgresStore(f"postgresql://{where}")
        with server.connect() as bare:  # as autovacuum does after so many rows
            yield from measured("Postgres", other, lambda: bare.execute("VACUUM ANALYZE noetl.execution"))
        other.close()
    finally:
        server.close()


def measured(name: str, store: Store, tidy: Callable[[], object] = lambda: None) -> Iterator[Figure]:
    fill(store)
    tidy()
    for title, query in QUERIES.items():
        query(store)
        milliseconds = best_seconds(lambda query=query: query(store), TRIES) * 1000  # type: ignore[misc]
        bar, reached = f"at most {LIMIT_MS:.0f} ms", milliseconds <= LIMIT_MS
        yield Figure(f"{RUNS:,} runs, {name}: {title}", f"{milliseconds:.1f} ms", bar, reached)


if __name__ == "__main__":
    print_figures(figures())
