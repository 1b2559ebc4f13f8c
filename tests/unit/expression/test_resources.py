"""Bombs: each must end with an error, in bounded memory, soon."""

# ruff: noqa: E501 (one case of a table a line reads best)
from __future__ import annotations

import signal
import tracemalloc
from collections.abc import Iterator
from typing import Any

import pytest

from noetl.errors import TemplateError
from noetl.expression import Budget, parse
from noetl.expression.budget import Allowance

MIB = 1 << 20
DOUBLE_LIST = "{% set ns = namespace(x=[1]) %}{% for i in range(60) %}{% set ns.x = [ns.x, ns.x] %}{% endfor %}"
DOUBLE_BOTH = (
    "{% set ns = namespace(x=[1], y=[1]) %}"
    "{% for i in range(60) %}{% set ns.x = [ns.x, ns.x] %}{% set ns.y = [ns.y, ns.y] %}{% endfor %}"
)

BOMBS = [
    "{{ 2 ** (10 ** 9) }}",
    "{{ 10 ** (10 ** 10) }}",
    "{{ 2 ** 4096 * 2 ** 4096 }}",
    "{{ (2 ** 4000) ** 2 }}",
    "{{ 9 ** 9 ** 9 ** 9 ** 9 ** 9 }}",
    "{{ 1e308 * 10 }}",
    "{{ 10.0 ** 400 }}",
    "{{ 1e999 }}",
    "{{ 'x' * 10 ** 10 }}",
    "{{ 10 ** 10 * 'x' }}",
    "{{ [0] * 10 ** 10 }}",
    "{{ (0,) * 10 ** 10 }}",
    "{{ ('x' * 1000000) * 1000 }}",
    "{{ range(10 ** 12) }}",
    "{{ range(10 ** 30) }}",
    "{{ range(100001) }}",
    "{% for a in range(1000) %}{% for b in range(1000) %}{{ a }}{% endfor %}{% endfor %}",
    "{% for a in range(99999) %}{% endfor %}",
    "{% for a in range(99999) if false %}{% endfor %}",
    "{% for a in range(9999) %}{{ range(99999) | sum }}{% endfor %}",
    "{{ 'a'.ljust(10 ** 10) }}",
    "{{ 'a'.rjust(10 ** 10) }}",
    "{{ 'a'.center(10 ** 10) }}",
    "{{ 'a'.zfill(10 ** 10) }}",
    "{{ 'a' | center(10 ** 10) }}",
    "{{ '%1000000000d' % 1 }}",
    "{{ '%.1000000000f' % 1 }}",
    "{{ '%*d' % (1000000000, 1) }}",
    "{{ '%1000000000d' | format(1) }}",
    "{{ '%1000000000s' | format('x') }}",
    "{{ '{:>1000000000}'.format(1) }}",
    "{{ '{:.1000000000f}'.format(1.0) }}",
    "{{ '{0:{1}}'.format(1, 1000000000) }}",
    "{{ ('x' * 100000).join(range(100000) | map('string')) }}",
    "{{ range(100000) | join('x' * 1000000) }}",
    "{{ ['x' * 1000000] * 1000 | join }}",
    "{{ (['x' * 1000000] * 1000) | join }}",
    "{{ ('a' * 1000000) | replace('a', 'a' * 1000) }}",
    "{{ ('a' * 1000000).replace('', 'b' * 1000) }}",
    "{{ ('\\n' * 100000) | indent(1000) }}",
    "{{ 'a\\nb' | indent(10 ** 9) }}",
    "{{ ('a ' * 100000) | wordwrap(1, true, 'x' * 100000) }}",
    "{{ ('a ' * 400000) | wordwrap(1) }}",
    "{{ ('<' * 1000000) | striptags }}",
    "{{ ('<&' * 500000) | escape }}",
    "{{ [1] | batch(10 ** 9, 0) }}",
    "{{ [1] | slice(10 ** 9, 0) }}",
    "{{ ('a ' * 500000).split() }}",
    "{{ ('a,' * 500000).split(',') }}",
    "{{ ('\\n' * 1000000).splitlines() * 100 }}",
    "{{ ('x' * 1000000) | list }}",
    "{{ lipsum(n=10 ** 6) }}",
    "{{ " + "(" * 5000 + "1" + ")" * 5000 + " }}",
    "{{ " + "[" * 5000 + "]" * 5000 + " }}",
    "{{ " + "{'a':" * 5000 + "1" + "}" * 5000 + " }}",
    "{{ " + "not " * 5000 + "1 }}",
    "{{ " + "-" * 5000 + "1 }}",
    "{{ x" + ".a" * 0 + "|upper" * 5000 + " }}",
    "{{ 1" + " + 1" * 5000 + " }}",
    "{{ 1" + " if 1 else 1" * 3000 + " }}",
    "{{ x" + "[x" * 3000 + "]" * 3000 + " }}",
    "{{ x" + "[0:1]" * 5000 + " }}",
    "{{ x" + ".a" * 20000 + " }}",
    "{{ x[y]" + ".a" * 20000 + " }}",
    "{% if 1 %}" * 2000 + "{% endif %}" * 2000,
    "{% for a in [1] %}" * 1000 + "{% endfor %}" * 1000,
    "{{ 1 }}" * 10000,
    "{{ " + "9" * 100_000 + " }}",
    "{{ " + "9" * 5000 + " }}",
    "{{ 0x" + "f" * 50_000 + " }}",
    "{% set ns = namespace(t=(1,)) %}{% for i in range(100) %}{% set ns.t = ns.t + ns.t %}{% endfor %}",
    "{% set ns = namespace(s='x') %}{% for i in range(100) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}",
    "{% set ns = namespace(s='x') %}{% for i in range(100) %}{% set ns.s %}{{ ns.s }}{{ ns.s }}{% endset %}{% endfor %}",
    "{% set ns = namespace(l=[]) %}{% for i in range(9999) %}{% set ns.l = ns.l + ['x' * 1000000] %}{% endfor %}",
    "{% set ns = namespace(l=[]) %}{% for i in range(9999) %}{% set ns.l = [ns.l, range(9999)] %}{% endfor %}",
    "{% set ns = namespace(n=3) %}{% for i in range(100) %}{% set ns.n = ns.n * ns.n %}{% endfor %}",
    "{% for i in range(9999) %}{{ 'x' * 1000 }}{% endfor %}",
    "{{ ([[1] * 1000] * 1000) | sum(start=[]) }}",
    DOUBLE_LIST + "{{ ns.x | tojson }}",
    DOUBLE_LIST + "{{ ns.x }}",
    DOUBLE_LIST + "{{ ns.x | string | length }}",
    DOUBLE_LIST + "{{ '%s' % (ns.x,) }}",
    DOUBLE_LIST + "{{ ns.x | urlencode }}",
    DOUBLE_BOTH + "{{ ns.x == ns.y }}",
    DOUBLE_BOTH + "{{ ns.x != ns.y }}",
    DOUBLE_BOTH + "{{ ns.x in [ns.y] }}",
    DOUBLE_BOTH + "{{ ns.x < ns.y }}",
    DOUBLE_BOTH + "{{ [ns.x, ns.y] | sort }}",
    DOUBLE_BOTH + "{{ [ns.x, ns.y] | unique }}",
    DOUBLE_BOTH + "{{ [ns.x, ns.y] | groupby(0) }}",
    DOUBLE_BOTH + "{{ [ns.x].index(ns.y) }}",
    DOUBLE_LIST.replace("[ns.x, ns.x]", "(ns.x, ns.x)") + "{{ {ns.x: 1} }}",
    DOUBLE_LIST.replace("[ns.x, ns.x]", "(ns.x, ns.x)") + "{{ big[ns.x] }}",
    "{{ ('[' * 100000) | fromjson }}",
    "{{ ('[' * 100000 ~ ']' * 100000) | fromjson }}",
    "{{ ('[' ~ '[],' * 300000 ~ '[]]') | fromjson }}",
    "{{ ('9' * 100000) | fromjson + 1 }}",
    "{{ deep | tojson }}",
    "{{ deep | string }}",
    "{{ deep == deep2 }}",
    "{{ cyclic | tojson }}",
    "x{{ cyclic }}",
    "{{ big | map('upper') | map('lower') | map('upper') | map('lower') | map('upper') | map('lower') | list }}",
    "{{ big | map('center', 1000) | map('center', 1000) | list }}",
    "{{ big | map('replace', '', 'x' * 10000) | list }}",
    "{{ big | tojson(indent=10 ** 9) }}",
    "{{ ('é' * 1000000) ~ ('é' * 1000000) }}",
    "{{ [('x' * 1000000)] | map('list') | list }}",
    "{{ 1 | round(10 ** 9) }}",
    "{{ ('%(a)999d' * 100000) % {'a': 1} }}",
    "{{ ('{0:>999}' * 100000).format(1) }}",
    "{{ ([range(9999)] * 9999) | sort }}",
    "{{ (['x' * 1000000, 'x' * 1000000] * 40000) | sort }}",
    "{{ (['x' * 1000000, 'x' * 1000000] * 40000) | max }}",
    "{{ (['x' * 1000000, 'x' * 1000000] * 40000) | unique }}",
    "{{ ('x' * 999999 ~ 'y') in (['x' * 1000000] * 90000) }}",
    "{{ (['x' * 1000000] * 90000) == (['x' * 1000000] * 90000) }}",
    "{{ (['x' * 1000000] * 90000) < (['x' * 1000000] * 90000) }}",
    "{{ (['x' * 1000000] * 90000) | select('lower') | list }}",
    "{{ (['x' * 60000] * 90000) | map('wordcount') | list }}",
    "{{ (['<' * 60000] * 90000) | map('striptags') | list }}",
]


