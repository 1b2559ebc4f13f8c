"""How the items of a loop are handed out, counted and collected."""

from __future__ import annotations

from scenario import Scenario, begun

from noetl.engine.commands import Claim, Lost, Report, Start
from noetl.engine.events import (
    Event,
    IterationDone,
    IterationFailed,
    IterationStarted,
    LoopDone,
    LoopStarted,
    NextEvaluated,
    PlaybookProcessed,
    StepFailed,
    StepPaused,
    StepRegranted,
    StepStarted,
    WorkflowFinished,
)
from noetl.engine.leases import LEASE_SECONDS, MAX_LOSSES
from noetl.model.outcome import Error

RUN = "each#1"
LOOP = """\
- step: each
  loop: {in: [5, 6, 7], iterator: n, spec: {mode: parallel, max_in_flight: 2}}
  tool: {kind: noop}
"""
TOLERANT = LOOP.replace("max_in_flight: 2", "max_in_flight: 2, on_error: continue")
EMPTY = LOOP.replace("[5, 6, 7]", "[]")
SEQUENTIAL = LOOP.replace("parallel, max_in_flight: 2", "sequential")
STARTED: tuple[Event, ...] = (*begun("each"), LoopStarted(RUN, 3, [5, 6, 7]))
LAST_ITEM: tuple[Event, ...] = (
    *STARTED,
    StepStarted(RUN, 1, "worker", (0, 1)),
    StepStarted(RUN, 2, "worker", (1, 2)),
    *(IterationStarted(RUN, 0), IterationDone(RUN, 0, "a")),
    StepStarted(RUN, 3, "worker", (2, 3)),
    *(IterationStarted(RUN, 2), IterationDone(RUN, 2, "c")),
)
ERROR = Error("test", "it broke")


def test_the_collection_of_a_loop_is_fixed_when_its_step_is_scheduled() -> None:
    Scenario(LOOP).when(Start()).then(*STARTED)


def test_no_more_items_are_handed_out_than_may_run_at_once() -> None:
    scenario = Scenario(LOOP).given(*STARTED)
    scenario.when(Claim("worker", 5)).then(StepStarted(RUN, 1, "worker", (0, 1)), StepStarted(RUN, 2, "worker", (1, 2)))
    scenario.when(Claim("another", 5)).then_nothing()


def test_a_lane_that_has_ended_leaves_its_place_to_the_next_item() -> None:
    scenario = Scenario(LOOP).given(*STARTED)
    scenario.when(Claim("worker", 5))
    scenario.when(Report(1, (IterationStarted(RUN, 0), IterationDone(RUN, 0, "a"))))
    scenario.when(Claim("worker", 5)).then(StepStarted(RUN, 3, "worker", (2, 3)))


def test_a_sequential_loop_is_one_lane() -> None:
    scenario = Scenario(SEQUENTIAL).given(*STARTED).when(Claim("worker", 5))
    assert [type(event) for event in scenario.events] == [StepStarted]
    scenario.when(Claim("another", 5)).then_nothing()


def test_the_last_item_ends_the_loop_with_all_results_in_order() -> None:
    facts = (IterationStarted(RUN, 1), IterationDone(RUN, 1, "b"))
    Scenario(LOOP).given(*LAST_ITEM).when(Report(2, facts)).then(
        *facts,
        LoopDone(RUN, 3, 3, 0, ["a", "b", "c"]),
        NextEvaluated(RUN, "loop.done"),
        WorkflowFinished("succeeded"),
        PlaybookProcessed("succeeded", result=["a", "b", "c"]),
    )


def test_a_failed_item_fails_the_step() -> None:
    facts = (IterationStarted(RUN, 1), IterationFailed(RUN, 1, ERROR))
    Scenario(LOOP).given(*LAST_ITEM).when(Report(2, facts)).then(
        *facts,
        StepFailed(RUN, ERROR),
        NextEvaluated(RUN, "step.failed"),
        WorkflowFinished("failed"),
        PlaybookProcessed("failed"),
    )


