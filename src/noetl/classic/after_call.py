"""Runs the part of a classic step between its call and its routing.

    vars        the chain `vars`: one call of `noop` whose policy patches `ctx.vars`
    case        evaluated on `call.done` or `call.error`, then on `step.exit` if nothing has routed by then.
                Each branch that fires runs its chain: `case_0`, `case_1` and so on
    sink        the chain `sink`, after the branches

A chain is a pipeline whose prefix is its name, so a task in it is called `case_0/notify`, and retries, waits,
iterators, redaction and recovery are those of every pipeline. A `next` in a chain does not route: it is a request
(`next.requested`), and by its policy ends the step, its chain, or nothing. When the step ends, the server takes the
request with the highest priority, then the one that was reached first, and sends the tokens. Without a request the
step's own `next` routes, but not after a failure.

The worker decides which branches fire, what is suppressed and when a poll is ready. The server decides the targets,
and which branches of a step with `eval_mode: on_event` fire (`noetl.classic.rules`): such a run is granted for its
call, and again for each batch of branches that an event has chosen.

A failure that no worker reports (a step out of time, a failed item of a loop) is handled too if some branch sees
failures: the server emits `case.started` and grants the rest of the run. A failure of the call that made a branch fire
is handled by it, with or without a target. A failure inside a chain is the step's, and no branch sees it.

The progress is folded from these events (`noetl.classic.state`), so after a lost lease another worker continues after
the last accepted task. Branches are not chosen twice; a chain that has ended does not run again.
"""

from __future__ import annotations

from typing import Any, TypeAlias

from noetl.classic.branches import CasePlan, branch_number
from noetl.classic.call_names import NO_CALL, call_names, failed_call, ignored_call
from noetl.classic.events import BranchSuppressed, CaseEvaluated, CaseStarted, NextRequested
from noetl.classic.hooks import AwaitingEvent, FailureHandled
from noetl.classic.rules import add_request
from noetl.classic.state import AfterCallProgress, BranchBatch
from noetl.engine.state import Progress, StepResult
from noetl.engine.step_runs import error_data
from noetl.engine.tasks import seen_tasks
from noetl.errors import TemplateError, TemplateFailed
from noetl.expression import NOW_KEY, prepare
from noetl.model.identity import TaskId
from noetl.model.outcome import Outcome
from noetl.model.playbook import DEFAULT_ATTEMPTS, Goto, Rule, Step, Target, Task
from noetl.pipeline.host import Done, End, Failed, Waiting
from noetl.pipeline.plan import KindOf, PipelinePlan, RulePlan, first_match
from noetl.pipeline.run import Pipeline
from noetl.pipeline.templates import is_of_keychain, template_error
from noetl.scope import Scope, StepsView

AfterCallEnd: TypeAlias = Done | Failed | Waiting | FailureHandled | AwaitingEvent


class GotoPlan:
    def __init__(self, goto: Goto, policy: str) -> None:
        self.label, self.policy, self.priority = goto.label, goto.policy or policy, goto.priority
        self.arcs = [
            (prepare(arc.step), prepare(arc.args), goto.delay if arc.delay is None else arc.delay) for arc in goto.to
        ]

    def targets(self, scope: Scope) -> tuple[Target, ...]:
        targets = tuple(Target(step(scope), args(scope), delay) for step, args, delay in self.arcs)
        for target in targets:
            if not isinstance(target.step, str):
                raise TemplateFailed(f"a computed target must be the name of a step, not {str(target.step)[:60]!r}")
        return targets


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
            to = host.redact(await self.templates.evaluate(goto.targets, scope))
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

    def restart_wait(self, task: TaskId, outcome: Outcome, scope: Scope) -> float | None:
        rule = self.chain.again
        if rule is None:
            return None
        attempt = self.progress.visits.get(next(iter(self.plan.tasks)), 1)
        scope["outcome"] = outcome.as_data({**scope.get("outcome", NO_CALL)["meta"], "attempt": attempt})
        scope["_attempt"] = attempt
        if attempt >= (rule.then.attempts or DEFAULT_ATTEMPTS) or first_match([rule], scope) is None:
            return None
        return rule.wait_after(attempt, outcome, scope, f"{scope['execution_id']}|{task}|{attempt}")


