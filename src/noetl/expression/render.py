"""Playbook values with templates inside: strings are templates, lists and maps are rendered through."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from noetl.errors import TemplateError, TemplateSyntax
from noetl.expression.budget import BUDGET_KEY, Budget, budget_in
from noetl.expression.template import Template, as_data, parse

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
    made = _prepared(value, ())
    if made is None:
        return lambda scope, budget=None: value
    if isinstance(value, str):
        return made  # one template makes its own budget, and none if it is simple
    return lambda scope, budget=None: made(scope, budget or budget_in(scope))


def _prepared(value: Any, path: tuple[str | int, ...]) -> Renderer | None:
    """A renderer, or None for a value that has no template in it."""
    if len(path) > _MAX_DEPTH:
        error = TemplateSyntax("the value is nested too deeply")
        error.path = path[:8]
        raise error
    if isinstance(value, str):
        return _string(_parse(value, path), path)
    if isinstance(value, Mapping):
        return _mapping({key: (inner, _prepared(inner, (*path, key))) for key, inner in value.items()})
    if isinstance(value, list | tuple):
        return _list([(inner, _prepared(inner, (*path, place))) for place, inner in enumerate(value)])
    return None


def _parse(source: str, path: tuple[str | int, ...]) -> Template:
    try:
        return parse(source)
    except TemplateError as error:
        error.path = path
        raise


def _string(template: Template, path: tuple[str | int, ...]) -> Renderer | None:
    if template.is_constant:
        return None

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
            return as_data(value, template.source, budget or Budget())
        except TemplateError as error:
            error.path = path
            raise

    return rendered


def _mapping(parts: dict[Any, tuple[Any, Renderer | None]]) -> Renderer | None:
    if all(make is None for _, make in parts.values()):
        return None
    return lambda scope, budget: {
        key: inner if make is None else make(scope, budget) for key, (inner, make) in parts.items()
    }


def _list(parts: list[tuple[Any, Renderer | None]]) -> Renderer | None:
    if all(make is None for _, make in parts):
        return None
    return lambda scope, budget: [inner if make is None else make(scope, budget) for inner, make in parts]
