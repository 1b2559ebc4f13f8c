"""Supervises one program: starts it, enforces its limits, ends all its processes, and reports the result.

It reads one request from its channel to the engine: four bytes of length and JSON with `argv, env, cwd, limits,
landlock`. The response has the same format: `code` (an exit code, or the negative number of a signal) and `broken` (the
limit it exceeded), or `start_error` with the reason why the program could not be started. A further byte from the
engine asks it to end the program: gracefully at first, and with SIGKILL after `GRACE_SECONDS`.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import time
from contextlib import suppress
from json import dumps, loads

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

GRACE_SECONDS = 2.0
CHECK_SECONDS = 0.05
"""How often the processes and their memory are checked."""


class Supervisor:
    """Runs one program. `confine` and `descent` are the modules of these names."""

    def __init__(self, control: int, request: dict[str, Any], confine: Any, descent: Any) -> None:
        self.control, self.request, self.confine, self.descent = control, request, confine, descent
        self.pid = os.getpid()
        self.program = 0
        self.deadline: float | None = None
        self.broken: str | None = None

    def run(self) -> dict[str, Any]:
        start_error = self.start()
        if start_error is not None:
            os.waitpid(self.program, 0)
            return {"start_error": start_error}
        nothing = os.open(os.devnull, os.O_RDWR)
        for fd in (0, 1, 2):
            os.dup2(nothing, fd)  # only the program has them open: they end with it
        self.watch()
        return {"code": self.end(), "broken": self.broken}

    def start(self) -> str | None:
        """Start the program; return the error if it could not be started."""
        error_pipe, error_end = os.pipe2(os.O_CLOEXEC)
        self.program = os.fork()
        if self.program == 0:
            try:
                self.exec_program()
            except BaseException as error:
                text = f"\0\0{type(error).__name__}: {error}"
                if isinstance(error, OSError):
                    text = f"{error.filename2 or error.filename or ''}\0{error.errno}\0{error.strerror}"
                os.write(error_end, text.encode("utf-8", "replace"))
            finally:
                os._exit(127)
        os.close(error_end)
        reason = b"".join(iter(lambda: os.read(error_pipe, 4096), b""))
        os.close(error_pipe)
        return reason.decode() or None

    def exec_program(self) -> None:
        os.setsid()
        if not self.confine.die_with_parent(self.pid):
            return
        for number in (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)
        os.chdir(self.request["cwd"])
        self.confine.limit_program(self.request["limits"])
        argv, env = self.request["argv"], self.request["env"]
        programs = [argv[0]]
        if "/" not in argv[0]:  # searched before the sandbox is active: Python's own search imports a module
            folders = env.get("PATH", os.defpath).split(os.pathsep)
            programs = [os.path.join(folder or ".", argv[0]) for folder in folders]
        rules = self.request["landlock"]
        if rules is not None:
            self.confine.landlock(**{**rules, "read": [*rules["read"], *filter(os.path.isfile, programs)]})
        reasons: list[OSError] = []  # a reason other than 'not found' is preferred
        for program in programs:
            try:
                os.execve(program, argv, env)
            except (FileNotFoundError, NotADirectoryError) as error:
                reasons.append(error)
            except OSError as error:
                reasons.insert(0, error)
        raise reasons[0]

    def watch(self) -> None:
        """Wait until the program ends, has to be ended, or exceeds a limit."""
        watch = os.pidfd_open(self.program)
        poll = select.poll()
        poll.register(watch, select.POLLIN)
        poll.register(self.control, select.POLLIN)
        while True:
            ready = [fd for fd, _ in poll.poll(CHECK_SECONDS * 1000)]
            if watch in ready:
                return
            if self.control in ready:
                os.read(self.control, 1)
                poll.unregister(self.control)
                self.deadline = time.monotonic() + GRACE_SECONDS
                for pid in self.descent.below(self.pid):
                    self.descent.send(pid, signal.SIGTERM)
            if self.deadline is not None and time.monotonic() > self.deadline:
                return
            self.broken = self.check_limits()
            if self.broken is not None:
                return

    def check_limits(self) -> str | None:
        """Reap orphans that have ended; return the limit that is exceeded, if any."""
        limits = self.request["limits"]
        for pid in self.descent.children(self.pid):
            if pid != self.program:  # until it is reaped, its process id is not reused
                with suppress(ChildProcessError):
                    os.waitpid(pid, os.WNOHANG)
        pids = list(self.descent.below(self.pid))
        if len(pids) > limits["processes"]:
            return f"it had more than {limits['processes']:,} processes"
        most = limits.get("memory_bytes")
        if most is not None and sum(map(self.descent.memory_bytes, pids)) > most:
            return f"it used more than {most:,} bytes of memory"
        return None

    def end(self) -> int:
        """Kill all descendants; return how the program ended."""
        code = 0
        while self.descent.children(self.pid):
            self.descent.end_below(self.pid)
            with suppress(ChildProcessError):
                pid, status = os.waitpid(-1, 0)
                while pid != 0:
                    if pid == self.program:
                        code = os.waitstatus_to_exitcode(status)
                    pid, status = os.waitpid(-1, os.WNOHANG)
        return code


def serve(control: int, confine: Any, descent: Any) -> None:
    head = read(control, 4)
    request = loads(read(control, int.from_bytes(head, "little")))
    response = dumps(Supervisor(control, request, confine, descent).run()).encode()
    os.write(control, len(response).to_bytes(4, "little") + response)


def read(fd: int, size: int) -> bytes:
    """So many bytes; exits if the engine has ended."""
    data = bytearray()
    while len(data) < size:
        chunk = os.read(fd, min(size - len(data), 1 << 20))
        if not chunk:
            sys.exit(0)
        data += chunk
    return bytes(data)
