"""A parsed template: its reads, its filters and functions, and its evaluation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property, lru_cache
from typing import Any

from noetl.errors import TemplateError, TemplateSyntax
from noetl.expression import nodes
from noetl.expression.budget import BUDGET_KEY, Budget, budget_in
from noetl.expression.compile import Compiler
from noetl.expression.lexer import has_syntax
from noetl.expression.nodes import Absence, Closure, Comparison, Read, Unknown, Use, static_path
from noetl.expression.operators import has_missing
from noetl.expression.template_parser import syntax_tree
from noetl.expression.text import Evaluation, storable
from noetl.expression.values import Fault, Missing, Sealed, View, explain, located, undefined

CACHED = 4096


class Template:
    """A template that parsed. Immutable; one may be evaluated by many threads."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.is_constant = not has_syntax(source)
        self.tree = nodes.Root(0, []) if self.is_constant else syntax_tree(source)
        self.expression = _single_expression(source, self.tree)
        self.is_expression = self.expression is not None
        compiler, reads = Compiler(source), _plain_reads(self.tree)
        if reads is None:
            self._closure = self._compiled(compiler)
        else:  # compiled on first evaluation: a document may have thousands of templates
            compiler.reads, compiler.simple = reads, self.is_constant or self.is_expression
        self.is_simple = compiler.simple
        self.reads: tuple[Read, ...] = tuple(compiler.reads)
        self.filters: tuple[Use, ...] = tuple(compiler.filters)
        self.tests: tuple[Use, ...] = tuple(compiler.tests)
        self.functions: tuple[Use, ...] = tuple(compiler.functions)
        self.unknown: tuple[Unknown, ...] = tuple(compiler.unknown)
        self.string_comparisons: tuple[Comparison, ...] = tuple(compiler.comparisons)

    @cached_property
    def _closure(self) -> Closure:
        return self._compiled(Compiler(self.source))

    def _compiled(self, compiler: Compiler) -> Closure:
        try:
            return compiler.body(self.tree.body) if self.expression is None else compiler.whole(self.expression)
        except RecursionError:
            raise TemplateSyntax("the template is nested too deeply", self.source, 0) from None

    def __repr__(self) -> str:
        return f"Template({self.source!r})"

    def evaluate(self, scope: Mapping[str, Any], *, budget: Budget | None = None) -> Any:
        """The value of a single expression, untouched; of anything else, a string, sealed if a secret is in it.

        Raises TemplateUndefined where a value is missing, TemplateFailed, BudgetExceeded.
        """
        if self.is_constant:
            return self.source
        try:
            run = self._run(scope) if budget is None else Evaluation(budget)
            value = self._closure(scope, run)
            if run is not None and not self.is_expression:
                text = "".join(run.out)
                return Sealed(text) if run.sealed else text
            hole = value if type(value) is Missing else None
            if run is not None and run.holes and not isinstance(value, View):
                hole = has_missing(value, run.budget)
        except Exception as error:
            raise explain(located(error, self.source, 0), scope) from None
        if hole is not None:
            raise explain(undefined(hole, self.source, 0), scope)
        return value

    def test(self, scope: Mapping[str, Any], *, budget: Budget | None = None) -> bool:
        """Whether a guard holds: a missing value is false, any other counts as in Python."""
        if not self.is_expression:
            return bool(self.evaluate(scope, budget=budget))
        try:
            return bool(self._closure(scope, self._run(scope) if budget is None else Evaluation(budget)))
        except Exception as error:
            raise explain(located(error, self.source, 0), scope) from None

    def absences(self, guard: bool) -> Mapping[int, list[Absence]]:
        """Every read of a name in the scope, by its offset, with the effect of its absence. With `guard` the
        template is a condition, where a missing value is false."""
        from noetl.expression.absence import absences  # most playbooks do not need it

        return absences(self, guard)

    def _run(self, scope: Mapping[str, Any]) -> Evaluation | None:
        """None for what is simple: it makes nothing, and its comparisons find the budget in the scope."""
        if not self.is_simple:
            return Evaluation(budget_in(scope))
        if BUDGET_KEY in scope:
            scope[BUDGET_KEY].check()
        return None


