"""Chains of classic steps on a worker: pipelines that have `next` beside tasks, and can be retried as a whole."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from noetl.classic.events import NextRequested
from noetl.classic.rules import add_request
from noetl.classic.state import AfterCallProgress
from noetl.engine.state import Progress
from noetl.errors import TemplateError, TemplateFailed
from noetl.expression import NOW_KEY, prepare
from noetl.model.identity import TaskId
from noetl.model.outcome import Outcome
from noetl.model.playbook import DEFAULT_ATTEMPTS, Goto, Rule, Target, Task
from noetl.pipeline.host import End, Failed
from noetl.pipeline.plan import KindOf, PipelinePlan, RulePlan, first_match
from noetl.pipeline.run import Pipeline
from noetl.pipeline.templates import is_of_keychain, template_error
from noetl.scope import Scope


class GotoPlan:
    def __init__(self, goto: Goto, policy: str) -> None:
        self.label, self.policy, self.priority = goto.label, goto.policy or policy, goto.priority
        self.arcs = [
            (prepare(arc.step), prepare(arc.args), goto.delay if arc.delay is None else arc.delay) for arc in goto.to
        ]

    def targets(self, scope: Mapping[str, Any]) -> tuple[Target, ...]:
        return tuple(Target(_step_name(step(scope)), args(scope), delay) for step, args, delay in self.arcs)


def _step_name(name: Any) -> str:
    if not isinstance(name, str):
        raise TemplateFailed(f"a computed target must be the name of a step, not {str(name)[:60]!r}")
    return name


class ChainPlan(PipelinePlan):
    """The links of a chain, compiled. `again` is the rule that retries it as a whole."""

    def __init__(self, links: tuple[Task | Goto, ...], kind_of: KindOf, policy: str, again: Rule | None) -> None:
        tasks = [link for link in links if isinstance(link, Task)]
        super().__init__(tasks, kind_of, [link.label for link in links])
        self.gotos = {link.label: GotoPlan(link, policy) for link in links if isinstance(link, Goto)}
        self.again = RulePlan(again, 0) if again is not None else None


class Chain(Pipeline):
    def __init__(
        self, plan: ChainPlan, call: Pipeline, scope: Scope, progress: Progress, name: str, step: AfterCallProgress
    ) -> None:
        super().__init__(plan, call.run_id, scope, progress, call.host, None, f"{name}/", call.inner)
        self.chain, self.name, self.step = plan, name, step

    async def visit_other(self, label: str) -> str | End | None:
        """Request the targets of a `next`. The chain continues after it only if its policy is `defer`."""
        goto, host, scope = self.chain.gotos[label], self.host, self.scope
        scope[NOW_KEY] = host.now()
        try:
            to = host.redact(await self.templates.evaluate(lambda: goto.targets(scope)))
            if any(is_of_keychain(target.args) for target in to):
                raise TemplateFailed("a secret cannot be an arg of a token: use it in the inputs of a tool")
        except TemplateError as error:
            return Failed(host.redact(template_error(error)), label, 1)
        then = self.plan.after[label] if goto.policy == "defer" else None
        pending = goto.policy != "end_step"
        request = NextRequested(self.run_id, self.name, label, to, goto.policy, goto.priority, pending, then)
        host.add_fact(request)
        add_request(self.step, request)
        return then

    def restart_wait(self, task: TaskId, outcome: Outcome) -> float | None:
        rule, scope = self.chain.again, self.scope
        if rule is None:
            return None
        attempt = self.progress.visits.get(next(iter(self.plan.tasks)), 1)
        scope["outcome"] = outcome.as_data({"attempt": attempt})
        scope["_attempt"] = attempt
        if attempt >= (rule.then.attempts or DEFAULT_ATTEMPTS) or first_match([rule], scope) is None:
            return None
        return rule.wait_after(attempt, outcome, scope, f"{scope['execution_id']}|{task}|{attempt}")
