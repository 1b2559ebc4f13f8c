"""Routing: an ended run selects arcs and sends tokens through them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from noetl.engine import events as e
from noetl.engine.limits import EventTooLarge, shrink
from noetl.engine.state import Ended, Execution, Handlers
from noetl.engine.step_runs import limit_failure, template_failure
from noetl.engine.tokens import MAX_TOKENS, leave_when_sent
from noetl.errors import TemplateError
from noetl.model.identity import step_of
from noetl.model.playbook import Target

if TYPE_CHECKING:
    from noetl.engine.decision import Decision


class Unroutable(Exception):
    """The execution fails, because the tokens of an ended run cannot be sent."""

    def __init__(self, error: dict[str, Any]) -> None:
        super().__init__(error["message"])
        self.error = error


def route(decision: Decision, ended: Ended) -> None:
    """Decide where an ended run leads, and send its tokens."""
    if decision.state.finished is not None:  # the final step is outside the net
        decision.emit(e.NextEvaluated(ended.run, ended.on))
        return
    rules = decision.state.net.steps[step_of(ended.run)].after_call
    requested = rules.route(ended) if rules is not None else None
    try:
        evaluated, targets = requested or _selected_arcs(decision, ended)
        tokens = _tokens(decision, ended, targets)
    except Unroutable as unroutable:
        decision.emit(e.NextEvaluated(ended.run, ended.on, error=unroutable.error))
        return
    decision.emit(evaluated)
    for token in tokens:
        decision.emit(token)


def _selected_arcs(decision: Decision, ended: Ended) -> tuple[e.NextEvaluated, list[Target]]:
    """Evaluate the guards and args of the arcs."""
    plan = decision.state.net.steps[step_of(ended.run)]
    scope = decision.scope(ended.args, ended.args_by, ended.event)
    selected: list[int] = []
    targets: list[Target] = []
    try:
        with decision.allowance:
            for number, arc in enumerate(plan.arcs):
                if ended.on == "step.failed" and not arc.sees_failure:
                    continue
                if arc.test(scope):
                    selected.append(number)
                    targets.append(Target(arc.step, arc.args(scope) if arc.args is not None else {}, arc.delay))
                    if not plan.inclusive:
                        break
    except TemplateError as error:
        raise Unroutable(template_failure(error, plan.name, f"next/{number}")) from None
    return e.NextEvaluated(ended.run, ended.on, tuple(selected), taken=ended.failure_handled), targets


def _tokens(decision: Decision, ended: Ended, targets: list[Target]) -> list[e.Event]:
    state, step = decision.state, step_of(ended.run)
    if len(state.tokens) + len(targets) > MAX_TOKENS:
        raise Unroutable(limit_failure(f"more than {MAX_TOKENS:,} tokens at once", step))
    tokens = []
    for number, target in enumerate(targets, start=state.next_token):
        if target.step not in state.net.steps:
            message = f"`next` leads to {target.step[:200]!r}, and no step is called that"
            raise Unroutable({"kind": "not_found", "message": message, "step": step})
        due = None if target.delay is None else decision.now + target.delay
        args = {**ended.args, **target.args} if target.args else ended.args
        try:
            tokens.append(shrink(e.TokenEnqueued(number, target.step, args, ended.run, due), decision.blobs))
        except EventTooLarge as error:
            message = f"the args of a token: {error}"
            raise Unroutable({"kind": "too_large", "message": message, "step": step}) from None
    return tokens


def _evaluated(state: Execution, event: e.NextEvaluated, at: float) -> None:
    ended = state.ended[event.run]
    if ended.on == "step.failed":
        error = ended.event["data"]["error"]
        state.errors.append(error)
        if not (event.selected or event.to or event.taken):
            state.failure = state.failure or error
    state.failure = state.failure or event.error
    ended.tokens = len(event.selected) + len(event.to)
    leave_when_sent(state, ended)


HANDLERS: Handlers = {e.NextEvaluated: _evaluated}
