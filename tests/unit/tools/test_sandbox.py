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
from tests.servers.patience import PATIENCE_SECONDS

from noetl.model.outcome import Failure, Outcome
from noetl.shell_text import ShellText
from noetl.store.sqlite import SqliteStore
from noetl.tools import python, sandbox, script, shell
from noetl.tools.base import Context
from noetl.tools.process import seccomp
from noetl.tools.process.inside import linux


def bubblewrap_works() -> bool:
    program = shutil.which("bwrap")
    if program is None:
        return False
    words = [program, "--unshare-all", "--ro-bind", "/", "/", "--proc", "/proc", "true"]
    return subprocess.run(words, capture_output=True, timeout=PATIENCE_SECONDS, check=False).returncode == 0


LANDLOCK = linux.landlock_version()
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
                if tool == "words":
                    return await shell.run(shell.Inputs(cmds=[text.split()]), context)
                if tool == "script":
                    return await script.run(script.Inputs(path=text), context)
                if tool == "shell":
                    return await shell.run(shell.Inputs(command=text), context)
                return await python.run(python.Inputs(code=text), context)
        finally:
            await python.close()
            await shell.close()

    return asyncio.run(story())


def play_words(words: list[str], box: Any) -> Outcome:
    return play("words", " ".join(words), box)


def play_script(path: str, box: Any) -> Outcome:
    return play("script", path, box)


def says(text: str, box: Any) -> list[str]:
    """The words that a command prints."""
    stage = play("shell", text, box)
    assert stage.error is None, stage.error
    return str(stage.result["stdout"]).split()


def result(code: str, box: Any) -> Any:
    stage = play("python", code, box)
    assert stage.error is None, stage.error
    return stage.result


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

    def test_other_folders_cannot_be_written(self, box: str, tmp_path: Path) -> None:
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

    def test_processes_outside_cannot_be_signalled(self, box: str) -> None:
        if box == "landlock" and LANDLOCK < 6:
            pytest.skip("the kernel has no Landlock 6")
        assert says(f"kill -0 {os.getpid()} 2>/dev/null && echo reached || echo shut", box) == ["shut"]

    def test_the_environment_of_the_worker_cannot_be_read(self, box: str) -> None:
        assert says(f"cat /proc/{os.getpid()}/environ 2>/dev/null >/dev/null && echo read || echo shut", box) == [
            "shut"
        ]

    def test_limits_hold(self, box: str) -> None:
        stage = play("shell", "for i in 1 2 3 4 5 6 7 8 9; do sleep 200 & done; wait", {"kind": box, "processes": 5})
        assert stage.error is not None
        assert "more than 5 processes" in stage.error.message


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
        stage = play("python", "x = bytearray(500_000_000)", {"kind": box, "memory_bytes": 200_000_000})
        assert stage.extra["py"]["exception_type"] == "MemoryError"


class TestBubblewrap:
    pytestmark = list(BOXES[0].marks)

    def test_other_processes_are_missing(self) -> None:
        assert int(says("ls /proc | grep -c '^[0-9]'", "bubblewrap")[0]) < 10

    def test_home_is_missing_and_tmp_is_empty(self) -> None:
        assert says("ls -A /home /root 2>/dev/null | wc -l; ls -A /tmp | wc -l", "bubblewrap") == ["0", "1"]


TRY = """
import ctypes, os, socket
def fails(act, *args):
    try:
        act(*args)
        return None
    except OSError as error:
        return error.errno
def calls(number, *args):
    libc = ctypes.CDLL(None, use_errno=True)
    return ctypes.get_errno() if libc.syscall(number, *args) < 0 else None
"""
EPERM = 1


