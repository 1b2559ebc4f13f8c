"""Live frames: 200 clients follow 20 busy runs; a quarter of the clients do not read, or go away.

The clients are a process of their own. A frame is late by the time between its first new event and its arrival. W3 is
measured without the clients and beside them, in turn. `python -m bench.live` runs it alone.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median

from tests.acceptance.modes import stage

from bench.measure import Figure, print_figures, resident_megabytes
from bench.server import RUNS, SHORT, _posted

CLIENTS, BUSY_RUNS, SLOW, GONE = 200, 20, 25, 25
CLIENTS_PER_TOKEN = 40
ROUNDS = 4
SECONDS = 9.0  # of the clients in a round
SIGNALS_PER_SECOND = 40
SEQ, ROW = re.compile(rb'"seq":(\d+)'), re.compile(rb"\[(\d+),(\d{13}),")
CYCLE = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: cycle, path: bench/cycle}
workflow:
  - {step: start, tool: [{ask: {kind: wait, signal: next}}], next: {arcs: [{step: start}]}}
"""


def figures() -> Iterator[Figure]:
    with tempfile.TemporaryDirectory(dir=os.environ.get("NOETL_BENCH_DIR")) as text, stage.dev(Path(text)) as mode:
        mode.register(SHORT)
        mode.register(CYCLE)
        runs = [mode.client.start({"path": "bench/cycle"}) for _ in range(BUSY_RUNS)]
        alone: list[float] = []
        beside: list[float] = []
        delays: list[float] = []
        megabytes: list[tuple[int, int]] = []
        with _SignalLoad(mode, runs):
            tokens = [
                mode.client.ask("POST", "/tokens", {"role": "viewer", "name": f"live{number}"})["token"]
                for number in range(CLIENTS // CLIENTS_PER_TOKEN)
            ]
            command = [sys.executable, "-m", "bench.live", mode.client.urls[0], json.dumps(tokens), json.dumps(runs)]
            for _ in range(ROUNDS):
                alone += _rates(mode)
                with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as clients:
                    time.sleep(SECONDS / 4)
                    before = _megabytes(mode)
                    time.sleep(SECONDS / 3)
                    megabytes.append((before, _megabytes(mode)))
                    beside += _rates(mode)
                    assert clients.stdout is not None
                    delays += json.loads(clients.stdout.read())
        for run in runs:
            mode.client.ask("POST", f"/executions/{run}/cancel", {})
    late = sorted(delays)[int(len(delays) * 0.99)]
    before, after = max(megabytes, key=lambda pair: pair[1] - pair[0])
    yield Figure(f"{CLIENTS} clients on frames of {BUSY_RUNS} busy runs: frames received", f"{len(delays):,}")
    yield Figure("  99 of 100 frames arrive within", f"{late * 1000:,.0f} ms", "under 300 ms", late < 0.3)
    yield Figure("  memory of the server, with clients", f"{before} to {after} MB", "flat", after < before * 1.1 + 5)
    share = median(beside) / median(alone)
    yield Figure(f"  W3 {RUNS} short runs beside them, of those without", f"{share:.0%}", "at least 80%", share >= 0.8)


class _SignalLoad:
    """Signals to all runs in turn, each of which makes about ten events."""

    def __init__(self, mode: stage.Served, runs: list[str]) -> None:
        self.mode, self.runs, self.done = mode, runs, threading.Event()
        self.thread = threading.Thread(target=self._send)

    def __enter__(self) -> None:
        self.thread.start()

    def __exit__(self, *error: object) -> None:
        self.done.set()
        self.thread.join()

    def _send(self) -> None:
        client = stage.Client(self.mode.client.urls, self.mode.client.token)
        with client.http:
            number = 0
            while not self.done.wait(1 / SIGNALS_PER_SECOND):
                run = self.runs[number % len(self.runs)]
                client.ask("POST", f"/executions/{run}/signals", {"name": "next", "id": str(number)})
                number += 1


def _rates(mode: stage.Served) -> list[float]:
    return [RUNS / _posted(mode).seconds for _ in range(5)]


def _megabytes(mode: stage.Served) -> int:
    process = mode.servers[0].process
    assert process is not None
    return resident_megabytes(process.pid)


# -- the process of the clients ----------------------------------------------------------------------------------------


async def _follow(url: str, token: str, run: str, kind: str, delays: list[float]) -> None:
    host, _, port = url.removeprefix("http://").partition(":")
    reader, writer = await asyncio.open_connection(host, int(port), limit=1 << 20)
    head = f"GET /api/v1/executions/{run}/live HTTP/1.1\r\nHost: {host}:{port}\r\nAuthorization: Bearer {token}\r\n\r\n"
    writer.write(head.encode())
    if kind == "slow":
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        await asyncio.sleep(SECONDS)
    give_up, seq = time.monotonic() + (SECONDS / 4 if kind == "gone" else SECONDS), 0
    while kind != "slow" and time.monotonic() < give_up:
        line = await asyncio.wait_for(reader.readline(), SECONDS)
        if line.startswith(b"data: {"):
            arrived, last = time.time(), seq
            seq = int(SEQ.search(line)[1])  # type: ignore[index]
            # Read without a parser: 200 clients would need more of the machine than the server that is measured.
            fresh = [int(ms) for number, ms in ROW.findall(line) if int(number) > last]
            if last and fresh:
                delays.append(arrived - fresh[0] / 1000)
    writer.close()


async def _follow_all(url: str, tokens: list[str], runs: list[str]) -> list[float]:
    kinds = ["slow"] * SLOW + ["gone"] * GONE + ["reads"] * (CLIENTS - SLOW - GONE)
    delays: list[float] = []
    clients = (
        _follow(url, tokens[place % len(tokens)], runs[place % len(runs)], kind, delays)
        for place, kind in enumerate(kinds)
    )
    await asyncio.gather(*clients)
    return delays


if __name__ == "__main__":
    if len(sys.argv) > 1:
        url, tokens, runs = sys.argv[1], json.loads(sys.argv[2]), json.loads(sys.argv[3])
        print(json.dumps(asyncio.run(_follow_all(url, tokens, runs))))
    else:
        print_figures(figures())
