"""Events to bytes and back, and the chain of hashes over them.

JSON, so that a log can be read with any tool. A reference is written as `{"$ref": {...}}`; data that has a key which
begins with `$ref` gets one more `$`, so nothing an author or a tool brings along can be taken for a reference.

What is written reads back as what was meant. JSON has no sets, bytes, NaN or keys that are numbers, and the encoder
quietly writes something similar for them; so `encode` reads its bytes once and compares, which is cheaper than to look
at every value. Only what differs (or holds a `$`) takes the careful way: value by value, and a value that can't be
stored is named by its path.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache
from hashlib import sha256
from math import isfinite
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import msgspec

from noetl.engine.events import EVENTS, Event
from noetl.errors import Unreadable, Unstorable
from noetl.reference import Reference
from noetl.store.ports import Row

MARK = "$ref"
OPTIONAL = {"schema_hint": "", "preview": None}
"""What a reference is not written with."""
ZERO = b"\0" * 16
SMALLEST, LARGEST = -(2**63), 2**64 - 1

Path = tuple[str | int, ...]
Decode = Callable[[bytes], Any]

_ZEROS = bytes.maketrans(b"123456789", b"000000000")
_LONGEST = str(LARGEST).encode().translate(_ZEROS)
_LONGEST_NEGATIVE = str(SMALLEST).encode().translate(_ZEROS)


MAX_DEPTH = 300
MAX_VALUE_DEPTH = 200
"""Nested lists and maps in an event, and in one value before it is part of an event. Functions that walk over values
recurse, and loops and children put results into each other."""
CONTAINERS = (dict, list, tuple, msgspec.Struct)
_TOO_DEEP = "the data is nested too deeply to be stored"


# -- encode and decode ----------------------------------------------------------------------------------------------


def encode(event: Event) -> bytes:
    """The event's fields; its name is stored beside them. Unstorable if it would not read back the same."""
    try:
        data = _encode(event)
        check = _checks[event.name]
        if data.count(b"[") + data.count(b"{") > MAX_DEPTH and _is_too_deep(event, MAX_DEPTH):
            raise Unstorable(f"{event.name}: {_TOO_DEEP}")
        if check is None or (not (b"$" in data and _marked(data)) and not _has_long(data) and check(data) == event):
            return data
    except (msgspec.MsgspecError, TypeError, ValueError, RecursionError):
        pass  # the careful way says what is wrong
    return _encode_carefully(event)


def check_value(value: Any) -> None:
    """Unstorable unless the value can be part of an event."""
    if _is_too_deep(value, MAX_VALUE_DEPTH):
        raise Unstorable(_TOO_DEEP)
    _written(value, ())


def _is_too_deep(value: Any, limit: int) -> bool:
    level = [value] if isinstance(value, CONTAINERS) else []
    for _ in range(limit):
        level = [part for one in level for part in _parts(one) if isinstance(part, CONTAINERS)]
        if not level:
            return False
    return True


def _parts(value: Any) -> Iterable[Any]:
    if isinstance(value, msgspec.Struct):
        return (getattr(value, name) for name in value.__struct_fields__)
    return value.values() if isinstance(value, dict) else value


def decode(name: str, data: bytes) -> Event:
    """The event again."""
    try:
        event: Event = _decoders[name](data)
        return _revived(event) if b"$" in data and _marked(data) else event
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Unreadable(f"an event of type {name!r} can't be read: {error}") from None


def encode_value(value: Any) -> bytes:
    """Any storable value, references and all."""
    return _encode(_written(value, ()))


def decode_value(data: bytes) -> Any:
    """What `encode_value` was given."""
    value = msgspec.json.decode(data)
    return _revived(value) if b"$" in data and _marked(data) else value


def _marked(data: bytes) -> bool:
    """Whether there may be references or escaped keys."""
    return b'"$ref' in data or b'"$$' in data


def _has_long(data: bytes) -> bool:
    """Whether there are as many digits in a row as only numbers at the edge of 64 bits have, or text."""
    digits = data.translate(_ZEROS)
    return _LONGEST in digits or _LONGEST_NEGATIVE in digits


class _Decoders(dict[str, Decode]):
    """By the name of the event, made when first needed."""

    def __missing__(self, name: str) -> Decode:
        kind = EVENTS.get(name)
        if kind is None:
            raise Unreadable(f"this version does not know events of type {name!r}; upgrade noetl to read this log")
        decode = self[name] = msgspec.json.Decoder(kind).decode
        return decode


