"""Where tokens go when a run has ended."""

from __future__ import annotations

from scenario import Scenario, begun, ran

from noetl.engine.commands import Cancel, Report, Start
from noetl.engine.events import (
    NextEvaluated,
    PlaybookCancelled,
    PlaybookProcessed,
    StepDone,
    StepFailed,
    StepScheduled,
    StepStarted,
    TokenEnqueued,
    WorkflowFinished,
)
from noetl.model.outcome import Error

CHOICE = """\
- step: start
  tool: {kind: noop}
  next:
    spec: {mode: MODE}
    arcs:
      - {step: large, when: "{{ steps.start.result > 10 }}", args: {n: "{{ steps.start.result }}"}}
      - {step: odd, when: "{{ steps.start.result % 2 == 1 }}"}
      - {step: broken, when: "{{ event.name == 'step.failed' }}"}
- {step: large, tool: {kind: noop}}
- {step: odd, tool: {kind: noop}}
- {step: broken, tool: {kind: noop}}
"""
EXCLUSIVE, INCLUSIVE = CHOICE.replace("MODE", "exclusive"), CHOICE.replace("MODE", "inclusive")
STARTED = (*begun(), StepStarted("start#1", 1, "worker"))


def test_a_start_puts_a_token_on_the_entry_step() -> None:
    Scenario(EXCLUSIVE).when(Start()).then(*begun())


def test_an_execution_starts_once() -> None:
    Scenario(EXCLUSIVE).given(*begun()).when(Start({"n": 1})).then_nothing()


def test_an_exclusive_router_takes_the_first_arc_that_holds() -> None:
    Scenario(EXCLUSIVE).given(*STARTED).when(Report(1, (StepDone("start#1", 11),))).then(
        StepDone("start#1", 11),
        NextEvaluated("start#1", "step.done", selected=(0,)),
        TokenEnqueued(2, "large", {"n": 11}, origin="start#1"),
        StepScheduled("large#1", (2,)),
    )


def test_an_inclusive_router_takes_every_arc_that_holds() -> None:
    Scenario(INCLUSIVE).given(*STARTED).when(Report(1, (StepDone("start#1", 11),))).then(
        StepDone("start#1", 11),
        NextEvaluated("start#1", "step.done", selected=(0, 1)),
        TokenEnqueued(2, "large", {"n": 11}, origin="start#1"),
        TokenEnqueued(3, "odd", origin="start#1"),
        StepScheduled("large#1", (2,)),
        StepScheduled("odd#1", (3,)),
    )


def test_the_execution_ends_when_no_arc_holds() -> None:
    Scenario(EXCLUSIVE).given(*STARTED).when(Report(1, (StepDone("start#1", 2),))).then(
        StepDone("start#1", 2),
        NextEvaluated("start#1", "step.done"),
        WorkflowFinished("succeeded"),
        PlaybookProcessed("succeeded", result=2),
    )


def test_an_arc_may_lead_on_from_a_failure() -> None:
    guarded = EXCLUSIVE.replace("{{ steps", "{{ event.name == 'step.done' and steps")
    error = Error("test", "it broke")
    Scenario(guarded).given(*STARTED).when(Report(1, (StepFailed("start#1", error),))).then(
        StepFailed("start#1", error),
        NextEvaluated("start#1", "step.failed", selected=(2,)),
        TokenEnqueued(2, "broken", origin="start#1"),
        StepScheduled("broken#1", (2,)),
    )


def test_a_cancelled_execution_routes_nothing() -> None:
    scenario = Scenario(EXCLUSIVE).given(*STARTED)
    scenario.when(Cancel("enough")).then(
        PlaybookCancelled("enough"), WorkflowFinished("cancelled"), PlaybookProcessed("cancelled")
    )
    scenario.when(Report(1, (StepDone("start#1", 11),))).then_nothing()


def test_the_end_of_one_branch_waits_for_the_others() -> None:
    scenario = Scenario(INCLUSIVE).given(
        *begun(),
        *ran("start", 1, 11),
        NextEvaluated("start#1", "step.done", selected=(0, 1)),
        TokenEnqueued(2, "large", origin="start#1"),
        TokenEnqueued(3, "odd", origin="start#1"),
        StepScheduled("large#1", (2,)),
        StepScheduled("odd#1", (3,)),
        StepStarted("large#1", 2, "worker"),
        StepStarted("odd#1", 3, "worker"),
    )
    scenario.when(Report(2, (StepDone("large#1"),))).then(StepDone("large#1"), NextEvaluated("large#1", "step.done"))
    scenario.when(Report(3, (StepDone("odd#1"),))).then(
        StepDone("odd#1"),
        NextEvaluated("odd#1", "step.done"),
        WorkflowFinished("succeeded"),
        PlaybookProcessed("succeeded"),
    )
