"""Keeping events small: values that make an event too large become references before the event is taken in.

Done before `evolve`, so live state and replay see the same.
"""

from __future__ import annotations

from typing import Any

import msgspec

from noetl.engine.events import Event
from noetl.reference import Reference, refer

EVENT_BYTES = 60_000
"""An event is at most 64 KiB; this leaves room for its ids."""


def fitted(event: Event, blobs: list[tuple[str, bytes]]) -> Event:
    """The event, its largest values replaced until it is small enough. What they were is added to `blobs`."""
    if weight(event, EVENT_BYTES) <= EVENT_BYTES:
        return event
    changes: dict[str, Any] = {name: getattr(event, name) for name in event.__struct_fields__}
    while sum(weight(value, EVENT_BYTES) for value in changes.values()) > EVENT_BYTES:
        name = max(changes, key=lambda one: weight(changes[one], 1 << 62))
        changes[name] = _smaller(changes[name], blobs)
    return type(event)(**changes)


def _smaller(value: Any, blobs: list[tuple[str, bytes]]) -> Any:
    """The value with its largest part replaced by a reference."""
    if isinstance(value, msgspec.Struct):
        fields = {name: getattr(value, name) for name in value.__struct_fields__}
        name = max(fields, key=lambda one: weight(fields[one], 1 << 62))
        return msgspec.structs.replace(value, **{name: _smaller(fields[name], blobs)})
    if isinstance(value, tuple):  # a patch, or a write of one
        parts = list(value)
        place = max(range(len(parts)), key=lambda i: weight(parts[i], 1 << 62))
        parts[place] = (
            _smaller(parts[place], blobs) if isinstance(parts[place], tuple) else _stored(parts[place], blobs)
        )
        return tuple(parts)
    if isinstance(value, dict):
        name = max(value, key=lambda one: weight(value[one], 1 << 62))
        return {**value, name: _stored(value[name], blobs)}
    return _stored(value, blobs)


def _stored(value: Any, blobs: list[tuple[str, bytes]]) -> Reference:
    reference, content = refer(whole(value))
    blobs.append((reference.key, content))
    return reference


def whole(value: Any) -> Any:
    """References inside a stored value are written as what they are, so that nothing stored depends on types."""
    if isinstance(value, Reference):
        return value.as_data()
    if isinstance(value, dict):
        return {key: whole(item) for key, item in value.items()}
    return [whole(item) for item in value] if isinstance(value, list | tuple) else value


def weight(value: Any, enough: int) -> int:
    """About how many bytes a value takes in JSON; counting stops once it is `enough`."""
    kind = type(value)
    if kind is str:
        return len(value) + 2 + (len(value) if not value.isascii() else 0)
    if kind is int or kind is float or kind is bool or value is None:
        return 8
    total = 2
    if kind is dict:
        for key, item in value.items():
            total += len(key) + 4 + weight(item, enough - total)
            if total > enough:
                return total
        return total
    if kind is list or kind is tuple:
        for item in value:
            total += 1 + weight(item, enough - total)
            if total > enough:
                return total
        return total
    if isinstance(value, Reference):
        return 400
    if isinstance(value, msgspec.Struct):
        for name in value.__struct_fields__:
            total += weight(getattr(value, name), enough - total) + 8
            if total > enough:
                return total
    return total
