"""What a pipeline needs from its worker, and how it ends."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol, TypeVar

from noetl.engine.events import Event
from noetl.model.identity import TaskId
from noetl.model.outcome import Error, Outcome
from noetl.pipeline.plan import TaskPlan
from noetl.reference import Reference
from noetl.scope import Scope

Value = TypeVar("Value")


class Done(NamedTuple):
    """The pipeline came to its end."""

    result: Any


class Failed(NamedTuple):
    """The pipeline failed."""

    error: Error
    task: str
    attempt: int


class Waiting(NamedTuple):
    """The pipeline waits and can be put aside: for a `signal`, a `child`, the next attempt (`retry`), or because
    the execution was paused (`resume`)."""

    until: str
    key: str = ""
    due: float | None = None
    request: dict[str, Any] | None = None
    chain: str = ""


End = Done | Failed | Waiting


class ParkedCall(Exception):
    """Raised by a tool whose outcome will come later, from elsewhere."""

    def __init__(self, wait: Waiting) -> None:
        super().__init__(wait.until)
        self.wait = wait


class ToolCall(NamedTuple):
    """A call of a tool."""

    plan: TaskPlan
    task: TaskId
    attempt: int
    repeats: int
    """How often rules have asked for it again although it was ok."""
    inputs: dict[str, Any]
    bound: dict[str, Any]
    scope: Scope


class Host(Protocol):
    """The worker of a pipeline."""

    def tell(self, fact: Event) -> None:
        """Store the fact with the next batch."""

    async def durable(self) -> None:
        """Return when all facts are stored, as far as the playbook asks for that between tasks."""

    async def stored(self) -> None:
        """Return when all facts are stored, whatever the playbook asks for."""

    def now(self) -> float:
        """Seconds since the epoch."""

    async def sleep(self, seconds: float) -> None: ...

    async def call(self, call: ToolCall) -> Outcome:
        """Call the tool; every error is an outcome. May raise Parked."""

    async def content(self, reference: Reference) -> Any:
        """The value behind a reference; TemplateFailed if it can't be read."""

    async def secret(self, reference: Reference) -> Any:
        """The secret that a reference stands for; TemplateFailed if there is none."""

    def redact(self, value: Value, /) -> Value:
        """The value with all secrets hidden that were opened so far."""

    def paused(self) -> bool:
        """Whether nothing new may start."""
