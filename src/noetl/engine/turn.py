"""One decision in the making: the state, the time, and the events so far."""

from __future__ import annotations

from typing import Any

from noetl.engine.events import CaseStarted, Event, StepFailed
from noetl.engine.evolve import close_chunk, evolve
from noetl.engine.fit import fitted, weight
from noetl.engine.state import Execution, Run
from noetl.errors import TemplateFailed
from noetl.expression import BUDGET_KEY, NOW_KEY, decision_budget
from noetl.model.outcome import Error
from noetl.reference import CHUNKS, HOLDS_REFERENCES, Reference, canonical, decoded, reference_to
from noetl.scope import Scope, StepsView

MAX_SPELLED_BYTES = 1 << 20
"""What may be written out for a reducer; ctx itself may not be larger."""


class Turn:
    """Collects events and evolves each into the state at once."""

    def __init__(self, state: Execution, now: float) -> None:
        self.state, self.now = state, now
        self.budget = decision_budget()
        """What all templates of this decision may use together."""
        self.allowance = self.budget.allowance
        """Its CPU time, to be counted while templates are evaluated: `with turn.allowance`."""
        self.events: list[Event] = []
        self.blobs: list[tuple[str, bytes]] = []
        """Content of the references in the events, to be stored with them."""
        self.news: list[tuple[str, Event]] = []
        """What runs that listen have yet to hear."""

    def emit(self, event: Event) -> None:
        event = fitted(event, self.blobs)
        self.events.append(event)
        evolve(self.state, event, self.now)
        if self.state.listeners:
            self.news += ((run, event) for run in self.state.listeners)
        if self.state.outbox:
            self.blobs += self.state.outbox
            self.state.outbox.clear()

    def fail(self, name: str, error: Error, task: str | None = None, attempt: int = 0) -> None:
        """A run fails, for a reason that no worker tells. If its case may take that up, it is looked at first."""
        run = self.state.runs[name]
        cases = self.state.net.steps[run.step].cases
        if run.tail is not None and cases is not None and cases.sees_failure and not run.tail.point:
            self.emit(CaseStarted(name, "call.error", error, task, attempt, revoked=True))
        else:
            self.emit(StepFailed(name, error, task, attempt))

    def content(self, reference: Reference) -> Any:
        """The value behind a reference, as a reducer may look into it: it came with this turn, or was loaded for it.
        Need if it was not, TemplateFailed if it can't be."""
        fresh = next((content for key, content in reversed(self.blobs) if key == reference.key), None)
        if reference.size > MAX_SPELLED_BYTES:
            raise TemplateFailed(f"a stored value of {reference.size:,} bytes (limit {MAX_SPELLED_BYTES:,})")
        if fresh is None or reference.schema_hint == CHUNKS:
            value = reference.content()
        else:
            value = decoded(fresh, reference)
        if weight(value, MAX_SPELLED_BYTES) > MAX_SPELLED_BYTES:
            raise TemplateFailed(f"a stored value of more than {MAX_SPELLED_BYTES:,} bytes")
        return value

    def scope(self, args: dict[str, Any], args_by: dict[str, Any], event: dict[str, Any] | None = None) -> Scope:
        """What a template on the server sees."""
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
        if event is not None:
            scope["event"] = event
        return scope

    def loop_result(self, run: Run) -> Any:
        """Results of the items by index, null where one failed; a reference where they fill chunks."""
        loop = run.loop
        assert loop is not None
        settings = self.state.net.steps[run.step].step.loop
        if settings is None or not settings.collect:
            return None
        if loop.chunks:
            if loop.results:
                close_chunk(loop, self.blobs)
            manifest = {
                "total": loop.total,
                "chunks": [chunk.key for chunk in loop.chunks],
                "marked": [chunk.key for chunk in loop.chunks if chunk.schema_hint.endswith(HOLDS_REFERENCES)],
            }
            content = canonical(manifest)
            reference = reference_to(content, hint=CHUNKS, preview={"count": loop.total})
            self.blobs.append((reference.key, content))
            return reference
        found: list[Any] = [None] * loop.total
        for index, result in loop.results:
            found[index] = result
        return found
