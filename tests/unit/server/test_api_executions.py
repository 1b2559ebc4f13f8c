"""Executions through the API: started, looked at, spoken to."""

from __future__ import annotations

import threading
from typing import Any

import httpx2
import pytest
from api_server import ELSEWHERE, HELLO, WAITS, WRONG, ApiServer, begun, register, started, until

API = "/api/v1"


@pytest.fixture(scope="module", autouse=True)
def _registered(server: ApiServer) -> None:
    with server.client("author") as client:
        for text in (HELLO, WAITS, ELSEWHERE):
            register(client, text)


# -- starting -------------------------------------------------------------------------------------------------------


def test_started_it_is_accepted_and_found_at_its_location(admin: httpx2.Client) -> None:
    answer = admin.post(f"{API}/executions", json={"path": "tests/hello"})
    assert answer.status_code == 202
    assert set(answer.json()) == {"execution_id", "warnings"}
    assert answer.headers["location"] == f"{API}/executions/{answer.json()['execution_id']}"
    result = until(admin, answer.json()["execution_id"], "succeeded")
    assert (result["result"], result["path"], result["events"] > 5) == ("hello world!", "tests/hello", True)


def test_who_prefers_to_wait_gets_the_execution(admin: httpx2.Client) -> None:
    result = started(admin, {"path": "tests/hello", "payload": {"name": "moon"}})
    assert (result["status"], result["result"], result["error"]) == ("succeeded", "hello moon!", None)
    about = {"status": "succeeded", "runs": 1, "result": "hello moon", "error": None, "items": None}
    assert result["steps"]["start"] == about
    assert (result["tokens"], result["progress"], result["running"], result["waiting"]) == ([], {}, [], [])
    assert result["started"].endswith("Z")


def test_the_awaited_execution_is_the_one_that_a_get_returns(admin: httpx2.Client) -> None:
    request = {"path": "tests/hello", "payload": {"name": "moon"}}
    answer = admin.post(f"{API}/executions", json=request, headers={"Prefer": "wait=60"})
    assert answer.status_code == 200, answer.text
    shown = admin.get(answer.headers["location"])
    assert (answer.json(), answer.headers["etag"]) == (shown.json(), shown.headers["etag"])
    details = {name: answer.json()[name] for name in ("version", "payload", "forked_from", "children", "forks")}
    assert details == {"version": 1, "payload": {"name": "moon"}, "forked_from": None, "children": 0, "forks": 0}


def test_a_wait_that_is_over_leaves_it_running(admin: httpx2.Client) -> None:
    answer = admin.post(f"{API}/executions", json={"path": "tests/waits"}, headers={"Prefer": "wait=1"})
    assert answer.status_code == 202
    assert answer.headers["preference-applied"] == "wait=1"
    until(admin, answer.json()["execution_id"], "waiting")


def test_a_text_runs_without_being_registered(admin: httpx2.Client) -> None:
    text = HELLO.replace("tests/hello", "tests/inline")
    assert started(admin, {"playbook": text})["result"] == "hello world!"
    assert admin.get(f"{API}/playbooks/tests/inline").status_code == 404


def test_a_path_in_place_of_a_text_gets_the_right_field(admin: httpx2.Client) -> None:
    answer = admin.post(f"{API}/executions", json={"playbook": "tests/hello"})
    assert answer.status_code == 422
    assert answer.json()["detail"].endswith("to start a registered one, use `path`: tests/hello")


def test_a_version_of_an_unknown_playbook_is_an_unknown_playbook(admin: httpx2.Client) -> None:
    missing = admin.post(f"{API}/executions", json={"path": "tests/nobody", "version": 3}).json()["detail"]
    assert missing.startswith("playbook 'tests/nobody' not found")
    version = admin.post(f"{API}/executions", json={"path": "tests/hello", "version": 99}).json()["detail"]
    assert version.startswith("version 99 of playbook 'tests/hello' not found")


