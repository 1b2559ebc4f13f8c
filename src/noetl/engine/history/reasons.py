"""The reasons of decisions: each guard is evaluated again, on the state of that time.

Events carry decisions, not reasons. A reason is found by folding the log to just before the decision and evaluating
the guards again: arcs before `next.evaluated`, rules before `task.done`, admission before `token.held`,
`token.denied` and `step.scheduled`. The result can differ from the log, since a guard may ask for the time, or read
what its worker saw a little earlier; then the explanation says so, and the log is authoritative.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import msgspec

from noetl.classic.events import CaseEvaluated
from noetl.engine import events as e
from noetl.engine.decision import Decision
from noetl.engine.history.task_scope import task_at, task_scope
from noetl.engine.net import Net, guard_test
from noetl.engine.state import Ended, Token
from noetl.engine.step_runs import error_data
from noetl.engine.tasks import split_path
from noetl.engine.tokens import merged_args
from noetl.errors import TemplateError
from noetl.expression import CONTENTS_KEY, Missing, lookup, parse
from noetl.model.actor import actor_words
from noetl.model.identity import step_of
from noetl.model.playbook import DEFAULT_ATTEMPTS, Guard, Rule
from noetl.reference import Need, Reference, encode_json, preview_of, shape_of
from noetl.scope import Bare, Scope, StepNamespace
from noetl.wording import path_text

MAX_VALUE_BYTES = 2_000  # of a larger value only its shape and a preview are reported
AFTER_RULES = ("template", "ctx_conflict", "too_large")
"""Errors that can occur after a rule has matched: what it writes cannot be evaluated or stored, or is written twice."""
BLIND = "after a failure only an arc is evaluated whose guard reads `event`, or this step's status or error"

DecisionKind = Literal["arcs", "rules", "admission", "case"]
Verdict = Literal["matched", "not matched", "not reached", "error"]


class Reason(msgspec.Struct, frozen=True):
    place: str  # its key among the places of the playbook: `STEP/next/0`
    leads_to: str
    when: str | None
    verdict: Verdict
    values: dict[str, Any] = {}
    missing: list[str] = []
    note: str = ""


class ExplainedDecision(msgspec.Struct, frozen=True):
    seq: int
    at: float
    kind: DecisionKind
    about: str  # the run, the visit of a task, or the step that tokens were to enter
    says: str
    reasons: list[Reason]
    differs: str = ""  # the outcome of a new evaluation, if it differs from the log
    error: dict[str, Any] | None = None  # of the call, or of the rule that could not be applied


class Guarded(NamedTuple):
    place: str
    leads_to: str
    when: Guard | None
    test: Callable[[Mapping[str, Any]], bool]

    def reason(self, verdict: Verdict, scope: Scope | None = None, note: str = "") -> Reason:
        source = self.when if isinstance(self.when, str) else None if self.when in (None, True) else "false"
        values, missing = _values(source, scope) if source and scope is not None else ({}, [])
        return Reason(self.place, self.leads_to, source, verdict, values, missing, note)

    def evaluated(self, scope: Scope) -> Reason:
        try:
            return self.reason("matched" if self.test(scope) else "not matched", scope)
        except TemplateError as error:
            return self.reason("error", scope, error.message)


def _values(source: str, scope: Scope) -> tuple[dict[str, Any], list[str]]:
    """Values of the names in a guard, and the names without one. Stored values that were not read stay references."""
    values: dict[str, Any] = {}
    missing: dict[str, None] = {}
    for read in parse(source).reads:
        name = path_text(read.path).lstrip(".")
        value: Any = Missing("")
        try:
            value = scope[str(read.path[0])]
            for key in read.path[1:]:
                value = lookup(value, key, Missing(""), scope.get(CONTENTS_KEY))
        except (KeyError, Need):  # there is no such name, or the rest of the path is in a stored value
            pass
        except TemplateError as error:
            value = {"left_out": error.message}
        if isinstance(value, Missing):
            missing[name] = None
        else:
            values[name] = shortened(value)
    return values, list(missing)


def shortened(value: Any) -> Any:
    """The value for a report: views as data, and of a large value only its shape."""
    if isinstance(value, StepNamespace):
        step = value.step
        value = {"status": step.status, "result": shortened(step.result), "error": step.error}
    elif isinstance(value, Bare):
        value = value.result
    if isinstance(value, Reference):
        return value
    try:
        size = len(encode_json(value))
    except (TypeError, ValueError, msgspec.MsgspecError, RecursionError):
        return {"left_out": "a value that cannot be encoded"}
    if size <= MAX_VALUE_BYTES:
        return value
    return {"left_out": f"{shape_of(value)} of {size:,} bytes", "preview": preview_of(value)}


def arcs_of(past: Decision, event: e.NextEvaluated) -> ExplainedDecision:
    state, plan = past.state, past.state.net.steps[step_of(event.run)]
    reasons: list[Reason] = []
    differs = ""
    if state.finished is not None:
        routed = "it is the final step, which is not part of the net"
    elif event.to:
        routed = f"{_targets([to.step for to in event.to])}, as {event.winner_branch} requests ({event.policy})"
    elif event.taken:
        routed = "a branch of its case has handled that"
    else:
        reasons = list(_arc_reasons(past, state.ended[event.run]))
        selected = tuple(i for i, reason in enumerate(reasons) if reason.verdict == "matched")
        logged = "error" if event.error is not None else event.selected
        evaluated = "error" if any(reason.verdict == "error" for reason in reasons) else selected
        of_guards = event.error is None or event.error.get("kind") == "template"
        differs = _targets([plan.arcs[i].step for i in selected]) if of_guards and evaluated != logged else ""
        if event.error is not None:
            routed = f"the execution failed here: {event.error.get('message')}"
        elif event.selected:
            mode = "" if plan.inclusive else " (exclusive: the first that matches)"
            routed = _targets([plan.arcs[i].step for i in event.selected]) + mode
        else:
            effect = "the execution fails" if event.on == "step.failed" else "its branch ends"
            routed = f"{'no arc matched' if plan.arcs else 'it has no arcs'}, so {effect}"
    says = f"{event.run} ended with {event.on}; {routed}"
    return ExplainedDecision(past.state.seq + 1, past.now, "arcs", event.run, says, reasons, differs)


def _targets(steps: Sequence[str]) -> str:
    return f"continues with {', '.join(steps)}" if steps else "no arc matches"


def _arc_reasons(past: Decision, ended: Ended) -> Iterator[Reason]:
    plan = past.state.net.steps[step_of(ended.run)]
    scope = past.scope(ended.args, ended.args_by, ended.event)
    over = False
    for i, arc in enumerate(plan.arcs):
        guarded = Guarded(f"{plan.name}/next/{i}", arc.step, plan.step.router.arcs[i].when, arc.test)
        if over:
            yield guarded.reason("not reached")
            continue
        if ended.on == "step.failed" and not arc.sees_failure:
            yield guarded.reason("not reached", note=BLIND)
            continue
        reason = guarded.evaluated(scope)
        if reason.verdict == "matched" and arc.args is not None:
            try:
                arc.args(scope)
            except TemplateError as error:
                reason = guarded.reason("error", scope, f"its args: {error.message}")
        over = reason.verdict == "error" or (reason.verdict == "matched" and not plan.inclusive)
        yield reason


def decides_nothing(net: Net, event: e.TaskDone) -> bool:
    """Whether the next task follows any outcome: there is no policy, no error, and no answer of an actor."""
    if not event.outcome.ok or event.do != "continue" or event.outcome.extra.get("actor") is not None:
        return False
    task = task_at(net, event.task)
    return task is not None and task.policy is None


def rules_of(past: Decision, event: e.TaskDone) -> ExplainedDecision | None:
    """Why a rule of a task's policy matched an outcome; None if there was nothing to decide."""
    task, error = task_at(past.state.net, event.task), event.outcome.error
    actor = event.outcome.extra.get("actor")  # of the signal that a wait received
    if task is None or decides_nothing(past.state.net, event):
        return None
    outcome = "ok" if error is None else f"error {error.kind}"
    if isinstance(actor, dict):
        outcome += f", by {actor_words(actor.get('kind', ''), actor.get('name', ''))}"
    head = f"{event.task}, {'skipped' if event.skipped else f'attempt {event.attempt}: {outcome}'}; "
    directive = f"jump to {event.to}" if event.do == "jump" else event.do
    reasons: list[Reason] = []
    differs = note = ""
    if event.layer == "spec":
        directive = "`spec.retry` repeats the call"
    elif task.poll is not None:  # a call that is repeated until something holds (classic)
        until = Guarded(_owner(event), "ready", task.poll.until, guard_test(task.poll.until))
        reasons = [until.evaluated(task_scope(past, event))]
    elif task.policy is None:
        directive = "it has no policy, and an error fails" if event.do == "fail" else directive
    else:
        reasons = list(_rule_reasons(event, task.policy, task_scope(past, event)))
        rule = next((task.policy[i] for i, reason in enumerate(reasons) if reason.verdict == "matched"), None)
        do, limit = (rule.then.do, rule.then.attempts or DEFAULT_ATTEMPTS) if rule is not None else ("continue", 0)
        progress = past.state.runs[event.task.run].pipelines(event.task.index).get(split_path(event.task.path)[0])
        attempt = progress.round if progress is not None else event.attempt
        if do == "retry" and attempt >= limit:  # after the last attempt a retry is a failure
            do, note = "fail", f", since attempt {attempt} of {limit} was the last"
        if do != event.do and not any(reason.verdict == "error" for reason in reasons):
            differs = do
        problem = event.error or error
        if differs and event.do == "fail" and problem is not None and problem.kind in AFTER_RULES:
            differs, note = "", f": {problem.message}"  # what the rule was to write failed
        directive += note
        if rule is None and not differs and event.do == "continue":
            directive = "no rule matches, so it continues"
    failure, says = event.error or error, head + directive
    data = None
    if failure is not None:
        data = error_data(failure, step_of(event.task.run), event.task.place, event.attempt)
        data |= {} if event.task.index is None else {"item": event.task.index}
    return ExplainedDecision(past.state.seq + 1, past.now, "rules", str(event.task), says, reasons, differs, data)