def nested(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


CYCLIC: list[Any] = []
CYCLIC.append(CYCLIC)
SCOPE = {"big": ["item"] * 90_000, "deep": nested(5000), "deep2": nested(5000), "cyclic": CYCLIC, "x": "x"}


@pytest.fixture(autouse=True)
def _alarm() -> Iterator[None]:
    """Not a measure of speed: it only keeps a bomb that works from stopping the suite. It counts the time of the
    processor, because on a busy machine ten seconds pass without the template."""

    def stop(*_: Any) -> None:
        raise AssertionError("the template ran for ten seconds")

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, 10)
    yield
    signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    signal.signal(signal.SIGVTALRM, before)


@pytest.mark.parametrize("source", BOMBS, ids=lambda source: source[:60])
def test_bomb_is_refused_in_bounded_memory(source: str) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(TemplateError) as caught:
            parse(source).evaluate(SCOPE)
        assert tracemalloc.get_traced_memory()[1] < 32 * MIB
    finally:
        tracemalloc.stop()
    assert len(str(caught.value)) < 300


def test_the_table_is_long_enough() -> None:
    assert len(BOMBS) >= 35


def test_large_values_pass_through_for_nothing() -> None:
    rows = [{"id": n} for n in range(200_000)]
    assert parse("{{ rows }}").evaluate({"rows": rows}) is rows
    assert parse("{{ r.rows | default([]) }}").evaluate({"r": {"rows": rows}}) is rows
    assert parse("{{ rows[199999].id }}").evaluate({"rows": rows}) == 199_999
    assert parse("{{ rows | length }}").evaluate({"rows": rows}) == 200_000


def test_a_shared_budget_bounds_several_renders_together() -> None:
    template = parse("{% for i in range(400) %}.{% endfor %}")
    budget = Budget(Allowance(10), steps=1000)
    assert template.evaluate({}, budget=budget) == "." * 400
    assert template.evaluate({}, budget=budget) == "." * 400
    with pytest.raises(TemplateError, match="loops more than"):
        template.evaluate({}, budget=budget)


def test_time_is_bounded() -> None:
    with pytest.raises(TemplateError, match="took too long"):
        parse("{% for i in range(10) %}{{ i }}{% endfor %}").evaluate({}, budget=Budget(Allowance(-1)))
