"""The duration of an item is the same in its row, in its details and in the summary of its loop."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
from test_outline import AT, mixed_items
from tests.conformance.memory import MemoryStore

from noetl.engine import events as e
from noetl.engine.envelope import subject_of
from noetl.engine.history import item_clock, outline, outline_fold, outline_loop
from noetl.engine.history.loop_items import ItemHistories, items_summary
from noetl.engine.history.outline import OutlineWriter
from noetl.engine.history.run_index import RunIndex
from noetl.engine.history.step_run_history import StepRunHistory
from noetl.model.identity import TaskId, uuid7
from noetl.model.outcome import Error, Outcome
from noetl.runtime.item_pages import items_after
from noetl.runtime.past import PastReader
from noetl.store.codec import encode
from noetl.store.store import Change, Row

ITEMS = 150
EXECUTION = uuid7(1.0, b"12345678")


class Logged(NamedTuple):
    event: e.Event
    seq: int
    at: float


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of ten events, and a summary that has the duration of every item."""
    for module in (outline, item_clock):
        monkeypatch.setattr(module, "BLOCK_EVENTS", 10)
    for module in (outline_loop, outline_fold):
        monkeypatch.setattr(module, "MAX_SLOWEST", 10_000)


def interrupted(rng: random.Random, items: int) -> Iterator[e.Event]:
    """Items whose loops end at times, as classic ones do that continue, and calls that a worker reports late."""
    for event in mixed_items(rng, items):
        if isinstance(event, e.TaskStarted):
            yield e.TaskStarted(event.task, at=int((AT - rng.random()) * 1000))
            continue
        yield event
        if rng.random() < 0.01:
            yield rng.choice([e.LoopDone("a#1", items, 0, 0), e.StepDone("b#1"), e.PlaybookCancelled("no")])


def logged(rng: random.Random, events: Iterator[e.Event]) -> Iterator[list[Logged]]:
    """The events as reports: those of one are stored at one time."""
    at, report = AT, list[Logged]()
    for seq, event in enumerate(events, 1):
        report.append(Logged(event, seq, at))
        if rng.random() < 0.4:
            yield report
            at, report = at + rng.choice([0.0, 0.0004, 0.0007, 0.02, 3.0, -0.001]), []
    yield report


def index_of(run: str, log: list[list[Logged]]) -> RunIndex:
    writer, index = OutlineWriter(), RunIndex(run)
    for report in log:
        for block in writer.extend([event for event, _, _ in report], report[0].at) if report else ():
            index.add(block)
    if writer.block.events:
        index.add(writer.finish())
    return index


@pytest.mark.parametrize("run", ["a#1", "b#1"])
@pytest.mark.parametrize("seed", range(12))
def test_an_item_has_the_same_duration_in_its_row_its_details_and_the_summary(seed: int, run: str) -> None:
    rng = random.Random(seed)
    log = list(logged(rng, interrupted(rng, ITEMS)))
    summary = items_summary(index_of(run, log))
    histories, details = ItemHistories(run, range(ITEMS)), [StepRunHistory(run, item) for item in range(ITEMS)]
    for report in log:
        for event, seq, at in report:
            histories.take(event, seq, at)
            index = subject_of(event)[1]
            for history in details if index is None else details[index : index + 1]:
                history.take(event, seq, at)
    ended = {item: history.duration_ms for item, history in histories.by_item.items() if history.ended is not None}
    measured = {item: duration for item, duration in ended.items() if duration is not None}
    assert len(measured) > ITEMS / 3
    assert {slow.index: slow.duration_ms for slow in summary.slowest} == measured
    assert list(ended.values()).count(None) == summary.durations.unknown
    assert {item: details[item].duration_ms for item in measured} == measured


def long_item() -> list[Logged]:
    """An item with an attempt in each of many blocks, whose first call begins long before its report, beside others."""
    events: list[tuple[e.Event, float]] = [
        (e.ExecutionRequested("digest", "tests/items"), 0.0),
        (e.StepScheduled("a#1", (1,)), 0.0),
        (e.LoopStarted("a#1", 60), 0.0),
        (e.IterationStarted("a#1", 0), 9.0),
    ]
    task, failed = TaskId("a#1", "t#1", 0), Outcome("error", error=Error("http", "503"))
    for other in range(1, 60):
        at = 9.0 + other / 10
        events.append((e.TaskDone(task, other, failed, "retry", duration_ms=1_000.5), at))
        events += [(e.IterationStarted("a#1", other), at), (e.IterationDone("a#1", other), at)]
    events += [(e.IterationDone("a#1", 0), 15.0), (e.LoopDone("a#1", 60, 60, 0), 15.0)]
    return [Logged(event, seq, AT + at) for seq, (event, at) in enumerate(events, 1)]


def stored(log: list[Logged]) -> Any:
    store = MemoryStore()
    store.commit([Change(EXECUTION, 0, [Row(seq, event.name, at, encode(event), b"") for event, seq, at in log])])
    return store


def test_the_row_of_an_item_with_events_in_many_blocks_has_all_of_its_work(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("noetl.runtime.item_pages", "noetl.runtime.outlines"):
        monkeypatch.setattr(f"{name}.BLOCK_EVENTS", 10)
    log = long_item()
    index = index_of("a#1", [[entry] for entry in log])
    assert len(index.blocks_of([0])[0]) > 10
    past = PastReader(stored(log), lambda digest: None, lambda: False)  # type: ignore[arg-type, return-value]
    (row,) = items_after(past, EXECUTION, index, None, -1, 1).items
    (slowest, *_) = items_summary(index).slowest
    assert (slowest.index, slowest.duration_ms) == (0, row.history.duration_ms)
    assert slowest.duration_ms > 59_000


def test_the_details_of_an_item_continue_after_events_that_are_left_out() -> None:
    log = long_item()
    (slowest, *_) = items_summary(index_of("a#1", [[entry] for entry in log])).slowest
    history, left_out = StepRunHistory("a#1", 0), range(41, 151)
    writer = OutlineWriter()
    blocks = [block for event, _, at in log for block in writer.extend((event,), at)]
    for event, seq, at in log:
        if seq == left_out.stop:
            ((_, started, work),) = [part for part in blocks[14].loops[0].open if part[0] == 0]
            history.resume(14, item_clock.InFlight(started, work))
        if seq not in left_out:
            history.take(event, seq, at)
    assert history.duration_ms == slowest.duration_ms
    assert history.work_ms == pytest.approx(59 * 1_000.5, abs=20)
