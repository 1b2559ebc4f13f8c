"""Joins: a step with `join: all` waits until no other token can reach it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from noetl.engine import events as e
from noetl.engine.schedule import schedule
from noetl.engine.step_runs import template_failure
from noetl.engine.tokens import is_allowed
from noetl.errors import TemplateError

if TYPE_CHECKING:
    from noetl.engine.decision import Decision


def fire_ready_join(decision: Decision) -> bool:
    """Fire a join that no token or run elsewhere can still reach; False if there is none."""
    state = decision.state
    if not state.waiting:
        return False
    delayed = {state.tokens[number].step for number in state.delayed}
    for step, tokens in list(state.waiting.items()):
        if tokens and step not in delayed:
            competing = state.net.competing_steps[step]
            if not any(name in competing for name in state.occupancy if name != step) and fire_join(decision, step):
                return True
    return False


def fire_blocked_join(decision: Decision) -> bool:
    """Fire the join with the earliest token, because nothing else runs; False if no join waits."""
    waiting = [(tokens[0], step) for step, tokens in decision.state.waiting.items() if tokens]
    return bool(waiting) and fire_join(decision, min(waiting)[1])


def fire_join(decision: Decision, step: str) -> bool:
    """Admit all tokens of a join together, or hold them. Whether that changed anything."""
    state = decision.state
    plan = state.net.steps[step]
    tokens = tuple(state.waiting[step])
    try:
        allowed = is_allowed(decision, plan, [state.tokens[number] for number in tokens])
    except TemplateError as error:
        decision.emit(e.TokenDenied(tokens[0], error=template_failure(error, plan.name, "admit")))
        return True
    if allowed:
        schedule(decision, plan, tokens)
        return True
    unheld = [number for number in tokens if number not in state.held]
    for number in unheld:
        decision.emit(e.TokenHeld(number))
    return bool(unheld)
