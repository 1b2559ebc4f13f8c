"""Why an execution went as it did: each guard once more, on the state as it was when it was looked at.

Events carry decisions, not reasons. A reason is found by folding the log to just before the decision and evaluating
the guards again: arcs before `next.evaluated`, rules before `task.done`, admission before `token.held`,
`token.denied` and `step.scheduled`. What comes out can differ from the log, since a guard may ask for the time, or
look at what its worker saw a little earlier; then the explanation says so, and the log is right.

An `Explainer` watches a fold: `see` gets each event before it is evolved, and may stop with Need like any evaluation.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import msgspec

from noetl.engine import events as e
from noetl.engine.decision import Decision
from noetl.engine.history.task_scope import task_at, task_scope
from noetl.engine.listen import branch_number, branch_scope, call_event
from noetl.engine.net import StepPlan, guard_test
from noetl.engine.state import Ended, Execution, Run, Token
from noetl.engine.tokens import merged_args
from noetl.errors import TemplateError
from noetl.expression import Missing, lookup, parse
from noetl.model.identity import step_of
from noetl.model.playbook import DEFAULT_ATTEMPTS, Guard, Poll, Rule, Task
from noetl.reference import Need, Reference, preview_of, shape_of
from noetl.scope import Scope, StepView

MOST = 200
"""So many decisions are told, the latest ones."""
SHOWN_BYTES = 2_000
BEHIND_RULES = ("template", "ctx_conflict", "too_large")
"""Errors that can come up after a rule has matched: what it writes can't be evaluated, stored, or be written twice."""

Verdict = Literal["matched", "not matched", "not reached", "error"]


class Reason(msgspec.Struct, frozen=True):
    """One arc or rule: what it leads to, and what came of its guard."""

    place: str
    """Its key among the places of the playbook: `STEP/next/0`."""
    leads_to: str
    when: str | None
    """The guard as it is written; None where there is none."""
    verdict: Verdict
    values: dict[str, Any] = {}
    """What the names in the guard stood for."""
    missing: list[str] = []
    """Names that stood for nothing."""
    note: str = ""


class ExplainedDecision(msgspec.Struct, frozen=True):
    """Something that was decided, and why."""

    seq: int
    at: float
    kind: Literal["arcs", "rules", "admission", "case"]
    about: str
    """The run, the visit of a task, or the step that tokens wanted to enter."""
    says: str
    reasons: list[Reason]
    differs: str = ""
    """What comes out when it is looked at again, where that is not what the log says."""


class Explanation(msgspec.Struct, frozen=True):
    """All that was decided about a step, and how it stands now."""

    step: str
    decisions: list[ExplainedDecision]
    left_out: int
    """How many earlier decisions are not told."""
    stands: list[str]


# -- guards ---------------------------------------------------------------------------------------------------------


class Guarded(NamedTuple):
    """An arc or a rule on its way to a reason."""

    place: str
    leads_to: str
    when: Guard | None
    test: Callable[[Mapping[str, Any]], bool]


def _reason(one: Guarded, verdict: Verdict, scope: Scope | None = None, note: str = "") -> Reason:
    source = one.when if isinstance(one.when, str) else None if one.when in (None, True) else "false"
    values, missing = _values(source, scope) if source and scope is not None else ({}, [])
    return Reason(one.place, one.leads_to, source, verdict, values, missing, note)


def _looked_at(one: Guarded, scope: Scope) -> Reason:
    try:
        return _reason(one, "matched" if one.test(scope) else "not matched", scope)
    except TemplateError as error:
        return _reason(one, "error", scope, error.message)


def _values(source: str, scope: Scope) -> tuple[dict[str, Any], list[str]]:
    """What the names of a guard stand for. A stored value that was not looked into stays a reference."""
    values: dict[str, Any] = {}
    missing: list[str] = []
    for read in parse(source).reads:
        name = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in read.path).lstrip(".")
        found = _value(scope, read.path)
        if isinstance(found, Missing):
            missing.append(name)
        else:
            values[name] = _short(found)
    return values, list(dict.fromkeys(missing))


