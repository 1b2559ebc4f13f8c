"""noetl verify: sound logs, and logs that somebody has changed."""

from __future__ import annotations

from pathlib import Path

import apsw
import pytest
from command import file, noetl
from terminal import HEAD, data

ONE = HEAD + "workflow:\n  - {step: start, tool: {kind: noop, result: 1}}\n"
LARGE = ONE.replace("result: 1", "result: \"{{ 'x' * 100000 }}\"")


def run(folder: Path, text: str = ONE) -> str:
    execution: str = data(noetl("run", file(folder, text), "-o", "json", cwd=folder))["execution_id"]
    return execution


def change(folder: Path, sql: str) -> None:
    db = apsw.Connection(str(folder / ".noetl" / "noetl.db"))
    db.execute(sql)
    db.close()


def test_sound_logs_are_counted(tmp_path: Path) -> None:
    run(tmp_path)
    run(tmp_path, LARGE)
    done = noetl("verify", "-o", "json", cwd=tmp_path)
    assert (done.code, data(done)) == (0, {"executions": 2, "violations": []})
    done = noetl("verify", cwd=tmp_path)
    assert (done.code, done.out, done.err) == (0, "", "2 executions: sound\n")


@pytest.mark.parametrize(
    ("sql", "invariant"),
    [
        ("UPDATE event SET data = CAST(replace(CAST(data AS TEXT), '1', '2') AS BLOB) WHERE seq = 11", "hash_chain"),
        ("DELETE FROM event WHERE seq = 4", "seq"),
        ("UPDATE event SET type = 'no.such.event' WHERE seq = 4", "readable"),
        ("UPDATE execution SET status = 'failed'", "replay"),
        ("DELETE FROM playbook", "replay"),
        ("UPDATE blob SET data = x'00'", "references"),
        ("DELETE FROM blob", "references"),
    ],
)
def test_a_change_is_found_and_named(tmp_path: Path, sql: str, invariant: str) -> None:
    sound, changed = run(tmp_path), run(tmp_path, LARGE)
    change(tmp_path, sql if "event " not in sql else f"{sql} AND execution = x'{changed.replace('-', '')}'")
    done = noetl("verify", changed, "-o", "json", cwd=tmp_path)
    found = data(done)
    assert (done.code, found["executions"]) == (1, 1)
    assert invariant in {one["invariant"] for one in found["violations"]}
    assert {tuple(one) for one in found["violations"]} == {("execution_id", "seq", "invariant", "message")}
    assert {one["execution_id"] for one in found["violations"]} == {changed}
    words = noetl("verify", cwd=tmp_path)
    assert words.code == 1
    assert f"{changed}." in words.out
    assert "2 executions: " in words.err
    assert sound != changed


def test_a_run_that_is_not_there_is_exit_4(tmp_path: Path) -> None:
    assert noetl("verify", cwd=tmp_path).code == 4
    run(tmp_path)
    assert noetl("verify", "nonsense", cwd=tmp_path).code == 4
