"""The embedded engine: W1 a chain, W2 a loop, W4 cold start, beside what the disk and Python themselves can do."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import apsw

from bench.language import NOETL
from bench.measure import Figure, best_command, best_seconds
from noetl.clock import SystemClock
from noetl.dsl.compile import load
from noetl.engine.state import Execution
from noetl.host.embedded import Embedded
from noetl.model.identity import uuid7
from noetl.runtime.loaded_playbooks import LoadedPlaybooks
from noetl.store.sqlite import SqliteStore
from noetl.tools.registry import KINDS

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: bench, path: bench/engine}\nworkflow:\n"
CHAIN = 200
TRIES = 3


def chain(steps: int = CHAIN) -> str:
    """W1: steps that do nothing, one after the other."""
    body = "".join(
        f"  - step: s{i}\n    tool: [{{t: {{kind: noop}}}}]\n    next: {{arcs: [{{step: s{i + 1}}}]}}\n"
        for i in range(steps - 1)
    )
    return f"{HEAD}{body}  - {{step: s{steps - 1}, tool: [{{t: {{kind: noop}}}}]}}\n"


def loop(items: int, task: str) -> str:
    """W2: items through a parallel loop with ten in flight."""
    return (
        f'{HEAD}  - step: start\n    loop: {{in: "{{{{ range({items}) }}}}", iterator: n, '
        f"spec: {{mode: parallel, max_in_flight: 10}}}}\n    tool: [{{t: {task}}}]\n"
    )


NOOP = "{kind: noop}"
PYTHON = '{kind: python, args: {n: "{{ iter.n }}"}, code: "result = n + 1"}'


class Ran(NamedTuple):
    """What a run took."""

    seconds: float
    cpu: float
    bytes: int
    marks: list[float]
    """When each tenth of a loop's items was done."""


def run(text: str, tenths_of: int = 0) -> Ran:
    """Run a playbook on a fresh database with synchronous=FULL."""
    with tempfile.TemporaryDirectory(dir=os.environ.get("NOETL_BENCH_DIR")) as folder:
        path = Path(folder) / "bench.db"
        return asyncio.run(_run(path, text, tenths_of))


async def _run(path: Path, text: str, tenths_of: int) -> Ran:
    store = SqliteStore(path)
    engine = Embedded(LoadedPlaybooks(store), KINDS, SystemClock(), no_children)
    digest = engine.runtime.playbooks.add(load("bench.yaml", text, KINDS).require())
    execution = uuid7(time.time(), os.urandom(8))
    marks: list[float] = []
    start, cpu = time.perf_counter(), time.process_time()
    await engine.start(execution, digest, {}, {})
    watching = asyncio.create_task(_watch(engine, execution, tenths_of, marks)) if tenths_of else None
    state = await engine.drive(execution)
    took, burnt = time.perf_counter() - start, time.process_time() - cpu
    assert state.status == "succeeded", state.error
    if watching is not None:
        await watching
    await engine.close()
    size = sum(file.stat().st_size for file in path.parent.iterdir() if file.is_file())
    return Ran(took, burnt, size, [mark - start for mark in marks])


async def _watch(engine: Embedded, execution: str, total: int, marks: list[float]) -> None:
    """Note the time whenever another tenth of the items is done."""
    state = engine.runtime.executions[execution].state
    while not state.over:
        await engine.runtime.committer.committed.wait()
        state = engine.runtime.executions[execution].state
        done = next((run.loop.finished for run in state.runs.values() if run.loop), total if state.over else 0)
        while len(marks) < 10 and done >= (len(marks) + 1) * total // 10:
            marks.append(time.perf_counter())


async def no_children(parent: Execution, request: dict[str, object]) -> str:
    raise AssertionError("there are no children in a benchmark")


def commit_rates() -> tuple[float, float]:
    """Single-row commits a second, and rows a second in batches of 100, of bare SQLite on the same disk."""
    with tempfile.TemporaryDirectory(dir=os.environ.get("NOETL_BENCH_DIR")) as folder:
        database = apsw.Connection(str(Path(folder) / "raw.db"))
        list(database.execute("PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL"))
        database.execute("CREATE TABLE t (a INTEGER PRIMARY KEY, b)")
        keys = iter(range(1 << 40))
        row = b"x" * 150

        def commit(rows: int) -> None:
            database.execute("BEGIN IMMEDIATE")
            database.executemany("INSERT INTO t VALUES (?, ?)", ((next(keys), row) for _ in range(rows)))
            database.execute("COMMIT")

        single = 300 / best_seconds(lambda: [commit(1) for _ in range(300)], TRIES)
        batched = 100 * 100 / best_seconds(lambda: [commit(100) for _ in range(100)], TRIES)
        database.close()
    return single, batched


