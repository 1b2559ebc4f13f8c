"""Given events, when a command, then events: the contract of the pure core, without worker, store or clock.

    Scenario(workflow).given(*STARTED, granted("start#1", 1)).when(Report(1, (StepDone("start#1"),))).then(...)

Expected events are compared by the fields that they set; fields that they leave at their defaults may be anything.
After each command the decided state must equal the fold of the log, and survive being a snapshot.
"""

from __future__ import annotations

from textwrap import dedent, indent
from typing import Any

import msgspec

from noetl.dsl.compile import load
from noetl.engine import events as e
from noetl.engine.commands import Command
from noetl.engine.decide import decide
from noetl.engine.decision import Decision
from noetl.engine.evolve import evolve
from noetl.engine.net import Net
from noetl.engine.state import Execution
from noetl.store.codec import freeze, thaw
from noetl.tools.registry import KINDS

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: scenario, path: tests/scenario}\n"
EXECUTION, DIGEST = "00000000-0000-7000-8000-000000000003", "the digest of the playbook"


def begun(step: str = "start") -> tuple[e.Event, ...]:
    """The log of an execution whose entry step may run, as its run number 1 with token 1."""
    return (
        e.ExecutionRequested(DIGEST, "tests/scenario"),
        e.RequestEvaluated(),
        e.PlaybookStarted(),
        e.WorkflowStarted(),
        e.TokenEnqueued(1, step),
        e.StepScheduled(f"{step}#1", (1,)),
    )


def ran(step: str, fence: int, result: Any = None, run: int = 1) -> tuple[e.Event, ...]:
    """A worker got the step and has finished it; its arcs are not evaluated yet."""
    return (e.StepStarted(f"{step}#{run}", fence, "worker"), e.StepDone(f"{step}#{run}", result))


class Scenario:
    """One execution: its log so far, and what the last command added."""

    def __init__(self, workflow: str, head: str = "") -> None:
        text = HEAD + dedent(head) + "workflow:\n" + indent(dedent(workflow), "  ")
        self.net = Net(load("scenario.yaml", text, KINDS).require())
        self.log: list[tuple[e.Event, float]] = []
        self.state = self._fold()
        self.events: list[e.Event] = []

    def given(self, *events: e.Event, at: float = 0.0) -> Scenario:
        self.log += [(event, at) for event in events]
        self.state = self._fold()
        return self

    def when(self, command: Command, at: float = 0.0) -> Scenario:
        decision = Decision(self.state, at)
        decide(decision, command)
        self.events = list(decision.events)
        self.log += [(event, at) for event in self.events]
        self._check()
        return self

    def then(self, *expected: e.Event) -> Scenario:
        """Exactly these events, in this order."""
        result = [_fields(event) for event in self.events]
        wanted = [_fields(event) for event in expected]
        assert [name for name, _ in result] == [name for name, _ in wanted], result
        for (name, fields), (_, some) in zip(result, wanted, strict=True):
            assert fields | some == fields, f"{name}: {fields} instead of {some}"
        return self

    def then_nothing(self) -> Scenario:
        return self.then()

    def _fold(self) -> Execution:
        state = Execution(EXECUTION, self.net, DIGEST)
        for event, at in self.log:
            evolve(state, event, at)
        return state

    def _check(self) -> None:
        folded = self._fold()
        for state in (self.state, folded):
            state.changed = state.deliverable = False
        assert folded == self.state
        assert thaw(freeze(folded), self.net) == folded


def _fields(event: e.Event) -> tuple[str, dict[str, Any]]:
    """Its name, and the fields that are not at their defaults."""
    result: dict[str, Any] = msgspec.to_builtins(event)
    return event.name, result
