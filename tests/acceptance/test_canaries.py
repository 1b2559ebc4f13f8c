"""Canary secrets in every kind, where it goes well, fails, takes too long and is killed: none is found anywhere.

Every byte is searched: the database with its log, all files that a run leaves, what commands print, and the arguments
of processes. That a canary was really used is seen from the other side: servers have heard it, and `***` stands where
it would have stood.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.acceptance.canaries import playbooks as use
from tests.acceptance.canaries.lab import Lab
from tests.acceptance.canaries.playbooks import playbook
from tests.acceptance.canaries.world import World, world
from tests.acceptance.command_line import SECONDS
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


def test_runs_that_fail(known: World, lab: Lab) -> None:
    for name, task in use.failures(known).items():
        outcomes = lab.run(use.failing(known, task), code=1)
        assert lab.leaks() == {}, name
        assert misjudged(outcomes) == {}, name


def test_a_kill_and_what_is_resumed_after_it(known: World, lab: Lab) -> None:
    with held(known, lab) as ready:
        lab.kill(playbook(known, "killed", use.held(known, str(lab.away)), at_once=True), ready)
        assert lab.leaks() == {}
    try:
        outcomes = lab.resume()
    finally:
        known.echo.open.clear()
        known.silence.open.clear()
    assert lab.leaks() == {}
    assert misjudged(outcomes) == {}


@contextmanager
def held(known: World, lab: Lab) -> Iterator[Callable[[], None]]:
    """Nothing goes on while this lasts; gives what waits until everything stands still."""
    with known.postgres.connect() as connection:
        connection.execute("SELECT pg_advisory_lock(%s)", [use.LOCK])

        def ready() -> None:
            known.echo.wait_for("/hold/http", "/hold/rows")
            assert known.silence.heard.wait(SECONDS)
            deadline = time.monotonic() + SECONDS
            waiting = "SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
            files = [lab.away / name for name in ("python", "shell", "script")]
            while not (all(file.exists() for file in files) and connection.execute(waiting).fetchone()):
                assert time.monotonic() < deadline, files
                time.sleep(0.02)

        yield ready
    known.echo.open.set()
    known.silence.open.set()
    (lab.away / "open").touch()
