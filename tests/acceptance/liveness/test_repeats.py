"""An accepted outcome never runs again, whatever happens to workers and to the answers of servers.

Every tool call leaves a line in a ledger outside of noetl. Workers are frozen past their leases and thawed, killed and
started again under their names, and their connections lose answers after the server has committed. Afterwards no line
of the ledger may be younger than the event that accepted the outcome of the same task and attempt.
"""

from __future__ import annotations

import os
import random
import signal
import threading
import time
import uuid
from collections import Counter
from datetime import datetime
from pathlib import Path

import pytest
from tests.acceptance.liveness.ledger import Effect, Ledger, ledger, process_at
from tests.acceptance.liveness.site import Site, site
from tests.acceptance.modes import stage
from tests.acceptance.modes.playbooks import playbook
from tests.servers.short_leases import LEASE_SECONDS

SOAK = pytest.mark.slow(part="liveness")
SECONDS = 900
RUNS_PER_ROUND, ROUNDS = 20, 13
"""260 runs on each kind of database."""
WORKERS = 4
FAULT_RATE = 0.03
"""The share of responses that a fault strikes while there are any."""
COMMIT_SECONDS = 1.0
"""An event bears the time of its decision; so long it may take until it is stored."""
CALL = """kind: http
              method: POST
              url: "{{ workload.ledger }}"
              json:
                execution: "{{ execution_id }}"
                place: "PLACE"
                attempt: "{{ _attempt }}"
                seconds: "{{ workload.seconds }}"
                failures: FAILURES"""
RETRY = """
              spec:
                policy:
                  rules:
                    - when: "{{ outcome.status == 'error' }}"
                      then: {do: retry, attempts: 9, delay: RETRY_DELAY}
                    - else: {then: {do: continue}}"""


def call(place: str, failures: str = "0", delay: float = 0.2) -> str:
    return CALL.replace("PLACE", place).replace("FAILURES", failures) + RETRY.replace("RETRY_DELAY", str(delay))


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

STEP_DURABLE = WORK.replace("workload:", "executor: {spec: {durability: step}}\nworkload:")
"""Workers report at the end of a step only, and not between its tasks."""
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


class Chaos:
    """Freezes, kills and restarts workers, and loses answers, for as long as a test wants it to."""

    def __init__(self, site: Site, book: Ledger, dice: random.Random) -> None:
        self.site, self.book, self.dice = site, book, dice
        self.armed = threading.Event()
        """Whether the worker that makes the next call is to be frozen: in the middle of it, and nowhere else."""
        self.frozen: dict[int, float] = {}
        self.freezes = self.restarts = 0
        book.on_effect = self._freeze

    def _freeze(self, effect: Effect, port: int) -> None:
        pid = process_at(port, self.site.pids()) if self.armed.is_set() else None
        if pid is not None and pid not in self.frozen:
            self.armed.clear()
            self.frozen[pid] = time.monotonic() + self.dice.uniform(1.2, 2.0) * LEASE_SECONDS
            os.kill(pid, signal.SIGSTOP)
            self.freezes += 1

    def run(self, seconds: float) -> None:
        """Trouble of all kinds, and at the end none is left."""
        for proxy in self.site.proxies:
            proxy.rate = FAULT_RATE
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            time.sleep(self.dice.uniform(0.2, 1.5))
            self._thaw(time.monotonic())
            if self.dice.random() < 0.5:
                self.armed.set()
            elif self.dice.random() < 0.5:
                self._restart(self.dice.choice(self.site.workers))
        self.armed.clear()
        for proxy in self.site.proxies:
            proxy.rate = 0.0
        while self.frozen:
            time.sleep(0.2)
            self._thaw(time.monotonic())

    def _thaw(self, now: float) -> None:
        for pid in [pid for pid, until in self.frozen.items() if until < now]:
            os.kill(pid, signal.SIGCONT)
            del self.frozen[pid]

    def _restart(self, worker: stage.Process) -> None:
        assert worker.process is not None
        self.frozen.pop(worker.process.pid, None)
        worker.kill()
        worker.start()
        self.restarts += 1


def accepted(site: Site, execution: str) -> dict[tuple[str, int], float]:
    """When the outcome of each task and attempt was accepted."""
    found: dict[tuple[str, int], float] = {}
    for event in site.client.events(execution):
        if event["event_type"] == "task.done":
            at = datetime.fromisoformat(event["timestamp"]).timestamp()
            found.setdefault((event["entity_id"], event["attempt"]), at)
    return found


def repeated(site: Site, book: Ledger, execution: str) -> list[tuple[Effect, float]]:
    """Effects that began after their outcome was accepted, and how long after."""
    known = accepted(site, execution)
    late = [(effect, effect.at - known[effect.place, effect.attempt]) for effect in book.of(execution)]
    return [(effect, seconds) for effect, seconds in late if seconds > COMMIT_SECONDS]


