"""Why a step went as it did, forks and retries, through the API."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest
from api_server import HELLO, WAITS, WRONG, ApiServer, begun, register, started, until

from noetl.dsl.compile import load
from noetl.runtime import execution_diff
from noetl.runtime.replays import MAX_UNFINISHED
from noetl.server.routes import history
from noetl.tools.registry import KINDS

API = "/api/v1/executions"
BROKEN = HELLO.replace("tests/hello", "tests/broken").replace('"{{ steps.start.result }}!"', '"{{ 1 / 0 }}"')
MENDED = BROKEN.replace("1 / 0", "1 // 1")


@pytest.fixture(scope="module", autouse=True)
def _registered(server: ApiServer) -> None:
    with server.client("author") as client:
        for text in (HELLO, WAITS, BROKEN):
            register(client, text)


def events_of(client: httpx2.Client, execution: str) -> list[dict[str, Any]]:
    return list(client.get(f"{API}/{execution}/events", params={"limit": 1000}).json()["items"])


def seq_of(client: httpx2.Client, execution: str, name: str) -> int:
    return next(int(event["seq"]) for event in events_of(client, execution) if event["event_type"] == name)


def post(client: httpx2.Client, execution: str, verb: str, body: Any = None, **headers: str) -> httpx2.Response:
    named = {key.replace("_", "-"): value for key, value in headers.items()}
    return client.post(f"{API}/{execution}/{verb}", json={} if body is None else body, headers=named)


def test_a_fork_begins_with_the_events_of_its_source(admin: httpx2.Client) -> None:
    source = started(admin, {"path": "tests/hello", "payload": {"name": "moon"}})["execution_id"]
    at = seq_of(admin, source, "step.done")
    answer = post(admin, source, "fork", {"at": at, "ctx": {"a": 1}})
    assert answer.status_code == 202, answer.text
    body = answer.json()
    assert answer.headers["location"] == f"{API}/{body['execution_id']}"
    assert (body["source_id"], body["source_seq"] >= at, body["done"]) == (source, True, ["start"])
    view = until(admin, body["execution_id"], "succeeded")
    assert (view["result"], view["ctx"], view["parent"]) == ("hello moon!", {"a": 1}, None)
    ours, theirs = events_of(admin, body["execution_id"]), events_of(admin, source)
    assert [event["payload"] for event in ours[:at]] == [event["payload"] for event in theirs[:at]]
    event = ours[body["source_seq"]]
    assert event["event_type"] == "execution.forked"
    assert (event["payload"]["source_id"], event["payload"]["source_seq"]) == (source, body["source_seq"])


def test_a_fork_of_a_fork_has_the_payload_of_the_last_one_that_changed_it(admin: httpx2.Client) -> None:
    execution = begun(admin, {"path": "tests/waits", "payload": {"a": 1, "b": 1}})
    until(admin, execution, "waiting")
    for changes, payload in (
        ({}, {"a": 1, "b": 1}),
        ({"b": 2}, {"a": 1, "b": 2}),
        ({}, {"a": 1, "b": 2}),
        ({}, {"a": 1, "b": 2}),
        ({"a": 3}, {"a": 3, "b": 2}),
        ({}, {"a": 3, "b": 2}),
    ):
        source, answer = execution, post(admin, execution, "fork", {"payload": changes})
        assert answer.status_code == 202, answer.text
        execution = answer.json()["execution_id"]
        view = admin.get(f"{API}/{execution}").json()
        assert (view["payload"], view["forked_from"]["execution_id"]) == (payload, source)


def test_a_fork_answers_with_warnings_about_its_payload(admin: httpx2.Client) -> None:
    source = started(admin, {"path": "tests/hello"})["execution_id"]
    fork = post(admin, source, "fork", {"at": 1, "payload": {"nme": "moon"}}).json()
    assert fork["warnings"] == ["workload has no 'nme': did you mean 'name'?"]
    assert post(admin, source, "fork", {"at": 1}).json()["warnings"] == []


def test_who_prefers_to_wait_gets_the_execution(admin: httpx2.Client) -> None:
    source = started(admin, {"path": "tests/hello"})["execution_id"]
    answer = post(admin, source, "fork", {"at": 1}, Prefer="wait=60")
    assert (answer.status_code, answer.json()["result"]) == (200, "hello world!")


def test_started_is_when_the_fork_was_made_also_for_another_server(server: ApiServer, admin: httpx2.Client) -> None:
    source = started(admin, {"path": "tests/hello"})
    fork = post(admin, source["execution_id"], "fork", {"at": 1}, Prefer="wait=60").json()
    server.do(_forget(server, fork["execution_id"]))
    again = admin.get(f"{API}/{fork['execution_id']}").json()
    assert again["started"] == fork["started"] > source["started"]


async def _forget(server: ApiServer, execution: str) -> None:
    server.host.runtime.executions.pop(execution, None)


def test_a_run_that_continues_is_forked_where_it_stands(admin: httpx2.Client) -> None:
    source = begun(admin, {"path": "tests/waits"})
    until(admin, source, "waiting")
    fork = post(admin, source, "fork").json()
    assert fork["again"] == [{"run": "start#1", "step": "start", "task": "task_1", "items": None, "failed": False}]
    until(admin, fork["execution_id"], "waiting")
    admin.post(f"{API}/{fork['execution_id']}/signals", json={"name": "go", "payload": 7})
    assert until(admin, fork["execution_id"], "succeeded")["result"] == 7
    assert admin.get(f"{API}/{source}").json()["status"] == "waiting"


def test_a_retry_takes_up_what_failed(server: ApiServer, admin: httpx2.Client) -> None:
    source = started(admin, {"path": "tests/broken"})
    assert source["status"] == "failed"
    with server.client("author") as author:
        answer = post(author, source["execution_id"], "retry", {"playbook": MENDED})
    assert answer.status_code == 202, answer.text
    fork = answer.json()
    assert fork["again"] == [{"run": "end#1", "step": "end", "task": "task_1", "items": None, "failed": True}]
    result = until(admin, fork["execution_id"], "succeeded", "failed")
    assert (result["result"], result["steps"]["start"]["runs"], result["steps"]["end"]["runs"]) == (1, 1, 1)
    assert result["playbook_id"] != source["playbook_id"]


def test_state_of_the_past_in_an_edited_fork(server: ApiServer, admin: httpx2.Client) -> None:
    source = started(admin, {"path": "tests/broken"})
    fork = post(admin, source["execution_id"], "retry", {"playbook": MENDED}, Prefer="wait=60").json()
    at = seq_of(admin, fork["execution_id"], "execution.forked")
    for seq in (at - 1, at, at + 1, fork["events"]):
        state = admin.get(f"{API}/{fork['execution_id']}/state", params={"at": seq}).json()
        assert (state["seq"], state["steps"]["start"]["status"]) == (seq, "succeeded")


def test_the_same_key_makes_one_fork(server: ApiServer, admin: httpx2.Client) -> None:
    source = begun(admin, {"path": "tests/waits"})
    until(admin, source, "waiting")
    first = post(admin, source, "fork", Idempotency_Key="once").json()
    admin.post(f"{API}/{source}/signals", json={"name": "other"})
    server.do(_forget(server, first["execution_id"]))
    second = post(admin, source, "fork", Idempotency_Key="once").json()
    assert (second["execution_id"], second["source_seq"]) == (first["execution_id"], first["source_seq"])
    names = [event["event_type"] for event in events_of(admin, first["execution_id"])]
    assert names.count("execution.forked") == 1
    assert post(admin, source, "fork", {"at": 1}, Idempotency_Key="once").status_code == 422
    assert post(admin, source, "retry", Idempotency_Key="once").status_code == 422


@pytest.mark.parametrize(
    ("verb", "body", "status"),
    [
        ("fork", {}, 409),
        ("fork", {"at": 10_000}, 422),
        ("fork", {"at": 0}, 422),
        ("fork", {"at": -3}, 422),
        ("fork", {"at": "1"}, 422),
        ("fork", {"from": 1}, 422),
        ("fork", {"at": 5, "playbook": WRONG}, 422),
        ("fork", {"at": 14, "playbook": HELLO.replace("end", "fin")}, 409),
        ("retry", {}, 409),
        ("retry", {"at": 1}, 422),
    ],
)
def test_what_cannot_be(admin: httpx2.Client, verb: str, body: dict[str, Any], status: int) -> None:
    source = started(admin, {"path": "tests/hello"})["execution_id"]
    answer = post(admin, source, verb, body)
    assert answer.status_code == status, answer.text
    assert answer.json()["detail"]


# -- dry runs -------------------------------------------------------------------------------------------------------

SHARED = ("source_id", "source_seq", "again", "done", "warnings")
LOOP = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: halves, path: tests/halves}
workflow:
  - step: start
    tool: {kind: noop}
    next: {arcs: [{step: each}]}
  - step: each
    loop: {in: "{{ range(6) }}", iterator: n, spec: {mode: parallel, on_error: continue}}
    tool: {kind: noop, result: "{{ 6 // (iter.n % 2) }}"}
    next: {arcs: [{step: end}]}
  - step: end
    tool: {kind: noop, result: "{{ 1 // 0 }}"}
"""


