"""The branches of a classic step: which of them fire, and what their conditions see."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from noetl.classic.call_names import NO_CALL, call_names, failed_call, ignored_call
from noetl.classic.failure_guards import expects_failure, reads_failure
from noetl.engine import events as e
from noetl.engine.decision import Decision
from noetl.engine.net import guard_test
from noetl.engine.state import Run, StepResult
from noetl.engine.step_runs import error_data
from noetl.engine.tasks import seen_tasks
from noetl.engine.timer_keys import StepTimer, timer_of
from noetl.model.identity import TaskId, step_of
from noetl.model.playbook import Branch, Cases
from noetl.scope import Scope, StepsView

LAST_POINTS = ("step.exit", "message.received", "timer.fired")
"""Events on which `else` fires if no other branch does."""


class BranchPlan:
    __slots__ = ("expects_failure", "name", "otherwise", "priority", "reads_failure", "retries", "test")

    def __init__(self, owner: str, name: str, branch: Branch) -> None:
        self.name, self.priority, self.otherwise = name, branch.priority, branch.when is None
        self.test = guard_test(branch.when)
        self.retries = branch.retries
        self.reads_failure = reads_failure(owner, branch.when)
        self.expects_failure = expects_failure(branch.when)

    def handles_failure(self, point: str) -> bool:
        """Whether it may fire after a failed call (R5): it reads the failure, or expects `call.error`."""
        return self.reads_failure or (self.expects_failure and point == "call.error")


class CasePlan:
    def __init__(self, owner: str, cases: Cases) -> None:
        branches = [BranchPlan(owner, f"case_{i}", branch) for i, branch in enumerate(cases.branches)]
        if cases.order == "priority":
            branches.sort(key=lambda branch: -branch.priority)
        self.branches = tuple(branches)
        self.mode, self.evaluate, self.policy = cases.mode, cases.evaluate, cases.next_policy
        self.observes = cases.evaluate == "on_event"
        self.sees_failure = any(branch.handles_failure("call.error") for branch in branches)

    def chosen(self, scope: Mapping[str, Any], fired: Sequence[str], point: str, failed: bool) -> list[str]:
        """The branches that fire on an event; `else` only where no other evaluation follows."""
        if self.mode == "exclusive" and fired:
            return []
        names: list[str] = []
        for branch in self.branches:
            if (
                branch.otherwise
                or branch.retries
                or branch.name in fired
                or (failed and not branch.handles_failure(point))
            ):
                continue
            if branch.test(scope):
                names.append(branch.name)
                if self.mode == "exclusive":
                    return names
        if names or fired or failed or point not in LAST_POINTS:
            return names
        return [branch.name for branch in self.branches if branch.otherwise][:1]

    def spent(self, fired: Sequence[str]) -> bool:
        return bool(fired) and (self.mode == "exclusive" or len(fired) == sum(not b.retries for b in self.branches))


def branch_number(name: str) -> int:
    return int(name.rpartition("_")[2])


def call_event(run: Run, point: str) -> dict[str, Any]:
    after = run.after_call
    if after is not None and after.failure is not None:
        error, task, attempt = after.failure
        return {"name": point, "data": {"error": error_data(error, run.step, task, attempt)}}
    return {"name": point, "data": {"result": _result(run)}}


def _result(run: Run) -> Any:
    if run.after_call is not None and run.after_call.looped:
        return run.after_call.result
    return run.progress[""].prev if "" in run.progress else None


def run_of(event: e.Event) -> str | None:
    task = getattr(event, "task", None)
    return task.run if isinstance(task, TaskId) else getattr(event, "run", None)


def event_data(event: e.Event) -> dict[str, Any]:
    if isinstance(event, e.MessageReceived):
        more = event.payload if isinstance(event.payload, dict) else {}
        return {**more, "type": event.type, "id": event.id, "payload": event.payload}
    data = {field: getattr(event, field) for field in event.__struct_fields__}
    if isinstance(event, e.TimerFired):
        timer = timer_of(event.timer)
        data["timer_id"] = timer.timer if isinstance(timer, StepTimer) else event.timer
    if (run := run_of(event)) is not None:
        data |= {"run": run, "step": step_of(run)}
    return {key: _plain(value) for key, value in data.items()}


def _plain(value: Any) -> Any:
    """Structs as maps; results and payloads are not converted, so that their references can be loaded."""
    if isinstance(value, TaskId):
        return str(value)
    if isinstance(value, msgspec.Struct):
        return {field: _plain(getattr(value, field)) for field in value.__struct_fields__}
    return value


def branch_scope(decision: Decision, run: Run, observed: dict[str, Any]) -> Scope:
    """The names that a branch sees; the run's own result once its call has ended."""
    scope = decision.scope(run.args, run.args_by, observed)
    step, after = decision.state.net.steps[run.step].step, run.after_call
    assert step.after_call is not None
    assert after is not None
    outcome = NO_CALL
    if after.point:
        outcome = last_outcome(run, decision.state.id)
        own = StepResult("failed" if after.failure else "succeeded", result=_result(run), error=outcome["error"])
        scope["steps"] = StepsView({**decision.state.steps, run.step: own})
    scope.update(call_names(outcome, step.after_call.view, step.loop is not None))
    return scope


def last_outcome(run: Run, execution: str) -> dict[str, Any]:
    after, progress = run.after_call, run.progress.get("")
    tasks = seen_tasks(execution, progress.tasks) if progress is not None else {}
    if after is not None and after.failure is not None:
        error, task, attempt = after.failure
        own = tasks.get(task or "")
        return own if own is not None else failed_call(error_data(error, run.step, task, attempt))
    if after is not None and after.looped:
        return {**NO_CALL, "result": after.result}
    calls = list(tasks.values())
    if not calls:
        return NO_CALL
    return calls[-1] if calls[-1]["status"] == "ok" else ignored_call(calls[-1])
