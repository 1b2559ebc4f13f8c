"""Converts template values to values that can be stored.

A value that the store would reject is rejected here, so that the error names the template. A structure with shared
parts ([x, x] of [y, y] of ...) is small in memory but exponential when stored, so each part counts toward the budget as
often as it would be stored.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isfinite
from typing import Any

from noetl.expression.budget import DEPTH, LONG, Budget
from noetl.expression.fault import Fault

SMALLEST, LARGEST = -(2**63), 2**64 - 1

_COST = 8  # of a value in JSON, besides the text in it


def storable(value: Any, budget: Budget, depth: int = 0) -> Any:
    """The storable form of a value: tuples become lists; Fault for a value that JSON or the store does not support."""
    kind = type(value)
    if kind is str:
        return _text(value, budget)
    if kind is bool or value is None:
        return value
    if kind is int or kind is float:
        return _number(value)
    if isinstance(value, list | tuple):
        return _list(value, budget, depth)
    return _map(value, budget, depth) if isinstance(value, Mapping) else value


def is_storable(constant: Any) -> bool:
    """Whether a constant of a template can be stored as it is."""
    try:
        return storable(constant, Budget()) is constant
    except Fault:
        return False


def _text(value: str, budget: Budget) -> str:
    if len(value) > LONG:
        budget.check()
        budget.allowance.store(len(value))
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            raise Fault("the text has half of a surrogate pair, which can't be stored") from None
    return value


def _number(value: int | float) -> int | float:
    if isinstance(value, int):
        if not SMALLEST <= value <= LARGEST:
            raise Fault("an integer must not have more than 64 bits")
    elif not isfinite(value):
        raise Fault("the number is too large to be stored" if value == value else "NaN can't be stored")
    return value


def _list(values: list[Any] | tuple[Any, ...], budget: Budget, depth: int) -> Any:
    _enter(len(values), budget, depth)
    new = _storable_all(values, budget, depth)
    return values if new is None and type(values) is list else new or list(values)


def _map(values: Mapping[Any, Any], budget: Budget, depth: int) -> Any:
    _enter(2 * len(values), budget, depth)
    size = 0
    for key in values if len(values) <= LONG else budget.each(list(values)):
        if type(key) is not str:
            hint = "write it in quotes, or use `| string`"
            raise Fault(f"the map key {str(key)[:40]!r} is not text", hint)
        size += len(_text(key, budget))
    budget.allowance.store(size)
    new = _storable_all(list(values.values()), budget, depth)
    if new is None:
        return values if type(values) is dict else dict(values)
    return dict(zip(values, new, strict=True))


def _storable_all(values: Sequence[Any], budget: Budget, depth: int) -> list[Any] | None:
    """The storable forms of values; None if all can be stored as they are."""
    size = 0
    same = True
    storables = []
    for value in values if len(values) <= LONG else budget.each(values):
        if type(value) is str and len(value) <= LONG and value.isascii():
            size += len(value)
            new = value
        else:
            new = storable(value, budget, depth + 1)
            same = same and new is value
        storables.append(new)
    budget.allowance.store(size)
    return None if same else storables


def _enter(count: int, budget: Budget, depth: int) -> None:
    if depth >= DEPTH:
        raise Fault(f"the value is nested too deeply: {DEPTH} levels are the limit")
    budget.check()
    budget.allowance.store(_COST * (count + 1))
