"""A run is refused for a name that nothing provides exactly where a template would fail without it."""

from __future__ import annotations

import json
from itertools import chain, combinations
from typing import Any

from tests.table import for_each

from noetl.dsl.compile import load
from noetl.dsl.payload import check_payload
from noetl.errors import PlaybookInvalid, TemplateError
from noetl.expression import parse
from noetl.tools.registry import KINDS

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: p, path: tests/p}\nworkflow:\n  - step: start\n"
GUARD = "    tool: {{kind: noop}}\n    next: {{arcs: [{{step: b, when: {}}}]}}\n  - step: b\n    tool: {{kind: noop}}\n"

EXPRESSIONS = [
    "x",
    "[x, 1] | last",
    "[1, x] | last",
    "[x, 1] | first",
    "[x, 1][1]",
    "[x, 1][-1]",
    "[x, 1][0]",
    "[1, x][:1]",
    "['a'] | map('default', [x, 7]) | list",
    "['a'] | map('default', x) | list",
    "{'a': x}.get('a', 5)",
    "[] or x",
    "[1] and x",
    "{} and x",
    "x if x is defined else 1",
    "x if not (x is undefined) else 1",
    "1 if x is undefined else x",
    "'a' if x else 'b'",
    "x if x else 1",
    "1 if x",
    "x.y if x else 1",
    "x if x == 1 else 2",
    "2 if x != 1 else x",
    "x if x is string else 2",
    "x if x is none else 2",
    "x if (x | length) > 0 else 2",
    "x if x is defined and x > 1 else 2",
    "x if x is defined or x is none else 2",
    "x is defined and x",
    "x is undefined or x",
    "x is undefined and x",
    "x | default(1)",
    "x.y | default(1)",
    "x | upper | default('a')",
    "x | upper",
    "x and 1",
    "1 and x",
    "x or 1",
    "not x",
    "x == 1",
    "x != 1",
    "x > 1",
    "x in [1]",
    "1 in x",
    "1 not in x",
    "x is even",
    "x is none",
    "x.y is defined",
    "(x or {}).y",
    "(x or {'y': 1}).y",
    "(x | default({})).y",
    "(x | default({'y': 1})).y",
    "(x | default({})).y | default(2)",
    "[x]",
    "[x] == [1]",
    "[x, 1] | select('defined') | list",
    "[x, 1] | reject('undefined') | list",
    "[x, 1] | reject('none') | list",
    "[x] | length",
    "[x] | first",
    "[x] | first | default(1)",
    "[x, 'a'] | join",
    "[x, 1] | max",
    "[x] | map('default', 1) | list",
    "{'a': x}",
    "{'a': x}.a is defined",
    "{'a': x, 'b': 1}.b",
    "{'a': x} | list",
    "[x] and 1",
    "{'a': 1}[[x]] | default(1)",
    "{'a': x}.a",
    "{x: 1}",
    "x ~ 'a'",
    "x + 1",
    "-x",
    "(x + 1) is defined",
    "[1, 2][x]",
    "[1, 2][x] is defined",
    "x[1:]",
    "x.get('a')",
    "x.get('a') is defined",
    "range(x)",
    "dict(a=x)",
]
STATEMENTS = [
    "{% for i in [1, 2] if x %}{{ x }}{% endfor %}",
    "{% for i in [1, 2] if x is undefined %}{{ x }}{% endfor %}",
    "{% for i in [] %}{{ x }}{% endfor %}",
    "{% for i in [] %}{% else %}{{ x }}{% endfor %}",
    "{% for i in [1] %}{% else %}{{ x }}{% endfor %}",
    "{% for k, v in {'a': x}.items() %}{{ k }}{% endfor %}",
    "{% if x is defined %}{{ x }}{% endif %}",
    "{% if x %}y{% endif %}",
    "{% if x %}{{ x }}{% else %}none{% endif %}",
    "{% if not x %}{{ x }}{% endif %}",
    "{% if x is undefined %}none{% elif x > 1 %}{{ x }}{% else %}{{ x }}{% endif %}",
    "{% for i in x %}a{% endfor %}",
    "{% for i in x or [] %}a{% endfor %}",
    "{% for i in [1, 2] if x %}a{% endfor %}",
    "{% set y = x %}{{ y }}",
    "{% set y = x %}{{ y | default(2) }}",
    "{% set y = x %}{{ y if y else 2 }}",
    "{% set y = x %}{{ y if y else y }}",
    "{% set y = x %}{% set w = y %}{{ w if y else w | default(2) }}",
    "{% set x = x or 1 %}{{ x }}",
    "{% with y = x %}{{ y is defined }}{% endwith %}",
    "a {{ x }}",
]
TWO_NAMES = [
    "x if z is defined else 1",
    "x | default(z)",
    "x.real | default(z) | default(2)",
    "x if x is defined else z",
    "x or z",
    "x if z else 1",
    "1 if z else x",
    "z and x",
    "x if z and x is undefined else 1",
    "x if not z else 1",
    "z if x is none else 1",
    "x if x is defined and z is defined else 1",
    "x is defined and z is defined and x + z",
]
COMPARISONS = ["1 if x == 1 else z", "1 if x is defined and x > 0 else z"]
UNDECIDED = ["x if z == 0 else 1", "z.a and x", "x if w else 1", "w.a or x", "w and x", "x if later is defined else 1"]
SUBSETS: list[dict[str, Any]] = [
    dict.fromkeys(names, value)
    for value in (1, 0)
    for names in chain.from_iterable(combinations(("x", "z"), count) for count in range(3))
]


