"""Encodes and decodes events and snapshots, and chains the hashes of events.

Events are JSON, so that any tool can read a log, and always read back equal. JSON has no sets, bytes, NaN or numeric
keys, and the encoder silently writes something similar for them; so `encode` decodes its bytes once and compares, which
is cheaper than checking every value. Only events that differ, or contain a `$`, are encoded value by value, and the
error names the path of a value that cannot be stored. `noetl.model.marks` has the form of references.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable
from functools import cache, lru_cache
from hashlib import sha256
from math import isfinite
from threading import Lock
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import msgspec

import noetl.classic.events  # noqa: F401  # adds its events to EVENTS
from noetl.engine.events import EVENTS, Event
from noetl.engine.net import Net
from noetl.engine.state import Execution
from noetl.errors import Unreadable, Unstorable
from noetl.model.marks import MARK, escaped, may_hold_references
from noetl.reference import Reference, revived
from noetl.store.store import Row, Snapshot
from noetl.wording import path_text

OPTIONAL = {"schema_hint": "", "preview": None}  # fields of a reference that events leave out if they have these values
ZERO = b"\0" * 16
SMALLEST, LARGEST = -(2**63), 2**64 - 1

Path = tuple[str | int, ...]

_ZEROS = bytes.maketrans(b"123456789", b"000000000")
_MAX_DIGITS = str(LARGEST).encode().translate(_ZEROS)
_MAX_NEGATIVE_DIGITS = str(SMALLEST).encode().translate(_ZEROS)  # numbers with that many digits may exceed 64 bits
_LONG = _MAX_NEGATIVE_DIGITS[1:]  # part of both

MAX_DEPTH = 300
MAX_VALUE_DEPTH = 200
"""Nested lists and maps in an event, and in one value before it is part of an event. Functions that walk over values
recurse, and loops and children put results into each other."""
CONTAINERS = (dict, list, tuple, msgspec.Struct)
_TOO_DEEP = "the data is nested too deeply to be stored"

SNAPSHOT_FORMAT = b'{"format":3,'
"""How the state of a snapshot begins that this version can read. Others are ignored, and the log is folded instead."""
PACKED_FORMAT = b"\x03"  # the first byte of a snapshot whose state is compressed; earlier versions stored it as it is
PACK_LEVEL = 1  # of zlib: level 6 takes five times as long for 5 % less

SCALARS = frozenset([str, int, float, bool, NoneType])
WHOLE = frozenset([int, bool, NoneType])
LISTS = (list, tuple)


def encode(event: Event) -> bytes:
    """The fields of the event; its name is stored next to them. Unstorable if it would not read back equal."""
    try:
        data = _encode(event)
        if _is_plain(type(event)):
            return data
        may_be_deep = len(data) > 2 * MAX_DEPTH and data.count(b"[") + data.count(b"{") > MAX_DEPTH
        if may_be_deep and _is_too_deep(event, MAX_DEPTH):
            raise Unstorable(f"{event.name}: {_TOO_DEEP}")
        if _is_exact(data) and _decoder(event.name)(data) == event:
            return data
    except (msgspec.MsgspecError, TypeError, ValueError, RecursionError):
        pass  # _encode_by_value reports what is wrong
    return _encode_by_value(event)


def _is_exact(data: bytes) -> bool:
    """Whether there is no mark of a reference in the data, and no number that may be beyond 64 bits."""
    digits = data.translate(_ZEROS)
    if data.find(b"$") < 0 and digits.find(_LONG) < 0:  # most events; `find` takes half the time of `in`
        return True
    return not may_hold_references(data) and _MAX_DIGITS not in digits and _MAX_NEGATIVE_DIGITS not in digits


def check_value(value: Any) -> None:
    """Unstorable unless the value can be part of an event."""
    if isinstance(value, CONTAINERS) and _is_too_deep(value, MAX_VALUE_DEPTH):
        raise Unstorable(_TOO_DEEP)
    _checked(value, ())


def _is_too_deep(value: Any, limit: int) -> bool:
    level = [value]
    for _ in range(limit):
        parts: list[Any] = []
        for container in level:
            if isinstance(container, msgspec.Struct):
                parts += (getattr(container, name) for name in container.__struct_fields__)
            else:
                parts += container.values() if isinstance(container, dict) else container
        level = [part for part in parts if isinstance(part, CONTAINERS)]
        if not level:
            return False
    return True


def decode(name: str, data: bytes) -> Event:
    try:
        event: Event = _decoder(name)(data)
        return revived(event) if b"$" in data and may_hold_references(data) else event
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise Unreadable(f"cannot read an event of type {name!r}: {error}") from None


def encode_value(value: Any) -> bytes:
    """The value, which may contain references. Unstorable if it would not read back equal."""
    try:
        data = _encode(value)
        if _is_exact(data) and msgspec.json.decode(data) == value:
            return data
    except (msgspec.MsgspecError, TypeError, ValueError, RecursionError):
        pass  # _checked names what is wrong
    return _encode(_checked(value, ()))


def decode_value(data: bytes) -> Any:
    value = msgspec.json.decode(data)
    return revived(value) if b"$" in data and may_hold_references(data) else value


_struct_lock = Lock()
"""Held while msgspec reads the fields of a struct for the first time: it publishes the struct before its fields, and
another thread that uses it then crashes the process."""


@cache
def _decoder(name: str) -> Callable[[bytes], Any]:
    if name not in EVENTS:
        raise Unreadable(f"unknown event type {name!r}: upgrade noetl to read this log")
    with _struct_lock:
        return msgspec.json.Decoder(EVENTS[name]).decode


@cache
def _is_plain(hint: Any) -> bool:
    """Whether JSON has every value of the type."""
    if hint in (str, int, bool, NoneType, ...) or get_origin(hint) is Literal:
        return True
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        hints = get_type_hints(hint)
        return all(_is_plain(hints[name]) for name in hint.__struct_fields__)
    return get_origin(hint) in (Union, UnionType, tuple) and all(_is_plain(part) for part in get_args(hint))


_encode = msgspec.json.Encoder().encode


def _encode_by_value(event: Event) -> bytes:
    try:
        data = _encode(_checked(event, ()))
        _decoder(event.name)(data)
    except (Unstorable, msgspec.DecodeError, RecursionError) as error:
        reason = _TOO_DEEP if isinstance(error, RecursionError) else error
        raise Unstorable(f"{event.name}: {reason}") from None
    return data


def _checked(value: Any, path: Path) -> Any:
    """The value with references marked and keys escaped; Unstorable if a part cannot be stored."""
    match value:
        case None | bool():
            return value
        case str():
            return _text(value, path)
        case float():
            if isfinite(value):
                return value
            raise _unstorable(path, f"the number {value}")
        case int():
            if SMALLEST <= value <= LARGEST:
                return value
            raise _unstorable(path, "a whole number of more than 64 bits")
        case dict():
            return {_key(key, path): _checked(item, (*path, key)) for key, item in value.items()}
        case list() | tuple():
            if {*map(type, value)} <= WHOLE and all(item is None or SMALLEST <= item <= LARGEST for item in value):
                return value  # such as the items of a long loop, which every snapshot has
            return [_checked(item, (*path, place)) for place, item in enumerate(value)]
        case Reference():
            fields = ((name, field) for name, field in value.as_data().items() if field != OPTIONAL.get(name, ...))
            return {MARK: {name: _checked(field, (*path, name)) for name, field in fields}}
        case msgspec.Struct():
            fields = ((name, getattr(value, name)) for name in value.__struct_fields__)
            return type(value)(**{name: _checked(field, (*path, name)) for name, field in fields})
        case _:
            raise _unstorable(path, f"a value of type {type(value).__name__}")


def _text(value: str, path: Path) -> str:
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            raise _unstorable(path, "text with half of a surrogate pair") from None
    return value


def _key(key: Any, path: Path) -> str:
    if not isinstance(key, str):
        raise _unstorable(path, f"a map with a key of type {type(key).__name__}")
    return escaped(_text(key, path))


def _unstorable(path: Path, value: str) -> Unstorable:
    where = path_text(path).lstrip(".").encode("utf-8", "backslashreplace").decode()
    return Unstorable(f"{where}: {value} cannot be stored")


def chained(before: bytes, name: str, at: float, data: bytes) -> bytes:
    """The hash of a row and of all before it: a changed or missing row breaks the chain."""
    return sha256(before + _label(name, at) + data).digest()[:16]


@lru_cache(256)
def _label(name: str, at: float) -> bytes:
    """Name and time of a row, as they are hashed. Cached: rows that were committed together have the same time."""
    return b"|%b|%.6f|" % (name.encode(), at)


def rows_of(events: list[Event], first: int, at: float, head: bytes) -> list[Row]:
    rows, new_row = [], tuple.__new__  # as `Row(...)` and `chained`, without their calls for each row
    for seq, event in enumerate(events, first):
        name, data = event.name, encode(event)
        head = sha256(head + _label(name, at) + data).digest()[:16]
        rows.append(new_row(Row, (seq, name, at, data, head)))
    return rows


def freeze(state: Execution) -> bytes:
    """The state, ready to be stored. Its net comes from the playbook. Every value of it has been part of an event, and
    is not checked again. If keys of data look like marks, it is encoded value by value to escape them."""
    fields = {key: getattr(state, name) for name, key in _names(state) if name != "net"}
    references = 0

    def mark(value: Any) -> Any:
        nonlocal references
        references += 1
        return _marked(value)

    data = msgspec.json.encode({"format": 3, **fields}, enc_hook=mark)
    if data.count(b'"$ref') + data.count(b'"$$') == references:
        return data
    return _encode(_checked({"format": 3, **plain(fields)}, ()))


def _marked(value: Any) -> dict[str, Any]:
    if not isinstance(value, Reference):
        raise TypeError(f"a state has a value of type {type(value).__name__}")
    data = value.as_data().items()
    return {MARK: {name: field for name, field in data if field != OPTIONAL.get(name, ...)}}


def packed(state: bytes) -> bytes:
    """A frozen state as it is stored."""
    return PACKED_FORMAT + zlib.compress(state, PACK_LEVEL)


def readable_snapshot(snapshot: Snapshot | None) -> Snapshot | None:
    """The snapshot with its state unpacked, unless another version wrote it."""
    if snapshot is not None and snapshot.data.startswith(PACKED_FORMAT):
        try:
            snapshot = snapshot._replace(data=zlib.decompress(snapshot.data[len(PACKED_FORMAT) :]))
        except zlib.error:
            return None
    return snapshot if snapshot is not None and snapshot.data.startswith(SNAPSHOT_FORMAT) else None


class _Named(msgspec.Struct):
    digest: str


_decode_named = msgspec.json.Decoder(_Named).decode


def digest_of(data: bytes) -> str:
    """The digest of the playbook that was in force at a snapshot."""
    return _decode_named(data).digest


@cache
def _state_type() -> type[Execution]:
    with _struct_lock:
        msgspec.json.Decoder(Execution)
    return Execution


def thaw(data: bytes, net: Net, execution: str = "") -> Execution:
    """The frozen state, as that of another execution if one is given: a fork has the snapshots of its source."""
    fields = {**decode_value(data), "net": None}
    fields["id"] = execution or fields["id"]
    del fields["format"]

    def hook(kind: type, value: Any) -> Any:
        return net if kind is Net else value

    return msgspec.convert(fields, _state_type(), dec_hook=hook, str_keys=True)


def plain(value: Any) -> Any:
    """Structs as maps, keys as text; references stay what they are."""
    if isinstance(value, msgspec.Struct):
        return {key: plain(getattr(value, name)) for name, key in _names(value)}
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, LISTS) and not isinstance(value, Reference):
        return [item if type(item) in SCALARS else plain(item) for item in value]
    return value


def _names(value: msgspec.Struct) -> Iterable[tuple[str, str]]:
    return zip(value.__struct_fields__, value.__struct_encode_fields__, strict=True)
