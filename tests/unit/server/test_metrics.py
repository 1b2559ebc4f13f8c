"""Numbers for Prometheus: in its format, each explained, and true."""

from __future__ import annotations

import httpx2
import pytest
from api_server import HELLO, WAITS, WRONG, ApiServer, begun, started, until
from exposition import Family, parsed

from noetl.server.telemetry import METRICS, Metrics
from noetl.store.store import WorkerSession


@pytest.fixture
def fresh() -> object:
    one = ApiServer()
    yield one
    one.close()


def read(client: httpx2.Client) -> dict[str, Family]:
    answer = client.get("/metrics")
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    return parsed(answer.text)


def test_every_metric_of_the_table_is_there_and_no_other(fresh: ApiServer) -> None:
    with fresh.client("admin") as admin:
        started(admin, {"playbook": HELLO})
        content = read(admin)
    assert list(content) == list(METRICS)
    for name, family in content.items():
        assert (family.kind, family.help) == (METRICS[name].kind, METRICS[name].help)
        for _, labels in family.samples:
            assert {key for key, _ in labels} - {"le"} == set(METRICS[name].labels), name


def test_what_happens_is_counted(fresh: ApiServer) -> None:
    with fresh.client("admin") as admin:
        fresh.store.record_heartbeat(WorkerSession("w", "default", 4, leases={"x": [1]}))
        fresh.store.record_heartbeat(WorkerSession("leaving", "default", 4, leases={"x": [2, 3]}))
        fresh.store.direct_worker("leaving", "drain")
        started(admin, {"playbook": HELLO})
        waits = begun(admin, {"playbook": WAITS})
        until(admin, waits, "waiting")
        admin.post("/api/v1/executions", json={"playbook": WRONG})
        content = read(admin)
        assert content["noetl_executions_started_total"].value() == 2
        assert content["noetl_executions_ended_total"].value(status="succeeded") == 1
        assert content["noetl_executions_open"].value(status="waiting") == 1
        assert content["noetl_executions_open"].value(status="running") == 0
        assert content["noetl_tasks_total"].value(outcome="success") == 2
        assert content["noetl_events_total"].value() > 10
        assert content["noetl_commit_duration_seconds"].value("_count") > 2
        assert content["noetl_commit_executions"].value("_sum") >= content["noetl_commit_executions"].value("_count")
        assert content["noetl_leases"].value() == 0
        workers = [content["noetl_workers"].value(status=status) for status in ("active", "draining", "stopping")]
        assert workers == [1, 1, 0]
        assert content["noetl_worker_slots"].value(status="active") == 4
        assert content["noetl_worker_slots_busy"].value(status="active") == 1
        assert content["noetl_worker_slots_busy"].value(status="draining") == 2
        assert content["noetl_dependency_up"].value(dependency="store") == 1
        assert content["noetl_build_info"].value(version="9.9") == 1
        assert content["process_resident_memory_bytes"].value() > 1e6
        posts = {"method": "POST", "route": "/api/v1/executions"}
        requests = content["noetl_http_requests_total"]
        assert [requests.value(status=status, **posts) for status in ("200", "202", "422")] == [1, 1, 1]
        assert content["noetl_http_request_duration_seconds"].value("_count", **posts) == 3


def test_paths_that_do_not_exist_make_no_labels(fresh: ApiServer) -> None:
    with fresh.client("admin") as admin:
        for number in range(5):
            admin.get(f"/nowhere/{number}")
        noetl_http_requests_total = read(admin)["noetl_http_requests_total"]
    assert noetl_http_requests_total.value(method="none", route="none", status="404") == 5


def test_values_that_need_it_are_escaped() -> None:
    metrics = Metrics()
    metrics.count("noetl_tasks_total", 1, 'a"b\\c\nd')
    assert 'noetl_tasks_total{outcome="a\\"b\\\\c\\nd"} 1' in metrics.text({})
    parsed(metrics.text({}))
