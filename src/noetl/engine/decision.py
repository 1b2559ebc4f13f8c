"""A decision: the state, the time, and the events so far."""

from __future__ import annotations

from typing import Any

from noetl.engine.events import Event, StepFailed
from noetl.engine.evolve import evolve
from noetl.engine.limits import SMALL, encoded_size, shrink
from noetl.engine.state import Execution
from noetl.errors import TemplateFailed
from noetl.expression import BUDGET_KEY, CONTENTS_KEY, NOW_KEY, Contents, decision_budget
from noetl.model.outcome import Error
from noetl.reference import CHUNKS, Reference, decoded
from noetl.scope import Scope, StepsView

MAX_INLINED_BYTES = 1 << 20  # The largest stored value that is inlined for a reducer; ctx itself may not be larger


class Decision:
    """Collects the events that follow from a command, and evolves each into the state at once."""

    def __init__(self, state: Execution, now: float, contents: Contents = None) -> None:
        self.state, self.now, self.contents = state, now, contents
        self.budget = decision_budget()  # The limits of all its templates together
        self.allowance = self.budget.allowance
        """Its CPU time, to be counted while templates are evaluated: `with decision.allowance`."""
        self.events: list[Event] = []
        self.blobs: list[tuple[str, bytes]] = []  # Content of the references in the events, to be stored with them
        self.unobserved: list[tuple[str, Event]] = []  # Events that observing runs have not evaluated yet

    def emit(self, event: Event) -> None:
        self.record(event if type(event) in SMALL else shrink(event, self.blobs))

    def record(self, event: Event) -> None:
        """Emit an event that is small enough."""
        self.events.append(event)
        evolve(self.state, event, self.now)
        if self.state.observers:
            self.unobserved += ((run, event) for run in self.state.observers)

    def fail(self, name: str, error: Error, task: str | None = None, attempt: int = 0) -> None:
        """Fail a run for a reason that no worker reports, unless its step handles the failure."""
        run = self.state.runs[name]
        rules = self.state.net.steps[run.step].after_call
        if rules is None or not rules.take_failure(self, run, error, task, attempt):
            self.emit(StepFailed(name, error, task, attempt))

    def content(self, reference: Reference) -> Any:
        """The value behind a reference, for a reducer: it came with this decision or was loaded for it. Need if it was
        not, TemplateFailed if it is too large."""
        reported = next((content for key, content in reversed(self.blobs) if key == reference.key), None)
        if reference.size > MAX_INLINED_BYTES:
            raise TemplateFailed(f"a stored value of {reference.size:,} bytes (limit {MAX_INLINED_BYTES:,})")
        if reported is None or reference.schema_hint == CHUNKS:
            value = reference.content(self.contents)
        else:
            value = decoded(reported, reference)
        if encoded_size(value, MAX_INLINED_BYTES) > MAX_INLINED_BYTES:
            raise TemplateFailed(f"a stored value of more than {MAX_INLINED_BYTES:,} bytes")
        return value

    def scope(self, args: dict[str, Any], args_by: dict[str, Any], event: dict[str, Any] | None = None) -> Scope:
        """The scope of a template on the server."""
        state = self.state
        scope = Scope(
            workload=state.workload,
            ctx=state.ctx,
            args=args,
            args_by=args_by,
            steps=StepsView(state.steps),
            execution_id=state.id,
        )
        scope[NOW_KEY] = self.now
        scope[BUDGET_KEY] = self.budget
        scope[CONTENTS_KEY] = self.contents
        if event is not None:
            scope["event"] = event
        return scope