def _value(scope: Scope, path: Sequence[str | int]) -> Any:
    nothing = Missing("")
    try:
        found = scope[str(path[0])]
    except KeyError:
        return nothing
    for key in path[1:]:
        before = found
        try:
            found = lookup(found, key, nothing)
        except Need:
            return before
        except TemplateError as error:
            return {"left_out": error.message}
    return found


def _short(value: Any) -> Any:
    """The value as it is shown: views as data, and of what is large only what it is."""
    if isinstance(value, StepView):
        value = value.step.result if type(value) is not StepView else _step(value)
    if isinstance(value, Reference):
        return value
    try:
        size = len(msgspec.json.encode(value, enc_hook=_reference))
    except (TypeError, ValueError, msgspec.MsgspecError, RecursionError):
        return {"left_out": "a value that can't be shown"}
    if size <= SHOWN_BYTES:
        return value
    return {"left_out": f"{shape_of(value)} of {size:,} bytes", "preview": preview_of(value)}


def _step(view: StepView) -> dict[str, Any]:
    return {"status": view.step.status, "result": _short(view.step.result), "error": view.step.error}


def _reference(value: Any) -> Any:
    if isinstance(value, Reference):
        return value.as_data()
    raise TypeError(type(value).__name__)


# -- arcs -----------------------------------------------------------------------------------------------------------

BLIND = "after a failure only an arc is looked at whose guard looks at `event`, or at this step's status or error"


def arcs_of(state: Execution, event: e.NextEvaluated, seq: int, at: float) -> ExplainedDecision:
    """Why arcs of an ended run fired or did not."""
    ended = state.ended[event.run]
    plan = state.net.steps[step_of(event.run)]
    if state.finished is not None:
        says = f"{event.run} ended with {event.on}; it is the final step, which stands outside the net"
        return ExplainedDecision(seq, at, "arcs", event.run, says, [])
    if event.to or event.taken:
        what = _targets([to.step for to in event.to]) if event.to else "a branch of its case has taken that up"
        by = f", as {event.winner_branch} asks ({event.policy})" if event.to else ""
        return ExplainedDecision(seq, at, "arcs", event.run, f"{event.run} ended with {event.on}; {what}{by}", [])
    reasons = list(_arc_reasons(state, ended, at))
    selected = tuple(i for i, one in enumerate(reasons) if one.verdict == "matched")
    failed = any(one.verdict == "error" for one in reasons)
    recorded = "error" if event.error is not None else event.selected
    found = "error" if failed else selected
    of_guards = event.error is None or event.error.get("kind") == "template"
    differs = _targets([plan.arcs[i].step for i in selected]) if of_guards and found != recorded else ""
    says = f"{event.run} ended with {event.on}; {_routed(event, plan)}"
    return ExplainedDecision(seq, at, "arcs", event.run, says, reasons, differs)


def _routed(event: e.NextEvaluated, plan: StepPlan) -> str:
    if event.error is not None:
        return f"the execution failed here: {event.error.get('message')}"
    failed = event.on == "step.failed"
    if not event.selected:
        what = "the execution fails" if failed else "its branch ends"
        return f"it has no arcs, so {what}" if not plan.arcs else f"no arc matched, so {what}"
    mode = "" if plan.inclusive else " (exclusive: the first that matches)"
    return _targets([plan.arcs[i].step for i in event.selected]) + mode


def _targets(steps: Sequence[str]) -> str:
    return f"goes on with {', '.join(steps)}" if steps else "no arc matches"


def _arc_reasons(state: Execution, ended: Ended, at: float) -> Iterator[Reason]:
    plan = state.net.steps[step_of(ended.run)]
    scope = Decision(state, at).scope(ended.args, ended.args_by, ended.event)
    over = False
    for i, arc in enumerate(plan.arcs):
        one = Guarded(f"{plan.name}/next/{i}", arc.step, plan.step.router.arcs[i].when, arc.test)
        if over:
            yield _reason(one, "not reached")
            continue
        if ended.on == "step.failed" and not arc.sees_failure:
            yield _reason(one, "not reached", note=BLIND)
            continue
        reason = _looked_at(one, scope)
        if reason.verdict == "matched" and arc.args is not None:
            try:
                arc.args(scope)
            except TemplateError as error:
                reason = _reason(one, "error", scope, f"its args: {error.message}")
        over = reason.verdict == "error" or (reason.verdict == "matched" and not plan.inclusive)
        yield reason