def figures() -> Iterator[Figure]:
    bare = best_command(sys.executable, "-c", "pass")
    single, batched = commit_rates()
    yield Figure("disk: single-row commits (synchronous=FULL)", f"{single:,.0f} /s")
    yield Figure("disk: rows in batches of 100", f"{batched:,.0f} rows/s")
    yield from _chain_figures(single)
    yield from _loop_figures(batched)
    yield from _long_loop_figures()
    yield from _large_result_figures()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "hello.yaml"
        file.write_text(f"{HEAD}  - {{step: start, tool: [{{t: {{kind: noop, result: hello}}}}]}}\n")
        start = best_command(NOETL, "run", str(file), "--db", str(Path(folder) / "x.db"), tries=10)
    yield Figure("W4 cold start of noetl run", f"{start * 1000:.0f} ms")
    yield Figure("  times bare Python start", f"{start / bare:.1f}", "at most 25", start / bare <= 25)


BIG = """\
  - step: start
    tool: [{make: {kind: python, code: "result = [{'id': i, 'name': 'x' * 40} for i in range(800_000)]"}}]
    next: {arcs: [{step: use, args: {rows: "{{ steps.start.result }}"}}]}
  - {step: use, tool: [{count: {kind: python, args: {all: "{{ args.rows }}"}, code: "result = len(all)"}}]}
"""
"""A tool returns 50 MB, and another one reads it."""


def _large_result_figures() -> Iterator[Figure]:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "big.yaml"
        file.write_text(HEAD + BIG)
        command = [NOETL, "run", str(file), "--db", str(Path(folder) / "x.db"), "-o", "json"]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as engine:
            peak = 0
            while engine.poll() is None:
                peak = max(peak, _peak_megabytes(engine.pid))
                time.sleep(0.01)
            assert engine.stdout is not None
            assert json.loads(engine.stdout.read())["result"] == 800_000
    yield Figure("a tool returns 50 MB: peak memory of the engine", f"{peak:,} MB", "under 400 MB", 0 < peak < 400)


def _peak_megabytes(pid: int) -> int:
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    result = [line.split()[1] for line in status.splitlines() if line.startswith("VmHWM")]
    return int(result[0]) // 1024 if result else 0


def _best(text: str) -> Ran:
    return min((run(text) for _ in range(TRIES)), key=lambda ran: ran.seconds)


def _chain_figures(single: float) -> Iterator[Figure]:
    best = _best(chain())
    rate, bar = CHAIN / best.seconds, min(1_500.0, 0.3 * single)
    yield Figure(f"W1 chain of {CHAIN} noop steps", f"{rate:,.0f} steps/s", f"at least {bar:,.0f}", rate >= bar)
    yield Figure("  CPU a step", f"{best.cpu / CHAIN * 1e6:,.0f} us")
    big, small = run(chain(1_000)).bytes, run(chain(1)).bytes
    each = (big - small) / 999
    yield Figure("  database a step", f"{each:,.0f} bytes", "at most 2,048", each <= 2048)


def _loop_figures(batched: float) -> Iterator[Figure]:
    items = 10_000
    best = _best(loop(items, NOOP))
    rate, bar = items / best.seconds, min(6_000.0, 0.25 * batched)
    yield Figure(f"W2 {items:,} noop items, 10 in flight", f"{rate:,.0f} items/s", f"at least {bar:,.0f}", rate >= bar)
    yield Figure("  CPU an item", f"{best.cpu / items * 1e6:,.0f} us")
    each = (best.bytes - run(loop(1, NOOP)).bytes) / items
    yield Figure("  database an item", f"{each:,.0f} bytes", "at most 1,024", each <= 1024)
    best = _best(loop(items, PYTHON))
    rate = items / best.seconds
    yield Figure(f"W2 {items:,} python items, 10 in flight", f"{rate:,.0f} items/s", "at least 2,500", rate >= 2500)


def _long_loop_figures() -> Iterator[Figure]:
    """100,000 items in a process of its own, whose memory tells the truth."""
    code = (
        "import resource; from bench.engine import run, loop, NOOP; ran = run(loop(100_000, NOOP), 100_000);"
        "print(*ran.marks, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    *marks, memory = map(float, done.stdout.split())
    ratio = (marks[9] - marks[8]) / marks[0]
    yield Figure("100,000 noop items: last tenth times the first", f"{ratio:.2f}", "at most 1.3", ratio <= 1.3)
    yield Figure("  peak memory", f"{memory:,.0f} MB", "under 300 MB", memory < 300)
