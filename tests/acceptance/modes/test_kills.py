"""kill -9 of whatever takes part, at random moments of a running loop: every run ends, complete and sound."""

from __future__ import annotations

import random
import signal
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.acceptance.modes import stage
from tests.acceptance.modes.playbooks import playbook
from tests.servers.postgres import PostgresServer

ITEMS = 150
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
REQUEST = {"playbook": LOOP, "payload": {"items": ITEMS}}
RESULT = sum(n * 3 for n in range(ITEMS))
BUSY_SECONDS = 3.0
"""About how long the loop takes when nothing happens."""
STORES = ("sqlite", "postgres")


@pytest.fixture(params=STORES)
def db(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return str(tmp_path / "data" / "noetl.db")
    return stage.database(request.getfixturevalue("postgres"), f"kills_{uuid.uuid4().hex}")


@pytest.fixture
def own_postgres() -> Iterator[PostgresServer]:
    """A server that others do not need."""
    server = PostgresServer()
    yield server
    server.close()


def check(mode: stage.Served, execution: str) -> None:
    found = mode.client.ended(execution, 180)
    assert (found["status"], found["result"]) == ("succeeded", RESULT), found["error"]
    assert found["ctx"] == {"total": ITEMS}


def kills(few: int) -> pytest.MarkDecorator:
    """A few, and as a long proof twenty."""
    return pytest.mark.parametrize("times", [few, pytest.param(20, marks=pytest.mark.slow)])


@kills(3)
def test_a_server_that_is_killed_loses_nothing(tmp_path: Path, db: str, times: int) -> None:
    dice = random.Random(times)
    with stage.served(tmp_path, db) as mode:
        for _ in range(times):
            execution = mode.client.start(REQUEST)
            time.sleep(dice.uniform(0, BUSY_SECONDS))
            mode.servers[0].kill()
            mode.servers[0].start()
            check(mode, execution)
    mode.verify()


@kills(1)
def test_work_of_a_killed_worker_is_done_by_others(tmp_path: Path, db: str, times: int) -> None:
    dice = random.Random(times)
    with stage.served(tmp_path, db, workers=3) as mode:
        for _ in range(times):
            execution = mode.client.start(REQUEST)
            time.sleep(dice.uniform(0.2, BUSY_SECONDS))
            for one in dice.sample(mode.workers, 2):
                one.kill()
                one.start()
            check(mode, execution)
    mode.verify()


@kills(3)
def test_a_database_that_is_killed_loses_nothing(tmp_path: Path, own_postgres: PostgresServer, times: int) -> None:
    dice = random.Random(times)
    with stage.served(tmp_path, stage.database(own_postgres, "kills"), servers=2, workers=3) as mode:
        for _ in range(times):
            execution = mode.client.start(REQUEST)
            time.sleep(dice.uniform(0, BUSY_SECONDS))
            assert own_postgres.process is not None
            own_postgres.process.send_signal(signal.SIGQUIT)
            own_postgres.process.wait(30)
            own_postgres.stop()
            own_postgres.start()
            check(mode, execution)
    mode.verify()


@pytest.mark.slow
def test_a_worker_that_stands_still_past_its_lease_does_no_harm(tmp_path: Path, db: str) -> None:
    """It wakes up with leases that others have; what it says under them does not count."""
    with stage.served(tmp_path, db, workers=2) as mode:
        execution = mode.client.start(REQUEST)
        time.sleep(1.0)
        sleeper = mode.workers[0].process
        assert sleeper is not None
        sleeper.send_signal(signal.SIGSTOP)
        check(mode, execution)
        sleeper.send_signal(signal.SIGCONT)
        check(mode, mode.client.start(REQUEST))
    mode.verify()


def test_a_worker_that_is_told_to_end_hands_back_what_it_can_not_finish(tmp_path: Path) -> None:
    """Others go on with it at once, and nothing counts as lost."""
    with stage.served(tmp_path, str(tmp_path / "data" / "noetl.db"), workers=2) as mode:
        execution = mode.client.start(REQUEST)
        time.sleep(0.7)
        began = time.monotonic()
        assert mode.workers[0].stop() == 0
        assert time.monotonic() - began < 25, "it has waited for the end of the loop"
        check(mode, execution)
        names = [
            one["event_type"] for one in mode.client.ask("GET", f"/executions/{execution}/events?limit=1000")["items"]
        ]
        assert "step.regranted" not in names
    mode.verify()
