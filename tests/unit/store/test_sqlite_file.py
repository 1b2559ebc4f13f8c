"""The file of the SQLite store: how it is made and opened, and what happens when the disk gives trouble."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from noetl.errors import DiskFull, NewerDatabase, StoreError, UsageError
from noetl.store.codec import ZERO
from noetl.store.database import Mode, migrations_in, pending
from noetl.store.sqlite import SqliteStore, locks
from noetl.store.sqlite import database as module
from noetl.store.sqlite.database import MIGRATIONS
from noetl.store.store import Change, Row, Summary

pytestmark = pytest.mark.damaged_log("the rows are made up: this tests stores, not the engine")

A = "0198c0de-0000-7000-8000-00000000000a"
B = "0198c0de-0000-7000-8000-00000000000b"
C = "0198c0de-0000-7000-8000-00000000000c"


def change(execution: str, expected: int, size: int = 10, count: int = 1) -> Change:
    rows = [Row(expected + n, "step.done", 1.5, b"x" * size, ZERO) for n in range(1, count + 1)]
    return Change(
        execution, expected, rows, Summary(execution, "n", "p", "running", 1.5), [(f"{expected}", b"y" * size)]
    )


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / ".noetl" / "noetl.db"


@pytest.fixture
def store(path: Path) -> Iterator[SqliteStore]:
    one = SqliteStore(path)
    yield one
    one.close()


def pragma(store: SqliteStore, name: str) -> object:
    return store._db.connection.execute(f"PRAGMA {name}").get


# -- making and opening ---------------------------------------------------------------------------------------------


def test_folder_and_files_are_for_their_owner_alone(store: SqliteStore, path: Path) -> None:
    before = os.umask(0)
    try:
        store.commit([change(A, 0)])
        assert path.parent.stat().st_mode & 0o777 == 0o700
        modes = {file.name: file.stat().st_mode & 0o777 for file in path.parent.rglob("*")}
        files = ("noetl.db", "noetl.db-wal", "noetl.db-shm", "noetl.db.turn", "noetl.db.last")
        assert modes.pop(".gitignore")  # its folder is closed to others
        assert modes == {"locks": 0o700} | dict.fromkeys(files, 0o600)
    finally:
        os.umask(before)


def test_a_closed_store_is_one_file_and_opens_again(store: SqliteStore, path: Path) -> None:
    store.commit([change(A, 0)])
    store.close()
    assert sorted(file.name for file in path.parent.iterdir()) == [".gitignore", "locks", "noetl.db"]
    assert (path.parent / ".gitignore").read_text() == "*\n"
    again = SqliteStore(str(path))
    assert again.seq(A) == 1
    again.close()


def test_commits_are_synced_unless_asked_otherwise(store: SqliteStore, tmp_path: Path) -> None:
    assert pragma(store, "journal_mode") == "wal"
    assert pragma(store, "synchronous") == 2
    fast = SqliteStore(tmp_path / "fast.db", synchronous="normal")
    assert pragma(fast, "synchronous") == 1
    fast.close()
    with pytest.raises(UsageError, match="full or normal"):
        SqliteStore(tmp_path / "off.db", synchronous="off")  # type: ignore[arg-type]


def test_a_relative_path_stays_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    store = SqliteStore(".noetl/noetl.db")
    monkeypatch.chdir("/")
    assert store.path == tmp_path / ".noetl" / "noetl.db"
    assert store.locks == tmp_path / ".noetl" / "locks"
    store.commit([change(A, 0)])
    store.close()


def test_an_old_sqlite_is_refused(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apsw, "sqlite_lib_version", lambda: "3.40.1")
    with pytest.raises(StoreError, match=r"SQLite 3\.40\.1 can lose data .* needs 3\.51\.3"):
        SqliteStore(path)
    assert not path.exists()


def test_opening_a_second_store_keeps_the_locks_of_the_first(store: SqliteStore, path: Path) -> None:
    """POSIX locks vanish when any descriptor of the file is closed by the process: nothing here may open one."""
    store._db.connection.execute("BEGIN IMMEDIATE")
    second = SqliteStore(path)
    second.close()
    code = "import apsw, sys; apsw.Connection(sys.argv[1]).execute('BEGIN IMMEDIATE')"
    done = subprocess.run([sys.executable, "-c", code, path], capture_output=True, text=True)
    assert "BusyError" in done.stderr
    store._db.connection.execute("ROLLBACK")


def test_a_missing_database_is_not_made_by_who_only_looks(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"cannot open .*none\.db"):
        SqliteStore(tmp_path / "none.db", mode="read")
    assert list(tmp_path.iterdir()) == []


def test_who_only_looks_sees_a_live_database_and_cannot_write(store: SqliteStore, path: Path) -> None:
    store.commit([change(A, 0)])
    look = SqliteStore(path, mode="read")
    assert look.seq(A) == 1
    with pytest.raises(StoreError, match="is read-only"):
        look.commit([change(A, 1)])
    assert not look.changed_elsewhere()
    store.commit([change(A, 1)])
    assert look.changed_elsewhere()
    assert len(look.read(A)) == 2
    look.close()
    write = SqliteStore(path, mode="write")
    assert write.commit([change(A, 2)]) == [True]
    assert store.changed_elsewhere()
    write.close()


def test_a_file_that_is_just_being_made_can_be_looked_at(path: Path) -> None:
    path.parent.mkdir()
    path.touch(0o600)
    look = SqliteStore(path, mode="read")
    assert look.summaries() == []
    look.close()


def test_what_is_not_our_database_is_refused_and_left_alone(tmp_path: Path) -> None:
    text, other = tmp_path / "text", tmp_path / "other.db"
    text.write_text("hello " * 1000)
    with pytest.raises(StoreError, match="is not a database"):
        SqliteStore(text)
    db = apsw.Connection(str(other))
    db.execute("CREATE TABLE mine (a)")
    db.close()
    with pytest.raises(StoreError, match="of another program"):
        SqliteStore(other)
    db = apsw.Connection(str(other))
    assert db.execute("SELECT name FROM sqlite_schema").get == "mine"
    db.close()
    with pytest.raises(StoreError, match="is a folder: name a file in it"):
        SqliteStore(tmp_path)
    for place in (text / "inside" / "x.db", text / "x.db"):
        with pytest.raises(StoreError, match="cannot"):
            SqliteStore(place)


def test_a_closed_store_reports_it(store: SqliteStore) -> None:
    store.close()
    for action in (store.summaries, store.changed_elsewhere, lambda: store.commit([change(A, 0)])):
        with pytest.raises(StoreError, match="the store is closed"):
            action()


# -- versions -------------------------------------------------------------------------------------------------------


def test_a_newer_database_is_refused(store: SqliteStore, path: Path) -> None:
    store._db.connection.execute("UPDATE meta SET value = '99' WHERE key = 'schema'")
    store.close()
    modes: tuple[Mode, ...] = ("create", "read")
    for mode in modes:
        with pytest.raises(NewerDatabase, match=r"newer noetl \(schema version 99.*upgrade"):
            SqliteStore(path, mode=mode)


def test_an_older_database_is_migrated_in_one_go(
    store: SqliteStore, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.commit([change(A, 0)])
    store.close()
    known = migrations_in(MIGRATIONS)
    version = len(known) + 1
    good = {version: "CREATE TABLE tag (a); INSERT INTO tag VALUES (1)"}
    bad = {version + 1: "CREATE TABLE more (a); INSERT INTO missing VALUES (1)"}
    monkeypatch.setattr(module, "migrations_in", lambda folder: known | good | bad)
    with pytest.raises(StoreError, match="no such table: missing"):
        SqliteStore(path)
    monkeypatch.setattr(module, "migrations_in", lambda folder: known | good)
    look = SqliteStore(path, mode="read")  # migrates, too
    database = look._db.connection
    assert database.execute("SELECT value FROM meta WHERE key = 'schema'").get == str(version)
    assert database.execute("SELECT group_concat(name) FROM sqlite_schema WHERE name IN ('tag', 'more')").get == "tag"
    assert look.seq(A) == 1
    look.close()


def test_migrations_are_numbered_without_gaps() -> None:
    known = migrations_in(MIGRATIONS)
    assert list(known) == list(range(1, len(known) + 1))
    assert pending(known, len(known), "x") == {}


# -- trouble --------------------------------------------------------------------------------------------------------


def test_a_full_disk_leaves_nothing_half_written_and_can_be_recovered_from(store: SqliteStore) -> None:
    store.commit([change(A, 0)])
    store._db.connection.execute("PRAGMA max_page_count = 40")
    with pytest.raises(DiskFull, match="the disk is full; nothing of the last change was written"):
        store.commit([change(A, 1), change(B, 0, 5_000, 60)])
    assert (store.seq(A), store.seq(B)) == (1, 0)
    assert store.blob("1") is None
    assert [run.execution_id for run in store.summaries()] == [A]
    with pytest.raises(DiskFull):
        store.append_output([(A, "t", 1.5, "stdout", "x" * 300_000)])
    store._db.connection.execute("PRAGMA max_page_count = 100000")
    assert store.commit([change(A, 1), change(B, 0, 5_000, 60)]) == [True, True]


LIMITED = """
import resource, sys
from noetl.errors import StoreError
from noetl.store.codec import ZERO
from noetl.store.store import Change, Row
from noetl.store.sqlite import SqliteStore
store = SqliteStore(sys.argv[1])
resource.setrlimit(resource.RLIMIT_FSIZE, (700_000, 700_000))
for seq in range(0, 100_000, 3):
    rows = [Row(seq + n, "step.done", 1.5, b"x" * 300, ZERO) for n in (1, 2, 3)]
    try:
        store.commit([Change(sys.argv[2], seq, rows)])
    except StoreError as error:
        print(seq, store.seq(sys.argv[2]), error)
        break
