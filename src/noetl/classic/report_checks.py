"""Checks of the events that a worker reports for classic steps; see `noetl.engine.admissible`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, cast

from noetl.classic.branches import POINTS, CasePlan
from noetl.classic.events import BranchSuppressed, CaseEvaluated, CaseStarted, NextRequested
from noetl.classic.state import AfterCallProgress
from noetl.engine.admissible import Facts, Link, known_values, label_after, refuse, require
from noetl.engine.events import Event, StepPaused
from noetl.engine.known_values import fits
from noetl.model.playbook import Goto

if TYPE_CHECKING:
    from noetl.classic.rules import ClassicRules


def check_chain(facts: Facts, name: str) -> Sequence[Link]:
    step = facts.plan.step
    chains = step.after_call.chains if step.after_call is not None and facts.run.after_call is not None else {}
    require(name in chains, f"the step has no chain {name[:200]!r}")
    called = not step.tasks or _progress(facts).begun or facts.progress(None, "").ended
    require(called, f"chain {name!r} runs only after the call of the step")
    if name.startswith("case_"):
        require(name in _running(facts), f"branch {name!r} was not chosen")
    return chains[name]


def check_wait(facts: Facts, fact: StepPaused) -> None:
    facts.holds(None)
    rest = (fact.index, fact.due, fact.request, fact.chain)
    require(_cases(facts).observes and rest == (None, None, None, ""), "the step does not wait for an event")
    if fact.key == "call":
        require(isinstance(facts.previous, CaseStarted), "the call of the step has not just ended")
        return
    order = _running(facts)
    ended = bool(order) and all(_has_ended(facts, name) for name in order)
    require(fact.key == "case" and ended, "chains of the case have not ended")


def _has_ended(facts: Facts, name: str) -> bool:
    suppressed = name in _progress(facts).suppressed
    return suppressed or not check_chain(facts, name) or facts.progress(None, f"{name}/").ended


def _progress(facts: Facts) -> AfterCallProgress:
    if facts.run.after_call is None:
        refuse("the step has no case")
    return facts.run.after_call


def _cases(facts: Facts) -> CasePlan:
    cases = cast("ClassicRules", facts.plan.after_call).cases
    if cases is None:
        refuse("the step has no case")
    return cases


def _running(facts: Facts) -> list[str]:
    batches = _progress(facts).batches
    return batches[0].order if batches else []


def _case_started(facts: Facts, fact: CaseStarted) -> None:
    facts.holds(None)
    plan, after, point = _cases(facts), _progress(facts), fact.trigger_event
    require(point in POINTS and not fact.revoked, "workers must not report this")
    require(point != "step.exit" or not plan.observes, "a step that observes events has no exit of its own")
    require((point == "step.exit") == bool(after.point), f"the case is at {after.point!r}")
    require(after.point != "step.exit", "the exit of the step was already evaluated")
    if point != "step.exit":
        require((point == "call.error") == (fact.error is not None), "an error belongs to call.error")
    facts.failed_at(None, fact.task, fact.attempt)


def _case_evaluated(facts: Facts, fact: CaseEvaluated) -> None:
    facts.holds(None)
    plan, after = _cases(facts), _progress(facts)
    require(not plan.observes, "the server evaluates the branches of a step that observes events")
    require((fact.event, fact.message) == (None, None), "workers do not receive signals")
    require(fact.trigger_event == after.point != after.evaluated, f"the case is at {after.point!r}")
    names = [branch.name for branch in plan.branches]
    order = [name for name in names if name in fact.order and name not in after.fired]
    require(list(fact.order) == order and sorted(fact.matched) == sorted(order), "these branches cannot be chosen")
    require(plan.mode != "exclusive" or len(after.fired) + len(order) <= 1, "only one branch can be chosen")
    require((fact.case_mode, fact.eval_mode) == (plan.mode, plan.evaluate), "the mode does not match the case")


def _next_requested(facts: Facts, fact: NextRequested) -> None:
    facts.holds(None)
    plan, prefix = _cases(facts), f"{fact.branch}/"
    require(
        fact.branch.startswith("case_") and "/" not in fact.branch, f"{fact.branch[:200]!r} is not a branch of the case"
    )
    links, link, _ = facts.next_link(None, prefix)
    if not isinstance(link, Goto) or link.label != fact.action:
        refuse(f"the chain is at {link.label!r}, not at {fact.action[:200]!r}")
    policy = link.policy or plan.policy
    reported = (fact.policy, fact.priority, fact.pending, fact.then)
    then = label_after(links, link) if policy == "defer" else None
    require(
        reported == (policy, link.priority, policy != "end_step", then), "policy or priority differs from the playbook"
    )
    require(len(fact.to) == len(link.to), "the targets differ from the playbook")
    known = known_values(facts, None, prefix)
    for target, arc in zip(fact.to, link.to, strict=True):
        delay = arc.delay if arc.delay is not None else link.delay
        matches = fits(arc.step, target.step, known) and fits(arc.args, target.args, known)
        require(matches and target.delay == delay, "the targets differ from the playbook")


def _branch_suppressed(facts: Facts, fact: BranchSuppressed) -> None:
    facts.holds(None)
    order, after = _running(facts), _progress(facts)
    ends = [request.branch for request in after.requests if request.policy == "end_step"]
    require(fact.winner_branch in order and fact.winner_branch in ends, "the winner has not ended the step")
    behind = order[order.index(fact.winner_branch) + 1 :]
    require(fact.branch in behind and fact.branch not in after.suppressed, "the branch does not come after the winner")


CHECKS: dict[type[Event], Callable[[Facts, Any], None]] = {
    CaseStarted: _case_started,
    CaseEvaluated: _case_evaluated,
    BranchSuppressed: _branch_suppressed,
    NextRequested: _next_requested,
}
