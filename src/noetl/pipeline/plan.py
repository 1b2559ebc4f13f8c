"""A task made ready to run: inputs, guards and patches compiled once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from noetl.engine.patch import Patch, operator_of
from noetl.expression import parse, prepare
from noetl.model.kind import Kind
from noetl.model.playbook import Rule, Task, Then
from noetl.pipeline.bound import bound_inputs, rendered_inputs

Prepared = Callable[[Mapping[str, Any]], Any]
MAX_VISITS = 10_000


class RulePlan:
    """One rule of a policy."""

    __slots__ = ("delay", "set_ctx", "set_iter", "test", "then")

    def __init__(self, rule: Rule) -> None:
        self.then: Then = rule.then
        self.test = None if rule.when is None or rule.when is True else _test(rule.when)
        self.delay = prepare(rule.then.delay) if isinstance(rule.then.delay, str) else None
        self.set_iter = patch_plan(rule.then.set_iter)
        self.set_ctx = patch_plan(rule.then.set_ctx)

    def matches(self, scope: Mapping[str, Any]) -> bool:
        return self.test is None or self.test(scope)


def _test(when: bool | str) -> Callable[[Mapping[str, Any]], bool]:
    if when is False:
        return lambda scope: False
    return parse(str(when)).test


def patch_plan(values: Mapping[str, Any]) -> Callable[[Mapping[str, Any]], Patch]:
    """A patch as a function of a scope: all values are rendered before any is written."""
    parts = [
        (key, operator, prepare(value)) for key, (operator, value) in ((k, operator_of(v)) for k, v in values.items())
    ]
    if not parts:
        return lambda scope: ()
    return lambda scope: tuple((key, operator, value(scope)) for key, operator, value in parts)


class TaskPlan:
    """A task with everything compiled."""

    def __init__(self, task: Task, kind: Kind) -> None:
        self.task, self.label, self.kind = task, task.label, kind
        self.bound = bound_inputs(kind, task.inputs)
        self.inputs: Prepared = rendered_inputs(kind, task.inputs, self.bound)
        self.args = prepare(task.args) if task.args else None
        rules = [RulePlan(rule) for rule in task.policy or ()]
        self.skips = [rule for rule in rules if rule.then.do == "skip"]
        self.rules = None if task.policy is None else [rule for rule in rules if rule.then.do != "skip"]
        self.timeout = task.spec.get("timeout", kind.timeout)
        self.max_visits = task.spec.get("max_visits", MAX_VISITS)
        self.on_lost: str = task.spec.get("on_lost", "retry")
        self.body_plan: PipelinePlan | None = None
        self.items = prepare(task.inputs["in"]) if kind.name == "iterator" else None


class PipelinePlan:
    """The tasks of a step, by label and in order."""

    def __init__(self, tasks: tuple[Task, ...], kind_of: Callable[[str], Kind]) -> None:
        self.tasks: dict[str, TaskPlan] = {}
        for task in tasks:
            plan = self.tasks[task.label] = TaskPlan(task, kind_of(task.kind))
            if task.body:
                plan.body_plan = PipelinePlan(task.body, kind_of)
        labels = list(self.tasks)
        self.first = labels[0]
        self.after: dict[str, str | None] = dict(zip(labels, [*labels[1:], None], strict=True))
