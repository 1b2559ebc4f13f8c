"""The index of a step run says which items have which status, and in which blocks their events are."""

from __future__ import annotations

import random
from collections.abc import Iterable
from itertools import islice

from test_outline import AT, EXECUTION, beginning, loop_events

from noetl.engine import events as e
from noetl.engine.envelope import subject_of
from noetl.engine.history.loop_items import ItemHistories, durations_of, items_summary
from noetl.engine.history.outline import BLOCK_EVENTS, OutlineWriter
from noetl.engine.history.run_index import Ranges, RunIndex, has, merged, numbers_after, single, without
from noetl.model.identity import TaskId
from noetl.model.outcome import Error, Outcome

RUN = "start#1"


def indexed(events: Iterable[e.Event], run: str = RUN) -> RunIndex:
    writer, index = OutlineWriter(), RunIndex(run)
    for seconds, event in enumerate(events):
        for block in writer.extend((event,), AT + seconds):
            index.add(block)
    if writer.block.events:
        index = index.copy()
        index.add(writer.finish())
    return index


def expected(events: Iterable[e.Event]) -> dict[int, str]:
    statuses: dict[int, str] = {}
    for event in events:
        match event:
            case e.LoopStarted(total=total):
                statuses = dict.fromkeys(range(total), "pending")
            case e.IterationStarted(index=index):
                statuses[index] = "running"
            case e.IterationDone(index=index):
                statuses[index] = "ok"
            case e.IterationFailed(index=index):
                statuses[index] = "failed"
            case e.ExecutionForked():
                statuses = {index: "pending" if status == "failed" else status for index, status in statuses.items()}
    return statuses


def test_ranges_are_sets() -> None:
    chance = random.Random(5)
    for _ in range(200):
        one, other = ({chance.randrange(60) for _ in range(chance.randrange(40))} for _ in range(2))
        a, b, both = single(one), single(other), Ranges()
        for flat in (a, b, a):
            both.add(flat)
        assert list(numbers_after(both.flat, -1)) == sorted(one | other)
        assert list(numbers_after(without(a, b), -1)) == sorted(one - other)
        assert list(numbers_after(a, 30)) == [number for number in sorted(one) if number > 30]
        assert [number for number in range(60) if has(a, number)] == sorted(one)
    assert merged([5, 7, 0, 2, 7, 9, 1, 3]) == [0, 3, 5, 9]


def test_items_have_the_status_of_their_last_event() -> None:
    for cut in (500, 1_000, 2_300, 7_777):
        events = list(islice(loop_events(2_000), cut))
        index, statuses = indexed(events), expected(events)
        assert {item: index.status(item) for item in statuses} == statuses
        for status in ("ok", "failed", "running", "waiting", "pending"):
            items = [item for item, other in statuses.items() if other == status]
            assert list(numbers_after(index.items(status), -1)) == items
            assert index.counts()[status] == len(items)


def test_items_that_failed_and_ran_again_have_their_latest_status() -> None:
    events = list(loop_events(1_000))
    last = next(place for place, event in enumerate(events) if isinstance(event, e.LoopDone))
    failed = [event.index for event in events if isinstance(event, e.IterationFailed)]
    again: list[e.Event] = [e.ExecutionForked(EXECUTION, last, "retry", reopened=RUN)]
    for item in failed[:6]:
        again.append(e.IterationStarted(RUN, item))
        again.append(e.IterationFailed(RUN, item, Error("x", "y")) if item == failed[3] else e.IterationDone(RUN, item))
    log = [*events[:last], *again]
    index, statuses = indexed(log), expected(log)
    assert {item: index.status(item) for item in statuses} == statuses
    assert list(numbers_after(index.items("failed"), -1)) == [failed[3]]
    assert [(error.kind, error.count) for error in items_summary(index).errors] == [("x", 1)]


def test_a_parked_item_waits() -> None:
    wait = e.StepPaused(RUN, 1, "waiting", 2, "signal", "go")
    events = [*beginning(), e.LoopStarted(RUN, 4), e.StepStarted(RUN, 1, "w", (2, 3)), e.IterationStarted(RUN, 2), wait]
    index = indexed(events)
    assert (index.status(2), index.counts()["running"]) == ("waiting", 0)
    assert indexed([*events, e.StepResumed(RUN, 2, Outcome())]).status(2) == "running"


