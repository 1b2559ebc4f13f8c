"""Patches of `ctx` and `iter`: plain values replace, reducers combine exactly in any order.

A patch is a list of writes, each a key, an operator and a value. Whether a value is reduced was decided by what the
author wrote, before anything was rendered, so data that happens to look like a reducer stays data.

A reducer that combines with a stored value has to read it. `reducer_references` yields the references that a patch
needs; the caller passes their `contents`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeAlias

from noetl.reference import Reference

Write: TypeAlias = tuple[str, str, Any]
Patch: TypeAlias = tuple[Write, ...]
Contents: TypeAlias = Mapping[str, Any]  # Values of stored contents by their key

SET = "="
APPEND = "$append"
NOTHING: Contents = {}


class BadPatch(Exception):
    """A reducer met a value that it cannot combine with."""


REDUCERS: dict[str, Callable[[Any, Any], Any]] = {
    "$add": lambda old, operand: operand if old is None else old + operand,
    APPEND: lambda old, operand: [*([] if old is None else old), operand],
    "$max": lambda old, operand: operand if old is None else max(old, operand),
    "$min": lambda old, operand: operand if old is None else min(old, operand),
    "$merge": lambda old, operand: {**({} if old is None else old), **operand},
}


def operator_of(written: Any) -> tuple[str, Any]:
    """The operator and the operand of a value as the author wrote it."""
    if isinstance(written, dict) and len(written) == 1:
        ((name, operand),) = written.items()
        if name in REDUCERS:
            return name, operand
    return SET, written


def reducer_references(target: Mapping[str, Any], patch: Iterable[Write]) -> Iterator[Reference]:
    """The stored values that the reducers of a patch have to read."""
    set_before: dict[str, Any] = {}
    for key, operator, operand in patch:
        if operator == SET:
            set_before[key] = operand
            continue
        looked_into = (set_before.get(key, target.get(key)), None if operator == APPEND else operand)
        yield from (value for value in looked_into if isinstance(value, Reference))


def new_value(old: Any, operator: str, operand: Any, contents: Contents = NOTHING) -> Any:
    """The new value of a key. Old values are never changed in place: others may hold them."""
    if operator == SET:
        return operand
    old = _opened(old, contents)
    if operator != APPEND:  # an element can stay where it is stored
        operand = _opened(operand, contents)
    try:
        return REDUCERS[operator](old, operand)
    except (TypeError, ValueError):
        message = f"{operator} cannot combine {_words(old)} with {_words(operand)}"
        raise BadPatch(message) from None


def _opened(value: Any, contents: Contents) -> Any:
    return contents.get(value.key, value) if isinstance(value, Reference) else value


def apply_patch(target: dict[str, Any], patch: Iterable[Write], contents: Contents = NOTHING) -> None:
    """Write a patch. BadPatch leaves the target as it was before the failing write."""
    for key, operator, operand in patch:
        target[key] = operand if operator == SET else new_value(target.get(key), operator, operand, contents)


def plain_patch(values: Mapping[str, Any]) -> Patch:
    """A patch that sets each key."""
    return tuple((key, SET, value) for key, value in values.items())


def _words(value: Any) -> str:
    if isinstance(value, Reference):
        return f"a stored value of {value.size:,} bytes"
    names = {dict: "a map", list: "a list", str: "text", bool: "a boolean", type(None): "nothing"}
    return names.get(type(value), "a number" if isinstance(value, int | float) else "a value")
