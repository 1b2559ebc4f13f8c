"""The long proofs, in parts that can be run one by one.

    python -m tests.soak              every part, one after the other
    python -m tests.soak crash docs   these parts

A test belongs to a part by its marker, `@pytest.mark.slow(part="crash")`, and is below one of the paths of that part. A
part takes less than 30 minutes on two cores. `.soak/times.json` has the time of the last run of each part.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest

TESTS = Path(__file__).parent
TIMES = TESTS.parent / ".soak" / "times.json"


class Part(NamedTuple):
    """What is proven, and the paths below `tests` that have its tests."""

    proof: str
    paths: tuple[str, ...]


PARTS = {
    "crash": Part("a run that is killed at any point is resumed to the same end", ("crash",)),
    "crash-twice": Part("a resumed run that is killed at any point is resumed again", ("crash",)),
    "mutants": Part("a rule of the engine that is broken on purpose fails its test", ("mutants",)),
    "loops": Part(
        "every item of twenty thousand random loops counts once, whatever crashes and is lost",
        ("property/test_loops.py",),
    ),
    "sim": Part(
        "a million seeds of the simulated system have no problems, in slices that continue each other", ("sim",)
    ),
    "playbooks": Part(
        "random and damaged playbooks compile or have problems, and nothing else", ("property/test_playbooks.py",)
    ),
    "damage": Part("every damage at every position of random logs is found", ("property/test_damage.py",)),
    "modes": Part(
        "every case in every way to serve: one process, dev, SQLite, Postgres, NATS, two servers", ("acceptance/modes",)
    ),
    "chaos": Part(
        "nothing is lost, repeated or stuck, whatever is killed, stopped, cut and filled; in slices that add up",
        ("acceptance/chaos",),
    ),
    "approvals": Part("a waiting run outlives every process, a hundred times", ("acceptance/modes/test_approvals.py",)),
    "recovery": Part("how long open runs stand still after a fault", ("acceptance/chaos/test_recovery.py",)),
    "secrets": Part(
        "no secret leaves a run of any tool kind; no value becomes code",
        ("acceptance/test_canaries.py", "acceptance/test_injection.py"),
    ),
    "fuzz": Part(
        "hostile bytes, texts and requests for every entrance: judged or refused, within their bounds",
        (
            "hostile",
            "unit/dsl/test_hostile.py",
            "unit/expression/test_costs.py",
            "unit/server/test_api_fuzz.py",
        ),
    ),
    "docs": Part("every command of every page prints what the page shows", ("test_docs_prose.py",)),
    "views": Part(
        "every view of the page is accessible, and harmless for a hostile run, in every width and theme",
        ("browser/test_views.py", "browser/test_hostile.py"),
    ),
    "page": Part("a wheel made from nothing but a clone and the network serves the web page", ("test_page_build.py",)),
}


class LastRun(msgspec.Struct, frozen=True):
    """The last run of a part: its duration, its end (UTC), and whether it passed."""

    seconds: float
    at: str
    passed: bool


def check_parts(items: Iterable[pytest.Item]) -> None:
    """Refuse a slow test that no part would run."""
    unassigned = [item.nodeid for item in items if (slow := item.get_closest_marker("slow")) and not _runs(item, slow)]
    if unassigned:
        raise pytest.UsageError("slow tests that belong to no part of tests/soak.py:\n" + "\n".join(unassigned))


def _runs(item: pytest.Item, slow: pytest.Mark) -> bool:
    part = PARTS.get(slow.kwargs.get("part", ""))
    return part is not None and any(item.path.is_relative_to(TESTS / path) for path in part.paths)


def run(name: str) -> LastRun:
    began = time.monotonic()
    processors = len(os.sched_getaffinity(0))  # no more workers than these: some parts measure time
    options = ["-n", f"{processors}", "--dist", "worksteal", "-m", f"slow(part={name!r})", "-p", "tests.soak_summary"]
    paths = [str(TESTS / path) for path in PARTS[name].paths]
    done = subprocess.run([sys.executable, "-m", "pytest", *options, *paths], check=False, cwd=TESTS.parent)
    ended = time.strftime("%Y-%m-%d %H:%M", time.gmtime())
    return LastRun(time.monotonic() - began, ended, done.returncode == 0)


def store(runs: dict[str, LastRun]) -> dict[str, LastRun]:
    """Add these to the stored runs of other parts, and return all of them."""
    TIMES.parent.mkdir(exist_ok=True)
    last_runs = msgspec.json.decode(TIMES.read_bytes(), type=dict[str, LastRun]) if TIMES.exists() else {}
    last_runs |= runs
    TIMES.write_bytes(msgspec.json.encode(last_runs))
    return last_runs


def table(runs: dict[str, LastRun]) -> Iterator[str]:
    """A line for each part that has been run, in their order."""
    for name in PARTS:
        if last := runs.get(name):
            yield f"{name:12} {last.seconds / 60:6.1f} min  {last.at} UTC{'' if last.passed else '  failed'}"


def main(names: list[str]) -> int:
    if unknown := [name for name in names if name not in PARTS]:
        print(f"no part is called {unknown[0]!r}; there are: {', '.join(PARTS)}", file=sys.stderr)
        return 2
    runs: dict[str, LastRun] = {}
    for name in names or PARTS:
        print(f"soak-{name}: {PARTS[name].proof}", flush=True)
        runs[name] = run(name)
        last_runs = store({name: runs[name]})
    print("the last run of each part:", *table(last_runs), sep="\n")
    return 0 if all(last.passed for last in runs.values()) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
