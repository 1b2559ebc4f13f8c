"""The log may be partitioned: its key begins with the execution, whose id begins with the time it was made at."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
from tests.servers.postgres import PooledStore, PostgresServer

from conformance import suites
from conformance.suites import store  # noqa: F401

pytestmark = pytest.mark.damaged_log("the rows are made up: this tests stores, not the engine")

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "sizing.md"
(PARTITION,) = re.findall(r"```sql\n(ALTER TABLE event .*?)```", PAGE.read_text("utf-8"), re.DOTALL)


@pytest.fixture
def open_store(postgres: PostgresServer) -> Iterator[suites.OpenStore]:
    with ExitStack() as stack:
        yield lambda: stack.enter_context(closing(PooledStore(postgres, PARTITION)))


class TestEventLog(suites.EventLogSuite): ...


class TestPrune(suites.PruneSuite): ...
