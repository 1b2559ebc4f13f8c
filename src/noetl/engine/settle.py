"""Fires enabled transitions until none is left, and ends the execution when nothing can run any more.

Nothing is searched: the fold puts tokens, ended runs and waiting joins on work lists of the state, and `settle` empties
them. If nothing is enabled and nothing runs, held tokens are denied, oldest first; then a blocked join fires with the
earliest token; then the final step runs; then the execution ends (S2).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from noetl.engine import events as e
from noetl.engine.joins import fire_blocked_join, fire_ready_join
from noetl.engine.lifecycle import finish
from noetl.engine.routing import route
from noetl.engine.schedule import schedule
from noetl.engine.state import Token
from noetl.engine.timer_keys import MoreFirings
from noetl.engine.tokens import admit
from noetl.engine.waits import deliver_signal

if TYPE_CHECKING:
    from noetl.engine.decision import Decision

MAX_FIRINGS = 1_000


def settle(decision: Decision) -> None:
    """Fire until quiet. After many firings a timer that is due now continues."""
    observe(decision)
    for _ in range(MAX_FIRINGS):
        if not fire(decision):
            return
    fire_later(decision)


def fire(decision: Decision) -> bool:
    """Fire one transition; False if none is enabled. Nothing fires during a pause (S32)."""
    state = decision.state
    if state.over or state.status == "paused" or not _fire(decision):
        return False
    observe(decision)
    return True


def fire_later(decision: Decision) -> None:
    decision.emit(e.TimerArmed(MoreFirings().name, decision.now))


def observe(decision: Decision) -> None:
    """Let observing runs evaluate the events of the decision. An event leaves the list once it was evaluated."""
    while decision.unobserved:
        name, event = decision.unobserved[0]
        run = decision.state.runs.get(name)
        if run is not None and not decision.state.over:
            rules = decision.state.net.steps[run.step].after_call
            if rules is not None:
                rules.observe(decision, run, event)
        del decision.unobserved[0]


def _fire(decision: Decision) -> bool:
    state = decision.state
    if state.status == "cancelling":
        return finish(decision, "cancelled")
    ended = next((ended for ended in state.ended.values() if ended.tokens < 0), None)
    if ended is not None:
        route(decision, ended)
        return True
    stops = state.deadline_passed or state.net.playbook.executor.on_failure == "stop"
    if state.failure is not None and state.finished is None and stops:
        return finish(decision, "failed")
    if state.unadmitted:
        _admit(decision, state.tokens[next(iter(state.unadmitted))])
        return True
    return deliver_signal(decision) or _readmit_held(decision) or fire_ready_join(decision) or _end(decision)


def _admit(decision: Decision, token: Token) -> None:
    if admit(decision, token):
        schedule(decision, decision.state.net.steps[token.step], (token.id,))


def _readmit_held(decision: Decision) -> bool:
    """Evaluate the gates of held tokens again after `ctx` has changed or a signal has come."""
    state = decision.state
    if not state.changed:
        return False
    before = len(decision.events)
    for number in list(state.held):
        if not state.net.steps[state.tokens[number].step].joins:  # a join admits its tokens together
            _admit(decision, state.tokens[number])
    state.changed = False  # only now: a template may have needed a stored value first
    return len(decision.events) > before


def _end(decision: Decision) -> bool:
    """Nothing is enabled. If nothing runs either, deny, join or finish."""
    state = decision.state
    if state.runs or state.delayed:
        return False
    if state.held:
        decision.emit(e.TokenDenied(next(iter(state.held))))
        return True
    if any(state.waiting.values()):
        return fire_blocked_join(decision)
    return finish(decision, "failed" if state.failure is not None else "succeeded")
