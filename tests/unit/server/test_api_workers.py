"""/workers and /server: operators list, drain and stop workers; an admin stops a server."""

from __future__ import annotations

from datetime import datetime, timedelta
from io import StringIO

import httpx2
import pytest
from api_server import ELSEWHERE, ApiServer, begun, until

from noetl.log import Log
from noetl.server.pool_watch import PoolWatch
from noetl.store.store import WorkerSession

API = "/api/v1"


@pytest.fixture(autouse=True)
def _connected(server: ApiServer) -> None:
    for name, pool in (("a@t1", "default"), ("b@t1", "gpu"), ("c@t2", "gpu")):
        server.store.record_heartbeat(WorkerSession(name, pool, 4, started=1.0))
        server.store.direct_worker(name, "")


def statuses(client: httpx2.Client) -> dict[str, str]:
    return {worker["worker"]: worker["status"] for worker in client.get(f"{API}/workers").json()["items"]}


def test_an_operator_drains_a_worker_by_its_name(server: ApiServer) -> None:
    with server.client("operator") as operator:
        answer = operator.post(f"{API}/workers/drain", json={"worker": "a"})
        assert (answer.status_code, [item["worker"] for item in answer.json()["items"]]) == (202, ["a@t1"])
        assert statuses(operator) == {"a@t1": "draining", "b@t1": "active", "c@t2": "active"}


def test_a_pool_is_stopped_together(server: ApiServer) -> None:
    with server.client("operator") as operator:
        assert operator.post(f"{API}/workers/stop", json={"pool": "gpu"}).status_code == 202
        assert statuses(operator) == {"a@t1": "active", "b@t1": "stopping", "c@t2": "stopping"}


def test_a_worker_that_is_not_connected_cannot_be_drained(server: ApiServer, admin: httpx2.Client) -> None:
    server.store.record_heartbeat(WorkerSession("old@t1", "old", 4), 1.0)
    assert statuses(admin)["old@t1"] == "gone"
    for body in ({"worker": "old"}, {"worker": "nobody"}, {"pool": "old"}):
        assert admin.post(f"{API}/workers/drain", json=body).status_code == 404
    for body in ({}, {"worker": "a", "pool": "gpu"}):
        assert admin.post(f"{API}/workers/drain", json=body).status_code == 422


def test_the_reply_to_a_heartbeat_tells_the_worker(server: ApiServer, admin: httpx2.Client) -> None:
    beat = {"worker": "real", "pool": "default", "slots": 4, "started": 5.0}
    with server.client("worker") as worker:
        assert worker.post(f"{API}/worker/heartbeat", json=beat).json()["directive"] == ""
        admin.post(f"{API}/workers/drain", json={"worker": "real"})
        assert worker.post(f"{API}/worker/heartbeat", json=beat).json()["directive"] == "drain"
        restarted = beat | {"started": 6.0, "replaces": beat["started"]}
        assert worker.post(f"{API}/worker/heartbeat", json=restarted).json()["directive"] == ""


def test_a_pool_without_workers_is_logged_once_until_it_has_one(server: ApiServer, admin: httpx2.Client) -> None:
    lines = StringIO()
    api = server.app.api
    watch = PoolWatch(api.store, api.thread.ask, server.clock, Log(stream=lines))
    execution = begun(admin, {"playbook": ELSEWHERE})
    for count in (0, 1, 1):  # the first look may come before a worker does
        server.do(watch.watch_once())
        assert lines.getvalue().count("none is active: start one with `noetl worker --pool elsewhere`") == count
    admin.post(f"{API}/executions/{execution}/cancel")
    until(admin, execution, "cancelled")
    server.do(watch.watch_once())
    assert watch.logged == set()


def test_viewers_and_workers_may_not(server: ApiServer) -> None:
    for role in ("viewer", "worker"):
        with server.client(role) as client:
            assert client.post(f"{API}/workers/drain", json={"worker": "a"}).status_code == 403
    with server.client("operator") as operator:
        assert operator.post(f"{API}/server/stop").status_code == 403


def test_the_status_of_a_server_counts_its_pools(server: ApiServer, admin: httpx2.Client) -> None:
    status = admin.get(f"{API}/server").json()
    pools = {pool["pool"]: (pool["workers"], pool["slots"]) for pool in status["pools"]}
    assert (status["version"], pools["gpu"]) == ("9.9", (2, 8))
    assert set(status["executions"]) == {"pending", "running", "waiting", "paused", "cancelling"}


def test_a_pool_with_queued_work_and_no_worker_is_listed(server: ApiServer, admin: httpx2.Client) -> None:
    execution = begun(admin, {"playbook": ELSEWHERE})
    until(admin, execution, "running", "waiting")
    for answer in (admin.get(f"{API}/workers"), admin.get(f"{API}/server")):
        pools = {pool["pool"]: pool for pool in answer.json()["pools"]}
        elsewhere = pools["elsewhere"]
        assert (elsewhere["workers"], elsewhere["slots"], elsewhere["busy"], elsewhere["queued"]) == (0, 0, 0, 1)
        started = datetime.fromisoformat(admin.get(f"{API}/executions/{execution}").json()["started"])
        assert abs(datetime.fromisoformat(elsewhere["oldest"]) - started) < timedelta(minutes=5)
        assert (pools["gpu"]["workers"], pools["gpu"]["queued"], pools["gpu"]["oldest"]) == (2, 0, None)
    admin.post(f"{API}/executions/{execution}/cancel")
    until(admin, execution, "cancelled")
    assert all(pool["queued"] == 0 for pool in admin.get(f"{API}/workers").json()["pools"])


def test_workers_that_have_not_changed_are_sent_once(server: ApiServer, admin: httpx2.Client) -> None:
    tag = admin.get(f"{API}/workers").headers["etag"]
    assert admin.get(f"{API}/workers", headers={"If-None-Match": tag}).status_code == 304


def test_an_admin_requests_a_stop(server: ApiServer, admin: httpx2.Client) -> None:
    assert admin.post(f"{API}/server/stop").json() == {"status": "stopping"}
    assert server.app.api.stop_requested.is_set()
    assert "stop requested by token admin" in server.log.getvalue()