def _owner(event: e.TaskDone) -> str:
    labels = "/".join(part.partition("#")[0] for part in event.task.path.split("/"))
    return f"{step_of(event.task.run)}/{labels}"


def _rule_reasons(event: e.TaskDone, policy: Iterable[Rule], scope: Scope) -> Iterator[Reason]:
    """Rules that skip are evaluated before the first attempt, the others after each."""
    over = False
    early = Scope({name: value for name, value in scope.items() if name != "outcome"})
    for i, rule in enumerate(policy):
        then, skips = rule.then, rule.then.do == "skip"
        leads_to = f"jump to {then.to}" if then.do == "jump" else then.do
        guarded = Guarded(f"{_owner(event)}/rules/{i}", leads_to, rule.when, guard_test(rule.when))
        if over or (event.skipped and not skips):
            yield guarded.reason("not reached")
        elif skips and event.attempt > 1:
            yield guarded.reason("not reached", note="evaluated before the first attempt only")
        else:
            reason = guarded.evaluated(early if skips else scope)
            over = reason.verdict in ("matched", "error")
            yield reason


def case_of(past: Decision, event: CaseEvaluated) -> ExplainedDecision:
    reasons = list(_branch_reasons(past, event))
    fired = f"{', '.join(event.order)} fire{'s' * (len(event.order) == 1)}" if event.order else "no branch fires"
    says = f"{event.run}, at {event.trigger_event}: {fired} ({event.case_mode})"
    unmatched = [reason.leads_to for reason in reasons if reason.verdict == "not matched"]
    unmatched_names = ", ".join(branch for branch in unmatched if branch in event.matched)
    differs = f"{unmatched_names} would not" if unmatched_names else ""
    return ExplainedDecision(past.state.seq + 1, past.now, "case", event.run, says, reasons, differs)


