"""Expressions of the syntax tree to Python closures (statements.py does the statements).

An expression becomes `closure(scope, run) -> value`. `EXPRESSIONS` has a function per node type that playbooks have;
a node type without one is refused, so nothing works by accident. `run` holds the budget and the template's
own variables; an expression that needs neither (names, paths, constants, comparisons, and/or/not, default,
`is defined`) is `simple` and runs with None.

Names are read from the scope unless the template binds them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from noetl.errors import TemplateSyntax
from noetl.expression import nodes
from noetl.expression.calls import CALLS, DOT
from noetl.expression.fault import located
from noetl.expression.functions import METHOD_NAMES
from noetl.expression.missing import Missing
from noetl.expression.operations import OPERATIONS
from noetl.expression.paths import path
from noetl.expression.shape import described, start
from noetl.expression.uses import Closure, Comparison, Read, Unknown, Use

MAX_DEPTH = 96  # of the tree; evaluation takes a Python frame or two per level


class ExpressionCompiler:
    """Compiles the expressions of one template and notes what they read and use on the way."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.simple = True
        self.depth = 0
        self.bound: dict[str, bool] = {}  # the template's own names; False: perhaps not bound here
        self.reads: list[Read] = []
        self.filters: list[Use] = []
        self.tests: list[Use] = []
        self.functions: list[Use] = []
        self.unknown: list[Unknown] = []
        self.comparisons: list[Comparison] = []

    def expression(self, node: nodes.Node, tolerant: bool = False) -> Closure:
        """A closure for the plain value of a node. `tolerant`: a missing value is coped with."""
        compile_node = EXPRESSIONS.get(type(node))
        if compile_node is None:
            self.refuse(node, f"'{type(node).__name__.lower()}' is not available in playbooks")
        self.enter(node)
        closure = compile_node(self, node, tolerant)
        self.depth -= 1
        return closure

    def whole(self, node: nodes.Expr) -> Closure:
        """The value of a template that is this one expression: a path passes on what it finds."""
        if isinstance(node, nodes.Name | nodes.Getattr | nodes.Getitem):
            return path(self, node, False, passed=True)
        return self.expression(node)

    def enter(self, node: nodes.Node) -> None:
        """Count a level of the tree; who compiles it counts down again."""
        self.depth += 1
        if self.depth > MAX_DEPTH:
            self.refuse(node, "the template is nested too deeply")

    def refuse(self, node: nodes.Node, message: str, hint: str | None = None) -> NoReturn:
        raise TemplateSyntax(message, self.source, start(node), hint)

    def failing(self, node: nodes.Node) -> Callable[[Exception], Exception]:
        """What to raise for an error in this node."""
        source, offset = self.source, start(node)
        return lambda error: located(error, source, offset)

    def missing(self, node: nodes.Node) -> Missing:
        text, hint = described(node), ""
        if isinstance(node, nodes.Getattr) and node.attr in METHOD_NAMES:
            hint = f"if the method is meant, call it: {text}()"
        return Missing(text, start(node), "", hint)

    def failing_at(self, node: nodes.Node) -> Callable[[Exception], Exception]:
        """Like failing, but at the name of the filter or method instead of the start of its subject."""
        source, offset = self.source, node.offset
        if isinstance(node, nodes.Call):
            offset = self.behind(DOT, node.node)
        return lambda error: located(error, source, offset)

    def behind(self, pattern: re.Pattern[str], node: nodes.Node) -> int:
        """Where a name stands whose node has the place of the `is` or the dot before it."""
        match = pattern.match(self.source, node.offset)
        return match.end() if match else node.offset


EXPRESSIONS: Mapping[type[nodes.Node], Callable[[ExpressionCompiler, Any, bool], Closure]] = {
    nodes.Name: path,
    nodes.Getattr: path,
    nodes.Getitem: path,
    **OPERATIONS,
    **CALLS,
}
