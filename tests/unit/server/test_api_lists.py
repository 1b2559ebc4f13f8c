"""Lists of executions through the API: what each item says, what can be asked for, and the counts."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest
from api_server import ELSEWHERE, HELLO, WAITS, ApiServer, begun, register, started, until
from tests.servers.patience import until as patiently

API = "/api/v1"
HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: NAME, path: lists/NAME}\nworkflow:\n"
FAILS = (
    HEAD.replace("NAME", "fails")
    + "  - {step: order, tool: {kind: python, code: 'raise ValueError(\"no such file\")'}}\n"
)
LOOP = HEAD.replace("NAME", "some") + (
    "  - step: fetch\n    loop: {in: [1, 0, 2], iterator: n, spec: {on_error: continue}}\n"
    "    tool: {kind: python, args: {n: '{{ iter.n }}'}, code: 'result = 1 / n'}\n"
)


@pytest.fixture(scope="module", autouse=True)
def runs(server: ApiServer) -> dict[str, str]:
    with server.client("admin") as client:
        for text in (HELLO, WAITS, ELSEWHERE, FAILS, LOOP):
            register(client, text)
        made = {
            name: started(client, {"path": name})["execution_id"]
            for name in ("tests/hello", "lists/fails", "lists/some")
        }
        made["tests/waits"] = begun(client, {"path": "tests/waits"})
        until(client, made["tests/waits"], "waiting")
        made["tests/elsewhere"] = begun(client, {"path": "tests/elsewhere"})
        return made


def listed(client: httpx2.Client, query: str = "") -> list[str]:
    answer = client.get(f"{API}/executions?{query}")
    assert answer.status_code == 200, answer.text
    return [item["path"] for item in answer.json()["items"]]


def item_of(client: httpx2.Client, execution: str) -> dict[str, Any]:
    (item,) = client.get(f"{API}/executions?prefix={execution}").json()["items"]
    result: dict[str, Any] = item
    return result


def test_an_item_says_what_failed_and_how_it_was_started(admin: httpx2.Client, runs: dict[str, str]) -> None:
    item = item_of(admin, runs["lists/fails"])
    assert item["activity"] == "order: python, ValueError: no such file (line 5 of lists/fails)"
    assert (item["error"]["kind"], item["error"]["step"]) == ("python", "order")
    assert item["trigger"] == {"kind": "api", "name": "admin"}
    events = admin.get(f"{API}/executions/{runs['lists/fails']}").json()["events"]
    assert (item["version"], item["local"], item["waits"], item["progress"], item["events"]) == (
        1,
        False,
        [],
        None,
        events,
    )


def test_an_item_counts_failed_items_of_loops(admin: httpx2.Client, runs: dict[str, str]) -> None:
    item = item_of(admin, runs["lists/some"])
    assert (item["status"], item["activity"], item["failed_items"]) == ("succeeded", "1 of 3 items failed", 1)
    assert item["progress"] == {"total": 3, "ok": 2, "failed": 1}


def test_an_item_says_what_it_waits_for(admin: httpx2.Client, runs: dict[str, str]) -> None:
    item = item_of(admin, runs["tests/waits"])
    assert item["activity"].startswith("waiting for signal go since 20")
    (wait,) = item["waits"]
    assert (wait["run"], wait["for"], wait["name"], wait["fields"]) == ("start#1", "signal", "go", [])


def test_work_of_a_pool_without_workers_is_a_wait_that_the_reader_adds(
    admin: httpx2.Client, runs: dict[str, str]
) -> None:
    item = item_of(admin, runs["tests/elsewhere"])
    (wait,) = item["waits"]
    assert item["activity"] == f"no worker is connected in pool 'elsewhere', waiting since {wait['since'][:19]}Z"
    assert [(wait["for"], wait["name"], wait["run"]) for wait in item["waits"]] == [("worker", "elsewhere", "start#1")]
    assert listed(admin, "waits=worker") == ["tests/elsewhere"]


def test_filters_select_executions(admin: httpx2.Client, runs: dict[str, str]) -> None:
    newest = ["tests/elsewhere", "tests/waits", "lists/some", "lists/fails", "tests/hello"]
    asked = {
        "": newest,
        "status=failed,waiting": ["tests/waits", "lists/fails"],
        "status=failed&status=waiting": ["tests/waits", "lists/fails"],
        "status=paused": [],
        "path=lists/*": ["lists/some", "lists/fails"],
        "path=lists/some": ["lists/some"],
        "waits=signal": ["tests/waits"],
        "waits=child": [],
        "q=ELSE": ["tests/elsewhere"],
        "q=sts/h": ["tests/hello"],
        f"q={runs['lists/fails'][:23]}": ["lists/fails"],
        "since=2020-01-01T00:00:00Z&until=2020-01-02T00:00:00Z": [],
        "until=2999-01-01T00:00:00Z&parent=none": newest,
    }
    assert {query: listed(admin, query) for query in asked} == asked


def test_pages_of_several_statuses_continue_where_they_ended(admin: httpx2.Client, runs: dict[str, str]) -> None:
    paths, cursor = [], ""
    while True:
        page = admin.get(f"{API}/executions?status=failed,waiting,succeeded&limit=2&cursor={cursor}").json()
        paths += [item["path"] for item in page["items"]]
        if page["next"] is None:
            break
        cursor = page["next"]
    assert paths == ["tests/waits", "lists/some", "lists/fails", "tests/hello"]


@pytest.mark.parametrize("query", ["status=broken", "status=failed,", "waits=nothing", "since=x", "name=a&name=b"])
def test_what_cannot_be_requested_is_refused(admin: httpx2.Client, query: str) -> None:
    assert admin.get(f"{API}/executions?{query}").status_code == 422


def test_a_list_that_has_not_changed_is_not_sent_again(admin: httpx2.Client, runs: dict[str, str]) -> None:
    first = admin.get(f"{API}/executions?parent=none")
    same = admin.get(f"{API}/executions?parent=none", headers={"If-None-Match": first.headers["etag"]})
    assert (same.status_code, same.content, same.headers["etag"]) == (304, b"", first.headers["etag"])
    other = admin.get(f"{API}/executions?parent=none&limit=2", headers={"If-None-Match": first.headers["etag"]})
    assert other.status_code == 200


def test_executions_are_counted_by_status(admin: httpx2.Client, runs: dict[str, str]) -> None:
    none = dict.fromkeys(
        ("pending", "running", "waiting", "paused", "cancelling", "succeeded", "failed", "cancelled"), 0
    )
    counts = admin.get(f"{API}/executions/counts").json()
    assert counts == none | {"running": 1, "waiting": 1, "succeeded": 2, "failed": 1}
    assert admin.get(f"{API}/executions/counts?path=lists/*&parent=none").json() == none | {"succeeded": 1, "failed": 1}
    assert admin.get(f"{API}/executions/counts?since=2999-01-01T00:00:00Z").json() == none


def test_a_list_has_the_progress_of_the_state_in_memory(server: ApiServer, admin: httpx2.Client) -> None:
    """Progress is stored once a second at most; the server that runs it knows more."""
    text = HEAD.replace("NAME", "slow") + (
        "  - step: each\n    loop: {in: [1, 2, 3], iterator: n}\n"
        "    tool: [{a: {kind: noop}}, {b: {kind: wait, signal: go, spec: {timeout: 60}}}]\n"
    )
    execution = started_waiting(admin, text)
    item = item_of(admin, execution)
    assert item["events"] == admin.get(f"{API}/executions/{execution}").json()["events"]
    assert (item["progress"], item["waits"][0]["item"]) == ({"total": 3, "ok": 0, "failed": 0}, 0)
    admin.post(f"{API}/executions/{execution}/cancel", json={"reason": "enough"})
    until(admin, execution, "cancelled")
    assert item_of(admin, execution)["activity"] == "cancelled by token admin: enough"


def started_waiting(client: httpx2.Client, text: str) -> str:
    register(client, text)
    execution = begun(client, {"path": "lists/slow"})
    until(client, execution, "waiting")
    return execution


def test_an_execution_says_what_it_waits_for(admin: httpx2.Client, runs: dict[str, str]) -> None:
    waiting = admin.get(f"{API}/executions/{runs['tests/waits']}").json()
    assert waiting["activity"].startswith("waiting for signal go since 20")
    assert [(wait["for"], wait["name"]) for wait in waiting["waits"]] == [("signal", "go")]
    assert (waiting["trigger"], waiting["local"], waiting["source"]) == ({"kind": "api", "name": "admin"}, False, None)
    elsewhere = admin.get(f"{API}/executions/{runs['tests/elsewhere']}").json()
    assert elsewhere["activity"].startswith("no worker is connected in pool 'elsewhere', waiting since 20")
    assert [wait["for"] for wait in elsewhere["waits"]] == ["worker"]
    explained = admin.get(f"{API}/executions/{runs['tests/elsewhere']}/explain?step=start").json()
    ready = "start#1 is ready for a worker of the pool elsewhere"
    assert explained["stands"] == [ready, "no worker is connected in pool 'elsewhere'"]
    earlier = admin.get(f"{API}/executions/{runs['tests/elsewhere']}/explain?step=start&at=4").json()
    assert "no worker is connected in pool 'elsewhere'" not in earlier["stands"]


def test_related_executions_are_found(admin: httpx2.Client, runs: dict[str, str]) -> None:
    parent = HEAD.replace("NAME", "parent") + (
        "  - {step: a, loop: {in: [1, 2, 3], iterator: n}, tool: {kind: playbook, path: tests/hello}}\n"
    )
    register(admin, parent)
    execution = started(admin, {"path": "lists/parent"})["execution_id"]
    about = admin.get(f"{API}/executions/{execution}/related?limit=2").json()
    assert (about["parent"], about["source"], about["forks"]) == (None, None, [])
    rest = admin.get(f"{API}/executions/{execution}/related?after={about['children']['next']}").json()["children"]
    children = [*about["children"]["items"], *rest["items"]]
    assert ([child["parent"] for child in children], rest["next"]) == ([execution] * 3, None)
    child = admin.get(f"{API}/executions/{children[0]['execution_id']}/related").json()
    assert child["parent"]["execution_id"] == execution
    retried = admin.post(f"{API}/executions/{runs['lists/fails']}/retry", json={}, headers={"Prefer": "wait=10"})
    (fork,) = admin.get(f"{API}/executions/{runs['lists/fails']}/related").json()["forks"]
    assert (fork["execution_id"], fork["trigger"]["kind"]) == (retried.json()["execution_id"], "fork")
    details = admin.get(f"{API}/executions/{fork['execution_id']}").json()
    assert details["forked_from"]["execution_id"] == runs["lists/fails"]
    assert (details["forked_from"]["reason"], details["version"], details["payload"]) == ("retry", 1, {})
    above = admin.get(f"{API}/executions/{execution}").json()
    assert (above["children"], above["forks"], above["forked_from"]) == (3, 0, None)
    source = admin.get(f"{API}/executions/{fork['execution_id']}/related").json()["source"]
    assert source["execution_id"] == runs["lists/fails"]
    assert admin.get(f"{API}/executions/{'0' * 8}-0000-7000-8000-{'0' * 12}/related").status_code == 404


def test_a_list_that_has_a_next_page_now_is_sent_again(admin: httpx2.Client, runs: dict[str, str]) -> None:
    register(admin, HELLO.replace("tests/hello", "lists/more"))
    ids = [begun(admin, {"path": "lists/more"}) for _ in range(2)]
    for execution in ids:
        until(admin, execution, "succeeded")
    url, since = f"{API}/executions?path=lists/more&limit=1", item_of(admin, ids[1])["started"]
    first = admin.get(url, params={"since": since})
    assert first.json()["next"] is None
    other = admin.get(url, headers={"If-None-Match": first.headers["etag"]})
    assert (other.status_code, other.json()["items"][0]["execution_id"]) == (200, ids[1])
    assert other.json()["next"] is not None


def test_children_are_filtered_by_their_waits(admin: httpx2.Client) -> None:
    text = HEAD.replace("NAME", "family") + (
        "  - step: a\n"
        "    loop: {in: [tests/waits, tests/elsewhere, tests/hello], iterator: p, spec: {mode: parallel}}\n"
        "    tool: {kind: playbook, path: '{{ iter.p }}'}\n"
    )
    parent = begun(admin, {"playbook": text})
    children = f"parent={parent}"
    patiently(lambda: listed(admin, f"{children}&status=succeeded") == ["tests/hello"])
    patiently(lambda: listed(admin, f"{children}&waits=signal") == ["tests/waits"])
    assert listed(admin, f"{children}&waits=worker") == ["tests/elsewhere"]
    assert listed(admin, f"{children}&waits=timer") == []
    (waiting,) = admin.get(f"{API}/executions?{children}&waits=signal").json()["items"]
    assert listed(admin, f"waits=signal&q={waiting['execution_id'][:23]}") == ["tests/waits"]
    assert listed(admin, f"waits=worker&q={waiting['execution_id'][:23]}") == []
    admin.post(f"{API}/executions/{parent}/cancel", json={})
    until(admin, parent, "cancelled")
