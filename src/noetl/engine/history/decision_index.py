"""Where the decisions about a step are in a log, as far as its outline shows."""

from __future__ import annotations

from collections import deque

from noetl.engine.history.explain import Question
from noetl.engine.history.outline import Block, run_names
from noetl.engine.history.outline_fold import rows
from noetl.engine.history.outline_loop import LoopPart
from noetl.engine.history.run_index import Span
from noetl.engine.net import Net
from noetl.model.identity import step_of


class DecisionIndex:
    """Add the blocks of an outline in order, up to `until`. Decisions before `before` count, the latest `most` of those
    that the outline has one by one: entries, evaluated arcs, and refused tokens."""

    def __init__(self, question: Question, net: Net, until: int, before: int, most: int, *, edited: bool) -> None:
        self.question, self.until, self.last = question, until, min(until, before - 1)
        self.sources = [name for name, plan in net.steps.items() if any(arc.step == question.step for arc in plan.arcs)]
        self.seqs: deque[int] = deque(maxlen=most)
        self.spans: list[Span] = []  # with decisions about tasks of the step, possibly
        self.routed: dict[str, int] = {}  # the latest evaluation of the arcs of each step that leads to it
        self.entered = self.arrived = self.refused = False
        self.items = 0  # of the longest loop in question
        self._has_rules = edited or _has_rules(net, question.step)  # the rules of an earlier playbook are not loaded
        self._open: set[str] = set()
        self._tokens: set[int] = set()

    def add(self, block: Block) -> None:
        names, seqs = run_names(block), []
        totals = [part.total for part in block.loops if self.question.is_about(names[part.run])]
        self.items = max(self.items, *totals, 0)
        for number, step, _, offset in rows(block.tokens, 4):
            if block.steps[step] == self.question.step and block.first + offset <= self.until:
                self.arrived = True
                self._tokens.add(number)
        for number, offset, _ in rows(block.held, 3):
            if number in self._tokens and block.first + offset <= self.until:
                self.refused = True
                seqs.append(block.first + offset)
        for run, offset, tokens in block.scheduled:
            self._tokens.difference_update(tokens)
            if step_of(names[run]) == self.question.step and block.first + offset <= self.until:
                self.entered = True
                seqs += [block.first + offset] if self.question.is_about(names[run]) else []
        arcs = [(names[run], block.first + offset) for run, offset in rows(block.routed, 2)]
        for name, seq in arcs:
            if step_of(name) in self.sources and seq <= self.until:
                self.routed[step_of(name)] = seq
        evaluated = [seq for name, seq in arcs if self.question.is_about(name)]
        if self.question.item is None:
            seqs = [*seqs, *evaluated] if self.question.arc is None else evaluated
            self.seqs.extend(seq for seq in sorted(seqs) if seq <= self.last)
        if self._was_open(block, names) and self.question.arc is None and self._may_decide(block, names):
            self.spans += [(block.first, min(self.last, block.first + block.events - 1))] * (block.first <= self.last)

    def _was_open(self, block: Block, names: list[str]) -> bool:
        """Whether a run in question was open at any time of the block."""
        changes: list[tuple[int, str, bool]] = [(offset, names[run], True) for run, offset, _ in block.scheduled]
        changes += [(offset, names[run], False) for run, offset, _ in rows(block.ended, 3)]
        changes += [(offset, run, True) for offset, run in block.reopened]
        changes += [(offset, "", False) for offset in block.stops]
        was_open = bool(self._open)
        for _, run, opens in sorted(changes):
            if not run:
                self._open.clear()
            elif self.question.is_about(run):
                was_open = True
                self._open.add(run) if opens else self._open.discard(run)
        return was_open

    def _may_decide(self, block: Block, names: list[str]) -> bool:
        """Where no task has rules, only errors, retries and ends of waits are decisions."""
        parts = [part for part in block.loops if self.question.is_about(names[part.run])]
        if self.question.item is not None:
            return any(_has_item(part, self.question.item) for part in parts)
        special = block.errors or block.retries or block.waits or block.markers
        return self._has_rules or bool(special) or any(part.parked or part.touched for part in parts)


def _has_rules(net: Net, step: str) -> bool:
    plan = net.steps.get(step)
    if plan is None or plan.after_call is not None:
        return True
    return any(task.policy is not None or task.poll is not None for _, task in plan.step.every_task)


def _has_item(part: LoopPart, item: int) -> bool:
    ranges = (pair for flat in (part.done, part.failed, part.touched) for pair in rows(flat, 2))
    return any(start <= item < end for start, end in ranges)
