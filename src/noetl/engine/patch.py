"""Patches of `ctx` and `iter`: plain values replace, reducers combine exactly in any order.

A patch is a list of writes, each a key, an operator and a value. Whether a value is reduced was decided by what the
author wrote, before anything was rendered, so data that happens to look like a reducer stays data.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from noetl.reference import Reference

Write: TypeAlias = tuple[str, str, Any]
Patch: TypeAlias = tuple[Write, ...]

SET = "="


class BadPatch(Exception):
    """A reducer met a value that it can't combine with."""


def _append(old: Any, operand: Any) -> Any:
    return [*([] if old is None else old), operand]


def _merge(old: Any, operand: Any) -> Any:
    return {**({} if old is None else old), **operand}


REDUCERS: dict[str, Callable[[Any, Any], Any]] = {
    "$add": lambda old, operand: operand if old is None else old + operand,
    "$append": _append,
    "$max": lambda old, operand: operand if old is None else max(old, operand),
    "$min": lambda old, operand: operand if old is None else min(old, operand),
    "$merge": _merge,
}


def operator_of(written: Any) -> tuple[str, Any]:
    """The operator and the operand of a value as the author wrote it."""
    if isinstance(written, dict) and len(written) == 1:
        ((name, operand),) = written.items()
        if name in REDUCERS:
            return name, operand
    return SET, written


def written(old: Any, operator: str, operand: Any) -> Any:
    """The new value of a key. Old values are never changed in place: others may hold them."""
    if operator == SET:
        return operand
    try:
        return REDUCERS[operator](old, operand)
    except (TypeError, ValueError):
        message = f"{operator} can't combine {_words(old)} with {_words(operand)}"
        raise BadPatch(message) from None


def apply_patch(target: dict[str, Any], patch: Patch) -> None:
    """Write a patch. BadPatch leaves the target as it was before the failing write."""
    for key, operator, operand in patch:
        target[key] = operand if operator == SET else written(target.get(key), operator, operand)


def plain_patch(values: Mapping[str, Any]) -> Patch:
    """A patch that sets each key."""
    return tuple((key, SET, value) for key, value in values.items())


def _words(value: Any) -> str:
    if isinstance(value, Reference):
        return f"a stored value of {value.size:,} bytes"
    names = {dict: "a map", list: "a list", str: "text", bool: "a boolean", type(None): "nothing"}
    return names.get(type(value), "a number" if isinstance(value, int | float) else "a value")
