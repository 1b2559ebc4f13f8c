"""Whatever the source, parse raises TemplateSyntax only and evaluate TemplateError only."""

# ruff: noqa: E501 (one case of a table a line reads best)
from __future__ import annotations

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from noetl.errors import TemplateError, TemplateSyntax
from noetl.expression import FILTERS, TESTS, Template, rename

TOKENS = [
    "{{", "}}", "{%", "%}", "{#", "#}", "-%}", "{%-", " ", "\n", "\r\n", "a", "b.c", "l", "s", "n", "nope", "loop.index", "(", ")", "[",
    "]", "{", "}", ",", ":", ".", "|", "~", "+", "-", "*", "/", "//", "%", "**", "==", "!=", "<", ">=", "=", "1", "0", "2.5", "1e9", "'x'",
    '"y"', "'%s'", "'{}'", "not", "and", "or", "in", "is", "if", "else", "elif", "endif", "for", "endfor", "set", "endset", "with",
    "endwith", "filter", "endfilter", "raw", "endraw", "defined", "none", "true", "range", "dict", "namespace", "format", "macro",
    "__class__", "[0]", "[1:]", "(l)", "é", "\x00", "\ud800", "{{ a }}", "{% if a %}", "{% for i in l %}", "{% endfor %}", "{% endif %}",
    *FILTERS, *TESTS,
]  # fmt: skip
SCOPE = {"a": 1, "b": {"c": "x"}, "l": [1, 2, 3], "s": "text", "n": None}

soup = st.lists(st.sampled_from(TOKENS), max_size=25).map(" ".join) | st.lists(
    st.sampled_from(TOKENS), max_size=15
).map("".join)
expressions = soup.map(lambda text: "{{ " + text + " }}")


def check_place(error: TemplateError, source: str) -> None:
    assert 0 <= error.offset <= len(source)
    assert error.source == source


def exercised(source: str) -> None:
    try:
        template = Template(source)  # past the cache
    except TemplateSyntax as error:
        check_place(error, source)
        return
    for read in template.reads:
        assert source.startswith(str(read.path[0]), read.offset)
    rename(source, {"a": "renamed.a", "b.c": "1 + 1"})
    try:
        value = template.evaluate(SCOPE)
        template.test(SCOPE)
        json.dumps(value)
    except TemplateError as error:
        check_place(error, source)


@settings(max_examples=400, deadline=None)
@given(soup | expressions)
def test_token_soup_raises_nothing_unexpected(source: str) -> None:
    exercised(source)


@settings(max_examples=300, deadline=None)
@given(st.text(max_size=80) | st.text(alphabet="{}%#|.()[]'\"-+~ \n\r\\ax1_", max_size=60))
def test_random_text_raises_nothing_unexpected(source: str) -> None:
    exercised(source)
    exercised("{{ " + source + " }}")


operands = st.sampled_from(
    [
        "a",
        "b",
        "b.c",
        "l",
        "s",
        "n",
        "nope",
        "1",
        "0",
        "-2.5",
        "'x'",
        "'%s'",
        "[1, 'a']",
        "{'k': 1}",
        "true",
        "none",
    ]
)
operator = st.sampled_from(
    ["+", "-", "*", "/", "//", "%", "**", "~", "==", "<", ">=", "in", "not in", "and", "or", "is eq"]
)
trees = st.recursive(
    operands,
    lambda inner: (
        st.builds("({} {} {})".format, inner, operator, inner)
        | st.builds("({} | {})".format, inner, st.sampled_from(sorted(FILTERS)))
        | st.builds("({} | {}({}))".format, inner, st.sampled_from(sorted(FILTERS)), inner)
        | st.builds("({} is {})".format, inner, st.sampled_from([name for name in TESTS if name.isalpha()]))
        | st.builds("({} if {} else {})".format, inner, inner, inner)
        | st.builds("{}[{}]".format, inner, inner)
    ),
    max_leaves=8,
)


@settings(max_examples=500, deadline=None)
@given(trees)
def test_random_expressions_raise_nothing_unexpected(tree: str) -> None:
    exercised("{{ " + tree + " }}")
    exercised("text {{ " + tree + " }}")
