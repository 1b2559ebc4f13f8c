"""The tests: what `{{ value is name }}` can ask.

A test of a missing value is false, but for `undefined` and `ne`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from noetl.expression.budget import Budget
from noetl.expression.fault import Fault
from noetl.expression.filters import Entry, entry, named
from noetl.expression.missing import Missing, kind_of, unwrapped
from noetl.expression.operators import contains, equal, ordered


def defined(budget: Budget, value: Any) -> bool:
    """The value exists."""
    return not isinstance(value, Missing)


def undefined(budget: Budget, value: Any) -> bool:
    """The value does not exist."""
    return isinstance(value, Missing)


def none(budget: Budget, value: Any) -> bool:
    """null."""
    return value is None


def boolean(budget: Budget, value: Any) -> bool:
    """true or false."""
    return isinstance(value, bool)


def true(budget: Budget, value: Any) -> bool:
    """true itself, not just something that counts as true."""
    return value is True


def false(budget: Budget, value: Any) -> bool:
    """false itself."""
    return value is False


def number(budget: Budget, value: Any) -> bool:
    """A number (or a boolean, as in Jinja)."""
    return isinstance(value, int | float)


def integer(budget: Budget, value: Any) -> bool:
    """A whole number."""
    return isinstance(value, int) and not isinstance(value, bool)


def float_(budget: Budget, value: Any) -> bool:
    """A floating-point number."""
    return isinstance(value, float)


def string(budget: Budget, value: Any) -> bool:
    """A text."""
    return isinstance(value, str)


def mapping(budget: Budget, value: Any) -> bool:
    """A map."""
    return isinstance(value, Mapping)


def sequence(budget: Budget, value: Any) -> bool:
    """A list, a text or a map: something with a length."""
    return isinstance(value, list | tuple | str | Mapping)


def _integer(value: Any) -> int:
    if not isinstance(value, int):
        raise Fault(f"a whole number is needed here, not {kind_of(value)}")
    return int(value)


def even(budget: Budget, value: Any) -> bool:
    """An even number."""
    return _integer(value) % 2 == 0


def odd(budget: Budget, value: Any) -> bool:
    """An odd number."""
    return _integer(value) % 2 == 1


def divisibleby(budget: Budget, value: Any, num: Any) -> bool:
    """Divisible by `num`."""
    return _integer(value) % _integer(num) == 0


def eq(budget: Budget, value: Any, other: Any) -> bool:
    """Equal to `other`."""
    return equal(value, other, budget)


def ne(budget: Budget, value: Any, other: Any) -> bool:
    """Not equal to `other`."""
    return not equal(value, other, budget)


def lt(budget: Budget, value: Any, other: Any) -> bool:
    """Less than `other`."""
    return ordered(value, other, "<", budget)


def le(budget: Budget, value: Any, other: Any) -> bool:
    """Less than or equal to `other`."""
    return ordered(value, other, "<=", budget)


def gt(budget: Budget, value: Any, other: Any) -> bool:
    """Greater than `other`."""
    return ordered(value, other, ">", budget)


def ge(budget: Budget, value: Any, other: Any) -> bool:
    """Greater than or equal to `other`."""
    return ordered(value, other, ">=", budget)


def in_(budget: Budget, value: Any, container: Any) -> bool:
    """Contained in `container`."""
    return contains(value, container, budget)


def lower(budget: Budget, value: Any) -> bool:
    """A text in lower case."""
    return isinstance(value, str) and _method(budget, value, str.islower)


def upper(budget: Budget, value: Any) -> bool:
    """A text in upper case."""
    return isinstance(value, str) and _method(budget, value, str.isupper)


def _method(budget: Budget, value: str, method: Callable[[str], bool]) -> bool:
    budget.work(len(value))
    return method(value)


def sameas(budget: Budget, value: Any, other: Any) -> bool:
    """The same null, true or false; for other values, equal and of one type."""
    if value is None or other is None or isinstance(value, bool) or isinstance(other, bool):
        return value is other
    return type(value) is type(other) and equal(value, other, budget)


TESTS: dict[str, Entry] = {
    "!=": entry(ne),
    "<": entry(lt),
    "<=": entry(le),
    "==": entry(eq),
    ">": entry(gt),
    ">=": entry(ge),
    "boolean": entry(boolean),
    "defined": entry(defined),
    "divisibleby": entry(divisibleby),
    "eq": entry(eq),
    "equalto": entry(eq),
    "even": entry(even),
    "false": entry(false),
    "float": entry(float_),
    "ge": entry(ge),
    "greaterthan": entry(gt),
    "gt": entry(gt),
    "in": entry(in_),
    "integer": entry(integer),
    "iterable": entry(sequence),
    "le": entry(le),
    "lessthan": entry(lt),
    "lower": entry(lower),
    "lt": entry(lt),
    "mapping": entry(mapping),
    "ne": entry(ne),
    "none": entry(none),
    "number": entry(number),
    "odd": entry(odd),
    "sameas": entry(sameas),
    "sequence": entry(sequence),
    "string": entry(string),
    "true": entry(true),
    "undefined": entry(undefined),
    "upper": entry(upper),
}

_TRUE_OF_MISSING: frozenset[Callable[..., bool]] = frozenset({undefined, ne})


def check(budget: Budget, name: Any, value: Any, args: Sequence[Any]) -> bool:
    """One test by name, for `select` and its like."""
    found = TESTS.get(name) if isinstance(name, str) else None
    if found is None:
        raise Fault(f"no test is called {named(name)}")
    if found.refuses(len(args), ()):
        raise Fault(f"test '{name}' takes {found.signature}")
    budget.check()
    return holds(found, budget, unwrapped(value), args)


def holds(test: Entry, budget: Budget, value: Any, args: Sequence[Any]) -> bool:
    """The answer of a test, with the rule for missing values."""
    if isinstance(value, Missing) or any(isinstance(arg, Missing) for arg in args):
        return test.call in _TRUE_OF_MISSING and (test.call is ne or isinstance(value, Missing))
    return bool(test.call(budget, value, *args))
