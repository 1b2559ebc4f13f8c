"""What every store must do. A back end's own test file supplies only `open_store`, a function that opens a new
and empty store at each call; a store that processes can share also `opener` and `place`.
"""

from __future__ import annotations

import multiprocessing
import random
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from typing import Any, Protocol

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec import structs
from tests.conformance.memory import MemoryStore
from tests.servers.patience import PATIENCE_SECONDS

from noetl.engine.events import Event, IterationDone, IterationFailed, IterationStarted, StepDone
from noetl.model.outcome import Error
from noetl.reference import canonical, refer, reference_to
from noetl.store.codec import ZERO, chained, decode, rows_of
from noetl.store.credentials import SealedCredential
from noetl.store.store import DAY, Change, Derived, Leased, Row, RunPosition, Snapshot, Store, Summary, WorkerSession
from noetl.store.triggers import Fired, Firing, Hook, Schedule

A = "0198c0de-0000-7000-8000-00000000000a"
B = "0198c0de-0000-7000-8000-00000000000b"
DIGEST = "d" * 64
C = "0199ffff-0000-7000-8000-00000000000c"
NEVER = "0198c0de-0000-7000-8000-0000000000ff"
AT = 1_760_000_000.123456

OpenStore = Callable[..., Store]


def events(count: int, mark: str = "r#1") -> list[Event]:
    return [IterationStarted(mark, index) for index in range(count)]


def change(execution: str, expected: int, count: int = 1, mark: str = "r#1", **more: Any) -> Change:
    """A change with `count` events. The chain of hashes begins anew in each: only `grow` keeps it whole."""
    return Change(execution, expected, rows_of(events(count, mark), expected + 1, AT, ZERO), **more)


def grow(store: Store, execution: str, batch: list[Event]) -> bool:
    """Append to the end of a log, hashes chained; False if somebody else was faster."""
    rows = store.read(execution)
    head = rows[-1].hash if rows else ZERO
    return store.commit([Change(execution, len(rows), rows_of(batch, len(rows) + 1, AT, head))])[0]


def sound(rows: list[Row]) -> bool:
    """Whether the rows are gapless, can be decoded, and their chain is unbroken."""
    head = ZERO
    for number, row in enumerate(rows, start=1):
        decode(row.type, row.data)
        if row.seq != number or row.hash != chained(head, row.type, row.at, row.data):
            return False
        head = row.hash
    return True


def summary(execution: str, status: str = "running", **more: Any) -> Summary:
    return Summary(execution, "orders", "shop/orders", status, AT, **more)


def content(data: bytes) -> tuple[str, bytes]:
    return sha256(data).hexdigest(), data


@pytest.fixture
def store(open_store: OpenStore) -> Store:
    return open_store()


class EventLogSuite:
    """Appending and reading."""

    def test_what_is_appended_is_read_in_order(self, store: Store) -> None:
        one = change(A, 0, 3)
        assert store.commit([one]) == [True]
        assert store.read(A) == one.rows
        assert [type(row) for row in store.read(A)] == [Row] * 3
        assert store.seq(A) == 3

    def test_an_execution_that_never_was_has_no_events(self, store: Store) -> None:
        for execution in (NEVER, "", "no-such-run", "0198C0DE-0000-7000-8000-00000000000A", "é" * 36):
            assert store.read(execution) == []
            assert store.seq(execution) == 0

    def test_reading_starts_after_a_seq_and_ends_at_a_limit(self, store: Store) -> None:
        store.commit([change(A, 0, 10)])
        assert [row.seq for row in store.read(A, after=7)] == [8, 9, 10]
        assert [row.seq for row in store.read(A, after=2, limit=3)] == [3, 4, 5]
        assert store.read(A, limit=0) == []
        assert store.read(A, after=10) == []
        assert store.read(A, after=99) == []

    def test_reading_backwards_starts_before_a_seq_and_finds_types(self, store: Store) -> None:
        batch = [IterationStarted("r#1", 0), IterationDone("r#1", 0), IterationFailed("r#1", 1, Error("e", "m"))] * 3
        store.commit([Change(A, 0, rows_of(batch, 1, AT, ZERO)), change(B, 0, 5)])
        started, done, failed = (event.name for event in batch[:3])
        whole = store.read(A)
        assert store.read_backwards(A, 10, [started, done, failed], 99) == whole[::-1]
        assert [row.seq for row in store.read_backwards(A, 7, [done], 99)] == [5, 2]
        assert [row.seq for row in store.read_backwards(A, 99, [started, failed], 3)] == [9, 7, 6]
        assert [row.seq for row in store.read_backwards(A, 9, [started, done], 99, after=4)] == [8, 7, 5]
        assert store.read_backwards(A, 10, [], 99) == store.read_backwards(NEVER, 10, [done], 9) == []

    def test_second_writer_at_the_same_seq_is_refused(self, store: Store) -> None:
        assert store.commit([change(A, 0, 2, "first#1")]) == [True]
        assert store.commit([change(A, 0, 2, "second#1")]) == [False]
        assert store.read(A) == change(A, 0, 2, "first#1").rows

    def test_a_writer_that_is_ahead_of_the_log_is_refused(self, store: Store) -> None:
        assert store.commit([change(A, 1)]) == [False]
        assert store.read(A) == []

    def test_one_conflict_does_not_stop_the_rest_of_the_batch(self, store: Store) -> None:
        store.commit([change(B, 0, 2)])
        refused = change(B, 1, 1, blobs=[content(b"refused")], summary=summary(B, "failed"))
        assert store.commit([change(A, 0, 3), refused, change(C, 0, 1)]) == [True, False, True]
        assert [store.seq(execution) for execution in (A, B, C)] == [3, 2, 1]
        assert store.blob(content(b"refused")[0]) is None
        assert store.summaries() == []

    def test_a_batch_may_hold_several_changes_of_one_execution(self, store: Store) -> None:
        assert store.commit([change(A, 0, 2), change(A, 2, 2), change(A, 2, 1), change(A, 4)]) == [
            True,
            True,
            False,
            True,
        ]
        assert [row.seq for row in store.read(A)] == [1, 2, 3, 4, 5]

    def test_an_empty_batch_and_an_empty_change_write_nothing(self, store: Store) -> None:
        assert store.commit([]) == []
        assert store.commit([Change(A, 0, [])]) == [True]
        assert store.seq(A) == 0

    @pytest.mark.parametrize("seqs", [[2], [1, 3], [2, 1], [0, 1], [1, 1]])
    def test_rows_that_do_not_follow_the_log_are_a_mistake(self, store: Store, seqs: list[int]) -> None:
        rows = [Row(seq, "playbook.started", AT, b"{}", ZERO) for seq in seqs]
        with pytest.raises(ValueError, match="do not follow seq 0"):
            store.commit([change(B, 0), Change(A, 0, rows)])
        assert store.seq(A) == store.seq(B) == 0

    def test_executions_do_not_mix(self, store: Store) -> None:
        for turn in range(5):
            store.commit([change(A, turn, 1, f"a#{turn}"), change(B, turn, 1, f"b#{turn}")])
        assert [decode(row.type, row.data).run for row in store.read(B)] == [f"b#{turn}" for turn in range(5)]  # type: ignore[attr-defined]

    def test_time_and_data_come_back_to_the_last_bit(self, store: Store) -> None:
        times = [0.0, AT, 1e10 + 1e-6, 0.1 + 0.2]
        rows = [Row(n, "step.done", at, bytes(range(256)) * n, ZERO) for n, at in enumerate(times, start=1)]
        store.commit([Change(A, 0, rows)])
        assert store.read(A) == rows

    def test_a_large_event_comes_back_whole(self, store: Store) -> None:
        rows = rows_of([StepDone("a#1", "x" * 70_000), StepDone("b#1", "é" * 3000)], 1, AT, ZERO)
        store.commit([Change(A, 0, rows)])
        assert store.read(A) == rows

    def test_a_grown_log_is_sound(self, store: Store) -> None:
        for count in (1, 7, 2, 40):
            assert grow(store, A, events(count))
        assert len(store.read(A)) == 50
        assert sound(store.read(A))

    def test_one_thread_opens_another_writes_a_third_closes(self, open_store: OpenStore) -> None:
        with ThreadPoolExecutor(1) as opener, ThreadPoolExecutor(1) as writer:
            store = opener.submit(open_store).result()
            assert writer.submit(store.commit, [change(A, 0, 4)]).result() == [True]
            assert writer.submit(store.seq, A).result() == 4
        store.close()

    def test_closing_twice_is_harmless(self, open_store: OpenStore) -> None:
        store = open_store()
        store.close()
        store.close()


