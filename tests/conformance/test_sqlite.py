"""The store in a SQLite file does what every store must do."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from conformance import suites
from conformance.suites import store  # noqa: F401
from noetl.store.sqlite import SqliteStore

pytestmark = pytest.mark.damaged_log("the rows are made up: this tests stores, not the engine")


@pytest.fixture
def open_store(tmp_path: Path) -> Iterator[suites.OpenStore]:
    opened: list[SqliteStore] = []
    numbers = count()

    def open_new() -> SqliteStore:
        opened.append(SqliteStore(tmp_path / f"{next(numbers)}.db", synchronous="normal"))
        return opened[-1]

    yield open_new
    for one in opened:
        one.close()


@pytest.fixture
def opener() -> suites.Opener:
    return SqliteStore


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "shared.db"


class TestEventLog(suites.EventLogSuite): ...


class TestSummary(suites.SummarySuite): ...


class TestBlob(suites.BlobSuite): ...


class TestSnapshot(suites.SnapshotSuite): ...


class TestOutline(suites.OutlineSuite): ...


class TestDerived(suites.DerivedSuite): ...


class TestPlaybook(suites.PlaybookSuite): ...


class TestLog(suites.LogSuite): ...


class TestWork(suites.WorkSuite): ...


class TestWorker(suites.WorkerSuite): ...


class TestCatalog(suites.CatalogSuite): ...


class TestAnswer(suites.AnswerSuite): ...


class TestBacklog(suites.BacklogSuite): ...


class TestPrune(suites.PruneSuite): ...


class TestCredential(suites.CredentialSuite): ...


class TestTrigger(suites.TriggerSuite): ...


class TestReplay(suites.ReplaySuite): ...


class TestRace(suites.RaceSuite): ...
