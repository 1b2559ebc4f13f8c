"""What the supervisor of a program does: start it, watch what it becomes, end all of it, and tell.

It reads one order from its line to the engine: four bytes of length and JSON with `argv, env, cwd, limits, landlock`.
Its answer is the same: `code` (an exit code, or the negative number of a signal) and `broken` (the limit for which it
was ended), or `refused` with the reason why the program could not be started. A further byte from the engine asks it to
end the program: politely at first, and after `GRACE_SECONDS` for good.
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
LOOK_SECONDS = 0.05
"""How often the program and what it has started are counted."""


class Supervisor:
    """One program. `confine` and `descent` are the modules of these names."""

    def __init__(self, control: int, order: dict[str, Any], confine: Any, descent: Any) -> None:
        self.control, self.order, self.confine, self.descent = control, order, confine, descent
        self.pid = os.getpid()
        self.program = 0
        self.deadline: float | None = None
        self.broken: str | None = None

    def run(self) -> dict[str, Any]:
        refused = self.start()
        if refused is not None:
            os.waitpid(self.program, 0)
            return {"refused": refused}
        nothing = os.open(os.devnull, os.O_RDWR)
        for fd in (0, 1, 2):
            os.dup2(nothing, fd)  # only the program holds them: their end is its end
        self.watch()
        return {"code": self.end(), "broken": self.broken}

    # -- start --------------------------------------------------------------------------------------------------------

    def start(self) -> str | None:
        """Start the program; why it could not be, if so."""
        fault, fault_end = os.pipe2(os.O_CLOEXEC)
        self.program = os.fork()
        if self.program == 0:
            try:
                self.be_program()
            except BaseException as error:
                os.write(fault_end, refusal(error).encode("utf-8", "replace"))
            finally:
                os._exit(127)
        os.close(fault_end)
        why = b"".join(iter(lambda: os.read(fault, 4096), b""))
        os.close(fault)
        return why.decode() or None

    def be_program(self) -> None:
        os.setsid()
        if not self.confine.die_with_parent(self.pid):
            return
        for number in (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)
        os.chdir(self.order["cwd"])
        self.confine.limit_program(self.order["limits"])
        argv, env = self.order["argv"], self.order["env"]
        programs = candidates(argv[0], env.get("PATH", os.defpath))
        rules = self.order["landlock"]
        if rules is not None:
            self.confine.landlock(**{**rules, "read": [*rules["read"], *filter(os.path.isfile, programs)]})
        become(programs, argv, env)

    # -- watch --------------------------------------------------------------------------------------------------------

    def watch(self) -> None:
        """Wait until the program ends, has to be ended, or breaks a limit."""
        watch = os.pidfd_open(self.program)
        poll = select.poll()
        poll.register(watch, select.POLLIN)
        poll.register(self.control, select.POLLIN)
        while True:
            ready = [fd for fd, _ in poll.poll(LOOK_SECONDS * 1000)]
            if watch in ready:
                return
            if self.control in ready:
                os.read(self.control, 1)
                poll.unregister(self.control)
                self.terminate()
            if self.deadline is not None and time.monotonic() > self.deadline:
                return
            self.broken = self.look()
            if self.broken is not None:
                return

    def terminate(self) -> None:
        self.deadline = time.monotonic() + GRACE_SECONDS
        for pid in self.descent.below(self.pid):
            self.descent.send(pid, signal.SIGTERM)

    def look(self) -> str | None:
        """The limit that is broken, if any is."""
        limits = self.order["limits"]
        self.reap()
        pids = list(self.descent.below(self.pid))
        if len(pids) > limits["processes"]:
            return f"it had more than {limits['processes']:,} processes"
        most = limits.get("memory_bytes")
        if most is not None and sum(map(self.descent.memory_bytes, pids)) > most:
            return f"it took more than {most:,} bytes of memory"
        return None

    def reap(self) -> None:
        """Bury orphans that have ended. The program itself is left: as long as it is, its number is its own."""
        for pid in self.descent.children(self.pid):
            if pid != self.program:
                with suppress(ChildProcessError):
                    os.waitpid(pid, os.WNOHANG)

    # -- end ----------------------------------------------------------------------------------------------------------

    def end(self) -> int:
        """End what is left; how the program has ended."""
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


def candidates(name: str, path: str) -> list[str]:
    """Candidate paths of a program. Searched before the sandbox is active: Python's own search imports a module."""
    return [name] if "/" in name else [os.path.join(folder or ".", name) for folder in path.split(os.pathsep)]


def become(programs: list[str], argv: list[str], env: dict[str, str]) -> None:
    """Run the first executable candidate. Otherwise raise, preferring other errors to 'not found'."""
    reasons: list[OSError] = []
    for program in programs:
        try:
            os.execve(program, argv, env)
        except (FileNotFoundError, NotADirectoryError) as error:
            reasons.append(error)
        except OSError as error:
            reasons.insert(0, error)
    raise reasons[0]


def refusal(error: BaseException) -> str:
    """Why a program could not be started."""
    if isinstance(error, OSError):
        return f"{error.filename2 or error.filename or ''}\0{error.errno}\0{error.strerror}"
    return f"\0\0{type(error).__name__}: {error}"


def serve(control: int, confine: Any, descent: Any) -> None:
    """Carry out the one order that comes."""
    head = read(control, 4)
    order = loads(read(control, int.from_bytes(head, "little")))
    answer = dumps(Supervisor(control, order, confine, descent).run()).encode()
    os.write(control, len(answer).to_bytes(4, "little") + answer)


def read(fd: int, size: int) -> bytes:
    """So many bytes; the process ends if the engine has gone."""
    data = bytearray()
    while len(data) < size:
        chunk = os.read(fd, min(size - len(data), 1 << 20))
        if not chunk:
            sys.exit(0)
        data += chunk
    return bytes(data)
