"""A task made ready to run: inputs, guards and patches compiled once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from noetl.engine.events import Target
from noetl.engine.net import CasePlan
from noetl.engine.patch import Patch, operator_of
from noetl.errors import TemplateFailed
from noetl.expression import parse, prepare
from noetl.model.kind import Kind
from noetl.model.playbook import Goto, Rule, Step, Task, Then
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
        self.until = None if task.poll is None else _test(task.poll.until)
        self.body_plan: PipelinePlan | None = None
        self.items = prepare(task.inputs["in"]) if kind.name == "iterator" else None


class GotoPlan:
    """A `next` in a chain of a classic step."""

    def __init__(self, goto: Goto, policy: str) -> None:
        self.label, self.policy, self.priority = goto.label, goto.policy or policy, goto.priority
        self.arcs = [(prepare(arc.step), prepare(arc.args), _first(arc.delay, goto.delay)) for arc in goto.to]

    def targets(self, scope: Mapping[str, Any]) -> tuple[Target, ...]:
        return tuple(Target(_step_name(step(scope)), args(scope), delay) for step, args, delay in self.arcs)


def _first(*values: float | None) -> float | None:
    return next((value for value in values if value is not None), None)


def _step_name(name: Any) -> str:
    if not isinstance(name, str):
        raise TemplateFailed(f"a computed target must be the name of a step, not {str(name)[:60]!r}")
    return name


class PipelinePlan:
    """The tasks of a step, by label and in order; or those of a chain of a classic step, with its gotos."""

    def __init__(
        self,
        tasks: tuple[Task | Goto, ...],
        kind_of: Callable[[str], Kind],
        policy: str = "end_step",
        again: Rule | None = None,
    ) -> None:
        self.tasks: dict[str, TaskPlan | GotoPlan] = {}
        for task in tasks:
            if isinstance(task, Goto):
                self.tasks[task.label] = GotoPlan(task, policy)
                continue
            plan = self.tasks[task.label] = TaskPlan(task, kind_of(task.kind))
            if task.body:
                plan.body_plan = PipelinePlan(task.body, kind_of)
        labels = list(self.tasks)
        self.first: str | None = labels[0] if labels else None
        self.after: dict[str, str | None] = dict(zip(labels, [*labels[1:], None], strict=True)) if labels else {}
        self.again = RulePlan(again) if again is not None else None
        """How a chain is retried as a whole."""
        calls = {label: plan for label, plan in self.tasks.items() if isinstance(plan, TaskPlan)}
        self.calls = tuple(calls)
        self.acts = any(plan.kind.name != "noop" for plan in calls.values())
        """Whether it can have an effect on the world."""
        self.tail: TailPlan | None = None


class TailPlan:
    """What a classic step does behind its tool, with everything compiled."""

    def __init__(self, step: Step, kind_of: Callable[[str], Kind]) -> None:
        assert step.tail is not None
        tail, cases = step.tail, step.tail.cases
        self.step, self.view, self.loop = step.name, tail.view, step.loop is not None
        self.cases = CasePlan(step.name, cases) if cases else None
        again = {f"case_{i}": branch.again for i, branch in enumerate(cases.branches if cases else ())}
        policy = cases.next_policy if cases else "end_step"
        self.chains = {
            name: PipelinePlan(chain, kind_of, policy, again.get(name)) for name, chain in tail.chains.items()
        }


def step_plan(step: Step, kind_of: Callable[[str], Kind]) -> PipelinePlan:
    """The pipeline of a step, and what it does behind it."""
    plan = PipelinePlan(step.tasks, kind_of)
    plan.tail = TailPlan(step, kind_of) if step.tail is not None else None
    return plan