class SummarySuite:
    """Executions as lists show them."""

    def test_a_summary_comes_back_as_it_was_and_the_last_one_counts(self, store: Store) -> None:
        store.commit([change(A, 0, summary=summary(A, parent=B, source=C))])
        assert store.summaries() == [summary(A, parent=B, source=C)]
        about: dict[str, Any] = {"activity": "é", "waits": " join ", "details": b'{"events":3}'}
        done = summary(A, "succeeded", ended=AT + 2.5, digest="d" * 64, parent=B, source=C, **about)
        store.commit([change(A, 1, summary=done)])
        assert store.summaries() == [done]

    def test_a_summary_needs_no_event(self, store: Store) -> None:
        assert store.commit([Change(A, 0, [], summary(A))]) == [True]
        assert store.summaries() == [summary(A)]

    def test_newest_come_first_and_the_limit_counts(self, store: Store) -> None:
        for one, started in ((B, AT), (C, AT - 9), (A, AT)):  # ids of children are not in the order of their start
            store.commit([change(one, 0, summary=structs.replace(summary(one), started=started))])
        assert [run.execution_id for run in store.summaries()] == [B, A, C]
        assert [run.execution_id for run in store.summaries(limit=2)] == [B, A]

    def test_a_list_continues_behind_a_position(self, store: Store) -> None:
        for one, started in ((B, AT), (C, AT - 9), (A, AT)):
            store.commit([change(one, 0, summary=structs.replace(summary(one), started=started))])
        newest = RunPosition(AT, B)
        assert [run.execution_id for run in store.summaries(before=newest, limit=1)] == [A]
        assert [run.execution_id for run in store.summaries(before=newest, statuses=["running"])] == [A, C]
        assert [run.execution_id for run in store.summaries(before=newest, prefix=A)] == [A]
        assert store.summaries(before=RunPosition(AT - 9, C)) == []

    def test_executions_are_found_by_name_path_parent_and_start(self, store: Store) -> None:
        rows = {A: ("nightly", AT, None), B: ("orders", AT + 1, A), C: ("orders", AT + 2, None)}
        for one, (name, started, parent) in rows.items():
            row = Summary(one, name, f"shop/{name}", "running", started, parent=parent, continued_errors=3)
            store.commit([change(one, 0, summary=row)])
        filters: list[dict[str, Any]] = [
            *({"name": "orders"}, {"path": "shop/nightly"}, {"parent": A}, {"top": True}, {"since": AT + 1}),
            *({"name": "orders", "top": True}, {"path": "shop/orders", "since": AT + 2}, {"name": "none"}),
            *({"parent": C}, {"prefix": B, "name": "orders"}, {"prefix": B, "name": "nightly"}, {"parent": "?"}),
        ]
        result = [[run.execution_id for run in store.summaries(**one)] for one in filters]
        assert result == [[C, B], [A], [B], [C, A], [C, B], [C], [C], [], [], [B], [], []]
        assert {run.continued_errors for run in store.summaries()} == {3}

    def test_a_summary_is_read_as_it_was_written(self, store: Store) -> None:
        about = {"ended": AT + 9, "digest": "d" * 64, "parent": B, "local": True, "continued_errors": 3, "source": C}
        row = summary(A, "failed", **about, activity="waits for \u2713", waits=" signal ", details=b'{"n":1}')
        store.commit([change(A, 0, summary=row), change(B, 0, summary=summary(B))])
        assert store.summaries() == [summary(B), row]
        changed = structs.replace(row, activity="", waits="", details=b"{}")
        store.commit([change(A, 1, summary=changed)])
        assert store.summaries(prefix=A) == [changed]

    def test_executions_are_found_by_source_waits_part_of_a_name_and_time(self, store: Store) -> None:
        rows: dict[str, dict[str, Any]] = {
            A: {"name": "Nightly", "path": "shop/eu/nightly", "started": AT, "waits": " join signal "},
            B: {"name": "orders", "path": "shop/orders", "started": AT + 1, "source": A, "status": "failed"},
            C: {"name": "or_ders", "path": "shops", "started": AT + 2, "parent": A, "waits": " retry "},
        }
        for one, fields in rows.items():
            row = structs.replace(summary(one, "running"), **fields)
            store.commit([change(one, 0, summary=row)])
        filters: list[dict[str, Any]] = [
            *({"source": A}, {"source": B}, {"waits": "signal"}, {"waits": "sig"}, {"waits": "retry", "top": True}),
            *({"contains": "NIGHT"}, {"contains": "eu/"}, {"contains": "r_d"}, {"contains": C[:9]}, {"contains": "%"}),
            *({"path": "shop/*"}, {"path": "shop*"}, {"path": "*"}, {"path": "shop/eu"}, {"until": AT + 2}),
            *(
                {"since": AT + 1, "until": AT + 2},
                {"statuses": ["failed", "running"]},
                {"statuses": ["failed", "paused"]},
            ),
            *(
                {"statuses": ["running"], "top": True},
                {"statuses": ["running", "failed"], "path": "shop/*", "limit": 1},
            ),
            *({"until": AT + 2, "before": RunPosition(AT + 1, B)}, {"contains": "orders", "statuses": ["running"]}),
            *({"waits": "signal", "statuses": ["failed"]}, {"parent": A, "statuses": ["failed", "running"]}),
        ]
        result = [[run.execution_id for run in store.summaries(**one)] for one in filters]
        assert result == [
            *([B], [], [A], [], []),
            *([A], [A], [C], [C], []),
            *([B, A], [C, B, A], [C, B, A], [], [B, A]),
            *([B], [C, B, A], [B]),
            *([A], [B]),
            *([A], []),
            *([], [C]),
        ]

    def test_filters_of_executions_apply_together(self, store: Store) -> None:
        rows: dict[str, dict[str, Any]] = {
            A: {"name": "Été", "path": "fr", "started": AT, "waits": " signal ", "status": "waiting"},
            B: {"name": "orders", "started": AT + 1, "parent": A, "source": C, "waits": " join signal "},
            C: {"name": "orders", "started": AT + 2, "parent": A, "waits": " retry "},
        }
        for one, fields in rows.items():
            row = structs.replace(summary(one, "running"), **fields)
            store.commit([Change(one, 0, change(one, 0).rows, row, ready={"a#1": "gpu" if one == C else "cpu"})])
        filters: list[dict[str, Any]] = [
            *({"parent": A, "waits": "signal"}, {"parent": A, "waits": "timer"}, {"parent": B, "waits": "signal"}),
            *({"parent": A, "source": C}, {"parent": A, "source": A}, {"source": C, "waits": "retry"}),
            *({"parent": A, "pools": ["gpu", "tpu"]}, {"parent": A, "pools": []}, {"waits": "join", "pools": ["cpu"]}),
            *({"waits": "signal", "contains": A}, {"waits": "retry", "contains": A}, {"parent": A, "contains": C[:9]}),
            *({"pools": ["cpu", "gpu"], "contains": B.upper()}, {"contains": "Été"}, {"contains": "Ét", "top": True}),
        ]
        result = [[run.execution_id for run in store.summaries(**one)] for one in filters]
        assert result == [[B], [], [], [B], [], [], [C], [], [B], [A], [], [C], [B], [A], [A]]

    def test_executions_are_found_by_the_pools_of_their_ready_work(self, store: Store) -> None:
        ready = {A: {"a#1": "gpu", "b#1": "cpu"}, B: {"a#1": "cpu"}, C: {}}
        for one, runs in ready.items():
            store.commit([Change(one, 0, change(one, 0).rows, summary(one), ready={**runs})])
        assert sorted(store.ready_pools()) == ["cpu", "gpu"]
        result = [[run.execution_id for run in store.summaries(pools=pools)] for pools in (["gpu"], ["gpu", "cpu"], [])]
        assert result == [[A], [B, A], []]

    def test_executions_are_counted_by_status(self, store: Store) -> None:
        for place, (one, status) in enumerate(((A, "running"), (B, "failed"), (C, "running"))):
            row = structs.replace(
                summary(one, status), path=f"p/{place}", started=AT + place, parent=B if place else None
            )
            store.commit([change(one, 0, summary=row)])
        filters: list[dict[str, Any]] = [{}, {"since": AT + 1}, {"path": "p/2"}, {"path": "p/*"}, {"top": True}]
        assert [store.counts(**one) for one in filters] == [
            *({"running": 2, "failed": 1}, {"running": 1, "failed": 1}, {"running": 1}),
            *({"running": 2, "failed": 1}, {"running": 1}),
        ]

    def test_children_and_forks_are_counted(self, store: Store) -> None:
        store.commit([change(A, 0, summary=summary(A))])
        store.commit([change(B, 0, summary=structs.replace(summary(B), parent=A))])
        store.commit([change(C, 0, summary=structs.replace(summary(C), source=A))])
        assert [store.count_related(execution) for execution in (A, B)] == [(1, 1), (0, 0)]

    def test_ready_runs_of_several_executions_are_found(self, store: Store) -> None:
        for one, runs in ((A, {"a#1": "gpu", "b#1": "p"}), (B, {}), (C, {"c#1": "p"})):
            store.commit([change(one, 0, summary=summary(one), ready={**runs})])

        def pools(ids: list[str]) -> dict[str, dict[str, str]]:
            ready = store.ready_of(ids)
            return {one: {run: pool for run, (pool, _) in runs.items()} for one, runs in ready.items()}

        assert pools([A, B, "nothing"]) == {A: {"a#1": "gpu", "b#1": "p"}}
        assert pools([A, C]) == {A: {"a#1": "gpu", "b#1": "p"}, C: {"c#1": "p"}}
        assert store.ready_of([]) == {}
        since = store.ready_of([A])[A]["a#1"][1]
        store.commit([change(A, 1, ready={"a#1": "gpu"})])
        assert store.ready_of([A])[A]["a#1"] == ("gpu", since)

    def test_the_version_of_a_content_is_found(self, store: Store) -> None:
        store.register("p", "a" * 64)
        store.register("p", "b" * 64)
        store.register('q"\\', "b" * 64)
        known, unknown = [("p", "a" * 64), ("p", "b" * 64), ('q"\\', "b" * 64)], [("p", "c" * 64), ("q", "a" * 64)]
        assert [store.version_of(*key) for key in known + unknown] == [1, 2, 1, None, None]
        assert store.versions_of(known + unknown) == dict(zip(known, (1, 2, 1), strict=True))
        assert store.versions_of([]) == {}

    def test_a_status_can_be_requested(self, store: Store) -> None:
        for one, status in ((A, "running"), (B, "failed"), (C, "running")):
            store.commit([change(one, 0, summary=summary(one, status))])
        assert [run.execution_id for run in store.summaries(statuses=["running"])] == [C, A]
        assert [run.execution_id for run in store.summaries(statuses=["running"], prefix="0198")] == [A]
        assert store.summaries(statuses=["paused"]) == []
        store.commit([change(A, 1, summary=summary(A, "failed"))])
        assert [run.execution_id for run in store.summaries(statuses=["failed"])] == [B, A]

    def test_any_beginning_of_an_id_finds_it(self, store: Store) -> None:
        store.commit([change(execution, 0, summary=summary(execution)) for execution in (A, B, C)])
        prefixes = [A[:length] for length in range(37)]
        result = {prefix: [run.execution_id for run in store.summaries(prefix=prefix)] for prefix in prefixes}
        assert result == {
            prefix: [execution for execution in (C, B, A) if execution.startswith(prefix)] for prefix in prefixes
        }

    def test_what_no_id_begins_with_finds_nothing(self, store: Store) -> None:
        store.commit([change(A, 0, summary=summary(A))])
        prefixes = ["x", "0198C", "0198c0de0", "-", A + "0", "0198c0de--", "é", "%"]
        assert [prefix for prefix in prefixes if store.summaries(prefix=prefix)] == []


