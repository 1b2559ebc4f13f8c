"""Canary secrets in every kind, where it goes well, fails, takes too long and is killed: none is found anywhere.

Every byte is searched: the database with its log, all files that a run leaves, what commands print, and the arguments
of processes. That a canary was really used is seen from the other side: servers have heard it, and `***` stands where
it would have stood.

Two kinds have no use for a secret, and nobody signs in there: `quantum`, which runs on simulators of the worker's own,
hides one in a circuit, and `wait` refuses one as the name of a signal. `noop`, `workbook`, `iterator`, `playbook` and
`secrets` can be neither slow nor killed by themselves: `noop` stands before and after each task that is killed.
"""

from __future__ import annotations

import os
import threading
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from json import dumps
from pathlib import Path
from typing import Any
from urllib.parse import quote, quote_plus

import pytest
from tests.acceptance.canaries import playbooks as use
from tests.acceptance.canaries.lab import Lab
from tests.acceptance.canaries.playbooks import playbook
from tests.acceptance.canaries.world import World, world
from tests.servers.patience import PATIENCE_SECONDS, until
from tests.servers.podman import missing, podman
from tests.servers.postgres import PostgresServer, postgres_fixture  # noqa: F401
from tests.servers.snowflake import HOLD

SOAK = pytest.mark.slow(part="secrets")


@pytest.fixture(scope="module", name="known")
def known_fixture(tmp_path_factory: pytest.TempPathFactory, postgres: PostgresServer) -> Iterator[World]:
    with world(tmp_path_factory.mktemp("world"), postgres) as made:
        yield made


@pytest.fixture(name="lab")
def lab_fixture(known: World, tmp_path: Path) -> Lab:
    return known.lab.copy(tmp_path / "lab")


def misjudged(outcomes: dict[str, Any]) -> dict[str, Any]:
    """Tasks that did not end as their names say."""
    return {label: outcome for label, outcome in outcomes.items() if not _as_told(label.partition("_")[0], outcome)}


def _as_told(told: str, outcome: dict[str, Any]) -> bool:
    error, result = outcome.get("error"), str(outcome.get("result"))
    match told:
        case "ok":
            return error is None and ("***" in result or "'checksum'" in result)
        case "does":
            return error is None
        case "slow":
            return error is not None and error["kind"] == "timeout"
        case _:
            return error is not None


def test_what_is_searched_for_is_found(known: World, lab: Lab) -> None:
    """A canary that is no secret here is found in all the places that the other tests search."""
    lab.run(use.open_words(known))
    places = {"arguments of processes", "run open_words.yaml", "work/.noetl/noetl.db", "work/open_words.yaml"}
    assert places | {"runs show last", "runs events last -o jsonl", "runs logs last"} <= lab.leaks().keys()


def test_every_form_is_searched_for(known: World) -> None:
    search = known.lab.search
    for text in known.texts:
        raw = text.value.encode()
        shapes = [raw, quote(raw).encode(), quote_plus(raw).encode(), dumps(text.value).encode()]
        shapes += [b64encode(b"x" * before + raw + b"x") for before in range(3)]
        shapes += [urlsafe_b64encode(b"x" * before + raw + b"x") for before in range(3)]
        assert all(search.found(b"before " + shape + b" after") for shape in shapes), text.name


def test_http(known: World, lab: Lab) -> None:
    outcomes = lab.run(playbook(known, "http", {"http": use.http(known)}))
    assert lab.leaks() == {}
    assert misjudged(outcomes) == {}


@SOAK
def test_postgres_and_transfer(known: World, lab: Lab) -> None:
    outcomes = lab.run(playbook(known, "postgres", {"postgres": use.postgres(known), "transfer": use.transfer(known)}))
    assert lab.leaks() == {}
    assert misjudged(outcomes) == {}


@SOAK
def test_duckdb_and_snowflake(known: World, lab: Lab) -> None:
    outcomes = lab.run(playbook(known, "duckdb", {"duckdb": use.duckdb(known), "snowflake": use.snowflake(known)}))
    assert lab.leaks() == {}
    assert misjudged(outcomes) == {}


def test_python(known: World, lab: Lab) -> None:
    outcomes = lab.run(playbook(known, "python", {"python": use.python(known)}), terminal=True)
    assert lab.leaks() == {}
    assert misjudged(outcomes) == {}


@SOAK
def test_shell_and_script(known: World, lab: Lab) -> None:
    steps = {"shell": use.shell(known), "script": use.script(known), "surroundings": use.surroundings(known)}
    outcomes = lab.run(playbook(known, "shell", steps))
    assert lab.leaks() == {}
    assert misjudged(outcomes) == {}


@SOAK
@pytest.mark.skipif(missing() is not None, reason=str(missing()))
def test_container(known: World, lab: Lab) -> None:
    with podman() as engine:
        lab.env["DOCKER_HOST"] = engine.url
        outcomes = lab.run(playbook(known, "container", {"container": use.container(known)}))
    assert lab.leaks() == {}
    assert misjudged(outcomes) == {}


