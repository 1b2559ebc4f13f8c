"""The log of an execution as pages and as a stream that can be resumed."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import httpx2
import msgspec
import pytest
from api_server import HELLO, WAITS, ApiServer, begun, register, started, until
from tests.servers.patience import PATIENCE_SECONDS
from tests.servers.patience import until as patiently

from noetl.clock import SystemClock
from noetl.engine.commands import Signal
from noetl.runtime.loaded_playbooks import LoadedPlaybooks
from noetl.runtime.runtime import Runtime
from noetl.server import sse

API = "/api/v1/executions"
STREAM = {"Accept": "text/event-stream"}


@pytest.fixture(scope="module", autouse=True)
def _registered(server: ApiServer) -> None:
    with server.client("author") as client:
        for text in (HELLO, WAITS):
            register(client, text)


def followed(
    client: httpx2.Client, execution: str, most: int | None = None, **headers: str
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Ids and events of a stream."""
    named = STREAM | {key.replace("_", "-"): value for key, value in headers.items()}
    with client.stream("GET", f"{API}/{execution}/events", headers=named) as answer:
        assert (answer.status_code, answer.headers["content-type"].split(";")[0]) == (200, "text/event-stream")
        number = 0
        for line in answer.iter_lines():
            if line.startswith("id: "):
                number = int(line[4:])
            elif line.startswith('data: {"event_id'):
                yield number, msgspec.json.decode(line[6:])
                most = None if most is None else most - 1
                if most == 0:
                    return


def test_pages_have_no_gaps(admin: httpx2.Client) -> None:
    execution = started(admin, {"path": "tests/hello"})
    url, seen, after = f"{API}/{execution['execution_id']}/events", [], 0
    while after is not None:
        page = admin.get(url, params={"after": after, "limit": 4}).json()
        seen += page["items"]
        after = page["next"]
    assert [event["seq"] for event in seen] == list(range(1, execution["events"] + 1))
    assert (seen[0]["event_type"], seen[-1]["event_type"]) == ("playbook.execution.requested", "playbook.processed")
    assert seen[0]["payload"]["path"] == "tests/hello"


@pytest.mark.parametrize(
    ("type", "names"),
    [
        ("task.done", ["task.done"]),
        ("tool.started,tool.processed", ["task.started", "task.done"]),
        ("TaskProcessed", ["task.done"]),
        ("step.finished", ["step.done"]),
        ("TokenClaimed", ["step.scheduled"]),
        ("step.enter", ["step.started"]),
        ("workflow.*", ["workflow.started", "workflow.finished"]),
        ("retry.*", []),
    ],
)
def test_r15_events_are_filtered_by_any_of_their_names(admin: httpx2.Client, type: str, names: list[str]) -> None:
    execution = started(admin, {"path": "tests/hello"})
    page = admin.get(f"{API}/{execution['execution_id']}/events", params={"type": type, "limit": 1000}).json()
    assert ({item["event_type"] for item in page["items"]}, page["next"]) == (set(names), None)
    first = admin.get(f"{API}/{execution['execution_id']}/events", params={"type": "step.*", "limit": 1}).json()
    assert [item["seq"] for item in first["items"]] == [first["next"]]


def test_r15_a_stream_is_filtered_too_and_an_unknown_type_is_refused(admin: httpx2.Client) -> None:
    path = f"{API}/{started(admin, {'path': 'tests/hello'})['execution_id']}/events"
    with admin.stream("GET", path, params={"type": "StepDone"}, headers=STREAM) as answer:
        lines = [line for line in answer.iter_lines() if line.startswith("data: ")]
    assert [msgspec.json.decode(line[6:]).get("event_type") for line in lines] == ["step.done"] * 2 + [None]
    answer = admin.get(path, params={"type": "task.procesed"})
    assert (answer.status_code, "did you mean 'task.processed'?" in answer.json()["detail"]) == (422, True)


def test_a_stream_is_the_log_and_ends_with_it(admin: httpx2.Client) -> None:
    execution = started(admin, {"path": "tests/hello"})
    items = admin.get(f"{API}/{execution['execution_id']}/events", params={"limit": 1000}).json()["items"]
    stream = list(followed(admin, execution["execution_id"]))
    assert [one for _, one in stream] == items
    assert [number for number, _ in stream] == [item["seq"] for item in items]


@pytest.mark.parametrize("seen", [1, 3, 7])
def test_who_was_cut_off_misses_nothing_and_sees_nothing_twice(admin: httpx2.Client, seen: int) -> None:
    execution = started(admin, {"path": "tests/hello"})
    first = [number for number, _ in followed(admin, execution["execution_id"], seen)]
    rest = [number for number, _ in followed(admin, execution["execution_id"], Last_Event_ID=str(first[-1]))]
    assert first + rest == list(range(1, execution["events"] + 1))


