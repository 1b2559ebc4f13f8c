"""A template as a sequence of texts and values: evaluated like any other, but a value is not turned into text.

SQL and shell commands are made of such pieces, so that a value can be bound and is never spliced.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from typing import Any, NamedTuple, TypeAlias

from noetl.errors import TemplateSyntax
from noetl.expression import nodes
from noetl.expression.budget import Budget
from noetl.expression.compile import Compiler, Statement
from noetl.expression.nodes import Scope, start
from noetl.expression.operators import has_missing
from noetl.expression.template_parser import syntax_tree
from noetl.expression.text import Evaluation
from noetl.expression.values import Missing, explain, located, revealed, undefined


class TemplateValue(NamedTuple):
    """The offset of the expression of a `{{ }}`, the filter it ends with if that is a special one, and its value."""

    offset: int
    filter: str
    value: Any = None


Piece: TypeAlias = str | TemplateValue


class PieceRun(Evaluation):
    __slots__ = ("pieces", "unused")

    def __init__(self, budget: Budget, unused: Container[int]) -> None:
        super().__init__(budget)
        self.unused = unused  # offsets of templates that are not evaluated
        self.pieces: list[Piece] = []


Evaluate: TypeAlias = Callable[[Mapping[str, Any], Budget, Container[int]], PieceRun]


def compile_pieces(
    source: str, language: str, special_filters: Container[str] = ()
) -> tuple[Evaluate, list[Piece] | None]:
    """The function that evaluates a template, and the pieces of every evaluation, without their values, or None where
    control flow decides. `special_filters` are left to the caller, and must be the last ones. TemplateSyntax."""
    compiler = _PieceCompiler(source, language, special_filters)
    try:
        tree = syntax_tree(source)
        body = compiler.body(tree.body)
    except RecursionError:
        raise TemplateSyntax("the template is nested too deeply", source, 0) from None

    def evaluate(scope: Mapping[str, Any], budget: Budget, unused: Container[int]) -> PieceRun:
        run = PieceRun(budget, unused)
        try:
            body(scope, run)
        except Exception as error:
            raise explain(located(error, source, 0), scope) from None
        return run

    return evaluate, compiler.printed if all(isinstance(node, nodes.Output) for node in tree.body) else None


class _PieceCompiler(Compiler):
    def __init__(self, source: str, language: str, special_filters: Container[str]) -> None:
        super().__init__(source)
        self.language, self.special_filters = language, special_filters
        self.printed: list[Piece] = []

    def _printed(self, node: nodes.Expr) -> Statement:
        if isinstance(node, nodes.TemplateData):
            self.printed.append(text := node.data)

            def emit(scope: Scope, run: Evaluation) -> None:
                assert isinstance(run, PieceRun)
                run.print(text)  # counts it
                run.pieces.append(text)

            return emit
        subject, name, special = node, "", self.special_filters
        if isinstance(node, nodes.Filter) and node.name in special and node.node and not (node.args or node.kwargs):
            subject, name = node.node, node.name
        for inner in (subject, *subject.find_all(nodes.Filter)):
            if isinstance(inner, nodes.Filter) and inner.name in special:
                hint = "it takes no arguments; put the expression before it in brackets: {{ (a ~ b) | ident }}"
                self.refuse(inner, f"the filter '{inner.name}' must be the last one, for the whole expression", hint)
        self.printed.append(TemplateValue(start(node), name))
        return self._bound(subject, start(node), name)

    def _bound(self, node: nodes.Expr, offset: int, name: str) -> Statement:
        evaluate, source, fail = self.expression(node), self.source, self.failing(node)

        def emit(scope: Scope, run: Evaluation) -> None:
            assert isinstance(run, PieceRun)
            value = evaluate(scope, run) if offset not in run.unused else None
            missing = value if isinstance(value, Missing) else has_missing(value, run.budget) if run.holes else None
            if missing is not None:
                raise undefined(missing, source, offset)
            try:
                run.budget.charge(32)
                run.pieces.append(TemplateValue(offset, name, revealed(value, run.budget.contents)))
            except Exception as error:
                raise fail(error) from None

        return emit

    def _stmt_AssignBlock(self, node: nodes.AssignBlock) -> Statement:
        self.refuse(node, f"a block of `set` cannot be used in {self.language}", "write {% set name = value %}")

    def _stmt_FilterBlock(self, node: nodes.FilterBlock) -> Statement:
        self.refuse(node, f"a block of `filter` cannot be used in {self.language}", "write the filter inside {{ }}")
