"""Compiled tasks: inputs, guards and patches are compiled once."""

from __future__ import annotations

import math
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from noetl.engine.net import guard_test
from noetl.engine.patch import Patch, operator_of
from noetl.errors import TemplateError, TemplateFailed
from noetl.expression import prepare
from noetl.model.duration import seconds
from noetl.model.kind import Kind
from noetl.model.outcome import Outcome
from noetl.model.playbook import DEFAULT_ATTEMPTS, Rule, Task, Then
from noetl.pipeline.bound import bound_inputs, rendered_inputs

if TYPE_CHECKING:
    from noetl.classic.state import AfterCallProgress
    from noetl.pipeline.run import Pipeline

KindOf: TypeAlias = Callable[[str], Kind]
Prepared: TypeAlias = Callable[[Mapping[str, Any]], Any]
A_DURATION = "a number of seconds or a duration such as 5s"
MAX_VISITS = 10_000
DEFAULT_DELAY = 1.0  # Seconds between attempts
MAX_DELAY = 60.0  # The longest wait of a `spec.retry` without `max_delay`, in seconds


class RulePlan:
    """One rule of a policy."""

    __slots__ = ("delay", "number", "set_ctx", "set_iter", "test", "then")

    def __init__(self, rule: Rule, number: int) -> None:
        self.then: Then = rule.then
        self.number = number  # Its place in the policy, from 0
        self.test = None if rule.when is None or rule.when is True else guard_test(rule.when)
        self.delay = prepare(rule.then.delay) if isinstance(rule.then.delay, str) else None
        self.set_iter = patch_plan(rule.then.set_iter)
        self.set_ctx = patch_plan(rule.then.set_ctx)

    def delay_seconds(self, scope: Mapping[str, Any], default: float = 0.0) -> float:
        """The delay of the rule. TemplateFailed if it is not a duration."""
        delay = self.delay(scope) if self.delay is not None else self.then.delay
        if delay is None:
            return default
        length = seconds(delay)
        if length is None:
            raise TemplateFailed(f"`delay` must be {A_DURATION}, not {str(delay)[:60]!r}")
        return length

    def wait_after(self, attempt: int, outcome: Outcome, scope: Mapping[str, Any], seed: str) -> float:
        """Seconds between an attempt and the next (S15). `seed` makes the jitter of each wait its own."""
        then, wait = self.then, self.delay_seconds(scope, DEFAULT_DELAY)
        if then.backoff == "linear":
            wait *= attempt
        elif then.backoff == "exponential":
            wait *= 2 ** min(attempt - 1, 60)
        limit = math.inf if then.max_delay is None else then.max_delay
        wait = min(wait, limit)
        if then.jitter:  # deterministic, so a repeated decision gets the same delay
            fraction = int.from_bytes(sha256(seed.encode()).digest()[:4], "big") / 0xFFFFFFFF
            wait *= 0.5 + fraction / 2
        retry_after = outcome.error.details.get("retry_after") if outcome.error else None
        requested = float(retry_after) if isinstance(retry_after, int | float) else 0.0
        return max(wait, min(requested, limit))  # jitter does not shorten a Retry-After; `max_delay` does


def first_match(rules: Iterable[RulePlan], scope: Mapping[str, Any]) -> RulePlan | None:
    for rule in rules:
        try:
            if rule.test is None or rule.test(scope):
                return rule
        except TemplateError as error:
            error.rule = rule.number
            raise
    return None


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

    def __init__(self, task: Task, kind: Kind, kind_of: KindOf) -> None:
        self.task, self.label, self.kind = task, task.label, kind
        self.bound = bound_inputs(kind, task.inputs)
        self.inputs: Prepared = rendered_inputs(kind, task.inputs, self.bound)
        self.args = prepare(task.args) if task.args else None
        rules = [RulePlan(rule, number) for number, rule in enumerate(task.policy or ())]
        self.skips = [rule for rule in rules if rule.then.do == "skip"]
        self.rules = None if task.policy is None else [rule for rule in rules if rule.then.do != "skip"]
        self.timeout: Any = task.spec.get("timeout", kind.timeout)
        """Seconds, a map of http, or a template, which `time_limit` evaluates."""
        self.time_limit = _time_limit(self.timeout) if isinstance(self.timeout, str) else None
        self.max_visits = task.spec.get("max_visits", MAX_VISITS)
        self.on_lost: str = task.spec.get("on_lost", "retry")
        self.retry = _retry_plan(task.spec.get("retry")) if kind.name != "iterator" else None
        """How often the call itself is repeated before the policy sees its outcome (R3)."""
        self.until = None if task.poll is None else guard_test(task.poll.until)
        self.body = PipelinePlan(task.body, kind_of) if task.body else None
        self.items = prepare(task.inputs["in"]) if kind.name == "iterator" else None


def _time_limit(template: str) -> Callable[[Mapping[str, Any]], float]:
    """The time limit of a call as a function of a scope. It raises TemplateFailed if that is not a duration."""
    prepared = prepare(template)

    def evaluate(scope: Mapping[str, Any]) -> float:
        limit = prepared(scope)
        if (length := seconds(limit)) is None:
            raise TemplateFailed(f"`timeout` must be {A_DURATION}, not {str(limit)[:60]!r}", template)
        return length

    return evaluate


def _retry_plan(options: Mapping[str, Any] | None) -> RulePlan | None:
    if not options or options.get("attempts") == 1:
        return None
    defaults = {"attempts": DEFAULT_ATTEMPTS, "backoff": "exponential", "max_delay": MAX_DELAY}
    return RulePlan(Rule(None, Then("retry", **{**defaults, **options})), -1)


class PipelinePlan:
    """The tasks of a step or a chain, by label and in order."""

    def __init__(
        self,
        tasks: Iterable[Task],
        kind_of: KindOf,
        labels: Sequence[str] | None = None,
        after_call: AfterCallRunner | None = None,
    ) -> None:
        """`labels` has the order of a chain, which consists of more than tasks."""
        self.tasks = {task.label: TaskPlan(task, kind_of(task.kind), kind_of) for task in tasks}
        labels = list(self.tasks) if labels is None else labels
        self.first = labels[0] if labels else None
        self.after: dict[str, str | None] = dict(zip(labels, [*labels[1:], None], strict=False))
        self.acts = any(plan.kind.name != "noop" for plan in self.tasks.values())
        """Whether a task can have side effects."""
        self.after_call = after_call


class AfterCallRunner(Protocol):
    """Runs a step that does more than call its tasks; see `noetl.classic.after_call`."""

    def run(self, call: Pipeline, progress: AfterCallProgress | None) -> Coroutine[Any, Any, Any]:
        """Run the call and its follow-up."""
