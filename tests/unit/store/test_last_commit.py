"""A database that went backwards is noticed and named; one that only moved on, was pruned or was killed is not."""

from __future__ import annotations

import os
import random
import shutil
import time
from collections.abc import Callable
from itertools import count
from pathlib import Path

import apsw
import pytest
from tests.servers.postgres import Schema, postgres_fixture, schema_fixture, store_schema_fixture  # noqa: F401

from conformance.kill import check, killed_after
from conformance.suites import A, B, change, summary
from noetl.errors import DatabaseBehind
from noetl.store.last_commit import CHECKSUM, RECORD
from noetl.store.postgres import PostgresStore
from noetl.store.sqlite import SqliteStore
from noetl.store.sqlite.backup import copy_database
from noetl.store.store import Change, Store

pytestmark = pytest.mark.damaged_log("the rows are made up: this tests stores, not the engine")

KILLS = 10
ACCEPT = "noetl restore --accept --db"


class Place:
    """A database whose tables can be put back to an earlier state."""

    def __init__(self, folder: Path, schema: Schema | None = None) -> None:
        self.folder, self.schema, self.numbers = folder, schema, count()

    def open(self, *, server: str = "one", behind: bool = False, reads: bool = False) -> Store:
        """As a process of the machine `server` opens it."""
        mode = "read" if reads else "create"
        if self.schema is None:
            return SqliteStore(self.folder / "noetl.db", mode=mode, allow_behind=behind)  # type: ignore[arg-type]
        state = self.folder / server
        return PostgresStore(self.schema.store_address, mode=mode, state=state, allow_behind=behind)  # type: ignore[arg-type]

    def back_up(self) -> Callable[[], None]:
        """A copy; calling it puts the copy in the place of the database."""
        number = next(self.numbers)
        if self.schema is None:
            database, copy = self.folder / "noetl.db", self.folder / f"copy{number}.db"
            copy_database(database, copy)

            def put_back() -> None:
                for suffix in ("-wal", "-shm", ""):
                    Path(f"{database}{suffix}").unlink(missing_ok=True)
                shutil.copy(copy, database)

            return put_back
        return _copied_tables(self.schema, number)

    def commit(self, *executions: str, **options: bool) -> None:
        """One more event for each, by a process of its own."""
        store = self.open(**options)
        changes = [change(execution, store.seq(execution)) for execution in executions]
        assert all(store.commit(changes))
        store.close()


def _copied_tables(schema: Schema, number: int) -> Callable[[], None]:
    """The tables that these tests write; a dump of all takes longer."""
    tables = ("event", "execution", "meta", "lease")
    for table in tables:
        schema.rows(f"CREATE TABLE copy{number}_{table} AS TABLE {table}")  # type: ignore[arg-type]

    def put_back() -> None:
        for table in tables:
            schema.rows(f"DELETE FROM {table}; INSERT INTO {table} TABLE copy{number}_{table}")  # type: ignore[arg-type]

    return put_back


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    schema = request.getfixturevalue("schema") if request.param == "postgres" else None
    made = Place(tmp_path, schema)
    made.open().close()
    return made


# -- what is found ----------------------------------------------------------------------------------------------------


def test_a_restored_copy_is_refused_and_what_is_missing_is_named(place: Place) -> None:
    place.commit(A)
    put_back = place.back_up()
    place.commit(A)
    place.commit(A)
    put_back()
    with pytest.raises(DatabaseBehind) as refused:
        place.open()
    for part in (A, "event 3 ", "its log has 1 events", ACCEPT):
        assert part in str(refused.value)
    store = place.open(reads=True)  # to look at it
    missing = store.missing_commit()
    assert missing is not None
    assert (missing.execution, missing.seq, missing.message) == (A, 3, str(refused.value))
    store.close()


def test_the_command_that_accepts_can_be_pasted(tmp_path: Path) -> None:
    folder = tmp_path / "my project"
    folder.mkdir()
    place = Place(folder)
    place.commit(A)
    put_back = place.back_up()
    place.commit(A)
    put_back()
    with pytest.raises(DatabaseBehind) as refused:
        place.open()
    assert f"`{ACCEPT} '{folder}/noetl.db'`" in str(refused.value)


