"""One visit of a task: its attempts, until its policy ends the visit."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

from msgspec.structs import replace

from noetl.engine.events import (
    Layer,
    PollFinished,
    PollIteration,
    PollStarted,
    SinkProcessed,
    SinkStarted,
    TaskDone,
    TaskRetryScheduled,
    TaskStarted,
)
from noetl.engine.patch import BadPatch, Patch
from noetl.engine.state import PollState
from noetl.engine.tasks import SKIPPED, call_meta, repeats_after
from noetl.errors import TemplateError
from noetl.expression import NOW_KEY
from noetl.model.identity import TaskId
from noetl.model.outcome import Error, Outcome, failed
from noetl.model.playbook import DEFAULT_ATTEMPTS
from noetl.pipeline.host import End, Failed, ParkedCall, ToolCall, Waiting
from noetl.pipeline.iterate import iterate
from noetl.pipeline.plan import RulePlan, TaskPlan, first_match
from noetl.pipeline.templates import has_references, template_error, template_outcome

if TYPE_CHECKING:
    from noetl.pipeline.run import Pipeline

NO_PATCHES: tuple[Patch, Patch] = ((), ())
NOT_REPEATED = (
    "`spec.retry` repeats retryable errors only, and this is not one; a rule with `do: retry` repeats any error"
)


class DeadlinePassed(Exception):
    """The deadline of a poll passed during its call."""


class Visit:
    """One visit. Directives return the next label, None at the end of the pipeline, or its `End`."""

    __slots__ = (
        "attempt",
        "host",
        "outcome",
        "pipeline",
        "plan",
        "progress",
        "round",
        "round_start",
        "scope",
        "task",
        "took",
    )

    def __init__(self, pipeline: Pipeline, plan: TaskPlan, task: TaskId) -> None:
        self.pipeline, self.plan, self.task = pipeline, plan, task
        self.host, self.scope, self.progress = pipeline.host, pipeline.scope, pipeline.progress
        self.attempt = pipeline.progress.attempt
        self.round, self.round_start = pipeline.progress.round, pipeline.progress.round_start
        self.outcome = Outcome()
        self.took = 0.0  # Milliseconds of the last attempt

    async def run(self) -> str | End | None:
        """Call the tool until nothing repeats the call, then apply the first matching rule."""
        plan, progress = self.plan, self.progress
        self.scope["_task"] = plan.label
        self.pipeline.templates.contents = {}  # values that another task has read may be large
        progress.attempt = progress.round = progress.round_start = 1
        first = self.attempt == 1 and not progress.started and progress.delivered is None
        while True:
            try:
                skip = await self._enter(first)
                if skip is not None:
                    return await self._close("skip", skip)
                in_time = await self._attempt()
            except TemplateError as error:
                self.outcome, self.took = self.host.redact(template_outcome(error, plan.task)), 0.0
                return await self.fail(None)
            except ParkedCall as parked:
                return parked.wait
            if not in_time:
                return await self._fail_poll("deadline")
            if plan.retry is not None and self._repeats(plan.retry):
                end = await self._retry(plan.retry, self.attempt - self.round_start + 1, "spec")
            else:
                try:
                    rule = await self._first_rule(plan.rules) if plan.rules else None
                except TemplateError as error:
                    return await self.fail(None, self._rule_error(error))
                if rule is None or rule.then.do != "retry":
                    self._explain_final()
                    return await self._follow(rule)
                if self.round >= (rule.then.attempts or DEFAULT_ATTEMPTS):
                    return await self.fail(rule, _after_last(self.attempt, self.outcome))
                end = await self._retry(rule, self.round, "policy")
            if end is not None:
                return end
            first = False

    async def _first_rule(self, rules: Sequence[RulePlan]) -> RulePlan | None:
        return await self.pipeline.templates.evaluate(lambda scope: first_match(rules, scope), self.scope)

    # -- the call ---------------------------------------------------------------------------------------------------

    async def _enter(self, first: bool) -> RulePlan | None:
        """Set the names of the attempt; the rule that skips the task, which only the first attempt may."""
        scope, plan = self.scope, self.plan
        scope["_attempt"], scope["_prev"] = self.attempt, self.progress.prev
        scope["args"] = self.pipeline.args
        scope[NOW_KEY] = self.host.now()
        scope.pop("outcome", None)
        if plan.args is not None:
            args = await self.pipeline.templates.evaluate(plan.args, scope, inputs=True)
            scope["args"] = {**scope["args"], **args}
        return await self._first_rule(plan.skips) if first and plan.skips else None

    async def _attempt(self) -> bool:
        """Make the call and keep its outcome. False if the deadline of the poll has passed."""
        in_time, started = True, self._started()
        try:
            self.outcome = await self._call(started)
        except DeadlinePassed:
            in_time = False
        ended = self.host.now()
        self.took = round(max(0.0, ended - started) * 1000, 3)
        meta = call_meta(self.scope["execution_id"], self.attempt, self.took, ended)
        self.scope["outcome"] = self.outcome.as_data(meta)
        if not self.plan.task.sink:
            self.pipeline.last = self.scope["outcome"]
        return in_time and not (self.plan.until is not None and self._is_late())

    def _started(self) -> float:
        """When the call began: before it waited, if its outcome is delivered."""
        now, since = self.host.now(), self.progress.since
        return now if self.progress.delivered is None or since is None else since

    async def _call(self, started: float) -> Outcome:
        plan, progress, host, templates = self.plan, self.progress, self.host, self.pipeline.templates
        if progress.delivered is not None:
            outcome, progress.delivered = progress.delivered, None
            return host.redact(outcome)
        lost = progress.started and plan.on_lost == "error" and plan.items is None
        progress.started = False
        if lost:
            return failed("lost", "the worker was lost after the call had started; it may have had its effect")
        if plan.task.poll is not None and plan.label not in progress.polls:
            deadline = plan.task.poll.deadline
            due = None if deadline is None else host.now() + deadline
            progress.polls[plan.label] = PollState(progress.visits[plan.label], due)
            host.add_fact(PollStarted(self.task, due))
        host.add_fact((SinkStarted if plan.task.sink else TaskStarted)(self.task, self.attempt, int(started * 1000)))
        try:
            if plan.items is not None:
                return await iterate(self.pipeline, plan, self.task)
            if plan.on_lost == "error":
                await host.stored()
            scope = self.scope
            inputs: dict[str, Any] = {}
            if plan.task.inputs:
                inputs = await templates.evaluate(plan.inputs, scope, inputs=True)
                if has_references(inputs):
                    inputs = await templates.opened(inputs)
            bound: dict[str, Any] = {}
            if plan.bound:
                binds = plan.bound.items()
                bound = await templates.evaluate(
                    lambda scope: {path: bind(scope) for path, bind in binds}, scope, inputs=True
                )
            timeout = plan.timeout if plan.time_limit is None else await templates.evaluate(plan.time_limit, scope)
            call = ToolCall(plan, self.task, self.attempt, progress.repeats, inputs, bound, timeout, scope)
            return await host.call(call) if plan.until is None else await self._call_in_time(call)
        except TemplateError as error:
            return host.redact(template_outcome(error, plan.task))
        except ParkedCall as parked:
            if self.pipeline.parks or parked.wait.until == "resume":
                raise
            return failed("input", f"a task of kind {plan.kind.name} cannot wait inside an iterator: use a loop")

    # -- directives -------------------------------------------------------------------------------------------------

    async def _follow(self, rule: RulePlan | None) -> str | End | None:
        """Apply a directive other than `retry`; None is the default for the outcome."""
        plan, ok = self.plan, self.outcome.ok
        do = rule.then.do if rule is not None else ("continue" if ok or plan.rules is not None else "fail")
        if plan.until is not None and do == "continue" and ok:
            return await self._poll(rule)
        if do == "fail":
            return await self.fail(rule)
        if do == "jump" and rule is not None and rule.then.delay is not None:
            return await self._delayed_jump(rule)
        return await self._close(do, rule)

    def _repeats(self, retry: RulePlan) -> bool:
        """Whether `spec.retry` repeats the call (R3)."""
        error, attempts = self.outcome.error, retry.then.attempts or DEFAULT_ATTEMPTS
        return error is not None and error.retryable and self.attempt - self.round_start + 1 < attempts

    def _explain_final(self) -> None:
        """Add to an error that fails the task why `spec.retry` did not repeat the call."""
        error = self.outcome.error
        if self.plan.retry is None or self.plan.rules is not None or error is None or error.retryable:
            return
        explained = replace(error, details={"hint": NOT_REPEATED, **error.details})
        self.outcome = replace(self.outcome, error=explained)

    async def _retry(self, rule: RulePlan, count: int, layer: Layer) -> str | End | None:
        """Wait before the next attempt; None if it can start. A long wait frees the worker."""
        pipeline, host, outcome, attempt = self.pipeline, self.host, self.outcome, self.attempt
        seed = f"{self.scope['execution_id']}|{self.task}|{attempt}"
        try:
            wait = await pipeline.templates.evaluate(
                lambda scope: rule.wait_after(count, outcome, scope, seed), self.scope
            )
            patches = await pipeline.writes.patch(rule)
        except (TemplateError, BadPatch) as error:
            return await self.fail(None, self._rule_error(error, rule))
        due = host.now() + wait
        self.progress.repeats = repeats_after(self.progress.repeats, "retry", outcome)
        self._keep_outcome()
        pipeline.restart_items(self.task)
        self._add_outcome(outcome, "retry", self.plan.label, patches, layer=layer)
        if layer == "policy":
            self.round, self.round_start = self.round + 1, attempt + 1
        self.attempt += 1
        host.add_fact(TaskRetryScheduled(self.task, self.attempt, due, self.round, self.round_start))
        if pipeline.can_park(wait):
            return Waiting("retry", "", due)
        await host.durable()
        if wait > 0 and not host.paused():
            await host.sleep(wait)
        return Waiting("retry", "", due) if host.paused() else None

    async def _close(self, do: str, rule: RulePlan | None) -> str | End | None:
        """Report the outcome and where the pipeline continues."""
        plan = self.plan
        try:
            patches = await self.pipeline.writes.patch(rule) if rule is not None else NO_PATCHES
        except (TemplateError, BadPatch) as error:
            problem = self._rule_error(error, rule)
            outcome = Outcome("error", error=problem) if do == "skip" else self.outcome
            self._add_outcome(outcome, "fail", None, error=None if do == "skip" else problem)
            return Failed(problem, plan.label, self.attempt)
        target = self.pipeline.plan.after[plan.label]
        if do == "jump" and rule is not None:
            target = rule.then.to
        elif do == "break":
            target = None
        if not plan.task.sink and do == "skip":
            self.scope["tasks"][plan.label] = SKIPPED
        elif not plan.task.sink:
            self._keep_outcome()
            self.progress.prev = self.outcome.result if self.outcome.ok else None
        self._add_outcome(self.outcome, do, target, patches)
        return target

    async def _delayed_jump(self, rule: RulePlan) -> str | End | None:
        try:
            wait = await self.pipeline.templates.evaluate(rule.delay_seconds, self.scope)
        except TemplateError as error:
            return await self.fail(None, self._rule_error(error, rule))
        target = await self._close("jump", rule)
        return await self.pipeline.goto(target, wait) if isinstance(target, str) else target

    def _rule_error(self, error: TemplateError | BadPatch, rule: RulePlan | None = None) -> Error:
        """The error of a rule that cannot be evaluated or applied. The outcome of the call stays as it is (R8)."""
        problem = template_error(error)
        number = rule.number if rule is not None else error.rule if isinstance(error, TemplateError) else None
        if number is None:
            return self.host.redact(problem)
        message = f"rule {number + 1} of task {self.plan.label!r}: {problem.message}"
        details = {**problem.details, "task": str(self.task), "rule": number}
        return self.host.redact(Error(problem.kind, message, details=details))

    async def fail(self, rule: RulePlan | None, error: Error | None = None) -> str | End:
        """Fail the pipeline with the error, or with that of the outcome. A chain may be retried instead."""
        outcome, label = self.outcome, self.plan.label
        error = error or outcome.error or Error("policy", f"a rule of task {label!r} failed an ok outcome")
        patches, wait = NO_PATCHES, None
        try:
            if rule is not None:
                patches = await self.pipeline.writes.patch(rule)
        except (TemplateError, BadPatch) as problem:
            error = self._rule_error(problem, rule)
        self._end_poll("failed")
        try:
            wait = await self.pipeline.templates.evaluate(
                lambda scope: self.pipeline.restart_wait(self.task, outcome, scope), self.scope
            )
        except TemplateError as problem:
            error = template_error(problem)
        own = None if error == outcome.error else error
        first = self.pipeline.plan.first
        if wait is not None and first is not None:
            self._add_outcome(outcome, "jump", first, patches, own)
            return await self.pipeline.goto(first, wait)
        self._add_outcome(outcome, "fail", None, patches, own)
        return Failed(error, label, self.attempt)

    def _keep_outcome(self) -> None:
        if not self.plan.task.sink:
            self.scope["tasks"][self.plan.label] = self.scope["outcome"]

    def _add_outcome(
        self,
        outcome: Outcome,
        do: str,
        to: str | None,
        patches: tuple[Patch, Patch] = NO_PATCHES,
        error: Error | None = None,
        layer: Layer = "policy",
    ) -> None:
        done, skipped = SinkProcessed if self.plan.task.sink else TaskDone, do == "skip"
        self.host.add_fact(done(self.task, self.attempt, outcome, do, to, *patches, skipped, self.took, error, layer))

    # -- polls ------------------------------------------------------------------------------------------------------

    async def _poll(self, rule: RulePlan | None) -> str | End | None:
        """The call was ok; repeat it until its result is ready, as a new visit each time."""
        plan, poll, until = self.plan, self.plan.task.poll, self.plan.until
        assert poll is not None
        assert until is not None
        started = self.progress.polls[plan.label]
        try:
            ready = await self.pipeline.templates.evaluate(until, self.scope)
        except TemplateError as error:
            return await self.fail(None, self._rule_error(error))
        count = self.progress.visits[plan.label] - started.first + 1
        self.host.add_fact(PollIteration(self.task, count, ready))
        if ready:
            self._end_poll("ready")
            return await self._close("continue", rule)
        if poll.max_attempts is not None and count >= poll.max_attempts:
            return await self._fail_poll("exhausted")
        if started.due is not None and self.host.now() + poll.interval > started.due:
            return await self._fail_poll("deadline")
        self._keep_outcome()
        self.progress.prev = self.outcome.result
        self.host.add_fact(TaskDone(self.task, self.attempt, self.outcome, "jump", plan.label, duration_ms=self.took))
        return await self.pipeline.goto(plan.label, poll.interval)

    async def _call_in_time(self, call: ToolCall) -> Outcome:
        """Call the tool; the deadline of the poll limits the call too (R10)."""
        due = self.progress.polls[self.plan.label].due
        try:
            async with asyncio.timeout(None if due is None else max(0.0, due - self.host.now())):
                return await self.host.call(call)
        except TimeoutError:
            self.outcome = failed("timeout", "the deadline of the poll passed during the call", retryable=True)
            raise DeadlinePassed from None

    def _is_late(self) -> bool:
        due = self.progress.polls[self.plan.label].due
        return due is not None and self.host.now() >= due

    async def _fail_poll(self, reason: Literal["exhausted", "deadline"]) -> str | End:
        plan, poll = self.plan, self.plan.task.poll
        assert poll is not None
        count = self.progress.visits[plan.label] - self.progress.polls[plan.label].first + 1
        self._end_poll(reason)
        calls = f"{count} call{'s' * (count != 1)}"
        limit = f"after {calls}" if reason == "exhausted" else f"within {poll.deadline:g} s ({calls})"
        return await self.fail(None, Error("timeout", f"task {plan.label!r} was not ready {limit}"))

    def _end_poll(self, reason: Any) -> None:
        started = self.progress.polls.pop(self.plan.label, None)
        if started is not None:
            count = self.progress.visits[self.plan.label] - started.first + 1
            self.host.add_fact(PollFinished(self.task, count, reason))


def _after_last(attempt: int, outcome: Outcome) -> Error:
    """The error of the last attempt, with the number of attempts in its message."""
    last = outcome.error or Error("policy", "a rule retried an ok outcome")
    message = f"{last.message} (after {attempt} attempt{'s' * (attempt != 1)})"
    return Error(last.kind, message, last.retryable, last.details)
