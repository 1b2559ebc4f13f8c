"""A log that breaks an invariant fails the test that made it, wherever it was made."""

from __future__ import annotations

import asyncio
from pathlib import Path

import apsw
import pytest
from bench.engine import HEAD, no_children
from bench.long_run import write
from tests.conformance.memory import MemoryStore
from tests.verifying import MANY, check_databases, verified

from noetl.clock import SystemClock
from noetl.dsl.compile import load
from noetl.host.embedded import Embedded
from noetl.runtime.loaded_playbooks import LoadedPlaybooks
from noetl.tools.registry import KINDS

EXECUTION = "00000000-0000-7000-8000-000000000001"
TEXT = HEAD + "  - {step: start, tool: [{t: {kind: noop}}]}\n"


def run() -> MemoryStore:
    """A run in this process."""
    store = MemoryStore()

    async def whole() -> None:
        engine = Embedded(LoadedPlaybooks(store), KINDS, SystemClock(), no_children)
        await engine.start(EXECUTION, engine.runtime.playbooks.add(load("x.yaml", TEXT, KINDS).require()), {}, {})
        await engine.drive(EXECUTION)
        await engine.close()

    asyncio.run(whole())
    return store


def damage(store: MemoryStore) -> None:
    rows = store.events[EXECUTION]
    rows[2] = rows[2]._replace(at=1.0)


def test_a_violation_in_this_process_is_found() -> None:
    with verified():
        run()
    with pytest.raises(AssertionError, match="hash_chain"), verified():
        damage(run())
    with verified(damaged=True):
        damage(run())


def test_a_violation_is_found_among_many_runs() -> None:
    with pytest.raises(AssertionError, match="hash_chain"), verified():
        [damage(run()), *(run() for _ in range(MANY + 1))]


def test_a_violation_in_a_database_is_found(tmp_path: Path) -> None:
    folder = tmp_path / "of the test"
    folder.mkdir()
    (folder / "other.db").write_text("not a database")
    write(folder / "runs.db", 100)
    check_databases(folder)
    db = apsw.Connection(str(folder / "runs.db"))
    db.execute("UPDATE event SET at = 1 WHERE seq = 3")
    with pytest.raises(AssertionError, match="hash_chain"):
        check_databases(folder)
    db.execute("DELETE FROM event")
    db.execute("DELETE FROM execution")
    db.close()
