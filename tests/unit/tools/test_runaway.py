"""Tools that run away: each ends at its limit, and no process of it is left.

The bombs end by themselves after a while and at some thousand processes, should what is tested here not hold.
"""

from __future__ import annotations

import asyncio
import os
import textwrap
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from noetl.model.outcome import Outcome
from noetl.shell_text import ShellText
from noetl.tools import python, script, shell
from noetl.tools.base import Context

PATIENCE_SECONDS = 60.0
TIME_LIMIT_SECONDS = 1.0
MARK = "NOETLTEST_RUNAWAY"

ENDLESS = {
    "shell": "while :; do :; done",
    "script": "while :; do :; done",
    "python": "while True: pass",
}
DEAF = {
    "shell": "trap '' TERM INT HUP; while :; do sleep 0.05; done",
    "script": "trap '' TERM INT HUP; while :; do sleep 0.05; done",
    "python": "import signal, time\nfor n in 15, 2, 1: signal.signal(n, signal.SIG_IGN)\nwhile True: time.sleep(0.05)",
}
PYTHON_DAEMON = """
    import os, time
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.setsid()
            open('daemon', 'w').close()
            time.sleep(50)
        os._exit(0)
    while not os.path.exists('daemon'): time.sleep(0.01)
"""
SHELL_DAEMON = (
    "(setsid sh -c '(setsid sh -c \"touch daemon; sleep 50\" &)' &); until [ -e daemon ]; do sleep 0.01; done"
)
DAEMON = {"shell": SHELL_DAEMON, "script": SHELL_DAEMON, "python": PYTHON_DAEMON}
SHELL_BOMB = "n=0; while [ $n -lt 3000 ]; do sleep 30 & n=$((n+1)); done; wait"
PYTHON_BOMB = """
    import os, time
    for _ in range(11):  # 2,048 of them
        os.fork()
    if os.getsid(0) != os.getpid(): os.setsid()
    time.sleep(30)
"""
BOMB = {"shell": SHELL_BOMB, "script": SHELL_BOMB, "python": PYTHON_BOMB}
HUNGRY_SHELL = "head -c 3000000000 /dev/zero | tail -n 1 | wc -c"
HUNGRY = {
    "shell": HUNGRY_SHELL,
    "script": HUNGRY_SHELL,
    "python": "x = []\nwhile True: x.append(bytearray(10_000_000))",
}
KINDS = ["shell", "script", "python"]


@pytest.fixture
def mark(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[str]:
    """A variable that every process of the test inherits; at the end none may have it."""
    mark = uuid4().hex
    monkeypatch.setenv(MARK, mark)
    monkeypatch.chdir(tmp_path)
    yield mark
    assert processes(mark) == []


def processes(mark: str) -> list[int]:
    """The processes with the mark, except those that only wait to be buried."""
    return [pid for pid in map(int, filter(str.isdecimal, os.listdir("/proc"))) if has(pid, mark)]


def has(pid: int, mark: str) -> bool:
    try:
        return mark.encode() in Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return False


def play(
    kind: str, text: str, mark: str, limits: dict[str, Any] | None = None, seconds: float = PATIENCE_SECONDS
) -> Outcome:
    """Run the text, with a time limit as the worker has it."""

    async def story() -> Outcome:
        try:
            async with asyncio.timeout(seconds):
                return await call(kind, textwrap.dedent(text), mark, {"kind": "none", **(limits or {})})
        finally:
            await python.close()
            await shell.close()

    return asyncio.run(story())


def call(kind: str, text: str, mark: str, limits: dict[str, Any]) -> Awaitable[Outcome]:
    calls: dict[str, Callable[[Context], Awaitable[Outcome]]] = {
        "shell": lambda context: shell.run(shell.Inputs(command=text, env={MARK: mark}, cwd="."), context),
        "script": lambda context: script.run(script.Inputs(ref=text, env={MARK: mark}, cwd="."), context),
        "python": lambda context: python.run(python.Inputs(code=text), context),
    }
    context = Context(
        execution="e1",
        action="a1",
        attempt=1,
        step="s",
        task="t",
        timeout=None,
        args={},
        prev=None,
        log=lambda stream, line: None,
        bound={"command": ShellText(text, {})},
        spec={"sandbox": limits},
    )
    return calls[kind](context)


@pytest.mark.parametrize("kind", KINDS)
class TestRunaway:
    def test_an_endless_loop_ends_with_its_time(self, kind: str, mark: str) -> None:
        with pytest.raises(TimeoutError):
            play(kind, ENDLESS[kind], mark, seconds=TIME_LIMIT_SECONDS)

    def test_one_that_does_not_hear_signals_is_killed(self, kind: str, mark: str) -> None:
        with pytest.raises(TimeoutError):
            play(kind, DEAF[kind], mark, seconds=TIME_LIMIT_SECONDS)

    def test_a_daemon_that_left_group_and_session_ends_with_its_call(self, kind: str, mark: str) -> None:
        assert play(kind, DAEMON[kind], mark).ok
        assert Path("daemon").exists()

    def test_a_daemon_ends_with_the_time_of_its_call(self, kind: str, mark: str) -> None:
        with pytest.raises(TimeoutError):
            play(kind, textwrap.dedent(DAEMON[kind]) + "\n" + ENDLESS[kind], mark, seconds=2 * TIME_LIMIT_SECONDS)
        assert Path("daemon").exists()

    def test_a_fork_bomb_ends_at_its_limit(self, kind: str, mark: str) -> None:
        found = play(kind, BOMB[kind], mark, {"processes": 60})
        assert found.error is not None
        assert "it had more than 60 processes" in found.error.message

    def test_a_memory_bomb_ends_at_its_limit(self, kind: str, mark: str) -> None:
        found = play(kind, HUNGRY[kind], mark, {"memory_bytes": 100_000_000})
        if kind == "python":
            assert found.extra["py"]["exception_type"] == "MemoryError"
        else:  # a command that gets no more memory says so and ends; in a pipe its neighbour tells the exit code
            lines = found.result["stderr"] if found.ok else found.error.details["stderr"]  # type: ignore[union-attr]
            assert "memory exhausted" in lines


@pytest.mark.parametrize("kind", ["shell", "script"])
def test_memory_is_counted_over_all_processes_of_a_call(kind: str, mark: str) -> None:
    eater = "python3 -c 'x = b\"x\" * 40_000_000; import time; time.sleep(30)' &"
    found = play(kind, f"{eater} {eater} {eater} {eater} wait", mark, {"memory_bytes": 100_000_000})
    assert found.error is not None
    assert "it took more than 100,000,000 bytes of memory" in found.error.message


def test_python_memory_is_limited_without_a_word(mark: str) -> None:
    found = play("python", "x = bytearray(3 * 1024 ** 3)", mark)
    assert found.extra["py"]["exception_type"] == "MemoryError"


def test_a_program_that_kills_its_supervisor_dies_with_it(mark: str) -> None:
    found = play("shell", "(setsid sleep 50 &); kill -9 $PPID; sleep 50", mark)
    assert found.error is not None
    assert found.error.kind == "internal"


def test_files_can_be_limited(mark: str) -> None:
    found = play("shell", "head -c 2000000 /dev/zero > big", mark, {"file_bytes": 1_000_000})
    assert not found.ok
    assert Path("big").stat().st_size == 1_000_000
