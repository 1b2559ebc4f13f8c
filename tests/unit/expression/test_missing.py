"""A missing value chains, makes comparisons false, and is an error where a value is needed."""

# ruff: noqa: E501 (one case of a table a line reads best)
from __future__ import annotations

from typing import Any

import pytest
from tests.table import for_each

from noetl.errors import TemplateFailed, TemplateUndefined
from noetl.expression import parse

SCOPE: dict[str, Any] = {"a": {"b": 1, "nil": None}, "l": [1, 2], "s": "x"}


def value(expression: str) -> Any:
    return parse("{{ " + expression + " }}").evaluate(SCOPE)


@for_each(
    "expression",
    [
        "x", "a.x", "a.x.y.z", "a['x']", "l[5]", "l[-5]", "l.x", "s.upper", "a.nil.x", "a.b.c", "x[0]", "x[s]", "l[s]",
        "l['0']", "a[l]", "x + 1", "1 + x", "x ~ 'y'", "-x", "x * 2", "x | upper", "s | replace('x', x)", "x()"[:1],
        "x.upper()", "[] | first", "[] | max", "x if true", "1 if x", "x and 1", "false or x", "[x]", "{'k': x}",
        "[1, [x]]", "[{}] | map(attribute='k') | list", "dict(k=x)", "range(x)", "x[1:]", "l[x:]", "l[x]", "a.items",
        "x | default(y)",
    ],
)  # fmt: skip
def test_missing_value_is_an_error_as_a_result(expression: str) -> None:
    with pytest.raises(TemplateUndefined, match="is undefined"):
        value(expression)
    if not expression.startswith(("[", "{", "dict")):  # those exist, with a hole in them
        assert value(f"({expression}) | default('absent')") == "absent"


@for_each(
    ("expression", "expected"),
    [
        ("x == 1", False), ("x == x", False), ("a.x == none", False), ("x != 1", True), ("x != x", True),
        ("x < 1", False), ("x > 1", False), ("x <= 1", False), ("1 >= x", False), ("a.x.y >= 5", False),
        ("x in l", False), ("x not in l", True), ("1 in x", False), ("1 not in x", True), ("x in [x]", False),
        ("x in ['a']", False), ("x not in ['a']", True), ("not x", True), ("x or 1", 1), ("x and 1 or 2", 2),
        ("1 if x else 2", 2), ("x | default(5)", 5), ("a.x.y | d('z')", "z"), ("x + 1 | default(5) or 6", 6),
        ("(x + 1) | default(5)", 5), ("x | upper | default('d')", "d"), ("a.nil | default(5)", None),
        ("a.nil | default(5, true)", 5), ("'' | default('d', boolean=true)", "d"), ("0 | default(3)", 0),
        ("x is defined", False), ("x is undefined", True), ("a.b is defined", True), ("x is not defined", True),
        ("x is none", False), ("a.nil is none", True), ("x is string", False), ("x is eq 1", False),
        ("x is ne 1", True), ("x is in l", False), ("1 is in x", False), ("x.y.z is defined", False),
        ("[{}, {'k': 1}] | map(attribute='k', default=0) | list", [0, 1]),
        ("[{}, {'k': 1}] | map(attribute='k') | map('default', 7) | list", [7, 1]),
        ("[x, 1] | select('defined') | list", [1]), ("[{}, {'k': 1}] | selectattr('k') | list", [{"k": 1}]),
        ("[{}, {'k': 1}] | selectattr('k', 'defined') | list | length", 1), ("[x] | length", 1),
    ],
)  # fmt: skip
def test_missing_value_is_coped_with(expression: str, expected: Any) -> None:
    result = value(expression)
    assert result == expected
    assert type(result) is type(expected)


@pytest.mark.parametrize("source", ["a{{ x }}", "{{ a.x }} ", "{% for i in x %}{% endfor %}", "{% print x %}"])
def test_missing_value_in_text_is_an_error(source: str) -> None:
    with pytest.raises(TemplateUndefined):
        parse("-" + source).evaluate(SCOPE)


@pytest.mark.parametrize(
    ("expression", "holds"),
    [("x", False), ("x.y", False), ("x.y == 1", False), ("not x", True), ("a.b", True), ("a.nil", False),
     ("a.b > 0 and x.y < 3", False), ("x is undefined", True), ("[x]", True), ("x + 1 > 0", False)],
)  # fmt: skip
def test_guard_over_missing_values(expression: str, holds: bool) -> None:
    assert parse("{{ " + expression + " }}").test(SCOPE) is holds


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("a.nil < 5", "null with an integer"), ("'a' < 1", "a string with an integer"), ("l > 1", "a list with an integer"),
        ("a >= a", "a map with a map"), ("1 in 5", "search in an integer"), ("1 in 'x'", "search for an integer"),
        ("a.nil + 1", "add an integer to null"), ("'a' - 1", "subtract an integer from a string"), ("l | upper | int + a", "a map"),
        ("s.format_map(a)", "unknown method"), ("a.b.upper()", "no method"), ("5 | length", "no length"), ("(-8) ** 0.5", "root"),
        ("1 % 0", "division by zero"), ("'x' | fromjson", "not JSON"), ("now()", "not available here"), ("1 is even(2)"[:9] + " + s", "string"),
        ("s | ident", "only works in the SQL"), ("s | raw_sql", "only works in the SQL"), ("[1, 'a'] | sort", "cannot sort"),
    ],
)  # fmt: skip
def test_nonsense_fails_with_words(expression: str, message: str) -> None:
    with pytest.raises(TemplateFailed) as caught:
        value(expression)
    assert message in caught.value.message
    with pytest.raises(TemplateFailed):
        parse("{{ " + expression + " }}").test(SCOPE)


def test_error_names_the_part_that_does_not_exist() -> None:
    with pytest.raises(TemplateUndefined) as caught:
        value("a.user.name")
    assert caught.value.message.startswith("'a.user.name' is undefined")
    assert "'a.user' does not exist" in (caught.value.hint or "")


@for_each(
    ("expression", "message"),
    [
        ("a.c", "'a.c' is undefined (`a` has b, nil)"),
        ("a.user.name", "'a.user.name' is undefined (`a` has b, nil)"),
        ("a['c'] + 1", "'a['c']' is undefined (`a` has b, nil)"),
        ("a.nil.x", "'a.nil.x' is undefined (`a.nil` is null)"),
        ("a.b.c", "'a.b.c' is undefined (`a.b` is an integer)"),
        ("l[5]", "'l[5]' is undefined (`l` has 2 items)"),
        ("s.upper", "'s.upper' is undefined (`s` is a string)"),
        ("x.y", "'x.y' is undefined"),
        ("[] | first", "'(...) | first' is undefined"),
    ],
)
def test_a_missing_key_says_what_there_is(expression: str, message: str) -> None:
    with pytest.raises(TemplateUndefined) as caught:
        value(expression)
    assert (caught.value.message, str(caught.value)) == (message, message)


def test_only_the_first_names_of_a_large_map_are_reported() -> None:
    with pytest.raises(TemplateUndefined) as caught:
        parse("{{ m.x }}").evaluate({"m": {f"k{i}": i for i in range(100)}})
    assert caught.value.message.endswith("k10, k11, ...)")