class _Checks(dict[str, Decode | None]):
    """What reads an event back to compare; None for events that can't hold anything JSON does not have."""

    def __missing__(self, name: str) -> Decode | None:
        decode = _decoders[name]
        check = self[name] = None if _plain(EVENTS[name]) else decode
        return check


def _plain(hint: Any) -> bool:
    """Whether all values of a type are the same in JSON."""
    if hint in (str, int, bool, NoneType, ...) or get_origin(hint) is Literal:
        return True
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        hints = get_type_hints(hint)
        return all(_plain(hints[name]) for name in hint.__struct_fields__)
    return get_origin(hint) in (Union, UnionType, tuple) and all(_plain(part) for part in get_args(hint))


_encode = msgspec.json.Encoder().encode
_decoders = _Decoders()
_checks = _Checks()


# -- the careful way ------------------------------------------------------------------------------------------------


def _encode_carefully(event: Event) -> bytes:
    try:
        data = _encode(_written(event, ()))
        _decoders[event.name](data)
    except Unstorable as error:
        raise Unstorable(f"{event.name}: {error}") from None
    except RecursionError:
        raise Unstorable(f"{event.name}: {_TOO_DEEP}") from None
    except msgspec.DecodeError as error:
        raise Unstorable(f"{event.name}: {error}") from None
    return data


def _written(value: Any, path: Path) -> Any:
    """The value with references and keys as they are stored."""
    match value:
        case None | bool():
            return value
        case str():
            return _text(value, path)
        case int() | float():
            return _number(value, path)
        case dict():
            return {_escaped(key, path): _written(item, (*path, key)) for key, item in value.items()}
        case list() | tuple():
            return [_written(item, (*path, place)) for place, item in enumerate(value)]
        case Reference():
            given = ((name, field) for name, field in value.as_data().items() if field != OPTIONAL.get(name, ...))
            return {MARK: {name: _written(field, (*path, name)) for name, field in given}}
        case msgspec.Struct():
            fields = ((name, getattr(value, name)) for name in value.__struct_fields__)
            return type(value)(**{name: _written(field, (*path, name)) for name, field in fields})
        case _:
            raise _unstorable(path, f"a value of type {type(value).__name__}")


def _text(value: str, path: Path) -> str:
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            raise _unstorable(path, "text with half of a surrogate pair") from None
    return value


def _number(value: int | float, path: Path) -> int | float:
    if isinstance(value, float):
        if not isfinite(value):
            raise _unstorable(path, f"the number {value}")
    elif not SMALLEST <= value <= LARGEST:
        raise _unstorable(path, "a whole number of more than 64 bits")
    return value


def _escaped(key: Any, path: Path) -> str:
    if not isinstance(key, str):
        raise _unstorable(path, f"a map with a key of type {type(key).__name__}")
    _text(key, path)
    return f"${key}" if _looks_marked(key) else key


def _looks_marked(key: str) -> bool:
    return key[:1] == "$" and key.lstrip("$").startswith("ref")


def _unstorable(path: Path, what: str) -> Unstorable:
    where = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    where = where.lstrip(".").encode("utf-8", "backslashreplace").decode()
    return Unstorable(f"{where}: {what} can't be stored")


def _revived(value: Any) -> Any:
    """What `_written` was given."""
    match value:
        case dict():
            if len(value) == 1 and MARK in value:
                return _reference(value[MARK])
            return {key[1:] if key[:2] == "$$" and _looks_marked(key) else key: _revived(value[key]) for key in value}
        case list():
            return [_revived(item) for item in value]
        case tuple():
            return tuple(_revived(item) for item in value)
        case msgspec.Struct():
            return type(value)(**{name: _revived(getattr(value, name)) for name in value.__struct_fields__})
        case _:
            return value


def _reference(fields: Any) -> Reference:
    try:
        return Reference(**_revived(fields))
    except TypeError:
        raise Unreadable(f"not a reference: {str(fields)[:100]}") from None


# -- rows -----------------------------------------------------------------------------------------------------------


def chained(before: bytes, name: str, at: float, data: bytes) -> bytes:
    """The hash of a row over the row before it: a row that is changed or lost breaks the chain."""
    return sha256(before + _label(name, at) + data).digest()[:16]


@lru_cache(256)
def _label(name: str, at: float) -> bytes:
    """Rows that were committed together have one time."""
    return b"|%b|%.6f|" % (name.encode(), at)


def rows_of(events: list[Event], first: int, at: float, head: bytes) -> list[Row]:
    """The rows that store the events, the first of them at seq `first`."""
    rows = []
    for seq, event in enumerate(events, start=first):
        data = encode(event)
        head = chained(head, event.name, at, data)
        rows.append(Row(seq, event.name, at, data, head))
    return rows
