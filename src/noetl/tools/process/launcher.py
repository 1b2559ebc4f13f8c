"""The zygote and its children from the engine's side: fork, kill, output and end."""

from __future__ import annotations

import asyncio
import atexit
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from json import dumps
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

    Channel = socket.socket | Connection

CLOSE_SECONDS = 5.0
READ_BYTES = 65536
INSIDE = os.path.join(os.path.dirname(__file__), "inside")
INHERITED = ("PATH", "HOME", "LANG", "LC_ALL", "TZ", "USER", "LOGNAME", "SSL_CERT_FILE", "SSL_CERT_DIR")
"""Variables that every program gets. All others of this process may contain secrets."""
INTERPRETER = ("PYTHONPATH", "PYTHONHOME", "LD_LIBRARY_PATH", "TMPDIR")
"""Variables that Python needs to start, to find modules and to create temporary files."""


def inherited(*more: str) -> dict[str, str]:
    return {name: value for name in (*INHERITED, *more) if (value := os.environ.get(name)) is not None}


def start_python(arguments: list[str], parent_end: Channel, child_end: Channel) -> subprocess.Popen[bytes]:
    """Start Python in a session of its own. Its last argument is the descriptor `child_end`, which is closed here."""
    try:
        return subprocess.Popen(
            [sys.executable, "-P", *arguments, str(child_end.fileno())],
            env=inherited(*INTERPRETER),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            pass_fds=[child_end.fileno()],
            start_new_session=True,
        )
    except BaseException:
        parent_end.close()
        raise
    finally:
        child_end.close()


def program_of(modules: tuple[str, ...], code: str) -> str:
    """A program that imports modules from the folders in its first argument, hides them, and then runs code."""
    imports = f"import sys\nsys.path[:0] = folders = sys.argv.pop(1).split(':')\nimport {', '.join(modules)}"
    removals = "\n".join(f"del sys.modules[{name!r}]" for name in modules)
    return f"{imports}\ndel sys.path[:len(folders)]\n{removals}\n{code}"


