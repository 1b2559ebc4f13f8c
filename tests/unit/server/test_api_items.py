"""The items of a loop: by status, with their errors and previews, and as a summary."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest
from api_server import ApiServer, begun, register, started, until

API = "/api/v1/executions"
LOOP = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: loop, path: tests/loop}
workload: {count: 700, bad: [411, 413]}
workflow:
  - step: start
    loop: {in: "{{ range(workload.count) | list }}", iterator: n, spec: {mode: parallel, on_error: continue}}
    tool:
      - work:
          kind: python
          args: {n: "{{ iter.n }}", bad: "{{ workload.bad }}"}
          code: |
            if n in bad:
                raise ValueError(f"no number {n}")
            result = n
"""
WAITS = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: asks, path: tests/asks}
workflow:
  - step: start
    loop: {in: [{id: a}, {id: b}, {id: c}], iterator: one, spec: {mode: sequential}}
    tool: [{ask: {kind: wait, signal: go}}]
"""
RETRIED = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: retried, path: tests/retried}
workflow:
  - step: start
    loop: {in: [0, 1], iterator: n, spec: {mode: sequential}}
    tool:
      - work:
          kind: python
          args: {n: "{{ iter.n }}", attempt: "{{ _attempt }}"}
          code: |
            import time
            time.sleep(0.2 * n)
            if attempt == 1:
                raise ValueError("once")
          spec:
            policy:
              rules:
                - when: "{{ outcome.status == 'error' and _attempt == 1 }}"
                  then: {do: retry, attempts: 2, delay: 0.3}
"""
STORED = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: stored, path: tests/stored}
workflow:
  - step: start
    tool: [{make: {kind: python, code: "result = [{'id': n, 'text': 'x' * 900} for n in range(300)]"}}]
    next: {arcs: [{step: each}]}
  - step: each
    loop: {in: "{{ steps.start.result }}", iterator: one, spec: {mode: parallel}}
    tool: [{a: {kind: noop}}]
