"""The oracle and the SQLite store in memory do what every store must do."""

from __future__ import annotations

import pytest
from tests.conformance.memory import MemoryStore

from conformance import suites
from conformance.suites import store  # noqa: F401
from noetl.store.sqlite import InMemoryStore


@pytest.fixture(params=[MemoryStore, InMemoryStore])
def open_store(request: pytest.FixtureRequest) -> suites.OpenStore:
    made: suites.OpenStore = request.param
    return made


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
