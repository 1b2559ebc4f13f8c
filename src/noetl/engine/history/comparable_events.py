"""Events without the fields that differ between any two runs, so that two logs can be compared."""

from __future__ import annotations

from typing import Any

IGNORED = frozenset(["at", "worker", "claim", "due", "duration_ms", "moved", "source_id", "action_id"])
"""Fields of events that differ between any two runs."""


def comparable(event_type: str, entity: str, payload: dict[str, Any]) -> dict[str, Any]:
    """An event without times and workers. The id of a child depends on that of its parent, and is left out, too."""
    ignored = {*IGNORED, "key"} if payload.get("until") == "child" else IGNORED
    return {"event_type": event_type, "entity": entity} | {
        key: value for key, value in payload.items() if key not in ignored
    }