"""


def test_an_operating_system_that_refuses_to_write_is_reported_and_loses_nothing(path: Path) -> None:
    """The limit stands for any write that fails half-way: the log can't grow, nor can the file."""
    done = subprocess.run([sys.executable, "-c", LIMITED, path, A], capture_output=True, text=True, check=True)
    acknowledged, seen, message = done.stdout.split(maxsplit=2)
    assert int(acknowledged) == int(seen) > 100
    assert "noetl.db: " in message
    store = SqliteStore(path)
    assert [row.seq for row in store.read(A)] == list(range(1, int(acknowledged) + 1))
    assert pragma(store, "integrity_check") == "ok"
    store.close()


def test_a_writer_that_never_ends_is_reported(
    store: SqliteStore, path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "BUSY_SECONDS", 0.1)
    second = SqliteStore(path)
    store._db.connection.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreError, match=r"another process has locked it for 0\.1 seconds"):
        second.commit([change(A, 0)])
    store._db.connection.execute("ROLLBACK")
    assert second.commit([change(A, 0)]) == [True]
    second.close()


def test_a_writer_waits_its_turn(store: SqliteStore, path: Path) -> None:
    second = SqliteStore(path)
    store._db.connection.execute("BEGIN IMMEDIATE")
    letting = threading.Timer(0.2, lambda: store._db.connection.execute("ROLLBACK"))
    letting.start()
    started = time.monotonic()
    assert second.commit([change(A, 0)]) == [True]
    assert time.monotonic() - started > 0.1
    letting.join()
    second.close()


