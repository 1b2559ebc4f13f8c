"""Secret handles of an execution: every worker of the execution redacts their values."""

from __future__ import annotations

from typing import Any

from noetl.engine.state import Execution
from noetl.reference import SECRET, Reference

MAX_HANDLES = 200
"""The newest ones are kept, since each worker resolves every one of them. The limit bounds memory; no decision depends
on it, so any limit folds any log."""


def note_handles(state: Execution, value: Any) -> None:
    """Record the handles in a value."""
    remaining = [value]
    while remaining:
        part = remaining.pop()
        if isinstance(part, Reference):
            if part.store == SECRET:
                state.handles.pop(part.key, None)
                state.handles[part.key] = None
        elif isinstance(part, dict):
            remaining += part.values()
        elif isinstance(part, list | tuple):
            remaining += part
    while len(state.handles) > MAX_HANDLES:
        del state.handles[next(iter(state.handles))]
