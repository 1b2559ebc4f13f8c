"""The parser gives the tokens and the tree that Jinja gives, and refuses what Jinja refuses."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jinja2.exceptions import TemplateSyntaxError
from tests.unit.expression.jinja_oracle import jinja_lexemes, jinja_tree

from noetl.errors import TemplateSyntax
from noetl.expression import Template, nodes, parse
from noetl.expression.lexer import lex
from noetl.expression.template_parser import syntax_tree

NO_OFFSET = (
    *(nodes.Binary, nodes.Compare, nodes.CondExpr, nodes.Concat, nodes.Tuple, nodes.Slice),
    *(nodes.Output, nodes.Root),
)
"""Nodes whose own offset is never used: they start where their first part does, or are part of another."""

ATOMS = st.sampled_from(
    [
        *("a", "b.c", "x[0]", "a.0", "é", "नाम", "if", "recursive", "true", "None", "[]", "{}", "()"),
        *("'s'", "'a' 'b'", r"'\n\x41\u00e9\101\d'", r"'it\'s'", "'}}'", '"{%"', "'two\nlines'"),
        *("1", "00", "1_000", "0x1F", "0b11", "0o17", "2.5", "1e3", "1_0.5e-2"),
    ]
)
BINARY = ["+", "-", "*", "/", "//", "%", "**", "~", "and", "or", "==", "!=", "<", "<=", ">", ">=", "in", "not in"]
SHAPES = [
    *(f"{{0}} {operator} {{1}}" for operator in BINARY),
    *("not {0}", "-{0}", "+{0}", "({0})", "({0}, {1})", "({0},)", "[{0}, {1},]", "{{'k': {0}, 'l': {{1: {1}}}}}"),
    *("{0} if {1} else {2}", "{0} if {1}", "{0} if {1} if {2} else a", "{0} < {1} <= {2}", "{0} ~ {1} ~ {2}"),
    *("{0} | upper", "{0} | a.b", "{0} | d({1}, k={2})", "f(true={0})", "f({0}, {1},)", "a.b({0}).c(k={1})"),
    *("{0} is defined", "{0} is not none", "{0} is eq {1}", "{0} is eq({1})", "{0} is a.b", "{0} is in [{1}]"),
    *("({0})[{1}]", "a[{0}:{1}]", "a[::{0}]", "a[{0}:]", "a[:]", "({0}).b.c", "a[{0}, {1}]", "a[]", "a[{0}:, 1]"),
]


def compose(parts: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.builds(lambda shape, *inner: shape.format(*inner), st.sampled_from(SHAPES), parts, parts, parts)


EXPRESSIONS = st.recursive(ATOMS, compose, max_leaves=8)
TEXTS = st.sampled_from(["", " ", "\n", "text", "  a  \n", "}", "{", "%}", "}}", "#}", "é \n", "' \" \\"])
COMMENTS = st.sampled_from(["{# c #}", "{#- {{ x }} -#}", "{#+#}", "{##}", "{#--#}"])
RAW = st.sampled_from(["{% raw %} {{ x }} {% endraw %}", "{%- raw -%} {% x {%- endraw -%}", "{%+raw%}{%+ endraw +%}"])
SIGNS = st.sampled_from(["", "", "", "-", "+"])
TARGETS = st.sampled_from(["x", "x, y", "(x, y)", "x, (y, z)", "loop"])
TAGS = [
    *("{{{{{s0} {e0} }}}}", "{{{{{s0} {e0}, {e1} }}}}", "{{{{ {e0} -}}}}", "{{% print {e0}, {e1} %}}"),
    "{{%{s0} if {e0} {s1}%}}{b0}{{% endif %}}",
    "{{% if {e0}: %}}{b0}{{%{s0} elif {e1} %}}{b1}{{%- else {s1}%}}{b2}{{% endif {s0}%}}",
    "{{%{s0} for {t} in {e0} {s1}%}}{b0}{{% endfor %}}",
    "{{% for {t} in {e0} if {e1} %}}{b0}{{% else %}}{b1}{{%{s0} endfor {s1}%}}",
    "{{% for {t} in {e0}, {e1} recursive %}}{b0}{{% endfor %}}",
    *("{{%{s0} set {t} = {e0} {s1}%}}", "{{% set {t} = {e0}, {e1} %}}", "{{% set ns.a = {e0} %}}"),
    *("{{% set x %}}{b0}{{% endset %}}", "{{% set x | upper | d({e0}) %}}{b0}{{% endset %}}"),
    *("{{% with %}}{b0}{{% endwith %}}", "{{% with {t} = {e0}, y = {e1} %}}{b0}{{% endwith %}}"),
    *("{{% filter upper %}}{b0}{{% endfilter %}}", "{{% filter a.b | d({e0}) %}}{b0}{{% endfilter %}}"),
]


def tagged(bodies: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    tags = st.builds(
        lambda tag, e0, e1, s0, s1, b0, b1, b2, t: tag.format(e0=e0, e1=e1, s0=s0, s1=s1, b0=b0, b1=b1, b2=b2, t=t),
        *(st.sampled_from(TAGS), EXPRESSIONS, EXPRESSIONS, SIGNS, SIGNS, bodies, bodies, bodies, TARGETS),
    )
    return st.lists(tags | bodies, min_size=1, max_size=3).map("".join)


TEMPLATES = st.recursive(TEXTS | COMMENTS | RAW, tagged, max_leaves=6)
MISTAKES = [
    *(
        "{{",
        "}}",
        "{%",
        "%}",
        "{#",
        "#}",
        "(",
        ")",
        "[",
        "]",
        "{",
        "}",
        "|",
        "&",
        "!",
        "?",
        "$",
        "'",
        '"',
        "`",
        "=",
        "==",
    ),
    *(
        ",",
        ":",
        ".",
        "*",
        "~",
        ";",
        "-",
        "+",
        "\\",
        "–",
        "²",
        "1",
        "1.5",
        "a",
        "'s'",
        "not",
        "and",
        "or",
        "in",
        "is",
        "if",
    ),
    *("else", "elif", "endif", "endfor", "for", "set", "endset", "with", "endwith", "filter", "raw", "wibble"),
]


def dump(node: Any) -> Any:
    if isinstance(node, dict):
        node = list(node.items())
    if isinstance(node, list | tuple):
        return [dump(item) for item in node]
    if not isinstance(node, nodes.Node):
        return type(node), node
    parts = [dump(getattr(node, field)) for field in node.__struct_fields__[1:]]
    return type(node).__name__, None if isinstance(node, NO_OFFSET) else node.offset, parts


def check_against_jinja(source: str) -> None:
    try:
        words, tree = jinja_lexemes(source), jinja_tree(source)
    except (TemplateSyntaxError, TemplateSyntax):
        with pytest.raises(TemplateSyntax):
            Template(source)
        return
    try:
        own = syntax_tree(source)
    except TemplateSyntax as error:  # playbooks do not have all of Jinja, and Jinja overlooks some ends
        if not error.message.endswith(("is never closed", "in playbooks", "inside an expression", "given twice")):
            raise
    else:
        assert (lex(source), dump(own)) == (words, dump(tree))


@settings(max_examples=300, deadline=None)
@given(st.lists(EXPRESSIONS, min_size=1, max_size=3))
def test_tree_of_expressions_is_the_one_that_jinja_gives(expressions: list[str]) -> None:
    check_against_jinja(" or ".join(f"{{{{ {expression} }}}}" for expression in expressions))


@settings(max_examples=300, deadline=None)
@given(TEMPLATES)
def test_tokens_and_tree_of_templates_are_the_ones_that_jinja_gives(source: str) -> None:
    check_against_jinja(source)


@settings(max_examples=300, deadline=None)
@given(TEMPLATES | EXPRESSIONS.map("{{{{ {} }}}}".format), st.integers(0, 99), st.sampled_from(MISTAKES), st.booleans())
def test_mistakes_are_refused_as_jinja_refuses_them(source: str, percent: int, mistake: str, cut: bool) -> None:
    place = len(source) * percent // 100
    check_against_jinja(source[:place] + ("" if cut else f" {mistake} ") + source[place + cut :])


@pytest.mark.parametrize(
    "source",
    ["{{ a.b }}", "x {{ [a, {'k': b}] }} y", "{% for x in a if x %}{{ x }}{% endfor %}{# c #}", "{{ a b }}", "{% x %}"],
)
def test_no_template_needs_jinja(source: str) -> None:
    code = (
        f"import sys, noetl.errors, noetl.expression as e\ntry: e.parse({source!r})\n"
        "except noetl.errors.TemplateSyntax: pass\nsys.exit('jinja2' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_very_long_chains_do_not_exhaust_the_stack() -> None:
    for source in (
        *("{{ a" + ".b" * 30_000 + " }}", "{{ " + " + ".join(["a"] * 15_000) + " }}", "{{ " + "not " * 15_000 + "a }}"),
        *(
            "{{ " + "-" * 60_000 + "1 }}",
            "{{ " + "a if b else " * 5_000 + "c }}",
            "{{ a" + "[b" * 100 + "]" * 100 + " }}",
        ),
        "{{ a" + "[b" * 100 + "]" * 100 + " }}",
        "{% if a %}" * 100 + "{% endif %}" * 100,
    ):
        with pytest.raises(TemplateSyntax, match="nested too deeply"):
            parse(source)
