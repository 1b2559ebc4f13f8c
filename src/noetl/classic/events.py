"""Events of classic steps: the chosen branches of a `case`, and the targets that their chains request."""

from __future__ import annotations

from typing import Any

from noetl.engine.events import RunEvent, target_views
from noetl.model.outcome import Error
from noetl.model.playbook import Target

POINTS = ("call.done", "call.error", "step.exit")
"""When a worker evaluates the branches of a step: after its call, and at its end. For other events the server does."""


class CaseStarted(RunEvent, frozen=True):
    """The branches of a run are about to be evaluated."""

    name, source, entity, status = "case.started", "worker", "case", "in_progress"

    trigger_event: str
    """`call.done` or `call.error`, then `step.exit` if nothing has routed by then, or the name of another event."""
    error: Error | None = None
    """How the call failed, at which task and attempt."""
    task: str | None = None
    attempt: int = 0
    revoked: bool = False
    """Whether the server found the failure, and revoked the leases of the run."""


class CaseEvaluated(RunEvent, frozen=True):
    """Branches were chosen; their chains run in this order."""

    name, source, entity = "case.evaluated", "worker", "case"

    matched: tuple[str, ...] = ()
    order: tuple[str, ...] = ()
    case_mode: str = ""
    eval_mode: str = ""
    trigger_event: str = ""
    event: dict[str, Any] | None = None
    """The event that chose them, as the chains see it."""
    message: str | None = None
    """The id of the signal that was consumed."""

    def view(self, payload: dict[str, Any]) -> dict[str, Any]:
        return {"matched": [], "order": [], **payload}


class BranchSuppressed(RunEvent, frozen=True):
    """A chosen branch will not run: a `next` before it has ended the step."""

    name, source, entity, status = "case.branch.suppressed", "worker", "case", "skipped"

    branch: str
    winner_branch: str = ""


class NextRequested(RunEvent, frozen=True):
    """A chain has reached a `next`. The server routes when the step ends."""

    name, source, entity = "next.requested", "worker", "next"

    branch: str
    action: str
    """The label of the `next` in its chain."""
    to: tuple[Target, ...] = ()
    policy: str = "end_step"
    priority: int = 0
    pending: bool = False
    """Whether other chains run before the step is routed."""
    then: str | None = None
    """The label that follows in the chain; None at its end."""

    def view(self, payload: dict[str, Any]) -> dict[str, Any]:
        return payload | {"to": target_views(payload.get("to", []))}
