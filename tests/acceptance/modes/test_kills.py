"""kill -9 of whatever takes part, at random moments of running loops: every run ends, complete and sound."""

from __future__ import annotations

import random
import signal
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.acceptance.modes import stage
from tests.acceptance.modes.playbooks import playbook
from tests.servers.postgres import PostgresServer

SOAK = pytest.mark.slow(part="kills")
KILLS, FEW_KILLS = 20, 5
UP = ("noetl server at", "takes work of pool")
ITEMS = 200
SECONDS = 600
"""How long a run may take on a machine that has much else to do."""
LOOP = playbook(
    "kills",
    """\
    workload: {items: 0}
    workflow:
      - step: each
        loop: {in: "{{ range(workload.items) | list }}", iterator: n, spec: {mode: parallel, max_in_flight: 8}}
        tool:
          - work:
              kind: python
              args: {n: "{{ iter.n }}"}
              code: |
                import time
                time.sleep(0.1)
                result = n * 3
          - keep:
              kind: noop
              result: "{{ _prev }}"
              spec:
                policy:
                  rules:
                    - else: {then: {do: continue, set_ctx: {total: {$add: 1}}}}
        next: {arcs: [{step: end}]}
      - step: end
        tool: [{say: {kind: noop, result: "{{ steps.each.result | sum }}"}}]
    """,
)


def request(items: int) -> dict[str, Any]:
    return {"playbook": LOOP, "payload": {"items": items}}


def database(request: pytest.FixtureRequest, kind: str) -> str:
    if kind == "sqlite":
        return str(request.getfixturevalue("tmp_path") / "data" / "noetl.db")
    return stage.database(request.getfixturevalue("postgres"), f"kills_{uuid.uuid4().hex}")


def few_here_and_many_in_soak(kind: str) -> pytest.MarkDecorator:
    """A few kills on one kind of database; `make soak-kills` has many on both."""
    return pytest.mark.parametrize(
        ("kind", "kills"),
        [
            pytest.param(kind, FEW_KILLS, id=f"{kind}, few"),
            pytest.param("sqlite", KILLS, id="sqlite", marks=SOAK),
            pytest.param("postgres", KILLS, id="postgres", marks=SOAK),
        ],
    )


@pytest.fixture
def own_postgres() -> Iterator[PostgresServer]:
    """A server that others do not need."""
    server = PostgresServer()
    yield server
    server.close()


def check(mode: stage.Served, execution: str, items: int = ITEMS) -> None:
    """Every item was done, and counted once."""
    found = mode.client.ended(execution, SECONDS)
    assert (found["status"], found["result"]) == ("succeeded", sum(n * 3 for n in range(items))), found["error"]
    assert found["ctx"] == {"total": items}


def amid_loops(mode: stage.Served, kills: int, kill: Callable[[random.Random], None]) -> None:
    """Kill again and again, at random moments while a loop is running; then all of them end as they should."""
    dice = random.Random(7)
    executions = [mode.client.start(request(ITEMS))]
    for _ in range(kills):
        if mode.client.show(executions[-1])["status"] in stage.OVER:
            executions.append(mode.client.start(request(ITEMS)))
        time.sleep(dice.uniform(0, 1.0))
        kill(dice)
    for execution in executions:
        check(mode, execution)
    for one in (*mode.servers, *mode.workers):  # who is told to end before it has begun can't do so in good order
        stage.until(lambda: any(word in one.said()[one.began :] for word in UP))  # noqa: B023


def again(one: stage.Process) -> None:
    one.kill()
    one.start()


def servers_of(db: str) -> int:
    """As many as the store can have, or two."""
    return 2 if db.startswith("postgresql") else 1


@few_here_and_many_in_soak("postgres")
def test_servers_that_are_killed_lose_nothing(
    tmp_path: Path, request: pytest.FixtureRequest, kind: str, kills: int
) -> None:
    db = database(request, kind)
    with stage.served(tmp_path, db, servers_of(db)) as mode:
        amid_loops(mode, kills, lambda dice: again(dice.choice(mode.servers)))
    mode.verify()


@few_here_and_many_in_soak("sqlite")
def test_work_of_killed_workers_is_done_by_others(
    tmp_path: Path, request: pytest.FixtureRequest, kind: str, kills: int
) -> None:
    db = database(request, kind)
    with stage.served(tmp_path, db, servers_of(db), workers=3) as mode:
        amid_loops(mode, kills, lambda dice: again(dice.choice(mode.workers)))
    mode.verify()


@SOAK
def test_a_database_that_is_killed_loses_nothing(tmp_path: Path, own_postgres: PostgresServer) -> None:
    def kill(dice: random.Random) -> None:
        own_postgres.kill()
        own_postgres.start()

    with stage.served(tmp_path, stage.database(own_postgres, "kills"), servers=2, workers=3) as mode:
        amid_loops(mode, KILLS, kill)
    mode.verify()


@SOAK
def test_a_database_that_is_restarted_is_waited_for(tmp_path: Path, own_postgres: PostgresServer) -> None:
    with stage.served(tmp_path, stage.database(own_postgres, "kills"), servers=2, workers=2) as mode:
        execution = mode.client.start(request(ITEMS))
        own_postgres.stop()
        time.sleep(2)
        own_postgres.start()
        check(mode, execution)
    mode.verify()


@SOAK
def test_a_worker_that_stands_still_past_its_lease_does_no_harm(tmp_path: Path) -> None:
    """It wakes up with leases that others have; what it says under them does not count."""
    with stage.served(tmp_path, str(tmp_path / "data" / "noetl.db"), workers=2) as mode:
        execution = mode.client.start(request(ITEMS))
        stage.until(lambda: _is_worked_on(mode, execution, "worker0"))
        sleeper = mode.workers[0].process
        assert sleeper is not None
        sleeper.send_signal(signal.SIGSTOP)
        check(mode, execution)
        sleeper.send_signal(signal.SIGCONT)
        check(mode, mode.client.start(request(20)), 20)
        names = [one["event_type"] for one in mode.client.events(execution)]
        assert "step.regranted" in names
    mode.verify()


def _is_worked_on(mode: stage.Served, execution: str, worker: str) -> bool:
    """Whether the worker has a part of the loop, as far as it has said so itself or the log tells."""
    granted = [one for one in mode.client.events(execution) if one["event_type"] == "step.started"]
    return any(str(one["payload"].get("worker", "")).startswith(worker) for one in granted)


def test_a_worker_that_is_told_to_end_hands_back_what_it_can_not_finish(tmp_path: Path) -> None:
    """It does not wait for the end of the loop. Others go on with it, and nothing counts as lost."""
    with stage.served(tmp_path, str(tmp_path / "data" / "noetl.db"), workers=2) as mode:
        execution = mode.client.start(request(2_000))
        stage.until(lambda: _is_worked_on(mode, execution, "worker0"))
        assert mode.workers[0].stop() == 0
        assert mode.client.show(execution)["status"] == "running"
        done = mode.client.show(execution)["progress"]["each#1"]["ok"]
        stage.until(lambda: mode.client.show(execution)["progress"]["each#1"]["ok"] > done + 5)
        mode.client.ask("POST", f"/executions/{execution}/cancel", {})
        assert mode.client.ended(execution)["status"] == "cancelled"
        names = [one["event_type"] for one in mode.client.events(execution)]
        assert "step.regranted" not in names
    mode.verify()