def test_a_missing_credential_is_a_problem_of_its_own(admin: httpx2.Client) -> None:
    text = HELLO.replace("workflow:", "keychain: [{name: db, kind: bearer}]\nworkflow:")
    answer = admin.post(f"{API}/executions", json={"playbook": text})
    assert (answer.status_code, answer.json()["type"]) == (422, "urn:noetl:problem:credential")
    assert "`noetl credential set db --kind bearer`" in answer.json()["detail"]


def test_a_digest_names_a_playbook(admin: httpx2.Client) -> None:
    digest = register(admin)["playbook_id"]
    assert started(admin, {"playbook_id": digest})["playbook_id"] == digest


NEEDS = HELLO.replace("tests/hello", "tests/needs").replace("{{ workload.name }}", "{{ region }}")


def test_a_name_that_nothing_provides_is_refused_with_its_place(admin: httpx2.Client) -> None:
    assert register(admin, NEEDS)["path"] == "tests/needs"
    before = [item["execution_id"] for item in admin.get(f"{API}/executions").json()["items"]]
    answer = admin.post(f"{API}/executions", json={"path": "tests/needs", "payload": {"name": "x"}})
    assert answer.status_code == 422
    (problem,) = answer.json()["problems"]
    assert (problem["line"], problem["column"], problem["code"]) == (7, 42, "NTL502")
    assert "'region'" in problem["message"]
    assert [item["execution_id"] for item in admin.get(f"{API}/executions").json()["items"]] == before
    assert started(admin, {"path": "tests/needs", "payload": {"region": "eu"}})["result"] == "hello eu!"
    assert started(admin, {"path": "tests/needs", "ctx": {"region": "us"}})["result"] == "hello us!"


def test_a_key_that_nothing_reads_is_a_warning_of_the_answer_and_of_the_log(admin: httpx2.Client) -> None:
    request = {"path": "tests/hello", "payload": {"nmae": "moon", "name": 5}}
    answer = admin.post(f"{API}/executions", json=request, headers={"Idempotency-Key": "unread"})
    again = admin.post(f"{API}/executions", json=request, headers={"Idempotency-Key": "unread"})
    assert (answer.status_code, again.json()) == (202, answer.json())
    unread, mistyped = answer.json()["warnings"]
    assert unread == "workload has no 'nmae': did you mean 'name'?"
    assert "'name' must be text like its default in `workload`, but is a number" in mistyped
    execution = answer.json()["execution_id"]
    assert until(admin, execution, "succeeded")["warnings"] == [unread, mistyped]
    events = admin.get(f"{API}/executions/{execution}/events").json()["items"]
    (evaluated,) = [event for event in events if event["event_type"] == "playbook.request.evaluated"]
    assert evaluated["payload"]["warnings"] == [unread, mistyped]


def test_a_schema_of_the_workload_decides(admin: httpx2.Client) -> None:
    schema = "executor: {spec: {schema: {workload: {properties: {name: {type: [string, number], maxLength: 4}}}}}}\n"
    text = HELLO.replace("workload:", f"{schema}workload:").replace("tests/hello", "tests/schema")
    assert started(admin, {"playbook": text, "payload": {"name": 5}, "strict_keys": ["name"]})["result"] == "hello 5!"
    answer = admin.post(f"{API}/executions", json={"playbook": text, "payload": {"name": "too long"}})
    assert (answer.status_code, "name: the value is longer than 4" in answer.json()["detail"]) == (422, True)


def test_a_request_may_be_yaml(admin: httpx2.Client) -> None:
    headers = {"Content-Type": "application/yaml; charset=utf-8", "Prefer": "wait=20"}
    text = "# by hand\npath: tests/hello\npayload:\n  name: moon\n"
    assert admin.post(f"{API}/executions", content=text, headers=headers).json()["result"] == "hello moon!"
    for body, status, part in (
        ("path: [", 400, "line 1"),
        ("pth: x", 422, "pth"),
        ("- 1", 422, "object"),
        ("", 422, ""),
    ):
        answer = admin.post(f"{API}/executions", content=body, headers=headers)
        assert (answer.status_code, part in answer.json()["detail"]) == (status, True), answer.text