# -- rules ----------------------------------------------------------------------------------------------------------


def rules_of(state: Execution, event: e.TaskDone, seq: int, at: float) -> ExplainedDecision | None:
    """Why a rule of a task's policy decided what came after an outcome; None where there was nothing to decide."""
    task = task_at(state, event.task)
    if task is None or (task.policy is None and event.outcome.ok and event.do == "continue"):
        return None
    about = f"{event.task}"
    came_to = "skipped" if event.skipped else f"attempt {event.attempt}: {_outcome(event)}"
    if task.poll is not None:
        return _poll(task.poll, event, seq, at, f"{about}, {came_to}; {_what(event)}", task_scope(state, event, at))
    if task.policy is None:
        why = "it has no policy, and an error fails" if event.do == "fail" else _what(event)
        return ExplainedDecision(seq, at, "rules", about, f"{about}, {came_to}; {why}", [])
    scope = task_scope(state, event, at)
    reasons = list(_rule_reasons(event, task, scope))
    chosen = next((i for i, one in enumerate(reasons) if one.verdict == "matched"), None)
    do, note = _directive(event, task.policy[chosen].then.do if chosen is not None else "continue", task, chosen)
    expected = "" if do == event.do or any(one.verdict == "error" for one in reasons) else do
    error = event.outcome.error
    if expected and event.do == "fail" and error is not None and error.kind in BEHIND_RULES:
        expected, note = "", f": {error.message}"  # what the rule was to write could not be, and stands in its place
    says = f"{about}, {came_to}; {_what(event)}{note}"
    if chosen is None and not expected and event.do == "continue":
        says = f"{about}, {came_to}; no rule matches, so it continues"
    return ExplainedDecision(seq, at, "rules", about, says, reasons, expected)


def _poll(poll: Poll, event: e.TaskDone, seq: int, at: float, says: str, scope: Scope) -> ExplainedDecision:
    """A call that is made again until something holds (classic)."""
    until = Guarded(_owner(event), "ready", poll.until, guard_test(poll.until))
    return ExplainedDecision(seq, at, "rules", str(event.task), says, [_looked_at(until, scope)])


def _owner(event: e.TaskDone) -> str:
    labels = "/".join(part.partition("#")[0] for part in event.task.path.split("/"))
    return f"{step_of(event.task.run)}/{labels}"


def _outcome(event: e.TaskDone) -> str:
    error = event.outcome.error
    return "ok" if error is None else f"error {error.kind}"


def _what(event: e.TaskDone) -> str:
    return f"{event.do} to {event.to}" if event.do == "jump" else event.do


def _directive(event: e.TaskDone, do: str, task: Task, chosen: int | None) -> tuple[str, str]:
    """What the matching rule makes of it: after the last attempt a retry is a failure."""
    if do != "retry" or chosen is None or task.policy is None:
        return do, ""
    limit = task.policy[chosen].then.attempts or DEFAULT_ATTEMPTS
    return ("fail", f", since attempt {event.attempt} of {limit} was the last") if event.attempt >= limit else (do, "")


def _rule_reasons(event: e.TaskDone, task: Task, scope: Scope) -> Iterator[Reason]:
    """Rules that skip are looked at before the first attempt, the others after each."""
    owner = _owner(event)
    over = False
    early = Scope({name: value for name, value in scope.items() if name != "outcome"})
    for i, rule in enumerate(task.policy or ()):
        one = Guarded(f"{owner}/rules/{i}", _leads_to(rule), rule.when, guard_test(rule.when))
        skips = rule.then.do == "skip"
        if over or (event.skipped and not skips):
            yield _reason(one, "not reached")
        elif skips and event.attempt > 1:
            yield _reason(one, "not reached", note="looked at before the first attempt only")
        else:
            reason = _looked_at(one, early if skips else scope)
            over = reason.verdict in ("matched", "error")
            yield reason


