"""The zygote: forks children on demand, kills them on demand, and tells how they ended.

Messages are single packets. From the engine: `F` number cwd, with three descriptors (calls, stdout, stderr), forks a
child; `K` number kills one. To the engine: `S` number pid, it has started; `X` number status, it is gone with all its
descendants; `E` number text, it could not be forked. Numbers are eight bytes, little endian.
"""

from __future__ import annotations

import ctypes
import gc
import os
import resource
import select
import signal
import sys
import time
from _socket import CMSG_SPACE, MSG_CMSG_CLOEXEC, socket  # the module `socket` would double the time to start
from contextlib import suppress

TYPE_CHECKING = False  # spares the import of typing
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
CONTROL = 3
"""The descriptor of calls and answers in a child, after those of standard input, output and error."""
BURIAL_SECONDS = 2.0

LIBC = ctypes.CDLL(None)


def flush_c() -> None:
    """Write what C code has printed but not flushed."""
    LIBC.fflush(None)


class Zygote:
    """Knows the children that are alive. `serve` is what a child does."""

    def __init__(self, line: socket, memory_bytes: int, serve: Callable[[int, Callable[[], None]], None]) -> None:
        self.line, self.memory_bytes, self.serve = line, memory_bytes, serve
        self.pids: dict[int, int] = {}
        self.watched: dict[int, int] = {}
        """Descriptors that become readable when a child ends, and the child's number."""
        self.poll = select.poll()
        self.poll.register(line, select.POLLIN)

    def run(self) -> None:
        """Serve the engine until it is gone."""
        parent = os.getppid()

        def orphaned(*_: Any) -> None:
            if os.getppid() != parent:  # else only the thread that started the zygote has ended, or a stray signal
                raise SystemExit

        signal.signal(signal.SIGTERM, orphaned)
        LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
        LIBC.prctl(PR_SET_CHILD_SUBREAPER, 1)
        gc.collect()
        gc.freeze()
        try:
            while True:
                for fd, _ in self.poll.poll():
                    if fd in self.watched:
                        self.bury(fd)
                    elif not self.obey():
                        return
        except (BrokenPipeError, ConnectionResetError):
            return
        finally:
            self.kill_all()

    def obey(self) -> bool:
        """Carry out one message; False if there will be no more."""
        message, ancillary, _, _ = self.line.recvmsg(8192, CMSG_SPACE(12), MSG_CMSG_CLOEXEC)
        if not message:
            return False
        number = int.from_bytes(message[1:9], "little")
        if message[:1] == b"F":
            fds = list(memoryview(ancillary[0][2]).cast("i"))
            try:
                self.fork(number, fds, message[9:])
            except OSError as error:
                self.tell(b"E", number, str(error).encode())
            finally:
                for fd in fds:
                    os.close(fd)
        elif number in self.pids:
            self.kill(self.pids[number])
        return True

    def tell(self, what: bytes, number: int, more: bytes) -> None:
        self.line.send(what + number.to_bytes(8, "little") + more)

    def fork(self, number: int, fds: list[int], cwd: bytes) -> None:
        zygote = os.getpid()
        pid = os.fork()
        if pid == 0:
            try:
                self.be_child(zygote, fds, cwd)
                os._exit(0)
            except BaseException as error:
                sys.excepthook(type(error), error, error.__traceback__)
            finally:
                os._exit(70)  # never back into the zygote's own loop
        try:
            watch = os.pidfd_open(pid)
        except OSError:
            self.kill(pid)
            os.waitpid(pid, 0)
            raise
        self.pids[number] = pid
        self.watched[watch] = number
        self.poll.register(watch, select.POLLIN)
        self.tell(b"S", number, pid.to_bytes(8, "little"))

    def be_child(self, zygote: int, fds: list[int], cwd: bytes) -> None:
        os.setsid()
        LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        LIBC.prctl(PR_SET_CHILD_SUBREAPER, 1)
        if os.getppid() != zygote:
            return
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        control, out, err = fds
        os.dup2(out, 1)
        os.dup2(err, 2)
        if control != CONTROL:
            os.dup2(control, CONTROL, inheritable=False)
        os.closerange(CONTROL + 1, os.sysconf("SC_OPEN_MAX"))
        with suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
            file.write("500")  # when memory runs out the kernel shall take this process, not the engine
        limit_memory(self.memory_bytes)
        if cwd:
            os.chdir(cwd)
        self.serve(CONTROL, flush_c)

    def kill(self, pid: int) -> None:
        """Kill a child that has not been waited for, and its group."""
        for kill in (os.kill, os.killpg):
            with suppress(ProcessLookupError, PermissionError):  # no group yet, or one that has changed its user
                kill(pid, signal.SIGKILL)

    def bury(self, watch: int) -> None:
        """A child has ended: end what it has left behind, then say so."""
        number = self.watched.pop(watch)
        pid = self.pids[number]
        self.kill(pid)  # as long as nobody has waited for it, the number of its group is its own
        _, status = os.waitpid(pid, 0)
        del self.pids[number]
        self.poll.unregister(watch)
        os.close(watch)
        self.kill_orphans()
        self.tell(b"X", number, os.waitstatus_to_exitcode(status).to_bytes(8, "little", signed=True))

    def kill_orphans(self) -> None:
        """Kill descendants of dead children that had left their group: they are the zygote's children now."""
        until = time.monotonic() + BURIAL_SECONDS
        while orphans := [pid for pid in children() if pid not in self.pids.values()]:
            for pid in orphans:
                os.kill(pid, signal.SIGKILL)
            while orphans and time.monotonic() < until:
                orphans = [pid for pid in orphans if os.waitpid(pid, os.WNOHANG)[0] == 0]
                if orphans:
                    time.sleep(0.001)
            if orphans:
                return  # stuck in the kernel; the next burial tries again

    def kill_all(self) -> None:
        for pid in self.pids.values():
            self.kill(pid)
        for pid in self.pids.values():
            os.waitpid(pid, 0)
        self.pids.clear()
        self.kill_orphans()


def children() -> list[int]:
    try:
        with open(f"/proc/self/task/{os.getpid()}/children") as file:
            return [int(pid) for pid in file.read().split()]
    except FileNotFoundError:
        return []  # a kernel without this file: groups die all the same


def limit_memory(more_bytes: int) -> None:
    """Let this process have so much address space beyond what it has; a lower limit from outside stays."""
    with open("/proc/self/statm") as file:
        now = int(file.read().split()[0]) * resource.getpagesize()
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    wanted = now + more_bytes
    if soft == resource.RLIM_INFINITY or wanted < soft:
        resource.setrlimit(resource.RLIMIT_AS, (wanted, hard))


def main(serve: Callable[[int, Callable[[], None]], None]) -> None:
    """`argv` has the descriptor of the line to the engine and the bytes of memory a child may use."""
    line, memory_bytes = int(sys.argv[1]), int(sys.argv[2])
    sys.argv = [""]
    sys.path.insert(0, "")
    Zygote(socket(fileno=line), memory_bytes, serve).run()