"""


@pytest.fixture(scope="module", autouse=True)
def _registered(server: ApiServer) -> None:
    with server.client("author") as client:
        for text in (LOOP, WAITS, RETRIED, STORED):
            register(client, text)


@pytest.fixture(scope="module")
def loop(server: ApiServer) -> str:
    with server.client("admin") as client:
        execution = started(client, {"path": "tests/loop"})
        assert execution["events"] > 2_000
        return str(execution["execution_id"])


def items_of(client: httpx2.Client, execution: str, run: str = "start#1", **query: Any) -> dict[str, Any]:
    answer = client.get(f"{API}/{execution}/items", params={"run": run, **query})
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def test_the_failed_items_of_a_long_loop_are_found_at_once(admin: httpx2.Client, loop: str) -> None:
    page = items_of(admin, loop, status="failed")
    assert [(item["index"], item["status"], item["preview"]) for item in page["items"]] == [
        (411, "failed", "411"),
        (413, "failed", "413"),
    ]
    first = page["items"][0]
    assert first["error"]["kind"] == "python"
    assert "no number 411" in first["error"]["message"]
    assert first["attempts"] == 1
    assert first["duration_ms"] >= 0
    event = admin.get(f"{API}/{loop}/events", params={"after": first["seq"] - 1, "limit": 1}).json()["items"][0]
    assert (event["event_type"], event["iteration"]) == ("loop.iteration.failed", 411)
    assert (page["next"], page["scanned_to"]) == (None, None)


def test_pages_of_items_have_every_item_once(admin: httpx2.Client, loop: str) -> None:
    indexes, after = [], -1
    while after is not None:
        page = items_of(admin, loop, after=after, limit=200)
        indexes += [item["index"] for item in page["items"]]
        assert all(item["started"] and item["seq"] and item["preview"] == str(item["index"]) for item in page["items"])
        after = page["next"]
    assert indexes == list(range(700))
    assert items_of(admin, loop, after=699) == {"items": [], "next": None, "scanned_to": None}


def test_a_search_looks_at_previews_and_errors(admin: httpx2.Client, loop: str) -> None:
    result = items_of(admin, loop, q="No Number")
    assert [item["index"] for item in result["items"]] == [411, 413]
    assert (result["next"], result["scanned_to"]) == (None, 699)
    result = items_of(admin, loop, q="69", limit=3)
    assert [item["index"] for item in result["items"]] == [69, 169, 269]
    assert (result["next"], result["scanned_to"]) == (269, 269)
    rest = items_of(admin, loop, q="69", limit=100, after=269)
    assert [item["index"] for item in rest["items"]] == [369, 469, 569, 669, *range(690, 700)]


def test_a_summary_has_counts_errors_and_durations(admin: httpx2.Client, loop: str) -> None:
    summary = admin.get(f"{API}/{loop}/items/summary", params={"run": "start#1"}).json()
    assert {name: summary[name] for name in ("total", "ok", "failed", "running", "waiting", "remaining")} == {
        "total": 700, "ok": 698, "failed": 2, "running": 0, "waiting": 0, "remaining": 0,
    }  # fmt: skip
    assert [(error["count"], error["first"]) for error in summary["errors"]] == [(1, 411), (1, 413)]
    durations = summary["durations"]
    assert durations["p50"] <= durations["p95"] <= durations["max"]
    assert durations["max"] == summary["slowest"][0]["duration_ms"]
    assert sum(number["count"] for number in durations["bins"]) + durations["unknown"] == 700


def test_the_slowest_item_took_as_long_as_its_row_and_its_details_say(admin: httpx2.Client) -> None:
    """The report of its first call is stored long after the call began."""
    execution = started(admin, {"path": "tests/retried"})["execution_id"]
    summary = admin.get(f"{API}/{execution}/items/summary", params={"run": "start#1"}).json()
    assert [slow["index"] for slow in summary["slowest"]] == [1, 0]
    rows = {item["index"]: item["duration_ms"] for item in items_of(admin, execution)["items"]}
    assert {slow["index"]: slow["duration_ms"] for slow in summary["slowest"]} == rows
    for item, duration in rows.items():
        query = {"run": "start#1", "item": item}
        details = admin.get(f"{API}/{execution}/step-run", params=query).json()
        assert int(details["worked_ms"] + details["waited_ms"]) == duration


def test_items_wait_and_are_pending_while_the_loop_runs(admin: httpx2.Client) -> None:
    execution = begun(admin, {"path": "tests/asks"})
    until(admin, execution, "waiting")
    items = items_of(admin, execution)["items"]
    assert [(item["status"], item["preview"]) for item in items] == [
        ("waiting", '{"id":"a"}'),
        ("pending", '{"id":"b"}'),
        ("pending", '{"id":"c"}'),
    ]
    assert items[0]["duration_ms"] is None
    assert items[1] | {"preview": ""} == {
        "index": 1, "status": "pending", "preview": "", "started": None, "duration_ms": None, "attempts": 0,
        "error": None, "seq": None,
    }  # fmt: skip
    assert [item["index"] for item in items_of(admin, execution, status="pending", limit=1)["items"]] == [1]
    summary = admin.get(f"{API}/{execution}/items/summary", params={"run": "start#1"}).json()
    assert (summary["waiting"], summary["remaining"], summary["durations"]["p50"]) == (1, 2, None)
    assert admin.post(f"{API}/{execution}/cancel").status_code == 202


def test_a_loop_whose_items_all_wait_does_not_work(admin: httpx2.Client) -> None:
    execution = begun(admin, {"path": "tests/asks"})
    for _ in range(3):
        until(admin, execution, "waiting")
        outline = admin.get(f"{API}/{execution}/outline").json()
        assert outline["loops"][0]["waits"]["to_ms"][-1] == -1
        assert_later_events_do_not_lengthen_a_present_wait(admin, execution)
        assert admin.post(f"{API}/{execution}/signals", json={"name": "go"}).status_code == 202
    until(admin, execution, "succeeded")
    outline = admin.get(f"{API}/{execution}/outline").json()
    waits, waited = outline["loops"][0]["waits"], outline["runs"]["waited_ms"]
    assert waits["kind"] == ["external"] * 3
    lengths = [end - start for start, end in zip(waits["from_ms"], waits["to_ms"], strict=True)]
    assert waited["external"] == [sum(lengths)]
    assert all(length > 0 for length in lengths)
    details = admin.get(f"{API}/{execution}/step-run", params={"run": "start#1"}).json()
    assert details["waiting_since"] is None
    rounding = 2  # the outline has whole milliseconds
    assert abs(details["waited_ms"] - waited["worker"][0] - waited["external"][0]) <= rounding
    for item, length in enumerate(lengths):
        query = {"run": "start#1", "item": item}
        assert admin.get(f"{API}/{execution}/step-run", params=query).json()["waited_ms"] >= length - rounding


def assert_later_events_do_not_lengthen_a_present_wait(client: httpx2.Client, execution: str) -> None:
    """Of the loop, and of its item."""
    item = client.get(f"{API}/{execution}").json()["waits"][0]["item"]
    queries: list[dict[str, Any]] = [{"run": "start#1"}, {"run": "start#1", "item": item}]
    before = [client.get(f"{API}/{execution}/step-run", params=query).json() for query in queries]
    assert client.post(f"{API}/{execution}/signals", json={"name": "other"}).status_code == 202
    after = [client.get(f"{API}/{execution}/step-run", params=query).json() for query in queries]
    for name in ("worked_ms", "waited_ms", "waiting_since"):
        assert [details[name] for details in before] == [details[name] for details in after]
    assert None not in [details["waiting_since"] for details in after]


def test_items_that_were_retried_have_their_latest_status(admin: httpx2.Client, loop: str) -> None:
    changes = {"failed_items": True, "payload": {"bad": [413]}}
    answer = admin.post(f"{API}/{loop}/retry", json=changes, headers={"Prefer": "wait=60"})
    assert answer.status_code in (200, 202), answer.text
    fork = answer.json()["execution_id"]
    until(admin, fork, "succeeded")
    assert [item["index"] for item in items_of(admin, fork, status="failed")["items"]] == [413]
    (again,) = items_of(admin, fork, after=410, limit=1)["items"]
    assert (again["index"], again["status"], again["error"]) == (411, "ok", None)
    summary = admin.get(f"{API}/{fork}/items/summary", params={"run": "start#1"}).json()
    assert (summary["ok"], summary["failed"]) == (699, 1)
    assert [(error["count"], error["first"]) for error in summary["errors"]] == [(1, 413)]


def test_previews_of_a_stored_collection_are_read_in_parts_and_cut(admin: httpx2.Client) -> None:
    execution = started(admin, {"path": "tests/stored"})["execution_id"]
    items = items_of(admin, execution, "each#1", after=196, limit=4)["items"]
    assert [item["preview"][:20] for item in items] == [f'{{"id":{n},"text":"xxx'[:20] for n in range(197, 201)]
    assert all(len(item["preview"]) == 160 and item["preview"].endswith("…") for item in items)


@pytest.mark.parametrize("path", ["items", "items/summary"])
def test_a_run_without_items_is_not_found(admin: httpx2.Client, loop: str, path: str) -> None:
    unknown = "00000000-0000-7000-8000-000000000000"
    for execution, run in (
        (loop, "start#2"),
        (loop, "start#01"),
        (loop, "other#1"),
        (loop, "nonsense"),
        (unknown, "start#1"),
    ):
        answer = admin.get(f"{API}/{execution}/{path}", params={"run": run})
        assert answer.status_code == 404
        assert (run if execution == loop else unknown) in answer.json()["detail"]
    stored = started(admin, {"path": "tests/stored"})["execution_id"]
    answer = admin.get(f"{API}/{stored}/{path}", params={"run": "start#1"})
    assert answer.json()["detail"] == "step run 'start#1' has no loop"
    assert admin.get(f"{API}/{loop}/{path}").status_code == 422
