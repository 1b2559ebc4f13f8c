"""A copy of a database as of one moment, and databases made from it."""

from __future__ import annotations

import os
import stat
import threading
from pathlib import Path

import pytest

from noetl.engine.events import PlaybookStarted
from noetl.errors import Conflict, StoreError
from noetl.store.codec import ZERO, rows_of
from noetl.store.sqlite import SqliteStore
from noetl.store.sqlite.backup import copy_database
from noetl.store.store import Change

pytestmark = pytest.mark.damaged_log("the rows are made up: this tests stores, not the engine")

A, B = "01890000-0000-7000-8000-00000000000a", "01890000-0000-7000-8000-00000000000b"


def grow(store: SqliteStore, *executions: str) -> None:
    """One more event for each, in one transaction."""
    seqs = {execution: store.seq(execution) for execution in executions}
    changes = [Change(one, seq, rows_of([PlaybookStarted()], seq + 1, 1.0, ZERO)) for one, seq in seqs.items()]
    assert all(store.commit(changes))


def test_a_copy_has_what_was_committed_last_and_is_one_private_file(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "live.db")
    grow(store, A, B)
    size = copy_database(tmp_path / "live.db", tmp_path / "deep" / "copy.db")
    assert os.listdir(tmp_path / "deep") == ["copy.db"]
    assert (tmp_path / "deep" / "copy.db").stat().st_size == size
    assert stat.S_IMODE((tmp_path / "deep" / "copy.db").stat().st_mode) == 0o600
    grow(store, A)
    copy = SqliteStore(tmp_path / "deep" / "copy.db", mode="read")
    assert (copy.seq(A), copy.seq(B)) == (1, 1)
    copy.close()
    store.close()


def test_a_plain_copy_of_the_file_alone_would_have_missed_it(tmp_path: Path) -> None:
    """Why there is a verb for it."""
    store = SqliteStore(tmp_path / "live.db")
    grow(store, A)
    (tmp_path / "plain.db").write_bytes((tmp_path / "live.db").read_bytes())
    plain = SqliteStore(tmp_path / "plain.db")
    assert plain.seq(A) == 0
    plain.close()
    store.close()


def test_a_copy_beside_a_busy_writer_is_of_one_moment(tmp_path: Path) -> None:
    """Both logs grow in the same transactions: in no copy is one ahead of the other."""
    store, ended = SqliteStore(tmp_path / "live.db", synchronous="normal"), threading.Event()
    grow(store, A, B)

    def write() -> None:
        while not ended.is_set():
            grow(store, A, B)

    writing = threading.Thread(target=write)
    writing.start()
    try:
        for number in range(5):
            copy_database(tmp_path / "live.db", tmp_path / f"{number}.db")
    finally:
        ended.set()
        writing.join()
    seqs = []
    for number in range(5):
        copy = SqliteStore(tmp_path / f"{number}.db", mode="read")
        assert copy.seq(A) == copy.seq(B)
        seqs.append(copy.seq(A))
        copy.close()
    assert seqs == sorted(seqs)
    store.close()


@pytest.mark.parametrize("ending", ["", "-wal", "-shm", "-journal"])
def test_nothing_that_is_there_is_written_over(tmp_path: Path, ending: str) -> None:
    SqliteStore(tmp_path / "live.db").close()
    there = tmp_path / f"target.db{ending}"
    there.write_bytes(b"old")
    with pytest.raises(Conflict, match="move it away"):
        copy_database(tmp_path / "live.db", tmp_path / "target.db")
    assert there.read_bytes() == b"old"


def test_what_is_no_database_of_ours_is_not_copied(tmp_path: Path) -> None:
    (tmp_path / "other.db").write_bytes(b"something else entirely" * 100)
    with pytest.raises(StoreError, match="not a database"):
        copy_database(tmp_path / "other.db", tmp_path / "copy.db")
    assert os.listdir(tmp_path) == ["other.db"]


def test_a_damaged_database_leaves_no_copy(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "live.db")
    for _ in range(200):
        grow(store, A, B)
    store.close()
    data = bytearray((tmp_path / "live.db").read_bytes())
    data[4096 * 30 : 4096 * 40] = b"\xff" * 40960
    (tmp_path / "live.db").write_bytes(data)
    with pytest.raises(StoreError):
        copy_database(tmp_path / "live.db", tmp_path / "copy.db")
    assert not [name for name in os.listdir(tmp_path) if "copy" in name]
