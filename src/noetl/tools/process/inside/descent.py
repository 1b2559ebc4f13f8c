"""The processes below a process: who they are, and how they end."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress

TYPE_CHECKING = False  # spares the import of typing
if TYPE_CHECKING:
    from collections.abc import Iterator

PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
PATIENCE_SECONDS = 5.0


def children(pid: int) -> list[int]:
    """The processes that a process has started or adopted, whichever of its threads did."""
    found: list[int] = []
    try:
        for task in os.listdir(f"/proc/{pid}/task"):
            with suppress(FileNotFoundError, ProcessLookupError), open(f"/proc/{pid}/task/{task}/children") as file:
                found += map(int, file.read().split())
    except (FileNotFoundError, ProcessLookupError):
        pass
    return found


def below(pid: int) -> Iterator[int]:
    """Every process below this one, parents before their children."""
    level = children(pid)
    seen = {pid}
    while level:
        following: list[int] = []
        for one in level:
            if one not in seen:
                seen.add(one)
                yield one
                following += children(one)
        level = following


def memory_bytes(pid: int) -> int:
    """Memory of a process that is its own: what it shares with files and others is not counted."""
    try:
        with open(f"/proc/{pid}/statm") as file:
            _, resident, shared, *_ = file.read().split()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return (int(resident) - int(shared)) * PAGE_BYTES


def send(pid: int, number: int) -> None:
    with suppress(ProcessLookupError, PermissionError):  # gone, or of another user
        os.kill(pid, number)


def end_below(pid: int) -> None:
    """Stop everything below a process until nothing new turns up, then kill it. Whoever is stopped can't fork."""
    stopped: set[int] = set()
    until = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < until:
        before = len(stopped)
        for one in below(pid):
            if one not in stopped:
                send(one, signal.SIGSTOP)
                stopped.add(one)
        if len(stopped) == before:
            break
    for one in stopped:
        send(one, signal.SIGKILL)


def end(pid: int) -> None:
    """Kill a process and everything below it."""
    send(pid, signal.SIGSTOP)
    end_below(pid)
    send(pid, signal.SIGKILL)
