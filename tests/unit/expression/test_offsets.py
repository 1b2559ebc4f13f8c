"""Errors and names point at the exact character, whatever the lines and white space."""

from __future__ import annotations

import pytest

from noetl.errors import TemplateError, TemplateSyntax
from noetl.expression import parse

# `^` marks the expected offset and is removed from the source.
SYNTAX = [
    ("^{{ foo", "'{{' is never closed"),
    ("a\nb ^{{ foo\n", "'{{' is never closed"),
    ("^{% if x", "'{%' is never closed"),
    ("x ^{# never", "'{#' is never closed"),
    ("^{% raw %} {{ x }}", "'{% raw %}' is never closed"),
    ("{{ foo^( }}", "'(' is never closed"),
    ("{{ foo^[1 }}", "'[' is never closed"),
    ("{{ {'a': 1 }^}", "unexpected '}'"),
    ("{{ f(a ^&& b) }}", "unexpected character '&'"),
    ("{% set x ^== 1 %}", "unexpected '=='"),
    ("{% set ^1 = x %}", "cannot assign to 1"),
    ("{% if x %}{% ^endfor %}", "unknown statement 'endfor'"),
    ("{{ f^(k=1, 2) }}", "a positional argument follows a named one"),
    ("{{ f(a^[0) }}", "'[' is never closed"),
    ("{{ a ^) }}", "unexpected ')'"),
    ("{% if x ^}}", "unexpected '}'"),
    ("{% ^if x %}y", "'{% if %}' is never closed"),
    ("a\n{% if x %}\n{% ^for i in y %}\n", "'{% for %}' is never closed"),
    ("{{ a ^&& b }}", "unexpected character '&'"),
    ("{{ a ^|| b }}", "'||' is not an operator"),
    ("{{ ^!a }}", "unexpected character '!'"),
    ("{{ a ^? b : c }}", "unexpected character '?'"),
    ("{{ a ^= 1 }}", "unexpected '='"),
    ("{% if a ^= 1 %}x{% endif %}", "unexpected '='"),
    ("{{ a ^b }}", "unexpected 'b'"),
    ("{{ ^}}", "an expression is missing"),
    ("{{ a + ^}}", "an expression is missing"),
    ("{{ a | ^}}", "unexpected '}}'"),
    ("{{ ^'abc }}", "unexpected character"),
    ("{{ ^{{ a }} }}", "'{{' inside an expression"),
    ("ok\r\n{{ a }}\r\n{{ b ^= 1 }}", "unexpected '='"),
    ("  {%- if a -%}   \n  {{ b }}\n {%- endif -%} \n {{ c ^c }}", "unexpected 'c'"),
    ("{% ^macro f() %}{% endmacro %}", "macros are not available"),
    ("{% ^include 'x' %}", "cannot include"),
    ("{% ^wibble %}", "unknown statement 'wibble'"),
    ("{% ^for x in y recursive %}{% endfor %}", "recursive loops"),
    ("{{ a | ^replace('x') }}", "filter 'replace' takes (old, new, count=None)"),
    ("{{ ^now(1) }}", "function 'now' takes ()"),
    ("{{ ^1e999 }}", "the number is too large"),
    ("{{ ^'\\ud800' }}", "is not a character"),
    ("{{ ^'\\x4' }}", "needs more hexadecimal digits"),
    ("{{ ^a()() }}", "only functions and methods"),
    ("{{ ^f(*a) }}", "'*' and '**' arguments"),
]