class AfterCallPlan:
    def __init__(self, step: Step, kind_of: KindOf) -> None:
        assert step.after_call is not None
        part, cases = step.after_call, step.after_call.cases
        self.step, self.view, self.loop = step.name, part.view, step.loop is not None
        self.cases = CasePlan(step.name, cases) if cases else None
        again = {f"case_{i}": branch.again for i, branch in enumerate(cases.branches if cases else ())}
        policy = cases.next_policy if cases else "end_step"
        self.chains = {name: ChainPlan(chain, kind_of, policy, again.get(name)) for name, chain in part.chains.items()}

    async def run(self, call: Pipeline, progress: AfterCallProgress | None) -> AfterCallEnd:
        return await AfterCallRun(self, call, progress or AfterCallProgress()).run()


class AfterCallRun:
    def __init__(self, plan: AfterCallPlan, call: Pipeline, state: AfterCallProgress) -> None:
        self.plan, self.call, self.state = plan, call, state
        self.run_id, self.host = call.run_id, call.host
        self.scope = Scope(call.scope)
        self.ended: Done | Failed = Done(None)

    async def run(self) -> AfterCallEnd:
        stop: Failed | Waiting | AwaitingEvent | None = await self._call()
        if stop is None and self.plan.cases is not None:
            stop = await (self._observe if self.plan.cases.observes else self._branches)(self.plan.cases)
        if stop is None and "sink" in self.plan.chains and isinstance(self.ended, Done):
            stop = await self._chain("sink")
        if stop is not None:
            return stop
        if isinstance(self.ended, Failed) and self.state.fired:
            return FailureHandled(*self.ended)
        return self.ended

    async def _call(self) -> Waiting | None:
        state = self.state
        if state.failure is not None:
            error, task, attempt = state.failure
            self.ended = Failed(error, task or "", attempt)
        elif state.looped:
            self.ended = Done(state.result)
        else:
            end = await self.call.run()
            if isinstance(end, Waiting):
                return end
            self.ended = end
        tasks = seen_tasks(self.scope["execution_id"], self.call.progress.tasks)
        if isinstance(self.ended, Failed):
            outcome = self.call.last or tasks.get(self.ended.task) or failed_call(self._error())
        elif state.looped:
            outcome = {**NO_CALL, "result": self.ended.result}
        else:
            outcome = self.call.last or (list(tasks.values())[-1] if tasks else NO_CALL)
        ignored = isinstance(self.ended, Done) and outcome["status"] != "ok"
        self._show(ignored_call(outcome) if ignored else outcome)
        self._set_event(self._event(self._point()))
        if "vars" in self.plan.chains and outcome["status"] == "ok" and isinstance(self.ended, Done):
            stop = await self._chain("vars")
            if isinstance(stop, Waiting):
                return stop
            if stop is not None:
                self.ended = stop
                self._show(failed_call(self._error()))
        return None

    def _error(self) -> dict[str, Any]:
        assert isinstance(self.ended, Failed)
        return error_data(self.ended.error, self.plan.step, self.ended.task or None, self.ended.attempt)

    def _show(self, outcome: dict[str, Any]) -> None:
        self.scope.update(call_names(outcome, self.plan.view, self.plan.loop))
        if isinstance(self.ended, Done):
            own = StepResult("succeeded", result=self.ended.result)
        else:
            own = StepResult("failed", error=self._error())
        self.scope["steps"] = StepsView({**self.call.scope["steps"].steps, self.plan.step: own})

    async def _branches(self, cases: CasePlan) -> Failed | Waiting | None:
        for point in (self._point(), "step.exit"):
            if self.state.evaluated == "step.exit" != point:
                continue  # evaluated before the run was granted again
            if self.state.evaluated != point and not cases.spent(self.state.fired):
                failure = await self._choose(cases, point)
                if failure is not None:
                    return failure
            stop = await self._batch()
            if stop is not None or self.state.requests:
                return stop
        return None

    async def _observe(self, cases: CasePlan) -> Failed | Waiting | AwaitingEvent | None:
        if not self.state.point and self.call.plan.first is not None:
            self.host.add_fact(self._started(self._point()))
            return AwaitingEvent("call")
        stop = await self._batch()
        more = len(self.state.batches) > 1 or not cases.spent(self.state.fired)
        if stop is None and not self.state.requests and more:
            return AwaitingEvent("case")
        return stop

    def _point(self) -> str:
        return "call.done" if isinstance(self.ended, Done) else "call.error"

    def _started(self, point: str) -> CaseStarted:
        if isinstance(self.ended, Failed):
            return CaseStarted(self.run_id, point, self.ended.error, self.ended.task or None, self.ended.attempt)
        return CaseStarted(self.run_id, point)

    async def _choose(self, cases: CasePlan, point: str) -> Failed | None:
        """Choose branches. Both facts are added together, after the choice."""
        state, failed = self.state, isinstance(self.ended, Failed)
        self._set_event(self._event(point))
        try:
            branches = await self.call.templates.evaluate(
                lambda scope: cases.chosen(scope, state.fired, point, failed), self.scope
            )
        except TemplateError as error:
            return Failed(self.host.redact(template_error(error)), "", 0)
        if state.point != point:  # else the server has emitted it, for a failure that it found
            self.host.add_fact(self._started(point))
        matched = tuple(sorted(branches, key=branch_number))
        self.host.add_fact(CaseEvaluated(self.run_id, matched, tuple(branches), cases.mode, cases.evaluate, point))
        state.point = state.evaluated = point
        state.fired.extend(branches)
        state.batches = [BranchBatch(branches)] if branches else []
        return None

    def _event(self, point: str) -> dict[str, Any]:
        if isinstance(self.ended, Failed):
            return {"name": point, "data": {"error": self._error()}}
        return {"name": point, "data": {"result": self.ended.result}}

    def _set_event(self, event: dict[str, Any]) -> None:
        self.scope["event"] = event
        self.scope[NOW_KEY] = self.host.now()

    async def _batch(self) -> Failed | Waiting | None:
        batch = self.state.batches[0] if self.state.batches else BranchBatch([])
        self._set_event(batch.event or self._event(self.state.point or self._point()))
        for place, name in enumerate(batch.order):
            if name in self.state.suppressed:
                continue
            stop = await self._chain(name)
            if stop is not None:
                return stop
            if any(request.branch == name and request.policy == "end_step" for request in self.state.requests):
                for loser in batch.order[place + 1 :]:
                    if loser not in self.state.suppressed:
                        self.host.add_fact(BranchSuppressed(self.run_id, loser, name))
                        self.state.suppressed.append(loser)
                return None
        return None

    async def _chain(self, name: str) -> Failed | Waiting | None:
        """Run the rest of a chain; does nothing if it has ended before. None: it has ended."""
        plan, prefix = self.plan.chains[name], f"{name}/"
        progress = self.call.inner.setdefault(prefix, Progress())
        if plan.acts and not progress.ended:
            await self.host.durable()
            if self.host.paused():
                return Waiting("resume")
        if not progress.visits:
            progress.prev = self.ended.result if isinstance(self.ended, Done) else None
        scope = Scope(self.scope)
        scope["tasks"] = dict(self.call.scope["tasks"])
        end = await Chain(plan, self.call, scope, progress, name, self.state).run()
        progress.ended = isinstance(end, Done)
        if isinstance(end, Done):
            return None
        if isinstance(end, Failed):
            return Failed(end.error, prefix + end.task, end.attempt)
        return end if end.until == "resume" else end._replace(chain=prefix)