def play(site: Site, book: Ledger, chaos: Chaos, runs: int, seconds: float) -> None:
    """Start runs, make trouble while they run, and compare the ledger with their logs."""
    texts = (WORK, STEP_DURABLE)
    executions = [site.client.start({"playbook": texts[n % 2], "payload": {"ledger": book.url}}) for n in range(runs)]
    chaos.run(seconds)
    ends = [site.client.ended(execution, SECONDS) for execution in executions]
    time.sleep(LEASE_SECONDS)  # whoever still believes in an old lease may act on it
    assert [end["status"] for end in ends] == ["succeeded"] * runs, [end["error"] for end in ends]
    assert [one for execution in executions for one in repeated(site, book, execution)] == []


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, int]:
    """A database, and how many servers it has."""
    if request.param == "sqlite":
        return str(tmp_path / "noetl.db"), 1
    return stage.database(request.getfixturevalue("postgres"), f"repeats_{uuid.uuid4().hex}"), 2


@SOAK
def test_an_accepted_outcome_never_runs_again(tmp_path: Path) -> None:
    dice = random.Random(12)
    with ledger() as book, site(tmp_path, str(tmp_path / "noetl.db"), dice, workers=WORKERS) as made:
        chaos = Chaos(made, book, dice)
        play(made, book, chaos, RUNS_PER_ROUND, 25.0)
        assert chaos.freezes
        assert chaos.restarts
        assert sum(proxy.faults for proxy in made.proxies)
    made.mode.verify()


@SOAK
def test_an_accepted_outcome_never_runs_again_in_many_runs(tmp_path: Path, place: tuple[str, int]) -> None:
    db, servers = place
    seed = random.randrange(1 << 30)
    print(f"seed {seed}")
    dice = random.Random(seed)
    with ledger() as book, site(tmp_path, db, dice, servers=servers, workers=WORKERS) as made:
        chaos = Chaos(made, book, dice)
        for _ in range(ROUNDS):
            play(made, book, chaos, RUNS_PER_ROUND, 25.0)
        made.mode.verify()


def test_a_worker_restarted_under_its_name_gets_no_work_of_its_predecessor(tmp_path: Path) -> None:
    with ledger() as book, site(tmp_path, str(tmp_path / "noetl.db"), random.Random(1), workers=1) as made:
        request = {"playbook": WORK, "payload": {"ledger": book.url, "seconds": 0}}
        executions = []
        for _ in range(3):
            executions.append(made.client.start(request))
            assert made.client.ended(executions[-1])["status"] == "succeeded"
            made.workers[0].kill()
            made.workers[0].start()
        executions.append(made.client.start(request))
        assert made.client.ended(executions[-1])["status"] == "succeeded"
        for execution in executions:
            calls = Counter((effect.place, effect.attempt) for effect in book.of(execution))
            assert set(calls.values()) == {1}


@SOAK
def test_a_stalled_server_takes_nothing_away_from_innocent_workers(tmp_path: Path) -> None:
    """It is stopped for longer than a lease lives, while a worker makes a call that takes even longer."""
    with ledger() as book, site(tmp_path, str(tmp_path / "noetl.db"), random.Random(1), workers=2) as made:
        payload = {"ledger": book.url, "seconds": 4 * LEASE_SECONDS}
        execution = made.client.start({"playbook": LONG, "payload": payload})
        stage.until(lambda: book.of(execution))
        server = made.servers[0].process
        assert server is not None
        server.send_signal(signal.SIGSTOP)
        time.sleep(2 * LEASE_SECONDS)
        server.send_signal(signal.SIGCONT)
        assert made.client.ended(execution)["status"] == "succeeded"
        assert len(book.of(execution)) == 1


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        pytest.param(PIPELINE, "on_effect", id="pipeline"),
        pytest.param(ITERATOR, "on_effect", id="iterator", marks=SOAK),
        pytest.param(PAUSE, "on_answer", id="pause", marks=SOAK),
    ],
)
def test_a_worker_thawed_after_its_lease_begins_nothing(tmp_path: Path, text: str, moment: str) -> None:
    """It is frozen in its first call, or in the pause before a retry; another worker does all of it meanwhile."""
    frozen: list[int] = []

    def freeze(effect: Effect, port: int) -> None:
        pid = process_at(port, made.pids())
        if not frozen and pid is not None:
            frozen.append(pid)
            if moment == "on_answer":
                time.sleep(1.0)  # until it has reported the failure and waits
            os.kill(pid, signal.SIGSTOP)

    with ledger() as book, site(tmp_path, str(tmp_path / "noetl.db"), random.Random(1), workers=2) as made:
        setattr(book, moment, freeze)
        execution = made.client.start({"playbook": text, "payload": {"ledger": book.url}})
        assert made.client.ended(execution, SECONDS)["status"] == "succeeded"
        before = len(book.of(execution))
        os.kill(frozen[0], signal.SIGCONT)
        assert made.client.ended(made.client.start({"playbook": text, "payload": {"ledger": book.url}}))
        time.sleep(LEASE_SECONDS)
        assert len(book.of(execution)) == before
