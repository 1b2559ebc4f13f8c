"""Explains decisions of the past: finds them in the outline and folds from the nearest snapshot before each."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping
from functools import partial
from heapq import merge
from itertools import takewhile
from typing import Any, NamedTuple

from noetl.classic.events import CaseEvaluated
from noetl.dsl.problem import did_you_mean, hint_names
from noetl.engine import events as e
from noetl.engine.decision import Decision
from noetl.engine.history.decision_index import DecisionIndex
from noetl.engine.history.explain import Explanation, Question, StepArrival
from noetl.engine.history.reasons import ExplainedDecision, shortened
from noetl.engine.history.run_index import Span
from noetl.engine.history.task_scope import task_at, task_scope
from noetl.engine.net import Net
from noetl.engine.state import Execution
from noetl.errors import NotFound, TemplateError, UsageError
from noetl.model.identity import number_of, step_of
from noetl.pipeline.bound import rendered_inputs
from noetl.runtime.contents import DecisionContents
from noetl.runtime.outlines import blocks
from noetl.runtime.past import PastReader
from noetl.scope import Scope
from noetl.store.codec import decode
from noetl.tools.registry import KINDS
from noetl.wording import counted

TASK_DECISIONS = (e.TaskDone.name, e.SinkProcessed.name, CaseEvaluated.name)
ROWS_PER_READ = 200
MAX_SCANNED = 20_000  # outcomes of tasks that are read to find decisions; then the caller has to continue
DEFAULT_DECISIONS = 5


class ExplanationPart(NamedTuple):
    """Which decisions are explained: the latest `limit` before `before`, as of the event `at`."""

    at: int | None = None  # the last event that counts; None: all
    before: int | None = None
    limit: int = DEFAULT_DECISIONS


class Explained(NamedTuple):
    explanation: Explanation
    state: Execution
    inputs: Mapping[str, Any] | None = None  # of the task that was decided about, rendered again


def explain(past: PastReader, execution: str, question: Question, part: ExplanationPart) -> Explained:
    """Explain decisions about a step; also returns the state as of `at`."""
    until = part.at or past.store.seq(execution)
    state, now = past.state_at(execution, max(1, until))
    _check(question, state)
    before = until + 1 if part.before is None else part.before
    index = DecisionIndex(question, state.net, until, before, part.limit + 1, edited=state.forked is not None)
    for block in blocks(past.store, execution):
        past.check_stopped()
        if block.first > until:
            break
        index.add(block)
    if question.item is not None and index.entered and question.item >= index.items:
        loop = f"its loop has {index.items:,} items" if index.items else "it has no items"
        raise NotFound(f"item {question.item} of step {question.step!r} not found: {loop}")
    search = TaskSearch(past, execution, question, state.net, index.spans)
    newest = merge(reversed(index.seqs), search.seqs(), reverse=True)
    seqs = [seq for seq, _ in zip(newest, range(part.limit + 1), strict=False)]
    seqs = list(takewhile(lambda seq: seq >= search.scanned_to, seqs))
    following = seqs[part.limit - 1] if len(seqs) > part.limit else search.scanned_to or None
    decisions = _explained(past, execution, dict.fromkeys(seqs[: part.limit], question))
    arcs_before: dict[str, ExplainedDecision] = {}
    if not index.entered and not index.arrived and question.run is None:
        routes = {seq: Question(source) for source, seq in index.routed.items()}
        arcs_before = {step_of(decision.about): decision for decision in _explained(past, execution, routes)}
    arrival = StepArrival(index.entered, index.arrived, index.refused, arcs_before)
    notes = past.evaluated(lambda contents: question.notes(Decision(state, now, contents), arrival))
    decisions = sorted([*decisions, *arcs_before.values()], key=lambda decision: decision.seq)
    return Explained(Explanation(question.step, decisions, following, notes), state)


def explain_event(past: PastReader, execution: str, seq: int) -> Explained:
    """Explain the decision that one event is; UsageError if it decides nothing."""
    state, row = _just_before(past, execution, seq)
    event = decode(row.type, row.data)
    step, run = _about(state, event)
    decide = partial(Question(step, run).decision, event=event)
    decision = past.evaluated(lambda contents: decide(Decision(state, row.at, contents)))
    if decision is None:
        raise UsageError(f"event {seq:,} of {execution} ({row.type}) is not a decision about a step")
    inputs = _inputs(past, state, event, row.at) if isinstance(event, e.TaskDone) else None
    return Explained(Explanation(step, [decision], None, []), past.state_at(execution, seq)[0], inputs)


def _check(question: Question, state: Execution) -> None:
    step, run, times = question.step, question.run, state.entries.get(question.step, 0)
    if step not in state.net.steps and not times:
        hint = did_you_mean(step, state.net.steps) or f"steps: {hint_names(tuple(state.net.steps))}"
        raise NotFound(f"step {step!r} not found: {hint}")
    arcs = state.net.steps[step].arcs if step in state.net.steps else ()
    if question.arc is not None and question.arc >= len(arcs):
        raise NotFound(f"arc {question.arc} of step {step!r} not found: it has {len(arcs)} arcs, counted from 0")
    if run is not None and number_of(run) > times:
        raise NotFound(f"step run {run!r} not found: the step was entered {counted(times, 'time')}")


def question_about(step: str, run: str | None = None, item: int | None = None, arc: int | None = None) -> Question:
    """UsageError if the run is not one of the step."""
    if run is not None and (step_of(run) != step or not number_of(run)):
        raise UsageError(f"{run!r} is not a run of step {step!r}: its runs are {step}#1, {step}#2 and so on")
    return Question(step, run, item, arc)


class TaskSearch:
    """Finds decisions about tasks in spans of a log, the latest first."""

    def __init__(self, past: PastReader, execution: str, question: Question, net: Net, spans: list[Span]) -> None:
        self.past, self.execution, self.question, self.net, self.spans = past, execution, question, net, spans
        self.scanned_to = 0  # where the search was broken off; 0: it was not

    def seqs(self) -> Iterator[int]:
        scanned = 0
        for first, last in reversed(self.spans):
            before = last + 1
            while before > first:
                self.past.check_stopped()
                if scanned >= MAX_SCANNED:
                    self.scanned_to = before
                    return
                rows = self.past.store.read_backwards(
                    self.execution, before, TASK_DECISIONS, ROWS_PER_READ, after=first - 1
                )
                for row in rows:
                    if self.question.concerns(decode(row.type, row.data), self.net):
                        yield row.seq
                scanned += len(rows)
                before = rows[-1].seq if len(rows) == ROWS_PER_READ else first


def _just_before(past: PastReader, execution: str, seq: int, state: Execution | None = None) -> tuple[Execution, Any]:
    """The state before an event, and the row of the event; `state` is one that may be folded further."""
    rows = past.store.read(execution, seq - 1, 1)
    if not rows:
        raise NotFound(f"event {seq:,} not found: {execution} has {past.store.seq(execution):,} events")
    state = state or past.stored_state(execution, seq - 1)
    if state.seq < seq - 1:
        for _ in past.fold(state, seq - 1):
            pass
    return state, rows[0]


def _explained(past: PastReader, execution: str, questions: Mapping[int, Question]) -> list[ExplainedDecision]:
    """The decisions that events are. Those between the same two snapshots share one fold."""
    snapshots = past.store.snapshot_seqs(execution) if questions else []
    state: Execution | None = None
    decisions = []
    for seq in sorted(questions):
        place = bisect_right(snapshots, seq - 1)
        if state is not None and place and snapshots[place - 1] > state.seq:
            state = None
        state, row = _just_before(past, execution, seq, state)
        event = decode(row.type, row.data)
        decide = partial(_decision, questions[seq], state, row.at, event)
        if (decision := past.evaluated(decide)) is not None:
            decisions.append(decision)
    return decisions


def _decision(
    question: Question, state: Execution, at: float, event: e.Event, contents: DecisionContents
) -> ExplainedDecision | None:
    return question.decision(Decision(state, at, contents), event)


def _about(state: Execution, event: e.Event) -> tuple[str, str | None]:
    """The step that an event decides about, and the run of it."""
    match event:
        case e.NextEvaluated(run=run) | e.StepScheduled(run=run) | CaseEvaluated(run=run):
            return step_of(run), run
        case e.TaskDone(task=task):
            return step_of(task.run), task.run
        case e.TokenHeld(token=number) | e.TokenDenied(token=number) if number in state.tokens:
            return state.tokens[number].step, None
    return "", None


def _inputs(past: PastReader, state: Execution, event: e.TaskDone, at: float) -> dict[str, Any] | None:
    """The inputs of the call, rendered again. Programs and SQL are as they are written; secrets are never opened."""
    task = task_at(state.net, event.task)
    kind = KINDS.get(task.kind) if task is not None else None
    if task is None or kind is None:
        return None
    verbatim = dict.fromkeys((*kind.sql, *kind.shell), lambda scope: None)

    def rendered(name: str, contents: DecisionContents) -> Any:
        scope = task_scope(Decision(state, at, contents), event)
        before = Scope({key: value for key, value in scope.items() if key != "outcome"})
        try:
            return shortened(rendered_inputs(kind, {name: task.inputs[name]}, verbatim)(before)[name])
        except TemplateError as error:
            return {"left_out": error.message}

    return {name: past.evaluated(partial(rendered, name)) for name in task.inputs}