def compared(client: httpx2.Client, source: str, verb: str, body: dict[str, Any]) -> dict[str, Any]:
    """The answer to a dry run, which must be that to the real request; afterwards there are as many runs as before."""
    before = client.get(API, params={"limit": 1000}).json()["items"]
    dry = post(client, source, f"{verb}?dry_run=true", body)
    assert len(client.get(API, params={"limit": 1000}).json()["items"]) == len(before)
    real = post(client, source, verb, body)
    assert (dry.status_code, real.status_code) in ((200, 202), (real.status_code, real.status_code)), dry.text
    if dry.status_code == 200:
        assert dry.json() == {name: real.json()[name] for name in SHARED}
    else:
        assert dry.json()["detail"] == real.json()["detail"]
    return dict(dry.json())


def test_a_dry_run_answers_as_the_fork_at_every_event(admin: httpx2.Client) -> None:
    source = started(admin, {"playbook": LOOP})["execution_id"]
    events = len(events_of(admin, source))
    answers = [compared(admin, source, "fork", {"at": at}) for at in range(1, events + 2)]
    assert {step["items"] for answer in answers for step in answer.get("again", ())} > {None, 6}
    assert "not found: " in answers[-1]["detail"]
    compared(admin, source, "fork", {})


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"step": "each"},
        {"step": "start#1"},
        {"step": "none"},
        {"failed_items": True},
        {"failed_items": True, "step": "end"},
        {"playbook": LOOP.replace("1 // 0", "1")},
        {"playbook": LOOP.replace("step: each", "step: all")},
        {"step": "start", "payload": {"a": 1}},
    ],
)
def test_a_dry_run_answers_as_the_retry(admin: httpx2.Client, body: dict[str, Any]) -> None:
    source = started(admin, {"playbook": LOOP})["execution_id"]
    answer = compared(admin, source, "retry", body)
    if body == {}:
        assert answer["done"] == ["start", "each"]
        assert [(step["run"], step["failed"]) for step in answer["again"]] == [("end#1", True)]
    if body == {"failed_items": True}:
        assert [(step["run"], step["items"]) for step in answer["again"]] == [("each#1", 3)]


