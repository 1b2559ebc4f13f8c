"""A child as the engine sees it: a channel, and the pipes of its output."""

from __future__ import annotations

import os
import socket
from typing import Any

from noetl.tools.process.launcher import Launcher

READ_BYTES = 65536
DRAIN_READS = 64
"""Reads of a pipe that is to be emptied: it holds no more."""


class ForkedChild:
    """A child and the engine's ends of its descriptors. Subclasses receive its output and its end."""

    def __init__(self, launcher: Launcher) -> None:
        self.launcher, self.loop = launcher, launcher.loop
        self.number: int | None = None
        """Its number at the launcher, once it is forked."""
        self.pid: int | None = None
        self.streams: dict[int, str] = {}
        """`stdout` and `stderr` by descriptor."""
        self.channel, theirs = socket.socketpair()
        self.channel.setblocking(False)
        self.theirs = [theirs.detach()]
        """The child's ends, until it is forked."""
        try:
            for name in ("stdout", "stderr"):
                end, their_end = os.pipe2(os.O_CLOEXEC)
                self.streams[end] = name
                self.theirs.append(their_end)
                os.set_blocking(end, False)
                self.loop.add_reader(end, self.read, end)
        except OSError:
            self.close()
            raise

    def started(self, pid: int) -> None:
        self.pid = pid

    def ended(self, reason: str, *, killed: bool) -> None:
        """The child has ended with all its descendants."""
        raise NotImplementedError

    def output(self, name: str, data: bytes) -> None:
        """Receives output of a stream; empty when the child has closed it."""
        raise NotImplementedError

    def fork(self, settings: dict[str, Any], *more_fds: int) -> None:
        """Start the process; OSError if that fails."""
        self.number = self.launcher.fork(self, [*self.theirs, *more_fds], settings)
        self._close_theirs()

    def kill(self) -> None:
        if self.number is not None:
            self.launcher.kill(self.number)

    def read(self, fd: int) -> bool:
        """Read from a stream; return whether there may be more."""
        try:
            data = os.read(fd, READ_BYTES)
        except BlockingIOError:
            return False
        self.output(self.streams[fd] if data else self._close_stream(fd), data)
        return bool(data)

    def drain(self) -> None:
        for fd in list(self.streams):
            for _ in range(DRAIN_READS):
                if not self.read(fd):
                    break

    def close(self) -> None:
        """Close all descriptors. Needs no running loop."""
        for fd in list(self.streams):
            self._close_stream(fd)
        if not self.loop.is_closed():
            self.loop.remove_reader(self.channel)
            self.loop.remove_writer(self.channel)
        self.channel.close()
        self._close_theirs()

    def _close_stream(self, fd: int) -> str:
        if not self.loop.is_closed():
            self.loop.remove_reader(fd)
        os.close(fd)
        return self.streams.pop(fd)

    def _close_theirs(self) -> None:
        for fd in self.theirs:
            os.close(fd)
        self.theirs = []
