"""The log may be partitioned: its key begins with the execution, whose id begins with the time it was made at."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest
from tests.servers.postgres import Schema

from conformance import suites
from conformance.suites import store  # noqa: F401
from noetl.store.postgres import PostgresStore

pytestmark = pytest.mark.damaged_log("the rows are made up: this tests stores, not the engine")

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "sizing.md"
(PARTITION,) = re.findall(r"```sql\n(ALTER TABLE event .*?)```", PAGE.read_text("utf-8"), re.DOTALL)


@pytest.fixture
def open_store(database: str, schema: Schema) -> Iterator[suites.OpenStore]:
    opened: list[PostgresStore] = []
    numbers = count()

    def open_new() -> PostgresStore:
        opened.append(PostgresStore(f"{database}_{next(numbers)}"))
        name = opened[-1].address.schema
        schema.rows(f"SET search_path TO {name}; {PARTITION} RESET search_path")
        return opened[-1]

    yield open_new
    for one in opened:
        one.close()
        schema.rows(f"DROP SCHEMA {one.address.schema} CASCADE")


class TestEventLog(suites.EventLogSuite): ...


class TestPrune(suites.PruneSuite): ...
