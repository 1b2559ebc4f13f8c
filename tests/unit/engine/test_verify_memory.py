"""Verifying takes memory by what is alive in a log, not by its length, whatever the order of its items."""

from __future__ import annotations

import gc
import random
import sys
from collections.abc import Callable, Iterator
from itertools import islice
from types import FunctionType, ModuleType

import pytest
from story import EXECUTION, HEAD

from noetl.dsl.compile import load
from noetl.engine import events as e
from noetl.engine.history.verify import CHECKS
from noetl.engine.history.verify.log import Intervals, LogReader
from noetl.engine.net import Net
from noetl.model.identity import TaskId
from noetl.model.outcome import Outcome
from noetl.store import codec
from noetl.store.store import Row
from noetl.tools.registry import KINDS

LOOP = """workflow:
  - step: start
    loop: {in: "{{ range(10) }}", iterator: n, spec: {mode: parallel, max_in_flight: 10}}
    tool: [{t: {kind: noop}}]
"""
JUMPS = "workflow:\n  - {step: start, tool: [{t: {kind: noop}}]}\n"
STEPS = "workflow:\n  - {step: start, tool: [{t: {kind: noop}}], next: {arcs: [{step: start}]}}\n"
BATCH = 1_000


def beginning() -> Iterator[e.Event]:
    yield e.ExecutionRequested("digest", "tests/story")
    yield e.RequestEvaluated()
    yield e.PlaybookStarted()
    yield e.WorkflowStarted()
    yield e.TokenEnqueued(1, "start")
    yield e.StepScheduled("start#1", tokens=(1,))


def items_in_any_order() -> Iterator[e.Event]:
    """A loop with ten lanes, which move on as chance has it."""
    chance = random.Random(7)
    total = 1 << 40
    yield from beginning()
    yield e.LoopStarted("start#1", total)
    lanes = {}
    free, fence = 0, 0
    while True:
        while len(lanes) < 10:
            fence += 1
            yield e.StepStarted("start#1", fence, "worker", (free, free + 64))
            lanes[fence] = [free, free + 64]
            free += 64
        lane = chance.choice(list(lanes))
        index = lanes[lane][0]
        task = TaskId("start#1", "t#1", index)
        yield e.IterationStarted("start#1", index)
        yield e.TaskStarted(task)
        yield e.TaskDone(task, 1, Outcome(), "continue")
        yield e.IterationDone("start#1", index)
        lanes[lane][0] += 1
        if lanes[lane][0] == lanes[lane][1]:
            del lanes[lane]


def visits_without_end() -> Iterator[e.Event]:
    """A task that jumps back to itself."""
    yield from beginning()
    yield e.StepStarted("start#1", 1, "worker")
    visit = 0
    while True:
        visit += 1
        task = TaskId("start#1", f"t#{visit}")
        yield e.TaskStarted(task)
        yield e.TaskDone(task, 1, Outcome(), "jump", "t")


def steps_without_end() -> Iterator[e.Event]:
    """A step whose arc leads back to it."""
    yield from beginning()
    number = 0
    while True:
        number += 1
        run = f"start#{number}"
        yield e.StepStarted(run, number, "worker")
        task = TaskId(run, "t#1")
        yield e.TaskStarted(task)
        yield e.TaskDone(task, 1, Outcome(), "continue")
        yield e.StepDone(run)
        yield e.NextEvaluated(run, "step.done", selected=(0,))
        yield e.TokenEnqueued(number + 1, "start", origin=run)
        yield e.StepScheduled(f"start#{number + 1}", tokens=(number + 1,))


def rows(events: Iterator[e.Event], count: int) -> Iterator[list[Row]]:
    """As a store gives them, in batches."""
    head, seq = codec.ZERO, 1
    while seq <= count:
        batch = codec.rows_of(list(islice(events, BATCH)), seq, 1.0, head)
        head, seq = batch[-1].hash, batch[-1].seq + 1
        yield batch


def held(log: LogReader) -> int:
    """The bytes of everything that the checks and the fold hold on to."""
    seen: dict[int, object] = {}
    result: list[object] = [log]
    while result:
        thing = result.pop()
        if id(thing) not in seen and not isinstance(thing, Net | type | ModuleType | FunctionType):
            seen[id(thing)] = thing
            result += gc.get_referents(thing)
    return sum(map(sys.getsizeof, seen.values()))


@pytest.mark.parametrize(
    ("workflow", "events", "few", "many"),
    [
        (LOOP, items_in_any_order, 20_000, 200_000),
        (JUMPS, visits_without_end, 5_000, 50_000),
        (STEPS, steps_without_end, 5_000, 50_000),
    ],
    ids=["items", "visits", "steps"],
)
def test_memory_does_not_follow_the_length_of_the_log(
    workflow: str, events: Callable[[], Iterator[e.Event]], few: int, many: int
) -> None:
    log = LogReader(CHECKS, EXECUTION, Net(load("story.yaml", HEAD + workflow, KINDS).require()), codec)
    sizes = {}
    for batch in rows(events(), many):
        log.take(batch)
        if log.seq in (few, many):
            sizes[log.seq] = held(log)
    assert log.end() == []
    assert sizes[many] < sizes[few] * 1.2, sizes


def test_damage_in_every_row_is_counted_and_not_listed() -> None:
    log = LogReader(CHECKS, EXECUTION, Net(load("story.yaml", HEAD + JUMPS, KINDS).require()), codec)
    for batch in rows(visits_without_end(), 5_000):
        log.take([row._replace(hash=b"?" * 16) for row in batch])
    result = log.end()
    assert {violation.invariant for violation in result} == {"hash_chain"}
    assert len(result) == 1_001
    assert result[-1].message == "and 4,000 more of this kind, up to here"


def test_an_item_that_runs_again_after_its_end_is_found_though_its_tasks_are_forgotten() -> None:
    events = list(islice(items_in_any_order(), 400))
    done = next(i for i, event in enumerate(events) if isinstance(event, e.TaskDone))
    task = events[done].task  # type: ignore[attr-defined]
    late = [e.TaskStarted(task), events[done]]
    log = LogReader(CHECKS, EXECUTION, Net(load("story.yaml", HEAD + LOOP, KINDS).require()), codec)
    log.take(codec.rows_of([*events, *late], 1, 1.0, codec.ZERO))
    messages = [violation.message for violation in log.end() if violation.invariant == "outcomes"]
    assert messages == [
        f"{task} started attempt 1, which has an outcome or is not the next one",
        f"{task} has an outcome after its last one",
    ]


def test_an_earlier_visit_that_comes_back_is_found() -> None:
    events = list(islice(visits_without_end(), 100))
    done = next(event for event in events if isinstance(event, e.TaskDone))
    log = LogReader(CHECKS, EXECUTION, Net(load("story.yaml", HEAD + JUMPS, KINDS).require()), codec)
    log.take(codec.rows_of([*events, done], 1, 1.0, codec.ZERO))
    assert [violation.message for violation in log.end()] == ["start#1/t#1 has an outcome after its last one"]


def test_intervals_are_a_set_of_numbers() -> None:
    chance = random.Random(3)
    for _ in range(50):
        intervals, numbers = Intervals(), set()
        for _ in range(60):
            number = chance.randrange(-3, 40)
            assert intervals.add(number) is (number not in numbers)
            numbers.add(number)
            assert [n for n in range(-4, 42) if n in intervals] == sorted(numbers)
            assert intervals.count == len(numbers)
            assert len(intervals._starts) == sum(n - 1 not in numbers for n in numbers)
