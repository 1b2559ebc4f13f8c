"""Live frames: what changes in an execution, shared by all its clients, resumable, bounded."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx2
import msgspec
import pytest
from api_server import ELSEWHERE, HELLO, WAITS, ApiServer, begun, register, started, until
from tests.servers.patience import PATIENCE_SECONDS
from tests.servers.patience import until as patiently

from noetl.engine.events import Event
from noetl.engine.history.outline_fold import OutlineFold
from noetl.errors import StoreError
from noetl.server import frames
from noetl.server.outline_views import MAX_SHOWN_LOOPS, outline_view
from noetl.store.codec import decode
from noetl.store.store import NO_LIMIT, Row, Store

API = "/api/v1/executions"
LOOP = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: loop, path: tests/live_loop}
workflow:
  - step: start
    tool: {kind: wait, signal: go}
    next: {arcs: [{step: work}]}
  - step: work
    loop: {in: "{{ range(300) }}", iterator: n, spec: {mode: parallel, max_in_flight: 10}}
    tool:
      - t:
          kind: noop
          spec: {policy: {rules: [{else: {then: {do: continue, set_ctx: {total: {$add: 1}}}}}]}}
"""

FORKED = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: forked, path: tests/live_forked}
workflow:
  - step: start
    tool: {kind: noop}
    next: {spec: {mode: inclusive}, arcs: [{step: ask}, {step: work}]}
  - step: ask
    tool: {kind: wait, signal: go}
  - step: work
    loop: {in: [1, 2, 3], iterator: n, spec: {mode: parallel, max_in_flight: 2}}
    tool: {kind: wait, signal: "go{{ iter.n }}"}
"""
LOOPS = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: loops, path: tests/live_loops}
workflow:
  - step: start
    tool: {kind: noop}
    next: {spec: {mode: inclusive}, arcs: [{step: work}, {step: wait}]}
  - step: work
    loop: {in: [1, 2], iterator: n, spec: {mode: parallel}}
    tool:
      - t:
          kind: noop
          spec: {policy: {rules: [{else: {then: {do: continue, set_ctx: {items: {$add: 1}}}}}]}}
    next: {arcs: [{step: work, when: "{{ ctx.items < 300 }}"}]}
  - {step: wait, tool: {kind: wait, signal: go}}
"""


WRITES = """\
  - step: {step}
    tool:
      - write:
          kind: noop
          spec: {{policy: {{rules: [{{else: {{then: {{do: continue, set_ctx: {{{keys}}}}}}}}}]}}}}
    next: {{arcs: [{{step: {following}}}]}}
"""


@pytest.fixture(scope="module", autouse=True)
def _registered(server: ApiServer) -> None:
    with server.client("author") as client:
        for text in (HELLO, WAITS, LOOP, FORKED, LOOPS):
            register(client, text)


def live(client: httpx2.Client, execution: str, after: int = 0, **headers: str) -> Iterator[dict[str, Any]]:
    """The frames of a stream; the last one is an empty map."""
    named = {key.replace("_", "-"): value for key, value in headers.items()}
    url = f"{API}/{execution}/live"
    with client.stream("GET", url, params={"after": after}, headers=named) as answer:
        assert (answer.status_code, answer.headers["content-type"].split(";")[0]) == (200, "text/event-stream")
        number = None
        for line in answer.iter_lines():
            if line.startswith("id: "):
                number = int(line[4:])
            elif line.startswith("data: "):
                frame = msgspec.json.decode(line[6:])
                assert not frame or frame["seq"] == number
                assert len(line) <= frames.MAX_FRAME_BYTES + 6
                yield frame