@SOAK
def test_stores_and_nats(known: World, lab: Lab) -> None:
    outcomes = lab.run(playbook(known, "stores", {"stores": use.stores(known), "nats": use.nats(known)}))
    assert lab.leaks() == {}
    assert misjudged(outcomes) == {}


@SOAK
def test_control(known: World, lab: Lab) -> None:
    lab.write(use.CHILD)
    outcomes = lab.run({**playbook(known, "control", {"control": use.control(known)}), "workbook": use.WORKBOOK})
    assert lab.leaks() == {}
    assert misjudged(outcomes) == {}


@SOAK
def test_quantum(known: World, lab: Lab) -> None:
    outcomes = lab.run(playbook(known, "quantum", {"quantum": use.quantum(known)}))
    assert lab.leaks() == {}
    assert misjudged(outcomes) == {}


@SOAK
def test_timeouts(known: World, lab: Lab) -> None:
    outcomes = lab.run(playbook(known, "timeouts", use.short(use.slow(known)), at_once=True))
    assert lab.leaks() == {}
    assert misjudged(outcomes) == {}


@SOAK
def test_runs_that_fail(known: World, lab: Lab) -> None:
    for name, task in use.failures(known).items():
        lab.start(use.failing(known, name, task), code=1)
    outcomes = lab.look()
    assert lab.leaks() == {}
    assert misjudged(outcomes) == {}


def test_a_secret_that_comes_back_in_another_step(known: World, lab: Lab) -> None:
    lab.start(use.handed_on(known))
    assert lab.leaks() == {}


@SOAK
def test_a_kill_and_what_is_resumed_after_it(known: World, lab: Lab) -> None:
    with held(known, lab) as ready:
        lab.kill(playbook(known, "killed", use.held(known, str(lab.away)), at_once=True), ready)
        assert lab.leaks() == {}
    with let_go(known, lab):
        outcomes = lab.resume()
    assert lab.leaks() == {}
    assert misjudged(outcomes) == {}


@contextmanager
def held(known: World, lab: Lab) -> Iterator[Callable[[], None]]:
    """Nothing goes on while this lasts; gives what waits until everything stands still."""
    pipe = lab.away / use.FIFO
    os.mkfifo(pipe)
    with known.postgres.connect() as connection, ExitStack() as stack:
        connection.execute("SELECT pg_advisory_lock(%s)", [use.LOCK])

        def ready() -> None:
            known.echo.wait_for("/hold/http", "/hold/rows")
            for event in (known.silence.heard, *(gate.heard for gate in known.gates.values())):
                assert event.wait(PATIENCE_SECONDS)
            waiting = "SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
            until(lambda: all((lab.away / name).exists() for name in ("python", "shell", "script")))
            until(lambda: connection.execute(waiting).fetchone())
            until(lambda: any(HOLD in statement for statement in known.snowflake.statements))
            writer = writing(pipe)
            assert writer is not None
            stack.callback(os.close, writer)

        yield ready


@contextmanager
def let_go(known: World, lab: Lab) -> Iterator[None]:
    """Everything goes on while this lasts."""
    events = [known.echo.open, known.silence.open, known.snowflake.open, *(gate.open for gate in known.gates.values())]
    for event in events:
        event.set()
    (lab.away / "open").touch()
    over = threading.Event()
    rows = threading.Thread(target=write_rows, args=(lab.away / use.FIFO, over))
    rows.start()
    try:
        yield
    finally:
        over.set()
        rows.join()
        for event in events:
            event.clear()


def writing(pipe: Path, over: threading.Event | None = None) -> int | None:
    """The end of a pipe to write into, as soon as somebody reads; None if it was over first."""
    result: list[int] = []

    def look() -> bool:
        with suppress(OSError):  # nobody reads yet
            result.append(os.open(pipe, os.O_WRONLY | os.O_NONBLOCK))
        return bool(result) or (over is not None and over.is_set())

    until(look)
    return result[0] if result else None


def write_rows(pipe: Path, over: threading.Event) -> None:
    writer = writing(pipe, over)
    if writer is not None:
        os.write(writer, b"1\n2\n")
        os.close(writer)


@SOAK
@pytest.mark.skipif(missing() is not None, reason=str(missing()))
def test_a_kill_while_a_container_runs(known: World, lab: Lab) -> None:
    with podman() as engine:
        lab.env["DOCKER_HOST"] = engine.url
        lab.kill(
            playbook(known, "killed_container", use.held_container(known, str(lab.away))),
            lambda: until((lab.away / "container").exists),
        )
        (left,) = engine.run("ps", "--quiet").splitlines()
        assert lab.leaks() == {}
        (lab.away / "open").touch()
        outcomes = lab.resume()
        assert left not in engine.run("ps", "--all", "--quiet")
    assert lab.leaks() == {}
    assert misjudged(outcomes) == {}