def test_a_dry_run_of_a_retry_of_what_succeeded_or_runs_is_refused(admin: httpx2.Client) -> None:
    assert compared(admin, started(admin, {"path": "tests/hello"})["execution_id"], "retry", {})["status"] == 409
    open_one = begun(admin, {"path": "tests/waits"})
    until(admin, open_one, "waiting")
    assert compared(admin, open_one, "retry", {})["status"] == 409
    assert compared(admin, open_one, "fork", {})["again"][0]["run"] == "start#1"


def test_a_dry_run_keeps_the_changes_of_an_earlier_fork(admin: httpx2.Client) -> None:
    source = started(admin, {"path": "tests/broken", "payload": {"name": "moon"}})["execution_id"]
    changes = {"playbook": MENDED.replace("1 // 1", "1 // 0 "), "payload": {"name": "sun"}}
    fork = post(admin, source, "retry", changes, Prefer="wait=60").json()
    until(admin, fork["execution_id"], "failed")
    for body in ({}, {"step": "start"}, {"payload": {"nme": "x"}}):
        compared(admin, fork["execution_id"], "retry", body)


def test_a_dry_run_stores_no_playbook(server: ApiServer, admin: httpx2.Client) -> None:
    source = started(admin, {"path": "tests/broken"})["execution_id"]
    text = MENDED.replace("1 // 1", "'stored by nobody'")
    assert post(admin, source, "retry?dry_run=true", {"playbook": text}).status_code == 200
    assert server.store.playbook(load("x", text, KINDS).require().digest) is None
    with server.client("operator") as operator:
        assert post(operator, source, "retry?dry_run=true", {"playbook": text}).status_code == 403
        assert post(operator, source, "retry?dry_run=true").status_code == 200
    with server.client("viewer") as viewer:
        assert post(viewer, source, "retry?dry_run=true").status_code == 403


