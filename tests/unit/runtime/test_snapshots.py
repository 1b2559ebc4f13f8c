"""Snapshots of the past: which are kept, how they are stored, and that they change nothing but time."""

from __future__ import annotations

import asyncio
import random
from contextlib import closing
from functools import partial
from itertools import pairwise
from pathlib import Path

import msgspec
import pytest
from bench import long_run
from bench.long_run import fill
from tests.servers.patience import PATIENCE_SECONDS

from noetl.classic.hooks import after_call_rules
from noetl.clock import SystemClock
from noetl.dsl.compile import load
from noetl.engine.commands import Pause, Resume
from noetl.engine.net import Net
from noetl.engine.state import Execution, Lease, Parked, Run
from noetl.model.identity import uuid7
from noetl.reference import Reference
from noetl.runtime import committer, history
from noetl.runtime.audit import Audit
from noetl.runtime.explanations import Explained, ExplanationPart, explain, question_about
from noetl.runtime.history import Edit
from noetl.runtime.loaded_playbooks import LoadedPlaybooks
from noetl.runtime.past import PastReader
from noetl.runtime.runtime import Runtime
from noetl.runtime.snapshots import MAX_SNAPSHOTS, surplus
from noetl.store.codec import freeze, packed, readable_snapshot, thaw
from noetl.store.database import Mode
from noetl.store.sqlite import SqliteStore
from noetl.store.store import Snapshot
from noetl.tools.registry import KINDS

TEXT = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: long, path: tests/long}
workflow:
  - {step: start, tool: [{t: {kind: noop}}]}
