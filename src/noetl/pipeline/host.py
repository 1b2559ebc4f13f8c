"""The interface of a pipeline to its worker, and the ways in which it ends."""

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
    """The pipeline ran to its end."""

    result: Any


class Failed(NamedTuple):
    error: Error
    task: str
    attempt: int


class Waiting(NamedTuple):
    """The pipeline waits and frees its worker: for a `signal`, a `child`, the next attempt (`retry`), or because
    the execution was paused (`resume`)."""

    until: str
    key: str = ""
    due: float | None = None
    request: dict[str, Any] | None = None
    chain: str = ""
    keys: tuple[str, ...] = ()  # The names of several signals


End = Done | Failed | Waiting


class ParkedCall(Exception):
    """Raised by a tool whose outcome will come later, from elsewhere."""

    def __init__(self, wait: Waiting) -> None:
        super().__init__(wait.until)
        self.wait = wait


class ToolCall(NamedTuple):
    plan: TaskPlan
    task: TaskId
    attempt: int
    repeats: int  # How often rules have repeated the call although it was ok
    inputs: dict[str, Any]
    bound: dict[str, Any]
    timeout: Any  # Seconds, or a map of http
    scope: Scope


class Host(Protocol):
    """The worker of a pipeline."""

    def add_fact(self, fact: Event) -> None:
        """Add a fact to the next report."""

    async def durable(self) -> None:
        """Return when all facts are stored, if the playbook commits after each task."""

    async def stored(self) -> None:
        """Return when all facts are stored."""

    def now(self) -> float:
        """Seconds since the epoch."""

    async def sleep(self, seconds: float) -> None: ...

    async def call(self, call: ToolCall) -> Outcome:
        """Call the tool; every error is an outcome. May raise Parked."""

    async def content(self, reference: Reference) -> Any:
        """The value behind a reference; TemplateFailed if it cannot be read."""

    async def secret(self, reference: Reference) -> Any:
        """The secret behind a reference; TemplateFailed if there is none."""

    def redact(self, value: Value, /) -> Value:
        """The value with all opened secrets redacted."""

    def paused(self) -> bool:
        """Whether nothing new may start."""