def _leads_to(rule: Rule) -> str:
    return f"jump to {rule.then.to}" if rule.then.do == "jump" else rule.then.do


# -- branches of a classic step -------------------------------------------------------------------------------------


def case_of(state: Execution, event: e.CaseEvaluated, seq: int, at: float) -> ExplainedDecision:
    """Why branches of a case fired or did not."""
    run = state.runs[event.run]
    plan = state.net.steps[run.step]
    assert plan.cases is not None
    assert run.tail is not None
    decision = Decision(state, at)
    scope = branch_scope(decision, run, event.event or call_event(run, event.trigger_event))
    if not plan.cases.listens:  # its worker sees ctx as of the first grant
        scope["ctx"] = run.ctx
    reasons = []
    for branch in plan.cases.branches:
        one = Guarded(f"{run.step}/{branch.name}", branch.name, _branch_guard(plan, branch.name), branch.test)
        if branch.name in run.tail.fired:
            reasons.append(_reason(one, "not reached", note="it has fired before"))
        elif run.tail.failure is not None and not branch.sees_failure and not branch.otherwise:
            reasons.append(_reason(one, "not reached", note=BLIND))
        else:
            reasons.append(_branch_reason(one, branch.otherwise, branch.name in event.matched, scope))
    fired = f"{', '.join(event.order)} fire{'s' * (len(event.order) == 1)}" if event.order else "no branch fires"
    says = f"{event.run}, at {event.trigger_event}: {fired} ({event.case_mode})"
    differs = [one.leads_to for one in reasons if one.leads_to in event.matched and one.verdict == "not matched"]
    return ExplainedDecision(
        seq, at, "case", event.run, says, reasons, f"{', '.join(differs)} would not" if differs else ""
    )


def _branch_guard(plan: StepPlan, name: str) -> Guard | None:
    assert plan.step.tail is not None
    assert plan.step.tail.cases is not None
    return plan.step.tail.cases.branches[branch_number(name)].when


def _branch_reason(one: Guarded, otherwise: bool, fired: bool, scope: Scope) -> Reason:
    """An `else` has no guard, and one that holds behind an exclusive one that fired is not reached."""
    if otherwise:
        return _reason(one, "matched" if fired else "not reached")
    found = _looked_at(one, scope)
    return found if fired or found.verdict != "matched" else _reason(one, "not reached")


# -- admission ------------------------------------------------------------------------------------------------------


def admission_of(
    state: Execution, tokens: Sequence[Token], seq: int, at: float, says: str, let_in: bool
) -> ExplainedDecision:
    """Why tokens may enter their step or not."""
    reasons, allowed = _admission(state, tokens, at)
    differs = "" if allowed is None or allowed == let_in else "would be let in" if allowed else "would be held"
    return ExplainedDecision(seq, at, "admission", tokens[0].step if tokens else "", says, reasons, differs)


def _admission(state: Execution, tokens: Sequence[Token], at: float) -> tuple[list[Reason], bool | None]:
    """Each rule of the gate, and what follows; None if a rule can't be evaluated."""
    plan = state.net.steps[tokens[0].step] if tokens else None
    admit = plan.step.admit if plan is not None else None
    if plan is None or admit is None:
        return [], True
    scope = Decision(state, at).scope(*merged_args(state, tokens), tokens[0].event)
    reasons: list[Reason] = []
    allows: list[bool] = []
    for i, (rule, (test, allow)) in enumerate(zip(admit.rules, plan.admit, strict=True)):
        one = Guarded(f"{plan.name}/admit/{i}", "allow" if allow else "deny", rule.when, test)
        reason = _looked_at(one, scope)
        if allows and admit.mode == "exclusive" and reason.verdict != "error":
            reason = _reason(one, "not reached")
        if reason.verdict == "matched":
            allows.append(allow)
        reasons.append(reason)
    if any(one.verdict == "error" for one in reasons):
        return reasons, None
    return reasons, all(allows) if allows else not plan.admit[-1][1]


# -- the whole ------------------------------------------------------------------------------------------------------


