"""The store in a Postgres database does what every store must do."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing

import pytest
from tests.servers.postgres import PooledStore, PostgresServer

from conformance import suites
from conformance.suites import store  # noqa: F401
from noetl.store.postgres import PostgresStore

pytestmark = pytest.mark.damaged_log("the rows are made up: this tests stores, not the engine")


@pytest.fixture
def place(database: str) -> str:
    return database


@pytest.fixture
def open_store(postgres: PostgresServer) -> Iterator[suites.OpenStore]:
    with ExitStack() as stack:
        yield lambda: stack.enter_context(closing(PooledStore(postgres)))


@pytest.fixture
def opener() -> suites.Opener:
    return PostgresStore


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
