"""Schedules with real servers that are killed: every firing starts one execution, and none is lost."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from tests.acceptance.modes.stage import Served, database, served, until
from tests.servers.postgres import PostgresServer

from noetl.store.open import open_store
from noetl.store.store import Store
from noetl.store.triggers import Firing, Schedule

PLAYBOOK = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: tick, path: modes/tick}
workflow:
  - step: start
    tool: {kind: noop, result: "{{ workload.schedule.time }}"}
"""
EVERY = 2.0
NAMES = ("one", "two", "three")


@pytest.fixture
def store() -> Iterator[Callable[[str], Store]]:
    """Opens the database beside its servers."""
    result: list[Store] = []

    def opened(db: str) -> Store:
        result.append(open_store(db))
        return result[-1]

    yield opened
    for one in result:
        one.close()


def row(store: Store, name: str) -> Schedule:
    result = store.triggers.schedule(name)
    assert result is not None
    return result


def add(mode: Served, name: str, **more: Any) -> None:
    request = {"name": name, "path": "modes/tick", "every": EVERY, "overlap": "allow", "missed": "all"}
    mode.client.ask("POST", "/schedules", request | more)


def until_fired(store: Store, name: str, more: int) -> None:
    """Wait until so many more firings have become executions."""
    first = row(store, name).next
    assert first is not None
    last = Firing(round(first + more * EVERY, 3)).execution(row(store, name).id)
    until(lambda: store.seq(last))


def missed_by(one: Schedule) -> int:
    return sum(fired.count for fired in one.recent if fired.outcome == "missed")


def settled(mode: Served, store: Store, name: str) -> list[str]:
    """The executions that a schedule should have started, when it is paused and nothing of it is on its way."""
    mode.client.ask("POST", f"/schedules/{name}/pause")
    until(lambda: not row(store, name).starting)
    one = row(store, name)
    assert one.next is not None
    count = round((one.next - one.anchor) / EVERY) - 1
    return [Firing(round(one.anchor + number * EVERY, 3)).execution(one.id) for number in range(1, count + 1)]


@pytest.mark.slow(part="modes")
def test_servers_that_are_killed_in_turn_lose_no_firing_and_fire_none_twice(
    tmp_path: Path, store: Callable[[str], Store]
) -> None:
    with closing(PostgresServer()) as postgres:
        db = database(postgres, f"triggers_{uuid.uuid4().hex}")
        with served(tmp_path, db, servers=2, workers=2) as mode:
            mode.register(PLAYBOOK)
            for name in NAMES:
                add(mode, name)
            beside = store(db)
            for turn in range(4):
                until_fired(beside, NAMES[turn % 3], 1)
                victim = mode.servers[turn % 2]
                victim.kill()
                until_fired(beside, NAMES[turn % 3], 1)
                victim.start()
                victim.until_said("noetl server at")
            expected = [execution for name in NAMES for execution in settled(mode, beside, name)]
            result = {summary.execution_id for summary in beside.summaries(limit=10_000)}
            assert result == set(expected)
            for execution in expected:
                assert mode.client.ended(execution)["status"] == "succeeded"
            mode.verify()
            beside.close()


def test_what_nobody_was_there_for_is_made_up_for_once(tmp_path: Path, store: Callable[[str], Store]) -> None:
    db = str(tmp_path / "data" / "noetl.db")
    with served(tmp_path, db, workers=1) as mode:
        mode.register(PLAYBOOK)
        add(mode, "one", missed="once")
        beside = store(db)
        until_fired(beside, "one", 0)
        mode.servers[0].kill()
        moment = time.time() + 3 * EVERY
        until(lambda: time.time() > moment)
        before = {summary.execution_id for summary in beside.summaries(limit=10_000)}
        mode.servers[0].start()
        mode.servers[0].until_said("noetl server at")
        assert until(lambda: missed_by(row(beside, "one"))) >= 2
        until(lambda: row(beside, "one").recent[-1].outcome == "started")
        expected = settled(mode, beside, "one")
        after = {summary.execution_id for summary in beside.summaries(limit=10_000)}
        assert before < after < set(expected)
