"""Finds quotes that a template doubles by hand, as one does where values are spliced into SQL."""

from __future__ import annotations

from noetl.expression import nodes
from noetl.expression.nodes import Const, start
from noetl.expression.template_parser import syntax_tree


def doubled_quotes(source: str) -> list[int]:
    """The offsets of `replace("'", "''")` outside of `raw_sql`. The source must be valid."""
    if "replace" not in source or "''" not in source:
        return []
    tree = syntax_tree(source)
    spliced = [use for use in tree.find_all(nodes.Filter) if use.name == "raw_sql"]
    inside = {id(node) for use in spliced for node in use.find_all((nodes.Filter, nodes.Call))}
    calls = [node for node in tree.find_all((nodes.Filter, nodes.Call)) if id(node) not in inside]
    return sorted(start(call) for call in calls if _doubles(call))


def _doubles(node: nodes.Expr) -> bool:
    if not isinstance(node, nodes.Filter | nodes.Call):
        return False
    name = node.name if isinstance(node, nodes.Filter) else getattr(node.node, "attr", "")
    values = [argument.value for argument in node.args if isinstance(argument, Const)]
    return name == "replace" and values[:2] == ["'", "''"]
