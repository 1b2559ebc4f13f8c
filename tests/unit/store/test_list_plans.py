"""Every list of executions is read by an index: no filter reads the whole table.

`bench/lists.py` measures them; here the plans are read, since times depend on the machine."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from bench.lists import QUERIES, REQUESTS, START, run_id
from tests.servers.postgres import Schema, postgres_fixture, store_schema_fixture  # noqa: F401

from noetl.server.execution_lists import listed_items
from noetl.store.postgres import PostgresStore
from noetl.store.sqlite import SqliteStore
from noetl.store.store import Change, Store, Summary

ROWS = 3_000
pytestmark = pytest.mark.damaged_log("the rows are made up: this tests stores, not the engine")

Read = Callable[[Store], Any]


def fill(store: Store) -> None:
    changes = []
    for number in range(ROWS):
        execution, path = run_id(number), f"shop/orders{number % 40}"
        status, waits = ("waiting", " signal ") if number % 100 == 1 else ("succeeded", "")
        parent, source = run_id(1) if number % 3 else None, run_id(2) if number % 50 == 3 else None
        about = path, path, status, START + number, None, "d" * 64, parent, False, 0, source, "", waits, b"{}"
        changes.append(Change(execution, 0, [], Summary(execution, *about)))
    store.commit(changes)


def recorded(store: Store, read: Read) -> list[tuple[str, tuple[Any, ...]]]:
    """The queries that a list sends, with their parameters."""
    sent: list[tuple[str, tuple[Any, ...]]] = []
    rows = store._db.rows

    def record(name: str, *parameters: Any) -> list[Any]:
        sent.append((name, parameters))
        return rows(name, *parameters)

    store._db.rows = record  # type: ignore[method-assign]
    try:
        read(store)
    finally:
        del store._db.rows
    return sent


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_a_page_of_any_length_takes_the_same_queries(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    store: Store = (
        SqliteStore(tmp_path / "pages.db")
        if kind == "sqlite"
        else PostgresStore(request.getfixturevalue("store_schema").store_address)
    )
    rows = []
    for number in range(50):
        execution, path, digest = run_id(number), f"shop/orders{number}", f"{number:064}"
        store.register(path, digest)
        about = path, path, "running", START + number, None, digest, None, False, 0, None, "", "", b"{}"
        rows.append(Summary(execution, *about))
        store.commit([Change(execution, 0, [], rows[-1], ready={"a#1": "gpu"})])

    def queries(count: int) -> list[str]:
        names = [name for name, _ in recorded(store, lambda store: listed_items(store, rows[:count], START))]
        return [name for name in names if name != "notify"]  # a thread sends it some time after a commit

    items = listed_items(store, rows, START)
    assert {(item.version, item.activity.partition(",")[0]) for item in items} == {
        (1, "no worker is connected in pool 'gpu'")
    }
    assert queries(1) == queries(50)
    store.close()


def test_every_list_that_is_measured_has_a_query_here() -> None:
    assert REQUESTS.keys() <= QUERIES.keys()


def test_sqlite_searches_an_index_for_every_list(tmp_path: Path) -> None:
    from noetl.store.sqlite.database import QUERIES as SQL

    store = SqliteStore(tmp_path / "plans.db")
    fill(store)
    scans = []
    for title, read in QUERIES.items():
        for name, parameters in recorded(store, read):
            plan = store._db.connection.execute(f"EXPLAIN QUERY PLAN {SQL[name]}", parameters).fetchall()  # type: ignore[attr-defined]
            steps = [step[-1] for step in plan]
            scans += [f"{title}: {name}: {step}" for step in steps if step.startswith(("SCAN execution", "SCAN event"))]
            if name.startswith("list_executions"):
                scans += [f"{title}: {name}: {step}" for step in steps if "TEMP B-TREE" in step]
    store.close()
    assert scans == []


def test_postgres_reads_an_index_for_every_list(store_schema: Schema) -> None:
    from noetl.store.postgres.database import QUERIES as SQL

    store = PostgresStore(store_schema.store_address)
    fill(store)
    store._db.run(lambda connection: connection.execute("ANALYZE execution"))  # type: ignore[attr-defined]
    scans = []
    for title, read in QUERIES.items():
        for name, parameters in recorded(store, read):
            rows = store._db.run(lambda c: c.execute(f"EXPLAIN {SQL[name]}".encode(), parameters).fetchall())  # type: ignore[attr-defined]  # noqa: B023
            plan = "\n".join(row[0] for row in rows)
            if name.startswith("list_executions") and "Seq Scan on execution" in plan:
                scans.append(f"{title}: {name}\n{plan}")
    store.close()
    assert scans == []
