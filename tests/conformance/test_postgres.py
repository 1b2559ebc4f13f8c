"""The store in a Postgres database does what every store must do."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

import pytest
from tests.servers.postgres import Schema

from conformance import suites
from conformance.suites import store  # noqa: F401
from noetl.store.postgres import PostgresStore

pytestmark = pytest.mark.damaged_log("the rows are made up: this tests stores, not the engine")


@pytest.fixture
def place(database: str) -> str:
    return database


@pytest.fixture
def open_store(database: str, schema: Schema) -> Iterator[suites.OpenStore]:
    opened: list[PostgresStore] = []
    numbers = count()

    def open_new() -> PostgresStore:
        opened.append(PostgresStore(f"{database}_{next(numbers)}"))
        return opened[-1]

    yield open_new
    for one in opened:
        one.close()
        schema.rows(f"DROP SCHEMA {one.address.schema} CASCADE")


@pytest.fixture
def opener() -> suites.Opener:
    return PostgresStore


class TestEventLog(suites.EventLogSuite): ...


class TestSummary(suites.SummarySuite): ...


class TestBlob(suites.BlobSuite): ...


class TestSnapshot(suites.SnapshotSuite): ...


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
