"""Threads, processes and open files that a call leaves behind."""

from __future__ import annotations

import gc
import os
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

END_SECONDS = 5.0
"""How long threads and processes may take to end."""


class Resources(NamedTuple):
    threads: frozenset[str]
    processes: frozenset[int]
    files: dict[str, str]
    """Open descriptors with their targets."""


def resources() -> Resources:
    gc.collect()
    threads = frozenset(f"{thread.name} {thread.ident}" for thread in threading.enumerate())
    children, files = set(), {}
    for task in Path("/proc/self/task").glob("*/children"):
        with suppress(OSError):
            children |= {int(pid) for pid in task.read_text().split()}
    for entry in Path("/proc/self/fd").iterdir():
        with suppress(OSError):  # the descriptor that lists them is closed already
            files[entry.name] = os.readlink(entry)
    return Resources(threads, frozenset(children), files)


def left_since(before: Resources) -> list[str]:
    """Resources that the process has now and had not before, after a grace time."""
    deadline = time.monotonic() + END_SECONDS
    while (leftovers := _more(before, resources())) and time.monotonic() < deadline:
        time.sleep(0.02)
    return leftovers


def _more(before: Resources, now: Resources) -> list[str]:
    leftovers = [f"a thread is left: {name}" for name in sorted(now.threads - before.threads)]
    for pid in sorted(now.processes - before.processes):
        command = ""
        with suppress(OSError):
            command = Path(f"/proc/{pid}/cmdline").read_bytes().replace(bytes(1), b" ").decode(errors="replace")
        leftovers.append(f"a process is left: {pid} {command}".rstrip())
    new = sorted(target for number, target in now.files.items() if before.files.get(number) != target)
    return leftovers + [f"a file is left open: {target}" for target in new]
