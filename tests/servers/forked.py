"""`noetl` as a process of its own, without waiting for its imports.

Each test process starts one fork server: a process that has imported all of noetl, has no threads and runs no event
loop. A command is a fork of it, with the descriptors, the folder and the environment that the caller chooses; it
parses, prints, handles signals and exits as `python -m noetl.cli` does. What Python reads only when it starts
(`PYTHONPATH`, the locale) is taken from the fork server: a command that differs there needs a process of its own.
"""

from __future__ import annotations

import atexit
import gc
import json
import os
import pkgutil
import resource
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import IO, Any, NamedTuple, NoReturn

DESCRIPTORS = 5
"""Of a request: its text, the three standard streams of the command, and a pipe for its exit code."""
LEFT_TO_COMMANDS = ("duckdb_", "snowflake_")
"""Modules that import a driver which starts threads, or complains at the end of a process that has not used it."""
READ_AT_START = ("PYTHONPATH", "PYTHONUTF8", "PYTHONIOENCODING", "PYTHONHASHSEED", "LANG", "LC_ALL", "LC_CTYPE")


# -- in a test process ----------------------------------------------------------------------------------------------


class Process:
    """A command that runs; the part of `subprocess.Popen` that tests need."""

    def __init__(
        self,
        args: Sequence[str | bytes],
        *,
        stdin: int | IO[Any] = subprocess.DEVNULL,
        stdout: int | IO[Any] = subprocess.PIPE,
        stderr: int | IO[Any] = subprocess.PIPE,
        cwd: Path | str | None = None,
        env: Mapping[str, str] | None = None,
        code: str = "",
        memory: int = 0,
    ) -> None:
        """`code` is Python that runs instead of `noetl`; `memory` is how much more it may have than it begins with."""
        env = dict(os.environ if env is None else env)
        assert _read_at_start(env) == _read_at_start(os.environ), "Python reads these variables when it starts"
        words = [os.fsdecode(word) for word in args]
        self.args = words
        self.returncode: int | None = None
        self.stdout, theirs_out = _stream(stdout)
        self.stderr, theirs_err = (None, theirs_out) if stderr == subprocess.STDOUT else _stream(stderr)
        theirs_in = os.open(os.devnull, os.O_RDONLY) if stdin == subprocess.DEVNULL else os.dup(_number(stdin))
        self._status, status = os.pipe()
        with tempfile.TemporaryFile() as request:
            request.write(json.dumps([words, str(cwd or os.getcwd()), env, code, memory]).encode())
            request.seek(0)
            self.pid = _server().fork([request.fileno(), theirs_in, theirs_out, theirs_err, status])
        for descriptor in {theirs_in, theirs_out, theirs_err, status}:
            os.close(descriptor)

    def poll(self) -> int | None:
        return self.returncode if self.returncode is not None else self._look(0)

    def wait(self, timeout: float | None = None) -> int:
        """Its exit code, negative for the signal that killed it."""
        code = self.returncode if self.returncode is not None else self._look(timeout)
        if code is None:
            raise subprocess.TimeoutExpired(self.args, timeout or 0)
        return code

    def _look(self, timeout: float | None) -> int | None:
        poll = select.poll()  # select takes no descriptor above 1023
        poll.register(self._status, select.POLLIN)
        if not poll.poll(None if timeout is None else timeout * 1000):
            return None
        text = os.read(self._status, 16)
        os.close(self._status)
        assert text, "the fork server has ended"
        self.returncode = int(text)
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def run(
    args: Sequence[str | bytes], *, stdin: bytes = b"", timeout: float, **options: Any
) -> subprocess.CompletedProcess[bytes]:
    """The command to its end."""
    with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        given.write(stdin)
        given.seek(0)
        process = Process(args, stdin=given, stdout=out, stderr=err, **options)
        try:
            code = process.wait(timeout)
        finally:
            process.kill()
            process.wait()
        out.seek(0)
        err.seek(0)
        return subprocess.CompletedProcess(process.args, code, out.read(), err.read())


def _read_at_start(env: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in env.items() if name in READ_AT_START}


def _stream(wanted: int | IO[Any]) -> tuple[Any, int]:
    """Our end of an output, if there is one, and the descriptor of theirs."""
    if wanted == subprocess.PIPE:
        ours, theirs = os.pipe()
        return open(ours, "rb"), theirs
    if wanted == subprocess.DEVNULL:
        return None, os.open(os.devnull, os.O_WRONLY)
    return None, os.dup(_number(wanted))


def _number(stream: int | IO[Any]) -> int:
    return stream if isinstance(stream, int) else stream.fileno()