class BlobSuite:
    """Content by its hash."""

    def test_content_is_kept_with_the_change_that_brings_it(self, store: Store) -> None:
        small, large = content(b"\0small"), content(b"large" * 100_000)
        store.commit([change(A, 0, blobs=[small, large])])
        assert store.blob(small[0]) == small[1]
        assert store.blob(large[0]) == large[1]
        assert store.blob("nothing") is None

    def test_the_same_content_may_come_again(self, store: Store) -> None:
        one = content(b"same")
        assert store.commit([change(A, 0, blobs=[one, one]), change(B, 0, blobs=[one])]) == [True, True]
        assert store.commit([change(A, 1, blobs=[one])]) == [True]
        assert store.blob(one[0]) == b"same"

    def test_empty_content_is_content(self, store: Store) -> None:
        store.commit([change(A, 0, blobs=[content(b"")])])
        assert store.blob(content(b"")[0]) == b""
        assert store.blob_size(content(b"")[0]) == 0
        assert store.blob_part(content(b"")[0], 0, 10) == b""

    def test_a_part_of_a_content_is_read_without_the_rest(self, store: Store) -> None:
        key, data = content(bytes(range(256)) * 10_000)
        store.commit([change(A, 0, blobs=[(key, data)])])
        assert store.blob_size(key) == len(data)
        for start, size in ((0, 1), (255, 2), (1_000_000, 70_000), (len(data) - 3, 10), (len(data), 5)):
            assert store.blob_part(key, start, size) == data[start : start + size]
        assert store.blob_size("nothing") is None
        assert store.blob_part("nothing", 0, 1) is None


class SnapshotSuite:
    """Stored states."""

    def test_the_latest_snapshot_comes_with_the_row_it_belongs_to(self, store: Store) -> None:
        assert store.snapshot(A) is None
        first, second = change(A, 0, 3, snapshot=b"one"), change(A, 3, 2, snapshot=b"two")
        store.commit([first])
        assert store.snapshot(A) == Snapshot(3, first.rows[-1].hash, b"one")
        store.commit([change(B, 0), second])
        store.commit([change(A, 5)])
        assert store.snapshot(A) == Snapshot(5, second.rows[-1].hash, b"two")
        assert store.snapshot(B) is None

    def test_the_latest_snapshot_up_to_a_seq_is_found_among_many(self, store: Store) -> None:
        assert store.snapshot_seqs(A) == []
        store.commit([change(B, 0, 9, snapshot=b"other")])
        for number in range(4):
            store.commit([change(A, 2 * number, 2, snapshot=b"%d" % number)])
        assert store.snapshot_seqs(A) == [2, 4, 6, 8]
        result = [store.snapshot(A, until) for until in (1, 2, 5, 7, 99)]
        assert [one and (one.seq, one.data) for one in result] == [None, (2, b"0"), (4, b"1"), (6, b"2"), (8, b"3")]

    def test_a_fork_gets_the_snapshots_of_its_source_up_to_a_seq(self, store: Store) -> None:
        for number in range(3):
            store.commit([change(A, 2 * number, 2, snapshot=b"%d" % number)])
        store.commit([change(B, 0, 4, snapshot=b"own")])
        store.copy_snapshots(A, B, 5)
        assert store.snapshot_seqs(B) == [2, 4]
        assert [store.snapshot(B, until) for until in (3, 5)] == [store.snapshot(A, 3), store.snapshot(B)]
        assert (result := store.snapshot(B)) is not None
        assert result.data == b"own"
        store.copy_snapshots(NEVER, C, 5)
        assert store.snapshot_seqs(C) == []

    def test_a_refused_change_leaves_the_snapshot(self, store: Store) -> None:
        store.commit([change(A, 0, 3, snapshot=b"one")])
        assert store.commit([change(A, 1, 5, snapshot=b"two")]) == [False]
        result = store.snapshot(A)
        assert result is not None
        assert (result.seq, result.data) == (3, b"one")

    def test_stale_snapshots_go_with_the_commit_that_names_them(self, store: Store) -> None:
        store.commit([change(A, 0, 2, snapshot=b"one"), change(B, 0, 2, snapshot=b"other")])
        store.commit([change(A, 2, 2, snapshot=b"two", stale_snapshots=[2])])
        assert store.commit([change(A, 9, 2, stale_snapshots=[4])]) == [False]
        assert (result := store.snapshot(A)) is not None
        assert (result.seq, result.data) == (4, b"two")
        store.commit([change(A, 4, 1, stale_snapshots=[4])])
        assert store.snapshot(A) is None
        assert store.snapshot(B) is not None


class OutlineSuite:
    """Blocks of the outline."""

    def test_blocks_come_with_the_commit_that_completes_them(self, store: Store) -> None:
        assert store.outline(A) == []
        store.commit([change(A, 0, 2, outline=[(0, b"zero"), (1, b"one")]), change(B, 0, outline=[(0, b"other")])])
        assert store.commit([change(A, 1, outline=[(2, b"refused")])]) == [False]
        assert store.outline(A) == [(0, b"zero"), (1, b"one")]
        assert store.outline(A, 1) == [(1, b"one")]
        assert store.outline(A, 0, 1) == [(0, b"zero")]
        assert store.outline(B) == [(0, b"other")]

    def test_missing_blocks_are_stored_later(self, store: Store) -> None:
        store.commit([change(A, 0, 2, outline=[(1, b"one")])])
        store.put_outline(A, [(0, b"zero"), (1, b"again")])
        assert store.outline(A) == [(0, b"zero"), (1, b"again")]


class DerivedSuite:
    """Ready work, leases and timers as rows."""

    def test_rows_come_change_and_go_with_the_events(self, store: Store) -> None:
        assert store.derived(A) == Derived()
        lease = Leased("a#1", "w-1", AT, 30.0)
        store.commit([change(A, 0, ready={"a#1": "default"}, leases={1: lease}, timers={"timeout": AT})])
        store.commit([change(B, 0, ready={"a#1": "other"})])
        assert store.derived(A) == Derived({"a#1": "default"}, {1: lease}, {"timeout": AT})
        moved = change(A, 1, ready={"a#1": None, "b#1": "p"}, leases={1: None, 2: lease}, timers={"timeout": AT + 1})
        store.commit([moved])
        assert store.derived(A) == Derived({"b#1": "p"}, {2: lease}, {"timeout": AT + 1})
        assert store.derived(B) == Derived({"a#1": "other"})

    def test_a_refused_change_leaves_the_rows(self, store: Store) -> None:
        store.commit([change(A, 0, ready={"a#1": "default"})])
        assert store.commit([change(A, 0, ready={"a#1": None}, timers={"t": AT})]) == [False]
        assert store.derived(A) == Derived({"a#1": "default"})

    def test_a_row_that_never_was_may_go(self, store: Store) -> None:
        store.commit([change(A, 0, ready={"a#1": None}, leases={7: None}, timers={"t": None})])
        assert store.derived(A) == Derived()

    def test_a_moment_shows_one_moment(self, store: Store) -> None:
        store.commit([change(A, 0, 2, timers={"t": AT})])
        with store.read_snapshot():
            assert len(store.read(A)) == store.seq(A) == 2
            assert store.derived(A).timers == {"t": AT}
        assert store.commit([change(A, 2)]) == [True]