def test_of_nothing_there_is_no_fork(admin: httpx2.Client) -> None:
    for verb in ("fork", "retry"):
        assert post(admin, "01890000-0000-7000-8000-000000000000", verb).status_code == 404


def test_an_edited_playbook_takes_an_author(server: ApiServer, admin: httpx2.Client) -> None:
    source = started(admin, {"path": "tests/broken"})["execution_id"]
    with server.client("operator") as operator:
        for verb in ("fork", "retry"):
            answer = post(operator, source, verb, {"playbook": MENDED})
            assert (answer.status_code, "author" in answer.json()["detail"]) == (403, True)
        assert post(operator, source, "fork", {"at": 6}).status_code == 202
        assert post(operator, source, "retry").status_code == 202
    with server.client("author") as author:
        assert post(author, source, "retry", {"playbook": MENDED}).status_code == 202


# -- explain --------------------------------------------------------------------------------------------------------

CHOICE = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: choice, path: tests/choice}
workload: {limit: 3}
workflow:
  - step: start
    tool: {kind: noop, result: 5}
    next:
      arcs:
        - {step: low, when: "{{ steps.start.result < workload.limit }}"}
        - {step: high, when: "{{ ctx.gone.far is not defined }}"}
        - {step: low}
  - step: low
  - step: high
"""


def explained(client: httpx2.Client, execution: str, **query: str) -> httpx2.Response:
    return client.get(f"{API}/{execution}/explain", params=query)


def test_a_step_is_explained_with_places_and_values(server: ApiServer, admin: httpx2.Client) -> None:
    execution = started(admin, {"playbook": CHOICE})["execution_id"]
    with server.client("viewer") as viewer:
        body = explained(viewer, execution, step="start").json()
    assert (body["status"], body["runs"], body["line"], body["stands"]) == ("succeeded", 1, 6, [])
    arcs = body["decisions"][-1]
    assert (arcs["kind"], arcs["about"], arcs["differs"]) == ("arcs", "start#1", None)
    assert [(reason["leads_to"], reason["verdict"], reason["line"]) for reason in arcs["reasons"]] == [
        ("low", "not matched", 10),
        ("high", "matched", 11),
        ("low", "not reached", 12),
    ]
    assert arcs["reasons"][0]["values"] == {"steps.start.result": 5, "workload.limit": 3}
    assert (arcs["reasons"][1]["missing"], arcs["reasons"][0]["file"]) == (["ctx.gone.far"], "tests/choice")


def test_a_step_that_never_ran_is_explained(admin: httpx2.Client) -> None:
    execution = started(admin, {"playbook": CHOICE})["execution_id"]
    body = explained(admin, execution, step="low").json()
    assert (body["status"], body["runs"]) == (None, 0)
    assert body["stands"][0] == "it has not run: no token arrived"
    assert body["decisions"][0]["about"] == "start#1"


def test_a_step_of_a_run_that_waits_is_explained(admin: httpx2.Client) -> None:
    execution = begun(admin, {"path": "tests/waits"})
    until(admin, execution, "waiting")
    answer = f"answer with `noetl runs signal {execution} go`"
    assert explained(admin, execution, step="start").json()["stands"] == [
        f"start#1 waits for the signal 'go'; {answer}"
    ]


TRIES = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: tries, path: tests/tries}
workflow:
  - step: start
    loop: {in: [a, b, c], iterator: letter}
    tool:
      - count:
          kind: noop
          result: "{{ iter.letter }}{{ _attempt }}"
          spec:
            policy:
              rules:
                - {when: "{{ _attempt < 3 }}", then: {do: retry, attempts: 5, delay: 0.001}}
    next: {arcs: [{step: end, when: "{{ event.name == 'loop.done' }}"}]}
  - step: end
"""


