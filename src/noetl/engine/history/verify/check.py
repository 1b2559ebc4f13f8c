"""Base class of the checks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Literal, Protocol

from noetl.engine import events as e
from noetl.engine.history.verify.intervals import Intervals
from noetl.engine.net import Net
from noetl.engine.state import Execution
from noetl.model.identity import step_of

Handler = Callable[[Any], None]
Handlers = Mapping[type[e.Event], Handler]


class Watched(Protocol):
    """The interface of the log for checks."""

    execution: str
    net: Net
    state: Execution
    foldable: bool
    seq: int
    finished: dict[str, Intervals]
    """Items that have ended, by step run with a loop under way."""

    def note(self, invariant: str, message: str) -> None: ...

    def watch(self, kinds: Mapping[type[e.Event], Handler]) -> None: ...


class Check:
    """One invariant. `handlers` maps event types to handlers; a subclass of an event is handled like its base."""

    name: ClassVar[str]
    part: ClassVar[Literal["rows", "fold"]] = "rows"
    """`fold` if it reads the state."""

    def __init__(self, log: Watched) -> None:
        self.log = log

    def handlers(self) -> Handlers:
        raise NotImplementedError

    def end(self) -> None:
        """Called after the last event."""

    def fail(self, message: str) -> None:
        self.log.note(self.name, message)


def loop_of(net: Net, run: str) -> Any:
    """The loop of a run's step, if the step is known and has one."""
    plan = net.steps.get(step_of(run))
    return plan.step.loop if plan is not None else None