class PlaybookSuite:
    """Texts of playbooks."""

    def test_a_playbook_is_kept_once(self, store: Store) -> None:
        store.put_playbook("d1", "orders.yaml", b"apiVersion: noetl.io/v2\n")
        store.put_playbook("d1", "copy.yaml", b"apiVersion: noetl.io/v2\n")
        store.put_playbook("d2", "größe.yaml", b"\xff")
        assert store.playbook("d1") == ("orders.yaml", b"apiVersion: noetl.io/v2\n")
        assert store.playbook("d2") == ("größe.yaml", b"\xff")
        assert store.playbook("d3") is None


class LogSuite:
    """Output of tasks."""

    def test_lines_come_back_in_order_by_execution(self, store: Store) -> None:
        store.append_output([(A, "a#1/main#1", AT, "stdout", "one"), (B, "b#1/main#1", AT, "stderr", "other")])
        store.append_output([(A, "a#1/main#1", AT + 1, "stderr", "two\0 – zwei")])
        assert [line[1:] for line in store.output(A)] == [
            ("a#1/main#1", AT, "stdout", "one"),
            ("a#1/main#1", AT + 1, "stderr", "two\0 – zwei"),
        ]
        assert [line[4] for line in store.output(B)] == ["other"]
        assert store.output(NEVER) == []

    def test_reading_continues_after_a_number(self, store: Store) -> None:
        store.append_output([(A, "t", AT, "stdout", str(number)) for number in range(5)])
        numbers = [line[0] for line in store.output(A)]
        assert numbers == sorted(set(numbers))
        assert [line[4] for line in store.output(A, after=numbers[2])] == ["3", "4"]

    def test_no_more_lines_are_read_than_are_wanted(self, store: Store) -> None:
        store.append_output([(A, "t", AT, "stdout", str(number)) for number in range(5)])
        store.append_output([(B, "t", AT, "stdout", "other")])
        numbers = [line[0] for line in store.output(A)]
        assert [line[4] for line in store.output(A, limit=2)] == ["0", "1"]
        assert [line[4] for line in store.output(A, after=numbers[2], limit=1)] == ["3"]
        assert [line[4] for line in store.output(A, after=numbers[3], limit=9)] == ["4"]
        assert store.output(A, limit=0) == []

    def test_lines_before_a_number_come_the_last_one_first(self, store: Store) -> None:
        store.append_output([(A, "t", AT, "stdout", f"{number}\0ü") for number in range(5)])
        store.append_output([(B, "t", AT, "stdout", "other")])
        lines = store.output(A)
        assert store.output_before(A, lines[3][0], 2) == [lines[2], lines[1]]
        assert store.output_before(A, 2**53, 9) == lines[::-1]
        assert store.output_before(A, lines[0][0], 9) == []
        assert store.output_before(NEVER, 2**53, 9) == []

    def test_lines_are_found_by_their_place(self, store: Store) -> None:
        for number in range(5):
            store.append_output([(B, "t", AT, "stdout", "other"), (A, "t", AT, "stdout", str(number))])
        numbers = [line[0] for line in store.output(A)]
        assert [store.output_number(A, row) for row in range(6)] == [*numbers, None]
        assert [store.output_rows(A, number) for number in (*numbers, 2**53)] == [0, 1, 2, 3, 4, 5]
        assert (store.output_number(NEVER, 0), store.output_rows(NEVER, 2**53)) == (None, 0)

    def test_no_lines_are_fine(self, store: Store) -> None:
        store.append_output([])
        assert store.output(A) == []


class WorkSuite:
    """What servers look for: ready work, due timers, lost workers, children."""

    def test_executions_with_work_for_a_pool_are_found_in_turn(self, store: Store) -> None:
        for one, pool in ((B, "gpu"), (A, "gpu"), (C, "cpu"), (NEVER, "gpu")):
            store.commit([change(one, 0, summary=summary(one), ready={"a#1": pool, "b#1": pool})])
        assert store.waiting("gpu", 10) == [A, B, NEVER]
        assert store.waiting("gpu", 2) == [A, B]
        assert store.waiting("gpu", 2, after=B) == [NEVER]
        assert store.waiting("gpu", 2, after=NEVER) == []
        assert store.waiting("none", 10) == []
        store.commit([change(A, 1, ready={"a#1": None})])
        assert store.waiting("gpu", 1) == [A]
        store.commit([change(A, 2, ready={"b#1": None})])
        assert store.waiting("gpu", 1) == [B]

    def test_queues_are_counted_by_pool_with_the_time_of_the_first(self, store: Store) -> None:
        assert store.queues() == []
        store.commit([change(A, 0, summary=summary(A), ready={"a#1": "gpu", "b#1": "gpu", "c#1": "cpu"})])
        cpu, gpu = store.queues()
        assert (cpu.pool, cpu.runs, gpu.pool, gpu.runs) == ("cpu", 1, "gpu", 2)
        store.commit([change(B, 0, summary=summary(B), ready={"a#1": "gpu"})])
        store.commit([change(A, 1, ready={"a#1": "gpu"})])  # it is still the same wait
        assert store.queues()[1] == gpu._replace(runs=3)
        store.commit([change(A, 2, ready={"a#1": None, "b#1": None})])
        later = store.queues()[1]
        assert (later.runs, later.oldest >= gpu.oldest) == (1, True)

    def test_queues_of_local_and_paused_executions_do_not_count(self, store: Store) -> None:
        store.commit([change(A, 0, summary=summary(A, local=True), ready={"a#1": "p"})])
        store.commit([change(B, 0, summary=summary(B, "paused"), ready={"a#1": "p"})])
        assert store.queues() == []

    def test_who_is_local_or_paused_is_left_alone(self, store: Store) -> None:
        rest: dict[str, Any] = {"ready": {"a#1": "p"}, "timers": {"t": AT}}
        store.commit([change(A, 0, summary=summary(A, local=True), **rest)])
        store.commit([change(B, 0, summary=summary(B, "paused"), **rest)])
        store.commit([change(C, 0, summary=summary(C, "waiting"), **rest)])
        assert store.summaries()[-1].local
        assert (store.waiting("p", 9), store.due(AT, 9)) == ([C], [(C, "t")])
        store.commit([change(B, 1, summary=summary(B, "running"))])
        assert (store.waiting("p", 9), store.due(AT, 9)) == ([B, C], [(B, "t"), (C, "t")])

    def test_timers_are_found_when_they_are_due_the_earliest_first(self, store: Store) -> None:
        assert store.next_due() is None
        store.commit([change(A, 0, summary=summary(A), timers={"late": AT + 9, "soon": AT + 1})])
        store.commit([change(B, 0, summary=summary(B), timers={"sooner": AT + 0.5})])
        store.commit([change(C, 0, summary=summary(C, local=True), timers={"first": AT})])
        assert store.due(AT + 0.4, 9) == []
        assert store.due(AT + 0.5, 9) == [(B, "sooner")]
        assert store.due(AT + 99, 9) == [(B, "sooner"), (A, "soon"), (A, "late")]
        assert store.due(AT + 99, 2) == [(B, "sooner"), (A, "soon")]
        assert store.next_due() == AT + 0.5
        store.commit([change(B, 1, timers={"sooner": None})])
        assert store.next_due() == AT + 1

    def test_children_are_open_and_stray_ones_do_not_follow_their_parent(self, store: Store) -> None:
        store.commit([change(A, 0, summary=summary(A))])
        store.commit([change(execution, 0, summary=summary(execution, parent=A)) for execution in (C, B)])
        assert store.children(A) == [summary(B, parent=A), summary(C, parent=A)]
        assert (store.children(B), store.children("x"), store.stray_children(9)) == ([], [], [])
        store.commit([change(C, 1, summary=summary(C, "failed", parent=A, ended=AT))])
        assert store.children(A) == [summary(B, parent=A)]
        store.commit([change(B, 1, summary=summary(B, "paused", parent=A))])
        assert store.stray_children(9) == [B]
        store.commit([change(A, 1, summary=summary(A, "paused"))])
        assert store.stray_children(9) == []
        store.commit([change(B, 2, summary=summary(B, "waiting", parent=A))])
        assert store.stray_children(9) == [B]
        store.commit([change(A, 2, summary=summary(A, "failed", ended=AT))])
        assert store.stray_children(9) == [B]
        assert store.stray_children(0) == []

    def test_open_executions_are_found_by_their_playbooks(self, store: Store) -> None:
        store.commit([change(A, 0, 2, summary=summary(A, digest="d1"))])
        store.commit([change(B, 0, summary=summary(B, "waiting", digest="d2", parent=A))])
        store.commit([change(C, 0, summary=summary(C, "succeeded", digest="d3", parent=A, ended=AT))])
        assert store.open_digests() == ["d1", "d2"]
        assert store.open_of(["d1", "d3"]) == [(A, 2)]
        assert store.open_of(["d1", "d2"]) == [(A, 2), (B, 1)]
        assert (store.open_of([]), store.open_children()) == ([], [B])

    def test_an_open_execution_without_events_is_at_seq_0(self, store: Store) -> None:
        store.commit([change(A, 0, 0, summary=summary(A, digest="d1"))])
        assert store.open_of(["d1"]) == [(A, 0)]

    def test_a_parent_that_was_removed_has_ended(self, store: Store) -> None:
        store.commit(
            [change(B, 0, summary=summary(B, parent=A)), change(C, 0, summary=summary(C, parent=A, local=True))]
        )
        assert store.stray_children(9) == [B]