class Explainer:
    """Watches a fold for what is decided about one step, or about one run of it."""

    def __init__(self, step: str, run: str | None = None) -> None:
        self.step, self.run = step, run
        self.decisions: deque[ExplainedDecision] = deque(maxlen=MOST)
        self.count = 0
        self.before: dict[str, ExplainedDecision] = {}
        """The latest decision about the arcs of each step that leads here."""
        self.came = self.entered = False

    def see(self, state: Execution, event: e.Event, seq: int, at: float) -> None:
        """Takes an event that is not in the state yet."""
        match event:
            case e.NextEvaluated(run=run) if run in state.ended:
                if self._is_mine(run):
                    self._keep(arcs_of(state, event, seq, at))
                elif not self.entered and any(arc.step == self.step for arc in state.net.steps[step_of(run)].arcs):
                    self.before[step_of(run)] = arcs_of(state, event, seq, at)
            case e.TaskDone(task=task) if self._is_mine(task.run) and task.run in state.runs:
                found = rules_of(state, event, seq, at)
                if found is not None:
                    self._keep(found)
            case e.TokenEnqueued(step=step) if step == self.step:
                self.came = True
            case e.CaseEvaluated(run=run) if self._is_mine(run) and run in state.runs:
                self._keep(case_of(state, event, seq, at))
            case e.StepScheduled(run=run) if step_of(run) == self.step:
                self.entered = True
                if self._is_mine(run):
                    self._keep(self._entry(state, event, seq, at))
            case e.TokenHeld(token=number) if self._is_at_step(state, number):
                tokens = self._together(state, number)
                says = f"token {number}{_from(state.tokens[number])} is held: {self.step} does not let it in"
                self._keep(admission_of(state, tokens, seq, at, says, let_in=False))
            case e.TokenDenied(token=number) if self._is_at_step(state, number):
                self._keep(self._denial(state, event, seq, at))

    def _is_mine(self, run: str) -> bool:
        return run == self.run if self.run is not None else step_of(run) == self.step

    def _is_at_step(self, state: Execution, token: int) -> bool:
        return self.run is None and token in state.tokens and state.tokens[token].step == self.step

    def _together(self, state: Execution, number: int) -> list[Token]:
        """Tokens at a join go in together."""
        if state.net.steps[self.step].joins:
            return [state.tokens[one] for one in state.waiting.get(self.step, [number])]
        return [state.tokens[number]]

    def _entry(self, state: Execution, event: e.StepScheduled, seq: int, at: float) -> ExplainedDecision:
        tokens = [state.tokens[number] for number in event.tokens]
        if not tokens:
            says = f"{event.run} begins: the workflow has ended, and this is its final step"
        else:
            names = ", ".join(f"token {token.id}{_from(token)}" for token in tokens)
            says = f"{event.run} begins with {names}"
            if state.net.steps[self.step].joins:
                says += "; no other token could still come"
        return admission_of(state, tokens, seq, at, says, let_in=True)

    def _denial(self, state: Execution, event: e.TokenDenied, seq: int, at: float) -> ExplainedDecision:
        says = f"token {event.token} is denied: nothing else could run any more, so nothing would ever let it in"
        if event.error is not None:
            says = f"token {event.token} is denied, and the execution failed here: {event.error.get('message')}"
            if event.error.get("kind") != "template":
                return ExplainedDecision(seq, at, "admission", self.step, says, [])
        return admission_of(state, self._together(state, event.token), seq, at, says, let_in=False)

    def _keep(self, decision: ExplainedDecision) -> None:
        self.count += 1
        self.decisions.append(decision)

    def conclude(self, state: Execution, at: float) -> Explanation:
        """The explanation, once the whole log is in the state."""
        stands = list(self._alive(state, at))
        if not self.entered and not stands:
            stands = list(self._never(state))
            if not self.came:
                self.decisions.extend(sorted(self.before.values(), key=lambda one: one.seq))
        return Explanation(self.step, list(self.decisions), max(0, self.count - MOST), stands)

    # -- how it stands ----------------------------------------------------------------------------------------------

    def _alive(self, state: Execution, at: float) -> Iterator[str]:
        for run in state.runs.values():
            if self._is_mine(run.id):
                yield _busy(state, run)
        if self.run is not None or self.step not in state.net.steps:
            return
        yield from self._tokens(state, at)
        waiting = state.waiting.get(self.step)
        if waiting:
            yield from self._join(state, waiting)

    def _tokens(self, state: Execution, at: float) -> Iterator[str]:
        paused = "; the execution is paused" if state.status == "paused" else ""
        for token in state.tokens.values():
            if token.step != self.step:
                continue
            name = f"token {token.id}{_from(token)}"
            if token.id in state.held:
                reasons, allowed = _admission(state, self._together(state, token.id), at)
                why = "; ".join(f"{_guard_words(one)} is {one.verdict}" for one in reasons)
                soon = "would be let in now" if allowed else "is held until ctx changes or a signal comes"
                yield f"{name} {soon}: {why}{paused}"
            elif token.id in state.delayed:
                yield f"{name} is on its way: its arc delays it"
            elif token.id in state.unadmitted:
                yield f"{name} is about to enter{paused}"

    def _join(self, state: Execution, waiting: Sequence[int]) -> Iterator[str]:
        names = ", ".join(f"token {number}{_from(state.tokens[number])}" for number in waiting)
        who = list(_rivals(state, self.step))
        if who:
            yield f"{names} wait{'s' * (len(waiting) == 1)} here for others: {'; '.join(who)} may still come"

    def _never(self, state: Execution) -> Iterator[str]:
        """Why the step was not entered, as of the steps that lead to it."""
        if self.run is not None:
            yield f"there was no run {self.run}"
            return
        playbook = state.net.playbook
        if self.step == playbook.final:
            yield "it has not run: it is the final step, which runs when all others have ended, but not after a cancel"
            return
        if self.came:
            ended = "" if self.count else f": the execution was {state.status} before it could enter"
            yield f"it has not run: a token has come, and was not let in{ended}"
            return
        sources = [name for name, plan in state.net.steps.items() if any(arc.step == self.step for arc in plan.arcs)]
        if not sources:
            yield "it has not run: no arc leads to it"
            return
        yield "it has not run: no token has come to it"
        for name in sources:
            if name in self.before:
                yield f"{name} did not lead here, see event {self.before[name].seq}"
            elif state.occupancy.get(name):
                yield f"{name} is under way, and may still lead here"
            elif name in state.steps:
                yield f"{name} was {state.steps[name].status}, and its arcs were not looked at"
            else:
                yield f"{name} has not run either"


