"""An execution that was pruned is gone for every route, also for one that has read it before, or is reading it."""

from __future__ import annotations

from itertools import count
from typing import Any

import httpx2
import pytest
from api_server import HELLO, ApiServer, register, started

API = "/api/v1/executions"
LOOP = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: loop, path: tests/pruned}
workflow:
  - step: start
    loop: {in: "{{ range(400) }}", iterator: n, spec: {mode: parallel}}
    tool: {kind: noop}
"""
READS = (
    "",
    "/outline",
    "/live",
    "/events",
    "/events?view=row",
    "/state",
    "/state?at=5",
    "/explain?step=start",
    "/logs",
    "/export",
    "/related",
    "/items?run=start%231",
    "/items/summary?run=start%231",
    "/step-runs",
    "/step-run?run=start%231",
)


@pytest.fixture(scope="module", autouse=True)
def _registered(server: ApiServer) -> None:
    with server.client("author") as client:
        for text in (HELLO, LOOP):
            register(client, text)


def statuses(client: httpx2.Client, execution: str) -> dict[str, int]:
    return {read: client.get(f"{API}/{execution}{read}").status_code for read in READS}


def test_nothing_of_a_pruned_execution_is_answered_from_memory(server: ApiServer, admin: httpx2.Client) -> None:
    execution = started(admin, {"path": "tests/pruned"})
    assert execution["events"] > 1_000  # so that its index is kept
    assert set(statuses(admin, execution["execution_id"]).values()) == {200}
    server.clock.offset += 10
    assert admin.post(f"{API}/prune", json={"older_than": 1}).json()["removed"]
    assert set(statuses(admin, execution["execution_id"]).values()) == {404}


@pytest.mark.parametrize(("method", "read"), [("summaries", "/outline"), ("summaries", "/related"), ("read", "/state")])
def test_an_execution_that_is_pruned_while_it_is_read_is_not_found(
    server: ApiServer, admin: httpx2.Client, monkeypatch: pytest.MonkeyPatch, method: str, read: str
) -> None:
    execution = started(admin, {"path": "tests/hello"})["execution_id"]

    def nothing(*_: Any, **__: Any) -> list[Any]:
        return []

    with monkeypatch.context() as patch:
        patch.setattr(server.store, method, nothing)
        answer = admin.get(f"{API}/{execution}{read}")
    assert (answer.status_code, answer.json()["detail"]) == (404, f"execution {execution!r} not found")


@pytest.mark.parametrize("read", ["/step-runs", "/step-run?run=start%231", "/outline", "/explain?step=end", "/live"])
def test_an_execution_may_be_pruned_between_any_two_queries(
    server: ApiServer, admin: httpx2.Client, monkeypatch: pytest.MonkeyPatch, read: str
) -> None:
    store, statuses = server.store, []
    for number in range(1, 30):
        execution = started(admin, {"path": "tests/hello"})["execution_id"]
        queries = count(1)

        def pruning(name: str, ask: Any, *, queries: Any = queries, number: int = number) -> Any:
            def answer(*arguments: Any, **options: Any) -> Any:
                if next(queries) == number:
                    store.prune(1e12, 1_000)
                return ask(*arguments, **options)

            return answer

        with monkeypatch.context() as patch:
            for name in ("read", "seq", "summaries", "snapshot"):
                patch.setattr(store, name, pruning(name, getattr(store, name)))
            statuses.append(admin.get(f"{API}/{execution}{read}").status_code)
        if next(queries) <= number:
            break
    assert statuses[0] in (200, 404)
    assert set(statuses) <= {200, 404}
    assert statuses[-1] == 200
