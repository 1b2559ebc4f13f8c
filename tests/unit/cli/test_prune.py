"""noetl runs prune: runs that ended long ago go."""

from __future__ import annotations

import json
import time
from pathlib import Path

from command import GOOD, file, noetl

from noetl.store.sqlite import SqliteStore
from noetl.store.store import Change, Summary

DAY = 86_400.0


def aged(db: Path, execution: str, days: float) -> None:
    """Let a run have ended some days ago."""
    store = SqliteStore(db)
    (result,) = store.summaries(prefix=execution)
    fields = {name: getattr(result, name) for name in Summary.__struct_fields__}
    older = Summary(**fields | {"ended": time.time() - days * DAY})
    assert store.commit([Change(execution, store.seq(execution), [], older)]) == [True]
    store.close()


def ran(folder: Path, **env: str) -> str:
    done = noetl("run", file(folder, GOOD), "--db", "runs.db", "-o", "json", cwd=folder, **env)
    assert done.code == 0, done.err
    return str(json.loads(done.out)["execution_id"])


def listed(folder: Path) -> list[str]:
    done = noetl("runs", "list", "--db", "runs.db", "-o", "json", cwd=folder)
    return [load["execution_id"] for load in json.loads(done.out)]


def test_only_what_is_older_goes(tmp_path: Path) -> None:
    old, young = ran(tmp_path), ran(tmp_path)
    aged(tmp_path / "runs.db", old, 31)
    prune = ("runs", "prune", "--db", "runs.db")
    shown = noetl(*prune, "--dry-run", cwd=tmp_path)
    assert (shown.code, shown.err) == (0, "1 run would be removed\n")
    assert old in shown.out
    assert sorted(listed(tmp_path)) == sorted([old, young])
    data = json.loads(noetl(*prune, "--dry-run", "--older-than", "0", "-o", "json", cwd=tmp_path).out)
    assert (data["dry_run"], data["removed"], len(data["runs"])) == (True, 0, 2)
    done = noetl(*prune, cwd=tmp_path)
    assert (done.code, done.out, done.err) == (0, "", "1 run removed\n")
    assert listed(tmp_path) == [young]
    assert json.loads(noetl(*prune, "-o", "json", cwd=tmp_path).out) == {"dry_run": False, "removed": 0, "runs": []}
    assert noetl("verify", "--db", "runs.db", cwd=tmp_path).code == 0


def test_an_age_that_is_no_duration_is_a_mistake(tmp_path: Path) -> None:
    ran(tmp_path)
    done = noetl("runs", "prune", "--db", "runs.db", "--older-than", "old", cwd=tmp_path)
    assert (done.code, "write a duration" in done.err) == (2, True)


def test_a_database_that_is_missing_is_not_made(tmp_path: Path) -> None:
    assert noetl("runs", "prune", "--db", "none.db", cwd=tmp_path).code == 4
    assert not (tmp_path / "none.db").exists()


def test_a_run_removes_what_is_old_unless_retention_is_off(tmp_path: Path) -> None:
    old = ran(tmp_path)
    aged(tmp_path / "runs.db", old, 31)
    ran(tmp_path, NOETL_RETENTION="off")
    assert old in listed(tmp_path)
    ran(tmp_path, NOETL_RETENTION="60d")
    assert old in listed(tmp_path)
    ran(tmp_path)
    assert old not in listed(tmp_path)
    assert len(listed(tmp_path)) == 3
