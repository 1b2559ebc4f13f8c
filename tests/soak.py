"""The long proofs, in parts that can be run one by one.

    python -m tests.soak              every part, one after the other
    python -m tests.soak crash docs   these parts

A test belongs to a part by its marker, `@pytest.mark.slow(part="crash")`. A part takes less than 30 minutes on two
cores.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest

PARTS = {
    "crash": "a run that is killed at any point is resumed to the same end",
    "crash-twice": "a resumed run that is killed at any point is resumed again",
    "mutants": "a rule of the engine that is broken on purpose fails its test",
    "loops": "every item of twenty thousand random loops counts once, whatever crashes and is lost",
    "sim": "a million seeds of the simulated system have no problems, in slices that continue each other",
    "playbooks": "random and damaged playbooks compile or have problems, and nothing else",
    "damage": "every damage at every position of random logs is found",
    "modes": "every case in every way to serve: one process, dev, SQLite, Postgres, NATS, two servers",
    "chaos": "nothing is lost, repeated or stuck, whatever is killed, stopped, cut and filled; in slices that add up",
    "approvals": "a waiting run outlives every process, a hundred times",
    "recovery": "how long open runs stand still after a fault",
    "secrets": "no secret leaves a run of any tool kind; no value becomes code",
    "fuzz": "hostile bytes, texts and requests for every entrance: judged or refused, within their bounds",
    "docs": "every command of every page prints what the page shows",
    "page": "a wheel made from nothing but a clone and the network serves the web page",
}


def check_parts(items: list[pytest.Item]) -> None:
    """Refuse a slow test that no part would run."""
    homeless = [
        item.nodeid
        for item in items
        if (slow := item.get_closest_marker("slow")) and slow.kwargs.get("part") not in PARTS
    ]
    if homeless:
        raise pytest.UsageError("slow tests that belong to no part of tests/soak.py:\n" + "\n".join(homeless))


def main(parts: list[str]) -> int:
    if unknown := [part for part in parts if part not in PARTS]:
        print(f"no part is called {unknown[0]!r}; there are: {', '.join(PARTS)}", file=sys.stderr)
        return 2
    took: dict[str, float] = {}
    failed = []
    for part in parts or PARTS:
        print(f"soak-{part}: {PARTS[part]}", flush=True)
        began = time.monotonic()
        processors = len(os.sched_getaffinity(0))  # no more workers than these: some parts measure time
        options = [
            "-n",
            f"{processors}",
            "--dist",
            "worksteal",
            "-m",
            f"slow(part={part!r})",
            "-p",
            "tests.soak_summary",
        ]
        if subprocess.run([sys.executable, "-m", "pytest", *options], check=False).returncode:
            failed.append(part)
        took[part] = time.monotonic() - began
    for part, seconds in [*took.items(), ("total", sum(took.values()))]:
        print(f"{part:12} {seconds / 60:6.1f} min{'  failed' if part in failed else ''}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
