"""decide(decision, command): the events that follow from a command.

A `Decision` holds the state and the time. Each event is evolved into the state at once, so later parts of the decision
see earlier ones; the caller drops the state if the events cannot be stored. No await, clock, randomness or I/O. Late
and repeated commands have no events.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from noetl.engine import events as e
from noetl.engine.admissible import Inadmissible, check_fact
from noetl.engine.commands import (
    Abandon,
    Cancel,
    ChildEnded,
    Claim,
    Command,
    Fork,
    Lost,
    Pause,
    Report,
    Resume,
    Signal,
    Start,
    TimerDue,
)
from noetl.engine.decision import Decision
from noetl.engine.history.fork import fork
from noetl.engine.leases import claim, lose_lease
from noetl.engine.lifecycle import abandon
from noetl.engine.loops import accept_iteration, fail_iteration
from noetl.engine.settle import settle
from noetl.engine.start import start
from noetl.engine.tasks import accept_task, load_for_reducers
from noetl.engine.timers import timer_due
from noetl.engine.waits import end_child, receive_signal
from noetl.expression import Budget


def decide(decision: Decision, command: Command) -> None:
    """Decide a command. Need may stop it: load what is needed, then call `decide` again if there are no events yet,
    else `carry_on`."""
    if not decision.state.over:
        _decide(decision, command)
        carry_on(decision, command)


def carry_on(decision: Decision, command: Command) -> None:
    """Settle the net, and grant the worker that reported its next work."""
    if decision.events:
        settle(decision)
    if isinstance(command, Report) and command.claim is not None:
        claim(decision, command.claim)


def _decide(decision: Decision, command: Command) -> None:
    state = decision.state
    match command:
        case Start():
            start(decision, command)
        case Claim():
            claim(decision, command)
        case Report():
            accept_report(decision, command)
        case Lost(fence=fence):
            lose_lease(decision, fence)
        case TimerDue(timer=timer):
            timer_due(decision, timer)
        case Signal():
            receive_signal(decision, command)
        case ChildEnded(child=child, outcome=outcome):
            end_child(decision, child, outcome)
        case Fork():
            fork(decision, command)
        case Abandon():
            if command.report is not None:
                accept_report(decision, command.report)
            abandon(decision, command)
        case Cancel(reason=reason, actor=actor):
            if state.status != "cancelling":
                decision.emit(e.PlaybookCancelled(reason, actor))
        case Pause(actor=actor):
            if state.status in ("running", "waiting"):
                decision.emit(e.PlaybookPaused(actor))
        case Resume(actor=actor):
            if state.status == "paused":
                decision.emit(e.PlaybookResumed(actor))


def accept_report(decision: Decision, report: Report) -> None:
    """Accept the facts of a worker while its lease is valid; a fact may end the lease for those after it. Inadmissible
    if the log lacks the grant or earlier facts: the worker has them from a state that was lost."""
    state = decision.state
    lease = state.leases.get(report.fence)
    if lease is None:
        return
    if report.grant not in (None, lease.claim):
        raise Inadmissible(f"lease {report.fence} was granted to another claim")
    if report.first > lease.facts:
        raise Inadmissible(f"lease {report.fence} has {lease.facts} facts, not {report.first}")
    facts = report.facts[max(0, lease.facts - report.first) :]
    if state.net.steps[state.runs[lease.run].step].writes:
        load_for_reducers(decision, facts, report.blobs)
    decision.blobs += report.blobs
    previous: e.Event | None = None
    budget = Budget()
    for fact in facts:
        if report.fence not in state.leases:
            return
        if report.foreign:
            check_fact(state, report.fence, fact, previous, budget)
            previous = fact
        accept = ACCEPT.get(type(fact))
        if accept is None:
            decision.emit(fact)
        else:
            accept(decision, report.fence, fact)
    lease = state.leases.get(report.fence)
    if report.hand_back and lease is not None:
        decision.emit(e.StepPaused(lease.run, report.fence, "returned"))


ACCEPT: dict[type[e.Event], Callable[[Decision, int, Any], None]] = {
    e.TaskDone: accept_task,
    e.SinkProcessed: accept_task,
    e.IterationDone: accept_iteration,
    e.IterationFailed: fail_iteration,
}
"""Facts from which more follows than that they are stored."""
