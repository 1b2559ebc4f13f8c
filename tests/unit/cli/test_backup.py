"""noetl backup and noetl restore."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command import GOOD, file, noetl, noetl_process
from tests.acceptance.chaos.disk import small_disk

from noetl.client.database import server_of
from noetl.store.sqlite import Owner, SqliteStore


def test_a_database_comes_back_from_its_backup(tmp_path: Path) -> None:
    assert noetl("run", file(tmp_path, GOOD), "--db", "runs.db", cwd=tmp_path).code == 0
    done = noetl("backup", "copy.db", "--db", "runs.db", "-o", "json", cwd=tmp_path)
    assert (done.code, json.loads(done.out)["file"]) == (0, "copy.db")
    again = noetl("backup", "copy.db", "--db", "runs.db", cwd=tmp_path)
    assert (again.code, "move it away first" in again.err) == (6, True)
    assert noetl("restore", "copy.db", "--db", "runs.db", cwd=tmp_path).code == 6
    assert noetl("restore", "copy.db", "--db", "new/runs.db", cwd=tmp_path).code == 0
    lists = [noetl("runs", "list", "-o", "json", "--db", db, cwd=tmp_path).out for db in ("runs.db", "new/runs.db")]
    assert lists[0] == lists[1]
    assert json.loads(noetl("verify", "--db", "new/runs.db", "-o", "json", cwd=tmp_path).out)["violations"] == []


def test_credentials_come_back_with_their_key_only(tmp_path: Path) -> None:
    keys = {"NOETL_MASTER_KEY_FILE": str(tmp_path / "keys" / "master.key")}
    secret = '{"token": "s3cret-token"}'
    set_it = ("credential", "set", "api", "--kind", "bearer", "--db", "data/runs.db")
    assert noetl(*set_it, stdin=secret, cwd=tmp_path, **keys).code == 0
    done = noetl("backup", "copy.db", "--db", "data/runs.db", cwd=tmp_path, **keys)
    assert "master key" in done.err
    assert b"s3cret-token" not in (tmp_path / "copy.db").read_bytes()
    assert noetl("restore", "copy.db", "--db", "new/runs.db", cwd=tmp_path, **keys).code == 0
    rotate = ("credential", "rotate", "--db", "new/runs.db")
    other = {"NOETL_MASTER_KEY_FILE": str(tmp_path / "elsewhere" / "master.key")}
    assert noetl(*rotate, cwd=tmp_path, **other).code == 5
    assert noetl(*rotate, cwd=tmp_path, **keys).code == 0


def test_what_cannot_be_backed_up_is_reported(tmp_path: Path) -> None:
    missing = noetl("backup", "copy.db", "--db", "none.db", cwd=tmp_path)
    assert (missing.code, "none.db" in missing.err) == (4, True)
    assert noetl("restore", "none.db", "--db", "new.db", cwd=tmp_path).code == 4
    postgres = noetl("backup", "copy.db", "--db", "postgresql://db/noetl", cwd=tmp_path)
    assert (postgres.code, "pg_dump" in postgres.err) == (2, True)
    server = noetl("backup", "copy.db", cwd=tmp_path, NOETL_SERVER="http://127.0.0.1:1")
    assert (server.code, "--db" in server.err) == (2, True)
    assert sorted(path.name for path in tmp_path.iterdir()) == []


def restored_by_hand(folder: Path) -> str:
    """A database in whose place somebody has put its backup; the id of the run that is missing."""
    assert noetl("run", file(folder, GOOD), "--db", "runs.db", cwd=folder).code == 0
    assert noetl("backup", "copy.db", "--db", "runs.db", cwd=folder).code == 0
    lost = json.loads(noetl("run", "playbook.yaml", "--db", "runs.db", "-o", "json", cwd=folder).out)
    for database in folder.glob("runs.db*"):
        database.unlink()
    (folder / "copy.db").rename(folder / "runs.db")
    return str(lost["execution_id"])


def test_a_database_that_was_restored_by_hand_is_refused_until_it_is_accepted(tmp_path: Path) -> None:
    lost = restored_by_hand(tmp_path)
    for command in (
        ("run", "playbook.yaml"),
        ("server", "--port", "0"),
        ("dev", "--port", "0"),
        ("register", "playbook.yaml"),
    ):
        refused = noetl(*command, "--db", "runs.db", cwd=tmp_path)
        assert (refused.code, lost in refused.err) == (6, True), refused.err
        assert "noetl restore --accept --db runs.db" in refused.err
    checked = noetl("verify", "--db", "runs.db", "-o", "json", cwd=tmp_path)
    (violation,) = json.loads(checked.out)["violations"]
    assert (checked.code, violation["invariant"], violation["execution_id"]) == (1, "last_commit", lost)
    assert noetl("runs", "list", "--db", "runs.db", cwd=tmp_path).code == 0
    assert noetl("restore", "--accept", "--db", "runs.db", cwd=tmp_path).code == 0
    assert noetl("verify", "--db", "runs.db", cwd=tmp_path).code == 0
    assert noetl("run", "playbook.yaml", "--db", "runs.db", cwd=tmp_path).code == 0


def test_noetl_restore_needs_no_second_command(tmp_path: Path) -> None:
    assert noetl("run", file(tmp_path, GOOD), "--db", "runs.db", cwd=tmp_path).code == 0
    assert noetl("backup", "copy.db", "--db", "runs.db", cwd=tmp_path).code == 0
    assert noetl("run", "playbook.yaml", "--db", "runs.db", cwd=tmp_path).code == 0
    for database in tmp_path.glob("runs.db*"):
        database.unlink()
    assert noetl("restore", "copy.db", "--db", "runs.db", cwd=tmp_path).code == 0
    assert noetl("run", "playbook.yaml", "--db", "runs.db", cwd=tmp_path).code == 0


def test_a_database_that_lost_its_write_ahead_log_is_refused(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "runs.db")  # which keeps the log from being moved into the file
    lost = json.loads(noetl("run", file(tmp_path, GOOD), "--db", "runs.db", "-o", "json", cwd=tmp_path).out)
    (tmp_path / "runs.db-wal").rename(tmp_path / "elsewhere")
    (tmp_path / "runs.db-shm").unlink()
    refused = noetl_process("run", "playbook.yaml", "--db", "runs.db", cwd=tmp_path)  # here, SQLite has the log mapped
    assert (refused.code, lost["execution_id"] in refused.err) == (6, True)
    store.close()


def test_a_restore_names_a_file_or_accepts_what_is_there(tmp_path: Path) -> None:
    both = noetl("restore", "copy.db", "--accept", cwd=tmp_path)
    neither = noetl("restore", cwd=tmp_path)
    assert both.code == neither.code == 2
    assert both.err == neither.err
    missing = noetl("restore", "--accept", "--db", "none.db", cwd=tmp_path)
    assert (missing.code, "none.db" in missing.err) == (4, True)


def test_a_database_in_use_is_not_accepted(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "runs.db")
    owner = Owner.acquire(store, server_of(store))
    assert owner is not None
    with owner:
        refused = noetl("restore", "--accept", "--db", "runs.db", cwd=tmp_path)
        assert (refused.code, "noetl server stop" in refused.err) == (6, True)
    store.close()


def test_a_backup_on_a_full_disk_says_so_and_leaves_no_file(tmp_path: Path) -> None:
    assert noetl("run", file(tmp_path, GOOD), "--db", "runs.db", cwd=tmp_path).code == 0
    with small_disk(1) as disk:
        if isinstance(disk, str):
            pytest.skip(disk)
        disk.fill()
        done = noetl("backup", str(disk.folder / "copy.db"), "--db", "runs.db", cwd=tmp_path)
        assert (done.code, done.err) == (1, f"noetl: cannot write {disk.folder / 'copy.db'}: the disk is full\n")
        assert [path.name for path in disk.folder.iterdir()] == ["ballast"]


def test_a_database_that_is_a_folder_is_reported(tmp_path: Path) -> None:
    created = noetl("run", file(tmp_path, GOOD), "--db", str(tmp_path), cwd=tmp_path)
    assert created.code == 1
    assert f"{tmp_path} is a folder: name a file in it, such as {tmp_path / 'noetl.db'}" in created.err
    read = noetl("runs", "list", "--db", str(tmp_path), cwd=tmp_path)
    assert (read.code, read.err) == (4, f"noetl: {tmp_path} is a folder: name the database file in it with --db PATH\n")
