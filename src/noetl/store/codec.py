"""Events to bytes and back, and the chain of hashes over them.

JSON, so that a log can be read with any tool. A reference is written as `{"$ref": {...}}`; data that has a key which
begins with `$ref` gets one more `$`, so nothing an author or a tool brings along can be taken for a reference.
"""

from __future__ import annotations

from hashlib import sha256
from typing import Any

import msgspec

from noetl.engine.events import EVENTS, Event
from noetl.errors import NoetlError
from noetl.model.reference import Reference
from noetl.store.ports import Row

MARK = "$ref"
ZERO = b"\0" * 16


class Unreadable(NoetlError):
    """A stored event can't be read: it is damaged, or a newer version wrote it."""


def _hook(value: Any) -> Any:
    if isinstance(value, Reference):
        return {MARK: msgspec.to_builtins(value)}
    raise TypeError(f"a value of type {type(value).__name__} can't be stored")


_encoder = msgspec.json.Encoder(enc_hook=_hook)
_decoders: dict[str, msgspec.json.Decoder[Any]] = {}


def encode(event: Event) -> bytes:
    """The event's fields; its name is stored beside them."""
    return _encoder.encode(event)


def decode(name: str, data: bytes) -> Event:
    """The event again."""
    decoder = _decoders.get(name)
    if decoder is None:
        kind = EVENTS.get(name)
        if kind is None:
            raise Unreadable(f"this version does not know events of type {name!r}; upgrade noetl to read this log")
        decoder = _decoders[name] = msgspec.json.Decoder(kind)
    try:
        event: Event = decoder.decode(data)
    except msgspec.DecodeError as error:
        raise Unreadable(f"an event of type {name!r} can't be read: {error}") from None
    return event


def chained(before: bytes, name: str, at: float, data: bytes) -> bytes:
    """The hash of a row over the row before it: a row that is changed or lost breaks the chain."""
    return sha256(b"%b|%b|%.6f|%b" % (before, name.encode(), at, data)).digest()[:16]


def rows_of(events: list[Event], first: int, at: float, head: bytes) -> list[Row]:
    """The rows that store the events, the first of them at seq `first`."""
    rows = []
    for seq, event in enumerate(events, start=first):
        data = encode(event)
        head = chained(head, event.name, at, data)
        rows.append(Row(seq, event.name, at, data, head))
    return rows