def applied(outline: dict[str, Any], frame: dict[str, Any]) -> None:
    """Apply a frame to an outline as a page would."""
    change = frame["outline"]
    outline["seq"], outline["status"], outline["ended"] = change["seq"], change["status"], change.get("ended")
    outline["steps"] = change.get("steps", outline["steps"])
    for table, keys in (("runs", ("step", "n")), ("tokens", ("enqueued_seq",)), ("parked", ("run", "from_seq"))):
        rows, whole = change.get(table), outline[table]
        for place in range(len(rows[keys[0]]) if rows else 0):
            key = [rows[name][place] for name in keys]
            at = next((at for at in range(len(whole[keys[0]])) if [whole[name][at] for name in keys] == key), None)
            for name, column in rows.items():
                if isinstance(column, dict):
                    for part, values in column.items():
                        _put(whole[name][part], at, values[place])
                else:
                    _put(whole[name], at, column[place])
    for arc in change.get("arcs", ()):
        others = [other for other in outline["arcs"] if (other["step"], other["arc"]) != (arc["step"], arc["arc"])]
        outline["arcs"] = [*others, arc]
    outline["markers"] += change.get("markers", ())
    changed = {loop["run"]: loop for loop in change.get("loops", ())}
    loops = [*({loop["run"]: loop for loop in outline["loops"]} | changed).values()]
    outline["loops"] = loops[-MAX_SHOWN_LOOPS:]
    updated = set(zip(*(change["runs"][name] for name in ("step", "n")), strict=True)) if change.get("runs") else set()
    runs, dropped = outline["runs"], len(loops) - len(outline["loops"])
    for place, key in enumerate(zip(runs["step"], runs["n"], strict=True)):
        if key not in updated:
            runs["loop"][place] = max(-1, runs["loop"][place] - dropped)


def _put(column: list[Any], at: int | None, value: Any) -> None:
    if at is None:
        column.append(value)
    else:
        column[at] = value


def outline_of(client: httpx2.Client, execution: str) -> dict[str, Any]:
    return client.get(f"{API}/{execution}/outline").json()


def test_frames_bring_an_outline_up_to_date(admin: httpx2.Client) -> None:
    execution = begun(admin, {"path": "tests/live_loop"})
    until(admin, execution, "waiting")
    outline = outline_of(admin, execution)
    stream = live(admin, execution, outline["seq"])
    signal = threading.Timer(0.3, lambda: admin.post(f"{API}/{execution}/signals", json={"name": "go"}))
    signal.start()
    received = list(stream)
    signal.join()
    assert received.pop() == {}
    seqs = [outline["seq"], *(frame["seq"] for frame in received)]
    assert seqs == sorted(set(seqs))
    assert sum(frame["new_events"] for frame in received) == seqs[-1] - seqs[0]
    for frame in received:
        assert not frame.get("reload")
        applied(outline, frame)
    final = outline_of(admin, execution)
    for part in ("seq", "status", "ended", "steps", "runs", "tokens", "markers"):
        assert outline[part] == final[part], part
    assert sorted(outline["arcs"], key=str) == sorted(final["arcs"], key=str)
    (loop,) = received[-1]["outline"]["loops"] or received[-2]["outline"]["loops"]
    assert (loop["run"], loop["total"], loop["progress"]["ok"][-1]) == ("work#1", 300, 300)
    assert {key for frame in received for key in frame["ctx_keys"]} == {"total"}
    assert received[-1]["rows"][-1][2] == "playbook.processed"
    assert max(len(frame["rows"]) for frame in received) <= frames.MAX_ROWS


@pytest.mark.parametrize("size", [1, 37, 1_100])
def test_an_outline_of_150_loops_with_its_frames_equals_a_new_one(
    server: ApiServer, admin: httpx2.Client, size: int
) -> None:
    execution = begun(admin, {"path": "tests/live_loops"})
    patiently(lambda: len(outline_of(admin, execution)["runs"]["step"]) == 152)
    admin.post(f"{API}/{execution}/cancel", json={})
    until(admin, execution, "cancelled")
    log = [(row, decode(row.type, row.data)) for row in server.store.read(execution, 0, NO_LIMIT)]

    def new_outline(events: list[tuple[Row, Event]]) -> frames.LiveOutline:
        outline = frames.LiveOutline(execution, OutlineFold(), None)
        outline.add(events)
        return outline

    live = new_outline(log[:9])
    merged = msgspec.to_builtins(outline_view(execution, live.fold, "running"))
    for start in range(9, len(log), size):
        events = log[start : start + size]
        live.add(events)
        change = msgspec.to_builtins(live.change(events, "running"))
        applied(merged, {"outline": change})
        if start % 500 < size or len(events) < size:
            fresh = msgspec.to_builtins(outline_view(execution, new_outline(log[: live.seq]).fold, "running"))
            for part in ("seq", "ended", "steps", "runs", "tokens", "parked"):
                assert merged[part] == fresh[part], part
            assert sorted(merged["arcs"], key=str) == sorted(fresh["arcs"], key=str)
            assert [_last_point(loop) for loop in merged["loops"]] == [_last_point(loop) for loop in fresh["loops"]]
            names = [loop["run"] for loop in merged["loops"]]
            runs = zip(merged["runs"]["step"], merged["runs"]["n"], merged["runs"]["loop"], strict=True)
            named = [(f"{merged['steps'][step]}#{n}", loop) for step, n, loop in runs]
            assert all(loop == (names.index(run) if run in names else -1) for run, loop in named)
    assert (len(merged["loops"]), merged["loops"][0]["run"], max(merged["runs"]["loop"])) == (100, "work#51", 99)


