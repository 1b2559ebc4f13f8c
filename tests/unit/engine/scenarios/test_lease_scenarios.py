"""Who works on a run, and whose reports count."""

from __future__ import annotations

import pytest
from scenario import Scenario, begun

from noetl.engine.commands import Cancel, Claim, Lost, Pause, Report, Resume
from noetl.engine.events import (
    NextEvaluated,
    PlaybookPaused,
    PlaybookProcessed,
    PlaybookResumed,
    StepDone,
    StepFailed,
    StepPaused,
    StepRegranted,
    StepScheduled,
    StepStarted,
    TaskDone,
    TaskStarted,
    TokenEnqueued,
    WorkflowFinished,
)
from noetl.engine.leases import LEASE_SECONDS
from noetl.model.identity import TaskId
from noetl.model.outcome import Outcome

RUN = "start#1"
WORKFLOW = """\
- step: start
  tool: {kind: noop}
  next: {arcs: [{step: end}]}
- {step: end, tool: {kind: noop}}
"""
LEASED = (*begun(), StepStarted(RUN, 1, "worker", claim="c1"))
DONE = (
    StepDone(RUN, 1),
    NextEvaluated(RUN, "step.done", selected=(0,)),
    TokenEnqueued(2, "end", origin=RUN),
    StepScheduled("end#1", (2,)),
)


def test_a_run_is_handed_out_once() -> None:
    scenario = Scenario(WORKFLOW).given(*begun())
    scenario.when(Claim("worker", 4)).then(StepStarted(RUN, 1, "worker"))
    scenario.when(Claim("another", 4)).then_nothing()


def test_a_worker_gets_the_runs_of_its_pool_only() -> None:
    workflow = """\
    - step: start
      tool: {kind: noop}
      next: {spec: {mode: inclusive}, arcs: [{step: here}, {step: there}]}
    - {step: here, tool: {kind: noop}}
    - {step: there, spec: {pool: other}, tool: {kind: noop}}
    """
    scenario = Scenario(workflow).given(*LEASED).when(Report(1, (StepDone(RUN, 1),)))
    scenario.when(Claim("worker", 4, "third")).then_nothing()
    scenario.when(Claim("worker", 4, "other")).then(StepStarted("there#1", 2, "worker"))
    scenario.when(Claim("worker", 4, "default")).then(StepStarted("here#1", 3, "worker"))


def test_a_report_may_claim_the_next_run() -> None:
    Scenario(WORKFLOW).given(*LEASED).when(Report(1, (StepDone(RUN, 1),), claim=Claim("worker"))).then(
        *DONE, StepStarted("end#1", 2, "worker")
    )


def test_a_report_that_is_sent_again_changes_nothing() -> None:
    scenario = Scenario(WORKFLOW).given(*LEASED)
    scenario.when(Report(1, (StepDone(RUN, 1),))).then(*DONE)
    scenario.when(Report(1, (StepDone(RUN, 1),))).then_nothing()


def test_facts_that_are_sent_again_are_not_stored_again() -> None:
    """The lease is still alive: only the number of its facts tells the repetition."""
    task = TaskId(RUN, "task#1", None)
    facts = (TaskStarted(task, 1), TaskDone(task, 1, Outcome(result=1), "continue", to=None))
    scenario = Scenario(WORKFLOW).given(*LEASED)
    scenario.when(Report(1, facts)).then(*facts)
    scenario.when(Report(1, facts)).then_nothing()
    scenario.when(Report(1, (*facts, StepDone(RUN, 1)))).then(*DONE)


def test_each_loss_in_a_row_doubles_the_lease() -> None:
    scenario = Scenario(WORKFLOW).given(*LEASED)
    for losses in (1, 2, 3):
        scenario.when(Lost(losses)).when(Claim("another")).then(
            StepRegranted(RUN, losses + 1, "another", ttl=LEASE_SECONDS * 2**losses, reason="lost")
        )


def test_a_report_of_a_lost_lease_does_not_count() -> None:
    scenario = Scenario(WORKFLOW).given(*LEASED)
    scenario.when(Lost(1)).then(StepPaused(RUN, 1, "lost"))
    scenario.when(Report(1, (StepDone(RUN, 1),))).then_nothing()
    scenario.when(Claim("another")).then(StepRegranted(RUN, 2, "another", reason="lost"))
    scenario.when(Report(1, (StepDone(RUN, 1),))).then_nothing()
    scenario.when(Report(2, (StepDone(RUN, 1),))).then(*DONE)


def test_a_run_that_is_handed_back_goes_to_the_next_who_asks() -> None:
    scenario = Scenario(WORKFLOW).given(*LEASED)
    scenario.when(Report(1, (), hand_back=True)).then(StepPaused(RUN, 1, "returned"))
    scenario.when(Claim("another"))
    assert [(event.run, event.fence) for event in scenario.events] == [(RUN, 2)]  # type: ignore[attr-defined]


def test_a_run_that_loses_five_workers_in_a_row_fails() -> None:
    scenario = Scenario(WORKFLOW).given(*begun())
    for fence in range(1, 5):
        scenario.when(Claim("worker")).when(Lost(fence)).then(StepPaused(RUN, fence, "lost"))
    scenario.when(Claim("worker")).when(Lost(5))
    assert [type(event) for event in scenario.events] == [
        StepPaused,
        StepFailed,
        NextEvaluated,
        WorkflowFinished,
        PlaybookProcessed,
    ]
    failed = scenario.events[1]
    assert isinstance(failed, StepFailed)
    assert failed.error.kind == "poison"


def test_a_paused_execution_hands_out_nothing() -> None:
    scenario = Scenario(WORKFLOW).given(*begun())
    scenario.when(Pause()).then(PlaybookPaused())
    scenario.when(Claim("worker")).then_nothing()
    scenario.when(Resume()).then(PlaybookResumed())
    scenario.when(Claim("worker")).then(StepStarted(RUN, 1, "worker"))


@pytest.mark.parametrize("command", [Claim("worker"), Lost(1), Report(1, (StepDone(RUN),)), Pause(), Cancel()])
def test_nothing_follows_after_the_end(command: Claim | Lost | Report | Pause | Cancel) -> None:
    scenario = Scenario(WORKFLOW).given(*LEASED).when(Cancel())
    assert scenario.state.over
    scenario.when(command).then_nothing()
