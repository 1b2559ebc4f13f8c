"""Arithmetic, comparison and membership, with Missing and the bounds taken care of."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from math import isfinite
from typing import Any

from noetl.expression.budget import DEPTH, INTEGER_BITS, LONG, Budget, bounded_int
from noetl.expression.text import printf, to_text
from noetl.expression.values import (
    SCALARS,
    Fault,
    Missing,
    OutOfBudget,
    Sealed,
    View,
    kind_of,
    refuse_sealed,
    unwrapped,
)

DECIMAL = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?")


def add(a: Any, b: Any, budget: Budget) -> Any:
    if _numbers(a, b):
        return bounded_number(a + b)
    if isinstance(a, str) and isinstance(b, str):
        budget.string(len(a) + len(b))
        return a + b
    if isinstance(a, list | tuple) and isinstance(b, list | tuple):
        budget.elements(len(a) + len(b))
        return [*a, *b] if isinstance(a, list) or isinstance(b, list) else (*a, *b)
    return _refused("add", b, "to", a)


def multiply(a: Any, b: Any, budget: Budget) -> Any:
    if _numbers(a, b):
        if isinstance(a, int) and isinstance(b, int) and a.bit_length() + b.bit_length() > INTEGER_BITS + 1:
            raise Fault(f"the product has more than {INTEGER_BITS} bits")
        return bounded_number(a * b)
    if isinstance(a, int) and isinstance(b, str | list | tuple):
        a, b = b, a
    if isinstance(a, str) and isinstance(b, int):
        budget.string(len(a) * max(b, 0))
        return a * b
    if isinstance(a, list | tuple) and isinstance(b, int):
        budget.elements(len(a) * max(b, 0))
        return a * b
    return _refused("multiply", a, "by", b)


def modulo(a: Any, b: Any, budget: Budget) -> Any:
    if isinstance(a, str):
        return printf(a, b, budget)
    return bounded_number(a % b) if _numbers(a, b) else _refused("divide", a, "by", b)


def power(a: Any, b: Any, budget: Budget) -> Any:
    if not _numbers(a, b):
        return _refused("raise", a, "to the power of", b)
    if isinstance(a, int) and isinstance(b, int) and abs(a) > 1 and b > 0 and a.bit_length() * b > INTEGER_BITS:
        raise Fault(f"the power has more than {INTEGER_BITS} bits")
    result = a**b
    if isinstance(result, complex):
        raise Fault("a root of a negative number is not a real number")
    return bounded_number(result)


def sign(symbol: str, a: Any) -> Any:
    if not isinstance(a, int | float):
        raise Fault(f"cannot {'negate' if symbol == '-' else 'take the number of'} {kind_of(a)}")
    return -a if symbol == "-" else +a


def sliced(value: Any, bounds: list[Any], budget: Budget) -> Any:
    refuse_sealed(value)
    if not isinstance(value, str | list | tuple):
        raise Fault("only a list or a string can be sliced")
    if not all(number is None or isinstance(number, int) for number in bounds) or bounds[2] == 0:
        raise Fault("the bounds of a slice are whole numbers, its step is not 0")
    size = len(range(*slice(*bounds).indices(len(value))))
    if isinstance(value, str):
        budget.string(size)
    else:
        budget.charge(8 * size)
    return value[slice(*bounds)]


def concatenate(values: list[Any], budget: Budget) -> str | Sealed:
    """The `~` operator. The result of joining a secret to other text is secret."""
    texts = [to_text(value.content if type(value) is Sealed else value, budget) for value in values]
    budget.string(sum(map(len, texts)))
    text = "".join(texts)
    return Sealed(text) if any(type(value) is Sealed for value in values) else text


def _numbers(a: Any, b: Any) -> bool:
    return isinstance(a, int | float) and isinstance(b, int | float)


def bounded_number(value: Any) -> Any:
    if isinstance(value, int):
        return bounded_int(value)
    if not isfinite(value):
        raise Fault("the number is too large")
    return value


def _refused(verb: str, a: Any, word: str, b: Any) -> Any:
    refuse_sealed(a, b)
    mixed = isinstance(a, str) != isinstance(b, str)
    hint = "convert with | int, | float or | string, or join texts with ~" if mixed else None
    raise Fault(f"cannot {verb} {kind_of(a)} {word} {kind_of(b)}", hint)


ARITHMETIC: dict[str, Callable[[Any, Any, Budget], Any]] = {
    "+": add,
    "-": lambda a, b, budget: bounded_number(a - b) if _numbers(a, b) else _refused("subtract", b, "from", a),
    "*": multiply,
    "/": lambda a, b, budget: bounded_number(a / b) if _numbers(a, b) else _refused("divide", a, "by", b),
    "//": lambda a, b, budget: bounded_number(a // b) if _numbers(a, b) else _refused("divide", a, "by", b),
    "%": modulo,
    "**": power,
}


def equal(a: Any, b: Any, budget: Budget | None = None, depth: int = 0) -> bool:
    """Deep equality that pays per element: two structures that share their parts may be exponential."""
    if type(a) in SCALARS or type(b) in SCALARS:
        if type(a) is str and len(a) > LONG:
            (budget or Budget()).check()
        return bool(a == b) or ((type(a) is str) is not (type(b) is str) and compared(a, b) == 0)
    contents = None if budget is None else budget.contents
    a, b = unwrapped(a, contents), unwrapped(b, contents)
    if isinstance(a, Missing) or isinstance(b, Missing):
        return False
    if a is b:
        return True
    budget = budget or Budget()
    if depth >= DEPTH:
        raise Fault("the values are nested too deeply to compare")
    budget.check()
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        return len(a) == len(b) and all(
            key in b and equal(a[key], b[key], budget, depth + 1) for key in budget.each(list(a))
        )
    for sequence in (list, tuple):
        if isinstance(a, sequence) and isinstance(b, sequence):
            return len(a) == len(b) and all(
                equal(x, y, budget, depth + 1) for x, y in zip(budget.each(a), b, strict=True)
            )
    return bool(a == b) if type(a) is type(b) else False


def compared(a: Any, b: Any) -> int | None:
    """-1, 0 or 1 for texts of decimal numbers, which SQL results have so that no digit is lost, or one of them and a
    number. None for any other pair. The comparison is exact; a float counts as its shortest decimal notation."""
    if not (isinstance(a, str) or isinstance(b, str)):
        return None
    if not (_is_decimal(a) and _is_decimal(b)):
        return None
    from decimal import Decimal

    first, second = (Decimal(repr(value) if isinstance(value, float) else value) for value in (a, b))
    return (first > second) - (first < second)


def _is_decimal(value: Any) -> bool:
    if isinstance(value, str):
        return len(value) <= LONG and DECIMAL.fullmatch(value) is not None
    return type(value) in (int, float)


def contains(needle: Any, haystack: Any, budget: Budget | None = None) -> bool:
    """needle in haystack; false when either is missing."""
    contents = None if budget is None else budget.contents
    needle, haystack = unwrapped(needle, contents), unwrapped(haystack, contents)
    if isinstance(needle, Missing) or isinstance(haystack, Missing):
        return False
    if isinstance(haystack, str):
        if isinstance(needle, str):
            if len(haystack) > LONG:
                (budget or Budget()).work(len(haystack))
            return needle in haystack
        raise Fault(f"cannot search for {kind_of(needle)} in a string", "convert it with | string")
    if isinstance(haystack, Mapping):
        return type(needle) in SCALARS and needle in haystack
    if isinstance(haystack, list | tuple):
        if len(haystack) > LONG:
            (budget or Budget()).work(len(haystack))
        if type(needle) in SCALARS and not (isinstance(needle, str) and len(needle) > LONG):
            return needle in haystack
        budget = budget or Budget()
        return any(equal(needle, element, budget) for element in budget.each(haystack))
    raise Fault(f"cannot search in {kind_of(haystack)}")


def ordered(a: Any, b: Any, symbol: str, budget: Budget | None = None) -> bool:
    """a < b and its like; false when either is missing, an error between kinds that have no order."""
    contents = None if budget is None else budget.contents
    a, b = unwrapped(a, contents), unwrapped(b, contents)
    if isinstance(a, Missing) or isinstance(b, Missing):
        return False
    if (difference := compared(a, b)) is not None:
        return bool(_ORDER[symbol](difference, 0))
    if _numbers(a, b) or (isinstance(a, str) and isinstance(b, str)):
        if isinstance(a, str) and len(a) > LONG:
            (budget or Budget()).check()
        return bool(_ORDER[symbol](a, b))
    if isinstance(a, list | tuple) and isinstance(b, list | tuple):
        budget = budget or Budget()
        for x, y in zip(budget.each(a), b, strict=False):
            if not equal(x, y, budget):
                return ordered(x, y, symbol, budget)
        return bool(_ORDER[symbol](len(a), len(b)))
    raise Fault(
        f"cannot compare {kind_of(a)} with {kind_of(b)} by '{symbol}'",
        "test for it first, or convert one with | int, | float or | string",
    )


_ORDER = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}

COMPARISONS: dict[str, Callable[[Any, Any, Budget | None], bool]] = {
    "==": equal,
    "!=": lambda a, b, budget: not equal(a, b, budget),
    "<": lambda a, b, budget: ordered(a, b, "<", budget),
    "<=": lambda a, b, budget: ordered(a, b, "<=", budget),
    ">": lambda a, b, budget: ordered(a, b, ">", budget),
    ">=": lambda a, b, budget: ordered(a, b, ">=", budget),
    "in": contains,
    "not in": lambda a, b, budget: not contains(a, b, budget),
}


def has_missing(value: Any, budget: Budget, depth: int = 0) -> Missing | None:
    if isinstance(value, Missing):
        return value
    if type(value) in SCALARS or isinstance(value, View):
        return None
    if depth >= DEPTH:
        raise OutOfBudget("the value is nested too deeply")
    inner = list(value.values()) if isinstance(value, Mapping) else value if isinstance(value, list | tuple) else ()
    for element in budget.each(inner):
        missing = has_missing(element, budget, depth + 1)
        if missing is not None:  # a Missing is false
            return missing
    return None