def test_the_events_of_an_item_are_in_its_blocks() -> None:
    events = list(loop_events(2_000, lanes=50))
    index = indexed(events)
    for item in (0, 7, 99, 1_234, 1_999):
        seqs = {seq for seq, event in enumerate(events, 1) if subject_of(event)[:2] == (RUN, item)}
        inside = {seq for first, last in index.spans(item) for seq in range(first, last + 1)}
        assert seqs <= inside
        assert len(inside) <= 3 * BLOCK_EVENTS
    assert index.blocks_of([7, 99]) == index.blocks_of([7]) | index.blocks_of([99])


def test_a_step_run_is_found_among_others() -> None:
    steps = [event for n in range(400) for event in (e.StepScheduled(f"s#{n}", (n,)), e.StepDone(f"s#{n}"))]
    log = [*steps, *(e.PlaybookPaused() for _ in range(BLOCK_EVENTS)), e.NextEvaluated("s#3", "step.done"), *steps[8:]]
    index = indexed(log, "s#3")
    assert (index.scheduled, index.tokens, list(index.blocks)) == (7, (3,), [0, 1])
    assert indexed(log, "s#999").scheduled == 0
    assert indexed(log, "nothing").scheduled == 0


def test_a_copy_is_independent() -> None:
    events = list(loop_events(900))
    index = indexed(events[:1_000])
    other = index.copy()
    writer = OutlineWriter()
    blocks = [block for event in events for block in writer.extend((event,), AT)]
    other.add(blocks[1])
    assert other.counts() != index.counts()
    assert items_summary(index).total == 900


def test_a_summary_counts_errors_and_durations() -> None:
    summary = items_summary(indexed(loop_events(1_000)))
    assert (summary.total, summary.ok, summary.failed, summary.remaining) == (1_000, 990, 10, 0)
    assert sum(error.count for error in summary.errors) == 10
    assert [error.count for error in summary.errors] == sorted((error.count for error in summary.errors), reverse=True)
    durations = summary.durations
    assert sum(duration.count for duration in durations.bins) == 1_000
    assert durations.max == summary.slowest[0].duration_ms
    assert durations.p50 is not None
    assert durations.p95 is not None
    assert durations.p50 <= durations.p95 <= (durations.max or 0)
    assert durations_of(RunIndex(RUN).loop).p50 is None


def test_the_life_of_an_item() -> None:
    task = TaskId(RUN, "t#1", 4)
    histories = ItemHistories(RUN, [4])
    failed = Outcome("error", error=Error("http", "HTTP 503"))
    events = [
        e.IterationStarted(RUN, 4),
        e.TaskDone(task, 1, failed, "retry", duration_ms=5.0),
        e.TaskDone(task, 2, failed, "fail", duration_ms=5.0),
        e.IterationFailed(RUN, 4, Error("http", "HTTP 503")),
        e.IterationDone(RUN, 5),
    ]
    for seq, event in enumerate(events, 1):
        histories.take(event, seq, 10.0 + seq)
    history = histories.by_item[4]
    assert (history.started, history.duration_ms, history.attempts, history.seq) == (11.0, 3_000, 2, 4)
    assert history.error == Error("http", "HTTP 503")
    histories.take(e.IterationStarted(RUN, 4), 9, 20.0)
    histories.take(e.IterationDone(RUN, 4), 10, 20.5)
    history = histories.by_item[4]
    assert (history.started, history.duration_ms, history.attempts, history.error, history.seq) == (
        20.0,
        500,
        0,
        None,
        10,
    )


def test_an_item_starts_with_its_first_call_not_when_its_report_is_stored() -> None:
    task, histories = TaskId(RUN, "t#1", 4), ItemHistories(RUN, [4])
    done = e.TaskDone(task, 1, Outcome(), "continue", duration_ms=1_000.0)
    events = [e.IterationStarted(RUN, 4), e.TaskStarted(task, 1, at=19_000), done, e.IterationDone(RUN, 4)]
    for seq, event in enumerate(events, 1):
        histories.take(event, seq, 20.0)
    history = histories.by_item[4]
    assert (history.started, history.ended, history.duration_ms) == (19.0, 20.0, 1_000)
