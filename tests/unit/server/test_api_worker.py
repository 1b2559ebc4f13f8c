"""What workers ask: leases of their pool, reports under their own leases, and nothing of others."""

from __future__ import annotations

import socket
import time
from base64 import b64encode
from collections.abc import Callable, Iterator
from hashlib import sha256
from typing import Any

import httpx2
import msgspec
import pytest
from api_server import ELSEWHERE, ApiServer, begun, register, until
from tests.servers.patience import PATIENCE_SECONDS

from noetl.engine import events as e
from noetl.engine.commands import Report
from noetl.worker import wire
from noetl.worker.work import Work

API = "/api/v1/worker"
CONTENT = b'{"large": true}'
KEY = sha256(CONTENT).hexdigest()


@pytest.fixture(scope="module", autouse=True)
def _prepared(server: ApiServer) -> None:
    with server.client("author") as client:
        register(client, ELSEWHERE)
    for name, pool in (("mine", "elsewhere"), ("other", "elsewhere"), ("shop", "shop")):
        server.add_token("worker", name, pool=pool)


@pytest.fixture
def mine(server: ApiServer) -> Iterator[httpx2.Client]:
    with server.client("mine") as client:
        yield client


@pytest.fixture
def other(server: ApiServer) -> Iterator[httpx2.Client]:
    with server.client("other") as client:
        yield client


def post_message(client: httpx2.Client, path: str, message: Any) -> httpx2.Response:
    return client.post(f"{API}/{path}", content=wire.encode(message), headers={"Content-Type": "application/json"})


def claimed(
    client: httpx2.Client, wait: float = 10, claim_id: str = "", pool: str = "elsewhere", *, again: bool = False
) -> list[Work]:
    answer = post_message(client, "claim", wire.ClaimRequest("w", pool, 1, claim_id, wait, again))
    assert answer.status_code == 200, answer.text
    return wire.decode_works(answer.content)


def reported(client: httpx2.Client, work: Work, *facts: e.Event, execution: str = "", **more: Any) -> wire.Verdicts:
    report = Report(work.fence, facts, **{"grant": work.claim, **more})
    request = wire.report_request(execution or work.execution, report)
    answer = post_message(client, "report", [request])
    assert answer.status_code == 200, answer.text
    (verdict,) = wire.decode_as(list[wire.Verdicts], answer.content)
    return verdict


@pytest.fixture
def work(admin: httpx2.Client, mine: httpx2.Client) -> Iterator[Work]:
    """A lease that `mine` holds."""
    execution = begun(admin, {"path": "tests/elsewhere"})
    (result,) = claimed(mine)
    assert (result.execution, result.step) == (execution, "start")
    yield result
    admin.post(f"/api/v1/executions/{execution}/cancel")


# -- work -----------------------------------------------------------------------------------------------------------


def test_work_is_claimed_reported_and_followed_by_more(admin: httpx2.Client, mine: httpx2.Client, work: Work) -> None:
    claim = wire.Claim("w", 1, "elsewhere", "next")
    verdict = reported(mine, work, e.StepDone(work.run, "hello"), claim=claim)
    (more,) = map(wire.decode_work, verdict.works)
    assert (more.execution, more.step, more.steps["start"].result) == (work.execution, "end", "hello")
    reported(mine, more, e.StepDone(more.run, "bye"))
    assert until(admin, work.execution, "succeeded")["result"] == "bye"


def test_events_that_a_worker_reports_name_the_worker(
    server: ApiServer, admin: httpx2.Client, mine: httpx2.Client, work: Work
) -> None:
    (more,) = map(
        wire.decode_work,
        reported(mine, work, e.StepDone(work.run, 1), claim=wire.Claim("w", 1, "elsewhere", "next")).works,
    )
    reported(mine, more, e.StepDone(more.run, 2))
    until(admin, work.execution, "succeeded")
    url = f"/api/v1/executions/{work.execution}/events"
    events = admin.get(url).json()["items"]
    worker = {"kind": "worker", "name": f"w@{server.ids['mine']}"}
    assert [(event["event_type"], event["step_run_id"]) for event in events if event["actor"] == worker] == [
        (name, run) for run in (work.run, more.run) for name in ("step.started", "step.done")
    ]
    assert {event["event_type"] for event in events if event["actor"] not in (None, worker)} == {
        "playbook.execution.requested"
    }
    for event in events:
        after = {"after": event["seq"] - 1, "limit": 1}
        assert admin.get(url, params=after).json()["items"] == [event]
    done = admin.get(url, params={"type": "step.done"}).json()["items"]
    assert done == [event for event in events if event["event_type"] == "step.done"]
    stream = admin.get(url, params={"after": done[1]["seq"] - 1}, headers={"Accept": "text/event-stream"}).text
    assert msgspec.json.decode(stream.partition("data: ")[2].partition("\n")[0])["actor"] == worker