def test_the_latest_decisions_come_first_and_earlier_ones_follow(admin: httpx2.Client) -> None:
    execution = started(admin, {"playbook": TRIES})["execution_id"]
    pages, query = [], {"step": "start"}
    while True:
        page = explained(admin, execution, **query).json()
        pages.append([decision["seq"] for decision in page["decisions"]])
        if page["next"] is None:
            break
        query["before"] = str(page["next"])
    assert [len(page) for page in pages] == [5, 5, 1]
    whole = [decision["seq"] for decision in explained(admin, execution, step="start", limit="200").json()["decisions"]]
    assert whole == [seq for page in reversed(pages) for seq in page] == sorted(whole)


def test_one_item_one_arc_and_one_moment_are_explained(admin: httpx2.Client) -> None:
    execution = started(admin, {"playbook": TRIES})["execution_id"]
    item = explained(admin, execution, step="start", item="1").json()["decisions"]
    assert [one["about"].partition("/")[0] for one in item] == ["start#1[1]"] * 3
    assert [one["reasons"][0]["verdict"] for one in item] == ["matched", "matched", "not matched"]
    (arcs,) = explained(admin, execution, arc="start/next/0").json()["decisions"]
    assert (arcs["kind"], arcs["reasons"][0]["values"]) == ("arcs", {"event.name": "loop.done"})
    then = explained(admin, execution, step="start", at=str(item[1]["seq"])).json()
    assert (then["status"], then["decisions"][-1]["seq"]) == ("running", item[1]["seq"])
    assert then["stands"]


def test_one_event_is_explained_with_the_inputs_of_its_task(admin: httpx2.Client) -> None:
    execution = started(admin, {"playbook": TRIES})["execution_id"]
    second = explained(admin, execution, step="start", item="2").json()["decisions"][1]
    assert second["inputs"] is None
    body = explained(admin, execution, seq=str(second["seq"])).json()
    assert (body["step"], body["decisions"]) == ("start", [second | {"inputs": {"result": "c2"}}])
    held = explained(admin, execution, seq=str(seq_of(admin, execution, "step.scheduled"))).json()
    assert (held["decisions"][0]["kind"], held["decisions"][0]["inputs"]) == ("admission", None)


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ({}, 422),
        ({"step": ""}, 422),
        ({"step": "nothing"}, 404),
        ({"step": "start", "run": "start#7"}, 404),
        ({"step": "start", "run": "low#1"}, 422),
        ({"step": "x" * 2000}, 422),
        ({"step": "start", "arc": "start/next/0"}, 422),
        ({"step": "start", "seq": "3"}, 422),
        ({"arc": "start"}, 422),
        ({"arc": "start/next/9"}, 404),
        ({"arc": "start/next/0", "item": "1"}, 422),
        ({"seq": "1"}, 422),
        ({"seq": "999"}, 404),
        ({"step": "start", "at": "999"}, 404),
        ({"step": "start", "at": "0"}, 422),
        ({"step": "start", "limit": "0"}, 422),
        ({"step": "start", "run": "start#x"}, 422),
        ({"step": "start", "run": "start#01"}, 422),
        ({"step": "start", "run": "start#\u0661"}, 422),
    ],
)
def test_what_cannot_be_explained(admin: httpx2.Client, query: dict[str, str], status: int) -> None:
    execution = started(admin, {"playbook": CHOICE})["execution_id"]
    assert explained(admin, execution, **query).status_code == status
    assert explained(admin, "01890000-0000-7000-8000-000000000000", step="start").status_code == 404