BUSY = """
import sys
from noetl.store.codec import ZERO
from noetl.store.store import Change, Row
from noetl.store.sqlite import SqliteStore
store = SqliteStore(sys.argv[1])
print("begun", flush=True)
for seq in range(1_000_000):
    store.commit([Change(sys.argv[2], seq, [Row(seq + 1, "step.done", 1.5, b"x", ZERO)])])
"""


def test_a_busy_process_does_not_starve_others(store: SqliteStore, path: Path) -> None:
    busy = [
        subprocess.Popen([sys.executable, "-c", BUSY, path, execution], stdout=subprocess.PIPE) for execution in (A, B)
    ]
    try:
        for process in busy:
            assert process.stdout is not None
            process.stdout.readline()
        waited = []
        for seq in range(20):
            started = time.monotonic()
            assert store.commit([change(C, seq)]) == [True]
            waited.append(time.monotonic() - started)
            time.sleep(0.005)
        assert sorted(waited)[-2] < 0.5
        assert store.seq(A) + store.seq(B) > 20
    finally:
        for process in busy:
            process.kill()
            process.communicate()


def test_a_door_that_is_held_for_ever_is_walked_around(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locks, "MAX_WAIT_SECONDS", 0.05)
    first, second = SqliteStore(path), SqliteStore(path)
    with first._db._fair_lock:
        assert second.commit([change(A, 0)]) == [True]
    first.close()
    second.close()


def test_a_bad_id_spoils_nothing(store: SqliteStore) -> None:
    with pytest.raises(StoreError, match="'x1' is not an execution id"):
        store.commit([change(A, 0), change("x1", 0)])
    assert store.seq(A) == 0
    assert store.commit([change(A, 0)]) == [True]


def test_text_that_is_not_unicode_is_kept_readable(store: SqliteStore) -> None:
    store.append_output([(A, "t", 1.5, "stdout", "caf\udce9 \ud83d")])
    store.put_playbook("d", "caf\udce9.yaml", b"")
    assert store.output(A)[0][4] == r"caf\udce9 \ud83d"
    assert store.playbook("d") == (r"caf\udce9.yaml", b"")


def test_many_threads_may_call_and_close(store: SqliteStore) -> None:
    errors: list[BaseException] = []

    def work(number: int) -> None:
        execution = A[:-2] + f"{number:02}"
        for seq in range(50):
            try:
                store.commit([change(execution, seq)])
                assert store.seq(execution) == seq + 1
            except BaseException as error:
                errors.append(error)
                return

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    threads[0].join()
    store.close()
    for thread in threads:
        thread.join()
    assert all(isinstance(error, StoreError) and "closed" in str(error) for error in errors)


# -- size -----------------------------------------------------------------------------------------------------------


def test_a_step_takes_less_than_two_kilobytes_and_an_iteration_less_than_one(tmp_path: Path) -> None:
    assert bytes_each(tmp_path / "steps.db", rows=8, data=60) < 2_000
    assert bytes_each(tmp_path / "iterations.db", rows=4, data=60) < 1_000


def bytes_each(path: Path, rows: int, data: int, count: int = 2_000) -> float:
    store = SqliteStore(path, synchronous="normal")
    for turn in range(count):
        made = [Row(turn * rows + n, "loop.iteration.started", 1.5, b"x" * data, ZERO) for n in range(1, rows + 1)]
        store.commit([Change(A, turn * rows, made)])
    store.close()
    return path.stat().st_size / count