def test_reports_that_travel_together_are_all_taken(admin: httpx2.Client, mine: httpx2.Client) -> None:
    works = []
    for _ in range(3):
        begun(admin, {"path": "tests/elsewhere"})
        works += claimed(mine)
    requests = [
        wire.report_request(lease.execution, Report(lease.fence, (e.StepDone(lease.run, 1),))) for lease in works
    ]
    answer = post_message(mine, "report", requests)
    verdicts = wire.decode_as(list[wire.Verdicts], answer.content)
    assert [(verdict.verdict, verdict.held) for verdict in verdicts] == [("accepted", False)] * 3
    answer = post_message(mine, "report", requests)
    assert [one.verdict for one in wire.decode_as(list[wire.Verdicts], answer.content)] == ["duplicate"] * 3
    for lease in works:
        assert until(admin, lease.execution, "running", "waiting")["steps"]["start"]["status"] == "succeeded"
        admin.post(f"/api/v1/executions/{lease.execution}/cancel")


def test_a_claim_that_is_asked_again_gets_the_same_leases(admin: httpx2.Client, mine: httpx2.Client) -> None:
    begun(admin, {"path": "tests/elsewhere"})
    first, again = claimed(mine, claim_id="c1"), claimed(mine, claim_id="c1", again=True)
    assert [(lease.execution, lease.fence) for lease in first] == [(lease.execution, lease.fence) for lease in again]
    admin.post(f"/api/v1/executions/{first[0].execution}/cancel")


def test_without_work_the_answer_is_empty(mine: httpx2.Client) -> None:
    assert claimed(mine, wait=0) == []
    assert claimed(mine, wait=0.1) == []


def test_a_token_works_for_its_pool_only(server: ApiServer, mine: httpx2.Client) -> None:
    assert post_message(mine, "claim", wire.ClaimRequest("w", "default", 1)).status_code == 403
    assert post_message(mine, "claim", wire.ClaimRequest("w", "", 1)).status_code == 403
    assert post_message(mine, "heartbeat", wire.HeartbeatRequest("w", "default", 1)).status_code == 403
    with server.client("worker") as free:
        assert post_message(free, "claim", wire.ClaimRequest("w", "elsewhere", 1)).status_code == 200


def test_leases_of_other_tokens_cannot_be_reported(
    admin: httpx2.Client, mine: httpx2.Client, other: httpx2.Client, work: Work
) -> None:
    assert reported(other, work, e.StepDone(work.run, "stolen")).verdict == "rejected"
    assert admin.get(f"/api/v1/executions/{work.execution}").json()["steps"]["start"]["status"] == "running"
    claim = wire.Claim("w", 1, "elsewhere", "x")
    assert reported(other, work, e.StepDone(work.run, "stolen"), claim=claim).works == []
    with_claim = reported(mine, work, e.StepDone(work.run, "own"), claim=claim)
    assert len(with_claim.works) == 1


def test_facts_of_another_run_are_not_taken(admin: httpx2.Client, mine: httpx2.Client, work: Work) -> None:
    assert reported(mine, work, e.StepDone("end#1", "forged")).verdict == "rejected"
    body = admin.get(f"/api/v1/executions/{work.execution}").json()
    assert body["steps"]["start"]["status"] == "running"


def test_what_servers_write_no_worker_may(mine: httpx2.Client, work: Work) -> None:
    request = wire.report_request(work.execution, Report(work.fence, (e.PlaybookProcessed("succeeded"),)))
    assert post_message(mine, "report", [request]).status_code == 400
    assert post_message(mine, "report", {"not": "a list"}).status_code == 422


def test_a_report_for_nobody_is_rejected(mine: httpx2.Client, work: Work) -> None:
    nobody = "01890000-0000-7000-8000-000000000000"
    assert reported(mine, work, e.StepDone(work.run, 1), execution=nobody).verdict == "rejected"


def test_a_heartbeat_names_what_is_void(admin: httpx2.Client, mine: httpx2.Client, work: Work) -> None:
    beat = wire.HeartbeatRequest("w", "elsewhere", 4, {work.execution: [work.fence, 99]}, "host", 1.0, "1.0")
    pulse = wire.decode_as(wire.HeartbeatReply, post_message(mine, "heartbeat", beat).content)
    assert (pulse.revoked, pulse.paused) == ([(work.execution, 99)], [])
    (listed,) = [item for item in admin.get("/api/v1/workers").json()["items"] if item["worker"].startswith("w@")]
    assert (listed["pool"], listed["slots"], listed["busy"], listed["host"]) == ("elsewhere", 4, 2, "host")
    admin.post(f"/api/v1/executions/{work.execution}/cancel")
    pulse = wire.decode_as(wire.HeartbeatReply, post_message(mine, "heartbeat", beat).content)
    assert (work.execution, work.fence) in pulse.revoked


@pytest.mark.parametrize(("worker", "slots"), [("", 1), ("w", 0), ("w", 10_001), ("w\n", 1), ("w" * 201, 1)])
def test_a_claim_that_makes_no_sense(mine: httpx2.Client, worker: str, slots: int) -> None:
    assert post_message(mine, "claim", wire.ClaimRequest(worker, "elsewhere", slots)).status_code == 422