class _ForkServer:
    def __init__(self) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            self.process = subprocess.Popen([sys.executable, "-P", __file__], stdin=theirs)
        self.channel = ours

    def fork(self, descriptors: list[int]) -> int:
        """The id of a new process."""
        socket.send_fds(self.channel, [b"\n"], descriptors)
        answer = self.channel.recv(16)
        assert answer, "the fork server has ended"
        return int(answer)

    def close(self) -> None:
        self.channel.close()
        self.process.wait()


_servers: dict[int, _ForkServer] = {}
"""By the id of the process that has it: what a test forks needs one of its own."""


def _server() -> _ForkServer:
    if os.getpid() not in _servers:
        _servers[os.getpid()] = _ForkServer()
    return _servers[os.getpid()]


def close() -> None:
    """End the fork server of this process."""
    if server := _servers.pop(os.getpid(), None):
        server.close()


# -- in the fork server ---------------------------------------------------------------------------------------------


class _Request(NamedTuple):
    words: list[str]
    cwd: str
    env: dict[str, str]
    code: str
    memory: int


def _serve(channel: socket.socket) -> None:
    """Fork a command for each request, and tell of each that ends, until the test process is gone."""
    _import_all()
    wake, woken = os.pipe()
    for end in (wake, woken):
        os.set_blocking(end, False)
    signal.set_wakeup_fd(woken)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the tests, which end this
    pipes: dict[int, int] = {}
    while True:
        ready, _, _ = select.select([channel, wake], [], [])
        if wake in ready:
            os.read(wake, 4096)
            _tell_of_ended(pipes)
        if channel in ready:
            message, descriptors, _, _ = socket.recv_fds(channel, 1, DESCRIPTORS)
            if not message:
                return
            pid = os.fork()
            if pid == 0:
                signal.set_wakeup_fd(-1)
                channel.close()
                for descriptor in (wake, woken, *pipes.values()):
                    os.close(descriptor)
                _become_command(descriptors)
            pipes[pid] = descriptors.pop()
            for descriptor in descriptors:
                os.close(descriptor)
            channel.send(b"%d" % pid)


def _tell_of_ended(pipes: dict[int, int]) -> None:
    for pid in list(pipes):
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            pipe = pipes.pop(pid)
            with suppress(BrokenPipeError):
                os.write(pipe, b"%d" % os.waitstatus_to_exitcode(status))
            os.close(pipe)


def _import_all() -> None:
    import noetl

    for module in pkgutil.walk_packages(noetl.__path__, "noetl."):
        if not module.name.endswith("__main__") and not any(part in module.name for part in LEFT_TO_COMMANDS):
            import_module(module.name)
    assert len(os.listdir("/proc/self/task")) == 1, "what has threads can't be forked"
    gc.collect()
    gc.freeze()


def _become_command(descriptors: list[int]) -> NoReturn:
    """What is a fork so far has its own streams, folder, environment and signals; then it is the command."""
    text, *streams, status = descriptors
    with open(text, "rb") as file:
        request = _Request(*json.load(file))
    os.close(status)
    for number, descriptor in enumerate(streams):
        os.dup2(descriptor, number)
        os.close(descriptor)
    sys.stdin = open(0, closefd=False)  # noqa: SIM115 (they are open until the end)
    sys.stdout = open(1, "w", closefd=False, buffering=1 if os.isatty(1) else -1)  # noqa: SIM115
    sys.stderr = open(2, "w", closefd=False, buffering=1, errors="backslashreplace")  # noqa: SIM115
    os.chdir(request.cwd)
    os.environ.clear()
    os.environ.update(request.env)
    time.tzset()
    sys.path.insert(0, request.cwd)
    sys.argv = ["noetl", *request.words]
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)

    if request.memory:
        has = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (has + request.memory, has + request.memory))
    try:
        exec(request.code or "from noetl.cli.start import main\nmain()", {"__name__": "__main__"})
        code: object = 0
    except SystemExit as ending:
        code = ending.code or 0
    if not isinstance(code, int):
        sys.exit(str(code))
    _end(code)


def _end(code: int) -> NoReturn:
    """End as Python does, but for taking apart what was imported: that would copy the memory of the fork server."""
    threading._shutdown()
    atexit._run_exitfuncs()
    gc.collect()  # what complains when it is forgotten does so here
    for stream in (sys.stdout, sys.stderr):
        with suppress(BrokenPipeError, ValueError):
            stream.flush()
    os._exit(code & 0xFF)


if __name__ == "__main__":
    with socket.socket(fileno=0) as requests:
        _serve(requests)
