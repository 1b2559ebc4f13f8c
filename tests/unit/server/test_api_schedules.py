"""/schedules on real databases: each due firing starts one execution, whoever sees it and whoever dies."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from api_server import HELLO, WAITS, ApiServer, register, until
from msgspec.structs import replace
from shared_store import OpenServer, address_of, servers_at
from tests.servers.patience import PATIENCE_SECONDS
from tests.servers.postgres import postgres_fixture, store_schema_fixture  # noqa: F401

from noetl.store.triggers import Firing, Schedule
from noetl.triggers.schedules import START_LEASE_SECONDS

MINUTELY = {"name": "minutely", "path": "tests/hello", "cron": "* * * * *"}
HOURLY = {"name": "hourly", "path": "tests/hello", "every": "1h"}


@pytest.fixture(params=["sqlite", "postgres"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return address_of(request, request.param, tmp_path)


@pytest.fixture
def open_server(address: str) -> Iterator[OpenServer]:
    yield from servers_at(address)


@pytest.fixture
def server(open_server: OpenServer) -> ApiServer:
    one = open_server()
    with one.client() as client:
        register(client, HELLO)
        register(client, WAITS)
    return one


@pytest.fixture
def client(server: ApiServer) -> Iterator[httpx2.Client]:
    with server.client() as one:
        yield one


def add(client: httpx2.Client, request: dict[str, Any]) -> dict[str, Any]:
    answer = client.post("/api/v1/schedules", json=request)
    assert answer.status_code == 201, answer.text
    return dict(answer.json())


def schedule_of(client: httpx2.Client, name: str) -> dict[str, Any]:
    answer = client.get(f"/api/v1/schedules/{name}")
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def stored(server: ApiServer, name: str) -> Schedule:
    result = server.store.triggers.schedule(name)
    assert result is not None
    return result


def change(server: ApiServer, one: Schedule) -> None:
    """Change a row behind the back of the servers."""
    assert server.store.triggers.change_schedule(replace(one, revision=one.revision + 1))


def look(server: ApiServer, now: float) -> None:
    """Let the server deal with what is due by then."""
    server.do(server.app.api.scheduler.fire_once(now))


def executions(client: httpx2.Client) -> list[dict[str, Any]]:
    return list(client.get("/api/v1/executions").json()["items"])


def due(server: ApiServer, name: str) -> float:
    result = stored(server, name).next
    assert result is not None
    return result


# -- the routes -----------------------------------------------------------------------------------------------------


def test_a_schedule_is_made_shown_listed_changed_and_deleted(client: httpx2.Client) -> None:
    made = add(client, MINUTELY | {"payload": {"name": "x"}, "ctx": {"a": 1}, "timezone": "Europe/Berlin"})
    assert (made["status"], made["overlap"], made["missed"], made["last"]) == ("active", "skip", "once", None)
    assert schedule_of(client, "minutely") | {"warnings": []} == made
    assert client.post("/api/v1/schedules", json=MINUTELY).status_code == 409
    changed = client.put("/api/v1/schedules/minutely", json={"path": "tests/waits", "every": 90, "missed": "all"})
    assert (changed.status_code, changed.json()["every"], changed.json()["cron"]) == (200, 90.0, None)
    assert changed.json()["created"] == made["created"]
    other = client.put("/api/v1/schedules/another", json={"path": "tests/hello", "at": "2099-01-01T00:00"})
    assert (other.status_code, other.json()["next"]) == (201, "2099-01-01T00:00:00.000Z")
    page = client.get("/api/v1/schedules?limit=1").json()
    assert ([item["name"] for item in page["items"]], page["next"]) == (["another"], "another")
    page = client.get("/api/v1/schedules?limit=1&cursor=another").json()
    assert ([item["name"] for item in page["items"]], page["next"]) == (["minutely"], None)
    assert client.delete("/api/v1/schedules/another").status_code == 204
    assert client.delete("/api/v1/schedules/another").status_code == 404
    assert client.get("/api/v1/schedules/another").status_code == 404


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({"cron": "x"}, 422),
        ({"cron": None}, 422),
        ({"every": 5}, 422),
        ({"timezone": "Mars"}, 422),
        ({"cron": None, "at": "2001-01-01"}, 422),
        ({"cron": None, "every": 0.1}, 422),
        ({"path": "tests/none"}, 404),
        ({"path": "a\0b"}, 404),
        ({"version": 99}, 404),
        ({"version": 10**30}, 422),
        ({"version": 0}, 422),
        ({"name": "a/b"}, 422),
        ({"name": ""}, 422),
        ({"overlap": "maybe"}, 422),
        ({"missed": "twice"}, 422),
        ({"payload": [1]}, 422),
        ({"surprise": 1}, 422),
    ],
)
def test_what_cannot_be_a_schedule_is_refused(client: httpx2.Client, change: dict[str, Any], status: int) -> None:
    answer = client.post("/api/v1/schedules", json=MINUTELY | change)
    assert answer.status_code == status, answer.text
    assert client.get("/api/v1/schedules").json()["items"] == []


def test_who_operates_may_pause_and_trigger_but_not_change(server: ApiServer, client: httpx2.Client) -> None:
    add(client, HOURLY)
    with server.client("operator") as operator:
        for verb, status in (("pause", 200), ("resume", 200), ("trigger", 202)):
            assert operator.post(f"/api/v1/schedules/hourly/{verb}").status_code == status
        assert operator.put("/api/v1/schedules/hourly", json={"path": "tests/hello", "every": 5}).status_code == 403
    with server.client("viewer") as viewer:
        assert viewer.get("/api/v1/schedules/hourly").status_code == 200
        assert viewer.post("/api/v1/schedules/hourly/pause").status_code == 403


# -- firing ---------------------------------------------------------------------------------------------------------


def test_a_firing_starts_its_playbook_with_payload_ctx_and_its_time(server: ApiServer, client: httpx2.Client) -> None:
    add(client, MINUTELY | {"payload": {"name": "moon"}, "ctx": {"mark": 7}})
    moment = due(server, "minutely")
    look(server, moment - 1)
    assert executions(client) == []
    look(server, moment + 0.2)
    last = schedule_of(client, "minutely")["last"]
    assert last["outcome"] == "started"
    ended = until(client, last["execution_id"], "succeeded")
    assert (ended["result"], ended["ctx"]["mark"]) == ("hello moon!", 7)
    state = client.get(f"/api/v1/executions/{last['execution_id']}/state").json()
    assert state["workload"]["schedule"] == {"name": "minutely", "time": last["due"]}
    assert due(server, "minutely") == moment + 60
    look(server, moment + 0.4)
    assert len(executions(client)) == 1


def test_a_one_shot_fires_once_and_is_retired(server: ApiServer, client: httpx2.Client) -> None:
    add(client, {"name": "once", "path": "tests/hello", "at": "2099-01-01T00:00Z"})
    moment = due(server, "once")
    look(server, moment)
    result = schedule_of(client, "once")
    assert (result["status"], result["next"], result["last"]["outcome"]) == ("retired", None, "started")
    look(server, moment + 1e6)
    assert len(executions(client)) == 1


def test_a_playbook_that_is_gone_is_noted_and_the_next_firing_comes(server: ApiServer, client: httpx2.Client) -> None:
    add(client, MINUTELY)
    change(server, replace(stored(server, "minutely"), path="tests/gone"))
    moment = due(server, "minutely")
    look(server, moment)
    last = schedule_of(client, "minutely")["last"]
    assert (last["outcome"], last["execution_id"]) == ("failed", None)
    assert "tests/gone" in last["reason"]
    assert client.put("/api/v1/schedules/minutely", json={k: MINUTELY[k] for k in ("path", "cron")}).status_code == 200
    look(server, moment + 60)
    assert schedule_of(client, "minutely")["last"]["outcome"] == "started"


def test_a_payload_that_breaks_its_playbook_fails_the_execution(server: ApiServer, client: httpx2.Client) -> None:
    register(client, HELLO.replace("{name: world}", '{name: {a: "{{ 1 / 0 }}"}}').replace("tests/hello", "tests/fails"))
    add(client, MINUTELY | {"path": "tests/fails"})
    look(server, due(server, "minutely"))
    last = schedule_of(client, "minutely")["last"]
    assert last["outcome"] == "started"
    assert until(client, last["execution_id"], "failed")["error"]["kind"] == "template"


def test_a_firing_without_a_needed_name_fails_with_the_place(server: ApiServer, client: httpx2.Client) -> None:
    register(client, HELLO.replace("tests/hello", "tests/needs").replace("{{ workload.name }}", "{{ region }}"))
    add(client, MINUTELY | {"path": "tests/needs"})
    look(server, due(server, "minutely"))
    last = schedule_of(client, "minutely")["last"]
    assert (last["outcome"], last["execution_id"]) == ("failed", None)
    assert "tests/needs:7:42: NTL502 nothing provides 'region'" in last["reason"]


def test_one_schedule_in_trouble_does_not_hold_up_others(server: ApiServer, client: httpx2.Client) -> None:
    for name in ("a", "b", "c"):
        add(client, MINUTELY | {"name": name})
    change(server, replace(stored(server, "b"), timezone="Mars/Base"))
    look(server, due(server, "a") + 61)
    result = {name: schedule_of(client, name)["last"] for name in ("a", "b", "c")}
    assert [one["outcome"] for one in result.values()] == ["started", "failed", "started"]
    assert "Mars/Base" in result["b"]["reason"]


# -- overlap, on executions that are really open --------------------------------------------------------------------


def end(client: httpx2.Client, execution: str) -> None:
    answer = client.post(f"/api/v1/executions/{execution}/signals", json={"name": "go"})
    assert answer.status_code == 202
    until(client, execution, "succeeded")


def waiting(server: ApiServer, client: httpx2.Client, overlap: str) -> tuple[str, float]:
    """A schedule whose first execution is open: the execution, and when the next firing is due."""
    add(client, HOURLY | {"path": "tests/waits", "overlap": overlap})
    look(server, due(server, "hourly"))
    first = schedule_of(client, "hourly")["last"]["execution_id"]
    until(client, first, "waiting")
    return first, due(server, "hourly")


def test_skip_passes_over_a_firing_while_one_is_open(server: ApiServer, client: httpx2.Client) -> None:
    first, moment = waiting(server, client, "skip")
    look(server, moment)
    result = schedule_of(client, "hourly")
    assert (result["last"]["outcome"], result["running"]) == ("skipped", [first])
    end(client, first)
    look(server, moment + 3600)
    assert schedule_of(client, "hourly")["last"]["outcome"] == "started"
    assert len(executions(client)) == 2


def test_queue_starts_the_next_when_the_one_before_has_ended(server: ApiServer, client: httpx2.Client) -> None:
    first, moment = waiting(server, client, "queue")
    look(server, moment)
    look(server, moment + 2)
    assert (schedule_of(client, "hourly")["queued"], len(executions(client))) == (1, 1)
    end(client, first)
    look(server, moment + 4)
    result = schedule_of(client, "hourly")
    assert (result["queued"], result["last"]["outcome"], len(executions(client))) == (0, "started", 2)


def test_allow_starts_beside_an_open_one(server: ApiServer, client: httpx2.Client) -> None:
    first, moment = waiting(server, client, "allow")
    look(server, moment)
    assert {execution["status"] for execution in executions(client)} <= {"waiting", "running"}
    assert len(executions(client)) == 2
    assert schedule_of(client, "hourly")["last"]["execution_id"] != first


# -- after a time without a server ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("missed", "count"), [("skip", 1), ("once", 1), ("all", 6)])
def test_what_was_missed_is_made_up_for_as_the_policy_says(
    open_server: OpenServer, server: ApiServer, client: httpx2.Client, missed: str, count: int
) -> None:
    add(client, MINUTELY | {"missed": missed, "overlap": "allow"})
    moment = due(server, "minutely")
    later = open_server()
    look(later, moment + 5 * 60 + 3)
    assert len(executions(client)) == count
    result = schedule_of(client, "minutely")
    assert result["recent"][-1]["outcome"] == "started"
    assert sum(one["count"] for one in result["recent"] if one["outcome"] == "missed") == 6 - count
    assert due(server, "minutely") == moment + 360


# -- several servers, and death -------------------------------------------------------------------------------------


def test_two_servers_that_see_a_firing_at_once_start_one_execution(
    open_server: OpenServer, server: ApiServer, client: httpx2.Client
) -> None:
    other = open_server()
    names = [f"s{number}" for number in range(5)]
    for name in names:
        add(client, MINUTELY | {"name": name})
    moment = max(due(server, name) for name in names)
    for name in names:  # a minute may have ended while they were made
        run = stored(server, name)
        change(server, replace(run, next=moment, look=moment))
    for turn in range(4):
        pending = [
            asyncio.run_coroutine_threadsafe(one.app.api.scheduler.fire_once(moment + 60 * turn), one.loop)
            for one in (server, other)
        ]
        for future in pending:
            future.result(60)
    left = [stored(server, name) for name in names]
    expected = {Firing(moment + 60 * turn).execution(one.id) for turn in range(4) for one in left}
    skipped = sum(fired.count for one in left for fired in one.recent if fired.outcome == "skipped")
    result = {execution["execution_id"] for execution in executions(client)}
    assert result <= expected
    assert len(result) + skipped == len(expected)
    assert [one.starting for one in left] == [()] * 5


@pytest.mark.parametrize("point", ["decided", "started"])
def test_a_server_that_is_killed_in_between_leaves_one_execution(
    address: str, open_server: OpenServer, server: ApiServer, client: httpx2.Client, point: str
) -> None:
    add(client, MINUTELY)
    moment = due(server, "minutely")
    script = Path(__file__).parent / "dying_server.py"
    died = subprocess.run(
        [sys.executable, str(script), address, point, repr(moment)], timeout=PATIENCE_SECONDS, check=False
    )
    assert died.returncode == -9
    left = stored(server, "minutely")
    assert left.starting == (Firing(moment),)
    assert len(executions(client)) == (point == "started")
    other = open_server()
    look(other, moment + START_LEASE_SECONDS + 1)
    look(server, moment + START_LEASE_SECONDS + 1)
    (only,) = executions(client)
    assert only["execution_id"] == Firing(moment).execution(left.id)
    result = schedule_of(client, "minutely")
    assert (result["last"]["execution_id"], len(result["recent"])) == (only["execution_id"], 1)
    assert until(client, only["execution_id"], "succeeded")["result"] == "hello world!"


def test_a_schedule_of_the_same_name_is_another_one(server: ApiServer, client: httpx2.Client) -> None:
    add(client, {"name": "once", "path": "tests/hello", "at": "2099-01-01T00:00Z"})
    look(server, due(server, "once"))
    client.delete("/api/v1/schedules/once")
    add(client, {"name": "once", "path": "tests/hello", "at": "2099-01-01T00:00Z"})
    look(server, due(server, "once"))
    assert len(executions(client)) == 2


# -- on request -----------------------------------------------------------------------------------------------------


def test_a_trigger_fires_now_also_while_it_is_paused(server: ApiServer, client: httpx2.Client) -> None:
    add(client, HOURLY | {"paused": True})
    moment = due(server, "hourly")
    answer = client.post("/api/v1/schedules/hourly/trigger")
    assert (answer.status_code, answer.json()["queued"]) == (202, False)
    execution = answer.json()["execution_id"]
    assert answer.headers["location"].endswith(execution)
    assert until(client, execution, "succeeded")["actor"] == {"kind": "token", "name": "admin"}
    result = schedule_of(client, "hourly")
    assert (result["status"], result["last"]["execution_id"]) == ("paused", execution)
    assert due(server, "hourly") == moment


def test_a_trigger_with_a_key_counts_once_at_any_server(
    open_server: OpenServer, server: ApiServer, client: httpx2.Client
) -> None:
    add(client, HOURLY | {"overlap": "allow"})
    other = open_server()
    headers = {"Idempotency-Key": "k1", "Authorization": f"Bearer {server.tokens['admin']}"}
    result = set()
    for one in (server, other, server):
        with one.client(None) as asking:
            result.add(asking.post("/api/v1/schedules/hourly/trigger", headers=headers).json()["execution_id"])
    assert len(result) == len(executions(client)) == 1
    headers["Idempotency-Key"] = "k2"
    assert client.post("/api/v1/schedules/hourly/trigger", headers=headers).json()["execution_id"] not in result
    headers["Idempotency-Key"] = "x" * 999
    assert client.post("/api/v1/schedules/hourly/trigger", headers=headers).status_code == 422


def test_a_trigger_obeys_the_overlap_policy(server: ApiServer, client: httpx2.Client) -> None:
    first, moment = waiting(server, client, "skip")
    refused = client.post("/api/v1/schedules/hourly/trigger")
    assert refused.status_code == 409
    assert first in refused.json()["detail"]
    client.put("/api/v1/schedules/hourly", json={"path": "tests/waits", "every": "1h", "overlap": "queue"})
    queued = client.post("/api/v1/schedules/hourly/trigger").json()
    assert queued["queued"]
    assert client.get(f"/api/v1/executions/{queued['execution_id']}").status_code == 404
    end(client, first)
    look(server, time.time() + 2)
    until(client, queued["execution_id"], "waiting")
    assert due(server, "hourly") == moment


def test_a_trigger_that_cannot_start_says_why(server: ApiServer, client: httpx2.Client) -> None:
    add(client, HOURLY)
    change(server, replace(stored(server, "hourly"), path="tests/gone"))
    answer = client.post("/api/v1/schedules/hourly/trigger")
    assert answer.status_code == 404
    assert "tests/gone" in answer.json()["detail"]
    assert schedule_of(client, "hourly")["last"]["outcome"] == "failed"
    assert client.post("/api/v1/schedules/none/trigger").status_code == 404


def test_a_pause_holds_until_it_is_resumed(server: ApiServer, client: httpx2.Client) -> None:
    add(client, MINUTELY)
    moment = due(server, "minutely")
    paused = client.post("/api/v1/schedules/minutely/pause", json={})
    assert (paused.status_code, paused.json()["status"], paused.json()["next"]) == (200, "paused", None)
    look(server, moment + 600)
    assert executions(client) == []
    server.clock.offset = 700.0
    resumed = client.post("/api/v1/schedules/minutely/resume").json()
    assert (resumed["status"], resumed["last"]) == ("active", None)
    assert due(server, "minutely") > moment + 600
    server.clock.offset = 0.0


def test_an_execution_that_has_ended_is_not_shown_as_running(server: ApiServer, client: httpx2.Client) -> None:
    add(client, MINUTELY | {"path": "tests/waits"})
    execution = client.post("/api/v1/schedules/minutely/trigger").json()["execution_id"]
    assert schedule_of(client, "minutely")["running"] == [execution]
    client.post("/api/v1/schedules/minutely/pause")
    assert client.post(f"/api/v1/executions/{execution}/cancel").status_code == 202
    until(client, execution, "cancelled")
    assert schedule_of(client, "minutely")["running"] == []
    assert client.get("/api/v1/schedules").json()["items"][0]["running"] == []