EVALUATION = [
    ("{{ ^a.b.c }}", "'a.b.c' is undefined"),
    ("line\nline {{ n }} {{ ^nope }}", "'nope' is undefined"),
    ("{{ n + ^a.zip }}", "'a.zip' is undefined"),
    ("{{ [n, ^a.zip] }}", "'a.zip' is undefined"),
    ("{{ {'k': ^a['zip']} }}", "'a['zip']' is undefined"),
    ("{{ ^a.items[7] }}", "'a.items[7]' is undefined"),
    ("{{ ^a[n].x }}", "'a[n].x' is undefined"),
    ("{{ ^empty | first }}", "'empty | first' is undefined"),
    ("{{ n and ^n < 'x' }}", "cannot compare an integer with a string by '<'"),
    ("{{ ^nil > 5 }}", "cannot compare null with an integer by '>'"),
    ("{{ 1 + (^n + 'x') }}", "cannot add a string to an integer"),
    ("{{ n + ^n / 0 }}", "division by zero"),
    ("{{ n | ^nope }}", "unknown filter 'nope'"),
    ("{{ n is ^nope }}", "unknown test 'nope'"),
    ("{{ n is not ^nope }}", "unknown test 'nope'"),
    ("{{ ^nope(1) }}", "unknown function 'nope'"),
    ("{{ n.^nope() }}", "unknown method 'nope'"),
    ("{{ n . ^upper() }}", "an integer has no method 'upper'"),
    ("{% for x in ^a.zip %}{% endfor %}", "'a.zip' is undefined"),
    ("{% for x in ^n %}{% endfor %}", "a list is needed here, not an integer"),
    ("{% for ^x, y in [[1]] %}{% endfor %}", "a list of 2 elements is needed"),
    ("{{ text | upper | ^b64decode }}", "not the base64 of a text"),
]


@pytest.mark.parametrize(("marked", "message"), SYNTAX)
def test_syntax_error_points_at_its_cause(marked: str, message: str) -> None:
    source = marked.replace("^", "", 1)
    with pytest.raises(TemplateSyntax) as caught:
        parse(source)
    assert message in caught.value.message
    assert (caught.value.offset, caught.value.source) == (marked.index("^"), source)


@pytest.mark.parametrize(("marked", "message"), EVALUATION)
def test_evaluation_error_points_at_the_failing_part(marked: str, message: str) -> None:
    offset = marked.index("^")
    source = marked.replace("^", "", 1)
    scope = {"n": 1, "a": {"items": [1]}, "empty": [], "nil": None, "text": "?"}
    with pytest.raises(TemplateError) as caught:
        parse(source).evaluate(scope)
    assert message in caught.value.message
    assert caught.value.offset == offset


@pytest.mark.parametrize(
    ("source", "hint"),
    [
        ("{{ a && b }}", "'and'"),
        ("{{ a || b }}", "'or'"),
        ("{{ !a }}", "'not'"),
        ("{{ a = 1 }}", "'=='"),
        ("{{ a", "'}}'"),
        ("{% if a %}", "endif"),
        ("{{ {{ a }} }}", "without braces"),
        ("{% set x.y = 1 %}", "namespace()"),
        ("{{ a.b }}", "default"),
        ("{% for k, v in a.items %}{% endfor %}", "call it: a.items()"),
        ("{{ 1 + 'x' }}", "| int"),
    ],
)
def test_errors_say_what_to_do(source: str, hint: str) -> None:
    with pytest.raises(TemplateError) as caught:
        parse(source).evaluate({"a": {}})
    assert hint in (caught.value.hint or "")


def test_names_have_exact_offsets_in_many_lines() -> None:
    source = "one {{ first }}\r\n  {%- if  second.x == 'é' %}\n\n{{ third['k'] | upper }} {% endif %}\t{{ fourth }}"
    for read in parse(source).reads:
        assert source[read.offset :].startswith(str(read.path[0]))
    assert [read.path[0] for read in parse(source).reads] == ["first", "second", "third", "fourth"]


def test_uses_have_exact_offsets() -> None:
    source = "{{ a | upper }}\n{{ b is not  defined }} {{ range(3) | map('lower') | select('odd') }}"
    template = parse(source)
    for use in (*template.filters, *template.tests, *template.functions):
        assert source[use.offset :].lstrip("'").startswith(use.name)
