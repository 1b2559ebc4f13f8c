"""What each sandbox gives, as docs/howto/sandbox-a-tool.md tells it. Against the real kernel and the real bwrap."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from noetl.model.outcome import Outcome
from noetl.shell_text import ShellText
from noetl.tools import python, sandbox, shell
from noetl.tools.base import Context, Failure
from noetl.tools.process.inside import confine


def bubblewrap_works() -> bool:
    program = shutil.which("bwrap")
    if program is None:
        return False
    words = [program, "--unshare-all", "--ro-bind", "/", "/", "--proc", "/proc", "true"]
    return subprocess.run(words, capture_output=True, timeout=60, check=False).returncode == 0


LANDLOCK = confine.landlock_version()
BOXES = [
    pytest.param("bubblewrap", marks=pytest.mark.skipif(not bubblewrap_works(), reason="bwrap is not here or may not")),
    pytest.param("landlock", marks=pytest.mark.skipif(LANDLOCK < 4, reason="the kernel has no Landlock 4")),
]


@pytest.fixture
def listener() -> Iterator[int]:
    """A port of this machine that takes connections."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def play(tool: str, text: str, box: Any) -> Outcome:
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
        spec={"sandbox": box},
    )

    async def story() -> Outcome:
        try:
            async with asyncio.timeout(300):
                if tool == "shell":
                    return await shell.run(shell.Inputs(command=text), context)
                return await python.run(python.Inputs(code=text), context)
        finally:
            await python.close()
            await shell.close()

    return asyncio.run(story())


def says(text: str, box: Any) -> list[str]:
    """The words that a command prints."""
    found = play("shell", text, box)
    assert found.error is None, found.error
    return str(found.result["stdout"]).split()


def result(code: str, box: Any) -> Any:
    found = play("python", code, box)
    assert found.error is None, found.error
    return found.result


CONNECT = "bash -c 'exec 3<>/dev/tcp/127.0.0.1/{}' 2>/dev/null && echo open || echo shut"
TRY_WRITE = """
def works(path):
    try:
        open(path, 'w').close()
        return True
    except OSError:
        return False
"""


@pytest.mark.parametrize("box", BOXES)
class TestPrograms:
    def test_own_folder_can_be_written(self, box: str) -> None:
        assert says("echo mine > file && cat file && mktemp >/dev/null && echo temp", box) == ["mine", "temp"]

    def test_the_system_can_be_read_and_not_written(self, box: str) -> None:
        assert says("ls /usr/bin >/dev/null && (touch /usr/x /etc/x 2>/dev/null || echo no)", box) == ["no"]

    def test_other_folders_can_not_be_written(self, box: str, tmp_path: Path) -> None:
        says(f"touch {tmp_path}/x 2>/dev/null || echo no", box)
        assert not list(tmp_path.iterdir())

    def test_folders_that_are_given_can_be_written(self, box: str, tmp_path: Path) -> None:
        says(f"echo yes > {tmp_path}/x", {"kind": box, "write": [str(tmp_path)]})
        assert (tmp_path / "x").read_text() == "yes\n"

    def test_with_folders_to_read_others_are_shut(self, box: str, tmp_path: Path) -> None:
        for name in ("a", "b"):
            (tmp_path / name).mkdir()
            (tmp_path / name / "file").write_text(name)
        text = f"cat {tmp_path}/a/file; cat {tmp_path}/b/file 2>/dev/null || echo -shut"
        assert says(text, {"kind": box, "read": [str(tmp_path / "a")]}) == ["a-shut"]

    def test_no_network_unless_asked(self, box: str, listener: int) -> None:
        assert says(CONNECT.format(listener), box) == ["shut"]
        assert says(CONNECT.format(listener), {"kind": box, "network": True}) == ["open"]

    def test_processes_outside_can_not_be_signalled(self, box: str) -> None:
        if box == "landlock" and LANDLOCK < 6:
            pytest.skip("the kernel has no Landlock 6")
        assert says(f"kill -0 {os.getpid()} 2>/dev/null && echo reached || echo shut", box) == ["shut"]

    def test_the_environment_of_the_worker_can_not_be_read(self, box: str) -> None:
        assert says(f"cat /proc/{os.getpid()}/environ 2>/dev/null >/dev/null && echo read || echo shut", box) == [
            "shut"
        ]

    def test_limits_hold(self, box: str) -> None:
        found = play("shell", "for i in 1 2 3 4 5 6 7 8 9; do sleep 200 & done; wait", {"kind": box, "processes": 5})
        assert found.error is not None
        assert "more than 5 processes" in found.error.message


@pytest.mark.parametrize("box", BOXES)
class TestPython:
    def test_code_runs_and_its_child_is_kept(self, box: str) -> None:
        assert result("import json, decimal\nresult = json.dumps([1])", box) == "[1]"

    def test_it_writes_only_where_it_may(self, box: str, tmp_path: Path) -> None:
        code = TRY_WRITE + f"result = [works('/usr/x'), works({str(tmp_path / 'x')!r})]"
        assert result(code, box) == [False, False]
        assert result(code, {"kind": box, "write": [str(tmp_path)]}) == [False, True]

    def test_no_network_unless_asked(self, box: str, listener: int) -> None:
        code = f"""
import socket
try:
    socket.create_connection(('127.0.0.1', {listener}), 5).close()
    result = 'open'
except OSError:
    result = 'shut'
"""
        assert result(code, box) == "shut"
        assert result(code, {"kind": box, "network": True}) == "open"

    def test_its_memory_is_limited(self, box: str) -> None:
        found = play("python", "x = bytearray(500_000_000)", {"kind": box, "memory_bytes": 200_000_000})
        assert found.extra["py"]["exception_type"] == "MemoryError"


class TestBubblewrap:
    pytestmark = list(BOXES[0].marks)

    def test_other_processes_are_not_there(self) -> None:
        assert int(says("ls /proc | grep -c '^[0-9]'", "bubblewrap")[0]) < 10

    def test_home_is_not_there_and_tmp_is_empty(self) -> None:
        assert says("ls -A /home /root 2>/dev/null | wc -l; ls -A /tmp | wc -l", "bubblewrap") == ["0", "1"]


class TestNotToBeHad:
    def test_bubblewrap(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("PATH", "/nonexistent")
        found = play("shell", "echo run", "bubblewrap")
        assert found.error is not None
        assert (found.error.kind, found.result) == ("not_found", None)
        found = play("python", "result = 1", "bubblewrap")
        assert found.error is not None
        assert (found.error.kind, found.result) == ("not_found", None)

    @pytest.mark.parametrize(("version", "network", "fits"), [(0, True, False), (3, False, False), (3, True, True)])
    def test_landlock(self, version: int, network: bool, fits: bool, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(confine, "landlock_version", lambda: version)
        spec = {"sandbox": {"kind": "landlock", "network": network}}
        if fits:
            assert sandbox.sandbox_of(spec).kind == "landlock"
        else:
            with pytest.raises(Failure, match="Landlock"):
                sandbox.sandbox_of(spec)

    def test_what_makes_no_sense(self) -> None:
        with pytest.raises(Failure, match="magic"):
            sandbox.sandbox_of({"sandbox": "magic"})


def test_without_a_word_there_is_none() -> None:
    assert sandbox.sandbox_of({}) == sandbox.Sandbox()
    assert sandbox.sandbox_of({"sandbox": None}).kind == "none"