"""
EXECUTION = uuid7(1.0, b"12345678")
FORK = uuid7(2.0, b"12345678")
INTERVAL = 10


def test_few_snapshots_are_all_kept() -> None:
    assert surplus([]) == surplus(range(10_000, 1_280_001, 10_000)) == []


def test_every_second_one_goes_and_the_latest_stays() -> None:
    seqs = range(10_000, 1_290_001, 10_000)
    assert surplus(seqs) == list(range(10_000, 1_280_001, 20_000))


def test_between_two_there_is_never_more_than_a_64th_of_the_log() -> None:
    uneven, seqs, last = random.Random(7), [], 0
    for _ in range(4_000):
        last += 10_000 + uneven.randrange(500)
        seqs.append(last)
        gone = set(surplus(seqs))
        seqs = [seq for seq in seqs if seq not in gone]
        assert len(seqs) <= MAX_SNAPSHOTS
        assert seqs[-1] == last
        assert max(after - before for before, after in pairwise([0, *seqs])) <= max(10_500, last // 64)


def test_states_are_stored_compressed_and_earlier_ones_can_be_read() -> None:
    state = b'{"format":3,' + b'"a":"b",' * 1_000 + b'"c":1}'
    assert len(packed(state)) < len(state) / 10
    for stored in (state, packed(state)):
        assert readable_snapshot(Snapshot(1, b"", stored)) == Snapshot(1, b"", state)
    for unknown in (b"", b'{"format":9,', b"\x03damaged", packed(b'{"format":9,'), b"\x04" + packed(state)[1:]):
        assert readable_snapshot(Snapshot(1, b"", unknown)) is None


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SqliteStore:
    """A store with a run of many events, and a snapshot after every ten of them."""
    monkeypatch.setattr(committer, "SNAPSHOT_EVENTS", INTERVAL)
    store = SqliteStore(tmp_path / "long.db", synchronous="normal")
    source = load("long.yaml", TEXT, KINDS).require()
    store.put_playbook(source.digest, "long.yaml", TEXT.encode())

    async def run() -> None:
        runtime = Runtime(LoadedPlaybooks(store), SystemClock())
        await runtime.start(runtime.playbooks.add(source), {}, {}, EXECUTION)
        for _ in range(MAX_SNAPSHOTS * INTERVAL // 2 + 50):
            await runtime.committer.handle(EXECUTION, Pause())
            await runtime.committer.handle(EXECUTION, Resume())
            if store.seq(EXECUTION) % 100 < 2:  # loaded again, it knows the snapshots
                await runtime.executions.reload(EXECUTION)
        runtime.past.close()
        runtime.thread.shutdown()

    asyncio.run(asyncio.wait_for(run(), PATIENCE_SECONDS))
    return store


def test_a_long_run_keeps_snapshots_of_its_whole_past(store: SqliteStore) -> None:
    seqs, last = store.snapshot_seqs(EXECUTION), store.seq(EXECUTION)
    assert MAX_SNAPSHOTS / 2 < len(seqs) <= MAX_SNAPSHOTS
    assert last - seqs[-1] <= INTERVAL + 2
    assert max(after - before for before, after in pairwise([0, *seqs])) <= last // 64 + 2
    assert Audit(store).of(store.summaries()[0]) == []


def test_a_state_that_is_loaded_from_a_snapshot_has_every_event(store: SqliteStore) -> None:
    async def loaded() -> bytes:
        runtime = Runtime(LoadedPlaybooks(store), SystemClock())
        try:
            return freeze((await runtime.executions.load(EXECUTION)).state)
        finally:
            runtime.past.close()
            runtime.thread.shutdown()

    assert store.snapshot_seqs(EXECUTION)[-1] < store.seq(EXECUTION)
    with_snapshots = asyncio.run(loaded())
    store._db.transaction(lambda: store._db.connection.execute("DELETE FROM snapshot"))
    assert asyncio.run(loaded()) == with_snapshots


@pytest.mark.damaged_log("a snapshot is replaced")
def test_a_damaged_snapshot_of_the_past_is_found(store: SqliteStore) -> None:
    first, second, *_ = store.snapshot_seqs(EXECUTION)
    other = store.snapshot(EXECUTION, first)
    assert other is not None
    replace = "UPDATE snapshot SET data = ? WHERE seq = ?"
    store._db.transaction(lambda: store._db.connection.execute(replace, (other.data, second)))
    result = Audit(store).of(store.summaries()[0])
    assert {(one.seq, one.invariant) for one in result} == {(second, "snapshot")}


def test_the_state_of_any_event_is_the_same_without_snapshots(store: SqliteStore) -> None:
    seqs = sorted({1, 2, *store.snapshot_seqs(EXECUTION), *random.Random(3).sample(range(1, store.seq(EXECUTION)), 20)})

    async def states() -> list[tuple[bytes, float]]:
        runtime = Runtime(LoadedPlaybooks(store), SystemClock())
        try:
            result = [await runtime.past.do(lambda past, seq=seq: past.state_at(EXECUTION, seq)) for seq in seqs]  # type: ignore[misc]
            return [(freeze(state), at) for state, at in result]
        finally:
            runtime.past.close()
            runtime.thread.shutdown()

    with_snapshots = asyncio.run(states())
    store._db.transaction(lambda: store._db.connection.execute("DELETE FROM snapshot"))
    assert asyncio.run(states()) == with_snapshots


@pytest.mark.parametrize("mode", ["write", "read"])
def test_explanations_are_the_same_without_snapshots_and_outline(store: SqliteStore, mode: Mode) -> None:
    last = store.seq(EXECUTION)

    async def explanations() -> list[bytes]:
        opened = SqliteStore(store.path, synchronous="normal", mode=mode)
        runtime = Runtime(LoadedPlaybooks(opened), SystemClock())
        try:
            result = []
            for at in (None, 10, last // 2):
                asked = partial(
                    explain, execution=EXECUTION, question=question_about("start"), part=ExplanationPart(at)
                )
                result.append(freeze_explained(await runtime.past.do(asked)))
            return result
        finally:
            runtime.close()

    with_both = asyncio.run(explanations())
    for table in ("snapshot", "outline"):
        store._db.transaction(lambda table=table: store._db.connection.execute(f"DELETE FROM {table}"))  # type: ignore[misc]
        assert asyncio.run(explanations()) == with_both
    assert bool(store.outline(EXECUTION)) == (mode == "write")  # made again, unless the store is only read


def test_the_past_of_a_long_loop_is_the_same_without_snapshots_and_outline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (committer, long_run):
        monkeypatch.setattr(module, "SNAPSHOT_EVENTS", 2_000)
    monkeypatch.setattr(long_run, "EVENTS_A_COMMIT", 1_000)
    with closing(SqliteStore(tmp_path / "loop.db", synchronous="normal")) as store:
        last = fill(store, 5_000, EXECUTION)
        assert (len(store.snapshot_seqs(EXECUTION)), len(store.outline(EXECUTION))) == (2, last // 1_000)
        seqs = random.Random(5).sample(range(1, last + 1), 5)
        questions = [*map(question_about, ("first", "many", "last")), question_about("many", item=600)]

        def look(past: PastReader) -> list[bytes]:
            result = [freeze(past.state_at(EXECUTION, seq)[0]) for seq in seqs]
            for question in questions:
                for part in (ExplanationPart(), ExplanationPart(at=last // 2), ExplanationPart(before=last // 3)):
                    explanation = explain(past, EXECUTION, question, part).explanation
                    result.append(msgspec.json.encode(explanation))
            return result

        async def looked() -> list[bytes]:
            runtime = Runtime(LoadedPlaybooks(store), SystemClock())
            try:
                return await runtime.past.do(look)
            finally:
                runtime.past.close()
                runtime.thread.shutdown()

        with_both = asyncio.run(looked())
        for table in ("snapshot", "outline"):
            store._db.transaction(lambda table=table: store._db.connection.execute(f"DELETE FROM {table}"))  # type: ignore[misc]
            assert asyncio.run(looked()) == with_both


def test_a_fork_has_the_snapshots_of_its_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (committer, long_run):
        monkeypatch.setattr(module, "SNAPSHOT_EVENTS", 2_000)
    monkeypatch.setattr(long_run, "EVENTS_A_COMMIT", 1_000)
    with closing(SqliteStore(tmp_path / "loop.db", synchronous="normal")) as store:
        fill(store, 5_000, EXECUTION)

        async def forked() -> list[int]:
            runtime = Runtime(LoadedPlaybooks(store), SystemClock())
            try:
                await history.fork(runtime, EXECUTION, FORK, 4_100, Edit())
                loaded = runtime.executions[FORK].snapshots
                past, _ = await runtime.past.do(lambda past: past.state_at(FORK, 3_000))
                assert (past.id, past.seq) == (FORK, 3_000)
                again = await runtime.executions.reload(FORK)
                assert (again.state.id, again.snapshots) == (FORK, loaded)
                return loaded
            finally:
                runtime.past.close()
                runtime.thread.shutdown()

        seqs = asyncio.run(forked())
        assert seqs[:2] == store.snapshot_seqs(EXECUTION) == [2_000, 4_000]
        assert seqs == store.snapshot_seqs(FORK)
        (fork,) = store.summaries(prefix=FORK)
        assert Audit(store).of(fork) == []


def test_a_repeated_fork_takes_no_snapshot_of_what_its_source_did_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The response was lost, and the client sends its request again."""
    monkeypatch.setattr(committer, "SNAPSHOT_EVENTS", 2)

    async def story(store: SqliteStore) -> None:
        runtime = Runtime(LoadedPlaybooks(store), SystemClock(), shared=True)
        digest = runtime.playbooks.add(load("story.yaml", TEXT, KINDS).require())
        store.put_playbook(digest, "story.yaml", TEXT.encode())
        await runtime.start(digest, {}, {}, EXECUTION)
        forked = await history.fork(runtime, EXECUTION, FORK, None, Edit())
        for _ in range(5):
            await runtime.committer.handle(EXECUTION, Pause())
            await runtime.committer.handle(EXECUTION, Resume())
        assert store.snapshot_seqs(EXECUTION)[-1] > forked.source_seq
        again = await history.fork(runtime, EXECUTION, FORK, None, Edit())
        assert (again.execution_id, again.source_seq) == (FORK, forked.source_seq)
        (summary,) = store.summaries(prefix=FORK)
        assert store.snapshot_seqs(FORK)[-1] <= store.seq(FORK)
        assert Audit(store).of(summary) == []
        runtime.past.close()
        runtime.thread.shutdown()

    with closing(SqliteStore(tmp_path / "again.db")) as store:
        asyncio.run(asyncio.wait_for(story(store), PATIENCE_SECONDS))


def freeze_explained(found: Explained) -> bytes:
    assert [decision.seq for decision in found.explanation.decisions] == [6]
    return msgspec.json.encode(found.explanation) + freeze(found.state)


def test_keys_that_look_like_references_come_back_as_they_were() -> None:
    net = Net(load("long.yaml", TEXT, KINDS).require(), after_call_rules)
    reference = Reference("db", "0" * 64, 9, "sha256:" + "0" * 64, "list", {"count": 3})
    for ctx in ({}, {"$ref": {"store": "db"}}, {"a": {"$$ref": 1, "b": '"$ref"'}}, {"text": '{"$ref": 1}'}):
        for result in (None, reference, [reference, {"x": reference}]):
            state = Execution(
                EXECUTION, net, net.playbook.digest, ctx=dict(ctx), result=result, signals={"a": [("1", 2)]}
            )
            state.runs["start#1"] = Run("start#1", "start", {}, parked={-1: Parked("signal", "go")})
            state.leases[7] = Lease("start#1", "w", 1.5, 30.0)
            assert thaw(freeze(state), net) == state
