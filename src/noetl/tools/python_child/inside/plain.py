"""Converts a result to plain data, which JSON represents exactly.

A result consists of maps with text keys, lists, text, whole numbers of 64 bits, finite floats, true, false and null.
Types with one obvious form are converted; whole numbers that are keys become text. Everything else is rejected with its
path: an error here is better than a value that changed its type. Containers of one simple type are checked at the speed
of C; only others are walked.
"""

from __future__ import annotations

import sys
from enum import Enum
from math import isfinite

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

MAX_DEPTH = 200
LOWEST, HIGHEST = -(2**63), 2**63 - 1
UNCHANGED = frozenset([str, bool, type(None)])
BASES: tuple[tuple[type, Callable[[Any], Any]], ...] = (
    (str, str.__str__), (int, int.__int__), (float, float.__float__), (dict, dict), (list, list), (tuple, list),
)  # fmt: skip
HINTS = {
    **dict.fromkeys(["set", "frozenset"], "a set has no order: make it a list, sorted(...) for instance"),
    **dict.fromkeys(["bytes", "bytearray"], "decode it into text, or encode it with base64"),
    **dict.fromkeys(["generator", "dict_keys", "dict_values"], "make it a list"),
    "dict_items": "make it a list or a dict",
    "timedelta": "use its total_seconds()",
    "coroutine": "await it",
    "DataFrame": "use its to_dict('records')",
    "Series": "use its tolist()",
}


class NotPlain(Exception):
    def __init__(self, reason: str) -> None:
        self.reason = reason
        self.path: list[Any] = []

    def __str__(self) -> str:
        path = "result"
        for key in reversed(self.path):
            path += f".{key}" if isinstance(key, str) and key.isidentifier() else f"[{key!r}]"
        return f"the result cannot be stored: {path} {self.reason}"


class Plain:
    """Converts one value to plain data. `count` is roughly the number of its parts."""

    def __init__(self) -> None:
        self.count = 1

    def value(self, value: Any, depth: int = 0) -> Any:
        kind = type(value)
        if kind in UNCHANGED:
            return value
        if kind is int:
            if LOWEST <= value <= HIGHEST:
                return value
            raise NotPlain(f"is a number of more than 64 bits ({value.bit_length()})")
        if kind is float:
            if isfinite(value):
                return value
            raise NotPlain(f"is {value}, which JSON does not have")
        if depth > MAX_DEPTH:
            raise NotPlain(f"is nested deeper than {MAX_DEPTH} levels, or contains itself")
        if kind is dict:
            return self.mapping(value, depth)
        return self.sequence(value, depth) if kind in (list, tuple) else self.other(value, depth)

    def mapping(self, value: dict[Any, Any], depth: int) -> dict[str, Any]:
        self.count += len(value)
        if not value:
            return value
        if set(map(type, value)) != {str}:
            renamed = {self.key(key): item for key, item in value.items()}
            if len(renamed) < len(value):
                raise NotPlain("has two keys that are the same as text, such as 1 and '1'")
            value = renamed
        if set(map(type, value.values())) <= UNCHANGED:
            return value
        changed = self.changes(value.items(), depth)
        return {**value, **changed} if changed else value

    def key(self, key: Any) -> str:
        key = key.value if isinstance(key, Enum) else key
        if isinstance(key, str):
            return str.__str__(key)
        if isinstance(key, int) and not isinstance(key, bool):
            return int.__repr__(key)
        raise NotPlain(f"has the key {key!r} of type {type(key).__name__}: keys are text")

    def sequence(self, value: list[Any] | tuple[Any, ...], depth: int) -> list[Any] | tuple[Any, ...]:
        self.count += len(value)
        kinds = set(map(type, value))
        if (
            kinds <= UNCHANGED
            or (kinds == {int} and min(value) >= LOWEST and max(value) <= HIGHEST)
            or (kinds == {float} and all(map(isfinite, value)))
        ):
            return value
        changed = self.changes(enumerate(value), depth)
        return [changed.get(index, item) for index, item in enumerate(value)] if changed else value

    def changes(self, items: Iterable[tuple[Any, Any]], depth: int) -> dict[Any, Any]:
        changed: dict[Any, Any] = {}
        for key, item in items:
            if type(item) in UNCHANGED:
                continue
            try:
                plain = self.value(item, depth + 1)
            except NotPlain as fault:
                fault.path.append(key)
                raise
            if plain is not item:
                changed[key] = plain
        return changed

    def other(self, value: Any, depth: int) -> Any:
        kind = type(value)
        if isinstance(value, Enum):
            return self.value(value.value, depth + 1)
        for base, convert in BASES:
            if isinstance(value, base):
                return self.value(convert(value), depth)
        if is_a(value, "datetime", "date", "time"):
            return value.isoformat()
        if is_a(value, "uuid", "UUID") or (is_a(value, "decimal", "Decimal") and value.is_finite()):
            return str(value)
        if is_a(value, "numpy", "ndarray", "generic") and type(plain := value.tolist()) is not kind:
            return self.value(plain, depth)
        hint = HINTS.get(kind.__name__)
        raise NotPlain(f"is of type {kind.__name__}" + (f" ({hint})" if hint else ""))


def is_a(value: Any, module: str, *names: str) -> bool:
    """Whether a value has one of these types, which it cannot if their module was never imported."""
    return any(isinstance(value, getattr(sys.modules.get(module), name, ())) for name in names)


def find_surrogate(value: Any) -> NotPlain | None:
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError as error:
            return NotPlain(f"is not valid Unicode: it has half a surrogate pair at {error.start}")
        return None
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, (list, tuple)) else ()
    for key, item in items:
        if isinstance(key, str) and find_surrogate(key) is not None:
            return NotPlain(f"has the key {key!r}, which is not valid Unicode")
        fault = find_surrogate(item)
        if fault is not None:
            fault.path.append(key)
            return fault
    return None
