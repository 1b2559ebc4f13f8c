"""Supervises one program: starts it, enforces its limits, ends all its processes, and reports the result.

It reads one request from its channel to the engine: four bytes of length and JSON with `argv, env, cwd, limits,
landlock`. The response has the same format: `code` and `broken` (the limit it exceeded), or `start_error`. A further
byte from the engine asks it to end the program: gracefully at first, and with SIGKILL after `GRACE_SECONDS`.
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


def serve(control: int, linux: Any) -> None:
    request = loads(read(control, int.from_bytes(read(control, 4), "little")))
    program, start_error = start(request, linux)
    if start_error:
        os.waitpid(program, 0)
        result: dict[str, Any] = {"start_error": start_error}
    else:
        nothing = os.open(os.devnull, os.O_RDWR)
        for fd in (0, 1, 2):
            os.dup2(nothing, fd)  # only the program has them open: they end with it
        broken = watch(control, program, request["limits"], linux)
        result = {"code": end(program, linux), "broken": broken}
    response = dumps(result).encode()
    os.write(control, len(response).to_bytes(4, "little") + response)


def read(fd: int, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        chunk = os.read(fd, min(size - len(data), 1 << 20))
        if not chunk:
            sys.exit(0)
        data += chunk
    return bytes(data)


def start(request: dict[str, Any], linux: Any) -> tuple[int, str]:
    supervisor = os.getpid()
    error_pipe, error_end = os.pipe2(os.O_CLOEXEC)
    program = os.fork()
    if program == 0:
        try:
            exec_program(request, supervisor, linux)
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
    return program, reason.decode()


def exec_program(request: dict[str, Any], supervisor: int, linux: Any) -> None:
    os.setsid()
    if not linux.die_with_parent(supervisor):
        return
    for number in (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)
    os.chdir(request["cwd"])
    linux.limit_program(request["limits"])
    argv, env, rules = request["argv"], request["env"], request["landlock"]
    programs = [argv[0]]
    if "/" not in argv[0]:  # searched before the sandbox is active: Python's own search imports a module
        folders = env.get("PATH", os.defpath).split(os.pathsep)
        programs = [os.path.join(folder or ".", argv[0]) for folder in folders]
    if rules is not None:
        linux.landlock(**{**rules, "read": [*rules["read"], *filter(os.path.isfile, programs)]})
    reasons: list[OSError] = []  # a reason other than 'not found' is preferred
    for program in programs:
        try:
            os.execve(program, argv, env)
        except (FileNotFoundError, NotADirectoryError) as error:
            reasons.append(error)
        except OSError as error:
            reasons.insert(0, error)
    raise reasons[0]


def watch(control: int, program: int, limits: dict[str, Any], linux: Any) -> str | None:
    """Wait until the program ends, has to be ended, or exceeds a limit; return that limit."""
    supervisor, deadline = os.getpid(), float("inf")
    max_memory = limits.get("memory_bytes")
    program_end = os.pidfd_open(program)
    poll = select.poll()
    poll.register(program_end, select.POLLIN)
    poll.register(control, select.POLLIN)
    while True:
        ready = [fd for fd, _ in poll.poll(CHECK_SECONDS * 1000)]
        if program_end in ready:
            return None
        if control in ready:
            os.read(control, 1)
            poll.unregister(control)
            deadline = time.monotonic() + GRACE_SECONDS
            for pid in linux.below(supervisor):
                linux.send(pid, signal.SIGTERM)
        if time.monotonic() > deadline:
            return None
        for pid in linux.children(supervisor):  # reap orphans that have ended
            if pid != program:  # until it is reaped, its process id is not reused
                with suppress(ChildProcessError):
                    os.waitpid(pid, os.WNOHANG)
        pids = list(linux.below(supervisor))
        if len(pids) > limits["processes"]:
            return f"it had more than {limits['processes']:,} processes"
        if max_memory is not None and sum(map(linux.memory_bytes, pids)) > max_memory:
            return f"it used more than {max_memory:,} bytes of memory"


def end(program: int, linux: Any) -> int:
    code = 0
    while linux.children(os.getpid()):
        linux.end_below(os.getpid())
        with suppress(ChildProcessError):
            pid, status = os.waitpid(-1, 0)
            while pid != 0:
                if pid == program:
                    code = os.waitstatus_to_exitcode(status)
                pid, status = os.waitpid(-1, os.WNOHANG)
    return code