def test_a_copy_that_has_grown_as_far_is_refused(place: Place) -> None:
    """The seq is there, of another history."""
    place.commit(A)
    put_back = place.back_up()
    place.commit(A)
    put_back()
    store = place.open(behind=True)
    assert store.commit([change(A, 1, mark="other#1")]) == [True]
    store.close()
    with pytest.raises(DatabaseBehind, match=r"event 2 .* 2 events"):
        place.open()


def test_a_restore_that_was_accepted_is_accepted_once_for_all(place: Place) -> None:
    """Also by another server, whose record is from before."""
    place.commit(A)
    put_back = place.back_up()
    place.commit(A, server="other")
    place.commit(A, server="one")
    put_back()
    store = place.open(behind=True)
    store.start_incarnation()
    store.close()
    place.commit(A, server="one")
    place.commit(A, server="other")
    store = place.open(reads=True)
    assert (store.missing_commit(), store.seq(A)) == (None, 3)
    store.close()


def test_a_copy_from_before_an_accepted_restore_is_refused(place: Place) -> None:
    place.commit(A)
    put_back = place.back_up()
    place.commit(A)
    put_back()
    store = place.open(behind=True)
    store.start_incarnation()
    store.close()
    put_back()
    with pytest.raises(DatabaseBehind, match="the restore that was accepted at"):
        place.open()


def test_until_it_is_accepted_the_record_stays(place: Place) -> None:
    """Who accepts commits before: if that is interrupted, the database is still refused."""
    place.commit(A)
    put_back = place.back_up()
    place.commit(B)
    put_back()
    store = place.open(behind=True)
    store.commit([change(A, 1)])
    store.close()
    with pytest.raises(DatabaseBehind, match=B):
        place.open()


def test_a_process_that_runs_over_a_restore_commits_nothing_more(place: Place) -> None:
    """It notices when it looks, which a server does every few seconds."""
    store = place.open()
    store.commit([change(A, 0, 2)])
    store.check_last_commit()
    if place.schema is None:
        assert isinstance(store, SqliteStore)
        store._db.connection.execute("DELETE FROM event")
    else:
        place.schema.rows("DELETE FROM event")
    with pytest.raises(DatabaseBehind, match="event 2 "):
        store.check_last_commit()
    with pytest.raises(DatabaseBehind, match="event 2 "):
        store.commit([change(B, 0)])
    store.close()


def test_a_process_that_runs_over_an_accepted_restore_has_to_be_restarted(place: Place) -> None:
    """What it has in memory is of another history."""
    store = place.open()
    store.commit([change(A, 0)])
    other = place.open(behind=True)
    other.start_incarnation()
    other.close()
    with pytest.raises(DatabaseBehind, match="restart this process"):
        store.check_last_commit()
    with pytest.raises(DatabaseBehind, match="restart this process"):
        store.commit([change(A, 1)])
    store.close()


def test_every_cut_of_the_write_ahead_log_is_found(tmp_path: Path) -> None:
    """SQLite itself reads such a file without complaint, and says that it is whole."""
    live = tmp_path / "live"
    store = SqliteStore(live / "noetl.db")
    for seq in range(5):
        store.commit([change(A, seq)])
    frame = 24 + store._db.connection.execute("PRAGMA page_size").get
    ((_, frames, _),) = store._db.connection.execute("PRAGMA wal_checkpoint(NOOP)")
    assert frames >= 5
    cut, result = tmp_path / "cut", set()
    for length in (0, *(32 + frame * whole + part for whole in range(frames) for part in (0, frame - 1))):
        shutil.copytree(live, cut, ignore=shutil.ignore_patterns("*-shm"))
        os.truncate(cut / "noetl.db-wal", length)
        with apsw.Connection(str(cut / "noetl.db")) as connection:
            assert connection.execute("PRAGMA integrity_check").get == "ok"
        try:
            SqliteStore(cut / "noetl.db").close()
            result.add("whole")
        except DatabaseBehind:
            result.add("behind")
        shutil.rmtree(cut)
    assert result == {"behind"}
    store.close()


