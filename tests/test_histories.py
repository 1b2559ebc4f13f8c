"""Databases of earlier versions stay readable: their logs fold and verify, and their open runs go on."""

from __future__ import annotations

import asyncio
import lzma
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.histories.make import MAX_BYTES

from noetl.clock import SystemClock
from noetl.model.event_names import EVENT_NAMES
from noetl.runtime import history
from noetl.runtime.audit import Audit
from noetl.runtime.loaded_playbooks import LoadedPlaybooks
from noetl.runtime.runtime import Runtime
from noetl.store.codec import decode
from noetl.store.sqlite import SqliteStore
from noetl.store.store import Summary

SUFFIX = ".db.xz"
ALL = 10_000
ABSENT: dict[str, str] = {}
"""Event types that the newest history does not have, each with the reason."""


def version_of(path: Path) -> list[int]:
    """`0.1.0-2.db.xz` is the second history of version 0.1.0."""
    return [int(part) for part in path.name.removesuffix(SUFFIX).replace("-", ".").split(".")]


HISTORIES = sorted((Path(__file__).parent / "histories").glob(f"*{SUFFIX}"), key=version_of)
FIRST, NEWEST = HISTORIES[0], HISTORIES[-1]


@pytest.fixture(params=HISTORIES, ids=lambda path: path.name.removesuffix(SUFFIX))
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    path = tmp_path / "noetl.db"
    path.write_bytes(lzma.decompress(request.param.read_bytes()))
    return path


@pytest.fixture
def store(database: Path) -> Iterator[SqliteStore]:
    store = SqliteStore(database)
    yield store
    store.close()


def folded(store: SqliteStore) -> list[tuple[Summary, history.Replayed]]:
    """Every run of a store, its log folded from the first event."""

    async def replays() -> list[tuple[Summary, history.Replayed]]:
        runtime = Runtime(LoadedPlaybooks(store), SystemClock())
        try:
            runs = store.summaries(limit=ALL)
            return [(summary, await history.replay(runtime, summary.execution_id)) for summary in runs]
        finally:
            runtime.thread.shutdown()

    return asyncio.run(replays())


def test_every_log_verifies(store: SqliteStore) -> None:
    audit = Audit(store)
    violations = [violation for summary in store.summaries(limit=ALL) for violation in audit.of(summary)]
    assert violations == []


def test_every_log_folds_to_what_is_stored(store: SqliteStore) -> None:
    assert [summary.name for summary, replayed in folded(store) if not replayed.equal] == []


@pytest.mark.parametrize("database", [FIRST], indirect=True)
def test_decisions_that_version_0_1_0_left_to_the_fold_come_out_as_they_did(store: SqliteStore) -> None:
    states = {(summary.name, summary.status): replayed.state for summary, replayed in folded(store)}
    killed = states["killed_loop", "running"]
    assert {lease.ttl for lease in killed.leases.values()} == {30.0}
    timeout = states["run_timeout", "failed"].error
    assert timeout is not None
    assert timeout["message"] == "the execution took longer than 1 s"
    assert states["chunked_loop", "succeeded"].steps["items"].result.preview == {"count": 4200}
    assert states["large_items", "succeeded"].steps["items"].result.preview == {"count": 150}


def test_an_open_loop_continues(database: Path) -> None:
    (run,) = open_runs(database, "killed_loop")
    noetl(database, "runs", "resume", run)
    assert open_runs(database, "killed_loop") == []


@pytest.mark.parametrize("database", [NEWEST], indirect=True)
def test_a_waiting_run_gets_its_signals_and_continues(database: Path) -> None:
    (run,) = open_runs(database, "wait_signal")
    for name in ("first", "second"):
        noetl(database, "runs", "signal", run, name, "--data", f'{{"by": "{name}"}}')
    noetl(database, "runs", "resume", run)
    assert open_runs(database, "wait_signal") == []


@pytest.mark.parametrize("database", [NEWEST], indirect=True)
def test_a_parent_and_its_waiting_child_continue(database: Path) -> None:
    (run,), (child,) = open_runs(database, "child_paused"), open_runs(database, "_asking")
    noetl(database, "runs", "signal", child, "first")
    noetl(database, "runs", "resume", run)
    assert open_runs(database, "child_paused") == open_runs(database, "_asking") == []


def open_runs(database: Path, name: str) -> list[str]:
    """Runs of a playbook that have not ended, verified."""
    store = SqliteStore(database, mode="read")
    runs = [summary for summary in store.summaries(limit=ALL) if summary.name == name]
    assert [violation for run in runs for violation in Audit(store).of(run)] == []
    store.close()
    return [run.execution_id for run in runs if run.ended is None]


def noetl(database: Path, *arguments: str) -> None:
    command = [sys.executable, "-m", "noetl.cli", *arguments, "--db", str(database)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=300, stdin=subprocess.DEVNULL, check=False)
    assert ended.returncode == 0, ended.stderr


# -- what the newest history has --------------------------------------------------------------------------------------


@pytest.mark.parametrize("database", [NEWEST], indirect=True)
def test_the_newest_history_has_every_type_of_event(store: SqliteStore) -> None:
    """`make history` writes it: a new event belongs in one of its runs."""
    types = {row.type for summary in store.summaries(limit=ALL) for row in store.read(summary.execution_id)}
    assert EVENT_NAMES - types == ABSENT.keys()


@pytest.mark.parametrize("database", [NEWEST], indirect=True)
def test_the_newest_history_has_every_construct(store: SqliteStore) -> None:
    runs = store.summaries(limit=ALL)
    assert {run.status for run in runs} >= {"succeeded", "failed", "cancelled", "running", "waiting"}
    assert any(run.parent for run in runs)
    assert any(run.source for run in runs)
    assert any(not run.local for run in runs)
    actors = {
        decode(row.type, row.data).actor.kind  # type: ignore[attr-defined]
        for run in runs
        for row in store.read(run.execution_id, limit=1)
        if getattr(decode(row.type, row.data), "actor", None) is not None
    }
    assert actors >= {"local", "schedule"}
    assert any(store.snapshot_seqs(run.execution_id) for run in runs)
    assert any(store.outline(run.execution_id) for run in runs)
    assert any("classic" in run.name for run in runs)


def test_a_history_is_small() -> None:
    assert [path.name for path in HISTORIES if path.stat().st_size > MAX_BYTES] == []
