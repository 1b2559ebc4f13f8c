"""Tokens: they arrive at a step and are admitted, held or denied."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from noetl.engine import events as e
from noetl.engine.net import StepPlan
from noetl.engine.state import Ended, Execution, Handlers, Token
from noetl.engine.step_runs import template_failure
from noetl.engine.timer_keys import TokenDelay
from noetl.errors import TemplateError
from noetl.model.identity import step_of

if TYPE_CHECKING:
    from noetl.engine.decision import Decision

MAX_TOKENS = 10_000


# -- decisions ------------------------------------------------------------------------------------------------------


def admit(decision: Decision, token: Token) -> bool:
    """Evaluate the gate of a step for one token. A token that is not admitted is held, or denied if the gate fails."""
    plan = decision.state.net.steps[token.step]
    try:
        if is_allowed(decision, plan, (token,)):
            return True
    except TemplateError as error:
        decision.emit(e.TokenDenied(token.id, error=template_failure(error, plan.name, "admit")))
        return False
    if token.id in decision.state.unadmitted:
        decision.emit(e.TokenHeld(token.id))
    return False


def is_allowed(decision: Decision, plan: StepPlan, tokens: Sequence[Token]) -> bool:
    """Whether the gate of a step admits tokens together. TemplateError if a rule cannot be evaluated."""
    if not plan.admit:
        return True
    scope = decision.scope(*merged_args(decision.state, tokens), tokens[0].event)
    with decision.allowance:
        matched = [allow for test, allow in plan.admit if test(scope)]
    if not matched:
        return not plan.admit[-1][1]
    assert plan.step.admit is not None
    return all(matched) if plan.step.admit.mode == "inclusive" else matched[0]


def merged_args(state: Execution, tokens: Sequence[Token]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The args of tokens, merged in the document order of their source steps (S6), and by source step."""
    if len(tokens) == 1:
        token = tokens[0]
        return token.args, {step_of(token.origin): token.args} if token.origin else {}
    order = {name: plan.order for name, plan in state.net.steps.items()}
    args: dict[str, Any] = {}
    args_by: dict[str, Any] = {}
    for token in sorted(tokens, key=lambda token: order.get(step_of(token.origin or ""), -1)):
        args.update(token.args)
        if token.origin:
            args_by[step_of(token.origin)] = token.args
    return args, args_by


# -- events ---------------------------------------------------------------------------------------------------------


def _enqueued(state: Execution, event: e.TokenEnqueued, at: float) -> None:
    sender = state.ended.get(event.origin) if event.origin else None
    sent_by = sender.event if sender else None
    token = Token(event.token, event.step, event.args, event.origin, event.due, sent_by, at)
    state.tokens[token.id] = token
    state.next_token = token.id + 1
    change_occupancy(state, token.step, 1)
    if sender is not None:
        sender.tokens -= 1
        leave_when_sent(state, sender)
    if token.due is not None:
        state.timers[TokenDelay(token.id).name] = token.due
        state.delayed[token.id] = None
    else:
        arrive(state, token)


def arrive(state: Execution, token: Token) -> None:
    """The token is at its step: at the gate, or waiting for others where the step joins."""
    if state.net.steps[token.step].joins:
        state.waiting.setdefault(token.step, []).append(token.id)
    else:
        state.unadmitted[token.id] = None


def _held(state: Execution, event: e.TokenHeld, at: float) -> None:
    state.unadmitted.pop(event.token, None)
    state.held[event.token] = None


def _denied(state: Execution, event: e.TokenDenied, at: float) -> None:
    take_token(state, event.token)
    state.failure = state.failure or event.error


def take_token(state: Execution, number: int) -> Token:
    token = state.tokens.pop(number)
    state.unadmitted.pop(number, None)
    state.held.pop(number, None)
    waiting = state.waiting.get(token.step)
    if waiting and number in waiting:
        waiting.remove(number)
    change_occupancy(state, token.step, -1)
    return token


def change_occupancy(state: Execution, step: str, change: int) -> None:
    count = state.occupancy.get(step, 0) + change
    if count:
        state.occupancy[step] = count
    else:
        state.occupancy.pop(step, None)


def leave_when_sent(state: Execution, ended: Ended) -> None:
    """An ended run leaves its step when all of its tokens are sent."""
    if ended.tokens == 0:
        del state.ended[ended.run]
        change_occupancy(state, step_of(ended.run), -1)


HANDLERS: Handlers = {
    e.TokenEnqueued: _enqueued,
    e.TokenHeld: _held,
    e.TokenDenied: _denied,
}