def test_a_connection_that_replaces_a_lost_one_looks_first(schema: Schema, tmp_path: Path) -> None:
    store = PostgresStore(schema.store_address, state=tmp_path)
    store.commit([change(A, 0)])
    schema.rows("DELETE FROM event")
    schema.rows("SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE application_name = 'noetl'")
    with pytest.raises(DatabaseBehind, match="event 1 "):
        store.commit([change(A, 0)])
    assert schema.rows("SELECT count(*) FROM event") == [(0,)]
    store.close()


# -- what is no loss --------------------------------------------------------------------------------------------------


def test_events_that_were_pruned_are_not_missed(place: Place) -> None:
    store = place.open()
    now = time.time()
    ended = summary(A, "succeeded", ended=now - 1)
    assert store.commit([change(A, 0, summary=ended)]) == [True]
    assert store.prune(now, 10) == 1
    assert store.seq(A) == 0
    store.check_last_commit()
    store.close()
    place.open().close()


def test_events_of_a_server_whose_clock_was_ahead_may_be_pruned(place: Place) -> None:
    now = time.time()
    ahead, other = place.open(), place.open(server="two")
    assert ahead.commit([Change(A, 0, [row._replace(at=now) for row in change(A, 0).rows])]) == [True]
    assert other.commit([change(A, 1, summary=summary(A, "succeeded", ended=now - 30))]) == [True]
    assert other.prune(now, 10) == 1
    ahead.check_last_commit()
    for store in (ahead, other):
        store.close()
    place.open().close()


def test_pruning_does_not_hide_a_later_loss(place: Place) -> None:
    store, now = place.open(), time.time()
    store.commit([change(A, 0, summary=summary(A, "succeeded", ended=1.0)), change(B, 0, summary=summary(B))])
    put_back = place.back_up()
    store.commit([change(B, 1)])
    store.close()
    put_back()
    store = place.open(behind=True)
    assert store.prune(now - 86_400, 10) == 1
    store.close()
    with pytest.raises(DatabaseBehind, match=B):
        place.open()


def test_a_new_database_in_the_place_of_another_is_not_refused(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.commit(A)
    for file in tmp_path.glob("noetl.db*"):
        file.unlink()
    place.commit(B)
    place.commit(B)


def test_a_record_that_is_torn_is_ignored(tmp_path: Path) -> None:
    place, record = Place(tmp_path), tmp_path / "locks" / "noetl.db.last"
    place.commit(A)
    whole = record.read_bytes()
    assert len(whole) == RECORD.size + CHECKSUM.size
    for damage in (b"", whole[:-1], whole[:40] + bytes(8) + whole[48:], b"x" * len(whole)):
        record.write_bytes(damage)
        place.open().close()


def test_a_folder_that_cannot_be_written_stops_no_commit(tmp_path: Path) -> None:
    place = Place(tmp_path)
    (tmp_path / "locks").write_text("no folder")
    place.commit(A)
    place.commit(A)


def test_a_database_without_a_record_gets_one(place: Place) -> None:
    """Such as one of an earlier version."""
    place.commit(A)
    for record in place.folder.rglob("*.last"):
        record.unlink()
    put_back = place.back_up()
    place.commit(A)
    put_back()
    with pytest.raises(DatabaseBehind):
        place.open()


def test_a_process_that_is_killed_leaves_no_record_of_what_is_missing(tmp_path: Path) -> None:
    path, dice = tmp_path / "noetl.db", random.Random(11)
    for _ in range(KILLS):
        acknowledged = killed_after(dice.uniform(0, 0.03), SqliteStore, path)
        store = SqliteStore(path)
        assert (tmp_path / "locks" / "noetl.db.last").exists()
        check(store, acknowledged)
        store.close()


def _open_recorded(place: tuple[str, Path]) -> PostgresStore:
    return PostgresStore(place[0], state=place[1])


def test_a_server_that_is_killed_leaves_no_record_of_what_is_missing(store_schema: Schema, tmp_path: Path) -> None:
    dice = random.Random(13)
    for _ in range(KILLS):
        acknowledged = killed_after(dice.uniform(0, 0.03), _open_recorded, (store_schema.store_address, tmp_path))
        store = _open_recorded((store_schema.store_address, tmp_path))
        assert list(tmp_path.glob("*.last"))
        check(store, acknowledged)
        store.close()
