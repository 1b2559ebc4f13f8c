"""Checks of templates that need no evaluation: secrets that they transform, quotes that they double, and errors that no
guard of a policy handles."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import product
from typing import Any

from noetl.errors import TemplateFailed
from noetl.expression import nodes
from noetl.expression.functions import SQL_FILTERS
from noetl.expression.nodes import Const, start, static_path
from noetl.expression.template import parse
from noetl.expression.values import ENCODINGS, SECRET_HINT, SECRET_MESSAGE

# --- secrets: `Sealed` rejects those of other sources, and names that the template binds, at run time

KEYCHAIN = "keychain"
# Filters and tests that may be applied to a secret.
PASSES_ON = (*ENCODINGS, *SQL_FILTERS, "default", "d", "defined", "undefined", "none")
KEEPS = ("dict", "namespace")  # functions that return their arguments unchanged


def changed_secrets(source: str) -> list[TemplateFailed]:
    """The errors of operations that would read a secret, in source order. The source must be valid."""
    if KEYCHAIN not in source:
        return []
    candidates = parse(source).tree.find_all((nodes.Expr, nodes.For))
    offsets = sorted({start(node) for node in candidates if any(map(_is_secret, _looked_into(node)))})
    return [TemplateFailed(SECRET_MESSAGE, source, offset, SECRET_HINT) for offset in offsets]


def _looked_into(node: nodes.Node) -> list[nodes.Expr | None]:
    """The parts of a node whose values it reads."""
    match node:
        case nodes.Filter() | nodes.Test() if node.name not in PASSES_ON:
            return [node.node, *node.args, *node.kwargs.values()]
        case nodes.Compare():
            return [node.expr, *(operand for _, operand in node.ops)]
        case nodes.Binary() if node.op not in ("and", "or"):
            return [node.first, node.second]
        case nodes.Unary() if node.op != "not":
            return [node.node]
        case nodes.Getitem() if not (isinstance(node.arg, nodes.Const) and isinstance(node.arg.value, str)):
            return [node.node]
        case nodes.Call(node=nodes.Getattr() as method):
            return [method.node, *node.args, *node.kwargs.values()]
        case nodes.Call(node=nodes.Name(name=name)) if name not in KEEPS:
            return [*node.args, *node.kwargs.values()]
        case nodes.For():
            return [node.iter]
    return []


def _is_secret(node: nodes.Node | None) -> bool:
    match node:
        case nodes.Concat():
            return any(map(_is_secret, node.nodes))
        case nodes.CondExpr():
            return _is_secret(node.expr1) or _is_secret(node.expr2)
        case nodes.Binary(op="and" | "or"):
            return _is_secret(node.first) or _is_secret(node.second)
        case nodes.Filter() if node.name in PASSES_ON:
            return _is_secret(node.node)
    path = static_path(node)
    return path is not None and path[0][0] == KEYCHAIN and len(path[0]) > 2


# --- quotes


def doubled_quotes(source: str) -> list[int]:
    """The offsets of `replace("'", "''")` outside of `raw_sql`. The source must be valid."""
    if "replace" not in source or "''" not in source:
        return []
    tree = parse(source).tree
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


# --- guards: conditions on `outcome.status` and `outcome.error` are known for an error, all others may hold or not

MAX_CONDITIONS = 8
MAX_GUARDS = 100
STATUS, ERROR = ("outcome", "status"), ("outcome", "error")

Formula = Callable[[tuple[bool, ...]], bool]
"""Whether a guard holds for an error, by the truth of the conditions that are not known."""


def some_error_passes(guards: Iterable[str]) -> bool:
    """Whether an error is possible for which no guard holds; False if the guards are too many to decide it."""
    conditions: dict[Any, int] = {}
    formulas = [
        _formula(expression, conditions) for guard in guards if (expression := parse(guard).expression) is not None
    ]
    if len(conditions) > MAX_CONDITIONS or len(formulas) > MAX_GUARDS:
        return False
    cases = product((False, True), repeat=len(conditions))
    return any(not any(formula(case) for formula in formulas) for case in cases)


def always_holds(guard: str) -> bool:
    """Whether a guard is a true constant."""
    expression = parse(guard).expression
    return isinstance(expression, Const) and bool(expression.value)


def may_take_error(guard: str) -> bool:
    """Whether a guard reads the outcome, and can hold for an error."""
    conditions: dict[Any, int] = {}
    expression = parse(guard).expression
    if expression is None or len(guard) > 2000:
        return False
    formula = _formula(expression, conditions)
    names = (expression, *expression.find_all(nodes.Name))
    looks = any(isinstance(node, nodes.Name) and node.name == "outcome" for node in names)
    return looks and (
        len(conditions) > MAX_CONDITIONS or any(map(formula, product((False, True), repeat=len(conditions))))
    )


def _formula(node: nodes.Expr, conditions: dict[Any, int]) -> Formula:
    constant = _value_for_errors(node)
    if constant is not None:
        return lambda case: constant
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


def _value_for_errors(node: nodes.Expr) -> bool | None:
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