def _branch_reasons(past: Decision, event: CaseEvaluated) -> Iterator[Reason]:
    # not at the top: a canonical run starts faster
    from noetl.classic.branches import branch_number, branch_scope, call_event
    from noetl.classic.rules import ClassicRules

    run = past.state.runs[event.run]
    plan = past.state.net.steps[run.step]
    assert isinstance(plan.after_call, ClassicRules)
    assert run.after_call is not None
    assert plan.step.after_call is not None
    assert plan.step.after_call.cases is not None
    cases = plan.after_call.cases
    assert cases is not None
    scope = branch_scope(past, run, event.event or call_event(run, event.trigger_event))
    if not cases.observes:  # its worker sees ctx as of the first grant
        scope["ctx"] = run.ctx
    for branch in cases.branches:
        name, fired = branch.name, branch.name in event.matched
        when = plan.step.after_call.cases.branches[branch_number(name)].when
        guarded = Guarded(f"{run.step}/{name}", name, when, branch.test)
        if name in run.after_call.fired:
            yield guarded.reason("not reached", note="it has fired before")
        elif branch.retries:
            yield guarded.reason("not reached", note="it only retries the call, by a rule of its policy")
        elif branch.otherwise:
            yield guarded.reason("matched" if fired else "not reached")
        elif run.after_call.failure is not None and not branch.handles_failure(event.trigger_event):
            yield guarded.reason("not reached", note=BLIND)
        else:
            reason = guarded.evaluated(scope)
            behind_exclusive = reason.verdict == "matched" and not fired
            yield guarded.reason("not reached") if behind_exclusive else reason


def admission_of(past: Decision, tokens: Sequence[Token], says: str, admitted: bool) -> ExplainedDecision:
    reasons, allowed = admission(past, tokens)
    differs = "" if allowed is None or allowed == admitted else "would be admitted" if allowed else "would be held"
    step = tokens[0].step if tokens else ""
    return ExplainedDecision(past.state.seq + 1, past.now, "admission", step, says, reasons, differs)


def admission(past: Decision, tokens: Sequence[Token]) -> tuple[list[Reason], bool | None]:
    """Each rule of the gate, and whether it admits the tokens; None if a rule cannot be evaluated."""
    plan = past.state.net.steps[tokens[0].step] if tokens else None
    admit = plan.step.admit if plan is not None else None
    if plan is None or admit is None:
        return [], True
    scope = Decision(past.state, past.now, past.contents).scope(*merged_args(past.state, tokens), tokens[0].event)
    reasons: list[Reason] = []
    allows: list[bool] = []
    for i, (rule, (test, allow)) in enumerate(zip(admit.rules, plan.admit, strict=True)):
        guarded = Guarded(f"{plan.name}/admit/{i}", "allow" if allow else "deny", rule.when, test)
        reason = guarded.evaluated(scope)
        if allows and admit.mode == "exclusive" and reason.verdict != "error":
            reason = guarded.reason("not reached")
        if reason.verdict == "matched":
            allows.append(allow)
        reasons.append(reason)
    if any(reason.verdict == "error" for reason in reasons):
        return reasons, None
    return reasons, all(allows) if allows else not plan.admit[-1][1]
