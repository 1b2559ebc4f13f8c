"""A command that is forked, or called in this process, does what it does in an interpreter of its own."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.servers import forked, in_process

SECONDS = 300
PLAYBOOK = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: forked, path: tests/forked}
workload: {n: 1}
workflow:
  - step: start
    tool: {kind: python, args: {n: "{{ workload.n }}"}, code: "print('hello')\\nresult = 12 / n"}
"""
WAITS = PLAYBOOK.partition("workload")[0] + "workflow:\n  - {step: start, tool: {kind: wait, signal: go}}\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "good.yaml").write_text(PLAYBOOK)
    (tmp_path / "bad.yaml").write_text(PLAYBOOK.replace("kind: python", "kind: pythn"))
    (tmp_path / "waits.yaml").write_text(WAITS)
    return tmp_path


@pytest.mark.parametrize(
    ("args", "stdin", "code"),
    [
        (["--help"], "", 0),
        (["--version"], "", 0),
        (["nonsense"], "", 2),
        (["validate", "bad.yaml"], "", 3),
        (["validate", "-"], PLAYBOOK, 0),
        (["graph", "good.yaml"], "", 0),
        (["run", "missing.yaml"], "", 4),
        (["schema"], "", 0),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_output_and_exit_code_are_the_same(folder: Path, args: list[str], stdin: str, code: int) -> None:
    fresh = subprocess.run(
        [sys.executable, "-m", "noetl.cli", *args],
        input=stdin.encode(),
        capture_output=True,
        cwd=folder,
        timeout=SECONDS,
        check=False,
    )
    fork = forked.run(args, stdin=stdin.encode(), cwd=folder, timeout=SECONDS)
    assert (fork.returncode, fork.stdout, fork.stderr) == (fresh.returncode, fresh.stdout, fresh.stderr)
    call = in_process.run(args, stdin=stdin.encode(), cwd=folder, timeout=SECONDS)
    assert (call.returncode, call.stdout, call.stderr) == (fresh.returncode, fresh.stdout, fresh.stderr)
    assert fork.returncode == code


@pytest.mark.parametrize("run", [forked.run, in_process.run], ids=["forked", "in process"])
def test_folder_and_environment_are_those_of_the_caller(folder: Path, run: Callable[..., Any]) -> None:
    env = {**os.environ, "NOETL_DB": "here.db"}
    assert run(["run", "good.yaml"], cwd=folder, env=env, timeout=SECONDS).returncode == 0
    assert run(["run", "good.yaml", "--set", "n=0"], cwd=folder, env=env, timeout=SECONDS).returncode == 1
    assert (folder / "here.db").exists()


def test_a_command_in_this_process_leaves_it_as_it_was(folder: Path) -> None:
    def state() -> list[Any]:
        handlers = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGALRM)]
        streams = [sys.stdin, sys.stdout, sys.stderr]
        return [os.getcwd(), dict(os.environ), time.tzname, [*sys.path], sys.argv, streams, handlers]

    before = state()
    for code, name in enumerate(["good.yaml", "good.yaml --set n=0"]):
        env = {"PATH": os.environ["PATH"], "TZ": "Asia/Tokyo"}
        assert in_process.run(["run", *name.split()], cwd=folder, env=env, timeout=SECONDS).returncode == code
    assert state() == before


def test_a_command_in_this_process_that_does_not_end_is_stopped(folder: Path) -> None:
    with pytest.raises(subprocess.TimeoutExpired):
        in_process.run(["run", "waits.yaml"], cwd=folder, timeout=0.5)


def test_a_variable_that_python_reads_at_its_start_is_refused(folder: Path) -> None:
    with pytest.raises(AssertionError, match="when it starts"):
        forked.run(["--version"], cwd=folder, env={**os.environ, "PYTHONPATH": "/elsewhere"}, timeout=SECONDS)


def test_a_terminal_is_one(folder: Path) -> None:
    ours, theirs = pty.openpty()
    process = forked.Process(["validate", "bad.yaml"], cwd=folder, stdout=theirs, stderr=theirs)
    os.close(theirs)
    assert process.wait(SECONDS) == 3
    assert b"\x1b[" in os.read(ours, 65536)
    os.close(ours)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGKILL, -signal.SIGKILL)])
def test_signals_arrive(folder: Path, number: signal.Signals, code: int) -> None:
    process = forked.Process(["run", "waits.yaml"], cwd=folder)
    while b"waits for the signal" not in process.stderr.readline():
        assert process.poll() is None
    process.send_signal(number)
    assert process.wait(SECONDS) == code
    process.stdout.close()
    process.stderr.close()
