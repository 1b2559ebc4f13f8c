"""When a step that waits for all its tokens may run."""

from __future__ import annotations

from scenario import Scenario, begun, ran

from noetl.engine.commands import Report
from noetl.engine.events import (
    Event,
    NextEvaluated,
    StepDone,
    StepScheduled,
    StepStarted,
    TokenEnqueued,
)

WORKFLOW = """\
- step: start
  tool: {kind: noop}
  next: {spec: {mode: inclusive}, arcs: [{step: left, when: "{{ steps.start.result != 'right' }}"}, {step: right}]}
- step: left
  tool: {kind: noop}
  next: {arcs: [{step: both, when: "{{ steps.left.result != 'elsewhere' }}", args: {left: 1}}, {step: other}]}
- step: right
  tool: {kind: noop}
  next: {arcs: [{step: both, args: {right: 2}}]}
- step: both
  spec: {join: JOIN}
  tool: {kind: noop}
- {step: other, tool: {kind: noop}}
"""
ALL, ANY = WORKFLOW.replace("JOIN", "all"), WORKFLOW.replace("JOIN", "any")
FORKED: tuple[Event, ...] = (
    *begun(),
    *ran("start", 1),
    NextEvaluated("start#1", "step.done", selected=(0, 1)),
    TokenEnqueued(2, "left", origin="start#1"),
    TokenEnqueued(3, "right", origin="start#1"),
    StepScheduled("left#1", (2,)),
    StepScheduled("right#1", (3,)),
    StepStarted("left#1", 2, "worker"),
    StepStarted("right#1", 3, "worker"),
)
RIGHT_ARRIVED: tuple[Event, ...] = (
    *FORKED,
    StepDone("right#1"),
    NextEvaluated("right#1", "step.done", selected=(0,)),
    TokenEnqueued(4, "both", {"right": 2}, origin="right#1"),
)


def test_a_join_waits_while_another_token_can_reach_it() -> None:
    Scenario(ALL).given(*FORKED).when(Report(3, (StepDone("right#1"),))).then(
        StepDone("right#1"),
        NextEvaluated("right#1", "step.done", selected=(0,)),
        TokenEnqueued(4, "both", {"right": 2}, origin="right#1"),
    )


def test_a_join_takes_all_its_tokens_at_once() -> None:
    Scenario(ALL).given(*RIGHT_ARRIVED).when(Report(2, (StepDone("left#1"),))).then(
        StepDone("left#1"),
        NextEvaluated("left#1", "step.done", selected=(0,)),
        TokenEnqueued(5, "both", {"left": 1}, origin="left#1"),
        StepScheduled("both#1", (4, 5)),
    )


def test_the_run_of_a_join_has_the_args_of_all_tokens() -> None:
    scenario = Scenario(ALL).given(*RIGHT_ARRIVED).when(Report(2, (StepDone("left#1"),)))
    assert scenario.state.runs["both#1"].args == {"left": 1, "right": 2}


def test_a_join_stops_waiting_for_a_token_that_went_elsewhere() -> None:
    Scenario(ALL).given(*RIGHT_ARRIVED).when(Report(2, (StepDone("left#1", "elsewhere"),))).then(
        StepDone("left#1", "elsewhere"),
        NextEvaluated("left#1", "step.done", selected=(1,)),
        TokenEnqueued(5, "other", origin="left#1"),
        StepScheduled("other#1", (5,)),
        StepScheduled("both#1", (4,)),
    )


def test_a_join_of_one_branch_does_not_wait() -> None:
    one_branch = (
        *begun(),
        *ran("start", 1, "right"),
        NextEvaluated("start#1", "step.done", selected=(1,)),
        TokenEnqueued(2, "right", origin="start#1"),
        StepScheduled("right#1", (2,)),
        StepStarted("right#1", 2, "worker"),
    )
    Scenario(ALL).given(*one_branch).when(Report(2, (StepDone("right#1"),))).then(
        StepDone("right#1"),
        NextEvaluated("right#1", "step.done", selected=(0,)),
        TokenEnqueued(3, "both", {"right": 2}, origin="right#1"),
        StepScheduled("both#1", (3,)),
    )


def test_a_step_without_a_join_runs_for_each_token() -> None:
    Scenario(ANY).given(*FORKED).when(Report(3, (StepDone("right#1"),))).then(
        StepDone("right#1"),
        NextEvaluated("right#1", "step.done", selected=(0,)),
        TokenEnqueued(4, "both", {"right": 2}, origin="right#1"),
        StepScheduled("both#1", (4,)),
    )