def _single_expression(source: str, tree: nodes.Root) -> nodes.Expr | None:
    match tree.body:
        case [nodes.Output(nodes=parts)] if source.lstrip().startswith("{{") and source.rstrip().endswith("}}"):
            rest = [n for n in parts if not (isinstance(n, nodes.TemplateData) and n.data.isspace())]
            return rest[0] if len(rest) == 1 and not isinstance(rest[0], nodes.TemplateData) else None
    return None


def _plain_reads(tree: nodes.Root) -> list[Read] | None:
    """The reads of a template of text and static paths; None for any other."""
    if not tree.body:
        return []
    (output, *more) = tree.body
    if more or not isinstance(output, nodes.Output):
        return None
    reads = []
    for part in output.nodes:
        if type(part) is not nodes.TemplateData:
            path = static_path(part)
            if path is None or len(path[0]) > nodes.MAX_KEYS:
                return None
            reads.append(Read(path[0], path[1].offset, False))
    return reads


def parse(source: str) -> Template:
    """The template of a source. Parsed once: the last few thousand are kept. Raises TemplateSyntax only."""
    return _parsed(source) if has_syntax(source) else Template(source)


_parsed = lru_cache(maxsize=CACHED)(Template)


# --- playbook values with templates inside

Renderer = Callable[..., Any]

_NUMBERS = frozenset({int, float, bool, type(None)})
_MAX_DEPTH = 128  # the reader of playbooks allows half of this


def render(value: Any, scope: Mapping[str, Any], budget: Budget | None = None) -> Any:
    """The value with every template in it evaluated. An error carries `path`, where in the value it arose."""
    return prepare(value)(scope, budget)


def prepare(value: Any) -> Renderer:
    """`render` with the work done beforehand: a function of a scope and an optional budget.

    Parts without templates are kept as they are and shared between results: treat results as immutable.
    """
    renderer = _prepared(value, ())
    if renderer is None:
        return lambda scope, budget=None: value
    if isinstance(value, str):
        return renderer  # one template makes its own budget, and none if it is simple
    return lambda scope, budget=None: renderer(scope, budget or budget_in(scope))


def _prepared(value: Any, path: tuple[str | int, ...]) -> Renderer | None:
    if len(path) > _MAX_DEPTH:
        error = TemplateSyntax("the value is nested too deeply")
        error.path = path[:8]
        raise error
    if isinstance(value, str):
        try:
            template = parse(value)
        except TemplateError as error:
            error.path = path
            raise
        return None if template.is_constant else _string(template, path)
    if isinstance(value, Mapping):
        parts = {key: (inner, _prepared(inner, (*path, key))) for key, inner in value.items()}
        if all(make is None for _, make in parts.values()):
            return None
        return lambda scope, budget: {
            key: inner if make is None else make(scope, budget) for key, (inner, make) in parts.items()
        }
    if isinstance(value, list | tuple):
        items = [(inner, _prepared(inner, (*path, place))) for place, inner in enumerate(value)]
        if all(make is None for _, make in items):
            return None
        return lambda scope, budget: [inner if make is None else make(scope, budget) for inner, make in items]
    return None


def _string(template: Template, path: tuple[str | int, ...]) -> Renderer:
    def rendered(scope: Mapping[str, Any], budget: Budget | None = None) -> Any:
        try:
            if not template.is_simple:
                budget = budget or budget_in(scope)
            value = template.evaluate(scope, budget=budget)
            if template.is_simple and type(value) is not tuple:
                shared = scope.get(BUDGET_KEY)
                if shared is None or type(value) in _NUMBERS:
                    return value  # it is data already
                budget = budget or shared
            try:
                return storable(value, budget or Budget())
            except Fault as error:
                raise located(error, template.source, 0) from None
        except TemplateError as error:
            error.path = path
            raise

    return rendered
