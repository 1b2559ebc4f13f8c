"""A file of an earlier version is brought up to date, and nothing in it is taken for something it is not."""

from __future__ import annotations

import time
from pathlib import Path

import apsw
import pytest

from noetl.store.database import key_of, migrations_in
from noetl.store.sqlite import SqliteStore
from noetl.store.sqlite.database import MIGRATIONS, QUERIES
from noetl.store.store import DAY, Leased

pytestmark = pytest.mark.damaged_log("the rows are made up: this tests stores, not the engine")

A = "0198c0de-0000-7000-8000-00000000000a"
B = "0198c0de-0000-7000-8000-00000000000b"


def file_of_version(path: Path, version: int) -> apsw.Connection:
    database = apsw.Connection(str(path))
    database.execute(QUERIES["create_meta"])
    for number, sql in migrations_in(MIGRATIONS).items():
        if number <= version:
            database.execute(sql)
    database.execute(QUERIES["put_version"], (str(version),))
    return database


def test_runs_from_before_servers_are_local_and_their_contents_stay(tmp_path: Path) -> None:
    path = tmp_path / "noetl.db"
    old = file_of_version(path, 3)
    for name, ended in ((A, None), (B, 1.0)):
        old.execute("INSERT INTO execution VALUES (?, 'n', 'p', 'running', 1.0, ?, 'd', NULL)", (key_of(name), ended))
    old.execute("INSERT INTO lease VALUES (?, 1, 'a#1', 'w', 1.5)", (key_of(A),))
    old.execute("INSERT INTO ready VALUES (?, 'b#1', 'default')", (key_of(A),))
    old.execute("INSERT INTO blob (key, data, at) VALUES ('k', x'00', 1.0)")
    old.close()

    store = SqliteStore(path)
    assert [run.local for run in store.summaries()] == [True, True]
    assert store.derived(A).leases == {1: Leased("a#1", "w", 1.5, 30.0)}
    assert store.waiting("default", 9) == []
    assert store.prune(9.0, 10, now=time.time() + 2 * DAY) == 1  # nobody knows whose content it was
    assert store.blob("k") == b"\0"
    store.close()