class WorkerSuite:
    """Workers, as they were last heard."""

    def test_a_worker_is_listed_as_it_was_last_heard(self, store: Store) -> None:
        assert store.workers() == []
        store.record_heartbeat(worker("w-2"), AT)
        store.record_heartbeat(worker("w-1", slots=4, leases={A: [1, 7], B: [2]}), AT + 1)
        store.record_heartbeat(worker("w-2", pool="gpu", version="2.1"), AT + 10)
        first, second = store.workers()
        assert first == worker("w-1", slots=4, leases={A: [1, 7], B: [2]}, beat=AT + 1)
        assert second == worker("w-2", pool="gpu", version="2.1", beat=AT + 10)
        assert (first.busy, second.busy) == (3, 0)
        assert (store.worker_session("w-1"), store.worker_session("w-3")) == (first, None)

    def test_a_directive_stays_until_the_worker_restarts(self, store: Store) -> None:
        store.record_heartbeat(worker("w"), AT)
        store.direct_worker("w", "drain")
        store.direct_worker("nobody", "stop")
        store.record_heartbeat(worker("w", directive="stop"), AT + 1)
        assert [session.directive for session in store.workers()] == ["drain"]
        store.record_heartbeat(worker("w", started=AT + 2), AT + 2)
        assert [session.directive for session in store.workers()] == [""]

    def test_a_heartbeat_that_was_overtaken_or_comes_again_is_not_recorded(self, store: Store) -> None:
        assert store.record_heartbeat(worker("w", number=2, slots=2), AT)
        assert not store.record_heartbeat(worker("w", number=1), AT + 1)
        assert not store.record_heartbeat(worker("w", number=2), AT + 1)
        assert store.workers() == [worker("w", number=2, slots=2, beat=AT)]
        assert store.record_heartbeat(worker("w", number=3), AT + 2)
        assert store.record_heartbeat(worker("w", number=1, started=AT + 3), AT + 3)
        assert store.workers() == [worker("w", number=1, started=AT + 3, beat=AT + 3)]

    def test_a_beat_without_a_time_is_now(self, store: Store) -> None:
        before = time.time() - 5
        store.record_heartbeat(worker("w", beat=1.0))
        assert before < store.workers()[0].beat < time.time() + 5
        assert store.expired_leases() == []

    def test_leases_of_a_silent_worker_are_lost_when_their_time_is_over(self, store: Store) -> None:
        leases = {1: Leased("a#1", "w", AT, 30.0), 2: Leased("b#1", "w", AT, 60.0)}
        store.commit([change(A, 0, summary=summary(A), leases=leases)])
        beat = store.clock() + 10_000
        store.record_heartbeat(worker("w"), beat)
        assert store.expired_leases(beat + 30) == []
        assert store.expired_leases(beat + 31) == [(A, 1)]
        assert store.expired_leases(beat + 60) == [(A, 1)]
        assert store.expired_leases(beat + 61) == [(A, 1), (A, 2)]
        assert store.expired_leases(beat + 61, 1) == [(A, 1)]
        assert store.expired_leases() == []
        store.record_heartbeat(worker("w"), beat + 20)
        assert store.expired_leases(beat + 61) == [(A, 1)]
        assert [lease[:2] + lease[3:] for lease in store.leases_of("w")] == [(A, 1, False), (A, 2, False)]
        assert store.leases_of("nobody") == []
        store.commit([change(A, 1, leases={1: None})])
        assert store.expired_leases(beat + 61) == []

    def test_a_lease_has_its_age_from_the_clock_of_the_store(self, store: Store) -> None:
        """That of the server which has granted it may differ by any time."""
        before = store.clock()
        granted = {1: Leased("a#1", "w", AT - 500, 30.0), 2: Leased("b#1", "w", before + 500, 30.0)}
        store.commit([change(A, 0, summary=summary(A), leases=granted)])
        after = store.clock()
        assert store.expired_leases(before + 29) == []
        assert store.expired_leases(after + 31) == [(A, 1), (A, 2)]
        store.commit([change(A, 1, leases={1: Leased("a#1", "w", AT + 500, 60.0)})])
        assert store.expired_leases(after + 59) == [(A, 2)]
        assert store.expired_leases(after + 61) == [(A, 2), (A, 1)]
        ages = [lease.age for lease in store.leases_of("w")]
        assert all(-0.01 <= age <= store.clock() - before + 0.01 for age in ages)

    def test_content_is_read_by_who_holds_a_lease_of_an_execution_that_refers_to_it(self, store: Store) -> None:
        chunk, part = (refer([[0, text]]) for text in ("one", "two"))
        manifest = canonical({"chunks": [chunk[0].key], "marked": [], "total": 1})
        whole = reference_to(manifest, hint="chunks")
        other = refer("of nobody here")
        lease = {1: Leased("a#1", "w@mine", AT, 30.0)}
        brought = [(chunk[0].key, chunk[1]), (whole.key, manifest)]
        store.commit([change(A, 0, summary=summary(A, digest=DIGEST), leases=lease, blobs=brought[1:])])
        store.commit([change(B, 0, summary=summary(B), blobs=[*brought, (part[0].key, part[1])])])
        for key, refers in ((whole.key, True), (chunk[0].key, True), (part[0].key, False), (other[0].key, False)):
            assert (store.refers(A, key), store.may_read("@mine", key)) == (refers, refers)
            assert (store.may_read("@theirs", key), store.may_read("@in", key)) == (False, False)
        assert store.refers(B, part[0].key)
        assert not store.refers("no-execution", whole.key)
        assert store.may_read("@mine", DIGEST)
        assert not store.may_read("@theirs", DIGEST)
        store.commit([change(A, store.seq(A), leases={1: None})])
        assert not store.may_read("@mine", whole.key)

    def test_leases_of_a_worker_that_was_never_heard_are_lost_as_well(self, store: Store) -> None:
        leases = {1: Leased("a#1", "unheard", AT, 30.0), 2: Leased("b#1", "unheard", AT, 9000.0)}
        before = store.clock()
        store.commit([change(A, 0, summary=summary(A), leases=leases)])
        after = store.clock()
        assert store.expired_leases(before + 29) == []
        assert store.expired_leases(after + 31) == [(A, 1)]
        assert store.expired_leases(after + 9001) == [(A, 1), (A, 2)]
        store.record_heartbeat(worker("unheard"), after + 8990)
        assert store.expired_leases(after + 9001) == []

    def test_nobody_takes_the_leases_of_a_local_execution(self, store: Store) -> None:
        lease = {1: Leased("a#1", "w", AT, 30.0)}
        store.commit([change(A, 0, summary=summary(A, local=True), leases=lease)])
        store.commit([change(B, 0, summary=summary(B, "paused"), leases=lease)])
        store.record_heartbeat(worker("w"), AT)
        assert store.expired_leases(store.clock() + 99) == [(B, 1)]
        assert [lease[:2] + lease[3:] for lease in store.leases_of("w")] == [(B, 1, True)]

    def test_who_was_silent_itself_waits_for_the_lifetime_of_a_lease(self, store: Store) -> None:
        leases = {1: Leased("a#1", "w", AT, 30.0), 2: Leased("b#1", "w", AT, 60.0)}
        store.commit([change(A, 0, summary=summary(A), leases=leases)])
        late = store.clock() + 99
        assert store.expired_leases(late, 9, 30.0) == []
        assert store.expired_leases(late, 9, 31.0) == [(A, 1)]
        assert store.expired_leases(late, 9, 61.0) == [(A, 1), (A, 2)]


def worker(name: str, **more: Any) -> WorkerSession:
    return WorkerSession(**{"worker": name, "pool": "default", "slots": 1, "host": "h", "started": AT, **more})


