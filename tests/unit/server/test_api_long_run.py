"""The past of a long run over the API, on both databases: outlines and snapshots save time, and change no answer."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import apsw
import httpx2
import pytest
from bench.long_run import fill
from shared_store import address_of, server_at
from tests.servers.postgres import Schema, postgres_fixture, store_schema_fixture  # noqa: F401

from noetl.model.identity import uuid7
from noetl.store.open import open_store

EXECUTION = uuid7(1.0, b"12345678")
API = f"/api/v1/executions/{EXECUTION}"
EVENTS = 33_000
REQUESTS = (
    "/outline",
    "/state?at=3",
    "/state?at=12345",
    f"/state?at={EVENTS - 40}",
    "/explain?step=first",
    "/explain?step=many&limit=3",
    "/explain?step=last",
    "/items?run=many%231&after=4000&limit=20",
    "/items?run=many%231&status=failed",
    "/items/summary?run=many%231",
    "/step-runs",
    "/step-run?run=last%231",
    "/step-run?run=many%231",
    "/step-run?run=many%231&item=5000",
    "/events?view=row&after=20000&limit=50",
    "/events?run=last%231",
    "/events?run=many%231&item=5000&view=row",
)


def answers(address: str) -> dict[str, Any]:
    with closing(server_at(address)) as server, server.client("viewer") as client:
        return {request: _answer(client, request) for request in REQUESTS}


def _answer(client: httpx2.Client, request: str) -> Any:
    answer = client.get(API + request)
    assert answer.status_code == 200, (request, answer.text)
    return answer.json()


def forget(request: pytest.FixtureRequest, address: str) -> None:
    """Delete every block and every snapshot."""
    for table in ("outline", "snapshot"):
        if address.startswith("postgresql:"):
            schema: Schema = request.getfixturevalue("store_schema")
            schema.rows(f"DELETE FROM {table}")
        else:
            with closing(apsw.Connection(address)) as connection:
                connection.execute(f"DELETE FROM {table}")


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_without_outline_and_snapshots_every_answer_is_the_same(
    request: pytest.FixtureRequest, kind: str, tmp_path: Path
) -> None:
    address = address_of(request, kind, tmp_path)
    with closing(open_store(address)) as store:
        assert fill(store, EVENTS, EXECUTION) >= EVENTS - 100
        blocks = store.outline(EXECUTION)
        assert len(blocks) == store.seq(EXECUTION) // 1_000
        assert store.snapshot(EXECUTION) is not None
    before = answers(address)
    forget(request, address)
    assert answers(address) == before
    with closing(open_store(address)) as store:
        assert store.outline(EXECUTION) == blocks
