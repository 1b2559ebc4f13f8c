"""noetl verify: sound logs, and logs that somebody has changed."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

import apsw
import click
import pytest
from bench.long_run import write
from command import environment, file, noetl
from terminal import HEAD, data

from noetl.runtime.audit import Audit, AuditProgress, verify_large
from noetl.store.sqlite import SqliteStore

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


@pytest.mark.damaged_log("rows of the database are changed")
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
    result = data(done)
    assert (done.code, result["executions"]) == (1, 1)
    assert invariant in {violation["invariant"] for violation in result["violations"]}
    assert {tuple(violation) for violation in result["violations"]} == {("execution_id", "seq", "invariant", "message")}
    assert {violation["execution_id"] for violation in result["violations"]} == {changed}
    words = noetl("verify", cwd=tmp_path)
    assert words.code == 1
    assert f"{changed}." in words.out
    assert "2 executions: " in words.err
    assert sound != changed


def test_a_run_that_is_missing_is_exit_4(tmp_path: Path) -> None:
    assert noetl("verify", cwd=tmp_path).code == 4
    run(tmp_path)
    assert noetl("verify", "nonsense", cwd=tmp_path).code == 4


# -- long logs ------------------------------------------------------------------------------------------------------

LONG = 80_000


def test_a_terminal_shows_the_progress_and_a_pipe_does_not(tmp_path: Path) -> None:
    path = tmp_path / "long.db"
    count = write(path, LONG)
    code, shown = on_a_terminal("verify", "--db", str(path))
    *lines, last, _ = shown.replace("\x1b[K", "").split("\r")
    assert (code, click.unstyle(last)) == (0, "1 execution: sound")
    progress = [line for line in lines if line.startswith("run 1 of 1: ")]
    assert progress
    assert all(f"of {count:,} events, " in line and line.endswith(" left") for line in progress)
    piped = noetl("verify", "--db", str(path))
    assert (piped.code, piped.out, piped.err) == (0, "", "1 execution: sound\n")


def on_a_terminal(*arguments: str) -> tuple[int, str]:
    """The exit code of the command, and what it wrote on a stderr that is a terminal."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "noetl.cli", *arguments]
    with subprocess.Popen(command, stderr=theirs, stdout=subprocess.DEVNULL, env=environment()) as process:
        os.close(theirs)
        shown = b""
        while part := read(ours):
            shown += part
    os.close(ours)
    return process.returncode, shown.decode()


def read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65_536)
    except OSError:  # nobody has the other end any more
        return b""


@pytest.mark.damaged_log("rows of the database are changed")
@pytest.mark.parametrize(
    "sql",
    [
        "",
        "UPDATE event SET data = CAST('{}' AS BLOB) WHERE seq = 40",
        "DELETE FROM event WHERE seq = 60",
        "UPDATE event SET type = 'no.such.event' WHERE seq = 77",
        "UPDATE execution SET status = 'failed'",
        "INSERT INTO timer SELECT id, 'late', 1.0 FROM execution",
        "DELETE FROM playbook",
    ],
)
def test_two_processes_find_what_one_finds(tmp_path: Path, sql: str) -> None:
    path = tmp_path / "long.db"
    count = write(path, 3_000)
    db = apsw.Connection(str(path))
    db.execute(sql)
    db.close()
    store = SqliteStore(path, mode="read")
    reports: list[AuditProgress] = []
    (summary,) = store.summaries()
    one = Audit(store).of(summary)
    two = verify_large(str(path), store, summary, reports.append)
    store.close()
    assert {(found.seq, found.invariant, found.message) for found in one} == {
        (found.seq, found.invariant, found.message) for found in two
    }
    assert bool(one) is bool(sql)
    if not sql:
        assert reports[-1] == (count, count)
        assert [report.events for report in reports] == [*range(1_000, count, 1_000), count]


# -- noetl run --verify ---------------------------------------------------------------------------------------------

HARM = """CREATE TRIGGER harm AFTER INSERT ON event WHEN NEW.type = 'playbook.processed' BEGIN
UPDATE event SET at = 1 WHERE execution = NEW.execution AND seq = 2; END"""


def test_a_run_is_verified_after_its_end(tmp_path: Path) -> None:
    done = noetl("run", file(tmp_path, ONE), "--verify", "-o", "json", cwd=tmp_path)
    assert (done.code, data(done)["status"]) == (0, "succeeded")
    assert done.err.endswith("log: sound\n")
    failing = ONE.replace("result: 1", 'result: "{{ 1 / 0 }}"')
    done = noetl("run", file(tmp_path, failing), "--verify", cwd=tmp_path)
    assert done.code == 1
    assert done.err.endswith("log: sound\n")


@pytest.mark.damaged_log("a trigger changes a row of the log")
def test_a_run_whose_log_breaks_an_invariant_exits_with_1_and_says_which(tmp_path: Path) -> None:
    run(tmp_path)
    change(tmp_path, HARM)
    done = noetl("run", file(tmp_path, ONE), "--verify", "-o", "json", cwd=tmp_path)
    assert (done.code, data(done)["status"]) == (1, "succeeded")
    assert ".2: hash_chain: " in done.err
    assert done.err.endswith("log: 1 violation\n")
