"""Damaged data is refused: every kind of damage at every position of random logs, and of everything stored beside them.

The hash of a row covers the rows before it, so damage of a row is found where it is. What the end of a log lacks is
found by what is stored beside it: the status of an ended run, and ready work, leases and timers of an open one.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from itertools import islice
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.servers.patience import PATIENCE_SECONDS
from tests.unit.engine.story import QuickClock

from noetl.dsl.compile import load
from noetl.engine.events import EVENTS
from noetl.engine.history.verify.log import Violation
from noetl.host.embedded import Embedded
from noetl.model.identity import uuid7
from noetl.runtime.audit import Audit
from noetl.runtime.loaded_playbooks import LoadedPlaybooks
from noetl.store.database import key_of
from noetl.store.sqlite import InMemoryStore
from noetl.store.store import Row
from noetl.tools.registry import KINDS

pytestmark = pytest.mark.damaged_log("damages its logs")

quick = settings(max_examples=3, deadline=None, suppress_health_check=list(HealthCheck))
SHARES = 4
"""Parts of the thorough test, which run in as many processes; no two try the same seed."""
thorough = settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
STRIDE = 5
"""Has no divisor in common with the number of kinds, so that each kind of damage is tried."""
Damage = tuple[str, list[Row]]
Json = dict[str, Any]
HEAD: Json = {"apiVersion": "noetl.io/v2", "kind": "Playbook", "metadata": {"name": "damage", "path": "tests/damage"}}


# -- random runs ------------------------------------------------------------------------------------------------------


def playbook(dice: random.Random, *, waits: bool) -> str:
    """Steps that lead forward, with joins, loops, retries, continued errors, patches and large results."""
    count = dice.randint(2, 6)
    steps: list[Json] = []
    for number in range(count):
        step: Json = {"step": f"s{number}", "tool": [{"work": task(dice)}]}
        if dice.random() < 0.3:
            mode, items = dice.choice(["sequential", "parallel"]), dice.randint(0, 5)
            step["loop"] = {"in": list(range(items)), "iterator": "x", "spec": {"mode": mode, "on_error": "continue"}}
        if dice.random() < 0.4:
            step["spec"] = {"join": "all"}
        later = [f"s{other}" for other in range(number + 1, count)]
        if later:
            arcs = dice.sample(later, dice.randint(1, min(2, len(later))))
            step["next"] = {"spec": {"mode": "inclusive"}, "arcs": [{"step": target} for target in arcs]}
        steps.append(step)
    if waits:
        steps[-1] |= {"tool": [{"ask": {"kind": "wait", "signal": "go", "spec": {"timeout": 3600}}}]}
        steps[-1].pop("loop", None)
        if all(steps[-1]["step"] != arc["step"] for step in steps[:-1] for arc in step["next"]["arcs"]):
            steps[0]["next"]["arcs"].append({"step": steps[-1]["step"]})
    return yaml.safe_dump({**HEAD, "workflow": steps})


def task(dice: random.Random) -> Json:
    result = dice.choice([1, "text", None, [1, {"a": "b"}], "{{ _attempt }}", "{{ 'x' * 70_000 }}"])
    rules: list[Json] = [{"else": {"then": {"do": "continue", "set_ctx": {"n": {"$add": 1}}}}}]
    if dice.random() < 0.3:
        rules.insert(0, {"when": "{{ _attempt < 3 }}", "then": {"do": "retry", "attempts": 3, "delay": 0}})
    if dice.random() < 0.2:
        result = "{{ 1 / 0 }}"
    return {"kind": "noop", "result": result, "spec": {"policy": {"rules": rules}}}


class Runs:
    """Runs in one store, whose rows can be replaced."""

    def __init__(self) -> None:
        self.store = InMemoryStore()
        self.execute, self.audit = self.store._db.connection.execute, Audit(self.store)
        self.ids = (uuid7(1_700_000_000.0 + number, bytes(8)) for number in range(1_000))

    def run(self, text: str, *, waits: bool = False) -> str:
        """Run a playbook until it has ended, or waits for its signal."""
        compiled, execution = load("damage.yaml", text, KINDS).require(), next(self.ids)
        self.store.put_playbook(compiled.digest, "damage.yaml", text.encode())

        async def run() -> None:
            engine = Embedded(LoadedPlaybooks(self.store), KINDS, QuickClock(), lambda parent, request: "")
            async with asyncio.timeout(PATIENCE_SECONDS):
                await engine.start(execution, engine.runtime.playbooks.add(compiled), {}, {})
                driving = asyncio.create_task(engine.drive(execution))
                while waits and not self.waiting(execution):  # noqa: ASYNC110
                    await asyncio.sleep(0.005)
                if waits:
                    driving.cancel()
                await asyncio.gather(driving, return_exceptions=True)
            await engine.close()

        asyncio.run(run())
        assert self.violations(execution) == []
        return execution

    def waiting(self, execution: str) -> bool:
        return [summary.status for summary in self.store.summaries(prefix=execution)] == ["waiting"]

    def violations(self, execution: str) -> list[Violation]:
        (summary,) = self.store.summaries(prefix=execution)
        return self.audit.of(summary)

    def with_log(self, execution: str, rows: list[Row]) -> list[Violation]:
        """The violations of an execution if it had these rows."""
        whole = self.store.read(execution)
        try:
            self._put(execution, rows)
            return self.violations(execution)
        finally:
            self._put(execution, whole)

    def _put(self, execution: str, rows: list[Row]) -> None:
        key = key_of(execution)
        self.execute("DELETE FROM event WHERE execution = ?", (key,))
        for row in rows:
            self.execute("INSERT INTO event VALUES (?, ?, ?, ?, ?, ?)", (key, *row))


# -- damage of a log --------------------------------------------------------------------------------------------------


def numbered(rows: list[Row]) -> list[Row]:
    return [row._replace(seq=seq) for seq, row in enumerate(rows, start=1)]


def flipped(data: bytes, dice: random.Random) -> bytes:
    place = dice.randrange(len(data))
    return data[:place] + bytes([data[place] ^ 1 << dice.randrange(7)]) + data[place + 1 :]


def damages(rows: list[Row], other: list[Row], dice: random.Random) -> Iterator[Damage]:
    """Each kind of damage at each position; `other` is the log of another run."""
    for at, row in enumerate(rows):
        before, after = rows[:at], rows[at + 1 :]
        yield f"{at} dropped", [*before, *after]
        yield f"{at} dropped, and the rest numbered again", numbered([*before, *after])
        yield f"{at} duplicated", numbered([*before, row, row, *after])
        if after:
            yield f"{at} swapped with the next", numbered([*before, after[0], row, *after[1:]])
        for part, changed in (
            ("payload", row._replace(data=flipped(row.data, dice))),
            ("payload grown", row._replace(data=row.data + b" ")),
            ("timestamp", row._replace(at=row.at + 0.000_002)),
            ("type", row._replace(type=dice.choice([name for name in EVENTS if name != row.type]))),
            ("type unknown", row._replace(type=f"{row.type}.")),
            ("hash", row._replace(hash=flipped(row.hash, dice))),
        ):
            yield f"{at} {part} altered", [*before, changed, *after]
        yield f"{at} seq altered", [*before, *(late._replace(seq=late.seq + 1) for late in rows[at:])]
        if at < len(other) and other[at] != row:
            yield f"{at} is a row of another run", [*before, other[at], *after]
            if before:  # a whole log is sound, whosever it is
                yield f"{at} and all after it are of another run", numbered([*before, *other[at:]])
    yield "empty", []


def is_cut(damaged: list[Row], rows: list[Row]) -> bool:
    return damaged == rows[: len(damaged)]


def check(seed: int, stride: int) -> None:
    """Every `stride`-th damage of an ended and of an open run is found. An open run may lack its last rows and be a run
    that has not come that far: that is what the record of the last commit is for."""
    dice, runs = random.Random(seed), Runs()
    ended, other = runs.run(playbook(dice, waits=False)), runs.run(playbook(dice, waits=False))
    opened = runs.run(playbook(dice, waits=True), waits=True)
    unnoticed = []
    for execution, another in ((ended, other), (opened, ended)):
        rows = runs.store.read(execution)
        for name, damaged in islice(damages(rows, runs.store.read(another), dice), seed % stride, None, stride):
            open_and_cut = execution == opened and is_cut(damaged, rows)
            if not open_and_cut and not runs.with_log(execution, damaged):
                unnoticed.append(f"{execution} {name}")
    assert unnoticed == []


@quick
@given(st.integers(0, 2**32))
def test_every_kind_of_damage_is_found_at_many_positions(seed: int) -> None:
    check(seed, STRIDE)


@pytest.mark.slow(part="damage")
@pytest.mark.parametrize("share", range(SHARES))
@thorough
@given(st.integers(0, 2**32))
def test_every_damage_at_every_position_of_many_logs_is_found(share: int, seed: int) -> None:
    check(SHARES * seed + share, 1)


def test_every_end_that_an_ended_run_lacks_is_found() -> None:
    runs = Runs()
    execution = runs.run(playbook(random.Random(3), waits=False))
    rows = runs.store.read(execution)
    assert [count for count in range(len(rows)) if not runs.with_log(execution, rows[:count])] == []


def test_an_open_run_that_lacks_the_event_of_its_wait_is_found() -> None:
    """Rows of ready work, leases and timers follow from the log, and the status does."""
    runs = Runs()
    execution = runs.run(playbook(random.Random(5), waits=True), waits=True)
    rows = runs.store.read(execution)
    paused = next(row.seq for row in rows if row.type == "step.paused")
    assert [count for count in range(paused) if not runs.with_log(execution, rows[:count])] == []


def test_every_altered_byte_of_a_payload_is_found() -> None:
    runs = Runs()
    execution = runs.run(playbook(random.Random(7), waits=False))
    rows = runs.store.read(execution)
    longest = max((row for row in rows if len(row.data) < 2_000), key=lambda row: len(row.data))
    unnoticed = []
    for place, byte in enumerate(longest.data):
        data = longest.data[:place] + bytes([byte ^ 1]) + longest.data[place + 1 :]
        if not runs.with_log(execution, [row if row is not longest else row._replace(data=data) for row in rows]):
            unnoticed.append(place)
    assert unnoticed == []


# -- damage of what is stored beside it -------------------------------------------------------------------------------

BESIDE = {
    "ready": ("INSERT INTO ready (execution, run, pool) VALUES (:key, 's9#1', 'default')",),
    "lease": (
        "INSERT INTO lease (execution, fence, run, worker, since, ttl) VALUES (:key, 99, 's0#1', 'w', 1.0, 30.0)",
    ),
    "timer": (
        "DELETE FROM timer WHERE execution = :key",
        "UPDATE timer SET due = due + 1 WHERE execution = :key",
        "UPDATE timer SET name = name || 'x' WHERE execution = :key",
        "INSERT INTO timer (execution, name, due) VALUES (:key, 'later', 1.0)",
    ),
    "execution": (
        "UPDATE execution SET status = 'succeeded' WHERE id = :key",
        "UPDATE execution SET status = 'paused' WHERE id = :key",
    ),
}


@pytest.mark.parametrize("statement", [statement for table in BESIDE.values() for statement in table])
def test_altered_rows_of_work_and_status_are_found(statement: str) -> None:
    runs = Runs()
    execution = runs.run(playbook(random.Random(11), waits=True), waits=True)
    runs.execute(statement, {"key": key_of(execution)})
    assert runs.violations(execution) != []


def test_altered_and_missing_content_is_found() -> None:
    runs = Runs()
    large = ({f"large_{letter}": {"kind": "noop", "result": f"{{{{ '{letter}' * 70_000 }}}}"}} for letter in "xy")
    steps = [{"step": "start", "tool": list(large)}]
    execution = runs.run(yaml.safe_dump({**HEAD, "workflow": steps}))
    blobs = runs.execute("SELECT key, data FROM blob").fetchall()
    assert blobs
    for key, data in blobs:
        runs.execute("UPDATE blob SET data = ? WHERE key = ?", (flipped(data, random.Random(1)), key))
        assert {violation.invariant for violation in runs.violations(execution)} == {"references"}
        runs.execute("DELETE FROM blob WHERE key = ?", (key,))
        assert {violation.invariant for violation in runs.violations(execution)} == {"references"}
        runs.execute("INSERT INTO blob (key, data) VALUES (?, ?)", (key, data))
    assert runs.violations(execution) == []


@pytest.fixture(scope="module")
def long_run() -> tuple[Runs, str]:
    """A run with snapshots and blocks of the outline."""
    runs = Runs()
    loop = {"in": "{{ range(2600) }}", "iterator": "x", "spec": {"mode": "sequential"}}
    step = {"step": "start", "loop": loop, "tool": [{"note": {"kind": "noop", "result": "{{ iter.x }}"}}]}
    return runs, runs.run(yaml.safe_dump({**HEAD, "workflow": [step]}))


def test_altered_blocks_of_the_outline_are_found(long_run: tuple[Runs, str]) -> None:
    runs, execution = long_run
    dice = random.Random(17)
    blocks = runs.execute("SELECT block, data FROM outline").fetchall()
    assert len(blocks) > 9
    for block, data in dice.sample(blocks, 5):
        for damaged in (flipped(data, dice), data[:-1], blocks[block - 1][1]):
            runs.execute("UPDATE outline SET data = ? WHERE block = ?", (damaged, block))
            assert "outline" in {violation.invariant for violation in runs.violations(execution)}, block
        runs.execute("UPDATE outline SET data = ? WHERE block = ?", (data, block))


def test_altered_snapshots_are_found(long_run: tuple[Runs, str]) -> None:
    runs, execution = long_run
    ((seq, hash, data),) = runs.execute("SELECT seq, hash, data FROM snapshot").fetchall()
    dice = random.Random(19)
    put = "UPDATE snapshot SET seq = ?, hash = ?, data = ?"
    for damaged in (
        (seq, hash, data[:1] + flipped(data[1:], dice)),
        (seq, hash, data[:1] + flipped(data[1:], dice)),
        (seq, hash, data[:-1]),
        (seq, flipped(hash, dice), data),
        (seq + 1, hash, data),
    ):
        runs.execute(put, damaged)
        assert "snapshot" in {violation.invariant for violation in runs.violations(execution)}
    runs.execute(put, (seq, hash, data))
    assert runs.violations(execution) == []
