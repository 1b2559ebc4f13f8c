"""Size limits of events: values that make an event too large become references before the event is folded, so that
live state and replay see the same."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from hashlib import sha256
from typing import Any, get_type_hints

import msgspec

from noetl.engine.events import Event, IterationStarted, TaskStarted
from noetl.reference import Reference, refer

EVENT_BYTES = 60_000  # An event is at most 64 KiB; this leaves room for its ids
MIN_BLOB_BYTES = 1_024  # Smaller values stay: a reference takes some hundred bytes itself
TEXT_CHARACTERS = 2_000
SHORTENED_TEXTS = frozenset(
    ["message", "reason", "type", "key"]
)  # Fields that must stay text: the beginning of it remains

Path = tuple[str | int, ...]
Blobs = list[tuple[str, bytes]]
SIZED = (str, list, dict)
SMALL = frozenset([IterationStarted, TaskStarted])  # Events that hold nothing but ids


class EventTooLarge(Exception):
    """An event has too many small values to fit."""


def shrink(event: Event, blobs: Blobs) -> Event:
    """The event, its largest values replaced by references until it is small enough; `blobs` gets their content."""
    if encoded_size(event, EVENT_BYTES) <= EVENT_BYTES:
        return event
    size = encoded_size(event, 1 << 62)
    parts = sorted(
        ((encoded_size(part, 1 << 62), path, part) for path, part in _parts(event, ())), key=lambda part: -part[0]
    )
    smaller: dict[Path, Any] = {}
    for heavy, path, part in parts:
        if size <= EVENT_BYTES or heavy < MIN_BLOB_BYTES:
            break
        smaller[path] = _smaller(part, path, blobs)
        size -= heavy - encoded_size(smaller[path], 1 << 62)
    if size > EVENT_BYTES:
        raise EventTooLarge(f"it takes {size:,} bytes in small values, and {EVENT_BYTES:,} is the limit")
    fits: Event = _rebuilt(event, (), smaller)
    return fits


def _parts(value: Any, path: Path) -> Iterator[tuple[Path, Any]]:
    """The parts that may be replaced: fields that take anything, values of maps, the operands of a patch, long
    texts."""
    if isinstance(value, msgspec.Struct):
        for name in value.__struct_fields__:
            part = getattr(value, name)
            if name in _open_fields(type(value)) or name in SHORTENED_TEXTS or name == "details":
                yield (*path, name), part
            else:
                yield from _parts(part, (*path, name))
    elif isinstance(value, dict):
        for name, part in value.items():
            yield (*path, name), part
    elif isinstance(value, tuple):  # a patch, or a write of one: key, operator, operand
        for place, part in enumerate(value):
            if isinstance(part, tuple):
                yield from _parts(part, (*path, place))
            elif place == 2:
                yield (*path, place), part


@cache
def _open_fields(kind: type) -> frozenset[str]:
    """The fields of a struct that can hold any value."""
    return frozenset(name for name, hint in get_type_hints(kind).items() if hint is Any)


def _smaller(part: Any, path: Path, blobs: Blobs) -> Any:
    is_engine_key = len(path) == 1 or path[-2] == "error"  # not what an author happens to call that
    if is_engine_key and isinstance(part, str) and path[-1] in SHORTENED_TEXTS:
        digest = sha256(part.encode("utf-8", "replace")).hexdigest()[:12]  # texts that differ stay different
        return f"{part[:TEXT_CHARACTERS]} ... ({len(part):,} characters, {digest})"
    if is_engine_key and path[-1] == "details":
        return {"left_out": f"{len(part)} details omitted: too large"}
    reference, content = refer(part)
    blobs.append((reference.key, content))
    return reference


def _rebuilt(value: Any, path: Path, smaller: dict[Path, Any]) -> Any:
    if path in smaller:
        return smaller[path]
    if isinstance(value, msgspec.Struct):
        fields = ((name, getattr(value, name)) for name in value.__struct_fields__)
        return type(value)(**{name: _rebuilt(part, (*path, name), smaller) for name, part in fields})
    if isinstance(value, dict):
        return {name: smaller.get((*path, name), part) for name, part in value.items()}
    if isinstance(value, tuple):
        return tuple(_rebuilt(part, (*path, place), smaller) for place, part in enumerate(value))
    return value


def encoded_size(value: Any, enough: int) -> int:
    """Bytes that a value takes in JSON. A value that is plainly larger than `enough` is not encoded."""
    if isinstance(value, SIZED) and len(value) > enough:
        return len(value)
    try:
        return len(_encode(value))
    except (msgspec.MsgspecError, TypeError, ValueError, RecursionError):
        return 0  # it cannot be stored at all, and the codec reports the reason


def _marked(value: Any) -> Any:
    if isinstance(value, Reference):
        return {"$ref": value.as_data()}
    raise TypeError(type(value).__name__)


_encode = msgspec.json.Encoder(enc_hook=_marked).encode


def whole(value: Any) -> Any:
    """The value with references as plain data, for readers."""
    if isinstance(value, Reference):
        return value.as_data()
    if isinstance(value, dict):
        return {key: whole(item) for key, item in value.items()}
    return [whole(item) for item in value] if isinstance(value, list | tuple) else value
