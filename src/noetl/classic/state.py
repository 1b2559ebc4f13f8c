"""Progress of a run of a classic step after its call: plain data, part of the state of the engine."""

from __future__ import annotations

from typing import Any

import msgspec

from noetl.model.outcome import Error
from noetl.model.playbook import Target


class NextRequest(msgspec.Struct):
    branch: str
    action: str
    to: list[Target]
    policy: str
    priority: int = 0


class BranchBatch(msgspec.Struct):
    """Branches that were chosen together, in the order in which their chains run, and the event that chose them."""

    order: list[str]
    event: dict[str, Any] | None = None


class AfterCallProgress(msgspec.Struct):
    """Progress after the call. The position in each chain is in its own `Progress`."""

    point: str = ""
    """`call.done`, `call.error` or `step.exit`; empty while the call runs."""
    evaluated: str = msgspec.field(default="", name="looked")
    """The last point at which branches were chosen."""
    failure: tuple[Error, str | None, int] | None = None
    """How the call failed, at which task and attempt."""
    looped: bool = False
    result: Any = None
    fired: list[str] = []
    batches: list[BranchBatch] = msgspec.field(default_factory=list, name="epochs")
    """The first one runs; the others were chosen by events that arrived meanwhile."""
    requests: list[NextRequest] = []
    suppressed: list[str] = []

    @property
    def call_has_ended(self) -> bool:
        """Whether the call is over, so that the run is granted as a whole even if it has a loop."""
        return self.looped or bool(self.point)

    @property
    def failure_handled(self) -> bool:
        return bool(self.fired)

    @property
    def running(self) -> list[str]:
        return self.batches[0].order if self.batches else []

    @property
    def winner(self) -> NextRequest | None:
        """The `next` that routes the step: the highest priority, then the one that was reached first."""
        return max(self.requests, key=lambda request: request.priority, default=None)