def test_who_has_seen_the_end_is_told_not_to_come_again(admin: httpx2.Client) -> None:
    execution = started(admin, {"path": "tests/hello"})
    headers = STREAM | {"Last-Event-ID": str(execution["events"])}
    assert admin.get(f"{API}/{execution['execution_id']}/events", headers=headers).status_code == 204


@pytest.mark.parametrize("seen", ["x", "-1", "1" * 20, "1.5"])
def test_a_seq_that_is_none(admin: httpx2.Client, seen: str) -> None:
    execution = started(admin, {"path": "tests/hello"})["execution_id"]
    assert admin.get(f"{API}/{execution}/events", headers=STREAM | {"Last-Event-ID": seen}).status_code == 422


def test_events_come_as_they_happen(server: ApiServer, admin: httpx2.Client) -> None:
    execution = begun(admin, {"path": "tests/waits"})
    until(admin, execution, "waiting")
    types: list[str] = []
    paused, done = threading.Event(), threading.Event()

    def follow() -> None:
        with server.client("viewer") as client:
            for _, event in followed(client, execution):
                types.append(event["event_type"])
                if event["event_type"] == "step.paused":
                    paused.set()
        done.set()

    thread = threading.Thread(target=follow)
    thread.start()
    assert paused.wait(PATIENCE_SECONDS)
    assert not done.is_set()
    admin.post(f"{API}/{execution}/signals", json={"name": "go"})
    assert done.wait(PATIENCE_SECONDS)
    thread.join()
    assert types[-1] == "playbook.processed"


def test_events_of_another_server_come_too(server: ApiServer, admin: httpx2.Client) -> None:
    """Another runtime on the same store writes; this server learns of it by looking."""
    execution = begun(admin, {"path": "tests/waits"})
    until(admin, execution, "waiting")
    seen = max(number for number, _ in followed(admin, execution, 8))

    async def signal() -> None:
        other = Runtime(LoadedPlaybooks(server.store), SystemClock())
        try:
            await other.committer.handle(execution, Signal("note", "1", {}))
        finally:
            other.thread.shutdown()

    server.do(signal())
    numbers = []
    for number, event in followed(admin, execution, Last_Event_ID=str(seen)):
        numbers.append(number)
        if event["event_type"] == "message.received":
            break
    assert numbers == list(range(seen + 1, seen + len(numbers) + 1))


def test_a_stream_ends_when_the_server_does() -> None:
    server = ApiServer()
    with server.client("author") as client:
        register(client, WAITS)
        execution = begun(client, {"path": "tests/waits"})
        until(client, execution, "waiting")
        begun_to, ended = threading.Event(), threading.Event()

        def follow() -> None:
            with server.client("viewer") as other:
                for _ in followed(other, execution):
                    begun_to.set()
            ended.set()

        thread = threading.Thread(target=follow)
        thread.start()
        assert begun_to.wait(PATIENCE_SECONDS)
        server.close()
        assert ended.wait(PATIENCE_SECONDS)
        thread.join()


def test_a_stream_ends_when_its_token_is_revoked(
    server: ApiServer, admin: httpx2.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sse, "KEEP_ALIVE_SECONDS", 0.1)
    execution = begun(admin, {"path": "tests/waits"})
    server.add_token("viewer", "onlooker")
    with server.client("onlooker") as client:
        seen = followed(client, execution)
        assert next(seen)[0] == 1
        assert admin.delete(f"/api/v1/tokens/{server.ids['onlooker']}").status_code == 204
        assert {one["event_type"] for _, one in seen}.isdisjoint({"playbook.processed"})
    assert admin.get(f"{API}/{execution}").json()["status"] in ("running", "waiting")
    assert admin.post(f"{API}/{execution}/cancel").status_code == 202


