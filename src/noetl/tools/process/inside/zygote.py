"""The zygote: forks children on demand, kills them on demand, and tells how they ended.

Messages are single packets. From the engine: `F` number JSON, with the descriptors of a child (its line, stdout,
stderr, and stdin if it has one), forks a child; `K` number kills one. To the engine: `S` number pid, it has started;
`X` number status text, it is gone with all its descendants, because of the text if there is one; `E` number text, it
could not be forked. Numbers are eight bytes, little endian.

The JSON tells where and how the child lives: `cwd`, `memory_bytes` (what it may have beyond what it starts with),
`processes` (how many it may have below it), `landlock`, and `exec`, a program in which the child goes on.
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
"""The descriptor of the line to the engine in a child, after those of standard input, output and error."""
BURIAL_SECONDS = 2.0
LOOK_SECONDS = 0.1
"""How often the processes below children are counted."""


class Zygote:
    """Knows the children that are alive. `serve` is what a child does."""

    def __init__(self, line: socket, serve: Callable[[int], None], confine: Any, descent: Any) -> None:
        self.line, self.serve, self.confine, self.descent = line, serve, confine, descent
        self.pids: dict[int, int] = {}
        self.most: dict[int, int] = {}
        """How many processes a child may have below it, where that is looked after here."""
        self.broken: dict[int, str] = {}
        """Why a child was killed that broke a limit."""
        self.watched: dict[int, int] = {}
        """Descriptors that become readable when a child ends, and the child's number."""
        self.poll = select.poll()
        self.poll.register(line, select.POLLIN)

    def run(self) -> None:
        """Serve the engine until it is gone."""
        parent = os.getppid()
        ending = False

        def orphaned(*_: Any) -> None:
            if os.getppid() != parent and not ending:  # else only the thread that started the zygote has ended
                raise SystemExit

        signal.signal(signal.SIGTERM, orphaned)
        self.confine.LIBC.prctl(self.confine.PR_SET_PDEATHSIG, signal.SIGTERM)
        self.confine.adopt_orphans()
        self.confine.forbid_core_dumps()
        gc.collect()
        gc.freeze()
        try:
            try:
                self.loop()
            finally:
                ending = True  # the engine's death comes as a signal too, which must not cut this short
        except (BrokenPipeError, ConnectionResetError):
            pass
        finally:
            self.kill_all()

    def loop(self) -> None:
        while True:
            for fd, _ in self.poll.poll(LOOK_SECONDS * 1000 if self.most else None):
                if fd in self.watched:
                    self.bury(fd)
                elif not self.obey():
                    return
            self.look()

    def obey(self) -> bool:
        """Carry out one message; False if there will be no more."""
        message, ancillary, _, _ = self.line.recvmsg(65536, CMSG_SPACE(16), MSG_CMSG_CLOEXEC)
        if not message:
            return False
        number = int.from_bytes(message[1:9], "little")
        if message[:1] == b"F":
            fds = list(memoryview(ancillary[0][2]).cast("i"))
            try:
                self.fork(number, fds, loads(message[9:]))
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

    def fork(self, number: int, fds: list[int], life: dict[str, Any]) -> None:
        zygote = os.getpid()
        pid = os.fork()
        if pid == 0:
            try:
                self.be_child(zygote, fds, life)
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
        if life.get("processes") is not None:
            self.most[number] = life["processes"]
        self.watched[watch] = number
        self.poll.register(watch, select.POLLIN)
        self.tell(b"S", number, pid.to_bytes(8, "little"))

    def be_child(self, zygote: int, fds: list[int], life: dict[str, Any]) -> None:
        os.setsid()
        self.confine.adopt_orphans()
        if not self.confine.die_with_parent(zygote):
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
        self.confine.volunteer_for_memory()
        if life.get("memory_bytes") is not None:
            self.confine.limit_address_space(life["memory_bytes"])
        if life.get("cwd"):
            os.chdir(life["cwd"])
        if life.get("landlock") is not None:
            self.confine.landlock(**life["landlock"])
        if life.get("exec") is not None:
            os.set_inheritable(CONTROL, True)
            os.execv(life["exec"][0], life["exec"])
        self.serve(CONTROL)

    def look(self) -> None:
        """Kill children that have too many processes below them."""
        for number, most in self.most.items():
            if number not in self.broken and sum(1 for _ in self.descent.below(self.pids[number])) > most:
                self.broken[number] = f"was ended: it had more than {most:,} processes"
                self.kill(self.pids[number])

    def kill(self, pid: int) -> None:
        """Kill a child that has not been waited for, and everything below it."""
        self.descent.end(pid)
        with suppress(ProcessLookupError, PermissionError):  # no group yet, or one that has changed its user
            os.killpg(pid, signal.SIGKILL)

    def bury(self, watch: int) -> None:
        """A child has ended: end what it has left behind, then say so."""
        number = self.watched.pop(watch)
        pid = self.pids[number]
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, signal.SIGKILL)  # as long as nobody has waited for it, the number of its group is its own
        _, status = os.waitpid(pid, 0)
        del self.pids[number]
        self.most.pop(number, None)
        self.poll.unregister(watch)
        os.close(watch)
        self.kill_orphans()
        code = os.waitstatus_to_exitcode(status).to_bytes(8, "little", signed=True)
        self.tell(b"X", number, code + self.broken.pop(number, "").encode())

    def kill_orphans(self) -> None:
        """Kill descendants of dead children that had left their group: they are the zygote's children now."""
        until = time.monotonic() + BURIAL_SECONDS
        alive = self.pids.values()
        while orphans := [pid for pid in self.descent.children(os.getpid()) if pid not in alive]:
            for pid in orphans:
                self.descent.end(pid)
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


def main(serve: Callable[[int], None], confine: Any, descent: Any) -> None:
    """`argv` has the descriptor of the line to the engine."""
    line = int(sys.argv[1])
    sys.argv = [""]
    sys.path.insert(0, "")
    Zygote(socket(fileno=line), serve, confine, descent).run()