# -- lines ----------------------------------------------------------------------------------------------------------


def test_lines_come_with_beats_and_reports(
    admin: httpx2.Client, server: ApiServer, mine: httpx2.Client, work: Work
) -> None:
    line = (work.execution, "start#1/task_1#1", 1.0, "stdout", "said")
    post_message(
        mine, "heartbeat", wire.HeartbeatRequest("w", "elsewhere", 1, {work.execution: [work.fence]}, lines=[line])
    )
    post_message(mine, "report", [wire.report_request(work.execution, Report(work.fence, ()), [line])])
    with server.client("shop") as shop:  # has no part in this execution
        post_message(shop, "heartbeat", wire.HeartbeatRequest("w", "shop", 1, lines=[line]))
    nobody = ("no-execution", *line[1:])
    post_message(mine, "heartbeat", wire.HeartbeatRequest("w", "elsewhere", 1, lines=[nobody]))
    logs = admin.get(f"/api/v1/executions/{work.execution}/logs").json()["items"]
    assert [log["line"] for log in logs] == ["said", "said"]


# -- what work needs ------------------------------------------------------------------------------------------------


def test_a_credential_is_for_who_holds_a_lease(mine: httpx2.Client, other: httpx2.Client, work: Work) -> None:
    asked = wire.SecretRequest("w", work.execution, "open")
    assert post_message(mine, "secrets", asked).json()["fields"] == {"token": "s3cret-value"}
    assert post_message(other, "secrets", asked).status_code == 409
    assert post_message(mine, "secrets", wire.SecretRequest("else", work.execution, "open")).status_code == 409
    reported(mine, work, e.StepDone(work.run, 1))
    assert post_message(mine, "secrets", asked).status_code == 409
    nobody = wire.SecretRequest("w", "01890000-0000-7000-8000-000000000000", "open")
    assert post_message(mine, "secrets", nobody).status_code == 404


def test_a_credential_that_the_playbook_may_not_use_stays(mine: httpx2.Client, work: Work) -> None:
    answer = post_message(mine, "secrets", wire.SecretRequest("w", work.execution, "closed"))
    assert (answer.status_code, "may not be used" in answer.text, "s3cret" in answer.text) == (404, True, False)
    assert post_message(mine, "secrets", wire.SecretRequest("w", work.execution, "none")).status_code == 404


def test_playbooks_by_digest(mine: httpx2.Client, work: Work) -> None:
    assert mine.get(f"{API}/playbooks/{work.digest}").text == ELSEWHERE
    assert mine.get(f"{API}/playbooks/{'0' * 64}").status_code == 404


def test_content_goes_up_and_down(admin: httpx2.Client, mine: httpx2.Client, other: httpx2.Client, work: Work) -> None:
    put = {"content": CONTENT, "headers": {"Content-Type": "application/octet-stream"}}
    url = f"{API}/blobs/{KEY}"
    assert mine.get(url).status_code == 404
    assert mine.put(url, **put).status_code == 422
    assert other.put(url, params={"execution": work.execution}, **put).status_code == 409
    assert mine.put(f"{API}/blobs/{'0' * 64}", params={"execution": work.execution}, **put).status_code == 422
    for _ in range(2):
        assert mine.put(url, params={"execution": work.execution}, **put).status_code == 204
    assert mine.get(url).content == CONTENT
    result = admin.get(f"/api/v1/results/{KEY}")
    assert (result.json(), result.headers["content-type"]) == ({"large": True}, "application/json")
    assert result.headers["content-disposition"].startswith("attachment")


def test_content_with_a_report_must_have_its_hash(mine: httpx2.Client, work: Work) -> None:
    request = msgspec.structs.replace(
        wire.report_request(work.execution, Report(work.fence, ())), blobs=[(KEY, b64encode(b"other").decode())]
    )
    assert post_message(mine, "report", [request]).status_code == 422


def test_a_worker_that_leaves_while_it_waits_is_no_failure_of_the_server(server: ApiServer) -> None:
    body = b'{"worker": "short", "slots": 1, "pool": "quiet", "claim_id": "left", "wait": 60}'
    with socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE_SECONDS) as connection:
        token = server.tokens["worker"]
        head = f"POST {API}/claim HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}"
        more = f"\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\nX-Request-Id: left\r\n\r\n"
        connection.sendall((head + more).encode() + body)
        _soon(lambda: server.host.dispatcher.queue.idle_claims["quiet"] == 1)
    _soon(lambda: '"request_id":"left"' in server.log.getvalue())
    line = next(line for line in server.log.getvalue().splitlines() if '"request_id":"left"' in line)
    assert '"status":499' in line
    _soon(lambda: server.host.dispatcher.queue.idle_claims["quiet"] == 0)


def _soon(look: Callable[[], bool]) -> None:
    give_up = time.monotonic() + PATIENCE_SECONDS
    while not look():
        assert time.monotonic() < give_up
        time.sleep(0.02)
