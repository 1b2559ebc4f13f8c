"""A worker that says what is not so gets nothing: no child, no result, no lease, no memory, no file of the server."""

from __future__ import annotations

import json
import resource
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from hashlib import sha256
from itertools import count
from pathlib import Path
from typing import Any

import httpx2
import msgspec
import pytest
from api_server import ApiServer, begun, started, until
from shared_store import address_of, server_at
from tests.servers.patience import PATIENCE_SECONDS
from tests.servers.postgres import postgres_fixture, store_schema_fixture  # noqa: F401

from noetl.engine import events as e
from noetl.engine.commands import Claim, Report
from noetl.model.identity import TaskId, action_id, child_id
from noetl.model.outcome import Outcome
from noetl.reference import Reference, canonical, reference_to
from noetl.runtime.audit import Audit
from noetl.worker import wire
from noetl.worker.work import Work

API = "/api/v1/worker"
HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\n"
PAY = f"""{HEAD}metadata: {{name: pay, path: finance/pay}}
workload: {{amount: 1}}
workflow:
  - {{step: start, tool: {{kind: noop, result: "{{{{ workload.amount }}}}"}}}}
"""
SALARIES = f"""{HEAD}metadata: {{name: report, path: finance/report}}
workflow:
  - {{step: start, tool: {{kind: noop, result: {{salaries: [123456, 654321]}}}}}}
"""
HARMLESS = PAY.replace("name: pay, path: finance/pay", "name: harmless, path: harmless")
MINE = f"""{HEAD}metadata: {{name: mine, path: mine}}
executor: {{spec: {{pool: alpha}}}}
workflow:
  - step: start
    tool:
      - n: {{kind: noop}}
      - c: {{kind: playbook, path: harmless, args: {{amount: "{{{{ workload.amount | default(3) }}}}"}}}}
"""
LOOP = f"""{HEAD}metadata: {{name: loop, path: loop}}
executor: {{spec: {{pool: alpha}}}}
workflow:
  - step: start
    loop: {{in: [1, 2, 3, 4], iterator: i, spec: {{mode: parallel, max_in_flight: 2}}}}
    tool: {{kind: noop}}
"""
LENGTH = f"""{HEAD}metadata: {{name: length, path: length}}
executor: {{spec: {{pool: alpha}}}}
workflow:
  - step: start
    tool: {{kind: noop}}
    next: {{arcs: [{{step: end, when: "{{{{ steps.start.result | length > 5 }}}}"}}]}}
  - {{step: end, tool: {{kind: noop}}}}
"""
IDLE = f"""{HEAD}metadata: {{name: idle, path: idle}}
executor: {{spec: {{pool: alpha}}}}
workflow:
  - {{step: start, tool: {{kind: noop}}, next: {{arcs: [{{step: each}}]}}}}
  - {{step: each, loop: {{in: "{{{{ steps.start.result }}}}", iterator: i}}}}
"""
AGAIN = f"""{HEAD}metadata: {{name: again, path: again}}
executor: {{spec: {{pool: alpha}}}}
workflow:
  - step: start
    tool:
      - t:
          kind: noop
          spec:
            policy:
              rules:
                - {{when: "{{{{ outcome.status == 'error' }}}}", then: {{do: retry, attempts: 3}}}}
                - {{when: "{{{{ true }}}}", then: {{do: jump, to: t}}}}
                - {{else: {{then: {{do: continue}}}}}}
"""
numbers = count()


