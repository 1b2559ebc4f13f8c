"""The state of an execution as bytes: a cache of the fold, so that recovery does not read the whole log."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from noetl.engine.net import Net
from noetl.engine.state import Execution
from noetl.reference import Reference
from noetl.store.codec import decode_value, encode_value
from noetl.store.store import Snapshot

FORMAT = b'{"format":2,'
"""How a snapshot begins whose state this version can read. Others are ignored, and the log is folded instead."""

SCALARS = frozenset([str, int, float, bool, type(None)])


def freeze(state: Execution) -> bytes:
    """The state, ready to be stored. Its net comes from the playbook."""
    fields = {key: plain(getattr(state, name)) for name, key in _names(state) if name != "net"}
    return encode_value({"format": 2, **fields})


def readable(snapshot: Snapshot | None) -> Snapshot | None:
    """The snapshot, unless another version wrote it."""
    return snapshot if snapshot is not None and snapshot.data.startswith(FORMAT) else None


def thaw(data: bytes, net: Net) -> Execution:
    fields = {**decode_value(data), "net": None}
    del fields["format"]

    def hook(kind: type, value: Any) -> Any:
        return net if kind is Net else value

    return msgspec.convert(fields, Execution, dec_hook=hook, str_keys=True)


def plain(value: Any) -> Any:
    """Structs as maps, keys as text; references stay what they are."""
    if isinstance(value, msgspec.Struct):
        return {key: plain(getattr(value, name)) for name, key in _names(value)}
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple) and not isinstance(value, Reference):
        return [item if type(item) in SCALARS else plain(item) for item in value]
    return value


def _names(value: msgspec.Struct) -> Iterable[tuple[str, str]]:
    return zip(value.__struct_fields__, value.__struct_encode_fields__, strict=True)