class TestLandlock:
    """M10: what Landlock alone does not forbid."""

    pytestmark = list(BOXES[1].marks)

    def test_metadata_of_files_cannot_be_changed(self, tmp_path: Path) -> None:
        """Code with `read: []` gave the master key a mode with which noetl refuses it, and others can read it."""
        key, own = tmp_path / "master.key", tmp_path / "own"
        key.touch(0o600)
        own.mkdir()
        before = key.stat()
        code = f"""{TRY}
path = {str(key)!r}
mine = {str(own / "mine")!r}
open(mine, 'w').close()
handle = os.open(path, os.O_PATH)
result = dict(
    chmod=fails(os.chmod, path, 0o644),
    chown=fails(os.chown, path, os.getuid(), os.getgid()),
    lchown=fails(os.lchown, path, os.getuid(), os.getgid()),
    setxattr=fails(os.setxattr, path, 'user.x', b'1'),
    removexattr=fails(os.removexattr, path, 'user.x'),
    utime=fails(os.utime, path, (0, 0)),
    fchmod=fails(lambda: os.chmod(f'/proc/self/fd/{{handle}}', 0o644)),
    fchmodat2=calls(452, handle, b'', 0o644, 0x1000),
    of_mine=[fails(os.chmod, mine, 0o777), fails(os.fchmod, os.open(mine, os.O_RDONLY), 0o777)],
)
"""
        actual = result(code, {"kind": "landlock", "write": [str(own)]})
        assert actual == dict.fromkeys(actual, EPERM) | {"of_mine": [EPERM, EPERM]}
        after = key.stat()
        assert (after.st_mode, after.st_mtime_ns, after.st_ctime_ns) == (
            before.st_mode,
            before.st_mtime_ns,
            before.st_ctime_ns,
        )

    def test_programs_are_bound_by_it_too(self, tmp_path: Path) -> None:
        file = tmp_path / "file"
        file.touch(0o600)
        assert says(f"chmod 644 {file} 2>/dev/null || echo no; touch mine && ls", "landlock") == ["no", "mine"]
        assert file.stat().st_mode & 0o777 == 0o600

    def test_there_is_no_way_out_by_other_protocols(self) -> None:
        code = f"""{TRY}
kinds = dict(
    udp=(socket.AF_INET, socket.SOCK_DGRAM, 0),
    udp6=(socket.AF_INET6, socket.SOCK_DGRAM, 0),
    tcp=(socket.AF_INET, socket.SOCK_STREAM, 0),
    mptcp=(socket.AF_INET, socket.SOCK_STREAM, 262),
    icmp=(socket.AF_INET, socket.SOCK_DGRAM, 1),
    vsock=(socket.AF_VSOCK, socket.SOCK_STREAM, 0),
    local=(socket.AF_UNIX, socket.SOCK_STREAM, 0),
)
result = {{name: fails(lambda: socket.socket(*kind).close()) for name, kind in kinds.items()}}
"""
        shut = result(code, "landlock")
        assert shut == dict.fromkeys(shut, EPERM) | {"local": None}
        opened = result(code, {"kind": "landlock", "network": True})
        assert (opened["udp"], opened["tcp"]) == (None, None)

    def test_udp_does_not_arrive(self) -> None:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as ear:
            ear.bind(("127.0.0.1", 0))
            ear.settimeout(10)
            text = f"bash -c 'echo out > /dev/udp/127.0.0.1/{ear.getsockname()[1]}' 2>/dev/null || echo shut"
            assert says(text, "landlock") == ["shut"]
            assert says(text, {"kind": "landlock", "network": True}) == []
            assert ear.recv(100) == b"out\n"

    def test_other_processes_and_the_kernel_are_left_alone(self) -> None:
        numbers = {name: row[seccomp.MACHINES[os.uname().machine][0]] for name, row in seccomp.REFUSED.items()}
        known = {name: number for name, number in numbers.items() if number is not None}
        code = f"{TRY}result = {{name: calls(number, 0, 0, 0, 0, 0) for name, number in {known!r}.items()}}"
        actual = result(code, "landlock")
        assert actual == dict.fromkeys(known, EPERM)

    def test_no_namespaces(self) -> None:
        assert says(
            "unshare --user true 2>/dev/null || echo no; unshare --mount true 2>/dev/null || echo no", "landlock"
        ) == [
            "no",
            "no",
        ]

    def test_processes_and_threads_are_started_as_ever(self) -> None:
        code = """
import subprocess, threading
found = []
thread = threading.Thread(target=lambda: found.append(subprocess.check_output(['echo', 'x'])))
thread.start(); thread.join()
result = found[0].decode()
"""
        assert result(code, "landlock") == "x\n"

    def test_plain_landlock_reads_the_system_and_nothing_else(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("secret")
        look = f"cat {tmp_path}/file 2>/dev/null || echo shut; head -c 0 /etc/passwd && echo system"
        assert says(look, "landlock") == ["shut", "system"]
        code = f"""{TRY}
result = [fails(open, {str(tmp_path / "file")!r}), fails(os.listdir, '/'), fails(os.listdir, '.')]
"""
        assert result(code, "landlock") == [13, 13, 13]

    def test_a_command_without_a_path_is_found(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        """Python's own search imports a module, which was too late: the sandbox was shut."""
        own = tmp_path / "tool"
        own.write_text("#!/bin/sh\necho own $1\n")
        own.chmod(0o755)
        monkeypatch.setenv("PATH", f"/nowhere:/root/none:{tmp_path}:{os.environ['PATH']}")
        assert play_words(["echo", "found"], {"kind": "landlock", "read": []}).result["stdout"] == "found\n"
        assert play_words(["tool", "x"], "landlock").result["stdout"] == "own x\n"
        missing = play_words(["no-such-program"], "landlock")
        assert missing.error is not None
        assert (missing.error.kind, "program 'no-such-program' is not on" in missing.error.message) == (
            "not_found",
            True,
        )

    def test_the_files_of_noetl_are_never_inside(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        folder = tmp_path / "site"
        folder.mkdir()
        monkeypatch.setenv("NOETL_MASTER_KEY_FILE", str(tmp_path / "site" / "key" / "master.key"))
        (folder / "key").mkdir()
        (folder / "key" / "master.key").write_text("key")
        store = SqliteStore(folder / "data" / "noetl.db")
        (folder / "work").mkdir()
        try:
            for box in ({"read": [str(folder)]}, {"write": [str(folder / "data")]}, {"read": ["/"]}):
                stage = play("python", "result = 1", {"kind": "landlock", **box})
                assert stage.error is not None
                assert (stage.error.kind, "of noetl itself" in stage.error.message) == ("input", True)
            assert result("result = 1", {"kind": "landlock", "read": [str(folder / "work")]}) == 1
            # where modules are, they can lie as well: then only what is beside them can be read
            monkeypatch.syspath_prepend(str(folder))
            paths = [str(folder / name) for name in ("data/noetl.db", "key/master.key")]
            assert result(f"{TRY}result = [fails(open, path) for path in {paths!r}]", "landlock") == [13, 13]
        finally:
            store.close()

    def test_a_script_can_be_read(self, tmp_path: Path) -> None:
        file = tmp_path / "script.sh"
        file.write_text("#!/bin/sh\necho here\n")
        assert play_script(str(file), "landlock").result["stdout"] == "here\n"


class TestNotToBeHad:
    def test_bubblewrap(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("PATH", "/nonexistent")
        stage = play("shell", "echo run", "bubblewrap")
        assert stage.error is not None
        assert (stage.error.kind, stage.result) == ("not_found", None)
        stage = play("python", "result = 1", "bubblewrap")
        assert stage.error is not None
        assert (stage.error.kind, stage.result) == ("not_found", None)

    @pytest.mark.parametrize(("version", "fits"), [(0, False), (1, True)])
    def test_landlock(self, version: int, fits: bool, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(linux, "landlock_version", lambda: version)
        if fits:
            assert sandbox.sandbox_of({"sandbox": "landlock"}).kind == "landlock"
        else:
            with pytest.raises(Failure, match="Landlock"):
                sandbox.sandbox_of({"sandbox": "landlock"})

    def test_landlock_on_a_machine_whose_calls_are_not_known(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("platform.machine", lambda: "riscv64")
        stage = play("shell", "echo run", "landlock")
        assert stage.error is not None
        assert (stage.error.kind, stage.result) == ("not_found", None)
        assert "another architecture: use bubblewrap" in stage.error.message

    def test_what_makes_no_sense(self) -> None:
        with pytest.raises(Failure, match="magic"):
            sandbox.sandbox_of({"sandbox": "magic"})


def test_without_a_word_there_is_none() -> None:
    assert sandbox.sandbox_of({}) == sandbox.Sandbox()
    assert sandbox.sandbox_of({"sandbox": None}).kind == "none"
