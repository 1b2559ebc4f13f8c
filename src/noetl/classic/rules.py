"""The engine's rules for classic steps: `noetl.engine.after_call` as the classic dialect implements it.

`noetl.classic.after_call` describes the part of a classic step after its call. With `eval_mode: on_event` the server
evaluates the branches of a step on every event of the execution. A run observes from its scheduling until a chain has
reached a `next`, or no branch can fire any more. Observers are part of the state, so they survive a crash. Events are
evaluated in the decision that emits them, before it is stored: none is evaluated twice or lost.

- A run does not observe its own events, nor `case.*`, `next.*` and `token.*`, except its timers (`spec.timers`) and
  the end of its own call, as `call.done` or `call.error`.
- A signal that makes a branch fire is consumed, also one that was sent before the step was entered; any other signal
  stays for other receivers.
- Events that arrive while a worker runs the chosen chains may choose more branches, which wait as further batches.
- `else` fires on a message or a timer that matches no other branch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from noetl.classic.branches import CasePlan, branch_number, branch_scope, call_event, event_data, run_of
from noetl.classic.events import POINTS, BranchSuppressed, CaseEvaluated, CaseStarted, NextRequested
from noetl.classic.points import NOT_OBSERVED
from noetl.classic.state import AfterCallProgress, BranchBatch, NextRequest
from noetl.engine.admissible import Facts, Link, known_values, label_after, refuse, require
from noetl.engine.decision import Decision
from noetl.engine.events import Event, MessageReceived, NextEvaluated, StepFailed, StepPaused
from noetl.engine.known_values import fits
from noetl.engine.leases import server_grant
from noetl.engine.state import Ended, Execution, Run
from noetl.engine.step_runs import refresh_ready
from noetl.engine.timer_keys import WaitLimit
from noetl.engine.waits import consume_signal
from noetl.errors import TemplateError
from noetl.model.outcome import Error
from noetl.model.playbook import Goto, Step, Target

CALL_POINTS = ("call.done", "call.error")


class ClassicRules:
    def __init__(self, step: Step) -> None:
        assert step.after_call is not None
        cases = step.after_call.cases
        self.step = step
        self.cases = CasePlan(step.name, cases) if cases is not None else None
        self.observes = self.cases is not None and self.cases.observes
        branches = cases.branches if cases is not None else ()
        retries = [branch.again for branch in branches if branch.again is not None]
        self.templates: list[Any] = [branch.when for branch in branches]
        self.templates += [template for rule in retries for template in (rule.when, rule.then.delay)]
        self.retried_chains = frozenset(f"case_{i}/" for i, branch in enumerate(branches) if branch.again is not None)
        self.checks: Mapping[type[Event], Callable[[Facts, Any], None]] = {
            CaseStarted: self._check_started,
            CaseEvaluated: self._check_evaluated,
            BranchSuppressed: self._check_suppressed,
            NextRequested: self._check_requested,
        }

    def evolve(self, state: Execution, event: Event, at: float) -> None:
        HANDLERS[type(event)](state, event)

    def scheduled(self, state: Execution, run: Run) -> None:
        run.after_call = AfterCallProgress()
        if self.observes:
            state.observers[run.id] = None

    def paused(self, run: Run, event: StepPaused) -> None:
        if event.key == "case" and run.after_call is not None:
            del run.after_call.batches[0]

    def loop_done(self, state: Execution, run: Run, result: Any) -> bool:
        after = run.after_call
        if after is None or after.looped:
            return False
        after.looped, after.result, run.ctx = True, result, dict(state.ctx)
        refresh_ready(state, run)
        return True

    def enter(self, decision: Decision, run: str) -> None:
        """Start to observe: signals that were sent before are evaluated now. A run without a call starts here."""
        if not self.step.tasks:
            grant = server_grant(decision.state, run)
            decision.emit(grant)
            decision.emit(StepPaused(run, grant.fence, "waiting", until="event", key="call"))
        for type, signals in decision.state.signals.items():
            decision.unobserved += ((run, MessageReceived(type, number, payload)) for number, payload in signals)

    def observe(self, decision: Decision, run: Run, event: Event) -> None:
        cases, after, name, message = self.cases, run.after_call, event.name, None
        if cases is None or after is None:
            return
        if isinstance(event, CaseStarted) and event.run == run.id and event.trigger_event in CALL_POINTS:
            name = event.trigger_event
            observed = call_event(run, name)
        elif name.startswith(NOT_OBSERVED) or run_of(event) == run.id:
            return
        else:
            observed = {"name": name, "data": event_data(event)}
        if isinstance(event, MessageReceived):
            message = event.id
            if not any(number == message for number, _ in decision.state.signals.get(event.type, ())):
                return  # another observer has consumed it
        failed = name == "call.error"
        try:
            scope = branch_scope(decision, run, observed)
            with decision.allowance:
                branches = cases.chosen(scope, after.fired, name, failed)
        except TemplateError as error:
            decision.emit(StepFailed(run.id, Error("template", f"case: {error.message} in {error.source[:200]!r}")))
            return
        if branches:
            if name not in CALL_POINTS:
                decision.emit(CaseStarted(run.id, name))
            matched, order = tuple(sorted(branches, key=branch_number)), tuple(branches)
            decision.emit(CaseEvaluated(run.id, matched, order, cases.mode, cases.evaluate, name, observed, message))
        elif failed and after.failure is not None and not after.batches:
            decision.emit(StepFailed(run.id, *after.failure))

    def take_failure(self, decision: Decision, run: Run, error: Error, task: str | None, attempt: int) -> bool:
        if run.after_call is None or run.after_call.point or self.cases is None or not self.cases.sees_failure:
            return False
        decision.emit(CaseStarted(run.id, "call.error", error, task, attempt, revoked=True))
        return True

    def route(self, ended: Ended) -> tuple[NextEvaluated, list[Target]] | None:
        winner = ended.after_call.winner if ended.after_call is not None else None
        if ended.after_call is None or winner is None or (ended.on == "step.failed" and not ended.failure_handled):
            return None
        evaluated = NextEvaluated(
            ended.run,
            ended.on,
            to=tuple(winner.to),
            policy=winner.policy,
            winner_branch=winner.branch,
            suppressed_branches=tuple(ended.after_call.suppressed),
            taken=ended.failure_handled,
        )
        return evaluated, winner.to

    def awaits_event(self, run: Run) -> bool:
        after = run.after_call
        if not self.observes or after is None or after.batches:
            return False
        return bool(after.point) or not self.step.tasks

    def is_server_event(self, state: Execution, event: Event) -> bool:
        if isinstance(event, CaseStarted):
            return event.trigger_event not in POINTS
        return isinstance(event, CaseEvaluated) and event.run in state.observers

    def is_incomplete(self, state: Execution, event: Event) -> bool:
        return isinstance(event, CaseStarted) and event.run in state.observers

    # Checks of the reports of workers; see `noetl.engine.admissible`.

    def chain(self, facts: Facts, name: str) -> Sequence[Link]:
        step, after = self.step, facts.run.after_call
        chains = step.after_call.chains if step.after_call is not None and after is not None else {}
        require(name in chains, f"the step has no chain {name[:200]!r}")
        called = not step.tasks or _progress(facts.run).call_has_ended or facts.progress(None, "").ended
        require(called, f"chain {name!r} runs only after the call of the step")
        if name.startswith("case_"):
            require(name in _progress(facts.run).running, f"branch {name!r} was not chosen")
        return chains[name]

    def check_wait(self, facts: Facts, fact: StepPaused) -> None:
        facts.holds(None)
        rest = (fact.index, fact.due, fact.request, fact.chain)
        observes = self._require_cases(facts)[0].observes
        require(observes and rest == (None, None, None, ""), "the step does not wait for an event")
        if fact.key == "call":
            require(isinstance(facts.previous, CaseStarted), "the call of the step has not just ended")
            return
        after = _progress(facts.run)
        ended = all(
            name in after.suppressed or not self.chain(facts, name) or facts.progress(None, f"{name}/").ended
            for name in after.running
        )
        require(fact.key == "case" and bool(after.running) and ended, "chains of the case have not ended")

    def _require_cases(self, facts: Facts) -> tuple[CasePlan, AfterCallProgress]:
        if self.cases is None or facts.run.after_call is None:
            refuse("the step has no case")
        return self.cases, facts.run.after_call

    def _check_started(self, facts: Facts, fact: CaseStarted) -> None:
        facts.holds(None)
        plan, after = self._require_cases(facts)
        point = fact.trigger_event
        require(point in POINTS and not fact.revoked, "workers must not report this")
        require(point != "step.exit" or not plan.observes, "a step that observes events has no exit of its own")
        require((point == "step.exit") == bool(after.point), f"the case is at {after.point!r}")
        require(after.point != "step.exit", "the exit of the step was already evaluated")
        if point != "step.exit":
            require((point == "call.error") == (fact.error is not None), "an error belongs to call.error")
        facts.failed_at(None, fact.task, fact.attempt)

    def _check_evaluated(self, facts: Facts, fact: CaseEvaluated) -> None:
        facts.holds(None)
        plan, after = self._require_cases(facts)
        require(not plan.observes, "the server evaluates the branches of a step that observes events")
        require((fact.event, fact.message) == (None, None), "workers do not receive signals")
        require(fact.trigger_event == after.point != after.evaluated, f"the case is at {after.point!r}")
        names = [branch.name for branch in plan.branches]
        order = [name for name in names if name in fact.order and name not in after.fired]
        require(list(fact.order) == order and sorted(fact.matched) == sorted(order), "these branches cannot be chosen")
        require(plan.mode != "exclusive" or len(after.fired) + len(order) <= 1, "only one branch can be chosen")
        require((fact.case_mode, fact.eval_mode) == (plan.mode, plan.evaluate), "the mode does not match the case")

    def _check_requested(self, facts: Facts, fact: NextRequested) -> None:
        facts.holds(None)
        (plan, _), prefix = self._require_cases(facts), f"{fact.branch}/"
        is_branch = fact.branch.startswith("case_") and "/" not in fact.branch
        require(is_branch, f"{fact.branch[:200]!r} is not a branch of the case")
        links, link, _ = facts.next_link(None, prefix)
        if not isinstance(link, Goto) or link.label != fact.action:
            refuse(f"the chain is at {link.label!r}, not at {fact.action[:200]!r}")
        policy = link.policy or plan.policy
        planned = (policy, link.priority, policy != "end_step", label_after(links, link) if policy == "defer" else None)
        reported = (fact.policy, fact.priority, fact.pending, fact.then)
        require(reported == planned, "policy or priority differs from the playbook")
        require(len(fact.to) == len(link.to), "the targets differ from the playbook")
        values = known_values(facts, None, prefix)
        for target, arc in zip(fact.to, link.to, strict=True):
            delay = arc.delay if arc.delay is not None else link.delay
            matches = fits(arc.step, target.step, values) and fits(arc.args, target.args, values)
            require(matches and target.delay == delay, "the targets differ from the playbook")

    def _check_suppressed(self, facts: Facts, fact: BranchSuppressed) -> None:
        facts.holds(None)
        _, after = self._require_cases(facts)
        order = after.running
        ends = [request.branch for request in after.requests if request.policy == "end_step"]
        require(fact.winner_branch in order and fact.winner_branch in ends, "the winner has not ended the step")
        later = fact.branch in order[order.index(fact.winner_branch) + 1 :]
        require(later and fact.branch not in after.suppressed, "the branch does not come after the winner")


def _progress(run: Run) -> AfterCallProgress:
    assert run.after_call is not None
    return run.after_call


def _case_started(state: Execution, event: CaseStarted) -> None:
    run = state.runs[event.run]
    if event.trigger_event not in POINTS:
        return
    after = _progress(run)
    after.point = event.trigger_event
    if event.error is not None:
        after.failure = (event.error, event.task, event.attempt)
    rules = state.net.steps[run.step].after_call
    if rules is not None and not rules.observes:
        after.batches.clear()
    if event.revoked:  # leases, waits and progress of the call are released; its chains remain
        for fence in [run.fence, *(run.loop.lanes if run.loop else ())]:
            if fence is not None:
                state.leases.pop(fence, None)
        run.fence = None
        if run.loop is not None:
            run.loop.lanes.clear()
        for index in run.parked:
            state.timers.pop(WaitLimit(run.id, index).name, None)
        run.parked.clear()
        run.losses.clear()
        run.progress = {prefix: progress for prefix, progress in run.progress.items() if not prefix}
        run.item_progress.clear()
        run.ctx = dict(state.ctx)
    refresh_ready(state, run)


def _case_evaluated(state: Execution, event: CaseEvaluated) -> None:
    run = state.runs[event.run]
    after = _progress(run)
    if event.trigger_event in POINTS:
        after.evaluated = event.trigger_event
    after.fired.extend(event.order)
    if event.order:
        after.batches.append(BranchBatch(list(event.order), event.event))
    if event.message is not None:
        consume_signal(state, tuple(state.signals), event.message)
    if run.id in state.observers:
        run.ctx = dict(state.ctx)  # other runs may have changed it since the run was scheduled
    refresh_ready(state, run)


def _branch_suppressed(state: Execution, event: BranchSuppressed) -> None:
    _progress(state.runs[event.run]).suppressed.append(event.branch)


def _next_requested(state: Execution, event: NextRequested) -> None:
    run = state.runs[event.run]
    add_request(_progress(run), event)
    progress = run.progress_of(None, f"{event.branch}/")
    progress.at, progress.ended = event.then, event.then is None


def add_request(after: AfterCallProgress, event: NextRequested) -> None:
    """Add a request, or replace it: a chain that is retried as a whole reaches the same `next` again."""
    action = (event.branch, event.action)
    after.requests = [request for request in after.requests if (request.branch, request.action) != action]
    after.requests.append(NextRequest(event.branch, event.action, list(event.to), event.policy, event.priority))


HANDLERS: dict[type[Event], Callable[[Execution, Any], None]] = {
    CaseStarted: _case_started,
    CaseEvaluated: _case_evaluated,
    BranchSuppressed: _branch_suppressed,
    NextRequested: _next_requested,
}