@pytest.mark.parametrize(("payload", "key"), [({"nmae": "moon"}, "nmae"), ({"name": [1]}, "name")])
def test_strict_keys_are_refused_instead(admin: httpx2.Client, payload: dict[str, Any], key: str) -> None:
    request = {"path": "tests/hello", "payload": payload, "strict_keys": [key]}
    answer = admin.post(f"{API}/executions", json=request)
    assert (answer.status_code, f"'{key}'" in answer.json()["detail"]) == (422, True)


def test_operators_start_what_is_registered_and_no_drafts(server: ApiServer, admin: httpx2.Client) -> None:
    registered = register(admin)["playbook_id"]
    draft = started(admin, {"playbook": HELLO.replace("hello {{", "draft {{")})["playbook_id"]
    with server.client("operator") as operator, server.client("author") as author:
        assert operator.post(f"{API}/executions", json={"playbook_id": registered}).status_code == 202
        refused = operator.post(f"{API}/executions", json={"playbook_id": draft})
        unknown = operator.post(f"{API}/executions", json={"playbook_id": "0" * 64})
        assert (refused.status_code, unknown.status_code) == (404, 404)
        assert refused.json()["detail"].replace(draft, "") == unknown.json()["detail"].replace("0" * 64, "")
        assert author.post(f"{API}/executions", json={"playbook_id": draft}).status_code == 202


def test_request_ctx_is_there_from_the_start(admin: httpx2.Client) -> None:
    assert started(admin, {"path": "tests/hello", "ctx": {"a": [1]}})["ctx"] == {"a": [1]}


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        ({}, 422),
        ({"path": "tests/hello", "playbook": HELLO}, 422),
        ({"path": "tests/none"}, 404),
        ({"path": "tests/hello", "version": 99}, 404),
        ({"path": "tests/\0"}, 404),
        ({"playbook_id": "f" * 64}, 404),
        ({"playbook_id": "\0"}, 404),
        ({"playbook_id": "f" * 64, "version": 1}, 422),
        ({"path": "tests/hello", "payload": [1]}, 422),
        ({"path": "tests/hello", "pay": {}}, 422),
        ({"playbook": WRONG}, 422),
    ],
)
def test_what_cannot_be_started_is_a_problem(admin: httpx2.Client, request_: dict[str, Any], status: int) -> None:
    answer = admin.post(f"{API}/executions", json=request_)
    assert (answer.status_code, answer.headers["content-type"]) == (status, "application/problem+json")
    assert answer.json()["status"] == status


def test_operators_start_what_is_registered_and_no_texts(server: ApiServer) -> None:
    with server.client("operator") as client:
        assert started(client, {"path": "tests/hello"})["status"] == "succeeded"
        assert client.post(f"{API}/executions", json={"playbook": HELLO}).status_code == 403


def test_bad_json_is_told_from_json_of_a_bad_shape(admin: httpx2.Client) -> None:
    headers = {"Content-Type": "application/json"}
    assert admin.post(f"{API}/executions", content=b"{", headers=headers).status_code == 400
    assert admin.post(f"{API}/executions", content=b'"text"', headers=headers).status_code == 422
    assert admin.post(f"{API}/executions", content=b'{"path": "\\ud800"}', headers=headers).status_code in (400, 404)


# -- once -----------------------------------------------------------------------------------------------------------


def test_the_same_key_starts_once(admin: httpx2.Client) -> None:
    headers = {"Idempotency-Key": "one"}
    ids = [admin.post(f"{API}/executions", json={"path": "tests/hello"}, headers=headers) for _ in range(3)]
    assert len({answer.json()["execution_id"] for answer in ids}) == 1
    waited = admin.post(f"{API}/executions", json={"path": "tests/hello"}, headers=headers | {"Prefer": "wait=60"})
    assert (waited.status_code, waited.json()["execution_id"]) == (200, ids[0].json()["execution_id"])


