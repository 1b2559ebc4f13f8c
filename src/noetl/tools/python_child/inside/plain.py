"""What a result may hold: what JSON can say, exactly.

A result is maps with text for keys, lists, text, whole numbers of 64 bits, finite floats, true, false and null. What
has one obvious form becomes it: tuples are lists; dates and times are ISO 8601 text; Decimal (every digit kept) and
UUID are text; an Enum is its value; scalars and arrays of numpy are numbers and lists. Everything else is refused,
with the place where it is: better an error here than a value that came back as something else.

Containers of one simple type are checked at the speed of C; only what contains other containers is walked.
"""

from __future__ import annotations

import sys
from enum import Enum
from math import isfinite

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

DEPTH = 200
LOWEST, HIGHEST = -(2**63), 2**63 - 1
EASY = frozenset([str, bool, type(None)])
HINTS = {
    "set": "a set has no order: make it a list, sorted(...) for instance",
    "frozenset": "a frozenset has no order: make it a list, sorted(...) for instance",
    "bytes": "decode it into text, or encode it with base64",
    "bytearray": "decode it into text, or encode it with base64",
    "generator": "make it a list",
    "dict_keys": "make it a list",
    "dict_values": "make it a list",
    "dict_items": "make it a list or a dict",
    "timedelta": "use its total_seconds()",
    "coroutine": "await it",
    "DataFrame": "use its to_dict('records')",
    "Series": "use its tolist()",
}


class Unstorable(Exception):
    """A part of a result that can't be stored, and where it is."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why
        self.path: list[Any] = []
        """Keys and indices from the part outwards."""

    def __str__(self) -> str:
        where = "result"
        for key in reversed(self.path):
            where += f".{key}" if isinstance(key, str) and key.isidentifier() else f"[{key!r}]"
        return f"the result can't be stored: {where} {self.why}"


class Plain:
    """Makes one value plain. `count` is about how many parts it has had."""

    def __init__(self) -> None:
        self.count = 1

    def value(self, value: Any, depth: int = 0) -> Any:
        kind = type(value)
        if kind in EASY:
            return value
        if kind is int:
            if LOWEST <= value <= HIGHEST:
                return value
            raise Unstorable(f"is a number of more than 64 bits ({value.bit_length()})")
        if kind is float:
            if isfinite(value):
                return value
            raise Unstorable(f"is {value}, which JSON does not have")
        if depth > DEPTH:
            raise Unstorable(f"is nested deeper than {DEPTH} levels, or contains itself")
        if kind is dict:
            return self.mapping(value, depth)
        if kind is list or kind is tuple:
            return self.sequence(value, depth)
        return self.other(value, depth)

    def mapping(self, value: dict[Any, Any], depth: int) -> dict[str, Any]:
        self.count += len(value)
        if not value:
            return value
        if set(map(type, value)) != {str}:
            value = {self.key(key): item for key, item in value.items()}
        if set(map(type, value.values())) <= EASY:
            return value
        changed: dict[str, Any] | None = None
        for key, item in value.items():
            if type(item) in EASY:
                continue
            try:
                plain = self.value(item, depth + 1)
            except Unstorable as fault:
                fault.path.append(key)
                raise
            if plain is not item:
                if changed is None:
                    changed = dict(value)
                changed[key] = plain
        return value if changed is None else changed

    def key(self, key: Any) -> str:
        if isinstance(key, Enum):
            key = key.value
        if isinstance(key, str):
            return str.__str__(key)
        raise Unstorable(f"has the key {key!r} of type {type(key).__name__}: keys are text")

    def sequence(self, value: list[Any] | tuple[Any, ...], depth: int) -> list[Any] | tuple[Any, ...]:
        self.count += len(value)
        kinds = set(map(type, value))
        if kinds <= EASY:
            return value
        if kinds == {int} and min(value) >= LOWEST and max(value) <= HIGHEST:
            return value
        if kinds == {float} and all(map(isfinite, value)):
            return value
        changed: list[Any] | None = None
        for index, item in enumerate(value):
            if type(item) in EASY:
                continue
            try:
                plain = self.value(item, depth + 1)
            except Unstorable as fault:
                fault.path.append(index)
                raise
            if plain is not item:
                if changed is None:
                    changed = list(value)
                changed[index] = plain
        return value if changed is None else changed

    def other(self, value: Any, depth: int) -> Any:
        """Values of types that are not plain themselves."""
        kind = type(value)
        if isinstance(value, Enum):
            return self.value(value.value, depth + 1)
        if isinstance(value, str):
            return str.__str__(value)
        if isinstance(value, int):
            return self.value(int.__int__(value), depth)
        if isinstance(value, float):
            return self.value(float.__float__(value), depth)
        if isinstance(value, dict):
            return self.mapping(dict(value), depth)
        if isinstance(value, (list, tuple)):
            return self.sequence(list(value), depth)
        if is_a(value, "datetime", "date", "time"):
            return value.isoformat()
        if is_a(value, "uuid", "UUID"):
            return str(value)
        if is_a(value, "decimal", "Decimal") and value.is_finite():
            return str(value)
        if is_a(value, "numpy", "ndarray", "generic"):
            plain = value.tolist()
            if type(plain) is not kind:
                return self.value(plain, depth)
        hint = HINTS.get(kind.__name__)
        raise Unstorable(f"is of type {kind.__name__}" + (f" ({hint})" if hint else ""))


def is_a(value: Any, module: str, *names: str) -> bool:
    """Whether a value is of one of these types. If its module was never imported it can't be."""
    found = sys.modules.get(module)
    return found is not None and any(isinstance(value, getattr(found, name, ())) for name in names)


def find_surrogate(value: Any) -> Unstorable | None:
    """Where in a plain value there is text that is no valid Unicode."""
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError as error:
            return Unstorable(f"is text that is no valid Unicode: it has half a surrogate pair at {error.start}")
        return None
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, (list, tuple)) else ()
    for key, item in items:
        if isinstance(key, str) and find_surrogate(key) is not None:
            return Unstorable(f"has the key {key!r}, which is no valid Unicode")
        fault = find_surrogate(item)
        if fault is not None:
            fault.path.append(key)
            return fault
    return None
