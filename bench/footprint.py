"""What noetl takes of a machine: memory of processes that wait, and bytes on disk. The page on sizing has these."""

from __future__ import annotations

import json
import os
import re
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2

from bench.engine import HEAD, NOOP, chain, loop
from bench.language import NOETL
from bench.measure import Figure
from noetl.store.sqlite.backup import copy_database

STEPS, ITEMS, RUNS = 10, 2_000, 100
SETTLE_SECONDS = 5.0
START_SECONDS = 120.0


def figures() -> Iterator[Figure]:
    """A server and a worker that wait, then what executions leave behind in the database."""
    with tempfile.TemporaryDirectory() as folder, served(Path(folder)) as (client, server, worker):
        time.sleep(SETTLE_SECONDS)
        yield Figure("server that waits, memory", f"{megabytes(server):.0f} MB")
        yield Figure("worker that waits, memory", f"{megabytes(worker):.0f} MB")
        for text in (chain(STEPS), loop(10, NOOP)):
            run(client, text)  # what is kept once is not counted
        empty = size(Path(folder))
        for _ in range(RUNS):
            run(client, chain(STEPS))
        steps = size(Path(folder))
        yield Figure("a step on disk", f"{(steps - empty) / RUNS / STEPS:,.0f} bytes")
        run(client, loop(ITEMS, NOOP))
        yield Figure("an item of a loop on disk", f"{(size(Path(folder)) - steps) / ITEMS:,.0f} bytes")
        yield Figure("server that has worked, memory", f"{megabytes(server):.0f} MB")


@contextmanager
def served(folder: Path) -> Iterator[tuple[httpx2.Client, int, int]]:
    """A server with a worker: a client, and their process ids."""
    db = str(folder / "noetl.db")
    tokens = [_token(db, role) for role in ("admin", "worker")]
    quiet = ["--log-level", "warning"]
    server = subprocess.Popen(
        [NOETL, "server", "--port", "0", "--db", db, "--log-format", "json"], stderr=subprocess.PIPE
    )
    assert server.stderr is not None
    url = re.findall(rb"http://[\d.:]+\d", server.stderr.readline())[0].decode()
    drain = subprocess.Popen(["cat"], stdin=server.stderr, stdout=subprocess.DEVNULL)
    environment = {**os.environ, "NOETL_TOKEN": tokens[1]}
    worker = subprocess.Popen([NOETL, "worker", "--server", url, *quiet], env=environment)
    try:
        headers = {"Authorization": f"Bearer {tokens[0]}"}
        with httpx2.Client(base_url=url, headers=headers, timeout=START_SECONDS, trust_env=False) as client:
            run(client, f"{HEAD}  - {{step: a, tool: [{{t: {NOOP}}}]}}\n")
            yield client, server.pid, worker.pid
    finally:
        for process in (worker, server):
            process.terminate()
            process.wait()
        drain.wait()


def _token(db: str, role: str) -> str:
    done = subprocess.run(
        [NOETL, "token", "create", "--role", role, "--db", db, "-o", "json"], check=True, capture_output=True
    )
    return str(json.loads(done.stdout)["token"])


def run(client: httpx2.Client, text: str) -> None:
    """A playbook to its end."""
    answer = client.post("/api/v1/executions", json={"playbook": text}, headers={"Prefer": "wait=60"})
    assert answer.status_code == 200, answer.text


def size(folder: Path) -> int:
    """The size of the database with everything that is in its write-ahead log."""
    copy = folder / "copy.db"
    copy.unlink(missing_ok=True)
    return copy_database(folder / "noetl.db", copy)


def megabytes(process: int) -> float:
    """Memory of a process that is in RAM."""
    match = re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{process}/status").read_text("ascii"))
    assert match is not None
    return int(match[1]) / 1024


if __name__ == "__main__":
    from bench.measure import print_figures

    print_figures(figures())