def test_the_same_key_with_another_content_is_refused(admin: httpx2.Client) -> None:
    headers = {"Idempotency-Key": "two"}
    admin.post(f"{API}/executions", json={"path": "tests/hello"}, headers=headers)
    answer = admin.post(f"{API}/executions", json={"path": "tests/waits"}, headers=headers)
    assert answer.status_code == 422
    assert answer.json()["type"] == "urn:noetl:problem:idempotency-key-reused"


def test_keys_of_others_are_others(server: ApiServer, admin: httpx2.Client) -> None:
    headers = {"Idempotency-Key": "three"}
    mine = admin.post(f"{API}/executions", json={"path": "tests/hello"}, headers=headers).json()
    with server.client("author") as client:
        assert client.post(f"{API}/executions", json={"path": "tests/hello"}, headers=headers).json() != mine


def test_requests_with_a_key_that_come_together_start_once(server: ApiServer) -> None:
    result: list[str] = []

    def ask() -> None:
        with server.client("admin") as client:
            headers = {"Idempotency-Key": "together"}
            result.append(client.post(f"{API}/executions", json={"path": "tests/waits"}, headers=headers).text)

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(result)) == 1


def test_what_was_remembered_and_never_started_is_started(server: ApiServer, admin: httpx2.Client) -> None:
    """A server died between the two."""
    from hashlib import sha256

    import msgspec

    execution, content = "01890000-0000-7000-8000-00000000000a", b'{"path":"tests/hello"}'
    scope = f"executions token:{server.ids['admin']}"
    server.store.remember(scope, "died", msgspec.json.encode([execution, sha256(content).hexdigest()]))
    headers = {"Idempotency-Key": "died", "Content-Type": "application/json"}
    answer = admin.post(f"{API}/executions", content=content, headers=headers)
    assert answer.json() == {"execution_id": execution, "warnings": []}
    until(admin, execution, "succeeded")


# -- looking --------------------------------------------------------------------------------------------------------


def test_lists_go_page_by_page_newest_first(admin: httpx2.Client) -> None:
    made = [started(admin, {"path": "tests/hello"})["execution_id"] for _ in range(5)]
    seen: list[str] = []
    cursor = ""
    while len(seen) < 5:
        query = {"path": "tests/hello", "status": "succeeded", "limit": 2} | ({"cursor": cursor} if cursor else {})
        page = admin.get(f"{API}/executions", params=query).json()
        seen += [item["execution_id"] for item in page["items"]]
        cursor = page["next"]
    assert seen[:5] == made[::-1]
    assert admin.get(f"{API}/executions", params={"prefix": made[0]}).json()["items"][0]["execution_id"] == made[0]


def test_a_waiting_execution_says_for_what_and_the_command_that_answers_it(admin: httpx2.Client) -> None:
    execution = begun(admin, {"path": "tests/waits"})
    (wait,) = until(admin, execution, "waiting")["waiting"]
    assert (wait["kind"], wait["names"], wait["until"]) == ("signal", ["go"], None)
    assert wait["commands"] == [f"noetl runs signal {execution} go"]


@pytest.mark.parametrize(
    "query", ["cursor=x", "parent=x", "since=yesterday", "since=2026-01-01", "prefix=0&parent=none"]
)
def test_a_filter_that_makes_no_sense_is_refused(admin: httpx2.Client, query: str) -> None:
    assert admin.get(f"{API}/executions?{query}").status_code == 422


@pytest.mark.parametrize("query", ["status=done", "limit=0", "limit=1001", "limit=x", "limit=1&limit=2", "what=1"])
def test_a_query_that_makes_no_sense_is_refused(admin: httpx2.Client, query: str) -> None:
    assert admin.get(f"{API}/executions?{query}").status_code == 422


