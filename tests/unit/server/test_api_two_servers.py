"""Two servers on one Postgres database: who follows, waits or asks may change from one to the other."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing
from itertools import cycle
from typing import Any

import httpx2
import msgspec
import pytest
from api_server import HELLO, ApiServer, begun, register, until
from tests.servers.postgres import Schema, postgres_fixture, store_schema_fixture  # noqa: F401

from noetl.runtime.audit import Audit
from noetl.store.postgres import PostgresStore

API = "/api/v1/executions"
ASKS = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: asks, path: tests/asks}
workflow:
  - step: ask
    tool: {kind: wait, signal: go}
    next: {arcs: [{step: many}]}
  - step: many
    loop: {in: "{{ range(30) | list }}", iterator: x, spec: {mode: parallel}}
    tool: {kind: noop, result: "{{ iter.x }}"}
    next: {arcs: [{step: ask, when: "{{ steps.ask.result != 'enough' }}"}]}
"""


@pytest.fixture
def database(store_schema: Schema) -> str:
    return store_schema.store_address


@pytest.fixture
def clients(database: str) -> Iterator[tuple[httpx2.Client, httpx2.Client]]:
    with ExitStack() as stack:
        servers = [stack.enter_context(closing(ApiServer(PostgresStore(database)))) for _ in range(2)]
        one, other = (stack.enter_context(server.client("admin")) for server in servers)
        other.headers["Authorization"] = one.headers["Authorization"]  # the same caller at both
        register(one, HELLO)
        register(one, ASKS)
        yield one, other
    with closing(PostgresStore(database)) as store:
        audit = Audit(store)
        assert [audit.of(run) for run in store.summaries()] == [[] for _ in store.summaries()]


def some_of(client: httpx2.Client, execution: str, seen: int, most: int) -> list[dict[str, Any]]:
    """Events of a stream behind one that was seen, until there are so many or the stream ends; then it is cut off."""
    result: list[dict[str, Any]] = []
    headers = {"Accept": "text/event-stream", "Last-Event-ID": str(seen)}
    with client.stream("GET", f"{API}/{execution}/events", headers=headers) as answer:
        if answer.status_code == 204:
            return []
        number = 0
        for line in answer.iter_lines():
            if line.startswith("id: "):
                number = int(line[4:])
            elif line.startswith('data: {"event_id'):
                result.append(msgspec.json.decode(line[6:]))
                assert result[-1]["seq"] == number
                if len(result) == most:
                    break
    return result


def test_a_stream_continues_at_another_server_without_gap_or_repeat(
    clients: tuple[httpx2.Client, httpx2.Client],
) -> None:
    """It is cut off after every few events, while both servers write to the log."""
    execution = begun(clients[0], {"path": "tests/asks"})

    def answer() -> None:
        for number, payload in enumerate(("more", "more", "enough")):
            body = {"name": "go", "id": str(number), "payload": payload}
            assert clients[number % 2].post(f"{API}/{execution}/signals", json=body).status_code == 202

    signals = threading.Thread(target=answer)
    signals.start()
    seen: list[dict[str, Any]] = []
    for client, most in zip(cycle(clients), cycle((1, 7, 3, 50, 2, 20)), strict=False):
        seen += some_of(client, execution, seen[-1]["seq"] if seen else 0, most)
        if seen[-1]["event_type"] == "playbook.processed":
            break
    signals.join()
    assert [event["seq"] for event in seen] == list(range(1, len(seen) + 1))
    for client in clients:
        assert some_of(client, execution, len(seen), 1) == []
        page = client.get(f"{API}/{execution}/events", params={"limit": 1000}).json()
        assert page["items"] == seen[:1000]
        assert until(client, execution, "succeeded")["events"] == len(seen)


def test_one_server_starts_and_the_other_is_asked(clients: tuple[httpx2.Client, httpx2.Client]) -> None:
    one, other = clients
    key = {"Idempotency-Key": "the same"}
    first = one.post(API, json={"path": "tests/hello"}, headers=key).json()["execution_id"]
    again = other.post(API, json={"path": "tests/hello"}, headers=key | {"Prefer": "wait=60"})
    assert (again.status_code, again.json()["execution_id"], again.json()["result"]) == (200, first, "hello world!")


def test_forks_are_made_at_either_server_once(clients: tuple[httpx2.Client, httpx2.Client]) -> None:
    one, other = clients
    source = begun(one, {"path": "tests/asks"})
    until(other, source, "waiting")
    key = {"Idempotency-Key": "a fork"}
    first = one.post(f"{API}/{source}/fork", json={}, headers=key).json()
    one.post(f"{API}/{source}/signals", json={"name": "note"})
    again = other.post(f"{API}/{source}/fork", json={}, headers=key).json()
    assert (again["execution_id"], again["source_seq"]) == (first["execution_id"], first["source_seq"])
    for execution in (source, first["execution_id"]):
        other.post(f"{API}/{execution}/signals", json={"name": "go", "payload": "enough"})
        assert until(one, execution, "succeeded")["steps"]["many"]["result"] == list(range(30))
    late = other.post(f"{API}/{source}/fork", json={}, headers=key)  # its source has ended
    assert (late.status_code, late.json()) == (202, first)
    body = other.get(f"{API}/{first['execution_id']}/explain", params={"step": "many"}).json()
    assert body["decisions"][-1]["reasons"][0]["values"] == {"steps.ask.result": "enough"}


def test_what_failed_at_one_server_is_retried_at_the_other(clients: tuple[httpx2.Client, httpx2.Client]) -> None:
    one, other = clients
    text = HELLO.replace("tests/hello", "tests/broken").replace("steps.start.result }}!", "1 / 0 }}")
    failed = one.post(API, json={"playbook": text}, headers={"Prefer": "wait=60"}).json()
    assert failed["status"] == "failed"
    body = {"playbook": text.replace("1 / 0", "1 + 1")}
    fork = other.post(f"{API}/{failed['execution_id']}/retry", json=body).json()
    result = until(one, fork["execution_id"], "succeeded", "failed")
    assert (result["result"], result["steps"]["start"]["runs"]) == (2, 1)