class Launcher:
    """Forks the children of one event loop from a zygote, which is started when it is needed. The zygote loads
    `modules` from `folders`; its children run `serve`, an expression, with their channel `control`."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, modules: tuple[str, ...], serve: str, folders: tuple[str, ...] = ()
    ) -> None:
        code = f"zygote.main(lambda control: {serve}, linux)"
        program = program_of(("zygote", "linux", *modules), code)
        self.loop, self.arguments = loop, ["-c", program, ":".join((INSIDE, *folders))]
        self.zygote: tuple[socket.socket, subprocess.Popen[bytes]] | None = None
        self.children: dict[int, ForkedChild] = {}
        """By number, also those being killed."""
        self.last_number = 0

    def start(self) -> tuple[socket.socket, subprocess.Popen[bytes]]:
        if self.zygote is None:
            parent_end, child_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            parent_end.settimeout(CLOSE_SECONDS)
            self.zygote = parent_end, start_python(self.arguments, parent_end, child_end)
            self.loop.add_reader(parent_end, self._receive)
        return self.zygote

    def fork(self, child: ForkedChild, settings: dict[str, Any], *stdin: int) -> None:
        number = self.last_number + 1
        message = b"F" + number.to_bytes(8, "little") + dumps(settings).encode()
        socket.send_fds(self.start()[0], [message], [*child.child_ends, *stdin])
        child.number = self.last_number = number
        self.children[number] = child
        child.close_child_ends()

    def kill(self, child: ForkedChild) -> None:
        if self.zygote is not None and child.number is not None:
            with suppress(OSError):  # the zygote has ended, and its children with it
                self.zygote[0].send(b"K" + child.number.to_bytes(8, "little"))

    def close(self) -> None:
        """End the zygote and all its descendants. Needs no running loop."""
        self._end_zygote()
        children, self.children = self.children, {}
        for child in children.values():
            child.ended("was closed", lost=False)

    def _end_zygote(self) -> int:
        if self.zygote is None:
            return 0
        (channel, process), self.zygote = self.zygote, None
        if not self.loop.is_closed():
            self.loop.remove_reader(channel)
        channel.close()
        try:
            return process.wait(CLOSE_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            return process.wait()

    def _receive(self) -> None:
        assert self.zygote is not None
        try:
            message = self.zygote[0].recv(4096)
        except OSError:
            message = b""
        number = int.from_bytes(message[1:9], "little")
        match message[:1]:
            case b"S":
                if child := self.children.get(number):
                    child.started(int.from_bytes(message[9:], "little"))
            case b"X":
                code = int.from_bytes(message[9:17], "little", signed=True)
                broken = message[17:].decode()
                self._ended(number, broken or ending(code), lost=code == -signal.SIGKILL and not broken)
            case b"E":
                self._ended(number, f"could not be started: {message[9:].decode(errors='replace')}", lost=True)
            case _:
                reason = f"ended with the zygote, which {ending(self._end_zygote())}"
                for number, child in list(self.children.items()):
                    if child.pid is not None:
                        with suppress(ProcessLookupError, PermissionError):
                            os.killpg(child.pid, signal.SIGKILL)
                    self._ended(number, reason, lost=True)

    def _ended(self, number: int, reason: str, *, lost: bool) -> None:
        if child := self.children.pop(number, None):
            child.ended(reason, lost=lost)


def ending(code: int) -> str:
    if code >= 0:
        return f"ended with exit code {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = "a signal"
    cause = ": out of memory, or killed from outside" if -code == signal.SIGKILL else ""
    return f"was killed by {name} (signal {-code}){cause}"


class ForkedChild:
    def __init__(self, launcher: Launcher) -> None:
        self.launcher, self.loop = launcher, launcher.loop
        self.number: int | None = None
        self.pid: int | None = None
        self.streams: dict[int, str] = {}
        self.channel, child_end = socket.socketpair()
        self.channel.setblocking(False)
        self.child_ends = [child_end.detach()]
        """The child's ends, until it is forked."""
        try:
            for name in ("stdout", "stderr"):
                end, their_end = os.pipe2(os.O_CLOEXEC)
                self.streams[end] = name
                self.child_ends.append(their_end)
                os.set_blocking(end, False)
                self.loop.add_reader(end, self.read, end)
        except OSError:
            self.close()
            raise

    def started(self, pid: int) -> None:
        self.pid = pid

    def ended(self, reason: str, *, lost: bool) -> None:
        """The child has ended with all its descendants; `lost`: for a reason that is not its own."""
        raise NotImplementedError

    def output(self, name: str, data: bytes) -> None:
        """Receives output of a stream; empty when the child has closed it."""
        raise NotImplementedError

    def read(self, fd: int) -> bool:
        try:
            data = os.read(fd, READ_BYTES)
        except BlockingIOError:
            return False
        self.output(self.streams[fd] if data else self._close_stream(fd), data)
        return bool(data)

    def drain(self) -> None:
        for fd in list(self.streams):
            for _ in range(64):  # a pipe holds no more
                if not self.read(fd):
                    break

    def close(self) -> None:
        for fd in list(self.streams):
            self._close_stream(fd)
        if not self.loop.is_closed():
            self.loop.remove_reader(self.channel)
            self.loop.remove_writer(self.channel)
        self.channel.close()
        self.close_child_ends()

    def _close_stream(self, fd: int) -> str:
        if not self.loop.is_closed():
            self.loop.remove_reader(fd)
        os.close(fd)
        return self.streams.pop(fd)

    def close_child_ends(self) -> None:
        while self.child_ends:
            os.close(self.child_ends.pop())


class Closable(Protocol):
    def close(self) -> None: ...


T = TypeVar("T", bound=Closable)


class PerLoop(Generic[T]):
    """One object for each event loop, closed with the loop, or at the latest with this process."""

    def __init__(self, create: Callable[[asyncio.AbstractEventLoop], T]) -> None:
        self._create, self._process = create, os.getpid()
        self._objects: dict[asyncio.AbstractEventLoop, T] = {}
        atexit.register(self._close_all)

    def get(self) -> T:
        """The object of the running loop. Closes those of loops that were closed before."""
        loop = asyncio.get_running_loop()
        if loop not in self._objects:
            for other in [other for other in self._objects if other.is_closed()]:
                self._objects.pop(other).close()
            self._objects[loop] = self._create(loop)
        return self._objects[loop]

    def close(self) -> None:
        if (closable := self._objects.pop(asyncio.get_running_loop(), None)) is not None:
            closable.close()

    def _close_all(self) -> None:
        if os.getpid() == self._process:  # a forked copy must not end the processes of the original
            while self._objects:
                self._objects.popitem()[1].close()
