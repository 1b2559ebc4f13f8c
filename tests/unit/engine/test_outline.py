"""The outline of a log says what the fold of its events says, however it is cut into blocks."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

import pytest
from msgspec import to_builtins
from msgspec.structs import replace
from stage import EXECUTION, play

from noetl.engine import events as e
from noetl.engine.envelope import subject_of
from noetl.engine.history import outline
from noetl.engine.history.outline import (
    BLOCK_EVENTS,
    CANCELLED,
    FAILED,
    RUNNING,
    SCHEDULED,
    SUCCEEDED,
    WAITING,
    Block,
    OutlineBuffer,
    OutlineWriter,
    Times,
    decode_block,
    encode_block,
    is_same_block,
    run_names,
)
from noetl.engine.history.outline_fold import MAX_BINS, MAX_POINTS, MAX_RUNS, OutlineFold, critical_path
from noetl.engine.history.outline_loop import ranges
from noetl.model.identity import TaskId
from noetl.model.outcome import Error, Outcome
from noetl.store.codec import decode
from noetl.store.store import Row

AT = 1_700_000_000.0


def folded(events: Iterable[tuple[e.Event, float]]) -> OutlineFold:
    writer, fold = OutlineWriter(), OutlineFold()
    for event, at in events:
        for block in writer.extend((event,), at):
            fold.add(block)
    if writer.block.events:
        fold.add(writer.finish())
    return fold


def of_rows(rows: Iterable[Row]) -> Iterator[tuple[e.Event, float]]:
    return ((decode(row.type, row.data), row.at) for row in rows)


def timed(*events: e.Event) -> Iterator[tuple[e.Event, float]]:
    """One second after another."""
    return ((event, AT + second) for second, event in enumerate(events))


def beginning() -> list[e.Event]:
    return [
        e.ExecutionRequested("digest", "tests/outline"),
        e.RequestEvaluated(),
        e.PlaybookStarted(),
        e.WorkflowStarted(),
        e.TokenEnqueued(1, "start"),
        e.StepScheduled("start#1", (1,)),
    ]


def loop_events(total: int, lanes: int = 10, seed: int = 1) -> Iterator[e.Event]:
    """A loop whose lanes move on as chance has it; every hundredth item fails, every fiftieth is tried twice."""
    chance = random.Random(seed)
    yield from beginning()
    yield e.LoopStarted("start#1", total)
    free, open_lanes = 0, {}
    while free < total or open_lanes:
        while len(open_lanes) < lanes and free < total:
            end = min(total, free + 16)
            open_lanes[free] = (free, end)
            yield e.StepStarted("start#1", free + 1, "w", (free, end))
            free = end
        lane = chance.choice(list(open_lanes))
        index, end = open_lanes[lane]
        task = TaskId("start#1", "t#1", index)
        yield e.IterationStarted("start#1", index)
        if index % 50 == 7:
            yield e.TaskDone(task, 1, Outcome("error", error=Error("x", "once")), "retry", duration_ms=1.0)
            yield e.TaskRetryScheduled(task, 2)
        yield e.TaskDone(task, 1, Outcome(), "continue", duration_ms=float(index % 7))
        if index % 100 == 99:
            yield e.IterationFailed("start#1", index, Error("limit", f"item of kind {index % 3}"))
        else:
            yield e.IterationDone("start#1", index)
        open_lanes[lane] = (index + 1, end)
        if index + 1 == end:
            del open_lanes[lane]
    yield e.LoopDone("start#1", total, total - total // 100, total // 100)
    yield e.NextEvaluated("start#1", "loop.done")
    yield e.WorkflowFinished("succeeded")
    yield e.PlaybookProcessed("succeeded")


def mixed_items(rng: random.Random, items: int) -> Iterator[e.Event]:
    """Items of two loops that start, call tasks, fail, wait and end, some of them beside others."""
    lanes: list[list[e.Event]] = []
    for number in range(items):
        index, run = number // 2, ["a#1", "b#1"][number % 2]
        error = Error("tool", "no") if rng.random() < 0.1 else None
        outcome = Outcome("error" if error else "ok", error=error)
        task = TaskId(run, rng.choice(["t#1", "t#1/u#1"]), index)
        events: list[e.Event] = [e.IterationStarted(run, index)] * rng.choice([0, 1, 1, 1, 1, 2])
        events += [
            e.TaskStarted(task),
            e.TaskDone(task, 1, outcome, "continue", duration_ms=rng.random() * 5),
        ] * rng.randint(0, 2)
        if rng.random() < 0.1:
            events += [e.StepPaused(run, 1, "waiting", index, "signal"), e.StepResumed(run, index)]
        fails = error is not None and rng.random() < 0.7  # else its policy continues
        events.append(e.IterationFailed(run, index, error) if error and fails else e.IterationDone(run, index))
        lanes.append(events)
        while len(lanes) > rng.choice([0, 0, 3]):
            lane = rng.choice(lanes)
            yield lane.pop(0)
            if not lane:
                lanes.remove(lane)
    for lane in lanes:
        yield from lane


@pytest.mark.parametrize(
    ("events", "block_events"),
    [
        pytest.param(list(loop_events(1_500)), BLOCK_EVENTS, id="one loop"),
        pytest.param(list(mixed_items(random.Random(1), 500)), 10, id="two loops that wait, in small blocks"),
    ],
)
def test_blocks_are_the_same_wherever_the_writer_resumes(
    monkeypatch: pytest.MonkeyPatch, events: list[e.Event], block_events: int
) -> None:
    monkeypatch.setattr(outline, "BLOCK_EVENTS", block_events)
    whole, before = OutlineWriter(), None
    expected = [block for at, event in enumerate(events) for block in whole.extend((event,), AT + at / 3)]
    assert len(expected) == len(events) // block_events > 3
    for number, block in enumerate(expected):
        first = number * block_events
        writer = OutlineWriter(before)
        part = enumerate(events[first : first + block_events], start=first)
        (made,) = [made for at, event in part for made in writer.extend((event,), AT + at / 3)]
        assert to_builtins(made) == to_builtins(block)
        assert encode_block(made)[0] == number
        before = decode_block(encode_block(made)[1])
        assert before == made


def test_events_of_one_decision_may_end_in_several_blocks() -> None:
    events = list(loop_events(1_500))
    together, alone = OutlineWriter(), OutlineWriter()
    blocks = together.extend(events, AT)
    assert blocks == [block for event in events for block in alone.extend((event,), AT)]
    assert len(blocks) == len(events) // BLOCK_EVENTS


@pytest.mark.parametrize("seed", range(20))
def test_blocks_do_not_depend_on_how_events_were_batched(seed: int) -> None:
    rng = random.Random(seed)
    events = list(mixed_items(rng, 400))
    together, alone = OutlineWriter(), OutlineWriter()
    buffer, first = OutlineBuffer(together), 0
    while first < len(events):
        batch, at = events[first : first + rng.randint(1, 40)], AT + first
        expected = [block for event in batch for block in alone.extend((event,), at)]
        assert buffer.extend(batch, at) == expected, "the batch that completes a block returns it"
        first += len(batch)
    assert alone.next_seq > BLOCK_EVENTS


ODD_ITEM = 2


def like_item(index: int, run: str = "a#1", task: str = "t#1", end: str = "a#1", error: Error | None = None) -> Any:
    """The events of an item as a fast worker reports them."""
    called = TaskId(run, task, index)
    outcome = Outcome("error" if error else "ok", error=error)
    done = e.TaskDone(called, 1, outcome, "continue", duration_ms=3.0)
    return [e.IterationStarted(run, index), e.TaskStarted(called), done, e.IterationDone(end, index)]


@pytest.mark.parametrize(
    ("before", "item"),
    [
        pytest.param([e.IterationStarted("a#1", ODD_ITEM)], like_item(ODD_ITEM), id="started before"),
        pytest.param(like_item(ODD_ITEM)[2:3], like_item(ODD_ITEM), id="worked before"),
        pytest.param([e.StepPaused("a#1", 1, "waiting", ODD_ITEM, "signal")], like_item(ODD_ITEM), id="waited before"),
        pytest.param([], like_item(ODD_ITEM, error=Error("tool", "no")), id="error that its policy continued"),
        pytest.param([], like_item(ODD_ITEM, "b#1", end="b#1"), id="item of another loop"),
        pytest.param(like_item(ODD_ITEM, "b#1")[:3], like_item(ODD_ITEM, end="b#1"), id="end of an item elsewhere"),
        pytest.param([], like_item(ODD_ITEM, task="t#1/u#1"), id="task inside of another"),
    ],
)
def test_an_item_that_differs_from_those_beside_it_is_added_by_itself(before: Any, item: Any) -> None:
    batch = [event for index in range(8) for event in (item if index == ODD_ITEM else like_item(index))]
    together, alone = OutlineWriter(), OutlineWriter()
    for writer in (together, alone):
        writer.extend(before, AT)
    together.extend(batch, AT + 1)
    for event in batch:
        alone.extend((event,), AT + 1)
    assert to_builtins(together.finish()) == to_builtins(alone.finish())


def test_a_damaged_block_is_reported() -> None:
    """At any byte, whether it is small and stored as it is, or compressed."""
    for block in (Block(1, 1, 0), Block(1, 1, 0, steps=[f"step {number}" for number in range(100)])):
        data = encode_block(block)[1]
        assert decode_block(data) == block
        for damaged in (b"", data[:-3], *(data[:i] + bytes([byte ^ 1]) + data[i + 1 :] for i, byte in enumerate(data))):
            with pytest.raises(ValueError, match=r"\w"):
                decode_block(damaged)


def test_a_block_of_an_earlier_version_has_no_waits_of_loops() -> None:
    writer = OutlineWriter()
    writer.extend([*loop_start(1), e.IterationStarted("start#1", 0), paused(0)], AT)
    block = writer.finish()
    (part,) = block.loops
    old = replace(block, loops=[replace(part, waits=None)])
    assert is_same_block(decode_block(encode_block(old)[1]), block)
    assert is_same_block(decode_block(encode_block(block)[1]), block)
    for damaged in (replace(part, waits=[]), replace(part, waits=None, total=7)):
        assert not is_same_block(replace(block, loops=[damaged]), block)
    again, next_events = OutlineWriter(old), [e.StepResumed("start#1", 0), e.IterationDone("start#1", 0)]
    again.extend(next_events, AT + 5)
    writer.extend(next_events, AT + 5)
    assert again.finish() == writer.finish()


def test_the_time_of_every_event_is_known() -> None:
    chance, writer = random.Random(3), OutlineWriter()
    moments = [AT]
    while len(moments) < 500:
        moments.append(moments[-1] + chance.choice([0, 0, 0.001, 5, -0.002]))
    for moment in moments:
        writer.extend((e.TimerFired("t"),), moment)
    times = Times(writer.finish())
    assert [times[offset] for offset in range(len(moments))] == [int(moment * 1000) for moment in moments]


def test_a_loop_counts_its_items_durations_and_errors() -> None:
    fold = folded(timed(*loop_events(3_000)))
    loop = fold.loops["start#1"]
    assert (loop.total, loop.ok, loop.failed, loop.running, loop.waiting) == (3_000, 2_970, 30, 0, 0)
    assert sum(loop.bins) + loop.unknown == 3_000
    assert sum(error.count for error in loop.errors.values()) == 30
    assert {error.kind for error in loop.errors.values()} == {"limit"}
    first = min(error.first for error in loop.errors.values())
    assert (first, max(error.last for error in loop.errors.values())) == (99, 2_999)
    progress = loop.progress()
    assert len(progress["seq"]) <= MAX_POINTS
    assert progress["seq"] == sorted(progress["seq"])
    assert (progress["ok"][-1], progress["failed"][-1], progress["in_flight"][-1]) == (2_970, 30, 0)
    assert fold.runs["start#1"].retries == 60
    assert sum(fold.histogram.retries) == 60
    assert fold.status == "succeeded"


def test_items_in_flight_are_those_of_the_last_event() -> None:
    events = list(islice(loop_events(3_000), 4_321))
    started = {event.index for event in events if isinstance(event, e.IterationStarted)}
    ended = {event.index for event in events if isinstance(event, e.IterationDone | e.IterationFailed)}
    assert folded(timed(*events)).loops["start#1"].running == len(started - ended)


def loop_start(items: int) -> list[e.Event]:
    return [*beginning(), e.LoopStarted("start#1", items), e.StepStarted("start#1", 1, "w", (0, items))]


def paused(index: int, until: Any = "signal") -> e.Event:
    return e.StepPaused("start#1", 1, "waiting", index, until, "x")


def test_a_loop_waits_while_all_items_that_have_started_wait() -> None:
    events = [
        *loop_start(3),  # 8 events
        e.IterationStarted("start#1", 0),
        paused(0),
        e.IterationStarted("start#1", 1),
        paused(1, "retry"),
        e.MessageReceived("x", "1"),
        e.StepResumed("start#1", 0),
        e.IterationDone("start#1", 0),
        e.RequestEvaluated(),
        e.StepResumed("start#1", 1),
        e.IterationDone("start#1", 1),
        e.LoopDone("start#1", 2, 2, 0),
    ]
    fold = folded(timed(*events))
    waits = [
        (wait.kind, fold.since_start(wait.start), fold.since_start(wait.end)) for wait in fold.loops["start#1"].waits
    ]
    assert waits == [("external", 9_000, 10_000), ("retry", 11_000, 13_000), ("retry", 14_000, 16_000)]
    assert fold.runs["start#1"].waited == {"worker": 2_000, "external": 1_000, "retry": 4_000}
    waiting = folded(timed(*events[:13]))
    assert waiting.loops["start#1"].wait is not None
    assert waiting.runs["start#1"].status == RUNNING


def test_a_cancelled_run_and_a_fork_end_the_waits_of_a_loop() -> None:
    events = [*loop_start(1), e.IterationStarted("start#1", 0), paused(0, "child")]
    for end in (e.PlaybookCancelled("no"), e.ExecutionForked(EXECUTION, 10)):
        fold = folded([*timed(*events), (end, AT + 60)])
        assert fold.loops["start#1"].wait is None
        assert fold.runs["start#1"].waited == {"worker": 2_000, "external": 51_000}


def test_an_item_whose_start_is_stored_with_its_first_task_began_before_that() -> None:
    task = TaskId("start#1", "t#1", 1)
    done = e.TaskDone(task, 1, Outcome(), "continue", duration_ms=3_000.0)
    events = [*loop_start(2), e.IterationStarted("start#1", 0), paused(0)]
    report = [e.IterationStarted("start#1", 1), done, e.IterationDone("start#1", 1)]
    fold = folded([*timed(*events), *((event, AT + 20) for event in report)])
    assert [(wait.start, wait.end) for wait in fold.loops["start#1"].waits] == [
        (int(AT * 1000) + 9_000, int(AT * 1000) + 17_000)
    ]


def waiting_items(rng: random.Random) -> Iterator[e.Event]:
    """Items that start, wait and end, some of them beside others."""
    states: dict[int, str] = {}
    for _ in range(rng.randrange(5, 80)):
        index = rng.choice([len(states), *states])
        state = states.get(index, "none")
        if state == "none":
            yield e.IterationStarted("start#1", index)
            states[index] = "open"
        elif state == "open" and rng.random() < 0.6:
            yield paused(index, rng.choice(["signal", "child", "retry"]))
            states[index] = "waiting"
        elif state != "ended":
            yield e.StepResumed("start#1", index) if state == "waiting" else e.IterationDone("start#1", index)
            states[index] = "open" if state == "waiting" else "ended"


def common_wait(events: Iterable[tuple[e.Event, float]]) -> float:
    """The milliseconds in which items had started and none worked, event by event."""
    working, waiting, total, before = set[int](), set[int](), 0.0, AT
    for event, at in events:
        total += (at - before) * 1000 if waiting and not working else 0
        before = at
        match event:
            case e.IterationStarted(index=index) | e.StepResumed(index=int(index)):
                working.add(index)
                waiting.discard(index)
            case e.StepPaused(index=int(index)):
                working.discard(index)
                waiting.add(index)
            case e.IterationDone(index=index):
                working.discard(index)
    return total


@pytest.mark.parametrize("seed", range(60))
def test_the_waits_of_a_loop_are_those_of_its_events(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    rng = random.Random(seed)
    monkeypatch.setattr(outline, "BLOCK_EVENTS", rng.choice([3, 10, 1_000]))
    events = list(timed(*loop_start(100), *waiting_items(rng)))
    fold, expected = folded(events), common_wait(events)
    loop, run = fold.loops["start#1"], fold.runs["start#1"]
    present = fold.now_ms - loop.wait.start if loop.wait is not None else 0
    assert loop.waited_ms + present == expected
    assert sum(run.waited.values()) - run.waited["worker"] == loop.waited_ms == sum(w.length for w in loop.waits)


def test_of_many_waits_of_a_loop_the_longest_are_listed_and_all_are_counted() -> None:
    events = loop_start(1_000)
    for index in range(1_000):
        events += [e.IterationStarted("start#1", index), paused(index), e.StepResumed("start#1", index)]
        events.append(e.IterationDone("start#1", index))
    fold = folded(timed(*events))
    loop = fold.loops["start#1"]
    assert len(loop.waits) < 2 * MAX_POINTS
    assert [wait.start for wait in loop.waits] == sorted(wait.start for wait in loop.waits)
    assert loop.waited_ms == 1_000_000


def test_a_histogram_has_few_bins_and_every_event() -> None:
    events = list(loop_events(2_000))
    fold = folded(timed(*events))
    histogram = fold.histogram
    assert len(histogram.events) <= MAX_BINS
    assert sum(histogram.events) == len(events) == fold.seq
    assert set(histogram.events[:-1]) == {histogram.width}
    seqs = [min(len(events), (number + 1) * histogram.width) for number in range(len(histogram.events))]
    assert histogram.end_ms == [int((AT + seq - 1) * 1000) for seq in seqs]


def test_step_runs_tokens_and_waits_have_their_places() -> None:
    events = [
        *beginning(),  # 6 events
        e.StepStarted("start#1", 1, "w"),
        e.StepPaused("start#1", 1, "waiting", until="signal", key="go"),
        e.MessageReceived("go", "1"),
        e.StepResumed("start#1", None, Outcome()),
        e.StepStarted("start#1", 2, "w"),
        e.StepDone("start#1"),
        e.NextEvaluated("start#1", "step.done", (0, 2)),
        e.TokenEnqueued(2, "left", origin="start#1"),
        e.TokenEnqueued(3, "right", origin="start#1"),
        e.TokenHeld(3),
        e.StepScheduled("left#1", (2,)),
    ]
    fold = folded(timed(*events))
    start, left = fold.runs["start#1"], fold.runs["left#1"]
    assert (start.scheduled_seq, start.started_seq, start.ended_seq, start.status) == (6, 7, 12, SUCCEEDED)
    assert (start.scheduled_ms, start.ended_ms) == (int(AT * 1000) + 5_000, int(AT * 1000) + 11_000)
    assert start.waited == {"worker": 2_000, "external": 2_000}
    assert left.from_runs == ["start#1"]
    assert [(wait.from_seq, wait.to_seq) for wait in fold.waits["start#1"]] == [(8, 10)]
    assert [(token.step, token.consumed_seq, token.held_seq) for token in fold.tokens.values()] == [
        *(("start", 6, 0), ("left", 17, 0), ("right", 0, 16))
    ]
    assert fold.arcs == {("start", 0): (1, 13), ("start", 2): (1, 13)}
    assert [marker[1] for marker in fold.markers] == ["signal"]
    assert critical_path(fold.runs) == ["start#1"]
    waiting = folded(timed(*events[:8]))
    assert waiting.runs["start#1"].status == WAITING
    assert folded(timed(*events[:7])).runs["start#1"].status == RUNNING


def test_a_step_run_whose_lease_has_ended_waits_for_a_worker() -> None:
    events = [*beginning(), e.StepStarted("start#1", 1, "w"), e.StepPaused("start#1", 1, "lost")]
    start = folded(timed(*events)).runs["start#1"]
    assert (start.status, start.started_seq) == (SCHEDULED, 7)
    again = folded(timed(*events, e.StepRegranted("start#1", 2, "w"))).runs["start#1"]
    assert (again.status, again.started_seq, again.waited) == (RUNNING, 7, {"worker": 2_000})
    loop = [*beginning(), e.LoopStarted("start#1", 4)]
    loop += [e.StepStarted("start#1", lane, "w", (lane * 2, lane * 2 + 2)) for lane in (0, 1)]
    fold = folded(timed(*loop, e.StepPaused("start#1", 0, "returned")))
    assert fold.runs["start#1"].status == RUNNING  # another worker has the other items


def test_a_fork_ends_leases_and_waits_for_children() -> None:
    waits = [("start", "child"), ("other", "signal")]
    events = [*beginning(), e.StepScheduled("other#1", (2,)), e.StepScheduled("third#1", (3,))]
    events += [e.StepStarted(f"{step}#1", fence, "w") for fence, step in enumerate(("start", "other", "third"))]
    events += [e.StepPaused(f"{step}#1", 1, "waiting", until=kind, key="x") for step, kind in waits]  # type: ignore[arg-type]
    fold = folded(timed(*events, e.ExecutionForked(EXECUTION, 13)))
    assert {name: run.status for name, run in fold.runs.items()} == {
        "start#1": SCHEDULED,
        "other#1": WAITING,
        "third#1": SCHEDULED,
    }
    assert {name: [wait.to_seq for wait in rows] for name, rows in fold.waits.items()} == {
        "start#1": [14],
        "other#1": [0],
    }
    items = [*beginning(), e.LoopStarted("start#1", 2), e.StepStarted("start#1", 1, "w", (0, 2))]
    for index, kind in enumerate(("child", "signal")):
        items.append(e.IterationStarted("start#1", index))
        items.append(e.StepPaused("start#1", 1, "waiting", index, kind, "x"))  # type: ignore[arg-type]
    loop = folded(timed(*items, e.ExecutionForked(EXECUTION, 12))).loops["start#1"]
    assert (loop.running, loop.waiting) == (1, 1)


def test_loops_have_the_order_in_which_they_began() -> None:
    events = [*beginning(), e.LoopStarted("start#1", 1), e.StepScheduled("other#1"), e.LoopStarted("other#1", 1)]
    fold = folded(timed(*events, e.ExecutionForked(EXECUTION, 9, "retry", reopened="other#1")))
    assert list(fold.loops) == ["start#1", "other#1"]


def test_a_cancelled_run_ends_its_step_runs_and_tokens() -> None:
    events = [*beginning(), e.StepStarted("start#1", 1, "w"), e.TokenEnqueued(2, "other"), e.PlaybookCancelled("no")]
    fold = folded(timed(*events))
    assert (fold.runs["start#1"].status, fold.runs["start#1"].ended_seq) == (CANCELLED, 9)
    assert fold.tokens[2].consumed_seq == 9
    assert fold.status == "cancelling"


def test_a_cancelled_run_has_no_items_in_flight() -> None:
    events = [*beginning(), e.LoopStarted("start#1", 3), e.StepStarted("start#1", 1, "w", (0, 3))]
    events += [e.IterationStarted("start#1", 0), e.IterationStarted("start#1", 1)]
    events.append(e.StepPaused("start#1", 1, "waiting", 1, "signal", "x"))
    loop = folded(timed(*events)).loops["start#1"]
    assert (loop.running, loop.waiting) == (1, 1)
    loop = folded(timed(*events, e.PlaybookCancelled("no"))).loops["start#1"]
    assert (loop.running, loop.waiting, loop.progress()["in_flight"][-1]) == (0, 0, 0)


def test_a_wait_ends_with_its_step_run() -> None:
    events = [*beginning(), e.StepStarted("start#1", 1, "w")]
    events.append(e.StepPaused("start#1", 1, "waiting", until="signal", key="go"))
    fold = folded(timed(*events, e.StepFailed("start#1", Error("timeout", "no signal"))))
    assert [(wait.from_seq, wait.to_seq) for wait in fold.waits["start#1"]] == [(8, 9)]


def test_a_step_run_that_ends_twice_is_counted_once() -> None:
    """A classic loop that continued after its end."""
    events = [*beginning(), e.StepStarted("start#1", 1, "w"), e.StepDone("start#1"), e.StepDone("start#1")]
    assert folded(timed(*events)).steps["start"] == [1, 0, 1, 0]
    failed = e.StepFailed("start#1", Error("x", "no"))
    assert folded(timed(*events, failed)).steps["start"] == [1, 0, 0, 1]


def many_runs(count: int) -> Iterator[e.Event]:
    """Step runs one after the other, of which every tenth fails."""
    yield from beginning()[:4]
    for number in range(1, count + 1):
        yield e.TokenEnqueued(number, "start", origin=f"start#{number - 1}" if number > 1 else None)
        yield e.StepScheduled(f"start#{number}", (number,))
        yield e.StepStarted(f"start#{number}", number, "w")
        if number % 10:
            yield e.StepDone(f"start#{number}")
        else:
            yield e.StepFailed(f"start#{number}", Error("x", "no"))
        yield e.NextEvaluated(f"start#{number}", "step.done", (0,))


def test_a_histogram_has_the_runs_of_a_step_at_the_end_of_each_block() -> None:
    writer, fold = OutlineWriter(), OutlineFold()
    counts = []
    for event, at in timed(*many_runs(2_000)):
        for block in writer.extend((event,), at):
            fold.add(block)
            counts.append((fold.seq, fold.steps["start"][1:]))
    columns = fold.histogram.step_columns("start").values()
    by_bin = {fold.histogram.bin_of(seq): count for seq, count in counts}
    assert len(by_bin) == len(counts) > 5
    assert {number: [column[number] for column in columns] for number in by_bin} == by_bin


def test_many_step_runs_are_counted_by_step() -> None:
    fold = folded(timed(*many_runs(MAX_RUNS + 2)))
    assert not fold.has_rows
    assert fold.run_count == MAX_RUNS + 2
    assert len(fold.runs) < 10
    assert len(fold.tokens) < 10
    columns = fold.histogram.step_columns("start")
    assert [column[-1] for column in columns.values()] == [0, MAX_RUNS + 2 - MAX_RUNS // 10, MAX_RUNS // 10]
    assert {len(column) for column in columns.values()} == {len(fold.histogram.events)}


def test_a_chain_of_steps_takes_less_than_five_percent_of_its_log() -> None:
    from noetl.store.codec import encode

    def step(number: int) -> list[e.Event]:
        run, task = f"transform_{number % 200}#{number // 200 + 1}", f"transform_{(number + 1) % 200}"
        id = TaskId(run, "transform#1")
        return [
            e.StepScheduled(run, (number,)),
            e.StepStarted(run, number, "worker-1", None, "01934c1d", 30.0),
            e.TaskStarted(id, 1),
            e.TaskDone(id, 1, Outcome(result={"rows": 17, "name": "orders"}), "continue", duration_ms=1.234),
            e.StepDone(run, {"rows": 17, "name": "orders"}),
            e.NextEvaluated(run, "step.done", (0,)),
            e.TokenEnqueued(number + 1, task, {"limit": 500}, run),
        ]

    events = [event for number in range(3_000) for event in step(number)]
    writer, size = OutlineWriter(), 0
    for place, event in enumerate(events):
        for block in writer.extend((event,), AT + place * 0.002):
            size += len(encode_block(block)[1])
    log = sum(len(event.name) + 8 + 8 + 16 + 16 + len(encode(event)) for event in events)
    assert size < 0.05 * log


def test_numbers_become_ranges() -> None:
    assert ranges([]) == []
    assert ranges([5, 3, 4, 9, 9, 1]) == [1, 2, 3, 6, 9, 10]


@pytest.mark.parametrize(
    ("steps", "tools"),
    [
        (
            """
            - step: start
              tool: [{a: {kind: python, code: fail}}]
              next: {arcs: [{step: other, when: "{{ event.name == 'step.failed' }}"}]}
            - step: other
              loop: {in: [1, 2, 3], iterator: n, spec: {mode: parallel}}
              tool: [{b: {kind: noop}}]
            """,
            {"fail": lambda: 1 / 0},
        ),
        (
            """
            - step: start
              tool: [{a: {kind: noop}}]
              next: {spec: {mode: inclusive}, arcs: [{step: one}, {step: two}]}
            - {step: one, tool: [{a: {kind: noop}}], next: {arcs: [{step: both}]}}
            - {step: two, tool: [{a: {kind: noop}}], next: {arcs: [{step: both}]}}
            - {step: both, spec: {join: all}, tool: [{a: {kind: noop}}]}
            """,
            {},
        ),
    ],
)
def test_the_outline_of_a_story_agrees_with_its_state(steps: str, tools: dict[str, Any]) -> None:
    stage = play(steps, tools=tools)
    state, fold = stage.state, folded(of_rows(stage.store.read(EXECUTION)))
    assert fold.seq == state.seq
    assert fold.status == state.status
    names = {SUCCEEDED: "succeeded", FAILED: "failed", CANCELLED: "cancelled"}
    last = {run.step: names[run.status] for run in fold.runs.values()}
    assert last == {name: result.status for name, result in state.steps.items()}
    assert {step: counts[0] for step, counts in fold.steps.items()} == state.entries
    assert all(token.consumed_seq for token in fold.tokens.values())
    for name, result in state.steps.items():
        if result.items is not None:
            loop = fold.loops[f"{name}#1"]
            assert (loop.total, loop.ok, loop.failed) == result.items


def test_a_block_names_the_step_runs_and_the_items_of_its_events() -> None:
    events = [*loop_events(2_000), *(e.PollIteration(TaskId("poll#1", "t#1"), n) for n in range(BLOCK_EVENTS))]
    writer = OutlineWriter()
    blocks = [block for event in events for block in writer.extend((event,), AT)]
    for block in blocks:
        names = run_names(block)
        parts = {names[part.run]: part for part in block.loops}
        for event in events[block.first - 1 : block.first - 1 + block.events]:
            run, index, _ = subject_of(event)
            assert run is None or run in names
            if run is not None and index is not None:
                flat = [parts[run].done, parts[run].failed, parts[run].touched]
                assert any(
                    first <= index < end for part in flat for first, end in zip(part[::2], part[1::2], strict=True)
                )


def test_every_event_of_a_step_run_names_it() -> None:
    kinds = [kind for kind in e.EVENTS.values() if issubclass(kind, e.RunEvent | e.TaskEvent)]
    assert len(kinds) > 20
    for kind in kinds:
        required = {name: VALUES[name] for name in kind.__struct_fields__ if name in VALUES}
        block = OutlineWriter()
        block.extend((kind(**required),), AT)
        assert "start#1" in run_names(block.finish()), kind


VALUES: dict[str, Any] = {
    "run": "start#1", "task": TaskId("start#1", "t#1"), "index": 0, "total": 1, "ok": 1, "failed": 0, "attempt": 1,
    "outcome": Outcome(), "do": "continue", "error": Error("x", "y"), "fence": 1, "reason": "lost", "on": "step.done",
    "iteration": 1, "iterations": 1, "trigger_event": "call.done", "branch": "case_0", "action": "next",
}  # fmt: skip


def test_failures_before_a_loop_was_reopened_do_not_count() -> None:
    error = Error("http", "HTTP 503")
    first = [*beginning(), e.LoopStarted("start#1", 3), e.StepStarted("start#1", 1, "w", (0, 3))]
    for index in range(3):
        first += [e.IterationStarted("start#1", index), e.IterationFailed("start#1", index, error)]
    forked = e.ExecutionForked(EXECUTION, len(first), "retry", reopened="start#1")
    again = [e.IterationStarted("start#1", 1), e.IterationFailed("start#1", 1, error)]
    loop = folded(timed(*first, forked, *again)).loops["start#1"]
    assert loop.failed == 1
    assert [(group.count, group.first) for group in loop.errors.values()] == [(1, 1)]
    assert loop.slowest == [(1_000, 1)]