# -- replay ---------------------------------------------------------------------------------------------------------

HIGHER = CHOICE.replace("{limit: 3}", "{limit: 9}")


def test_a_text_that_is_not_registered_is_compared_with_the_log(server: ApiServer, admin: httpx2.Client) -> None:
    execution = started(admin, {"playbook": CHOICE})
    with server.client("author") as author:
        same = post(author, execution["execution_id"], "replay", {"playbook": CHOICE}).json()
        assert same == {"equal": True, "scanned_to": execution["events"], "first_difference": None}
        body = post(author, execution["execution_id"], "replay", {"playbook": HIGHER}).json()
    difference = body["first_difference"]
    assert (body["equal"], body["scanned_to"]) == (False, difference["seq"] - 1)
    assert (difference["event_type"], difference["message"]) == (
        "playbook.request.evaluated",
        "the replay decides differently",
    )
    assert (difference["logged"]["workload"], difference["replayed"]["workload"]) == ({"limit": 3}, {"limit": 9})
    assert server.store.playbook(digest_of_text(HIGHER)) is None


def digest_of_text(text: str) -> str:
    return load("choice.yaml", text, KINDS).require().digest


def test_a_long_replay_takes_several_requests(
    server: ApiServer, admin: httpx2.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history, "SLICE_SECONDS", 0.0)  # one event in each
    execution = started(admin, {"playbook": CHOICE})
    url, body = execution["execution_id"], {"playbook": CHOICE}
    first = post(admin, url, "replay", body).json()
    assert first == {"equal": None, "scanned_to": 1, "first_difference": None}
    slices = [first]
    while slices[-1]["equal"] is None:
        slices.append(post(admin, url, "replay", {**body, "after": slices[-1]["scanned_to"]}).json())
    assert [one["scanned_to"] for one in slices] == list(range(1, execution["events"] + 1))
    assert slices[-1]["equal"] is True


def test_a_replay_whose_slices_are_gone_begins_again(
    server: ApiServer, admin: httpx2.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history, "SLICE_SECONDS", 0.0)
    execution = started(admin, {"playbook": CHOICE})["execution_id"]
    for after in range(3):
        body = post(admin, execution, "replay", {"playbook": CHOICE, "after": after}).json()
    assert body["scanned_to"] == 3
    for number in range(MAX_UNFINISHED):
        post(admin, execution, "replay", {"playbook": f"{CHOICE}# {number}\n"})
    assert post(admin, execution, "replay", {"playbook": CHOICE, "after": 3}).json()["scanned_to"] == 1
    monkeypatch.undo()
    assert post(admin, execution, "replay", {"playbook": CHOICE, "after": 1}).json()["equal"] is True


def test_a_replay_requires_an_author_a_log_and_a_valid_text(server: ApiServer, admin: httpx2.Client) -> None:
    execution = started(admin, {"playbook": CHOICE})["execution_id"]
    with server.client("operator") as operator:
        assert post(operator, execution, "replay", {"playbook": CHOICE}).status_code == 403
    wrong = post(admin, execution, "replay", {"playbook": WRONG})
    assert (wrong.status_code, wrong.json()["type"]) == (422, "urn:noetl:problem:playbook-invalid")
    for body in ({}, {"playbook": CHOICE, "after": -1}, {"playbook": CHOICE, "at": 1}):
        assert post(admin, execution, "replay", body).status_code == 422
    nothing = "01890000-0000-7000-8000-000000000000"
    assert post(admin, nothing, "replay", {"playbook": CHOICE}).status_code == 404


def diff_of(client: httpx2.Client, a: str, b: str, **query: Any) -> dict[str, Any]:
    answer = client.get(f"{API}/{a}/diff", params={"with": b, **query})
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def test_two_runs_with_the_same_inputs_are_equal(admin: httpx2.Client) -> None:
    a, b = (started(admin, {"path": "tests/hello"})["execution_id"] for _ in range(2))
    diff = diff_of(admin, a, b)
    assert (diff["equal"], diff["ctx"], diff["first_difference"]) == (True, {}, None)
    assert [(step["step"], step["differs"]) for step in diff["steps"]] == [("start", []), ("end", [])]
    assert diff["scanned_to"] == len(events_of(admin, a))


