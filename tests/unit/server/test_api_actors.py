"""Every event that a request causes names who sent it; events of the engine itself name nobody."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest
from api_server import HELLO, WAITS, ApiServer, begun, register, started, until
from tests.servers.patience import until as patiently

from noetl.access import hash_password
from noetl.store.access import User

API = "/api/v1"
PASSWORD = "correct horse battery staple"
ADMIN = {"kind": "token", "name": "admin"}
OPERATOR = {"kind": "token", "name": "operator"}
APPROVAL = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: approval, path: tests/approval}
workflow:
  - step: ask
    tool:
      - ask:
          kind: wait
          signal: verdict
          spec:
            policy:
              rules:
                - when: "{{ outcome.status == 'ok' }}"
                  then: {do: continue, set_ctx: {by: "{{ outcome.actor.kind }} {{ outcome.actor.name }}"}}
                - else: {then: {do: fail}}
"""


@pytest.fixture(scope="module", autouse=True)
def _registered(server: ApiServer) -> None:
    with server.client("author") as client:
        for text in (HELLO, WAITS, APPROVAL):
            register(client, text)


def events(client: httpx2.Client, execution: str) -> list[dict[str, Any]]:
    return list(client.get(f"{API}/executions/{execution}/events?limit=1000").json()["items"])


def actors(client: httpx2.Client, execution: str) -> dict[str, Any]:
    """The actors of events that have one, by type."""
    return {event["event_type"]: event["actor"] for event in events(client, execution) if event["actor"]}


def test_only_the_request_of_a_run_names_who_started_it(admin: httpx2.Client) -> None:
    execution = started(admin, {"path": "tests/hello"})
    assert execution["actor"] == ADMIN
    assert actors(admin, execution["execution_id"]) == {"playbook.execution.requested": ADMIN}


def test_pause_resume_and_cancel_name_their_sender(server: ApiServer, admin: httpx2.Client) -> None:
    execution = begun(admin, {"path": "tests/waits"})
    until(admin, execution, "waiting")
    with server.client("operator") as operator:
        for verb in ("pause", "resume", "cancel"):
            assert operator.post(f"{API}/executions/{execution}/{verb}").status_code == 202
    ended = until(admin, execution, "cancelled")
    assert (ended["actor"], ended["cancelled_by"]) == (ADMIN, OPERATOR)
    assert actors(admin, execution) == {
        "playbook.execution.requested": ADMIN,
        "playbook.paused": OPERATOR,
        "playbook.resumed": OPERATOR,
        "playbook.cancelled": OPERATOR,
    }


def test_a_fork_names_who_forked_it(server: ApiServer, admin: httpx2.Client) -> None:
    source = started(admin, {"path": "tests/hello"})["execution_id"]
    with server.client("operator") as operator:
        fork = operator.post(f"{API}/executions/{source}/fork", json={"at": 6}).json()["execution_id"]
    assert until(admin, fork, "succeeded")["actor"] == OPERATOR
    assert actors(admin, fork)["execution.forked"] == OPERATOR


def test_the_outcome_of_a_wait_and_its_explanation_name_who_sent_the_signal(
    server: ApiServer, admin: httpx2.Client
) -> None:
    execution = begun(admin, {"path": "tests/approval"})
    with server.client("operator") as operator:
        answer = operator.post(f"{API}/executions/{execution}/signals", json={"name": "verdict", "payload": {"ok": 1}})
        assert answer.json()["accepted"]
    ended = until(admin, execution, "succeeded", "failed")
    assert (ended["error"], ended["ctx"]) == (None, {"by": "token operator"})
    received = next(event for event in events(admin, execution) if event["event_type"] == "message.received")
    assert received["actor"] == received["payload"]["actor"] == OPERATOR
    explained = admin.get(f"{API}/executions/{execution}/explain?step=ask").json()
    assert any("by token operator" in decision["says"] for decision in explained["decisions"])


def test_explain_names_the_sender_also_without_a_policy(admin: httpx2.Client) -> None:
    execution = begun(admin, {"path": "tests/waits"})
    admin.post(f"{API}/executions/{execution}/signals", json={"name": "go"})
    until(admin, execution, "succeeded")
    explained = admin.get(f"{API}/executions/{execution}/explain?step=start").json()
    assert any("by token admin" in decision["says"] for decision in explained["decisions"])


def test_a_user_with_a_session_is_named_as_a_user(server: ApiServer, admin: httpx2.Client) -> None:
    server.store.access.put_user(User("ada", "operator", hash_password(PASSWORD), server.clock.now()), new=True)
    with server.client(None) as client:
        signed_in = client.post(f"{API}/sessions", json={"user": "ada", "password": PASSWORD})
        cookie = signed_in.headers["set-cookie"].partition(";")[0]
        headers = {"Cookie": cookie, "X-CSRF-Token": signed_in.json()["csrf_token"]}
        answer = client.post(f"{API}/executions", json={"path": "tests/hello"}, headers=headers)
    assert until(admin, answer.json()["execution_id"], "succeeded")["actor"] == {"kind": "user", "name": "ada"}


def test_a_run_of_a_schedule_names_the_schedule(admin: httpx2.Client, server: ApiServer) -> None:
    body = {"name": "often", "path": "tests/hello", "every": "1s"}
    assert admin.post(f"{API}/schedules", json=body).status_code == 201
    server.do(server.app.api.scheduler.fire_once(server.clock.now() + 5))
    patiently(lambda: admin.get(f"{API}/schedules/often").json()["last"])
    last = admin.get(f"{API}/schedules/often").json()["last"]
    admin.delete(f"{API}/schedules/often")
    execution = admin.get(f"{API}/executions/{last['execution_id']}").json()
    assert execution["actor"] == {"kind": "schedule", "name": "often"}
