"""What a call leaves behind: threads, processes and open files."""

from __future__ import annotations

import gc
import os
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

GRACE_SECONDS = 5.0
"""How long something that is about to end may take."""


class Traces(NamedTuple):
    """What this process has at a moment."""

    threads: frozenset[str]
    processes: frozenset[int]
    files: dict[str, str]
    """Open descriptors with what they lead to."""


def traces() -> Traces:
    gc.collect()
    threads = frozenset(f"{thread.name} {thread.ident}" for thread in threading.enumerate())
    return Traces(threads, frozenset(_children()), _files())


def left_since(before: Traces) -> list[str]:
    """What is there now and was not before; what is on its way out gets a moment."""
    give_up = time.monotonic() + GRACE_SECONDS
    while (leftovers := _more(before, traces())) and time.monotonic() < give_up:
        time.sleep(0.02)
    return leftovers


def _more(before: Traces, now: Traces) -> list[str]:
    leftovers = [f"a thread is left: {name}" for name in sorted(now.threads - before.threads)]
    leftovers += [f"a process is left: {_command(pid)}" for pid in sorted(now.processes - before.processes)]
    new = sorted(target for number, target in now.files.items() if before.files.get(number) != target)
    return leftovers + [f"a file is left open: {target}" for target in new]


def _children() -> list[int]:
    """The processes that this one has started and that are still there."""
    children = []
    for task in Path("/proc/self/task").glob("*/children"):
        with suppress(OSError):
            children += [int(pid) for pid in task.read_text().split()]
    return children


def _files() -> dict[str, str]:
    files = {}
    for entry in Path("/proc/self/fd").iterdir():
        with suppress(OSError):  # the one that lists them is gone already
            files[entry.name] = os.readlink(entry)
    return files


def _command(pid: int) -> str:
    with suppress(OSError):
        return f"{pid} {Path(f'/proc/{pid}/cmdline').read_bytes().replace(bytes(1), b' ').decode(errors='replace')}"
    return str(pid)
