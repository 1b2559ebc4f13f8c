"""Every filter, method, test, function and operator, called with values at the bounds.

Each call has a budget of 10 ms and runs in a child process. It must end or be refused soon after: one call into C that
looks at no clock can hold up a whole server. What counts is CPU time, with a margin of a hundred.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import islice, product
from time import thread_time
from typing import Any

import pytest

from noetl.expression import FILTERS, FUNCTIONS, METHODS, TESTS, operators
from noetl.expression.budget import Allowance, Budget
from noetl.expression.text import storable
from noetl.expression.values import Fault, Missing, lookup

BUDGET_SECONDS = 0.01
CPU_SECONDS = 1.0
LIMIT_SECONDS = 300  # for all calls of one entry; only a call that never ends gets there
STRIDE = 16
"""The default run makes one in sixteen of the 480 calls of an entry; `make soak-fuzz` makes all."""

MIB = 1 << 20


def shared(depth: int) -> list[Any]:
    """Small in memory, 9 ** depth elements."""
    value: list[Any] = [1]
    for _ in range(depth):
        value = [value] * 9
    return value


TEXTS = {
    "ascii": "ab" * (MIB // 2),
    "one letter": "a" * MIB,
    "wide": "\u0100" * (MIB // 4),
    "stored": "a " * (4 * MIB),
    "spaces": " " * 65_536,
    "hyphens": "-" * 65_536,
    "tags": "<a>" * 21_000,
    "fields": "{0}" * 100_000,
    "percents": "%s" * 100_000,
    "keys": "%(" * 500_000,
    "digits": "9" * 65_536,
    "json": "[" + "[1]," * 100_000 + "1]",
    "short": "a" * 29_999,
}
VALUES = TEXTS | {
    "numbers": list(range(90_000)),
    "stored numbers": list(range(1_000_000)),
    "texts": ["a" * MIB] * 90_000,
    "wide texts": ["\u0100" * 60_000] * 90_000,
    "rows": [{"a": {"a": "x" * 100}} for _ in range(20_000)],
    "keys of a map": {f"key{number}": number for number in range(200_000)},
    "shared list": shared(12),
    "shared map": {"a": shared(12), "b": shared(12)},
    "pairs": [["\u0100" * 60_000, 1]] * 50_000,
    "number": 2**4095,
    "float": 1e308,
}
ARGUMENTS: dict[str, Any] = {
    "letter": "a",
    "long set": "\u0200" * 120_000 + "\u0100",
    "long ascii": "b" * 500_000 + "a",
    "long middle": "a" * 250_000 + "b" + "a" * 250_000,
    "short middle": "a" * 7_500 + "b" + "a" * 7_500,
    "path": "a." * 100_000 + "a",
    "paths": "a," * 100_000 + "a",
    "one": 1,
    "many": 100_000,
    "list": ["a" * MIB] * 90_000,
    "lower": "lower",
    "in": "in",
}
WITH_TWO = ("one letter", "stored", "spaces", "texts", "rows", "shared list")
SECOND = ("letter", "one", "long ascii", "list")


def table() -> Iterator[tuple[str, Callable[..., Any]]]:
    for kind, entries in {"filter": FILTERS, "test": TESTS, **{f"{k} method": m for k, m in METHODS.items()}}.items():
        for name, entry in entries.items():
            yield f"{kind} {name}", entry.call
    for name, entry in FUNCTIONS.items():
        yield f"function {name}", lambda budget, *args, call=entry.call: call(budget, {}, *args)
    for symbol, operate in operators.ARITHMETIC.items():
        yield f"operator {symbol}", lambda budget, a, b, operate=operate: operate(a, b, budget)
    yield "operator ~", lambda budget, a, b: operators.concatenate([a, b], budget)
    yield "operator <", lambda budget, a, b: operators.ordered(a, b, "<", budget)
    yield "operator ==", lambda budget, a, b: operators.equal(a, copied(a) if b == 1 else b, budget)
    yield "operator in", lambda budget, a, b: operators.contains(b, a, budget)
    yield "stored", lambda budget, a: storable(a, budget)
    yield "missing inside", lambda budget, a: operators.has_missing(a, budget)
    yield "item", lambda budget, a, b: lookup(a, b, Missing("a"), budget.contents) if isinstance(b, str | int) else None


def copied(value: Any) -> Any:
    """An equal value that is another object."""
    return value[:1] + value[1:] if isinstance(value, str) else list(value) if isinstance(value, list) else value


ENTRIES = dict(table())


def calls() -> Iterator[tuple[str, Any, tuple[Any, ...], dict[str, Any]]]:
    for name, value in VALUES.items():
        yield name, value, (), {}
        for given, argument in ARGUMENTS.items():
            yield f"{name}, {given}", value, (argument,), {}
        if name in WITH_TWO:
            for first, second in product(("letter", "long middle", "lower", "in"), SECOND):
                yield f"{name}, {first}, {second}", value, (ARGUMENTS[first], ARGUMENTS[second]), {}
        for given in ("path", "paths", "letter"):
            yield f"{name}, attribute={given}", value, (), {"attribute": ARGUMENTS[given]}


def slow_calls(call: Callable[..., Any], first: int, stride: int) -> Iterator[str]:
    """Calls that took far more CPU time than their budget."""
    for name, value, args, kwargs in islice(calls(), first, None, stride):
        began = thread_time()
        with suppress(Fault, TypeError, ValueError, ArithmeticError, AttributeError, RecursionError, KeyError):
            call(Budget(Allowance(BUDGET_SECONDS)), value, *args, **kwargs)
        if (spent := thread_time() - began) > CPU_SECONDS:
            yield f"{name}: took {spent:.1f} s"


@pytest.mark.parametrize(("number", "name"), list(enumerate(ENTRIES)), ids=list(ENTRIES))
def test_no_call_costs_far_more_than_its_budget(number: int, name: str) -> None:
    """Each entry is called with some of the values, and each value is given to some of the entries."""
    check_calls(name, number % STRIDE, STRIDE)


@pytest.mark.slow(part="fuzz")
@pytest.mark.parametrize("name", ENTRIES)
def test_no_call_with_any_value_costs_far_more_than_its_budget(name: str) -> None:
    check_calls(name, 0, 1)


def check_calls(name: str, first: int, stride: int) -> None:
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:  # a call into C that never returns cannot be stopped from inside
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(LIMIT_SECONDS)
        for slow_call in slow_calls(ENTRIES[name], first, stride):
            os.write(writing, f"{slow_call}\n".encode())
        os._exit(0)
    os.close(writing)
    with open(reading) as report:
        slow = report.read()
    _, status = os.waitpid(child, 0)
    assert not slow
    assert status == 0
