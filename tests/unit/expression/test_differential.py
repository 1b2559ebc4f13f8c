"""Where the meaning is meant to be Jinja's, the result is Jinja's."""

# ruff: noqa: E501 (one case of a table a line reads best)
from __future__ import annotations

from typing import Any

import pytest
from jinja2 import StrictUndefined
from jinja2.sandbox import ImmutableSandboxedEnvironment
from tests.table import for_each

from noetl.expression import parse

SCOPE: dict[str, Any] = {
    "name": "Ada Lovelace",
    "n": 7,
    "x": 2.5,
    "neg": -3,
    "yes": True,
    "no": False,
    "nil": None,
    "empty": [],
    "nums": [3, 1, 2],
    "words": ["pear", "Apple", "fig", "apple"],
    "text": "line one\nline two\n\nline four",
    "html": "<b>\"bold\" & 'brave'</b>",
    "user": {"name": "Ada", "age": 36, "tags": ["a", "b"], "address": {"city": "London"}},
    "rows": [
        {"id": 1, "city": "Oslo", "v": 10},
        {"id": 2, "city": "Bern", "v": 5},
        {"id": 3, "city": "oslo", "v": 7},
    ],
}

TEMPLATES = [
    "plain",
    "Hello {{ name }}",
    "{{ n }} {{ x }} {{ yes }} {{ nil }}",
    "{{ user.name }} is {{ user['age'] }}",
    "{{ user.address.city }}/{{ user.tags[1] }}/{{ user.tags[-1] }}",
    "{{ n + 1 }} {{ n - 1 }} {{ n * 2 }} {{ n / 2 }} {{ n // 2 }} {{ n % 4 }} {{ n ** 2 }}",
    "{{ -n }} {{ +n }} {{ -x }} {{ 2 ** -1 }}",
    "{{ 'a' ~ 1 ~ none ~ 2.5 }}",
    "{{ 'a' + 'b' }} {{ 'ab' * 3 }} {{ [1] + [2] }} {{ [0] * 3 }}",
    "{{ 1 + 2 * 3 - 4 / 2 }}",
    "{{ (1 + 2) * 3 }}",
    "{{ n > 5 }} {{ n >= 7 }} {{ n < 7 }} {{ n <= 7 }} {{ n == 7 }} {{ n != 7 }}",
    "{{ 1 < n < 10 }} {{ 1 < n < 5 }}",
    "{{ 'a' < 'b' }} {{ [1, 2] < [1, 3] }} {{ [1, 2] == [1, 2] }} {{ {'a': 1} == {'a': 1} }}",
    "{{ 1 in nums }} {{ 9 in nums }} {{ 9 not in nums }} {{ 'da' in name }} {{ 'name' in user }}",
    "{{ yes and no }} {{ yes or no }} {{ not yes }} {{ n and 'x' }} {{ nil or 'y' }}",
    "{{ 'a' if yes else 'b' }} {{ 'a' if no else 'b' }}",
    "{{ [1, 'a', none, true, 2.5] }}",
    "{{ {'a': 1, 'b': [1, {'c': 'd'}]} }}",
    "{{ (1, 2) }} {{ (1,) }} {{ () }} {{ [] }} {{ {} }}",
    "{{ nums[1:] }} {{ nums[:2] }} {{ nums[::-1] }} {{ name[0:3] }}",
    "{% if n > 5 %}big{% elif n > 2 %}mid{% else %}small{% endif %}",
    "{% if no %}a{% elif yes %}b{% else %}c{% endif %}",
    "{% for i in nums %}{{ i }},{% endfor %}",
    "{% for i in empty %}{{ i }}{% else %}none{% endfor %}",
    "{% for i in nums if i > 1 %}{{ loop.index }}/{{ loop.length }}={{ i }} {% endfor %}",
    "{% for i in nums %}{{ loop.index0 }}{{ loop.first }}{{ loop.last }}{{ loop.revindex }}{{ loop.revindex0 }} {% endfor %}",
    "{% for i in nums %}{{ loop.cycle('odd', 'even') }} {% endfor %}",
    "{% for i in nums %}{% if not loop.first %}{{ loop.previtem }}<{% endif %}{{ i }}{% if not loop.last %}>{{ loop.nextitem }}{% endif %} {% endfor %}",
    "{% for k, v in user.address.items() %}{{ k }}={{ v }}{% endfor %}",
    "{% for k in user %}{{ k }} {% endfor %}",
    "{% for a in nums %}{% for b in nums %}{{ a * b }} {% endfor %}{{ loop.index }};{% endfor %}",
    "{% set a = 5 %}{{ a }}",
    "{% set a, b = 1, 2 %}{{ b }}{{ a }}",
    "{% set a %}block {{ n }}{% endset %}[{{ a }}]",
    "{% set a | upper %}block {{ n }}{% endset %}[{{ a }}]",
    "{% set a = 1 %}{% for i in nums %}{% set a = i %}{% endfor %}{{ a }}",
    "{% set a = 1 %}{% if yes %}{% set a = 2 %}{% endif %}{{ a }}",
    "{% set ns = namespace(t=0) %}{% for i in nums %}{% set ns.t = ns.t + i %}{% endfor %}{{ ns.t }}",
    "{% with a = 1, b = n %}{{ a + b }}{% endwith %}",
    "{% filter upper %}shout {{ name }}{% endfilter %}",
    "{% raw %}{{ not a template }}{% endraw %}",
    "a{# comment #}b",
    "a  {{- n -}}  b",
    "a\n{%- if yes -%}\n b \n{%- endif %}\nc",
    "{% print n %}",
    "{{ 'it''s' }} {{ \"q\\\"q\" }} {{ 'tab\\tx' }} {{ '\\x41\\u00e9' }}",
    "{{ 1_000 }} {{ 0x1f }} {{ 0b101 }} {{ 0o17 }} {{ 1e3 }} {{ 1.5e-2 }}",
    "{{ neg | abs }}",
    "{{ nums | batch(2) | list }} {{ nums | batch(2, 'x') | list }}",
    "{{ 'hello world' | capitalize }} {{ 'hello world' | title }} {{ 'HeLLo-wORLD (foo)' | title }}",
    "[{{ 'x' | center(9) }}]",
    "{{ nums | count }} {{ user | length }} {{ name | length }}",
    "{{ nothing | default('d') }} {{ nothing | d(5) }} {{ nil | default('d') }} {{ '' | default('d', true) }}",
    "{{ {'b': 1, 'A': 2, 'c': 0} | dictsort }}",
    "{{ {'b': 1, 'A': 2, 'c': 0} | dictsort(by='value') }}",
    "{{ {'b': 1, 'A': 2, 'c': 0} | dictsort(true, reverse=true) }}",
    "{{ html | escape }} {{ html | e }}",
    "{{ 1 | filesizeformat }} {{ 999 | filesizeformat }} {{ 13000 | filesizeformat }} {{ 4100000 | filesizeformat }}",
    "{{ 13000 | filesizeformat(true) }} {{ 1e30 | filesizeformat }}",
    "{{ nums | first }} {{ nums | last }} {{ name | first }} {{ name | last }}",
    "{{ '3.5' | float }} {{ 'x' | float }} {{ 'x' | float(1.5) }} {{ n | float }}",
    "{{ '42' | int }} {{ '4.9' | int }} {{ 'x' | int }} {{ 'x' | int(-1) }} {{ 'ff' | int(base=16) }} {{ x | int }}",
    "{{ '%s has %d (%.2f) %5s|%-5s|%05d|%x' | format('it', 3, 1.5, 'a', 'b', 42, 255) }}",
    "{{ '%(a)s-%(b)s' | format(a=1, b=2) }}",
    "{{ '%s %s' % ('a', 'b') }} {{ '%d%%' % 50 }}",
    "{{ rows | groupby('city') | map('first') | list }}",
    "{% for city, group in rows | groupby('city') %}{{ city }}:{{ group | map(attribute='id') | join(',') }} {% endfor %}",
    "{% for g in rows | groupby('city', case_sensitive=true) %}{{ g.grouper }}={{ g.list | length }} {% endfor %}",
    "{{ text | indent }}",
    "{{ text | indent(2, true) }}|{{ text | indent(2, blank=true) }}|{{ text | indent('> ', true) }}",
    "{{ user.address | items | list }}",
    "{{ nums | join }} {{ nums | join(', ') }} {{ rows | join('-', attribute='city') }}",
    "{{ nums | list }} {{ 'abc' | list }} {{ user.address | list }}",
    "{{ name | lower }} {{ name | upper }}",
    "{{ words | map('upper') | list }} {{ words | map('replace', 'p', 'b') | list }}",
    "{{ rows | map(attribute='id') | list }} {{ rows | map(attribute='zip', default='?') | list }}",
    "{{ nums | max }} {{ nums | min }} {{ words | max }} {{ words | min }}",
    "{{ rows | max(attribute='v') }} {{ (rows | min(attribute='v')).id }}",
    "{{ nums | reject('odd') | list }} {{ nums | select('odd') | list }} {{ [0, 1, '', 'a'] | select | list }}",
    "{{ nums | select('gt', 1) | list }} {{ nums | select('in', [1, 2]) | list }} {{ nums | select('divisibleby', 2) | list }}",
    "{{ rows | selectattr('v', 'ge', 7) | map(attribute='id') | list }}",
    "{{ rows | rejectattr('city', 'eq', 'Bern') | map(attribute='id') | list }}",
    "{{ rows | selectattr('zip', 'undefined') | list | length }}",
    "{{ name | replace('a', '4') }} {{ 'aaaa' | replace('a', 'b', 2) }}",
    "{{ nums | reverse | list }} {{ name | reverse }}",
    "{{ 42.55 | round }} {{ 42.55 | round(1, 'floor') }} {{ 42.55 | round(1, 'ceil') }} {{ 42.123 | round(2) }}",
    "{{ [1, 2, 3, 4, 5, 6, 7] | slice(3) | list }} {{ [1, 2, 3, 4] | slice(3, 'x') | list }}",
    "{{ nums | sort }} {{ nums | sort(reverse=true) }} {{ words | sort }} {{ words | sort(case_sensitive=true) }}",
    "{{ rows | sort(attribute='v') | map(attribute='id') | list }}",
    "{{ rows | sort(attribute='city,v') | map(attribute='id') | list }}",
    "{{ n | string + 'x' }}",
    "{{ '<p>a  <b>c</b><!-- x --></p>' | striptags }}",
    "{{ nums | sum }} {{ rows | sum(attribute='v') }} {{ nums | sum(start=10) }}",
    "{{ nums | tojson }} {{ user | tojson }} {{ yes | tojson }} {{ nil | tojson }} {{ 'a' | tojson }}",
    "{{ user | tojson(indent=2) }}",
    "[{{ '  a b ' | trim }}] [{{ 'xxaxx' | trim('x') }}]",
    "{{ 'foo bar baz qux' | truncate(9) }} {{ 'foo bar baz qux' | truncate(9, true) }} {{ 'foo bar baz qux' | truncate(11) }}",
    "{{ 'foo bar baz qux' | truncate(9, true, '>', 0) }}",
    "{{ words | unique | list }} {{ words | unique(case_sensitive=true) | list }} {{ rows | unique(attribute='city') | map(attribute='id') | list }}",
    "{{ 'a b/c?d=é' | urlencode }} {{ {'a b': 'c d', 'e': 1} | urlencode }}",
    "{{ 'one two  three-four' | wordcount }}",
    "{{ 'the quick brown fox jumps over the lazy dog' | wordwrap(12) }}",
    "{{ 'averyveryverylongword x' | wordwrap(5) }}|{{ 'averyveryverylongword x' | wordwrap(5, false) }}",
    "{{ n is defined }} {{ nothing is defined }} {{ nothing is undefined }} {{ nil is none }} {{ n is not none }}",
    "{{ yes is boolean }} {{ yes is true }} {{ no is false }} {{ n is number }} {{ n is integer }} {{ x is float }}",
    "{{ name is string }} {{ user is mapping }} {{ nums is sequence }} {{ nums is iterable }} {{ n is iterable }}",
    "{{ n is odd }} {{ n is even }} {{ n is divisibleby 7 }} {{ n is divisibleby(2) }}",
    "{{ n is eq 7 }} {{ n is equalto 8 }} {{ n is ne 7 }} {{ n is lt 8 }} {{ n is ge 7 }} {{ n is lessthan 3 }} {{ n is greaterthan 3 }}",
    "{{ 1 is in nums }} {{ 'abc' is lower }} {{ 'ABC' is upper }} {{ nil is sameas none }}",
    "{{ range(3) | list }} {{ range(1, 6, 2) | list }} {{ range(3, 0, -1) | list }}",
    "{{ dict(a=1, b='x') }} {{ dict(user.address, z=1) }}",
    "{{ name.upper() }} {{ name.split() }} {{ name.split('a', 1) }} {{ name.rsplit(' ', 1) }} {{ name.find('L') }}",
    "{{ name.startswith('Ada') }} {{ name.endswith(('x', 'lace')) }} {{ name.replace('a', 'o') }} {{ name.title() }}",
    "{{ ', '.join(words) }} {{ ' x '.strip() }}{{ ' x '.lstrip() }}{{ ' x '.rstrip() }}|{{ text.splitlines() }}",
    "{{ '7'.zfill(3) }} {{ 'a'.ljust(3) }}| {{ 'a'.rjust(3, '.') }} {{ 'a'.center(5, '*') }} {{ 'banana'.count('an') }}",
    "{{ '12'.isdigit() }} {{ 'ab'.isalpha() }} {{ 'a1'.isalnum() }} {{ ' '.isspace() }} {{ 'xab'.removeprefix('x') }}",
    "{{ '{} {1} {a}'.format('q', 2, a='z') if no else '{0}-{1}-{a:>4}'.format('q', 2, a='z') }}",
    "{{ '{:.2f}|{:05d}|{:,}|{:<4}|{:^5}|{!s}'.format(1.239, 42, 1234567, 'a', 'b', 'c') }}",
    "{{ user.get('name') }} {{ user.get('zip') }} {{ user.get('zip', 'none') }} {{ user.address.keys() | list }} {{ user.address.values() | list }}",
    "{{ nums.index(2) }} {{ nums.count(3) }}",
    "{{ user.tags | join(', ') | upper | replace('A', 'x') }}",
    "{{ 'x' if n is defined and n > 3 and name }}",
    "{{ nums | map('string') | map('int') | sum }}",
    "{{ not (n == 7 and not no) }}",
]


def test_the_table_is_long_enough() -> None:
    assert len(TEMPLATES) >= 115


@for_each("source", TEMPLATES)
def test_text_is_the_same_as_in_jinja(source: str) -> None:
    environment = ImmutableSandboxedEnvironment(undefined=StrictUndefined, keep_trailing_newline=True)
    expected = environment.from_string("[" + source + "]").render(SCOPE)
    if "tojson" in source or "escape" in source:  # ours is plain text, theirs is safe inside HTML
        expected = expected.replace("\\u0027", "'")
    assert parse("[" + source + "]").evaluate(SCOPE) == expected


@pytest.mark.parametrize(
    "source",
    [
        "n + 1",
        "user",
        "rows[0].city",
        "nums | sort",
        "[n, x]",
        "{'a': n}",
        "name | upper",
        "n > 3",
        "nil",
        "nums | sum",
    ],
)
def test_values_are_the_same_as_in_jinja(source: str) -> None:
    expression = ImmutableSandboxedEnvironment().compile_expression(source)
    value = parse("{{ " + source + " }}").evaluate(SCOPE)
    assert value == expression(SCOPE)
    assert type(value) is type(expression(SCOPE))
