"""The export of an execution: everything that is stored of it, sent part by part."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator

import httpx2
import msgspec
import pytest
from api_server import HELLO, WAITS, ApiServer, begun, register, started, until

from noetl.reference import Reference
from noetl.results.read import read_value
from noetl.runtime.export import FIELDS

API = "/api/v1"
LOOP = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: many, path: tests/many}
workflow:
  - step: start
    loop: {in: "{{ range(300) }}", iterator: n, spec: {mode: parallel, max_in_flight: 50}}
    tool: {kind: noop, result: "{{ [iter.n, 'x' * 1000] }}"}
"""


@pytest.fixture
def author(on_disk: ApiServer) -> Iterator[httpx2.Client]:
    with on_disk.client("author") as client:
        yield client


def test_an_export_has_everything_of_an_execution(on_disk: ApiServer, author: httpx2.Client) -> None:
    register(author)
    record = started(author, {"path": "tests/hello"})
    execution = record["execution_id"]

    async def write() -> None:
        lines = [(execution, "start#1/t#1", 1.5, "stdout", f"line {n} ü") for n in range(250)]
        await on_disk.app.api.thread.ask(on_disk.store.append_output, lines)

    on_disk.do(write())
    with on_disk.client("viewer") as viewer:
        answer = viewer.get(f"{API}/executions/{execution}/export")
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["content-disposition"] == f'attachment; filename="{execution}.json"'
    assert answer.headers["content-security-policy"] == "sandbox"
    export = answer.json()
    assert list(export) == ["execution", "playbook", "events", "logs", "results"]
    assert export["execution"] == {name: record[name] for name in FIELDS}
    assert export["playbook"]["text"] == HELLO
    assert export["events"] == author.get(f"{API}/executions/{execution}/events?limit=1000").json()["items"]
    assert export["logs"] == author.get(f"{API}/executions/{execution}/logs").json()["items"]
    assert export["results"] == {}


def test_an_export_has_no_text_that_is_not_registered(author: httpx2.Client) -> None:
    execution = started(author, {"playbook": HELLO.replace("tests/hello", "tests/secret")})["execution_id"]
    assert author.get(f"{API}/executions/{execution}/export").json()["playbook"] is None


def test_an_export_has_all_chunks_of_a_loop(author: httpx2.Client) -> None:
    execution = started(author, {"playbook": LOOP})["execution_id"]
    export = author.get(f"{API}/executions/{execution}/export").json()
    reference = Reference(**export["execution"]["result"])
    assert reference.schema_hint == "chunks"
    contents = {key: msgspec.json.encode(value, order="sorted") for key, value in export["results"].items()}
    assert [item[0] for item in read_value(contents.get, reference)] == list(range(300))


def test_an_open_execution_is_exported_up_to_its_latest_event(author: httpx2.Client) -> None:
    execution = begun(author, {"playbook": WAITS})
    until(author, execution, "waiting")
    export = author.get(f"{API}/executions/{execution}/export").json()
    assert export["execution"]["status"] == "waiting"
    assert len(export["events"]) == export["execution"]["events"]
    author.post(f"{API}/executions/{execution}/cancel")


def test_a_long_export_is_sent_without_holding_it(on_disk: ApiServer, author: httpx2.Client) -> None:
    execution = started(author, {"playbook": HELLO})["execution_id"]

    async def write() -> None:
        lines = [(execution, "start#1/t#1", 1.5, "stdout", "x" * 1_000)] * 20_000
        await on_disk.app.api.thread.ask(on_disk.store.append_output, lines)

    on_disk.do(write())
    size = 0
    tracemalloc.start()  # the server runs in this process
    try:
        with author.stream("GET", f"{API}/executions/{execution}/export") as answer:
            for part in answer.iter_raw():
                size += len(part)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert size > 20_000_000
    assert peak < 8_000_000


def test_an_execution_that_is_missing(author: httpx2.Client) -> None:
    assert author.get(f"{API}/executions/01890000-0000-7000-8000-000000000000/export").status_code == 404
