"""The state of an execution as bytes, so that recovery reads a snapshot and the events after it, not the whole log.

A snapshot is a cache of the fold and can be deleted at any time.
"""

from __future__ import annotations

from typing import Any

import msgspec

from noetl.engine.net import Net
from noetl.engine.state import Execution
from noetl.reference import Reference
from noetl.store.codec import decode_value, encode_value

LEFT_OUT = ("net", "outbox")
"""The net comes from the playbook; the outbox is empty between turns."""


def freeze(state: Execution) -> bytes:
    fields = {name: plain(getattr(state, name)) for name in state.__struct_fields__ if name not in LEFT_OUT}
    return encode_value(fields)


def thaw(data: bytes, net: Net) -> Execution:
    fields = decode_value(data)

    def custom(kind: type, value: Any) -> Any:
        return net if kind is Net else value

    return msgspec.convert({**fields, "net": None}, Execution, dec_hook=custom, str_keys=True)


def plain(value: Any) -> Any:
    """Structs as maps, keys as text; references stay what they are."""
    if isinstance(value, msgspec.Struct):
        return {name: plain(getattr(value, name)) for name in value.__struct_fields__}
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple) and not isinstance(value, Reference):
        return [plain(item) for item in value]
    return value
