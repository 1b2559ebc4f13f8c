"""A restarted, stopped or continued worker and a stalled server repeat no call whose outcome was accepted.

Every tool call leaves a line in a ledger outside of noetl. `test_chaos.py` has all faults at once; here is one at a
time, at the moment where it hurts most.
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections import Counter
from pathlib import Path

import pytest
from tests.acceptance.chaos.ledger import Effect, ledger, process_at
from tests.acceptance.chaos.playbooks import call
from tests.acceptance.chaos.site import site
from tests.acceptance.modes import stage
from tests.acceptance.modes.playbooks import playbook
from tests.servers.short_leases import LEASE_SECONDS

SOAK = pytest.mark.slow(part="chaos")
SECONDS = 900
INNER = call("rest#1/items#1[{{ iter.index }}]/one#1").replace("\n", "\n      ")
WORK = playbook(
    "repeats",
    f"""\
    workload: {{ledger: "", seconds: 0.1}}
    workflow:
      - step: chain
        tool:
          - one:
              {call("chain#1/one#1")}
          - two:
              {call("chain#1/two#1", "1")}
          - three:
              {call("chain#1/three#1")}
        next: {{arcs: [{{step: each}}]}}
      - step: each
        loop: {{in: [0, 1, 2, 3, 4, 5], iterator: n, spec: {{mode: parallel, max_in_flight: 3}}}}
        tool:
          - one:
              {call("each#1[{{ iter.index }}]/one#1")}
          - two:
              {call("each#1[{{ iter.index }}]/two#1", '"{{ iter.index % 2 }}"')}
        next: {{arcs: [{{step: rest}}]}}
      - step: rest
        tool:
          - items:
              kind: iterator
              in: [0, 1, 2]
              iterator: n
              tool:
                - one:
                    {INNER}
          - last:
              {call("rest#1/last#1")}
    """,
)

LONG = playbook(
    "long",
    f"""\
    workload: {{ledger: "", seconds: 0}}
    workflow:
      - step: long
        tool:
          - one:
              {call("long#1/one#1")}
    """,
)

PIPELINE = playbook(
    "pipeline",
    f"""\
    executor: {{spec: {{durability: step}}}}
    workload: {{ledger: "", seconds: 0.5}}
    workflow:
      - step: chain
        tool:
          - one:
              {call("chain#1/one#1")}
          - two:
              {call("chain#1/two#1")}
          - three:
              {call("chain#1/three#1")}
    """,
)
ITERATOR = playbook(
    "iterator",
    f"""\
    workload: {{ledger: "", seconds: 0.5}}
    workflow:
      - step: rest
        tool:
          - items:
              kind: iterator
              in: [0, 1, 2]
              iterator: n
              tool:
                - one:
                    {INNER}
    """,
)
PAUSE = playbook(
    "pause",
    f"""\
    workload: {{ledger: "", seconds: 0}}
    workflow:
      - step: chain
        tool:
          - one:
              {call("chain#1/one#1", "1", 3.0)}
    """,
)


def test_a_worker_restarted_under_its_name_gets_no_work_of_its_predecessor(tmp_path: Path) -> None:
    with ledger() as book, site(tmp_path, str(tmp_path / "noetl.db"), random.Random(1), workers=1) as cluster:
        request = {"playbook": WORK, "payload": {"ledger": book.url, "seconds": 0}}
        executions = []
        for _ in range(3):
            executions.append(cluster.client.start(request))
            assert cluster.client.ended(executions[-1])["status"] == "succeeded"
            cluster.workers[0].kill()
            cluster.workers[0].start()
        executions.append(cluster.client.start(request))
        assert cluster.client.ended(executions[-1])["status"] == "succeeded"
        for execution in executions:
            calls = Counter((effect.place, effect.attempt) for effect in book.of(execution))
            assert set(calls.values()) == {1}


@SOAK
def test_a_stalled_server_takes_nothing_away_from_innocent_workers(tmp_path: Path) -> None:
    """It is stopped for longer than a lease lives, while a worker makes a call that takes even longer."""
    with ledger() as book, site(tmp_path, str(tmp_path / "noetl.db"), random.Random(1), workers=2) as cluster:
        payload = {"ledger": book.url, "seconds": 4 * LEASE_SECONDS}
        execution = cluster.client.start({"playbook": LONG, "payload": payload})
        stage.until(lambda: book.of(execution))
        server = cluster.servers[0].process
        assert server is not None
        server.send_signal(signal.SIGSTOP)
        time.sleep(2 * LEASE_SECONDS)
        server.send_signal(signal.SIGCONT)
        assert cluster.client.ended(execution)["status"] == "succeeded"
        assert len(book.of(execution)) == 1


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        pytest.param(PIPELINE, "on_effect", id="pipeline"),
        pytest.param(ITERATOR, "on_effect", id="iterator", marks=SOAK),
        pytest.param(PAUSE, "on_answer", id="pause", marks=SOAK),
    ],
)
def test_a_worker_continued_after_its_lease_starts_no_call(tmp_path: Path, text: str, moment: str) -> None:
    """It is stopped in its first call, or in the pause before a retry; another worker does all of it meanwhile."""
    stopped: list[int] = []

    def stop(effect: Effect, port: int) -> None:
        pid = process_at(port, cluster.pids())
        if not stopped and pid is not None:
            stopped.append(pid)
            if moment == "on_answer":
                time.sleep(1.0)  # until it has reported the failure and waits
            os.kill(pid, signal.SIGSTOP)

    with ledger() as book, site(tmp_path, str(tmp_path / "noetl.db"), random.Random(1), workers=2) as cluster:
        setattr(book, moment, stop)
        execution = cluster.client.start({"playbook": text, "payload": {"ledger": book.url}})
        assert cluster.client.ended(execution, SECONDS)["status"] == "succeeded"
        before = len(book.of(execution))
        os.kill(stopped[0], signal.SIGCONT)
        assert cluster.client.ended(cluster.client.start({"playbook": text, "payload": {"ledger": book.url}}))
        time.sleep(LEASE_SECONDS)
        assert len(book.of(execution)) == before
