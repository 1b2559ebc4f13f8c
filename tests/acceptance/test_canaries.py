"""Canary secrets in every kind, where it goes well, fails, takes too long and is killed: none is found anywhere.

Every byte is searched: the database with its log, all files that a run leaves, what commands print, and the arguments
of processes. That a canary was really used is seen from the other side: servers have heard it, and `***` stands where
it would have stood.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.acceptance.canaries import playbooks as use
from tests.acceptance.canaries.lab import Lab
from tests.acceptance.canaries.playbooks import playbook
from tests.acceptance.canaries.world import World, world
from tests.servers.postgres import PostgresServer, postgres_fixture  # noqa: F401


@pytest.fixture(scope="module", name="known")
def known_fixture(tmp_path_factory: pytest.TempPathFactory, postgres: PostgresServer) -> Iterator[World]:
    with world(tmp_path_factory.mktemp("world"), postgres) as made:
        yield made


@pytest.fixture(name="lab")
def lab_fixture(known: World, tmp_path: Path) -> Lab:
    return known.lab.copy(tmp_path / "lab")


def misjudged(outcomes: dict[str, Any]) -> dict[str, Any]:
    """Tasks that did not end as their names say."""
    ends = {"ok": None, "bad": "error", "slow": "timeout"}
    found = {}
    for label, outcome in outcomes.items():
        want, error = ends[label.partition("_")[0]], outcome.get("error")
        if (error is None) != (want is None) or (want == "timeout" and error["kind"] != "timeout"):
            found[label] = error
    return found


def test_http(known: World, lab: Lab) -> None:
    outcomes = lab.run(playbook(known, "http", {"http": use.http(known)}))
    assert lab.leaks() == {}
    assert misjudged(outcomes) == {}


def test_postgres(known: World, lab: Lab) -> None:
    outcomes = lab.run(playbook(known, "postgres", {"postgres": use.postgres(known)}))
    assert lab.leaks() == {}
    assert misjudged(outcomes) == {}


def test_duckdb_and_snowflake(known: World, lab: Lab) -> None:
    outcomes = lab.run(playbook(known, "duckdb", {"duckdb": use.duckdb(known), "snowflake": use.snowflake(known)}))
    assert lab.leaks() == {}
    assert misjudged(outcomes) == {}


def test_transfer(known: World, lab: Lab) -> None:
    outcomes = lab.run(playbook(known, "transfer", {"transfer": use.transfer(known)}))
    assert lab.leaks() == {}
    assert misjudged(outcomes) == {}


def test_python(known: World, lab: Lab) -> None:
    outcomes = lab.run(playbook(known, "python", {"python": use.python(known)}), terminal=True)
    assert lab.leaks() == {}
    assert misjudged(outcomes) == {}


def test_shell(known: World, lab: Lab) -> None:
    outcomes = lab.run(playbook(known, "shell", {"shell": use.shell(known), "script": use.script(known)}))
    assert lab.leaks() == {}
    assert misjudged(outcomes) == {}


def test_surroundings(known: World, lab: Lab) -> None:
    outcomes = lab.run(playbook(known, "surroundings", {"surroundings": use.surroundings(known)}))
    assert lab.leaks() == {}
    assert misjudged(outcomes) == {}


def test_stores(known: World, lab: Lab) -> None:
    outcomes = lab.run(playbook(known, "stores", {"stores": use.stores(known), "nats": use.nats(known)}))
    assert lab.leaks() == {}
    assert misjudged(outcomes) == {}


def test_control(known: World, lab: Lab) -> None:
    lab.write(use.CHILD)
    outcomes = lab.run({**playbook(known, "control", {"control": use.control(known)}), "workbook": use.WORKBOOK})
    assert lab.leaks() == {}
    assert misjudged(outcomes) == {}


SLOW = {
    "http": use.slow_http,
    "sql": use.slow_sql,
    "duckdb": use.slow_duckdb,
    "processes": use.slow_processes,
    "nats": use.slow_nats,
}


def test_timeouts(known: World, lab: Lab) -> None:
    steps = {name: use.short(tasks(known)) for name, tasks in SLOW.items()}
    outcomes = lab.run(playbook(known, "timeouts", steps, at_once=True))
    assert lab.leaks() == {}
    assert misjudged(outcomes) == {}
