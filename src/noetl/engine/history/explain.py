"""Explains why a step ran as it did, or did not run: the decisions about it, and its state now."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import msgspec

from noetl.classic.events import CaseEvaluated
from noetl.engine import events as e
from noetl.engine.decision import Decision
from noetl.engine.history.reasons import (
    ExplainedDecision,
    Reason,
    admission,
    admission_of,
    arcs_of,
    case_of,
    decides_nothing,
    rules_of,
)
from noetl.engine.net import Net
from noetl.engine.signal_fields import signal_commands
from noetl.engine.state import Execution, Run, Token
from noetl.engine.waits import awaited_text, received_signals, received_text
from noetl.expression import parse
from noetl.model.identity import step_of
from noetl.model.playbook import Goto, Step
from noetl.timestamps import rfc3339


class Explanation(msgspec.Struct, frozen=True):
    step: str
    decisions: list[ExplainedDecision]
    next: int | None  # there may be earlier decisions, before this event
    notes: list[str]


class StepArrival(NamedTuple):
    """Whether tokens and runs reached a step, for the notes on one that never ran."""

    entered: bool
    arrived: bool  # whether a token was sent to it
    decided: bool  # whether there is a decision about its tokens
    before: Mapping[str, ExplainedDecision]  # the latest about the arcs of each step that leads to it


class Question(NamedTuple):
    """The subject of an explanation: a step, one run of it, one item of its loops, or one of its arcs."""

    step: str
    run: str | None = None
    item: int | None = None
    arc: int | None = None

    def concerns(self, event: e.Event, net: Net) -> bool:
        """Whether an event of a task or a case is a decision about it, as far as the event itself shows."""
        match event:
            case e.TaskDone(task=task):
                concerned = self.is_about(task.run) and self.item in (None, task.index)
                return concerned and self.arc is None and not decides_nothing(net, event)
            case CaseEvaluated(run=run):
                return self.is_about(run) and self.item is None and self.arc is None
        return False

    def decision(self, past: Decision, event: e.Event) -> ExplainedDecision | None:
        """The decision that an event is, which is not in the state yet; None if it decides nothing about the step. May
        stop with Need like any evaluation; then call it again."""
        state = past.state
        match event:
            case e.NextEvaluated(run=run) if run in state.ended and self.is_about(run):
                return arcs_of(past, event)
            case e.TaskDone(task=task) if self.is_about(task.run) and task.run in state.runs:
                return rules_of(past, event)
            case CaseEvaluated(run=run) if self.is_about(run) and run in state.runs:
                return case_of(past, event)
            case e.StepScheduled(run=run) if self.is_about(run):
                return self._entry(past, event)
            case e.TokenHeld(token=number) | e.TokenDenied(token=number) if self.run is None:
                if number in state.tokens and state.tokens[number].step == self.step:
                    return self._refusal(past, event, number)
        return None

    def is_about(self, run: str) -> bool:
        """Whether it is a run in question."""
        return run == self.run if self.run is not None else step_of(run) == self.step

    def _together(self, state: Execution, number: int) -> list[Token]:
        """Tokens at a join enter together."""
        if state.net.steps[self.step].joins:
            return [state.tokens[token] for token in state.waiting.get(self.step, [number])]
        return [state.tokens[number]]

    def _entry(self, past: Decision, event: e.StepScheduled) -> ExplainedDecision:
        state = past.state
        tokens = [state.tokens[number] for number in event.tokens]
        if not tokens:
            says = f"{event.run} starts: the workflow has ended, and this is its final step"
        else:
            says = f"{event.run} starts with {', '.join(map(_name, tokens))}"
            if state.net.steps[self.step].joins:
                says += "; no other token can still arrive"
        return admission_of(past, tokens, says, admitted=True)

    def _refusal(self, past: Decision, event: e.TokenHeld | e.TokenDenied, number: int) -> ExplainedDecision:
        state = past.state
        if isinstance(event, e.TokenHeld):
            says = f"{_name(state.tokens[number])} is held: {self.step} does not admit it"
        elif event.error is None:
            says = f"token {number} is denied: nothing else can run, so nothing can admit it any more"
        else:
            says = f"token {number} is denied, and the execution failed here: {event.error.get('message')}"
            if event.error.get("kind") != "template":
                return ExplainedDecision(past.state.seq + 1, past.now, "admission", self.step, says, [])
        return admission_of(past, self._together(state, number), says, admitted=False)

    def notes(self, past: Decision, arrival: StepArrival) -> list[str]:
        """The status of the step; for one that never ran, the reason."""
        notes = list(self._alive(past))
        return notes if notes or arrival.entered else list(self._never(past.state, arrival))

    def _alive(self, past: Decision) -> Iterator[str]:
        state = past.state
        for run in state.runs.values():
            if self.is_about(run.id) and self.item is None:
                yield _activity(state, run)
            elif self.is_about(run.id) and self.item in run.parked:
                yield _wait(state, run, f"{run.id}[{self.item}] waits", self.item)
        if self.run is not None or self.item is not None or self.step not in state.net.steps:
            return
        paused = "; the execution is paused" if state.status == "paused" else ""
        for token in [token for token in state.tokens.values() if token.step == self.step]:
            if token.id in state.held:
                reasons, allowed = admission(past, self._together(state, token.id))
                reason_text = "; ".join(f"{_source(reason)} is {reason.verdict}" for reason in reasons)
                soon = "would be admitted now" if allowed else "is held until ctx changes or a signal arrives"
                yield f"{_name(token)} {soon}: {reason_text}{paused}"
            elif token.id in state.delayed:
                yield f"{_name(token)} is delayed by its arc"
            elif token.id in state.unadmitted:
                yield f"{_name(token)} is about to enter{paused}"
        waiting = state.waiting.get(self.step, ())
        others = "; ".join(_competitors(state, self.step)) if waiting else ""
        if others:
            names = ", ".join(_name(state.tokens[number]) for number in waiting)
            yield f"{names} wait{'s' * (len(waiting) == 1)} here for others: {others} may still arrive"

    def _never(self, state: Execution, arrival: StepArrival) -> Iterator[str]:
        plans = state.net.steps
        sources = [name for name, plan in plans.items() if self.step in plan.targets(plans)]
        if self.run is not None:
            yield f"step run {self.run} does not exist"
        elif self.step == state.net.playbook.final:
            yield "it has not run: it is the final step, which runs when all others have ended, but not after a cancel"
        elif arrival.arrived:
            ended = "" if arrival.decided else f": the execution was {state.status} before it could enter"
            yield f"it has not run: a token arrived, and was not admitted{ended}"
        else:
            yield f"it has not run: {'no token arrived' if sources else 'no arc leads to it'}"
            for name in sources:
                branches = _branches_to(plans[name].step, self.step)
                if name in arrival.before:
                    yield f"{name} did not lead here, see event {arrival.before[name].seq}"
                if name in state.steps and not state.occupancy.get(name):
                    command = f"`noetl explain {state.id} {name}` shows why"
                    yield from (f"{name} did not lead here by its branch {branch}: {command}" for branch in branches)
                if name in arrival.before:
                    continue
                if state.occupancy.get(name):
                    yield f"{name} is running, and may still lead here"
                elif name in state.steps and not branches:
                    yield f"{name} was {state.steps[name].status}, and its arcs were not evaluated"
                elif name not in state.steps:
                    yield f"{name} has not run either"


def _branches_to(step: Step, target: str) -> list[str]:
    """The branches of a classic step that may lead to another one, with their guards."""
    cases = step.after_call.cases if step.after_call else None
    names = []
    for number, branch in enumerate(cases.branches if cases else ()):
        arcs = [arc for link in branch.chain if isinstance(link, Goto) for arc in link.to]
        if any(arc.step == target or not parse(arc.step).is_constant for arc in arcs):
            guard = "else" if branch.when is None else f"when {' '.join(str(branch.when).split())}"
            names.append(f"case_{number}, {guard}")
    return names


def _name(token: Token) -> str:
    return f"token {token.id}" + (f" (from {token.origin})" if token.origin else "")


def _source(reason: Reason) -> str:
    return "else" if reason.when is None else reason.when.strip().removeprefix("{{").removesuffix("}}").strip()


def _activity(state: Execution, run: Run) -> str:
    if run.parked:
        key, *more = run.parked
        item = "" if run.loop is None else f" with item {key}" + (f" and {len(more)} more" if more else "")
        return _wait(state, run, f"{run.id} waits{item}", key)
    workers = sorted({lease.worker for lease in state.leases.values() if lease.run == run.id})
    if workers:
        return f"{run.id} is leased to {', '.join(workers)}"
    if state.status == "paused":
        return f"{run.id} is not dispatched: the execution is paused"
    pool = state.ready.get(run.id)
    return f"{run.id} is ready for a worker of the pool {pool}" if pool else f"{run.id} is running"


def _wait(state: Execution, run: Run, waits: str, index: int) -> str:
    parked = run.parked[index]
    if signal := received_signals(state).get((run.id, index)):
        return f"{waits} for {awaited_text(parked)}; {received_text(signal)}"
    until = f" until {rfc3339(parked.due, 'seconds')}" if parked.due is not None else ""
    commands = " or ".join(f"`{command}`" for command in signal_commands(state.net, state.id, run.step, parked.signals))
    answer = f"; answer with {commands}" if commands else ""
    return f"{waits} for {awaited_text(parked)}{until}{answer}"


def _competitors(state: Execution, step: str) -> Iterator[str]:
    steps = state.net.competing_steps[step]
    for run in state.runs.values():
        if run.step in steps and run.step != step:
            yield f"the run {run.id}"
    for ended in state.ended:
        if step_of(ended) in steps:
            yield f"what follows {ended}"
    for token in state.tokens.values():
        if token.id in state.delayed and token.step == step:
            yield f"token {token.id}, which its arc delays"
        elif token.step in steps and token.step != step:
            suffix = ", which is held" if token.id in state.held else ""
            yield f"token {token.id} at {token.step}{suffix}"