@pytest.mark.parametrize("part", ["", "/events", "/state", "/vars", "/logs"])
def test_an_execution_that_is_missing_is_not_found(admin: httpx2.Client, part: str) -> None:
    answer = admin.get(f"{API}/executions/01890000-0000-7000-8000-000000000000{part}")
    assert (answer.status_code, answer.json()["status"]) == (404, 404)


def test_an_ended_execution_that_is_known_is_not_sent_again(admin: httpx2.Client) -> None:
    execution = started(admin, {"path": "tests/hello"})["execution_id"]
    first = admin.get(f"{API}/executions/{execution}")
    again = admin.get(f"{API}/executions/{execution}", headers={"If-None-Match": first.headers["etag"]})
    assert (first.status_code, again.status_code, again.content) == (200, 304, b"")


def test_the_state_after_each_event_is_the_fold_up_to_it(admin: httpx2.Client) -> None:
    execution = started(admin, {"path": "tests/hello"})
    url = f"{API}/executions/{execution['execution_id']}/state"
    states = [admin.get(url, params={"at": seq}).json() for seq in range(1, execution["events"] + 1)]
    assert [state["seq"] for state in states] == list(range(1, execution["events"] + 1))
    assert states[0]["status"] == "pending"
    assert (states[-1]["status"], states[-1]["result"]) == ("succeeded", "hello world!")
    assert admin.get(url).json() == states[-1]
    assert any(state["steps"].get("start", {}).get("status") == "running" for state in states)
    assert admin.get(url, params={"at": execution["events"] + 1}).status_code == 404
    assert admin.get(url, params={"at": 0}).status_code == 422


def test_the_state_has_the_runs_signals_and_timers_of_the_past(admin: httpx2.Client) -> None:
    text = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: asks, path: tests/asks}
workflow:
  - step: start
    spec: {timeout: 1h}
    tool: [{ask: {kind: wait, signal: go}}]
"""
    execution = begun(admin, {"playbook": text})
    until(admin, execution, "waiting")
    for number in (1, 2):
        admin.post(f"{API}/executions/{execution}/signals", json={"name": "other", "payload": number})
    url = f"{API}/executions/{execution}/state"
    waiting = admin.get(url).json()
    admin.post(f"{API}/executions/{execution}/signals", json={"name": "go"})
    assert until(admin, execution, "succeeded")
    body = admin.get(url, params={"at": waiting["seq"]}).json()
    assert body == waiting
    (run,), (timer,) = body["runs"], body["timers"]
    assert {key: run[key] for key in ("run", "step", "status", "task", "worker", "pool")} == {
        "run": "start#1",
        "step": "start",
        "status": "waiting",
        "task": "ask",
        "worker": None,
        "pool": "default",
    }
    assert run["started"] < timer["due"]
    assert [(wait["for"], wait["name"]) for wait in run["waits"]] == [("signal", "go")]
    assert body["signals"] == {"other": 2}
    ended = admin.get(url).json()
    assert (ended["runs"], ended["timers"], ended["signals"]) == ([], [], {"other": 2})


def test_only_the_parts_of_a_state_that_are_requested_are_sent(admin: httpx2.Client) -> None:
    execution = started(admin, {"path": "tests/hello"})
    url = f"{API}/executions/{execution['execution_id']}/state"
    always = {"execution_id", "seq", "timestamp", "status"}
    for at in ({}, {"at": 3}):
        assert admin.get(url, params={"parts": "runs,ctx", **at}).json().keys() == {*always, "runs", "ctx"}
        assert admin.get(url, params={"parts": "result", **at}).json().keys() == {*always, "result"}
    refused = admin.get(url, params={"parts": "runs,wrong"})
    assert (refused.status_code, "no part 'wrong'" in refused.json()["detail"]) == (422, True)


def test_errors_have_their_place_in_the_playbook(admin: httpx2.Client) -> None:
    text = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: fails, path: tests/fails}
workflow:
  - step: start
    tool: {kind: python, code: "raise ValueError('no')"}
"""
    result = started(admin, {"playbook": text})
    assert result["status"] == "failed"
    assert (result["error"]["step"], result["error"]["line"], result["error"]["kind"]) == ("start", 6, "python")