@pytest.fixture(params=["sqlite", "postgres"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return address_of(request, request.param, tmp_path)


@pytest.fixture
def server(address: str) -> Iterator[ApiServer]:
    with closing(server_at(address)) as one:
        with one.client("author") as author:
            for text in (PAY, SALARIES, HARMLESS, MINE, LOOP, LENGTH, AGAIN, IDLE):
                answer = author.post("/api/v1/playbooks", content=text, headers={"Content-Type": "application/yaml"})
                assert answer.status_code == 201, answer.text
        for name in ("evil", "other"):
            one.add_token("worker", name, pool="alpha")
        yield one
        audit = Audit(one.store)
        assert {run.execution_id: audit.of(run) for run in one.store.summaries()} == {
            run.execution_id: [] for run in one.store.summaries()
        }


@pytest.fixture
def evil(server: ApiServer) -> Iterator[httpx2.Client]:
    with server.client("evil") as client:
        yield client


@pytest.fixture
def other(server: ApiServer) -> Iterator[httpx2.Client]:
    with server.client("other") as client:
        yield client


@pytest.fixture
def admin(server: ApiServer) -> Iterator[httpx2.Client]:
    with server.client("admin") as client:
        yield client


def post_message(client: httpx2.Client, path: str, message: Any) -> httpx2.Response:
    return client.post(f"{API}/{path}", content=wire.encode(message), headers={"Content-Type": "application/json"})


def claimed(client: httpx2.Client, execution: str, wait: float = 20) -> Work:
    answer = post_message(client, "claim", wire.ClaimRequest("w", "alpha", 1, f"c{next(numbers)}", wait))
    assert answer.status_code == 200, answer.text
    (work,) = wire.decode_works(answer.content)
    assert work.execution == execution
    return work


def leased(admin: httpx2.Client, worker: httpx2.Client, path: str) -> Work:
    return claimed(worker, begun(admin, {"path": path}))


def reported(client: httpx2.Client, work: Work, *facts: e.Event, **more: Any) -> wire.Verdicts:
    answer = post_message(client, "report", [wire.report_request(work.execution, Report(work.fence, facts, **more))])
    assert answer.status_code == 200, answer.text
    (verdict,) = wire.decode_as(list[wire.Verdicts], answer.content)
    return verdict


def ids(admin: httpx2.Client) -> set[str]:
    return {item["execution_id"] for item in admin.get("/api/v1/executions").json()["items"]}


def events(admin: httpx2.Client, execution: str) -> list[str]:
    return [item["event_type"] for item in admin.get(f"/api/v1/executions/{execution}/events").json()["items"]]


def soon(look: Callable[[], bool]) -> None:
    give_up = time.monotonic() + PATIENCE_SECONDS
    while not look():
        assert time.monotonic() < give_up
        time.sleep(0.02)


# -- children --------------------------------------------------------------------------------------------------------


def at_child(work: Work) -> tuple[tuple[e.Event, ...], str]:
    """What is told until the task waits for its child, and the id of that child."""
    first, call = TaskId(work.run, "n#1"), TaskId(work.run, "c#1")
    facts = (e.TaskStarted(first), e.TaskDone(first, 1, Outcome(), "continue", "c"), e.TaskStarted(call))
    return facts, child_id(action_id(work.execution, call), 1)


def waiting(work: Work, key: str, **request: Any) -> e.StepPaused:
    asked = {"path": "harmless", "version": None, "payload": {"amount": 3}, "step": "start"} | request
    return e.StepPaused(work.run, work.fence, "waiting", until="child", key=key, request=asked)


def test_a_worker_starts_no_child_that_its_task_does_not_ask_for(admin: httpx2.Client, evil: httpx2.Client) -> None:
    work = leased(admin, evil, "mine")
    before, (facts, key) = ids(admin), at_child(work)
    kid = "01890000-0000-7000-8000-000000000001"
    assert reported(evil, work, waiting(work, kid, path="finance/pay")).verdict == "rejected"
    assert reported(evil, work, waiting(work, key)).verdict == "rejected"  # before its time
    assert reported(evil, work, *facts).verdict == "accepted"
    for forged in (
        waiting(work, kid),
        waiting(work, key, path="finance/pay"),
        waiting(work, key, path="finance/pay", payload={"amount": 1_000_000}),
        waiting(work, key, version=2),
        waiting(work, key, payload={"amount": 3, "more": 1}),
        waiting(work, key, step="end"),
    ):
        assert reported(evil, work, forged, first=3).verdict == "rejected"
    assert ids(admin) == before
    assert reported(evil, work, waiting(work, key), first=3).verdict == "accepted"
    soon(lambda: key in ids(admin))
    (more,) = [claimed(evil, work.execution)]
    assert more.progress[""].delivered == Outcome(result=3)
    assert reported(evil, more, e.StepDone(more.run, 3)).verdict == "accepted"
    assert until(admin, work.execution, "succeeded")["result"] == 3


def test_a_worker_gets_no_result_of_an_execution_that_is_not_its_child(
    admin: httpx2.Client, evil: httpx2.Client
) -> None:
    other = started(admin, {"path": "finance/report"})["execution_id"]
    work = leased(admin, evil, "mine")
    facts, _ = at_child(work)
    assert reported(evil, work, *facts, waiting(work, other)).verdict == "rejected"
    assert reported(evil, work, e.StepDone(work.run, 1)).verdict == "accepted"


def test_an_execution_with_the_id_of_a_child_is_no_child(server: ApiServer, admin: httpx2.Client) -> None:
    """Whoever can choose the id of an execution could lay it in the way of somebody else's child."""
    with server.client("evil") as evil:
        work = leased(admin, evil, "mine")
        facts, key = at_child(work)
        digest = server.store.find("finance/report")
        assert digest is not None

        server.do(server.host.runtime.start(digest, {}, {}, key))
        until(admin, key, "succeeded")
        assert reported(evil, work, *facts, waiting(work, key)).verdict == "accepted"
        more = claimed(evil, work.execution)
        delivered = more.progress[""].delivered
        assert delivered is not None
        assert delivered.error is not None
        assert (delivered.error.kind, "not started by this run" in delivered.error.message) == ("child_failed", True)
        assert reported(evil, more, e.StepDone(more.run, 1)).verdict == "accepted"


# -- leases of others ------------------------------------------------------------------------------------------------


def test_a_worker_cannot_end_the_lease_of_another(
    admin: httpx2.Client, evil: httpx2.Client, other: httpx2.Client
) -> None:
    work = leased(admin, evil, "loop")
    theirs = claimed(other, work.execution)
    for reason in ("lost", "returned", "waiting"):
        assert reported(evil, work, e.StepPaused(work.run, theirs.fence, reason)).verdict == "rejected"
    assert reported(evil, work, e.StepPaused(work.run, work.fence, "lost")).verdict == "rejected"
    assert reported(evil, work, e.IterationDone(work.run, theirs.first)).verdict == "rejected"
    assert reported(evil, work, e.StepDone(work.run)).verdict == "rejected"
    beat = post_message(other, "heartbeat", wire.HeartbeatRequest("w", "alpha", 1, {work.execution: [theirs.fence]}))
    assert wire.decode_as(wire.HeartbeatReply, beat.content).revoked == []
    assert "step.paused" not in events(admin, work.execution)
    for worker, lease in ((other, theirs), (evil, work)):
        facts = (e.IterationStarted(lease.run, lease.first), e.IterationDone(lease.run, lease.first, "mine"))
        assert reported(worker, lease, *facts).verdict == "accepted"


def test_nothing_of_a_refused_report_is_stored(admin: httpx2.Client, evil: httpx2.Client) -> None:
    work = leased(admin, evil, "mine")
    before = events(admin, work.execution)
    task = TaskId(work.run, "n#1")
    honest = (e.TaskStarted(task), e.TaskDone(task, 1, Outcome(), "continue", "c"))
    assert reported(evil, work, *honest, e.TaskStarted(TaskId(work.run, "c#2"))).verdict == "rejected"
    assert events(admin, work.execution) == before
    assert reported(evil, work, *honest).verdict == "accepted"


def test_facts_follow_those_that_went_to_another_server(
    server: ApiServer, admin: httpx2.Client, evil: httpx2.Client, address: str
) -> None:
    work = leased(admin, evil, "mine")
    with closing(server_at(address)) as second, second.client("admin") as elsewhere:
        elsewhere.get(f"/api/v1/executions/{work.execution}")  # it has the execution in memory, as it is now
        assert work.fence in second.host.runtime.executions[work.execution].state.leases
        task = TaskId(work.run, "n#1")
        assert reported(evil, work, e.TaskStarted(task)).verdict == "accepted"
        done = e.TaskDone(task, 1, Outcome(), "continue", "c")
        assert reported(evil, work, done, first=1).verdict == "accepted"
        with httpx2.Client(
            base_url=second.url, headers=evil.headers, timeout=PATIENCE_SECONDS, trust_env=False
        ) as there:
            assert reported(there, work, e.TaskStarted(TaskId(work.run, "c#1")), first=2).verdict == "accepted"
            assert reported(there, work, e.TaskStarted(TaskId(work.run, "d#1")), first=3).verdict == "rejected"


# -- stored values ---------------------------------------------------------------------------------------------------


def peak_megabytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


def test_a_manifest_makes_no_list_that_its_chunks_do_not_fill(admin: httpx2.Client, evil: httpx2.Client) -> None:
    work = leased(admin, evil, "length")
    content = canonical({"total": 300_000_000, "chunks": []})
    reference, before = reference_to(content, hint="chunks"), peak_megabytes()
    result = reported(evil, work, e.StepDone(work.run, reference), blobs=((reference.key, content),))
    assert result.verdict == "accepted"
    error = until(admin, work.execution, "failed")["error"]
    assert "300,000,000 items" in error["message"]
    assert peak_megabytes() - before < 1_000  # it was 2,300


@pytest.mark.parametrize("key", ["/etc/passwd", "/etc/ab/{hash}", "/proc/self/environ", "../x/ab/{hash}"])
def test_a_worker_has_no_file_of_the_server_read(admin: httpx2.Client, evil: httpx2.Client, key: str) -> None:
    work = leased(admin, evil, "length")
    digest = sha256(b"content").hexdigest()
    reference = Reference("file", key.replace("{hash}", digest), 7, f"sha256:{digest}")
    answer = post_message(
        evil, "report", [wire.report_request(work.execution, Report(work.fence, (e.StepDone(work.run, reference),)))]
    )
    if answer.status_code == 200:
        assert wire.decode_as(list[wire.Verdicts], answer.content)[0].verdict == "rejected"
    else:
        assert answer.status_code == 400
    assert reported(evil, work, e.StepFailed(work.run, e.Error("gone", "given up"))).verdict == "accepted"


def test_content_is_for_leases_that_refer_to_it(
    server: ApiServer, admin: httpx2.Client, evil: httpx2.Client, other: httpx2.Client
) -> None:
    theirs = leased(admin, other, "length")
    content = json.dumps(["large"] * 9).encode()
    reference = reference_to(content, hint="list")
    put = {"content": content, "headers": {"Content-Type": "application/octet-stream"}}
    url = f"{API}/blobs/{reference.key}"
    assert other.put(url, params={"execution": theirs.execution}, **put).status_code == 204
    assert (other.get(url).content, evil.get(url).status_code) == (content, 404)
    assert [one.get(f"{API}/playbooks/{theirs.digest}").status_code for one in (other, evil)] == [200, 404]
    mine = leased(admin, evil, "mine")
    assert [evil.get(f"{API}/playbooks/{one.digest}").status_code for one in (mine, theirs)] == [200, 404]
    # nor by saying that it is a result of one's own
    facts, _ = at_child(mine)
    done = e.TaskDone(TaskId(mine.run, "n#1"), 1, Outcome(result=reference), "continue", "c")
    assert reported(evil, mine, facts[0], done).verdict == "rejected"
    assert evil.get(url).status_code == 404
    claim = Claim("w", 1, "alpha", "next")
    verdict = reported(other, theirs, e.StepDone(theirs.run, reference), claim=claim)
    (more,) = map(wire.decode_work, verdict.works)
    assert other.get(url).content == content
    for worker, work in ((other, more), (evil, mine)):
        assert reported(worker, work, e.StepDone(work.run, 1)).verdict == "accepted"
    assert other.get(url).status_code == 404


# -- lines, sizes, and tokens that are gone --------------------------------------------------------------------------


def test_lines_are_kept_of_executions_in_which_the_token_works(server: ApiServer, admin: httpx2.Client) -> None:
    server.add_token("worker", "anywhere")  # of no pool
    with server.client("evil") as evil, server.client("anywhere") as anywhere:
        work = leased(admin, evil, "length")
        line = (work.execution, "t" * 10_000 + "\n", 1.0, "stdout\0" + "s" * 99, "said")
        for client, pool in ((evil, "alpha"), (anywhere, "default")):
            post_message(client, "heartbeat", wire.HeartbeatRequest("w", pool, 1, lines=[line]))
        assert reported(evil, work, e.StepFailed(work.run, e.Error("gone", "given up"))).verdict == "accepted"
        until(admin, work.execution, "failed")
        post_message(evil, "heartbeat", wire.HeartbeatRequest("w", "alpha", 1, lines=[(*line[:4], "late")]))
        post_message(anywhere, "heartbeat", wire.HeartbeatRequest("w", "default", 1, lines=[line]))
    logs = admin.get(f"/api/v1/executions/{work.execution}/logs").json()["items"]
    assert [(log["line"], len(log["task"]), len(log["stream"])) for log in logs] == [
        ("said", 500, 19),
        ("late", 500, 19),
    ]


def test_reports_have_bounds(admin: httpx2.Client, evil: httpx2.Client) -> None:
    work = leased(admin, evil, "length")
    plain = wire.report_request(work.execution, Report(work.fence, ()))
    fact = ("step.done", msgspec.Raw(b'{"run":"start#1"}'))
    many = msgspec.structs.replace(plain, facts=[fact] * (wire.MAX_REPORT_FACTS + 1))
    blobs = msgspec.structs.replace(plain, blobs=[("0" * 64, "")] * (wire.MAX_REPORT_FACTS + 1))
    path = msgspec.json.encode({"task": ["start#1", "x" * 3_000 + "#1"]})
    long = msgspec.structs.replace(plain, facts=[("task.started", msgspec.Raw(path))])
    counts = msgspec.structs.replace(plain, first=-1)
    nonsense = {"store": 1, "key": 2, "size": -3, "checksum": None}
    odd = [("step.done", msgspec.Raw(msgspec.json.encode({"run": "start#1", "result": {"$ref": nonsense}})))]
    preview = {"store": "db", "key": "0" * 64, "size": 1, "checksum": f"sha256:{'0' * 64}", "preview": "x" * 9_999}
    wide = [("step.done", msgspec.Raw(msgspec.json.encode({"run": "start#1", "result": {"$ref": preview}})))]
    statuses = [
        post_message(evil, "report", [one]).status_code
        for one in (many, blobs, long, counts, *(msgspec.structs.replace(plain, facts=facts) for facts in (odd, wide)))
    ]
    assert statuses == [413, 413, 400, 400, 400, 400]
    claims = [wire.ClaimRequest("w", "alpha", 1, text) for text in ("x" * 201, "\n")]
    assert [post_message(evil, "claim", claim).status_code for claim in claims] == [422, 422]
    leases = {str(number): [1] for number in range(10_001)}
    beats = [wire.HeartbeatRequest("w", "alpha", 1, leases), wire.HeartbeatRequest("w", "alpha", 1, {"x" * 201: [1]})]
    assert [post_message(evil, "heartbeat", beat).status_code for beat in beats] == [413, 422]
    secret = wire.SecretRequest("w", work.execution, "x" * 201)
    assert post_message(evil, "secrets", secret).status_code == 422
    assert reported(evil, work, e.StepFailed(work.run, e.Error("gone", "given up"))).verdict == "accepted"


def test_an_item_starts_once_under_a_lease(admin: httpx2.Client, evil: httpx2.Client) -> None:
    work = leased(admin, evil, "loop")
    again = e.IterationStarted(work.run, work.first)
    assert reported(evil, work, again, again).verdict == "rejected"
    assert reported(evil, work, again).verdict == "accepted"
    request = wire.report_request(work.execution, Report(work.fence, (again,), 1))
    (verdict,) = post_message(evil, "report", [request]).json()
    assert verdict["verdict"] == "rejected"
    names = [row["event_type"] for row in admin.get(f"/api/v1/executions/{work.execution}/events").json()["items"]]
    assert names.count("loop.iteration.started") == 1
    assert admin.post(f"/api/v1/executions/{work.execution}/cancel").status_code == 202


@pytest.mark.parametrize("items", [-5, True, 50_000_000, 1 << 60])
def test_the_length_of_a_stored_list_is_not_believed(admin: httpx2.Client, evil: httpx2.Client, items: Any) -> None:
    """A loop without tasks made a list of that length at once."""
    work = leased(admin, evil, "idle")
    content = b"[1,2,3]"
    true = reference_to(content, hint="list")
    task = TaskId(work.run, "task_1#1")
    verdicts = []
    for size in (1 << 50, len(content)):
        forged = Reference("db", true.key, size, true.checksum, "list", {"count": items})
        done = e.TaskDone(task, 1, Outcome(result=forged), "continue")
        facts = [e.TaskStarted(task, 1), done, e.StepDone(work.run, forged)]
        verdicts.append(reported(evil, work, *facts, blobs=((true.key, content),)).verdict)
    assert verdicts == ["rejected", "accepted"]
    run = admin.get(f"/api/v1/executions/{work.execution}").json()
    assert (run["status"], run["result"]) == ("succeeded", [None] * 3)


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


def test_deep_data_is_refused_and_does_not_stop_the_pool(admin: httpx2.Client, evil: httpx2.Client) -> None:
    """It was stored, and then every claim of the pool failed, because it could not be encoded for a worker."""
    deep = {"x": nested(400)}
    waiting = leased(admin, evil, "length")
    answers = [
        admin.post("/api/v1/executions", json={"path": "length", "payload": deep}),
        admin.post(f"/api/v1/executions/{waiting.execution}/signals", json={"name": "go", "payload": deep}),
        admin.put("/api/v1/schedules/s", json={"path": "length", "cron": "0 0 1 1 *", "payload": deep}),
        admin.put("/api/v1/schedules/s", json={"path": "length", "cron": "0 0 1 1 *", "payload": {"x": 1 << 70}}),
    ]
    assert [answer.status_code for answer in answers] == [422] * 4
    assert "nested too deeply" in answers[0].json()["detail"]
    task = TaskId(waiting.run, "task_1#1")
    fact = {"task": ["start#1", "task_1#1"], "attempt": 1, "outcome": {"result": nested(400)}, "do": "continue"}
    honest = wire.report_request(waiting.execution, Report(waiting.fence, (e.TaskStarted(task, 1),)))
    deep_one = ("task.done", msgspec.Raw(msgspec.json.encode(fact)))
    (verdict,) = post_message(evil, "report", [msgspec.structs.replace(honest, facts=[*honest.facts, deep_one])]).json()
    assert not verdict["held"]
    assert until(admin, waiting.execution, "failed")["error"]["kind"] == "internal"
    work = leased(admin, evil, "length")
    done = e.TaskDone(TaskId(work.run, "task_1#1"), 1, Outcome(result=nested(200)), "continue")
    assert reported(evil, work, e.TaskStarted(done.task, 1), done, e.StepDone(work.run, nested(200))).verdict
    until(admin, work.execution, "succeeded")


def test_a_long_report_is_decided_in_parts(server: ApiServer, admin: httpx2.Client, evil: httpx2.Client) -> None:
    work = leased(admin, evil, "again")
    facts: list[e.Event] = []
    for visit in range(1, 1_001):
        task = TaskId(work.run, f"t#{visit}")
        error = Outcome("error", error=e.Error("x", "y"))
        facts += [
            e.TaskStarted(task, 1),
            e.TaskDone(task, 1, error, "retry", "t"),
            e.TaskRetryScheduled(task, 2, 0.0),
            e.TaskStarted(task, 2),
            e.TaskDone(task, 2, Outcome(), "jump", "t"),
        ]
    batches: list[int] = []
    committer = server.host.runtime.committer
    committer.on_events = [*committer.on_events, lambda state, events: batches.append(len(events))]
    for _ in range(2):  # the answer may be lost
        verdict = reported(evil, work, *facts)
        assert verdict.held
    assert sum(batches) == len(facts)
    assert max(batches) <= 502
    state = admin.get(f"/api/v1/executions/{work.execution}").json()
    assert state["status"] == "running"
    assert admin.post(f"/api/v1/executions/{work.execution}/cancel").status_code == 202


def test_a_claim_that_waits_gives_nothing_to_a_token_that_was_revoked(server: ApiServer, admin: httpx2.Client) -> None:
    answers: list[httpx2.Response] = []

    def claim() -> None:
        with server.client(
            "evil",
        ) as evil:
            answers.append(post_message(evil, "claim", wire.ClaimRequest("w", "alpha", 1, "long", 20)))

    thread = threading.Thread(target=claim)
    thread.start()
    soon(lambda: server.host.dispatcher.queue.idle_claims["alpha"] == 1)
    server.store.access.revoke_token(server.ids["evil"], server.clock.now())  # at another server
    execution = begun(admin, {"path": "length"})
    thread.join(PATIENCE_SECONDS)
    assert [answer.status_code for answer in answers] == [401]
    with server.client("other") as other:
        work = claimed(other, execution)
        assert reported(other, work, e.StepFailed(work.run, e.Error("gone", "given up"))).verdict == "accepted"