def test_a_failed_item_counts_where_the_loop_continues() -> None:
    facts = (IterationStarted(RUN, 1), IterationFailed(RUN, 1, ERROR))
    scenario = Scenario(TOLERANT).given(*LAST_ITEM).when(Report(2, facts))
    (ended,) = [event for event in scenario.events if isinstance(event, LoopDone)]
    assert (ended.total, ended.ok, ended.failed, ended.result) == (3, 2, 1, ["a", None, "c"])


def test_an_empty_loop_is_done_at_once() -> None:
    Scenario(EMPTY).when(Start()).then(
        *begun("each"),
        LoopStarted(RUN, 0, []),
        LoopDone(RUN, 0, 0, 0, []),
        NextEvaluated(RUN, "loop.done"),
        WorkflowFinished("succeeded"),
        PlaybookProcessed("succeeded", result=[]),
    )


def test_the_items_of_a_lost_worker_are_handed_out_again() -> None:
    scenario = Scenario(LOOP).given(*STARTED, StepStarted(RUN, 1, "worker", (0, 1)))
    scenario.when(Lost(1)).then(StepPaused(RUN, 1, "lost"))
    scenario.when(Claim("another", 1)).then(StepRegranted(RUN, 2, "another", (0, 1), reason="lost"))


def test_items_under_way_are_handed_out_again_before_all_others() -> None:
    """They are in flight: another item in their place would be one too many."""
    lanes = (StepStarted(RUN, 1, "worker", (0, 4)), StepStarted(RUN, 2, "worker", (4, 8)))
    scenario = long_loop(8, *lanes, IterationStarted(RUN, 0), IterationStarted(RUN, 4))
    scenario.when(Lost(2)).when(Lost(1)).when(Claim("another", 5)).then(
        StepRegranted(RUN, 3, "another", (0, 1), reason="lost"), StepRegranted(RUN, 4, "another", (4, 5), reason="lost")
    )


def test_an_item_that_has_started_has_lost_no_worker_in_a_row() -> None:
    scenario = Scenario(LOOP).given(*STARTED)
    for fence in range(1, MAX_LOSSES):
        scenario.when(Claim("worker", 1)).when(Lost(fence)).then(StepPaused(RUN, fence, "lost"))
    scenario.when(Claim("worker", 1)).when(Report(MAX_LOSSES, (IterationStarted(RUN, 0),)))
    scenario.when(Lost(MAX_LOSSES)).then(StepPaused(RUN, MAX_LOSSES, "lost"))
    scenario.when(Claim("worker", 1)).then(
        StepRegranted(RUN, MAX_LOSSES + 1, "worker", (0, 1), ttl=2 * LEASE_SECONDS, reason="lost")
    )


def long_loop(total: int, *events: Event) -> Scenario:
    items = list(range(total))
    workflow = LOOP.replace("[5, 6, 7]", str(items))
    return Scenario(workflow).given(*begun("each"), LoopStarted(RUN, total, items, 1), *events)


def test_the_last_items_of_a_fast_loop_are_not_handed_out_one_by_one() -> None:
    scenario = long_loop(1000, StepStarted(RUN, 1, "worker", (0, 992), ttl=30, lane=64))
    scenario.when(Claim("worker", 1)).then(StepStarted(RUN, 2, "worker", (992, 994), lane=64))


def test_the_last_items_of_a_slow_loop_are_handed_out_one_by_one() -> None:
    scenario = long_loop(1000, StepStarted(RUN, 1, "worker", (0, 992), ttl=30, lane=8))
    scenario.when(Claim("worker", 1)).then(StepStarted(RUN, 2, "worker", (992, 993), lane=8))


def test_a_lane_length_grows_no_further_than_a_fair_share_of_all_items() -> None:
    ended = (IterationStarted(RUN, 0), IterationDone(RUN, 0))
    scenario = long_loop(24, StepStarted(RUN, 1, "worker", (0, 1), ttl=30, lane=2), *ended)
    scenario.when(Claim("worker", 1)).then(StepStarted(RUN, 2, "worker", (1, 3), lane=3))