class CatalogSuite:
    """Versions of playbooks by path."""

    def test_equal_content_is_the_same_version(self, store: Store) -> None:
        assert store.register("shop/orders", "d1", "1.0", AT) == 1
        assert store.register("shop/orders", "d2", "", AT + 1) == 2
        assert store.register("shop/other", "d2", "", AT + 2) == 1
        assert store.register("shop/orders", "d2", "2.0", AT + 3) == 2
        result = [
            (version.version, version.digest, version.label, version.registered)
            for version in store.versions("shop/orders")
        ]
        assert result == [(2, "d2", "2.0", AT + 3), (1, "d1", "1.0", AT)]
        assert store.versions("none") == []

    def test_a_path_means_what_was_registered_last(self, store: Store) -> None:
        for digest in ("d1", "d2"):
            store.register("p", digest)
        assert [store.find("p"), store.find("p", 1), store.find("p", 2)] == ["d2", "d1", "d2"]
        assert store.register("p", "d1") == 1
        assert [store.find("p"), store.find("p", 2)] == ["d1", "d2"]
        assert [version.version for version in store.versions("p")] == [1, 2]
        assert [version.version for version in store.versions("p", 1)] == [1]
        assert store.register("p", "d3") == 3
        assert [store.find("p"), store.find("p", 4), store.find("q"), store.find("q", 1)] == ["d3", None, None, None]

    def test_paths_are_listed_in_order_page_by_page(self, store: Store) -> None:
        names = ["shop/orders", "shop/größe", "shop", "Shop", "s%", "a_b", "axb", "shopping/\U0001f6d2"]
        for name in names:
            store.register(name, "d1")
            store.register(name, "d2")
        assert store.paths() == sorted(names)
        assert store.paths("shop") == [name for name in sorted(names) if name.startswith("shop")]
        assert store.paths("s%") == ["s%"]
        assert store.paths("a_") == ["a_b"]
        assert store.paths("shop", 2) == ["shop", "shop/größe"]
        assert store.paths("shop", 2, after="shop/größe") == ["shop/orders", "shopping/\U0001f6d2"]
        assert store.paths("x") == []
        assert store.paths(contains="%") == ["s%"]
        assert store.paths("shop", contains="ORDER") == ["shop/orders"]
        store.register("Über", "d1")
        assert store.paths(contains="ÜBER") == ["Über"]
        assert store.paths("shop", contains="x") == []


class AnswerSuite:
    """Answers to requests that may be sent twice."""

    def test_the_first_answer_stays(self, store: Store) -> None:
        assert store.remember("start", "k", b"one", AT) is None
        assert store.remember("start", "k", b"two", AT + 1) == b"one"
        assert store.remember("other", "k", b"") is None
        assert store.remember("other", "k", b"three") == b""
        assert store.remember("start", "k", b"four") == b"one"

    def test_an_answer_is_forgotten_after_a_day(self, store: Store) -> None:
        store.remember("start", "old", b"one", AT)
        store.remember("start", "young", b"one", AT + 60)
        store.prune(0, 10, now=AT + DAY + 1)
        assert store.remember("start", "old", b"two") is None
        assert store.remember("start", "young", b"two") == b"one"


class BacklogSuite:
    """How much there is to do."""

    def test_open_executions_and_their_work_are_counted(self, store: Store) -> None:
        assert store.backlog() == ({}, 0, 0, 0)
        one = change(A, 0, ready={"a#1": "p", "b#1": "q"}, leases={1: Leased("r", "w", AT, 30.0)}, timers={"t": AT})
        one.summary = summary(A)
        store.commit([one, change(B, 0, summary=summary(B, "failed", ended=AT)), change(C, 0, summary=summary(C))])
        assert store.backlog() == ({"running": 2}, 2, 1, 1)
        store.commit([change(A, 1, ready={"a#1": None}, leases={1: None}, summary=summary(A, "paused"))])
        assert store.backlog() == ({"paused": 1, "running": 1}, 1, 0, 1)


class PruneSuite:
    """What is old goes, and nothing else."""

    def test_what_ended_long_ago_goes_with_all_that_is_its_own(self, store: Store) -> None:
        one = change(
            A, 0, 3, snapshot=b"s", ready={"a#1": "p"}, leases={1: Leased("r", "w", AT, 30.0)}, timers={"t": AT}
        )
        one.blobs.append(content(b"mine"))
        one.outline.append((0, b"block"))
        one.summary = summary(A, "failed", ended=AT)
        store.commit([one, change(B, 0, 2, summary=summary(B, "failed", ended=AT + 9), blobs=[content(b"other")])])
        store.append_output([(A, "t", AT, "stdout", "gone"), (B, "t", AT, "stdout", "stays")])
        assert [run.execution_id for run in store.prunable(AT + 1)] == [A]
        assert store.prune(AT + 1, 10, now=time.time() + 2 * DAY) == 1
        assert (store.read(A), store.snapshot_seqs(A), store.derived(A), store.output(A)) == ([], [], Derived(), [])
        assert store.outline(A) == []
        assert [run.execution_id for run in store.summaries()] == [B]
        assert (store.seq(B), [line[4] for line in store.output(B)]) == (2, ["stays"])
        assert (store.blob(content(b"mine")[0]), store.blob(content(b"other")[0])) == (None, b"other")
        assert store.prunable(AT + 1) == []
        assert store.prune(AT + 1, 10) == 0
        assert store.commit([change(A, 0)]) == [True]

    def test_the_first_that_ended_go_first(self, store: Store) -> None:
        for one, ended in ((A, AT + 2), (B, AT + 1), (C, AT + 3)):
            store.commit([change(one, 0, summary=summary(one, "failed", ended=ended))])
        assert [run.execution_id for run in store.prunable(AT + 3)] == [B, A]
        assert store.prune(AT + 9, 2) == 2
        assert [run.execution_id for run in store.summaries()] == [C]
        assert store.prune(AT + 9, 2) == 1

    def test_open_ones_and_children_of_open_ones_stay(self, store: Store) -> None:
        ended: dict[str, Any] = {"status": "succeeded", "ended": AT}
        store.commit([change(A, 0, summary=summary(A)), change(B, 0, summary=summary(B, parent=A, **ended))])
        store.commit([change(C, 0, summary=summary(C, parent=B, **ended))])
        assert store.prune(AT + 9, 10) == 1
        assert [run.execution_id for run in store.summaries()] == [B, A]
        store.commit([change(A, 1, summary=summary(A, "failed", ended=AT + 99))])
        assert store.prune(AT + 9, 10) == 1
        assert [run.execution_id for run in store.summaries()] == [A]

    def test_the_parent_of_an_open_one_stays(self, store: Store) -> None:
        store.commit([change(A, 0, summary=summary(A, "failed", ended=AT)), change(B, 0, summary=summary(B, parent=A))])
        assert store.prunable(AT + 9) == []
        assert store.prune(AT + 9, 10) == 0
        store.commit([change(B, 1, summary=summary(B, "cancelled", ended=AT + 1, parent=A))])
        assert [run.execution_id for run in store.prunable(AT + 9, 1)] == [A]
        assert store.prune(AT + 9, 10) == 2

    def test_young_content_stays_for_a_day(self, store: Store) -> None:
        store.commit([change(A, 0, summary=summary(A, "failed", ended=AT), blobs=[content(b"mine")])])
        assert store.prune(AT + 9, 10) == 1
        assert store.blob(content(b"mine")[0]) == b"mine"
        store.prune(0, 0, now=time.time() + 2 * DAY)
        assert store.blob(content(b"mine")[0]) is None

    def test_content_that_others_refer_to_stays_as_long_as_they_do(self, store: Store) -> None:
        """The parent refers to what the child brought, and that refers to more."""
        inner, text = refer({"deep": "x" * 9})
        outer, whole = refer([inner, {"$ref": "data"}])
        chunk, items = refer([[0, outer]])
        manifest = canonical({"chunks": [chunk.key], "marked": [chunk.key], "total": 1})
        listed = reference_to(manifest, hint="chunks")
        blobs = [(inner.key, text), (outer.key, whole), (chunk.key, items), (listed.key, manifest)]
        done = rows_of([StepDone("b#1", listed)], 1, AT, ZERO)
        store.commit([Change(B, 0, done, summary(B, "succeeded", ended=AT, parent=A), blobs)])
        handed = rows_of([StepDone("a#1", {"children": [listed]})], 1, AT, ZERO)
        store.commit([Change(A, 0, handed, summary(A, "succeeded", ended=AT + 5))])
        later = time.time() + 2 * DAY
        assert store.prune(AT + 1, 10, now=later) == 1
        assert [store.blob(key) for key, _ in blobs] == [data for _, data in blobs]
        assert store.prune(AT + 9, 10, now=later) == 1
        assert [store.blob(key) for key, _ in blobs] == [None] * 4

    def test_silent_workers_go_unless_they_hold_something(self, store: Store) -> None:
        store.commit([change(A, 0, summary=summary(A), leases={1: Leased("a#1", "holds", AT, 30.0)})])
        for name, at in (("holds", AT), ("silent", AT), ("alive", AT + DAY)):
            store.record_heartbeat(worker(name), at)
        store.prune(0, 10, now=AT + DAY + 1)
        assert [one.worker for one in store.workers()] == ["alive", "holds"]

    def test_a_long_log_goes_in_several_transactions(self, store: Store) -> None:
        rows = [Row(seq, "step.done", AT, b"{}", ZERO) for seq in range(1, 25_001)]
        store.commit([Change(A, 0, rows, summary(A, "failed", ended=AT))])
        assert store.prune(AT + 1, 1) == 1
        assert store.seq(A) == 0


