"""A template as a sequence of texts and values: evaluated like any other, but a value is not turned into text."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeAlias

from noetl.errors import TemplateError, TemplateSyntax
from noetl.expression import nodes
from noetl.expression.analysis import Scope, start
from noetl.expression.budget import Budget
from noetl.expression.compile import Compiler, Statement
from noetl.expression.fault import located, undefined
from noetl.expression.filters import SQL_FILTERS
from noetl.expression.missing import Missing
from noetl.expression.operators import has_missing
from noetl.expression.run import Evaluation
from noetl.expression.sealed import revealed
from noetl.expression.statements import syntax_tree
from noetl.expression.template import as_data


class TemplatePosition(NamedTuple):
    """The offset of a `{{ }}`, and the filter `ident` or `raw_sql` if it ends with one."""

    offset: int
    filter: str


class TemplateValue(NamedTuple):
    place: TemplatePosition
    value: Any


Piece: TypeAlias = str | TemplateValue


class PieceRun(Evaluation):
    __slots__ = ("pieces",)

    def __init__(self) -> None:
        super().__init__(Budget())
        self.pieces: list[Piece] = []


def compile_pieces(
    source: str,
) -> tuple[Callable[[Mapping[str, Any]], PieceRun], list[str | TemplatePosition] | None]:
    """The function that evaluates a template, and what every evaluation prints, or None where control flow decides."""
    compiler = _PieceCompiler(source)
    try:
        tree = syntax_tree(source)
        body = compiler.body(tree.body)
    except RecursionError:
        raise TemplateSyntax("the template is nested too deeply", source, 0) from None

    def evaluate(scope: Mapping[str, Any]) -> PieceRun:
        run = PieceRun()
        try:
            body(scope, run)
        except TemplateError:
            raise
        except Exception as error:
            raise located(error, source, 0) from None
        return run

    return evaluate, compiler.printed if all(isinstance(node, nodes.Output) for node in tree.body) else None


class _PieceCompiler(Compiler):
    def __init__(self, source: str) -> None:
        super().__init__(source)
        self.printed: list[str | TemplatePosition] = []

    def _printed(self, node: nodes.Expr) -> Statement:
        if isinstance(node, nodes.TemplateData):
            self.printed.append(text := node.data)

            def emit(scope: Scope, run: Evaluation) -> None:
                assert isinstance(run, PieceRun)
                run.print(text)  # counts it
                run.pieces.append(text)

            return emit
        subject, name = node, ""
        if isinstance(node, nodes.Filter) and node.name in SQL_FILTERS and node.node and not (node.args or node.kwargs):
            subject, name = node.node, node.name
        for inner in (subject, *subject.find_all(nodes.Filter)):
            if isinstance(inner, nodes.Filter) and inner.name in SQL_FILTERS:
                hint = "it takes no arguments; put the expression before it in brackets: {{ (a ~ b) | ident }}"
                self.refuse(inner, f"the filter '{inner.name}' must be the last one, for the whole expression", hint)
        place = TemplatePosition(start(node), name)
        self.printed.append(place)
        return self._bound(subject, place)

    def _bound(self, node: nodes.Expr, place: TemplatePosition) -> Statement:
        evaluate, source, fail = self.expression(node), self.source, self.failing(node)

        def emit(scope: Scope, run: Evaluation) -> None:
            assert isinstance(run, PieceRun)
            value = evaluate(scope, run)
            missing = value if isinstance(value, Missing) else has_missing(value, run.budget) if run.holes else None
            if missing is not None:
                raise undefined(missing, source, place.offset)
            try:
                value = revealed(value)
                run.budget.charge(32)
                bound = isinstance(value, int | float | str)  # the driver knows what its database can hold
                run.pieces.append(TemplateValue(place, value if bound else as_data(value, source, run.budget)))
            except Exception as error:
                raise fail(error) from None

        return emit

    def _stmt_AssignBlock(self, node: nodes.AssignBlock) -> Statement:
        self.refuse(node, "a block of `set` is not available in SQL", "write {% set name = value %}")

    def _stmt_FilterBlock(self, node: nodes.FilterBlock) -> Statement:
        self.refuse(node, "filter blocks are not available in SQL", "write the filter inside {{ }}")
