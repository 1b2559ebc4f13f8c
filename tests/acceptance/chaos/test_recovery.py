"""How long open runs stand still after a fault: the longest time without an event of a run, from the fault on.

The figures are printed by `make soak`. Nothing is asserted about them but that every run goes on: a busy machine is
slow. The goals are 5 s for a killed server, and one lease time for a killed or silent worker.
"""

from __future__ import annotations

import random
import time
import uuid
from collections.abc import Callable
from contextlib import ExitStack
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from statistics import quantiles
from typing import Any

import pytest
from tests.acceptance.chaos.site import Site, site
from tests.acceptance.modes import stage
from tests.acceptance.modes.playbooks import playbook
from tests.servers.nats import restarted_nats
from tests.servers.postgres import PostgresServer

pytestmark = pytest.mark.slow(part="recovery")

RUNS, REPETITIONS = 6, 3
STEPS_AFTER = 3
"""A run goes on again when its log has grown so many times since the fault."""
SECONDS = 300
LOOP = playbook(
    "recovery_loop",
    """\
    workflow:
      - step: each
        loop: {in: "{{ range(3000) | list }}", iterator: n, spec: {mode: sequential}}
        tool: [{work: {kind: shell, cmds: ["sleep 0.3"]}}]
    """,
)
CHILD = playbook(
    "recovery_child",
    """\
    workflow:
      - step: work
        tool: [{work: {kind: shell, cmds: ["sleep 0.3"]}}]
    """,
)
PARENT = playbook(
    "recovery_parent",
    """\
    workflow:
      - step: each
        loop: {in: "{{ range(3000) | list }}", iterator: n, spec: {mode: sequential}}
        tool: [{child: {kind: playbook, path: modes/recovery_child}}]
    """,
)

Fault = Callable[[Site], None]


def start(made: Site, *texts: str) -> list[str]:
    """Runs of these playbooks, each of which has begun to move."""
    made.client.register(CHILD)
    executions = [made.client.start({"playbook": texts[n % len(texts)]}) for n in range(RUNS)]
    for execution in executions:
        stage.until(lambda: len(moments(made, execution)) > STEPS_AFTER, SECONDS)  # noqa: B023
    return executions


def moments(made: Site, execution: str, after: float = 0.0) -> list[float]:
    """When the log of a run has grown, after a time."""
    seq = made.client.show(execution)["events"]
    page = made.client.ask("GET", f"/executions/{execution}/events?limit=1000&after={max(0, seq - 1000)}")
    result = {datetime.fromisoformat(event["timestamp"]).timestamp() for event in page["items"]}
    return sorted(at for at in result if at > after)


def standstill(made: Site, execution: str, fault: float) -> float:
    """How long a run did not move after the fault."""
    stage.until(lambda: len(moments(made, execution, fault)) > STEPS_AFTER, SECONDS)
    return max(later - before for before, later in pairwise([fault, *moments(made, execution, fault)]))


def cancel(made: Site, executions: list[str]) -> None:
    for execution in executions:
        made.client.ask("POST", f"/executions/{execution}/cancel", {})
        assert made.client.ended(execution, SECONDS)["status"] == "cancelled"


def measure(made: Site, executions: list[str], strike: Fault) -> list[float]:
    fault = time.time()
    strike(made)
    return [standstill(made, execution, fault) for execution in executions]


@pytest.fixture
def record(record_property: Callable[[str, object], None]) -> Callable[[str, list[float]], None]:
    def add(name: str, seconds: list[float]) -> None:
        p50, p99 = (quantiles(seconds, n=100, method="inclusive")[at] for at in (49, 98))
        line = f"from {name} to the next event: p50 {p50:.1f} s, p99 {p99:.1f} s ({len(seconds)} runs)"
        print(line)
        record_property("measured", line)

    return add


@pytest.fixture
def db(postgres: PostgresServer) -> str:
    return stage.database(postgres, f"recovery_{uuid.uuid4().hex}")


def opened(tmp_path: Path, db: str, **more: Any) -> Any:
    return site(tmp_path, db, random.Random(1), **{"servers": 2, "workers": 2, "slots": RUNS, "short": False} | more)


def test_a_killed_server(tmp_path: Path, db: str, record: Callable[[str, list[float]], None]) -> None:
    """Whatever stands before the servers sends everybody to the one that is left."""
    result: list[float] = []
    with opened(tmp_path, db) as made:
        targets = [proxy.there for proxy in made.proxies]
        executions = start(made, LOOP, PARENT)
        for turn in range(REPETITIONS):
            dead = turn % 2

            def kill(made: Site, dead: int = dead) -> None:
                made.servers[dead].kill()
                made.client.urls = [f"http://{host}:{port}" for host, port in (targets[1 - dead],)]
                for proxy in made.proxies:
                    proxy.there = targets[1 - dead]

            result += measure(made, executions, kill)
            made.servers[dead].start()
            stage.until(made.servers[dead].is_up)
        cancel(made, executions)
    record("a killed server", result)


def test_a_killed_worker(tmp_path: Path, db: str, record: Callable[[str, list[float]], None]) -> None:
    result: list[float] = []
    with opened(tmp_path, db) as made:
        for _ in range(REPETITIONS):
            made.workers[1].kill()
            executions = start(made, LOOP)  # all of them at the one that is left
            made.workers[1].start()
            result += measure(made, executions, lambda made: made.workers[0].kill())
            cancel(made, executions)
            made.workers[0].start()
    record("a killed worker", result)


def test_a_silent_connection_of_a_worker(tmp_path: Path, db: str, record: Callable[[str, list[float]], None]) -> None:
    result: list[float] = []
    with opened(tmp_path, db) as made:
        executions = start(made, LOOP, PARENT)
        for _ in range(REPETITIONS):
            result += measure(made, executions, lambda made: [proxy.silence() for proxy in made.proxies] and None)
        cancel(made, executions)
    record("a silent connection of a worker", result)


def test_nats_away(tmp_path: Path, db: str, record: Callable[[str, list[float]], None]) -> None:
    result: list[float] = []
    with restarted_nats(tmp_path) as nats, opened(tmp_path, db, more=("--nats", nats.url)) as made:
        executions = start(made, LOOP, PARENT)
        for _ in range(REPETITIONS):
            result += measure(made, executions, lambda made: nats.stop())
            nats.start()
        cancel(made, executions)
    record("NATS going away", result)


def test_postgres_restarted(tmp_path: Path, record: Callable[[str, list[float]], None]) -> None:
    result: list[float] = []
    with ExitStack() as stack:
        own = PostgresServer()
        stack.callback(own.close)
        made = stack.enter_context(opened(tmp_path, stage.database(own, "recovery")))
        executions = start(made, LOOP, PARENT)

        def restart(made: Site) -> None:
            own.stop()
            own.start()

        for _ in range(REPETITIONS):
            result += measure(made, executions, restart)
        cancel(made, executions)
    record("a restart of Postgres", result)
