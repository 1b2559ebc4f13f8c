"""One allowance for several evaluations, and values that cannot be stored."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from noetl.errors import BudgetExceeded, TemplateFailed
from noetl.expression import BUDGET_KEY, Contents, View, decision_budget, parse, prepare, render
from noetl.expression.budget import DECISION_BYTES, DEPTH

TOGETHER = "the templates of this decision used up the 200 ms"
LONG = {"n": "a" * 45 + "c" + "a" * 45, "s": "a" * 1_000_000, "l": [[0] * 100] * 3_000, "m": [[0] * 100] * 3_000}


def scope(**names: Any) -> dict[str, Any]:
    return {**names, BUDGET_KEY: decision_budget()}


def spent(scope: dict[str, Any]) -> float:
    return 0.25 - float(scope[BUDGET_KEY].allowance.seconds)


def repeat(call: Callable[[], Any], times: int) -> None:
    for _ in range(times):
        call()


@pytest.mark.parametrize(
    "guard",
    ["{{ n in s }}", "{{ l == m }}", "{{ l < m }}", "{{ l != m and 1 }}", "{{ 1 == 2 }}", "{{ s | upper == 1 }}"],
)
def test_every_guard_of_a_decision_uses_the_same_allowance(guard: str) -> None:
    together = scope(**LONG)
    test = parse(guard).test
    with together[BUDGET_KEY].allowance, pytest.raises(BudgetExceeded, match=TOGETHER) as caught:
        repeat(lambda: test(together), 10_000_000)
    assert caught.value.source == guard
    assert spent(together) >= 0.25


def test_values_of_a_decision_use_the_same_allowance() -> None:
    together = scope(text="x" * 1_000_000)
    make = prepare({"a": "{{ text }}", "b": "{{ text ~ '' }}"})
    with pytest.raises(BudgetExceeded, match="larger than 32 MiB together"):
        repeat(lambda: make(together), DECISION_BYTES // 2_000_000 + 1)


class Slow(View):
    """A value that takes time to get, and no work."""

    def value(self, contents: Contents) -> Any:
        time.sleep(0.15)
        return 1


def test_waiting_costs_no_cpu_time() -> None:
    together = scope(slow=Slow())
    with together[BUDGET_KEY].allowance:
        for _ in range(4):
            assert render("{{ slow + 1 }}", together) == 2
    assert spent(together) < 0.25


def test_time_between_evaluations_is_not_counted() -> None:
    together, until = scope(), time.thread_time() + 0.4
    with together[BUDGET_KEY].allowance:
        parse("{{ 1 + 1 }}").evaluate(together)
    while time.thread_time() < until:
        pass
    with together[BUDGET_KEY].allowance:
        parse("{{ 1 + 1 }}").evaluate(together)
    assert spent(together) < 0.2


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("{{ text | fromjson }}", "half of a surrogate pair"),
        ("{{ '[1e999]' | fromjson }}", "too large"),
        ("{{ '[-1e999]' | fromjson }}", "too large"),
        ("{{ '[18446744073709551616]' | fromjson }}", "64 bits"),
        ("{{ deep | fromjson }}", "nested too deeply"),
        ("{{ '%c' | format(55296) }}", "half of a surrogate pair"),
        ("{{ '{:c}'.format(55296) }}", "half of a surrogate pair"),
        ("x{{ '%c' % 55296 }}", "half of a surrogate pair"),
        ("{{ {'%c' % 55296: 1} }}", "half of a surrogate pair"),
        ("{{ 2 ** 64 }}", "64 bits"),
        ("{{ 18446744073709551616 }}", "64 bits"),
        ("{{ -18446744073709551616 }}", "64 bits"),
        ("{{ [1, 18446744073709551616] }}", "64 bits"),
        ("{{ 1e308 * 10 }}", "too large"),
        ("{{ 1.7976931348623157e308 | round(-300, 'ceil') }}", "too large"),
        ("{{ [inner] + [] }}", "nested too deeply"),
        ("{{ {1: 2} }}", "not text"),
    ],
)
def test_what_cannot_be_stored_is_refused_where_it_arises(source: str, message: str) -> None:
    inner: Any = 1
    for _ in range(DEPTH):
        inner = [inner]
    values = {"text": '"\\ud800"', "deep": "[" * 500 + "]" * 500, "inner": inner}
    with pytest.raises(TemplateFailed, match=message):
        render(source, values)


def test_what_can_be_stored_passes_as_it_is() -> None:
    rows = [{"id": number, "name": "ä", "share": 0.5, "tags": ["a"], "none": None} for number in range(10)]
    together = scope(rows=rows)
    assert render("{{ rows }}", together) is rows
    assert render("{{ rows + [] }}", together) == rows
    assert render("{{ (1, (2, 3)) }}", together) == [1, [2, 3]]
    assert render("{{ rows | groupby('share') }}", together) == [[0.5, rows]]
    assert render("{{ 18446744073709551615 }}", together) == 2**64 - 1