def test_a_stream_whose_token_is_revoked_sees_nothing_more(
    server: ApiServer, admin: httpx2.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who may read is asked before anything is written, not only now and then."""
    for name in ("KEEP_ALIVE_SECONDS", "CHECK_SECONDS"):
        monkeypatch.setattr(sse, name, 1_000.0)
    execution = begun(admin, {"path": "tests/waits"})
    until(admin, execution, "waiting")
    server.add_token("viewer", "leaver")
    with server.client("leaver") as client:
        seen = followed(client, execution)
        while next(seen)[1]["event_type"] != "step.paused":
            pass
        assert admin.delete(f"/api/v1/tokens/{server.ids['leaver']}").status_code == 204
        admin.post(f"{API}/{execution}/signals", json={"name": "other", "payload": {"secret": 1}})
        assert list(seen) == []
    admin.post(f"{API}/{execution}/cancel")


def test_a_caller_has_so_many_streams_and_no_more(server: ApiServer, admin: httpx2.Client) -> None:
    streams = server.app.api.streams
    execution = begun(admin, {"path": "tests/waits"})
    server.add_token("viewer", "many")
    path = f"{API}/{execution}/events"
    streams.limit_per_caller = 3
    try:
        with server.client("many") as client, ExitStack() as stack:
            for _ in range(3):
                answer = stack.enter_context(client.stream("GET", path, headers=STREAM))
                assert answer.status_code == 200
            refused = client.get(path, headers=STREAM)
            assert (refused.status_code, refused.headers["retry-after"]) == (429, "5")
            assert client.get(path).status_code == 200  # pages are no streams
            with admin.stream("GET", path, headers=STREAM) as other:
                assert other.status_code == 200
            streams.limit, before = 3, streams.limit
            assert admin.get(path, headers=STREAM).status_code == 503
            streams.limit = before
        patiently(lambda: not streams.by_caller)
        with server.client("many") as client, client.stream("GET", path, headers=STREAM) as answer:
            assert answer.status_code == 200
    finally:
        streams.limit_per_caller = sse.MAX_STREAMS_PER_CALLER
        admin.post(f"{API}/{execution}/cancel")
    patiently(lambda: not streams.followed)


def test_a_stream_reads_only_when_its_execution_moves(
    server: ApiServer, admin: httpx2.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    still, busy = (begun(admin, {"path": "tests/waits"}) for _ in range(2))
    until(admin, still, "waiting")
    reads: list[str] = []
    read = server.store.read

    def counting(execution: str, *more: Any) -> Any:
        reads.append(execution)
        return read(execution, *more)

    streams = server.app.api.streams
    with admin.stream("GET", f"{API}/{still}/events", headers=STREAM) as answer:
        lines = answer.iter_lines()
        while "step.paused" not in next(lines):
            pass
        patiently(lambda: streams.followed[still].seq == server.store.seq(still))
        patiently(lambda: streams.followed[still].changed._waiters)  # it has read all, and waits for more
        monkeypatch.setattr(server.store, "read", counting)
        for number in range(20):
            assert admin.post(f"{API}/{busy}/signals", json={"name": f"n{number}"}).status_code == 202
        assert still not in reads
        admin.post(f"{API}/{still}/signals", json={"name": "other"})
        while "message.received" not in next(lines):
            pass
        assert still in reads
    for execution in (still, busy):
        admin.post(f"{API}/{execution}/cancel")


def test_rows_read_backwards_say_what_happened(admin: httpx2.Client) -> None:
    execution = started(admin, {"path": "tests/hello"})
    url, last = f"{API}/{execution['execution_id']}/events", execution["events"]
    page = admin.get(url, params={"view": "row", "before": last + 1, "limit": 2}).json()
    assert [(row[0], row[2], row[3], row[4], row[5]) for row in page["items"]] == [
        (last - 1, "workflow.finished", "", "success", "Nothing is left to run: the workflow succeeded"),
        (last, "playbook.processed", "", "success", "Run succeeded"),
    ]
    assert all(isinstance(row[1], int) and row[1] > 1_600_000_000_000 for row in page["items"])
    assert (page["next"], page["prev"], page["scanned_to"]) == (None, last - 1, last - 1)


def test_events_are_filtered_by_step_run_level_and_text(admin: httpx2.Client) -> None:
    execution = started(admin, {"path": "tests/hello"})
    url = f"{API}/{execution['execution_id']}/events"

    def types(**query: Any) -> list[str]:
        page = admin.get(url, params=query | {"limit": 1000}).json()
        assert page["next"] is None
        return [event["event_type"] for event in page["items"]]

    steps = ["step.scheduled", "step.started", "step.done", "next.evaluated"]
    assert types(run="end#1") == [*steps[:2], "task.started", "task.done", *steps[2:]]
    assert types(run="end#1", level="step") == steps
    assert types(run="end#1", types="task.*") == ["task.started", "task.done"]
    assert types(run="end#2") == []
    assert types(q="HELLO WORLD!") == ["task.done", "step.done", "playbook.processed"]
    assert types(q="sent to end") == ["token.enqueued"]
    quoted = started(admin, {"path": "tests/hello", "payload": {"name": 'say "hi"\n\u0001 to C:\\temp'}})
    url = f"{API}/{quoted['execution_id']}/events"
    for text in ('Say "Hi"', '"hi"\n\u0001 to', "c:\\Temp"):
        assert types(q=text, types="task.done") == ["task.done"] * 2, text
    url = f"{API}/{execution['execution_id']}/events"
    assert "task.done" not in types(level="step")
    assert "token.enqueued" not in types(level="task")


def test_filters_that_make_no_sense_are_refused(admin: httpx2.Client) -> None:
    url = f"{API}/{started(admin, {'path': 'tests/hello'})['execution_id']}/events"
    for query in ("item=3", "after=3&before=9", "level=step&type=task.done", "level=all", "view=list"):
        assert admin.get(f"{url}?{query}").status_code == 422, query
    for query in ("run=end%231", "q=x", "before=3", "view=row"):
        assert admin.get(f"{url}?{query}", headers=STREAM).status_code == 422, query
    unknown = "00000000-0000-7000-8000-000000000000"
    assert admin.get(f"{API}/{unknown}/events?run=end%231").status_code == 404
