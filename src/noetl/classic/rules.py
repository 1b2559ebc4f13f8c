"""The engine's rules for classic steps: `noetl.engine.after_call` as the classic dialect implements it.

`noetl.classic.after_call` describes the part of a classic step after its call.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from noetl.classic import observe, report_checks
from noetl.classic.branches import POINTS, CasePlan
from noetl.classic.events import BranchSuppressed, CaseEvaluated, CaseStarted, NextRequested
from noetl.classic.state import AfterCallProgress, BranchBatch, NextRequest
from noetl.engine.events import Event, NextEvaluated, StepPaused
from noetl.engine.state import Ended, Execution, Run
from noetl.engine.step_runs import refresh_ready
from noetl.engine.timer_keys import WaitLimit
from noetl.engine.waits import consume_signal
from noetl.model.outcome import Error
from noetl.model.playbook import Goto, Step, Target, Task

if TYPE_CHECKING:
    from noetl.engine.admissible import Facts
    from noetl.engine.decision import Decision


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
        self.checks: Mapping[type[Event], Callable[[Facts, Any], None]] = report_checks.CHECKS

    # -- events -----------------------------------------------------------------------------------------------------

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

    # -- decisions --------------------------------------------------------------------------------------------------

    def enter(self, decision: Decision, run: str) -> None:
        observe.enter(decision, self.step, run)

    def observe(self, decision: Decision, run: Run, event: Event) -> None:
        if self.cases is not None:
            observe.observe(decision, self.cases, run, event)

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

    # -- questions --------------------------------------------------------------------------------------------------

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

    def chain(self, facts: Facts, name: str) -> Sequence[Task | Goto]:
        return report_checks.check_chain(facts, name)

    def check_wait(self, facts: Facts, fact: StepPaused) -> None:
        report_checks.check_wait(facts, fact)


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
    if event.revoked:
        _revoke(state, run)
    refresh_ready(state, run)


def _revoke(state: Execution, run: Run) -> None:
    """Release leases, waits and progress of the call of a run; its chains remain."""
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


def _case_evaluated(state: Execution, event: CaseEvaluated) -> None:
    run = state.runs[event.run]
    after = _progress(run)
    if event.trigger_event in POINTS:
        after.evaluated = event.trigger_event
    after.fired.extend(event.order)
    if event.order:
        after.batches.append(BranchBatch(list(event.order), event.event))
    if event.message is not None:
        consume_signal(state, event.message)
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
