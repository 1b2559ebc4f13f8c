"""`ctx`: patches, their size limit, and stored values that are inlined into the log for reducers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from noetl.engine import events as e
from noetl.engine.limits import encoded_size
from noetl.engine.patch import APPEND, Write, apply_patch
from noetl.engine.state import Execution, Handlers
from noetl.reference import Reference, decode_inline

MAX_CTX_BYTES = 1 << 20
UNLIMITED = 1 << 62


def _patched(state: Execution, event: e.CtxPatched, at: float) -> None:
    part = event.spelled
    if part is not None:
        text = state.partial_values.pop(part.key, "") + part.text
        if part.more:
            state.partial_values[part.key] = text
        else:
            state.inlined_values[part.key] = decode_inline(text)
    if event.patch:
        patch_ctx(state, event.patch)


def patch_ctx(state: Execution, patch: Sequence[Write]) -> None:
    for write in patch:
        key, operator, operand = write
        old = state.ctx.get(key)
        apply_patch(state.ctx, (write,), state.inlined_values)
        size = size_after(state, key, operator, operand, old, state.ctx[key])
        state.ctx_bytes += size - state.ctx_sizes.get(key, 0)
        state.ctx_sizes[key] = size
    state.changed = True


def size_after(state: Execution, key: str, operator: str, operand: Any, old: Any, new: Any) -> int:
    """The encoded size of a value of ctx after a write. A list that grows is not encoded as a whole."""
    if operator == APPEND and old is not None and not isinstance(old, Reference):
        return state.ctx_sizes[key] + encoded_size(operand, UNLIMITED) + 1
    return encoded_size(new, UNLIMITED)


HANDLERS: Handlers = {e.CtxPatched: _patched}