class CredentialSuite:
    """Sealed credentials by name."""

    one = SealedCredential("b/one", "bearer", b"\x00\xffsealed", 1.5, 2.5, ("shop/*", "é"), ("eu",))
    two = SealedCredential("a", "acme.login", b"", 3.0, 3.0)

    def test_what_is_put_is_found_and_what_is_deleted_is_gone(self, store: Store) -> None:
        for credential in (self.one, self.two):
            store.credentials.put(credential)
        assert store.credentials.get("b/one") == self.one
        assert store.credentials.get("none") is None
        assert store.credentials.all() == [self.two, self.one]
        assert store.credentials.delete("a")
        assert not store.credentials.delete("a")
        assert store.credentials.all() == [self.one]

    def test_another_of_the_same_name_takes_its_place(self, store: Store) -> None:
        store.credentials.put(self.one)
        store.credentials.put(SealedCredential("b/one", "basic", b"new", 9.0, 9.0))
        assert store.credentials.all() == [SealedCredential("b/one", "basic", b"new", 1.5, 9.0)]

    def test_resealing_needs_what_was_read(self, store: Store) -> None:
        store.credentials.put(self.one)
        assert not store.credentials.reseal("b/one", b"other", b"new")
        assert not store.credentials.reseal("none", self.one.sealed, b"new")
        assert store.credentials.reseal("b/one", self.one.sealed, b"new")
        result = store.credentials.get("b/one")
        assert result is not None
        assert (result.sealed, result.updated) == (b"new", 2.5)


class TriggerSuite:
    """Schedules, changed at the revision they were made from; and hooks."""

    one = Schedule("nightly", "id1", "shop/orders", cron="0 3 * * *", timezone="Europe/Berlin", next=AT, look=AT)
    full = Schedule(
        name="full",
        id="id2",
        path="shop/ä",
        version=3,
        payload={"a": [1, "\0", None, 0.1], "ü": {}},
        ctx={"c": True},
        every=2.5,
        overlap="queue",
        missed="all",
        paused=True,
        created=1.5,
        updated=2.5,
        anchor=AT,
        next=AT + 2.5,
        starting=(Firing(AT), Firing(AT, "key")),
        queue=(Firing(AT),),
        running=(A,),
        recent=(Fired(AT, AT + 1, "started", A), Fired(AT, AT + 1, "failed", reason="gone", count=2)),
    )

    def test_a_schedule_comes_back_as_it_was(self, store: Store) -> None:
        triggers = store.triggers
        assert triggers.schedules() == []
        assert triggers.schedule("full") is None
        assert triggers.add_schedule(self.one)
        assert triggers.add_schedule(self.full)
        assert triggers.schedule("full") == self.full
        assert triggers.schedules() == [self.full, self.one]
        assert triggers.schedules(limit=1) == [self.full]
        assert triggers.schedules("full") == [self.one]

    def test_a_name_is_taken_once_until_it_is_deleted(self, store: Store) -> None:
        triggers, other = store.triggers, structs.replace(self.one, id="other")
        assert triggers.add_schedule(self.one)
        assert not triggers.add_schedule(other)
        assert triggers.schedule("nightly") == self.one
        assert triggers.delete_schedule("nightly")
        assert not triggers.delete_schedule("nightly")
        assert triggers.add_schedule(other)

    def test_a_change_needs_the_revision_it_was_made_from(self, store: Store) -> None:
        triggers = store.triggers
        second = structs.replace(self.one, revision=2, paused=True, look=None)
        assert not triggers.change_schedule(second)
        triggers.add_schedule(self.one)
        assert triggers.change_schedule(second)
        assert not triggers.change_schedule(second)
        assert not triggers.change_schedule(structs.replace(second, revision=4))
        assert not triggers.change_schedule(structs.replace(second, revision=3, id="of another"))
        assert triggers.schedule("nightly") == second

    def test_those_to_look_at_are_found_the_earliest_first(self, store: Store) -> None:
        triggers = store.triggers
        for name, look in (("a", AT + 2), ("b", AT), ("c", AT + 9), ("d", None), ("e", AT)):
            triggers.add_schedule(structs.replace(self.one, name=name, look=look))
        assert [schedule.name for schedule in triggers.due_schedules(AT + 2, 9)] == ["b", "e", "a"]
        assert [schedule.name for schedule in triggers.due_schedules(AT + 2, 1)] == ["b"]
        assert triggers.due_schedules(AT - 1, 9) == []

    def test_hooks_come_change_and_go(self, store: Store) -> None:
        triggers = store.triggers
        one, other = Hook("deploy", "shop/deploy", None, 1.5, 1.5), Hook("billing", "shop/bill", 4, 2.5, 2.5)
        assert triggers.hooks() == []
        for hook in (one, other):
            triggers.put_hook(hook)
        assert triggers.hooks() == [other, one]
        triggers.put_hook(Hook("deploy", "shop/else", 2, 9.5, 9.5))
        assert triggers.hook("deploy") == Hook("deploy", "shop/else", 2, 1.5, 9.5)
        assert triggers.delete_hook("deploy")
        assert not triggers.delete_hook("deploy")
        assert triggers.hook("deploy") is None


class ReplaySuite:
    """Any sequence of operations is answered as the store in memory answers it."""

    @settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
    @given(data=st.data())
    def test_answers_are_those_of_the_oracle(self, open_store: OpenStore, data: st.DataObject) -> None:
        oracle, store = MemoryStore(), open_store()
        try:
            for operation, arguments in data.draw(st.lists(operations(), max_size=25)):
                assert operation(store, *arguments) == operation(oracle, *arguments)
            assert everything(store) == everything(oracle)
        finally:
            store.close()


NAMES = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=4)
CONTENTS = [content(bytes([number])) for number in range(4)]
IDS = st.sampled_from([A, B, C, NEVER])
SMALL = st.integers(0, 6)
TIMES = st.integers(0, 9).map(lambda seconds: AT + seconds)


def changes() -> st.SearchStrategy[Change]:
    statuses = st.sampled_from(["running", "paused", "failed"])
    runs = st.none() | st.tuples(statuses, st.none() | TIMES, st.none() | IDS, st.booleans())
    blobs = st.lists(st.sampled_from(CONTENTS), max_size=2)
    due = st.dictionaries(st.sampled_from(["t", "u"]), st.none() | TIMES, max_size=2)
    return st.builds(_change, IDS, SMALL, st.integers(0, 3), runs, blobs, due)


def _change(
    execution: str,
    expected: int,
    count: int,
    run: tuple[str, float | None, str | None, bool] | None,
    blobs: list[tuple[str, bytes]],
    due: dict[str, float | None],
) -> Change:
    summed = run and summary(execution, run[0], ended=run[1], parent=run[2], local=run[3])
    if summed and execution == C:  # an execution with a later id that started earlier
        summed = structs.replace(summed, started=AT - 1)
    leases = {ord(name): None if at is None else Leased(name, "w", at, at % 3) for name, at in due.items()}
    ready = {name: None if at is None else "pool" for name, at in due.items()}
    return change(execution, expected, count, summary=summed, blobs=blobs, timers=due, ready=ready, leases=leases)


def operations() -> st.SearchStrategy[tuple[Callable[..., Any], tuple[Any, ...]]]:
    """A verb and its arguments; appends at the right seq are drawn more often than luck would."""
    lines = st.lists(
        st.tuples(IDS, st.just("t"), st.floats(0, 2e9), st.just("stdout"), st.text(max_size=5)), max_size=3
    )
    appends = st.tuples(st.just(_append), st.tuples(IDS, st.integers(0, 4)))
    return st.one_of(
        appends,
        appends,
        st.tuples(st.just(_commit), st.tuples(st.lists(changes(), max_size=4))),
        st.tuples(st.just(_read), st.tuples(IDS, SMALL, st.none() | SMALL)),
        st.tuples(
            st.just(_summaries), st.tuples(st.sampled_from([None, "running", "failed"]), st.integers(0, 36), SMALL)
        ),
        st.tuples(
            st.just(_list),
            st.tuples(st.sampled_from([None, "running"]), st.none() | IDS, st.booleans(), st.tuples(TIMES, IDS), SMALL),
        ),
        st.tuples(st.just(_log), st.tuples(lines)),
        st.tuples(st.just(_logs), st.tuples(IDS, SMALL)),
        st.tuples(st.just(_put_playbook), st.tuples(st.sampled_from("abc"), NAMES, st.binary(max_size=9))),
        st.tuples(st.just(_register), st.tuples(NAMES, st.sampled_from("abc"), st.none() | st.integers(0, 3))),
        st.tuples(st.just(_beat), st.tuples(st.sampled_from("wv"), TIMES)),
        st.tuples(st.just(_remember), st.tuples(st.sampled_from("kl"), st.binary(max_size=4), TIMES)),
        st.tuples(st.just(_look), st.tuples(IDS | st.just(""), SMALL, TIMES)),
        st.tuples(st.just(_prune), st.tuples(TIMES, SMALL, TIMES | st.just(4e9))),
    )


