"""The parser for plain expressions gives the tree that Jinja's gives, or leaves the template to it."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from noetl.expression import nodes, parse
from noetl.expression.jinja import jinja_tree
from noetl.expression.parser import Parser, Unusual, scan

NO_OFFSET = (
    *(nodes.Binary, nodes.Compare, nodes.CondExpr, nodes.Concat, nodes.Tuple, nodes.Slice),
    *(nodes.Pair, nodes.Keyword, nodes.Operand, nodes.Output, nodes.Template),
)
"""Nodes whose own offset is never used: they start where their first part does, or are part of another."""

ATOMS = st.sampled_from(["a", "b.c", "'s'", "1", "x[0]", "true", "none", "'a' 'b'", "a.0", "[]", "{}", "()"])
BINARY = ["+", "-", "*", "/", "//", "%", "**", "~", "and", "or", "==", "!=", "<", "<=", ">", ">=", "in", "not in"]
SHAPES = [
    *(f"{{0}} {operator} {{1}}" for operator in BINARY),
    *("not {0}", "-{0}", "+{0}", "({0})", "({0}, {1})", "({0},)", "[{0}, {1},]", "{{'k': {0}, 'l': {1}}}"),
    *("{0} if {1} else {2}", "{0} if {1}", "{0} < {1} <= {2}", "{0} ~ {1} ~ {2}"),
    *("{0} | upper", "{0} | d({1}, k={2})", "{0} is defined", "{0} is not none", "{0} is eq {1}", "{0} is eq({1})"),
    *("f({0}, {1},)", "a.b({0}).c(k={1})", "({0})[{1}]", "a[{0}:{1}]", "a[::{0}]", "a[{0}:]", "a[:]", "({0}).b.c"),
]


def compose(parts: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.builds(lambda shape, *inner: shape.format(*inner), st.sampled_from(SHAPES), parts, parts, parts)


EXPRESSIONS = st.recursive(ATOMS, compose, max_leaves=12)


def dump(node: Any) -> Any:
    if isinstance(node, list):
        return [dump(item) for item in node]
    if not isinstance(node, nodes.Node):
        return type(node), node
    parts = [dump(getattr(node, field)) for field in node.__struct_fields__[1:]]
    return type(node).__name__, None if isinstance(node, NO_OFFSET) else node.offset, parts


@given(st.lists(EXPRESSIONS, min_size=1, max_size=3))
def test_tree_is_the_one_that_jinja_gives(expressions: list[str]) -> None:
    source = " or ".join(f"{{{{ {expression} }}}}" for expression in expressions)
    lexemes = scan(source)
    if lexemes is None:
        return
    try:
        own = Parser(lexemes).template()
    except Unusual:
        return
    assert dump(own) == dump(jinja_tree(lexemes, source))


@pytest.mark.parametrize(
    "source",
    ["{{ a b }}", "{{ a | }}", "{{ f((x)=1) }}", "{{ f(k=1, 2) }}", "{{ [1 2] }}", "{{ }}", "{{ a if }}", "{{ not }}"],
)
def test_mistakes_are_left_to_jinja(source: str) -> None:
    lexemes = scan(source)
    assert lexemes is not None
    with pytest.raises(Unusual):
        Parser(lexemes).template()


@pytest.mark.parametrize("source", ["{{ a.b }}", "{{ a.b | d(1) == 'x' }}", "x {{ [a, {'k': b}] }} y", "plain"])
def test_plain_templates_need_no_jinja(source: str) -> None:
    code = f"import sys, noetl.expression as e; e.parse({source!r}); sys.exit('jinja2' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_very_long_chains_do_not_exhaust_the_stack() -> None:
    for source in ("{{ a" + ".b" * 30_000 + " }}", "{{ " + " + ".join(["a"] * 15_000) + " }}"):
        with pytest.raises(Exception, match="nested too deeply"):
            parse(source)