def test_a_diff_names_what_differs_and_the_first_event(admin: httpx2.Client) -> None:
    a = started(admin, {"path": "tests/hello"})
    b = started(admin, {"path": "tests/hello", "payload": {"name": "moon"}, "ctx": {"x": 1}})
    diff = diff_of(admin, a["execution_id"], b["execution_id"])
    assert diff["equal"] is False
    assert diff["status"] == {"a": "succeeded", "b": "succeeded"}
    assert diff["result"] == {"a": "hello world!", "b": "hello moon!"}
    assert diff["ctx"] == {"x": {"a": None, "b": 1}}
    assert {step["step"]: step["differs"] for step in diff["steps"]} == {"start": ["result"], "end": ["result"]}
    first = diff["first_difference"]
    assert (first["a_seq"], first["b_seq"], diff["scanned_to"]) == (1, 1, 1)
    assert first["b"]["payload"] == {"name": "moon"}


def test_a_boolean_is_no_number(admin: httpx2.Client) -> None:
    text = HELLO.replace("{name: world}", "{name: null}").replace("hello {{", "{{").replace("}}!", "}}")
    one, true, decimal = (
        started(admin, {"playbook": text, "payload": {"name": value}})["execution_id"] for value in (1, True, 1.0)
    )
    assert diff_of(admin, one, decimal)["equal"] is True
    diff = diff_of(admin, one, true)
    assert (diff["equal"], diff["first_difference"]["a_seq"]) == (False, 1)
    assert [step["differs"] for step in diff["steps"]] == [["result"], ["result"]]


def test_a_replay_under_a_boolean_in_place_of_a_number_differs(admin: httpx2.Client) -> None:
    text = HELLO.replace("{name: world}", "{name: 1}").replace("step: end}", "step: end, args: {n: 1}}")
    execution = started(admin, {"playbook": text})["execution_id"]
    edits = {"name: 1}": "name: true}", "n: 1}": "n: true}", "args: {n: 1}": "args: {n: 1.0}"}
    replays = [
        post(admin, execution, "replay", {"playbook": text.replace(*edit)}).json()["first_difference"]
        for edit in edits.items()
    ]
    assert [replay and replay["event_type"] for replay in replays] == [
        "playbook.request.evaluated",
        "token.enqueued",
        None,
    ]


def test_a_key_of_ctx_that_is_null_is_a_difference(admin: httpx2.Client) -> None:
    a = started(admin, {"path": "tests/hello"})["execution_id"]
    b = started(admin, {"path": "tests/hello", "ctx": {"x": None}})["execution_id"]
    assert diff_of(admin, a, b)["ctx"] == {"x": {"a": None, "b": None}}


def test_a_run_that_ends_earlier_differs_behind_its_last_event(admin: httpx2.Client) -> None:
    waits = begun(admin, {"path": "tests/waits"})
    until(admin, waits, "waiting")
    other = begun(admin, {"path": "tests/waits"})
    until(admin, other, "waiting")
    post(admin, other, "signals", {"name": "go"})
    until(admin, other, "succeeded")
    diff = diff_of(admin, waits, other)
    seq = len(events_of(admin, waits)) + 1
    assert (diff["first_difference"]["a_seq"], diff["first_difference"]["b_seq"]) == (None, seq)
    assert diff["first_difference"]["a"] is None


def test_a_long_comparison_continues_where_it_stopped(admin: httpx2.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "SLICE_SECONDS", -1.0)
    monkeypatch.setattr(execution_diff, "ROWS_PER_CHECK", 5)
    a, b = (started(admin, {"path": "tests/hello"})["execution_id"] for _ in range(2))
    seqs, diff = [], diff_of(admin, a, b)
    while diff["equal"] is None:
        seqs.append(diff["scanned_to"])
        diff = diff_of(admin, a, b, after=seqs[-1])
    assert seqs == list(range(5, len(events_of(admin, a)) + 1, 5))
    assert diff["equal"] is True


