"""The tests: what `{{ value is name }}` can ask.

A test of a missing value is false, but for `undefined` and `ne`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from noetl.expression.budget import Budget
from noetl.expression.entries import Entry, entry, named
from noetl.expression.fault import Fault
from noetl.expression.missing import Missing, kind_of, unwrapped
from noetl.expression.operators import contains, equal, ordered


def _integer(value: Any) -> int:
    if not isinstance(value, int):
        raise Fault(f"a whole number is needed here, not {kind_of(value)}")
    return int(value)


def _in_case(budget: Budget, value: Any, test: Callable[[str], bool]) -> bool:
    if not isinstance(value, str):
        return False
    budget.work(len(value))
    return test(value)


def sameas(budget: Budget, value: Any, other: Any) -> bool:
    """The same null, true or false; for other values, equal and of one type."""
    if value is None or other is None or isinstance(value, bool) or isinstance(other, bool):
        return value is other
    return type(value) is type(other) and equal(value, other, budget)


_EQ = Entry(lambda budget, value, other: equal(value, other, budget), "Equal to `other`.")
_NE = Entry(lambda budget, value, other: not equal(value, other, budget), "Not equal to `other`.")
_LT = Entry(lambda budget, value, other: ordered(value, other, "<", budget), "Less than `other`.")
_LE = Entry(lambda budget, value, other: ordered(value, other, "<=", budget), "Less than or equal to `other`.")
_GT = Entry(lambda budget, value, other: ordered(value, other, ">", budget), "Greater than `other`.")
_GE = Entry(lambda budget, value, other: ordered(value, other, ">=", budget), "Greater than or equal to `other`.")
_SEQUENCE = Entry(
    lambda budget, value: isinstance(value, list | tuple | str | Mapping),
    "A list, a text or a map: something with a length.",
)
_UNDEFINED = Entry(lambda budget, value: isinstance(value, Missing), "The value does not exist.")

TESTS: dict[str, Entry] = {
    "!=": _NE,
    "<": _LT,
    "<=": _LE,
    "==": _EQ,
    ">": _GT,
    ">=": _GE,
    "boolean": Entry(lambda budget, value: isinstance(value, bool), "true or false."),
    "defined": Entry(lambda budget, value: not isinstance(value, Missing), "The value exists."),
    "divisibleby": Entry(lambda budget, value, num: _integer(value) % _integer(num) == 0, "Divisible by `num`."),
    "eq": _EQ,
    "equalto": _EQ,
    "even": Entry(lambda budget, value: _integer(value) % 2 == 0, "An even number."),
    "false": Entry(lambda budget, value: value is False, "false itself."),
    "float": Entry(lambda budget, value: isinstance(value, float), "A floating-point number."),
    "ge": _GE,
    "greaterthan": _GT,
    "gt": _GT,
    "in": Entry(lambda budget, value, container: contains(value, container, budget), "Contained in `container`."),
    "integer": Entry(lambda budget, value: isinstance(value, int) and not isinstance(value, bool), "A whole number."),
    "iterable": _SEQUENCE,
    "le": _LE,
    "lessthan": _LT,
    "lower": Entry(lambda budget, value: _in_case(budget, value, str.islower), "A text in lower case."),
    "lt": _LT,
    "mapping": Entry(lambda budget, value: isinstance(value, Mapping), "A map."),
    "ne": _NE,
    "none": Entry(lambda budget, value: value is None, "null."),
    "number": Entry(lambda budget, value: isinstance(value, int | float), "A number (or a boolean, as in Jinja)."),
    "odd": Entry(lambda budget, value: _integer(value) % 2 == 1, "An odd number."),
    "sameas": entry(sameas),
    "sequence": _SEQUENCE,
    "string": Entry(lambda budget, value: isinstance(value, str), "A text."),
    "true": Entry(lambda budget, value: value is True, "true itself, not just something that counts as true."),
    "undefined": _UNDEFINED,
    "upper": Entry(lambda budget, value: _in_case(budget, value, str.isupper), "A text in upper case."),
}


def check(budget: Budget, name: Any, value: Any, args: Sequence[Any]) -> bool:
    """One test by name, for `select` and its like."""
    test = TESTS.get(name) if isinstance(name, str) else None
    if test is None:
        raise Fault(f"unknown test {named(name)}")
    if test.refuses(len(args), ()):
        raise Fault(f"test '{name}' takes {test.signature}")
    budget.check()
    return holds(test, budget, unwrapped(value, budget.contents), args)


def holds(test: Entry, budget: Budget, value: Any, args: Sequence[Any]) -> bool:
    """The answer of a test, with the rule for missing values."""
    if isinstance(value, Missing) or any(isinstance(arg, Missing) for arg in args):
        return test is _NE or (test is _UNDEFINED and isinstance(value, Missing))
    return bool(test.call(budget, value, *args))