def _last_point(loop: dict[str, Any]) -> list[Any]:
    """Without its seq: a block adds a point at its end."""
    return [loop["run"], loop["total"], *(loop["progress"][name][-1] for name in ("ok", "failed", "in_flight"))]


def test_a_cancellation_ends_what_is_in_flight(admin: httpx2.Client) -> None:
    execution = begun(admin, {"path": "tests/live_forked"})
    until(admin, execution, "waiting")
    outline = outline_of(admin, execution)
    assert outline["parked"]["to_seq"] == [0]
    stream = live(admin, execution, outline["seq"])
    assert admin.post(f"{API}/{execution}/cancel", json={}).is_success
    for frame in stream:
        if frame:
            applied(outline, frame)
    final = outline_of(admin, execution)
    for part in ("runs", "tokens", "parked"):
        assert outline[part] == final[part], part
    for one in (outline, final):
        (loop,) = one["loops"]
        assert loop["progress"]["in_flight"][-1] == 0


def test_a_feed_that_has_failed_is_replaced(
    server: ApiServer, admin: httpx2.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    execution, feeds = begun(admin, {"path": "tests/waits"}), server.app.api.histories.feeds._feeds
    until(admin, execution, "waiting")
    first = live(admin, execution)
    next(first)

    def unavailable(*_: Any) -> Any:
        raise StoreError("the database is unavailable")

    with monkeypatch.context() as patch:
        patch.setattr(frames, "_read", unavailable)
        admin.post(f"{API}/{execution}/pause", json={})
        patiently(feeds[execution].task.done)
    with server.client("viewer") as other:
        second = live(other, execution)
        assert next(second)["status"] == "paused"
        admin.post(f"{API}/{execution}/resume", json={})
        assert next(second)["status"] == "waiting"
        second.close()
    first.close()
    patiently(lambda: execution not in feeds)


class Gate:
    """Stops the thread of frames before it makes the next one."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.reached, self.opened, self.made = threading.Event(), threading.Event(), threading.Event()
        make = frames.Feed._make

        def gated(feed: frames.Feed, store: Store) -> Any:
            self.reached.set()
            assert self.opened.wait(PATIENCE_SECONDS)
            try:
                return make(feed, store)
            finally:
                self.made.set()

        monkeypatch.setattr(frames.Feed, "_make", gated)


def test_frames_are_added_in_the_loop_in_which_streams_read_them(
    on_disk: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    with on_disk.client("admin") as client, on_disk.client("viewer") as other:
        register(client, WAITS)
        execution = begun(client, {"path": "tests/waits"})
        until(client, execution, "waiting")
        stream = live(client, execution)
        first = next(stream)
        feed = on_disk.app.api.histories.feeds._feeds[execution]
        gate = Gate(monkeypatch)
        client.post(f"{API}/{execution}/pause", json={})
        assert gate.reached.wait(PATIENCE_SECONDS)

        async def read_while_the_thread_makes_one() -> int:
            """The loop stays in here; a frame that the thread added would break the iteration."""
            reading = iter(feed.frames)
            next(reading)
            gate.opened.set()
            assert gate.made.wait(PATIENCE_SECONDS)
            return 1 + len(list(reading))

        assert on_disk.do(read_while_the_thread_makes_one()) == 1
        second = next(stream)
        (row,) = second["rows"]
        assert (row[0], row[2]) == (first["seq"] + 1, "playbook.paused")
        late = next(live(other, execution, after=first["seq"] - 1))
        assert [row[0] for row in late["rows"]] == [first["seq"], first["seq"] + 1]


def test_a_client_that_comes_while_a_frame_is_made_misses_nothing(
    on_disk: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    with on_disk.client("admin") as client, on_disk.client("viewer") as other:
        register(client, WAITS)
        execution = begun(client, {"path": "tests/waits"})
        until(client, execution, "waiting")
        streams = [live(client, execution)]
        received = [[next(streams[0])]]
        gate = Gate(monkeypatch)
        client.post(f"{API}/{execution}/pause", json={})
        assert gate.reached.wait(PATIENCE_SECONDS)
        with ThreadPoolExecutor(1) as pool:
            streams.append(live(other, execution, after=3))
            arriving = pool.submit(next, streams[1])
            feed = on_disk.app.api.histories.feeds._feeds[execution]
            patiently(lambda: feed.clients == 2)
            client.post(f"{API}/{execution}/resume", json={})
            gate.opened.set()
            received.append([arriving.result()])
        client.post(f"{API}/{execution}/signals", json={"name": "go"})
        for stream, got in zip(streams, received, strict=True):
            got += [frame for frame in stream if frame]
        for after, got in zip((0, 3), received, strict=True):
            seqs = [row[0] for frame in got for row in frame["rows"]]
            assert seqs == list(range(after + 1, got[-1]["seq"] + 1))
            assert sum(frame["new_events"] for frame in got) == len(seqs)


def test_a_stream_of_a_finished_run_has_one_frame_and_an_end(admin: httpx2.Client) -> None:
    execution = started(admin, {"path": "tests/hello"})
    (frame, end) = live(admin, execution["execution_id"])
    assert (frame["seq"], frame["status"], frame["new_events"]) == (execution["events"], "succeeded", frame["seq"])
    assert end == {}
    answer = admin.get(f"{API}/{execution['execution_id']}/live", headers={"Last-Event-ID": str(frame["seq"])})
    assert answer.status_code == 204


def test_a_client_that_comes_back_gets_what_it_missed(admin: httpx2.Client) -> None:
    execution = started(admin, {"path": "tests/hello"})
    frame, _ = live(admin, execution["execution_id"], last_event_id="7")
    assert (frame["seq"], frame["new_events"]) == (execution["events"], execution["events"] - 7)
    assert [row[0] for row in frame["rows"]] == list(range(8, execution["events"] + 1))


def test_a_client_that_missed_too_much_is_told_to_load_again(
    admin: httpx2.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(frames, "MAX_EVENTS_PER_FRAME", 5)
    execution = started(admin, {"path": "tests/hello"})
    frame, _ = live(admin, execution["execution_id"])
    assert (frame["reload"], frame["seq"], frame["rows"]) == (True, execution["events"], [])
    assert frame["new_events"] == execution["events"]


def test_a_client_that_is_ahead_of_the_log_is_told_to_load_again(admin: httpx2.Client) -> None:
    execution = begun(admin, {"path": "tests/waits"})
    until(admin, execution, "waiting")
    frame = next(live(admin, execution, last_event_id="999999"))
    assert (frame["reload"], frame["seq"]) == (True, outline_of(admin, execution)["seq"])
    ended = started(admin, {"path": "tests/hello"})["execution_id"]
    frame, end = live(admin, ended, last_event_id="999999")
    assert (frame["reload"], frame["seq"], end) == (True, outline_of(admin, ended)["seq"], {})


def test_a_frame_that_would_be_too_large_reports_it_instead(
    admin: httpx2.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(frames, "MAX_FRAME_BYTES", 700)
    execution = started(admin, {"path": "tests/hello"})
    frame, _ = live(admin, execution["execution_id"])
    assert frame["reload"]


def test_a_frame_with_long_names_leaves_them_out(admin: httpx2.Client) -> None:
    signal = HELLO.replace("tests/hello", "tests/live_long").replace(
        '{kind: noop, result: "hello {{ workload.name }}"}', '{kind: wait, signal: "{{ workload.name }}"}'
    )
    execution = begun(admin, {"playbook": signal, "payload": {"name": "go" * 20_000}})
    until(admin, execution, "waiting")
    frame = next(live(admin, execution))
    assert (frame["status"], frame.get("reload"), frame["waits"]) == ("waiting", True, [])
    assert len(frame["activity"]) < 300


def test_a_frame_with_many_keys_of_ctx_leaves_them_out(admin: httpx2.Client) -> None:
    steps = [
        WRITES.format(step=step, following=following, keys=", ".join(f"k{n}_{step}{'x' * 80}: 1" for n in range(400)))
        for step, following in ("ab", "bc", "cd", "de")
    ]
    text = HELLO.partition("workflow:")[0] + "workflow:\n" + "".join(steps) + "  - {step: e, tool: {kind: noop}}\n"
    execution = started(admin, {"playbook": text})
    assert len(execution["ctx"]) == 1_600
    frame = next(live(admin, execution["execution_id"]))
    assert (frame["reload"], frame["ctx_keys"]) == (True, [])


def test_a_wait_is_in_the_frame(admin: httpx2.Client) -> None:
    execution = begun(admin, {"path": "tests/waits"})
    until(admin, execution, "waiting")
    frame = next(live(admin, execution))
    assert (frame["status"], [wait["name"] for wait in frame["waits"]]) == ("waiting", ["go"])
    assert "go" in frame["activity"]


def test_a_frame_says_that_no_worker_is_connected(admin: httpx2.Client) -> None:
    register(admin, ELSEWHERE)
    execution = begun(admin, {"path": "tests/elsewhere"})
    frame = next(live(admin, execution))
    assert [(wait["for"], wait["name"]) for wait in frame["waits"]] == [("worker", "elsewhere")]
    assert frame["activity"].startswith("no worker is connected in pool 'elsewhere', waiting since ")


def test_clients_share_a_feed_that_ends_with_the_last(server: ApiServer, admin: httpx2.Client) -> None:
    execution, feeds = begun(admin, {"path": "tests/waits"}), server.app.api.histories.feeds._feeds
    until(admin, execution, "waiting")
    with server.client("viewer") as other:
        first, second = live(admin, execution), live(other, execution)
        assert next(first) == next(second)
        assert feeds[execution].clients == 2
        second.close()
        patiently(lambda: feeds[execution].clients == 1)
        first.close()
    patiently(lambda: execution not in feeds)


def test_a_revoked_token_ends_the_stream(server: ApiServer, admin: httpx2.Client) -> None:
    execution = begun(admin, {"path": "tests/waits"})
    until(admin, execution, "waiting")
    server.add_token("viewer", "revoked")
    with server.client("revoked") as client:
        stream = live(client, execution)
        next(stream)
        admin.delete(f"/api/v1/tokens/{server.ids['revoked']}")
        assert list(stream) == []


def test_an_unknown_execution_has_no_frames(admin: httpx2.Client) -> None:
    assert admin.get(f"{API}/00000000-0000-7000-8000-000000000009/live").status_code == 404
    execution = started(admin, {"path": "tests/hello"})["execution_id"]
    assert admin.get(f"{API}/{execution}/live", headers={"Last-Event-ID": "x"}).status_code == 422


def test_clients_at_the_same_place_share_the_frame_that_they_missed(
    server: ApiServer, admin: httpx2.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[int] = []
    make = frames.Feed._make_missed

    def counted(feed: frames.Feed, store: Store, after: int) -> frames.EncodedFrame:
        made.append(after)
        return make(feed, store, after)

    monkeypatch.setattr(frames.Feed, "_make_missed", counted)
    execution = begun(admin, {"path": "tests/waits"})
    until(admin, execution, "waiting")
    streams = [live(admin, execution) for _ in range(5)]
    first = [next(stream) for stream in streams]
    assert all(frame == first[0] for frame in first)
    assert made == [0]
    admin.post(f"{API}/{execution}/signals", json={"name": "go"})
    assert all(list(stream)[-1] == {} for stream in streams)
