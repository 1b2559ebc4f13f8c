"""Whether the guards of a policy take every error, decided without evaluating them.

A guard is seen as a formula: what it says of `outcome.status` and `outcome.error` is known for an error, every other
condition may hold or not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import product
from typing import Any

from noetl.expression import nodes
from noetl.expression.nodes import Const, static_path
from noetl.expression.template import single_expression
from noetl.expression.template_parser import syntax_tree

MAX_CONDITIONS = 8
MAX_GUARDS = 100
STATUS, ERROR = ("outcome", "status"), ("outcome", "error")

Formula = Callable[[tuple[bool, ...]], bool]
"""Whether a guard holds for an error, by the truth of the conditions that are not known."""


def some_error_passes(guards: Iterable[str]) -> bool:
    """Whether an error is possible for which no guard holds; False if the guards are too many to decide it."""
    conditions: dict[Any, int] = {}
    formulas = [_formula(expression, conditions) for guard in guards if (expression := _expression(guard)) is not None]
    if len(conditions) > MAX_CONDITIONS or len(formulas) > MAX_GUARDS:
        return False
    cases = product((False, True), repeat=len(conditions))
    return any(not any(formula(case) for formula in formulas) for case in cases)


def may_take_error(guard: str) -> bool:
    """Whether a guard looks at the outcome, and can hold for an error."""
    conditions: dict[Any, int] = {}
    expression = _expression(guard)
    if expression is None or len(guard) > 2000:
        return False
    formula = _formula(expression, conditions)
    names = (expression, *expression.find_all(nodes.Name))
    looks = any(isinstance(node, nodes.Name) and node.name == "outcome" for node in names)
    return looks and (
        len(conditions) > MAX_CONDITIONS or any(map(formula, product((False, True), repeat=len(conditions))))
    )


def _expression(guard: str) -> nodes.Expr | None:
    return single_expression(guard, syntax_tree(guard))


def _formula(node: nodes.Expr, conditions: dict[Any, int]) -> Formula:
    known = _known(node)
    if known is not None:
        return lambda case: known
    match node:
        case nodes.Binary(op="and" | "or"):
            first, second = _formula(node.first, conditions), _formula(node.second, conditions)
            if node.op == "and":
                return lambda case: first(case) and second(case)
            return lambda case: first(case) or second(case)
        case nodes.Unary(op="not"):
            negated = _formula(node.node, conditions)
            return lambda case: not negated(case)
    if len(conditions) > MAX_CONDITIONS:
        return lambda case: False  # too many, which the caller sees
    number = conditions.setdefault(_identity(node), len(conditions))
    return lambda case: case[number]


def _known(node: nodes.Expr) -> bool | None:
    """The value of a condition for every error, or None."""
    match node:
        case Const():
            return bool(node.value)
        case nodes.Compare(ops=[(op, other)]):
            path = _path(node.expr)
            values = nodes.constant_values(other) if op in ("in", "not in") else None
            if path == STATUS and (values is not None or isinstance(other, Const)):
                same = "error" in values if values is not None else other.value == "error"  # type: ignore[attr-defined]
                return same == (op in ("==", "in")) if op in ("==", "!=", "in", "not in") else None
            if path == ERROR and isinstance(other, Const) and other.value is None and op in ("==", "!="):
                return op == "!="
        case nodes.Test(name="defined" | "undefined" | "none") if _path(node.node) in (STATUS, ERROR):
            return node.name == "defined"
        case _ if _path(node) == ERROR:
            return True
    return None


def _path(node: nodes.Expr) -> tuple[str | int, ...] | None:
    static = static_path(node)
    return static[0] if static is not None else None


def _identity(value: Any) -> Any:
    """Equal for expressions that are written alike, wherever they are."""
    if isinstance(value, nodes.Node):
        parts = [getattr(value, name) for name in value.__struct_fields__ if name != "offset"]
        return (type(value).__name__, *map(_identity, parts))
    if isinstance(value, dict):
        return tuple((key, _identity(item)) for key, item in value.items())
    return tuple(map(_identity, value)) if isinstance(value, list | tuple) else repr(value)
