"""Databases of earlier versions stay readable: their logs fold and verify, and their open runs go on."""

from __future__ import annotations

import asyncio
import lzma
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from noetl.clock import SystemClock
from noetl.runtime import history
from noetl.runtime.audit import Audit
from noetl.runtime.loaded_playbooks import LoadedPlaybooks
from noetl.runtime.runtime import Runtime
from noetl.store.sqlite import SqliteStore
from noetl.store.store import Summary

HISTORIES = sorted((Path(__file__).parent / "histories").glob("*.db.xz"))
ALL = 10_000


@pytest.fixture(params=HISTORIES, ids=lambda path: path.name.removesuffix(".db.xz"))
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


def test_decisions_that_version_0_1_0_left_to_the_fold_come_out_as_they_did(store: SqliteStore) -> None:
    states = {(summary.name, summary.status): replayed.state for summary, replayed in folded(store)}
    killed = states["killed_loop", "running"]
    assert {lease.ttl for lease in killed.leases.values()} == {30.0}
    timeout = states["run_timeout", "failed"].error
    assert timeout is not None
    assert timeout["message"] == "the execution took longer than 1 s"
    assert states["chunked_loop", "succeeded"].steps["items"].result.preview == {"count": 4200}
    assert states["large_items", "succeeded"].steps["items"].result.preview == {"count": 150}


def test_an_open_loop_goes_on(database: Path) -> None:
    store = SqliteStore(database, mode="read")
    run = next(summary for summary in store.summaries(limit=ALL) if summary.name == "killed_loop")
    store.close()
    command = [sys.executable, "-m", "noetl.cli", "runs", "resume", run.execution_id, "--db", str(database)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=300, stdin=subprocess.DEVNULL, check=False)
    assert ended.returncode == 0, ended.stderr
