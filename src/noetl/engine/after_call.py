"""The interface of the actions of a step between the end of its call and its routing.

A canonical step does nothing there. A step of the classic dialect does, and `noetl.classic.rules` implements it. A
`Net` receives the function that compiles such steps; the engine asks the compiled rules at the points below, and knows
nothing else about them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from noetl.model.outcome import Error
from noetl.model.playbook import Goto, Step, Target, Task

if TYPE_CHECKING:
    from noetl.engine.admissible import Facts
    from noetl.engine.decision import Decision
    from noetl.engine.events import Event, NextEvaluated, StepPaused
    from noetl.engine.state import Ended, Execution, Run


class AfterCallRules(Protocol):
    """The compiled part of a step that comes after its call."""

    observes: bool  # Whether its runs evaluate every event of the execution
    templates: list[Any]  # Its templates, except those of its chains
    retried_chains: frozenset[str]  # Prefixes of the chains that can be retried as a whole
    checks: Mapping[type[Event], Callable[[Facts, Any], None]]
    """When a worker may report its events; see `noetl.engine.admissible`."""

    # -- events -----------------------------------------------------------------------------------------------------

    def evolve(self, state: Execution, event: Event, at: float) -> None:
        """Fold one of its own events."""

    def scheduled(self, state: Execution, run: Run) -> None: ...

    def paused(self, run: Run, event: StepPaused) -> None:
        """The run waits for an event."""

    def loop_done(self, state: Execution, run: Run, result: Any) -> bool:
        """Whether the run continues after its loop."""

    # -- decisions --------------------------------------------------------------------------------------------------

    def enter(self, decision: Decision, run: str) -> None:
        """Called after a run that observes was scheduled."""

    def observe(self, decision: Decision, run: Run, event: Event) -> None: ...

    def take_failure(self, decision: Decision, run: Run, error: Error, task: str | None, attempt: int) -> bool:
        """Whether it handles a failure that the server has found."""

    def route(self, ended: Ended) -> tuple[NextEvaluated, list[Target]] | None:
        """Where an ended run leads; None if its arcs decide."""

    # -- questions --------------------------------------------------------------------------------------------------

    def awaits_event(self, run: Run) -> bool:
        """Whether no worker can run it until an event arrives."""

    def is_server_event(self, state: Execution, event: Event) -> bool:
        """Whether the server emitted an event that otherwise workers report."""

    def is_incomplete(self, state: Execution, event: Event) -> bool:
        """Whether another event belongs to this one, so that the log cannot be cut between them."""

    def chain(self, facts: Facts, name: str) -> Sequence[Task | Goto]:
        """The chain if it may run now; it is refused otherwise."""

    def check_wait(self, facts: Facts, fact: StepPaused) -> None:
        """Refuse a wait for an event that the run does not wait for."""


CompileAfterCall: TypeAlias = Callable[[Step], AfterCallRules]
