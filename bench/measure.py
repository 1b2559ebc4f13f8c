"""How things are measured: the best of several tries, since noise on a shared machine only ever adds."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple


class Figure(NamedTuple):
    """One line of the table. `bar` is what the figure must reach; a share above 1 means that it does not."""

    name: str
    value: str
    bar: str = ""
    reached: bool | None = None


def best_seconds(action: Callable[[], object], tries: int) -> float:
    """The shortest time of `tries` runs."""
    shortest = float("inf")
    for _ in range(tries):
        start = time.perf_counter()
        action()
        shortest = min(shortest, time.perf_counter() - start)
    return shortest


def best_command(*arguments: str, tries: int = 15) -> float:
    """The shortest wall time of a command, start-up included."""
    return best_seconds(lambda: subprocess.run(arguments, check=True, capture_output=True), tries)


def resident_megabytes(pid: int) -> int:
    """The memory of a process."""
    status = Path(f"/proc/{pid}/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS")) // 1024


def print_figures(figures: Iterable[Figure]) -> None:
    for figure in figures:
        verdict = {True: "reached", False: "MISSED", None: ""}[figure.reached]
        print(f"{figure.name:<58} {figure.value:>16}   {figure.bar:<22} {verdict}".rstrip(), flush=True)