def test_output_of_tasks_is_in_the_logs(admin: httpx2.Client, server: ApiServer) -> None:
    execution = started(admin, {"path": "tests/hello"})["execution_id"]
    server.store.append_output([(execution, "start#1/task_1#1", 1.5, "stdout", f"line {n}") for n in range(3)])
    url = f"{API}/executions/{execution}/logs"
    page = admin.get(url, params={"limit": 2}).json()
    assert [item["line"] for item in page["items"]] == ["line 0", "line 1"]
    rest = admin.get(url, params={"after": page["next"]}).json()
    assert ([item["line"] for item in rest["items"]], rest["next"]) == (["line 2"], None)
    assert admin.get(f"{API}/executions/{execution}/vars").json() == {"execution_id": execution, "vars": {}}


def test_a_page_of_long_lines_ends_before_its_limit(admin: httpx2.Client, server: ApiServer) -> None:
    execution = started(admin, {"path": "tests/hello"})["execution_id"]
    server.store.append_output([(execution, "t", 1.5, "stdout", f"{n}" + "x" * 65_000) for n in range(300)])
    url, after, result = f"{API}/executions/{execution}/logs", 0, []
    while after is not None:
        page = admin.get(url, params={"limit": 1000, "after": after}).json()
        assert len(page["items"]) <= 200
        result += [item["line"].rstrip("x") for item in page["items"]]
        after = page["next"]
    assert result == [str(n) for n in range(300)]


READS = ("output", "read", "summaries", "paths", "versions")