def _append(store: Store, execution: str, count: int) -> Any:
    return store.commit([change(execution, store.seq(execution), count, snapshot=b"s" * count)])


def _commit(store: Store, batch: list[Change]) -> Any:
    return store.commit(batch)


def _read(store: Store, execution: str, after: int, limit: int | None) -> Any:
    return store.read(execution, after, limit)


def _summaries(store: Store, status: str | None, length: int, limit: int) -> Any:
    return store.summaries(statuses=[status] if status else [], prefix=B[:length], limit=limit)


def _list(store: Store, status: str | None, parent: str | None, top: bool, place: tuple[float, str], limit: int) -> Any:
    before = RunPosition(*place)
    statuses = [status] if status else []
    return store.summaries(
        statuses=statuses, parent=parent, top=top, since=AT - 0.5 * limit, before=before, limit=limit
    )


def _register(store: Store, path: str, digest: str, version: int | None) -> Any:
    number = store.register(path, digest, digest * 2, AT)
    return number, store.find(path, version), store.versions(path), store.paths(path[:1], 3)


def _beat(store: Store, name: str, at: float) -> Any:
    store.record_heartbeat(worker(name), at)
    return store.workers()


def _remember(store: Store, key: str, answer: bytes, at: float) -> Any:
    return store.remember("scope", key, answer, at)


def _look(store: Store, execution: str, limit: int, at: float) -> Any:
    result = (
        store.waiting("pool", limit, execution),
        store.due(at, limit),
        store.next_due(),
        sorted(store.expired_leases(9e9)),
    )
    families = store.open_digests(), store.open_of([""]), store.open_children()
    return result, store.children(execution), store.stray_children(limit), families


def _prune(store: Store, before: float, limit: int, now: float) -> Any:
    return store.prunable(before), store.prune(before, limit, now + DAY)


def _log(store: Store, lines: list[Any]) -> Any:
    return store.append_output(lines)


def _logs(store: Store, execution: str, skip: int) -> Any:
    """Numbers rise, but not by one: what is compared are the lines behind one of them."""
    lines = store.output(execution)
    after = lines[skip][0] if skip < len(lines) else 0
    return [line[1:] for line in store.output(execution, after)]


def _put_playbook(store: Store, digest: str, file: str, text: bytes) -> Any:
    store.put_playbook(digest, file, text)
    return store.playbook(digest)


def everything(store: Store) -> Any:
    ids = (A, B, C, NEVER)
    result = [
        (store.read(one), store.snapshot(one), store.snapshot_seqs(one), _logs(store, one, 99), store.derived(one))
        for one in ids
    ]
    return result, store.summaries(), store.workers(), store.paths(), [store.blob(key) for key, _ in CONTENTS]


# -- several processes ----------------------------------------------------------------------------------------------

PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload(
    ["hypothesis.strategies", "noetl.store.codec", "noetl.store.postgres", "noetl.store.sqlite", "pytest"]
)


class Opener(Protocol):
    """Opens the store at a place, a path or a URL; a function of a module, so that another process can call it."""

    def __call__(self, place: Any) -> Store: ...


class RaceSuite:
    """Two and more processes on one store. A back end supplies `opener` and `place`."""

    def test_each_seq_has_exactly_one_winner(self, opener: Opener, place: Any) -> None:
        opener(place).close()
        won = together(3, race, opener, place, 100)
        store = opener(place)
        rows = store.read(A)
        store.close()
        assert sound(rows)
        writers = [decode(row.type, row.data).run for row in rows]  # type: ignore[attr-defined]
        assert {f"w#{number}": count for number, count in enumerate(won)} == {
            f"w#{number}": writers.count(f"w#{number}") for number in range(3)
        }
        assert len(rows) == sum(won) >= 100

    def test_processes_with_executions_of_their_own_lose_nothing(self, opener: Opener, place: Any) -> None:
        """None of them finds the store made: they race to make it, too."""
        assert together(6, fill, opener, place, 40) == [40] * 6
        store = opener(place)
        for number in range(6):
            rows = store.read(own(number))
            assert len(rows) == 80
            assert sound(rows)
        assert len(store.summaries()) == 6
        store.close()

    def test_another_process_is_noticed_and_oneself_is_not(self, opener: Opener, place: Any) -> None:
        store = opener(place)
        assert not store.changed_elsewhere()
        store.commit([change(A, 0)])
        assert not store.changed_elsewhere()
        together(1, fill, opener, place, 1)
        assert noticed(store)
        settle(store)
        together(1, fill, opener, place, 0)
        assert not store.changed_elsewhere()
        for turn in range(1, 400):  # until the log has been reset at least once
            store.commit([change(A, turn, blobs=[content(random.Random(turn).randbytes(20_000))])])
        assert not store.changed_elsewhere()
        store.close()

    def test_versions_registered_at_once_are_all_different(self, opener: Opener, place: Any) -> None:
        opener(place).close()
        together(3, register, opener, place, 20)
        store = opener(place)
        assert sorted(version.version for version in store.versions("p")) == list(range(1, 61))
        store.close()

    def test_each_revision_of_a_schedule_has_exactly_one_author(self, opener: Opener, place: Any) -> None:
        store = opener(place)
        store.triggers.add_schedule(TriggerSuite.one)
        store.close()
        won = together(3, change_schedules, opener, place, 50)
        store = opener(place)
        result = store.triggers.schedule(TriggerSuite.one.name)
        store.close()
        assert result is not None
        assert result.revision == 1 + sum(won) == 151

    def test_processes_with_the_same_executions_and_contents_never_wait_in_a_circle(
        self, opener: Opener, place: Any
    ) -> None:
        opener(place).close()
        wins = together(3, mingle, opener, place, 60)
        store = opener(place)
        rows = [store.read(own(number)) for number in range(8)]
        store.close()
        assert all([row.seq for row in log] == list(range(1, len(log) + 1)) for log in rows)
        assert sum(map(len, rows)) == sum(wins)


def noticed(store: Store) -> bool:
    """Whether the store tells of a change; between machines that may take a moment."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not (result := store.changed_elsewhere()) and time.monotonic() < deadline:
        time.sleep(0.01)
    return result


def settle(store: Store) -> None:
    """Wait until nothing more is told."""
    time.sleep(0.2)
    while store.changed_elsewhere():
        time.sleep(0.2)


def together(count: int, work: Callable[..., int], *arguments: Any) -> list[int]:
    """What each of `count` processes returned, all started at once."""
    ready = PROCESSES.Barrier(count)
    answers = PROCESSES.Queue()
    processes = [
        PROCESSES.Process(target=_work, args=(ready, answers, work, number, *arguments), daemon=True)
        for number in range(count)
    ]
    for process in processes:
        process.start()
    result = dict(answers.get(timeout=PATIENCE_SECONDS) for _ in processes)
    for process in processes:
        process.join(PATIENCE_SECONDS)
    answers.close()
    answers.join_thread()
    return [result[number] for number in range(count)]


def _work(ready: Any, answers: Any, work: Callable[..., int], number: int, *arguments: Any) -> None:
    ready.wait(PATIENCE_SECONDS)
    answers.put((number, work(number, *arguments)))


def race(number: int, opener: Opener, place: Any, goal: int) -> int:
    """Append to one execution until it is long enough; how often this process was the first."""
    store, won = opener(place), 0
    while store.seq(A) < goal:
        won += grow(store, A, events(1, f"w#{number}"))
    store.close()
    return won


def fill(number: int, opener: Opener, place: Any, turns: int) -> int:
    store, won = opener(place), 0
    for _ in range(turns):
        won += grow(store, own(number), events(2))
    if turns:
        store.commit([Change(own(number), 2 * turns, [], summary(own(number)))])
    store.close()
    return won


def register(number: int, opener: Opener, place: Any, turns: int) -> int:
    store = opener(place)
    for turn in range(turns):
        store.register("p", f"{number}-{turn}")
    store.close()
    return turns


def change_schedules(number: int, opener: Opener, place: Any, turns: int) -> int:
    """Change one schedule so many times, each change made from what was just read; how many succeeded."""
    store, won = opener(place), 0
    while won < turns:
        result = store.triggers.schedule(TriggerSuite.one.name)
        assert result is not None
        won += store.triggers.change_schedule(structs.replace(result, revision=result.revision + 1, look=float(number)))
    store.close()
    return won


def mingle(number: int, opener: Opener, place: Any, turns: int) -> int:
    """Batches over the same executions and contents, each in an order of its own; how many events were written."""
    store, dice, won = opener(place), random.Random(number), 0
    for _ in range(turns):
        names = dice.sample([own(other) for other in range(8)], 5)
        blobs = [content(bytes([byte])) for byte in dice.sample(range(9), 6)]
        won += sum(store.commit([change(name, store.seq(name), blobs=blobs) for name in names]))
    store.close()
    return won


def own(number: int) -> str:
    return f"0198c0de-0000-7000-8000-0000000001{number:02}"
