"""Guards of branches that read the failure of a call: only those branches fire after a failed call (R5)."""

from __future__ import annotations

from noetl.engine.net import sees_failure
from noetl.expression import parse
from noetl.model.playbook import Guard

FAILURE_FIELDS = (("error",), ("status",), ("status_code",))


def reads_failure(step: str, guard: Guard | None) -> bool:
    """Whether a guard reads a status or an error: of the call, of the event, or of its own step."""
    if not isinstance(guard, str):
        return False
    for read in parse(guard).reads:
        path = read.path
        if path[0] == "event":
            if path in (("event",), ("event", "data")) or path[:3] == ("event", "data", "error"):
                return True
        elif (
            path[0] in ("error", "outcome")
            or (path[0] in ("response", "this") and path[1:2] in FAILURE_FIELDS)
            or sees_failure(step, read)
        ):
            return True
    return False


def expects_failure(guard: Guard | None) -> bool:
    """Whether a guard compares `event.name` with `call.error`."""
    return isinstance(guard, str) and any(
        comparison.path == ("event", "name") and "call.error" in comparison.values
        for comparison in parse(guard).string_comparisons
    )