def test_the_first_difference_of_a_fork_follows_from_its_changes(admin: httpx2.Client) -> None:
    source = started(admin, {"playbook": CHOICE})["execution_id"]
    at = seq_of(admin, source, "task.started")
    same = post(admin, source, "fork", {"at": at}, Prefer="wait=60").json()["execution_id"]
    assert [event["event_type"] for event in events_of(admin, same)][at : at + 3] == [
        "execution.forked",
        "step.started",
        "task.started",
    ]
    diff = diff_of(admin, source, same)
    assert (diff["equal"], diff["first_difference"]) == (True, None)
    edited = CHOICE.replace("result: 5", "result: 1")
    other = post(admin, source, "fork", {"at": at, "playbook": edited}, Prefer="wait=60").json()["execution_id"]
    seqs = [seq_of(admin, execution, "task.done") for execution in (source, other)]
    first = diff_of(admin, source, other)["first_difference"]
    assert ([first["a_seq"], first["b_seq"]], first["a"]["event_type"]) == (seqs, "task.done")
    assert (first["a"]["outcome"]["result"], first["b"]["outcome"]["result"]) == (5, 1)
    swapped = diff_of(admin, other, source)["first_difference"]
    assert [swapped["b_seq"], swapped["a_seq"]] == seqs


def test_a_fork_with_changes_without_consequences_differs_in_its_state(admin: httpx2.Client) -> None:
    source = started(admin, {"path": "tests/hello"})["execution_id"]
    body = {"at": seq_of(admin, source, "step.done"), "ctx": {"note": 1}}
    fork = post(admin, source, "fork", body, Prefer="wait=60").json()["execution_id"]
    diff = diff_of(admin, source, fork)
    assert (diff["equal"], diff["first_difference"], diff["ctx"]) == (False, None, {"note": {"a": None, "b": 1}})
    other = post(admin, source, "fork", body | {"ctx": {"note": 2}}, Prefer="wait=60").json()["execution_id"]
    first = diff_of(admin, fork, other)["first_difference"]
    assert [first[side]["event_type"] for side in "ab"] == ["execution.forked"] * 2
    assert first["a"]["set_ctx"] != first["b"]["set_ctx"]


def test_a_long_comparison_with_a_fork_continues_where_it_stopped(
    admin: httpx2.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = started(admin, {"path": "tests/hello"})["execution_id"]
    fork = post(admin, source, "fork", {"at": seq_of(admin, source, "step.done")}, Prefer="wait=60").json()
    monkeypatch.setattr(history, "SLICE_SECONDS", -1.0)
    monkeypatch.setattr(execution_diff, "ROWS_PER_CHECK", 2)
    diff, places = diff_of(admin, source, fork["execution_id"]), set()
    while diff["equal"] is None:
        places.add(diff["b_scanned_to"] - diff["scanned_to"])
        diff = diff_of(admin, source, fork["execution_id"], after=diff["scanned_to"], b_after=diff["b_scanned_to"])
    assert (diff["equal"], places) == (True, {0, 1})
    assert diff["scanned_to"] == len(events_of(admin, source))


def test_who_started_a_run_is_no_difference(server: ApiServer, admin: httpx2.Client) -> None:
    with server.client("author") as author:
        runs = [started(client, {"path": "tests/hello"})["execution_id"] for client in (admin, author)]
        actors = [events_of(admin, run)[0]["payload"]["actor"] for run in runs]
    assert actors[0] != actors[1]
    assert diff_of(admin, *runs)["equal"] is True


def test_a_diff_needs_two_executions(admin: httpx2.Client) -> None:
    a, nobody = started(admin, {"path": "tests/hello"})["execution_id"], "00000000-0000-7000-8000-000000000009"
    assert admin.get(f"{API}/{a}/diff", params={"with": nobody}).status_code == 404
    assert admin.get(f"{API}/{nobody}/diff", params={"with": a}).status_code == 404
    assert admin.get(f"{API}/{a}/diff", params={"with": "x"}).status_code == 422
    assert admin.get(f"{API}/{a}/diff").status_code == 422
