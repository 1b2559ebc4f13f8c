"""The zygote: forks and kills children on request, and reports how they ended.

Messages are single packets. From the engine: `F` number JSON, with the descriptors of a child (its channel, stdout,
stderr, and stdin if it has one), forks a child; `K` number kills one. To the engine: `S` number pid, it has started;
`X` number status text, it has ended with all its descendants, because of the text if there is one; `E` number text, it
could not be forked. Numbers are eight bytes, little endian.

The JSON has the settings of the child: `cwd`, `memory_bytes` (the most it may allocate), `processes` (the most
descendants it may have), `landlock`, and `exec`, a program that replaces it.
"""

from __future__ import annotations

import gc
import os
import select
import signal
import sys
import time
from _socket import CMSG_SPACE, MSG_CMSG_CLOEXEC, socket  # the module `socket` would double the time to start
from contextlib import suppress
from json import loads

TYPE_CHECKING = False  # spares the import of typing
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

CONTROL = 3
"""The descriptor of the channel to the engine in a child, after stdin, stdout and stderr."""
REAP_SECONDS = 2.0
CHECK_SECONDS = 0.1


class Child:
    def __init__(self, number: int, pid: int, max_processes: int | None) -> None:
        self.number, self.pid, self.max_processes = number, pid, max_processes
        self.broken = ""


class Zygote:
    """The running children; a child runs `serve`."""

    def __init__(self, channel: socket, serve: Callable[[int], None], linux: Any) -> None:
        self.channel, self.serve, self.linux = channel, serve, linux
        self.children: dict[int, Child] = {}
        """By a descriptor that becomes readable when the child ends."""
        self.poll = select.poll()
        self.poll.register(channel, select.POLLIN)

    def run(self) -> None:
        parent = os.getppid()
        ending = False

        def orphaned(*_: Any) -> None:
            if os.getppid() != parent and not ending:  # or else only the thread that started the zygote has ended
                raise SystemExit

        signal.signal(signal.SIGTERM, orphaned)
        self.linux.LIBC.prctl(self.linux.PR_SET_PDEATHSIG, signal.SIGTERM)
        self.linux.adopt_orphans()
        self.linux.forbid_core_dumps()
        gc.collect()
        gc.freeze()
        try:
            try:
                self.loop()
            finally:
                ending = True  # the end of the engine is also a signal, which must not interrupt this
        except (BrokenPipeError, ConnectionResetError):
            pass
        finally:
            for child in self.children.values():
                self.kill(child.pid)
            for child in self.children.values():
                os.waitpid(child.pid, 0)
            self.children.clear()
            self.kill_orphans()

    def loop(self) -> None:
        while True:
            limited = any(child.max_processes is not None for child in self.children.values())
            for fd, _ in self.poll.poll(CHECK_SECONDS * 1000 if limited else None):
                if fd in self.children:
                    self.reap(fd)
                elif not self.handle_message():
                    return
            for child in self.children.values():
                limit = child.max_processes
                if limit is not None and not child.broken and sum(1 for _ in self.linux.below(child.pid)) > limit:
                    child.broken = f"was ended: it had more than {limit:,} processes"
                    self.kill(child.pid)

    def handle_message(self) -> bool:
        message, ancillary, _, _ = self.channel.recvmsg(65536, CMSG_SPACE(16), MSG_CMSG_CLOEXEC)
        if not message:
            return False
        number = int.from_bytes(message[1:9], "little")
        if message[:1] == b"F":
            fds = list(memoryview(ancillary[0][2]).cast("i"))
            try:
                self.fork(number, fds, loads(message[9:]))
            except OSError as error:
                self.send(b"E", number, str(error).encode())
            finally:
                for fd in fds:
                    os.close(fd)
        else:
            for child in self.children.values():
                if child.number == number:
                    self.kill(child.pid)
        return True

    def send(self, kind: bytes, number: int, more: bytes) -> None:
        self.channel.send(kind + number.to_bytes(8, "little") + more)

    def fork(self, number: int, fds: list[int], settings: dict[str, Any]) -> None:
        zygote = os.getpid()
        pid = os.fork()
        if pid == 0:
            try:
                self.run_child(zygote, fds, settings)
                os._exit(0)
            except BaseException as error:
                sys.excepthook(type(error), error, error.__traceback__)
            finally:
                os._exit(70)  # never return to the zygote's own loop
        try:
            watch = os.pidfd_open(pid)
        except OSError:
            self.kill(pid)
            os.waitpid(pid, 0)
            raise
        self.children[watch] = Child(number, pid, settings.get("processes"))
        self.poll.register(watch, select.POLLIN)
        self.send(b"S", number, pid.to_bytes(8, "little"))

    def run_child(self, zygote: int, fds: list[int], settings: dict[str, Any]) -> None:
        os.setsid()
        self.linux.adopt_orphans()
        if not self.linux.die_with_parent(zygote):
            return
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        control, out, err, *into = fds
        os.dup2(out, 1)
        os.dup2(err, 2)
        if into:
            os.dup2(into[0], 0)
        if control != CONTROL:
            os.dup2(control, CONTROL, inheritable=False)
        os.closerange(CONTROL + 1, os.sysconf("SC_OPEN_MAX"))
        self.linux.prefer_oom_kill()
        if settings.get("memory_bytes") is not None:
            self.linux.limit_address_space(settings["memory_bytes"])
        if settings.get("cwd"):
            os.chdir(settings["cwd"])
        if settings.get("landlock") is not None:
            self.linux.landlock(**settings["landlock"])
        if settings.get("exec") is not None:
            os.set_inheritable(CONTROL, True)
            os.execv(settings["exec"][0], settings["exec"])
        self.serve(CONTROL)

    def kill(self, pid: int) -> None:
        self.linux.end(pid)
        with suppress(ProcessLookupError, PermissionError):  # no group yet, or one of another user
            os.killpg(pid, signal.SIGKILL)

    def reap(self, watch: int) -> None:
        child = self.children.pop(watch)
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(child.pid, signal.SIGKILL)  # until it is reaped, the id of its group is not reused
        _, status = os.waitpid(child.pid, 0)
        self.poll.unregister(watch)
        os.close(watch)
        self.kill_orphans()
        code = os.waitstatus_to_exitcode(status).to_bytes(8, "little", signed=True)
        self.send(b"X", child.number, code + child.broken.encode())

    def kill_orphans(self) -> None:
        """Kill descendants of dead children that had left their group: they are now children of the zygote."""
        until = time.monotonic() + REAP_SECONDS
        alive = {child.pid for child in self.children.values()}
        while orphans := [pid for pid in self.linux.children(os.getpid()) if pid not in alive]:
            for pid in orphans:
                self.linux.end(pid)
            while orphans and time.monotonic() < until:
                orphans = [pid for pid in orphans if os.waitpid(pid, os.WNOHANG)[0] == 0]
                if orphans:
                    time.sleep(0.001)
            if orphans:
                return  # stuck in the kernel; the next call tries again


def main(serve: Callable[[int], None], linux: Any) -> None:
    """The argument is the descriptor of the channel to the engine."""
    channel = int(sys.argv[1])
    sys.argv = [""]
    sys.path.insert(0, "")
    Zygote(socket(fileno=channel), serve, linux).run()
