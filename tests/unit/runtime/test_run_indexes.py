"""Indexes of step runs continue with new events, and do not depend on stored blocks."""

from __future__ import annotations

from typing import Any

import pytest
from tests.conformance.memory import MemoryStore

from noetl.engine import events as e
from noetl.engine.history.outline import BLOCK_EVENTS
from noetl.engine.history.run_index import RunIndex
from noetl.model.identity import TaskId, uuid7
from noetl.model.outcome import Error, Outcome
from noetl.runtime import run_indexes
from noetl.runtime.outlines import Outlines, blocks, blocks_from
from noetl.runtime.run_indexes import RunIndexes
from noetl.store.codec import encode
from noetl.store.store import Change, Row

EXECUTION, RUN = uuid7(1.0, b"12345678"), "load#1"


def events_of(items: int) -> list[e.Event]:
    events = [e.ExecutionRequested("digest", "tests/index"), e.StepScheduled(RUN, (1,)), e.LoopStarted(RUN, items)]
    for item in range(items):
        events.append(e.IterationStarted(RUN, item))
        events.append(e.TaskDone(TaskId(RUN, "t#1", item), 1, Outcome(), "continue"))
        bad = item % 40 == 3
        events.append(e.IterationFailed(RUN, item, Error("x", "y")) if bad else e.IterationDone(RUN, item))
    return events


EVENTS = events_of(1_500)


def append(store: MemoryStore, first: int, end: int) -> None:
    rows = [Row(seq, event.name, float(seq), encode(event), b"") for seq, event in enumerate(EVENTS, 1)]
    store.commit([Change(EXECUTION, first, rows[first:end])])


def facts(index: RunIndex) -> tuple[Any, ...]:
    return index.counts(), index.spans(777), list(index.blocks), index.seq, index.scheduled, index.loop_block


class CountedReads(MemoryStore):
    """Counts the events and blocks that are read."""

    events_read = blocks_read = 0

    def read(self, *arguments: Any) -> list[Row]:
        rows = super().read(*arguments)
        self.events_read += len(rows)
        return rows

    def outline(self, *arguments: Any) -> list[tuple[int, bytes]]:
        stored = super().outline(*arguments)
        self.blocks_read += len(stored)
        return stored


def test_an_index_reads_only_what_has_come_since() -> None:
    store: Any = CountedReads()
    indexes = RunIndexes()
    append(store, 0, 3_400)
    list(blocks(store, EXECUTION))  # stores the complete blocks
    reads = []
    for end in (3_400, 3_400, 3_450, 3_450):
        append(store, 3_400, end)
        store.events_read = store.blocks_read = 0
        indexes.of(store, EXECUTION, RUN)
        reads.append((store.blocks_read, store.events_read))
    assert reads == [(3, 400), (0, 0), (0, 450), (0, 0)]


@pytest.mark.parametrize("most_bytes", [0, 4 << 20])
def test_an_index_continues_with_new_events(monkeypatch: pytest.MonkeyPatch, most_bytes: int) -> None:
    monkeypatch.setattr(run_indexes, "MAX_INDEX_BYTES", most_bytes)
    store, indexes, first = MemoryStore(), RunIndexes(), 0
    earlier = []
    for end in (500, 1_000, 1_700, 1_900, 4_000, len(EVENTS)):
        append(store, first, end)
        index: Any = indexes.of(store, EXECUTION, RUN)  # type: ignore[arg-type]
        assert facts(index) == facts(RunIndexes().of(store, EXECUTION, RUN))  # type: ignore[arg-type]
        assert all(facts(before) == known for before, known in earlier)
        earlier.append((index, facts(index)))
        first = end
    assert index.counts()["failed"] == 38


def test_blocks_from_a_number_on_need_no_stored_block() -> None:
    store: Any = MemoryStore()
    append(store, 0, len(EVENTS))
    fresh = list(blocks_from(store, EXECUTION, 2))
    assert fresh == list(blocks(store, EXECUTION))[2:]
    assert fresh == list(blocks_from(store, EXECUTION, 2))
    assert [block.first for block in fresh] == [2 * BLOCK_EVENTS + 1, 3 * BLOCK_EVENTS + 1, 4 * BLOCK_EVENTS + 1]


def test_requests_for_the_past_keep_the_index_of_the_whole_log() -> None:
    store: Any = CountedReads()
    indexes = RunIndexes()
    append(store, 0, len(EVENTS))
    whole = indexes.of(store, EXECUTION, RUN)
    for run in [f"other#{number}" for number in range(run_indexes.MAX_INDEXES + 1)]:
        for at in (700, 1_700, 2_700):
            indexes.of(store, EXECUTION, RUN)  # as each request with `at` does
            indexes.of(store, EXECUTION, run, at)
    store.events_read = store.blocks_read = 0
    assert indexes.of(store, EXECUTION, RUN) is whole
    assert (store.blocks_read, store.events_read) == (0, 0)


@pytest.mark.parametrize("end", [3_000, 3_400, len(EVENTS)])
def test_the_outline_leaves_the_index_of_a_large_loop(monkeypatch: pytest.MonkeyPatch, end: int) -> None:
    monkeypatch.setattr(run_indexes, "LARGE_LOOP", 1_500)
    store: Any = CountedReads()
    append(store, 0, end)
    indexes = RunIndexes()
    Outlines(indexes.index_blocks).fold(store, EXECUTION)
    store.events_read = store.blocks_read = 0
    index = indexes.of(store, EXECUTION, RUN)
    assert (store.blocks_read, store.events_read) == (0, 0)
    assert facts(index) == facts(RunIndexes().of(store, EXECUTION, RUN))
    append(store, end, len(EVENTS))
    assert facts(indexes.of(store, EXECUTION, RUN)) == facts(RunIndexes().of(store, EXECUTION, RUN))
