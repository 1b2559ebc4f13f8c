"""The store in memory does what every store must do."""

from __future__ import annotations

import pytest

from conformance import suites
from conformance.suites import store  # noqa: F401
from noetl.store.memory import MemoryStore


@pytest.fixture
def open_store() -> suites.OpenStore:
    return MemoryStore


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
