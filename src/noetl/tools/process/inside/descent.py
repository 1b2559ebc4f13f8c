"""The descendants of a process."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress

TYPE_CHECKING = False  # spares the import of typing
if TYPE_CHECKING:
    from collections.abc import Iterator

PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
STOP_SECONDS = 5.0


def children(pid: int) -> list[int]:
    pids: list[int] = []
    try:
        for task in os.listdir(f"/proc/{pid}/task"):
            with suppress(FileNotFoundError, ProcessLookupError), open(f"/proc/{pid}/task/{task}/children") as file:
                pids += map(int, file.read().split())
    except (FileNotFoundError, ProcessLookupError):
        pass
    return pids


def below(pid: int) -> Iterator[int]:
    visited = {pid}
    level = children(pid)
    while level:
        new = [child for child in dict.fromkeys(level) if child not in visited]
        visited.update(new)
        yield from new
        level = [grandchild for child in new for grandchild in children(child)]


def memory_bytes(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/statm") as file:
            _, resident, shared, *_ = file.read().split()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return (int(resident) - int(shared)) * PAGE_BYTES


def send(pid: int, number: int) -> None:
    with suppress(ProcessLookupError, PermissionError):  # ended, or of another user
        os.kill(pid, number)


def end_below(pid: int) -> None:
    """Stop all descendants until no new ones appear, then kill them. A stopped process cannot fork."""
    stopped: set[int] = set()
    until = time.monotonic() + STOP_SECONDS
    while time.monotonic() < until:
        before = len(stopped)
        for descendant in below(pid):
            if descendant not in stopped:
                send(descendant, signal.SIGSTOP)
                stopped.add(descendant)
        if len(stopped) == before:
            break
    for descendant in stopped:
        send(descendant, signal.SIGKILL)


def end(pid: int) -> None:
    send(pid, signal.SIGSTOP)
    end_below(pid)
    send(pid, signal.SIGKILL)
