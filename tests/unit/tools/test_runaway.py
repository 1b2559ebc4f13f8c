"""Tools that run away: each ends at its limit, and no process of it is left.

The bombs end by themselves after a while and at some thousand processes, should what is tested here not hold.
"""

from __future__ import annotations

import asyncio
import os
import textwrap
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any, TypeVar
from uuid import uuid4

import pytest
from tests.servers.patience import PATIENCE_SECONDS, until_async

from noetl.model.outcome import Outcome
from noetl.shell_text import ShellText
from noetl.tools import python, script, shell
from noetl.tools.base import Context

T = TypeVar("T")
MARK = "NOETLTEST_RUNAWAY"

ENDLESS_SHELL = "touch running; while :; do :; done"
ENDLESS = {
    "shell": ENDLESS_SHELL,
    "script": ENDLESS_SHELL,
    "python": "open('running', 'w').close()\nwhile True: pass",
}
DEAF_SHELL = "trap '' TERM INT HUP; touch running; while :; do sleep 0.05; done"
DEAF_PYTHON = """
    import signal, time
    for number in 15, 2, 1: signal.signal(number, signal.SIG_IGN)
    open('running', 'w').close()
    while True: time.sleep(0.05)
"""
DEAF = {"shell": DEAF_SHELL, "script": DEAF_SHELL, "python": DEAF_PYTHON}
PYTHON_DAEMON = """
    import os, time
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.setsid()
            open('daemon', 'w').close()
            time.sleep(200)
        os._exit(0)
    while not os.path.exists('daemon'): time.sleep(0.01)
"""
SHELL_DAEMON = (
    "(setsid sh -c '(setsid sh -c \"touch daemon; sleep 200\" &)' &); until [ -e daemon ]; do sleep 0.01; done"
)
DAEMON = {"shell": SHELL_DAEMON, "script": SHELL_DAEMON, "python": PYTHON_DAEMON}
SHELL_BOMB = "n=0; while [ $n -lt 3000 ]; do sleep 200 & n=$((n+1)); done; wait"
PYTHON_BOMB = """
    import os, time
    for _ in range(11):  # 2,048 of them
        os.fork()
    if os.getsid(0) != os.getpid(): os.setsid()
    time.sleep(200)
"""
BOMB = {"shell": SHELL_BOMB, "script": SHELL_BOMB, "python": PYTHON_BOMB}
HUNGRY_SHELL = "head -c {size} /dev/zero | tail -n 1 > /dev/null"
"""A line without an end is kept whole. The exit code is that of `tail`, whatever words it finds memory for."""
HUNGRY_PYTHON = "x = []\nwhile sum(map(len, x)) < {size}: x.append(bytearray(40_000_000))"
HUNGRY = {"shell": HUNGRY_SHELL, "script": HUNGRY_SHELL, "python": HUNGRY_PYTHON}
MEMORY_BYTES = 100_000_000
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


def play(kind: str, text: str, mark: str, limits: dict[str, Any] | None = None) -> Outcome:
    """Run the text to its end."""

    async def story() -> Outcome:
        async with asyncio.timeout(PATIENCE_SECONDS):
            return await call(kind, textwrap.dedent(text), mark, {"kind": "none", **(limits or {})})

    return alone(story())


def play_until(file: str, kind: str, text: str, mark: str) -> None:
    """Run the text with a time limit as the worker has it, which is over as soon as the file is there."""

    async def story() -> None:
        async with asyncio.timeout(None) as limit:
            over = asyncio.create_task(until_async(Path(file).exists))
            over.add_done_callback(lambda _: limit.reschedule(0.0))
            await call(kind, textwrap.dedent(text), mark, {"kind": "none"})

    with pytest.raises(TimeoutError):
        alone(story())
    assert Path(file).exists()


def alone(story: Coroutine[Any, Any, T]) -> T:
    async def whole() -> T:
        try:
            return await story
        finally:
            await python.close()
            await shell.close()

    return asyncio.run(whole())


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
        play_until("running", kind, ENDLESS[kind], mark)

    def test_one_that_does_not_hear_signals_is_killed(self, kind: str, mark: str) -> None:
        play_until("running", kind, DEAF[kind], mark)

    def test_a_daemon_that_left_group_and_session_ends_with_its_call(self, kind: str, mark: str) -> None:
        assert play(kind, DAEMON[kind], mark).ok
        assert Path("daemon").exists()

    def test_a_daemon_ends_with_the_time_of_its_call(self, kind: str, mark: str) -> None:
        play_until("running", kind, textwrap.dedent(DAEMON[kind]) + "\n" + ENDLESS[kind], mark)
        assert Path("daemon").exists()

    def test_a_fork_bomb_ends_at_its_limit(self, kind: str, mark: str) -> None:
        stage = play(kind, BOMB[kind], mark, {"processes": 60})
        assert stage.error is not None
        assert "it had more than 60 processes" in stage.error.message

    def test_a_memory_bomb_ends_at_its_limit(self, kind: str, mark: str) -> None:
        stage = play(kind, HUNGRY[kind].format(size=3_000_000_000), mark, {"memory_bytes": MEMORY_BYTES})
        assert stage.error is not None
        if kind == "python":
            assert stage.extra["py"]["exception_type"] == "MemoryError"
        else:  # it gets no more memory and gives up, or is ended because all of them together have too much
            assert stage.error.kind == "exit_code"
            assert stage.error.details["exit_code"] != 0

    def test_the_same_within_its_memory_goes_well(self, kind: str, mark: str) -> None:
        stage = play(kind, HUNGRY[kind].format(size=3_000_000), mark, {"memory_bytes": MEMORY_BYTES})
        assert stage.error is None


@pytest.mark.parametrize("kind", ["shell", "script"])
def test_memory_is_counted_over_all_processes_of_a_call(kind: str, mark: str) -> None:
    eater = "python3 -c 'x = b\"x\" * 40_000_000; import time; time.sleep(200)' &"
    stage = play(kind, f"{eater} {eater} {eater} {eater} wait", mark, {"memory_bytes": 100_000_000})
    assert stage.error is not None
    assert "it used more than 100,000,000 bytes of memory" in stage.error.message


def test_python_memory_is_limited_without_a_word(mark: str) -> None:
    stage = play("python", "x = bytearray(3 * 1024 ** 3)", mark)
    assert stage.extra["py"]["exception_type"] == "MemoryError"


def test_a_program_that_kills_its_supervisor_dies_with_it(mark: str) -> None:
    stage = play("shell", "(setsid sleep 200 &); kill -9 $PPID; sleep 200", mark)
    assert stage.error is not None
    assert stage.error.kind == "internal"


def test_files_can_be_limited(mark: str) -> None:
    stage = play("shell", "head -c 2000000 /dev/zero > big", mark, {"file_bytes": 1_000_000})
    assert not stage.ok
    assert Path("big").stat().st_size == 1_000_000
