"""A template as a sequence of texts and values: evaluated like any other, but nothing is turned into text.

Only this file uses the internals of `noetl.expression`. Control flow (`if`, `for`, `set`, `with`)
decides what is printed, as everywhere; each `{{ }}` leaves its value.
"""

from __future__ import annotations

from collections.abc import Mapping
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
from noetl.expression.parsing import syntax_tree
from noetl.expression.run import Evaluation
from noetl.expression.sealed import revealed
from noetl.expression.template import as_data
from noetl.expression.text import to_json, to_text


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


class Pieces:
    def __init__(self, source: str) -> None:
        self.source = source
        compiler = _PieceCompiler(source)
        try:
            tree = syntax_tree(source)
            self._body = compiler.body(tree.body)
        except RecursionError:
            raise TemplateSyntax("the template is nested too deeply", source, 0) from None
        linear = all(isinstance(node, nodes.Output) for node in tree.body)
        self.fixed: list[str | TemplatePosition] | None = compiler.printed if linear else None
        """What every evaluation gives, values aside; None where control flow decides."""

    def evaluate(self, scope: Mapping[str, Any]) -> PieceRun:
        """Raises TemplateUndefined, TemplateFailed, BudgetExceeded as any evaluation."""
        run = PieceRun()
        try:
            self._body(scope, run)
        except TemplateError:
            raise
        except Exception as error:
            raise located(error, self.source, 0) from None
        return run


class _PieceCompiler(Compiler):
    def __init__(self, source: str) -> None:
        super().__init__(source)
        self.printed: list[str | TemplatePosition] = []

    def _printed(self, node: nodes.Expr) -> Statement:
        if isinstance(node, nodes.TemplateData):
            self.printed.append(node.data)
            return self._text(node.data)
        subject, name = _unfiltered(node)
        for inner in (subject, *subject.find_all(nodes.Filter)):
            if isinstance(inner, nodes.Filter) and inner.name in SQL_FILTERS:
                hint = "it takes no arguments; put the expression before it in brackets: {{ (a ~ b) | ident }}"
                self.refuse(inner, f"the filter '{inner.name}' must be the last one, for the whole expression", hint)
        place = TemplatePosition(start(node), name)
        self.printed.append(place)
        return self._hole(subject, place)

    def _text(self, text: str) -> Statement:
        def emit(scope: Scope, run: Evaluation) -> None:
            assert isinstance(run, PieceRun)
            run.print(text)  # counts it
            run.pieces.append(text)

        return emit

    def _hole(self, node: nodes.Expr, place: TemplatePosition) -> Statement:
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


def _unfiltered(node: nodes.Expr) -> tuple[nodes.Expr, str]:
    """The expression before a final `ident` or `raw_sql`, and the name of that filter."""
    if isinstance(node, nodes.Filter) and node.name in SQL_FILTERS and node.node and not (node.args or node.kwargs):
        return node.node, node.name
    return node, ""


def as_text(value: Any, run: PieceRun) -> str:
    """A value inside a longer text: null is empty, lists and maps are JSON, others are as a template prints them."""
    if value is None:
        return ""
    return to_json(value, run.budget) if isinstance(value, list | dict) else to_text(value, run.budget)