@pytest.mark.parametrize(
    "path",
    ["/executions", "/executions?path=tests/hello", "/executions/ID/logs", "/executions/ID/events", "/playbooks"],
)
def test_a_page_costs_what_it_asks_for(
    admin: httpx2.Client, server: ApiServer, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    """The store returns no more rows than the page has, and one to know whether there is another page."""
    executions = [started(admin, {"path": "tests/hello"})["execution_id"] for _ in range(6)]
    for number in range(6):
        register(admin, HELLO.replace("hello {{", f"hello {number} {{{{").replace("tests/hello", "a/first"))
    server.store.append_output([(executions[0], "t", 1.5, "stdout", f"line {n}") for n in range(500)])
    rows = []
    for name in READS:
        original = getattr(server.store, name)

        def counting(*arguments: Any, original: Any = original, **more: Any) -> Any:
            result = original(*arguments, **more)
            rows.extend(result)
            return result

        monkeypatch.setattr(server.store, name, counting)
    target = f"{API}{path.replace('ID', executions[0])}"
    with server.client("viewer") as viewer:
        answer = viewer.get(f"{target}{'&' if '?' in target else '?'}limit=1")
    assert answer.status_code == 200
    assert len(answer.json()["items"]) == 1
    assert len(rows) <= 4


# -- commands -------------------------------------------------------------------------------------------------------


def test_a_signal_that_nothing_waits_for_is_pending_and_the_awaited_ones_are_named(admin: httpx2.Client) -> None:
    execution = begun(admin, {"path": "tests/waits"})
    until(admin, execution, "waiting")
    url = f"{API}/executions/{execution}/signals"
    typo = admin.post(url, json={"name": "goo"}).json()
    assert (typo["answer"], typo["pending"], typo["awaited"]) == ("accepted", True, ["go"])
    right = admin.post(url, json={"name": "go"}).json()
    assert (right["answer"], right["pending"], right["awaited"]) == ("accepted", False, [])


def test_a_signal_is_accepted_once_and_late_after_the_end(admin: httpx2.Client) -> None:
    execution = begun(admin, {"path": "tests/waits"})
    until(admin, execution, "waiting")
    url, signal = f"{API}/executions/{execution}/signals", {"name": "go", "id": "7", "payload": {"a": 1}}
    first = admin.post(url, json=signal)
    assert (first.status_code, first.json()["answer"], first.json()["accepted"]) == (202, "accepted", True)
    assert until(admin, execution, "succeeded")["result"] == {"a": 1}
    assert admin.post(url, json=signal).json()["answer"] == "duplicate"
    late = admin.post(url, json={"name": "go"}).json()
    assert (late["answer"], late["late"], late["accepted"]) == ("late", True, False)
    assert admin.post(url, json={"name": ""}).status_code == 422


def test_a_signal_that_is_not_kept_counts_only_if_something_waits_for_it(admin: httpx2.Client) -> None:
    execution = begun(admin, {"path": "tests/waits"})
    until(admin, execution, "waiting")
    url = f"{API}/executions/{execution}/signals"
    other = admin.post(url, json={"name": "stop", "id": "1", "keep": False}).json()
    assert (other["answer"], other["accepted"], other["duplicate"], other["late"]) == ("dropped", False, False, False)
    assert admin.post(url, json={"name": "go", "id": "1", "payload": 5, "keep": False}).json()["answer"] == "accepted"
    assert until(admin, execution, "succeeded")["result"] == 5
    assert admin.post(url, json={"name": "go", "id": "1", "keep": False}).json()["answer"] == "duplicate"
    assert admin.post(url, json={"name": "go", "keep": False}).json()["answer"] == "late"


def test_what_is_cancelled_ends_and_cannot_be_cancelled_after_an_end(admin: httpx2.Client) -> None:
    execution = begun(admin, {"path": "tests/waits"})
    answer = admin.post(f"{API}/executions/{execution}/cancel", json={"reason": "enough"})
    assert (answer.status_code, answer.json()["execution_id"]) == (202, execution)
    until(admin, execution, "cancelled")
    assert admin.post(f"{API}/executions/{execution}/cancel").status_code == 202
    ended = started(admin, {"path": "tests/hello"})["execution_id"]
    assert admin.post(f"{API}/executions/{ended}/cancel").status_code == 409


def test_pause_and_resume(admin: httpx2.Client) -> None:
    execution = begun(admin, {"path": "tests/waits"})
    until(admin, execution, "waiting")
    url = f"{API}/executions/{execution}"
    assert admin.post(f"{url}/pause").json()["status"] == "paused"
    assert admin.get(url).json()["status"] == "paused"
    assert admin.post(f"{url}/resume", json={}).status_code == 202
    admin.post(f"{url}/signals", json={"name": "go"})
    until(admin, execution, "succeeded")
    assert admin.post(f"{url}/pause").status_code == 409
    assert admin.post(f"{url}/resume").status_code == 409


def test_commands_to_nobody_are_not_found(admin: httpx2.Client) -> None:
    for verb in ("cancel", "pause", "resume"):
        assert admin.post(f"{API}/executions/01890000-0000-7000-8000-000000000000/{verb}").status_code == 404


def test_children_are_found_in_the_catalog(admin: httpx2.Client) -> None:
    parent = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: parent, path: tests/parent}
workflow:
  - step: start
    tool: {kind: playbook, path: tests/hello, args: {name: child}}
"""
    assert started(admin, {"playbook": parent})["result"] == "hello child!"
    lost = started(admin, {"playbook": parent.replace("tests/hello", "tests/none")})
    assert (lost["status"], lost["error"]["kind"]) == ("failed", "not_found")


def test_a_problem_quotes_the_beginning_of_a_long_value(admin: httpx2.Client) -> None:
    answer = admin.post("/api/v1/executions", json={"path": "x" * 1_000_000})
    assert (answer.status_code, len(answer.json()["detail"])) == (404, 2_000)
    assert answer.json()["detail"].startswith("playbook 'xxx")
