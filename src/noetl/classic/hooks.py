"""The interface of classic steps: rules for the net of the engine, and plans for the pipelines of a worker.

Runs of canonical playbooks import no other file that runs classic steps.
"""

from __future__ import annotations

from typing import NamedTuple

from noetl.engine.after_call import AfterCallRules
from noetl.model.outcome import Error
from noetl.model.playbook import Step
from noetl.pipeline.plan import KindOf, PipelinePlan


class FailureHandled(NamedTuple):
    error: Error
    task: str | None
    attempt: int


class AwaitingEvent(NamedTuple):
    """The run waits until an event chooses a branch. `finished` is `call` or `case`."""

    finished: str


def after_call_rules(step: Step) -> AfterCallRules:
    from noetl.classic.rules import ClassicRules

    return ClassicRules(step)


def step_plan(step: Step, kind_of: KindOf) -> PipelinePlan:
    if step.after_call is None:
        return PipelinePlan(step.tasks, kind_of)
    from noetl.classic.after_call import AfterCallPlan

    return PipelinePlan(step.tasks, kind_of, after_call=AfterCallPlan(step, kind_of))