def is_refused(text: str, payload: dict[str, Any]) -> bool:
    loaded = load("p.yaml", HEAD + text, KINDS)
    try:
        check_payload(loaded.require(), loaded.inputs, "p.yaml", payload, {})
    except PlaybookInvalid:
        return True
    return False


def result_of(template: str) -> str:
    return f"    tool: {{kind: noop, result: {json.dumps(template)}}}\n"


def value_is_refused(template: str, payload: dict[str, Any]) -> bool:
    return is_refused(result_of(template), payload)


def value_fails(template: str, scope: dict[str, Any]) -> bool:
    try:
        parse(template).evaluate(scope)
    except TemplateError:
        return True
    return False


def guard_fails(template: str) -> bool:
    try:
        parse(template).test({})
    except TemplateError:
        return True
    return False


@for_each("template", ["{{ " + expression + " }}" for expression in EXPRESSIONS] + STATEMENTS)
def test_a_run_is_refused_if_its_template_would_fail(template: str) -> None:
    assert value_is_refused(template, {}) is value_fails(template, {})


@for_each("expression", EXPRESSIONS)
def test_a_run_is_refused_if_its_guard_would_fail(expression: str) -> None:
    template = "{{ " + expression + " }}"
    assert is_refused(GUARD.format(json.dumps(template)), {}) is guard_fails(template)


@for_each(
    ("expression", "payload"),
    [(expression, payload) for expression in TWO_NAMES for payload in SUBSETS]
    + [(expression, payload) for expression in COMPARISONS for payload in SUBSETS if 0 not in payload.values()],
)
def test_a_name_is_needed_only_where_the_others_lead_to_it(expression: str, payload: dict[str, Any]) -> None:
    template = "{{ " + expression + " }}"
    assert value_is_refused(template, payload) is value_fails(template, payload)


@for_each("expression", UNDECIDED)
def test_a_branch_that_depends_on_a_value_may_not_be_reached(expression: str) -> None:
    text = result_of("{{ " + expression + " }}") + "workload: {w: {a: 1}}\n"
    text = text.replace(
        "kind: noop,", "kind: noop, spec: {policy: {rules: [{else: {then: {do: continue, set_ctx: {later: 1}}}}]}},"
    )
    assert not is_refused(text, {"z": 0})
    assert "NTL502" in {problem.code for problem in load("p.yaml", HEAD + text, KINDS).problems}


@for_each(
    "template",
    [
        "{{ x if x is defined else 1 }}",
        "{% if x is defined %}{{ x }}{% endif %}",
        "{{ [x, 1] | select('defined') | list }}",
        "{{ (x.y, 1) | select('defined') | first }}",
        "{{ [x, 1] | reject('undefined') | join(',') }}",
        "{{ [x, 1] | map('default', 0) | list }}",
    ],
)
def test_a_name_that_is_read_only_where_it_exists_is_no_problem(template: str) -> None:
    assert load("p.yaml", HEAD + result_of(template), KINDS).problems == []


@for_each("template", ["{{ 'a' if x else 'b' }}", "{% if x %}y{% endif %}", "{{ x == 1 }}", "{{ [x] | length }}"])
def test_a_condition_on_a_missing_name_is_a_warning(template: str) -> None:
    loaded = load("p.yaml", HEAD + result_of(template), KINDS)
    assert [problem.code for problem in loaded.problems] == ["NTL502"]
    (warning,) = check_payload(loaded.require(), loaded.inputs, "p.yaml", {}, {})
    assert "nothing provides 'x': it counts as false" in warning


@for_each("link", ["a{}", "a{} ~ 'b'", "[a{}]", "(a{} if z else a0)", "a{0} if a{0} else a0"])
def test_a_long_chain_of_names_is_no_error(link: str) -> None:
    chained = "".join(f"{{% set a{number + 1} = {link.format(number)} %}}" for number in range(1200))
    template = f"{{% set a0 = x %}}{chained}{{{{ a1200 if a1200 else a1200 }}}}"
    assert {problem.code for problem in load("p.yaml", HEAD + result_of(template), KINDS).problems} == {"NTL502"}
