"""Replays a log under another playbook: where would the engine have decided otherwise?

Inputs (the request, reports of workers, signals, timers, grants) are taken from the log. What the engine decides is
decided again and compared, event by event, up to the first difference: after it the log no longer applies. Transitions
fire one at a time, because the log of a fork may leave its source between two of them. Tools are not called, so the
outcome of a task with other inputs is not known.
"""

from __future__ import annotations

from collections import deque
from typing import Any

import msgspec

from noetl.engine import events as e
from noetl.engine.commands import Start
from noetl.engine.decide import ACCEPT
from noetl.engine.decision import Decision
from noetl.engine.envelope import payload_of
from noetl.engine.history.reasons import rules_of
from noetl.engine.history.same_data import same_data
from noetl.engine.history.task_scope import task_at
from noetl.engine.settle import MAX_FIRINGS, fire, fire_later, observe
from noetl.engine.start import start
from noetl.engine.state import Execution
from noetl.engine.timers import timer_due
from noetl.expression import Contents

DECIDED = (
    *(e.RequestEvaluated, e.PlaybookStarted, e.WorkflowStarted, e.WorkflowFinished, e.PlaybookProcessed),
    *(e.TokenEnqueued, e.TokenHeld, e.TokenDenied, e.StepScheduled, e.NextEvaluated),
    *(e.LoopStarted, e.LoopDone, e.TimerArmed),
)
"""Events that follow from the playbook and the state."""
MAX_CLOCK_ERROR = 1e-6


class Difference(msgspec.Struct, frozen=True):
    """The first event of a log that another playbook would not have led to."""

    seq: int
    event_type: str
    logged: dict[str, Any] | None
    replayed: dict[str, Any] | None  # the event in its place, with its name as `event_type`; None if there is none
    message: str


class Replay:
    def __init__(self, state: Execution, ctx: dict[str, Any]) -> None:
        self.state, self.ctx = state, ctx
        self.due: deque[e.Event] = deque()  # events that were decided, and are not in the log yet
        self.firings = 0  # since the last input

    def take(
        self, event: e.Event, seq: int, at: float, contents: Contents, *, reopened: bool = False
    ) -> Difference | None:
        """Take the next event of the log. May stop with Need; then call it again. If it is the last item of a loop that
        is `reopened` next, the loop does not end."""
        try:
            if not self.due and isinstance(event, DECIDED):
                self._fire(at, contents)
                if not self.due:
                    return _difference(seq, event, None, "the replay makes no decision here")
            if not self.due:
                if isinstance(event, e.TaskDone) and (do := self._directive(event, at, contents)) != event.do:
                    return _difference(seq, event, None, f"the policy of the task decides {do}")
                self._input(event, at, contents, reopened)
            expected = self.due.popleft()
        except (KeyError, AssertionError, IndexError, StopIteration):  # the net has no place for it
            return _difference(seq, event, None, "the playbook has no step or task for this event")
        return None if _same(expected, event) else _difference(seq, event, expected, "the replay decides differently")

    def end(self, seq: int, at: float, contents: Contents) -> Difference | None:
        """Call it after the last event: there must be nothing more to decide."""
        if not self.due and not self.state.over:
            self._fire(at, contents)
        if not self.due:
            return None
        return _difference(seq + 1, None, self.due[0], "the log ends here, and the replay continues")

    def _fire(self, at: float, contents: Contents) -> None:
        """Fire the next transition, if there is one."""
        decision = Decision(self.state, at, contents)
        try:
            if self.firings == MAX_FIRINGS:
                fire_later(decision)
            elif fire(decision):
                self.firings += 1
        finally:
            self.due += decision.events

    def _input(self, event: e.Event, at: float, contents: Contents, reopened: bool) -> None:
        """Apply an event that was not decided, and its immediate consequences."""
        decision, self.firings = Decision(self.state, at, contents), 0
        try:
            match event:
                case e.ExecutionRequested(payload=payload, parent=parent, actor=actor):
                    start(decision, Start(payload, self.ctx, parent, actor=actor))
                case e.TimerFired(timer=timer):
                    timer_due(decision, timer)
                    observe(decision)
                case e.IterationDone() | e.IterationFailed() if not reopened:  # a loop may be over with it
                    ACCEPT[type(event)](decision, 0, event)
                case _:
                    decision.emit(event)
        finally:
            self.due += decision.events
        if not self.due:  # a timer that is not there
            raise KeyError(event.name)

    def _directive(self, event: e.TaskDone, at: float, contents: Contents) -> str:
        task = task_at(self.state.net, event.task)
        if task is None:
            raise KeyError(event.task.label)
        if task.poll is not None or event.task.chain:  # what follows is not up to its policy alone
            return event.do
        if task.policy is None:
            return "continue" if event.outcome.ok else "fail"
        decision = rules_of(Decision(self.state, at, contents), event)
        return (decision.differs if decision is not None else "") or event.do


def _same(expected: e.Event, event: e.Event) -> bool:
    """An execution of another playbook has another digest, and perhaps another path. The API shows times in
    microseconds, so a due time may differ by less than one."""
    if isinstance(expected, e.ExecutionRequested) and isinstance(event, e.ExecutionRequested):
        return same_data(expected.payload, event.payload)
    if isinstance(expected, e.RequestEvaluated) and isinstance(event, e.RequestEvaluated):
        expected = msgspec.structs.replace(expected, warnings=event.warnings)  # they decide nothing
    due, expected_due = getattr(event, "due", None), getattr(expected, "due", None)
    if due is not None and expected_due is not None and abs(due - expected_due) < MAX_CLOCK_ERROR:
        expected = msgspec.structs.replace(expected, due=due)
    return same_data(expected, event)


def _difference(seq: int, logged: e.Event | None, decided: e.Event | None, message: str) -> Difference:
    return Difference(seq, (logged or decided or e.Event).name, _data(logged), _data(decided), message)


def _data(event: e.Event | None) -> dict[str, Any] | None:
    return None if event is None else {"event_type": event.name, **payload_of(event)}
