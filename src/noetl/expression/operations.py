"""Literals, operators and comparisons to closures."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from noetl.expression import nodes, operators
from noetl.expression.budget import BUDGET_KEY, Budget, budget_in
from noetl.expression.nodes import Closure, Comparison, Scope, constant_values, start, static_path
from noetl.expression.text import Evaluation, is_storable
from noetl.expression.values import CONTENTS_KEY, SCALARS, Fault, Missing, refuse_sealed

if TYPE_CHECKING:
    from noetl.expression.compile import Compiler


def _constant(compiler: Compiler, node: nodes.Const | nodes.TemplateData, tolerant: bool) -> Closure:
    value = node.data if isinstance(node, nodes.TemplateData) else node.value
    compiler.simple = compiler.simple and is_storable(value)
    return lambda scope, run: value


def _elements(compiler: Compiler, node: nodes.List | nodes.Tuple, tolerant: bool) -> Closure:
    make: type[list[Any]] | type[tuple[Any, ...]] = list if isinstance(node, nodes.List) else tuple
    constants = constant_values(node)
    if constants is not None:
        compiler.simple = compiler.simple and all(map(is_storable, constants))
        return lambda scope, run: make(constants)  # a fresh one: the caller may keep and change it
    compiler.simple = False
    parts, fail = [compiler.expression(child) for child in node.items], compiler.failing(node)

    def build(scope: Scope, run: Evaluation) -> Any:
        values = [part(scope, run) for part in parts]
        try:
            run.budget.elements(len(values))
        except Exception as error:
            raise fail(error) from None
        run.holes = run.holes or any(type(value) is Missing for value in values)
        return make(values)

    return build


def _dict(compiler: Compiler, node: nodes.Dict, tolerant: bool) -> Closure:
    compiler.simple = False
    pairs = [(compiler.expression(key), compiler.expression(value)) for key, value in node.items]
    fail = compiler.failing(node)

    def build(scope: Scope, run: Evaluation) -> Any:
        built = {}
        try:
            run.budget.elements(2 * len(pairs))
            for key, value in pairs:
                name = key(scope, run)
                if type(name) not in SCALARS:
                    raise Fault("a key of a map must be a string or a number")
                built[name] = value(scope, run)
        except Exception as error:
            raise fail(error) from None
        run.holes = run.holes or any(type(value) is Missing for value in built.values())
        return built

    return build


def _binary(compiler: Compiler, node: nodes.Binary, tolerant: bool) -> Closure:
    first = compiler.expression(node.first, tolerant or node.op == "or")
    second = compiler.expression(node.second, tolerant)
    if node.op == "and":
        return lambda scope, run: first(scope, run) and second(scope, run)
    if node.op == "or":
        return lambda scope, run: first(scope, run) or second(scope, run)
    compiler.simple = False
    operate, fail = _OPERATORS[node.op], compiler.failing(node)

    def binary(scope: Scope, run: Evaluation) -> Any:
        a, b = first(scope, run), second(scope, run)
        if type(a) is Missing:
            return a
        if type(b) is Missing:
            return b
        try:
            refuse_sealed(a, b)
            return operate(a, b, run.budget)
        except Exception as error:
            raise fail(error) from None

    return binary


def _unary(compiler: Compiler, node: nodes.Unary, tolerant: bool) -> Closure:
    if node.op == "not":
        negated = compiler.expression(node.node)
        return lambda scope, run: not negated(scope, run)
    if isinstance(node.node, nodes.Const) and type(node.node.value) in (int, float):
        number = -node.node.value if node.op == "-" else node.node.value
        compiler.simple = compiler.simple and is_storable(number)
        return lambda scope, run: number
    compiler.simple = False
    operate = operators.negative if node.op == "-" else operators.positive
    inner, fail = compiler.expression(node.node, tolerant), compiler.failing(node)

    def unary(scope: Scope, run: Evaluation) -> Any:
        value = inner(scope, run)
        if type(value) is Missing:
            return value
        try:
            return operate(value)
        except Exception as error:
            raise fail(error) from None

    return unary


def _concat(compiler: Compiler, node: nodes.Concat, tolerant: bool) -> Closure:
    compiler.simple = False
    parts, fail = [compiler.expression(child, tolerant) for child in node.nodes], compiler.failing(node)

    def concat(scope: Scope, run: Evaluation) -> Any:
        values = [part(scope, run) for part in parts]
        for value in values:
            if type(value) is Missing:
                return value
        try:
            return operators.concatenate(values, run.budget)
        except Exception as error:
            raise fail(error) from None

    return concat


def _conditional(compiler: Compiler, node: nodes.CondExpr, tolerant: bool) -> Closure:
    test, yes = compiler.expression(node.test), compiler.expression(node.expr1, tolerant)
    if node.expr2 is None:
        gap = compiler.missing(node)
        return lambda scope, run: yes(scope, run) if test(scope, run) else gap
    no = compiler.expression(node.expr2, tolerant)
    return lambda scope, run: yes(scope, run) if test(scope, run) else no(scope, run)


def _compare(compiler: Compiler, node: nodes.Compare, tolerant: bool) -> Closure:
    _note_comparisons(compiler, node)
    first, fail = compiler.expression(node.expr), compiler.failing(node)
    links = [(_COMPARISONS[op], compiler.expression(operand)) for op, operand in node.ops]
    match node.ops:  # most guards compare with a constant, or with a list of them
        case [("==", nodes.Const(value=value))]:
            return lambda scope, run: first(scope, run) == value
        case [("!=", nodes.Const(value=value))]:
            return lambda scope, run: first(scope, run) != value
        case [("in" | "not in" as op, operand)] if (constants := constant_values(operand)) is not None:
            values = tuple(constants)
            if op == "in":
                return lambda scope, run: first(scope, run) in values
            return lambda scope, run: first(scope, run) not in values

    def chain(scope: Scope, run: Evaluation | None) -> bool:
        a = first(scope, run)
        for compare, other in links:
            b = other(scope, run)
            budget = run.budget if run else budget_in(scope) if scope.get(CONTENTS_KEY) else scope.get(BUDGET_KEY)
            try:
                if not compare(a, b, budget):
                    return False
            except Exception as error:
                raise fail(error) from None
            a = b
        return True

    return chain


def _note_comparisons(compiler: Compiler, node: nodes.Compare) -> None:
    """Note the paths that are compared with strings, for the validator."""
    before = node.expr
    for op, after in node.ops:
        sides: list[tuple[nodes.Expr, list[Any]]] = []
        if op in ("==", "!="):
            sides = [(a, [b.value]) for a, b in ((before, after), (after, before)) if isinstance(b, nodes.Const)]
        elif op in ("in", "not in"):
            sides = [(before, constant_values(after) or [])]
        for side, values in sides:
            path = static_path(side)
            strings = tuple(value for value in values if isinstance(value, str))
            if path is not None and strings and len(strings) == len(values) and path[0][0] not in compiler.bound:
                compiler.comparisons.append(Comparison(path[0], op, strings, start(node)))
        before = after


_OPERATORS: dict[str, Callable[[Any, Any, Budget], Any]] = {
    "+": operators.add,
    "-": operators.subtract,
    "*": operators.multiply,
    "/": operators.divide,
    "//": operators.floor_divide,
    "%": operators.modulo,
    "**": operators.power,
}

_COMPARISONS: dict[str, Callable[[Any, Any, Budget | None], bool]] = {
    "==": operators.equal,
    "!=": lambda a, b, budget: not operators.equal(a, b, budget),
    "<": lambda a, b, budget: operators.ordered(a, b, "<", budget),
    "<=": lambda a, b, budget: operators.ordered(a, b, "<=", budget),
    ">": lambda a, b, budget: operators.ordered(a, b, ">", budget),
    ">=": lambda a, b, budget: operators.ordered(a, b, ">=", budget),
    "in": operators.contains,
    "not in": lambda a, b, budget: not operators.contains(a, b, budget),
}

OPERATIONS: Mapping[type[nodes.Node], Callable[[Compiler, Any, bool], Closure]] = {
    nodes.Const: _constant,
    nodes.TemplateData: _constant,
    nodes.List: _elements,
    nodes.Tuple: _elements,
    nodes.Dict: _dict,
    nodes.Binary: _binary,
    nodes.Unary: _unary,
    nodes.Concat: _concat,
    nodes.CondExpr: _conditional,
    nodes.Compare: _compare,
}
