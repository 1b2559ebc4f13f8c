"""The stores: commits a second of one event each, and rows a second in batches, beside what the database itself does.

Postgres is a server of its own on the same disk, which waits for it (fsync, synchronous_commit), with the limit next to
each figure: the same rows by one plain INSERT for each commit, and by COPY.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote
from uuid import UUID

import psycopg
from tests.servers import postgres

from bench.measure import Figure, print_figures
from noetl.model.identity import uuid7
from noetl.store.codec import ZERO
from noetl.store.postgres import PostgresStore
from noetl.store.sqlite import SqliteStore
from noetl.store.store import Change, Leased, Row, Store, Summary

DATA = b'{"run":"fetch#1","result":{"status":200,"text":"' + b"x" * 120 + b'"}}'
SINGLE, ROWS = 1_500, 50_000
TRIES = 3


def rows(seq: int, count: int) -> list[Row]:
    return [Row(seq + number, "step.done", 1.5, DATA, ZERO) for number in range(1, count + 1)]


def single(store: Store, count: int = SINGLE) -> None:
    """One event and what goes with it: a lease that is over, the next one, the summary now and then."""
    name = _name()
    store.commit([Change(name, 0, [], Summary(name, "n", "p", "running", 1.5))])
    for seq in range(count):
        leases = {seq: None, seq + 1: Leased("a#1", "w", 1.5, 30.0)}
        store.commit([Change(name, seq, rows(seq, 1), ready={f"a#{seq}": None, f"a#{seq + 1}": "p"}, leases=leases)])


def many(store: Store, executions: int, each: int) -> None:
    """Batches of several executions with some events each, until there are enough rows."""
    names = [_name() for _ in range(executions)]
    for turn in range(ROWS // (executions * each)):
        store.commit([Change(name, turn * each, rows(turn * each, each)) for name in names])


def insert_single(connection: psycopg.Connection[Any]) -> None:
    name = UUID(_name())
    for seq in range(SINGLE):
        connection.execute(
            "INSERT INTO event VALUES (%s, %s, 'step.done', 1.5, %s, %s)", (name, seq, DATA, ZERO), prepare=True
        )


def copy(connection: psycopg.Connection[Any], batch: int) -> None:
    name = UUID(_name())
    for start in range(0, ROWS, batch):
        with connection.cursor() as cursor, cursor.copy("COPY event FROM STDIN (FORMAT binary)") as out:
            out.set_types(["uuid", "int8", "text", "float8", "bytea", "bytea"])
            for row in rows(start, batch):
                out.write_row((name, *row))


def _name() -> str:
    return uuid7(time.time(), time.monotonic_ns().to_bytes(8))


def figures() -> Iterator[Figure]:
    with tempfile.TemporaryDirectory() as folder:
        store = SqliteStore(Path(folder) / "bench.db")
        yield from _store("SQLite", store, None)
        store.close()
    postgres.SETTINGS.update(fsync="on", synchronous_commit="on", full_page_writes="on")
    server = postgres.PostgresServer()
    try:
        fields = server.fields()
        where = f"{fields['user']}:{quote(fields['password'])}@{fields['host']}:{fields['port']}/{fields['database']}"
        result = PostgresStore(f"postgresql://{where}")
        with server.connect(options="-c search_path=noetl") as bare:
            yield from _store("Postgres", result, bare)
        result.close()
    finally:
        server.close()


def _store(name: str, store: Store, bare: psycopg.Connection[Any] | None) -> Iterator[Figure]:
    yield from _pair(
        f"{name}: commits of one event", SINGLE, lambda: single(store), bare and (lambda: insert_single(bare))
    )
    for executions, each in ((1, 10), (20, 5), (100, 10)):
        size = executions * each
        yield from _pair(
            f"{name}: events in batches of {size} ({executions} executions)",
            ROWS,
            lambda: many(store, executions, each),  # noqa: B023
            bare and (lambda: copy(bare, size)),  # noqa: B023
        )


def _pair(name: str, count: int, ours: Callable[[], None], limit: Callable[[], None] | None) -> Iterator[Figure]:
    """Ours and the limit take turns, so that both have the same weather."""
    best, most = 0.0, 0.0
    for _ in range(TRIES):
        best = max(best, count / _seconds(ours))
        most = max(most, count / _seconds(limit)) if limit else 0.0
    yield Figure(name, f"{best:,.0f}/s", f"limit {most:,.0f}/s ({best / most:.0%})" if limit else "")


def _seconds(action: Callable[[], None]) -> float:
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


if __name__ == "__main__":
    print_figures(figures())
