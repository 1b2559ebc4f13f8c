"""noetl backup and noetl restore."""

from __future__ import annotations

import json
from pathlib import Path

from command import GOOD, file, noetl


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


def test_what_can_not_be_backed_up_is_told(tmp_path: Path) -> None:
    missing = noetl("backup", "copy.db", "--db", "none.db", cwd=tmp_path)
    assert (missing.code, "none.db" in missing.err) == (4, True)
    assert noetl("restore", "none.db", "--db", "new.db", cwd=tmp_path).code == 4
    postgres = noetl("backup", "copy.db", "--db", "postgresql://db/noetl", cwd=tmp_path)
    assert (postgres.code, "pg_dump" in postgres.err) == (2, True)
    server = noetl("backup", "copy.db", cwd=tmp_path, NOETL_SERVER="http://127.0.0.1:1")
    assert (server.code, "--db" in server.err) == (2, True)
    assert sorted(path.name for path in tmp_path.iterdir()) == []