def _from(token: Token) -> str:
    return f" (from {token.origin})" if token.origin else ""


def _guard_words(one: Reason) -> str:
    return "else" if one.when is None else one.when.strip().removeprefix("{{").removesuffix("}}").strip()


def _busy(state: Execution, run: Run) -> str:
    """What a run that is alive is doing."""
    if run.parked:
        (key, parked), *more = run.parked.items()
        item = "" if run.loop is None else f" with item {key}" + (f" and {len(more)} more" if more else "")
        what = {"signal": f"the signal {parked.key!r}", "child": f"its child {parked.key}"}
        return f"{run.id} waits{item} for {what.get(parked.until, 'its next attempt')}"
    workers = sorted({lease.worker for lease in state.leases.values() if lease.run == run.id})
    if workers:
        return f"{run.id} is in the hands of {', '.join(workers)}"
    pool = state.ready.get(run.id)
    if state.status == "paused":
        return f"{run.id} is not handed out: the execution is paused"
    return f"{run.id} is ready for a worker of the pool {pool}" if pool else f"{run.id} is under way"


def _rivals(state: Execution, step: str) -> Iterator[str]:
    """What is alive elsewhere and can still reach a join."""
    rivals = state.net.competing_steps[step]
    for run in state.runs.values():
        if run.step in rivals and run.step != step:
            yield f"the run {run.id}"
    for ended in state.ended:
        if step_of(ended) in rivals:
            yield f"what follows {ended}"
    for token in state.tokens.values():
        if token.id in state.delayed and token.step == step:
            yield f"token {token.id}, which its arc delays"
        elif token.step in rivals and token.step != step:
            held = ", which is held" if token.id in state.held else ""
            yield f"token {token.id} at {token.step}{held}"
