"""Compiles names, paths, literals, operators and comparisons to closures.

Values that come out of a path are unwrapped (see View) unless the path goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from noetl.expression import nodes, operators
from noetl.expression.budget import BUDGET_KEY, budget_in
from noetl.expression.nodes import Closure, Scope, constant_key, constant_values, start, static_path
from noetl.expression.text import Evaluation, is_storable
from noetl.expression.values import CONTENTS_KEY, SCALARS, Fault, Missing, Sealed, View, lookup, unwrapped

if TYPE_CHECKING:
    from noetl.expression.compile import Compiler


def path(compiler: Compiler, node: nodes.Expr, tolerant: bool, passed: bool = False) -> Closure:
    raw, fail = _raw(compiler, node, tolerant), compiler.failing(node)

    def plain(scope: Scope, run: Any) -> Any:
        value = raw(scope, run)
        if isinstance(value, View) and type(value) is not Sealed:
            try:
                contents = scope.get(CONTENTS_KEY)
                return value.passed(contents) if passed else value.value(contents)
            except Exception as error:
                raise fail(error) from None
        return value

    return plain


def _raw(compiler: Compiler, node: nodes.Expr, tolerant: bool) -> Closure:
    """The value of a path before it is unwrapped, to look further into it."""
    compiler.enter(node)
    static = static_path(node)
    if static is not None:
        keys, root = static
        if len(keys) > nodes.MAX_KEYS:
            compiler.refuse(node, "the path is too long")
        bound = compiler.bound.get(str(keys[0]))
        if not bound:
            compiler.reads.append(nodes.Read(keys, root.offset, tolerant or bound is not None))
        closure = (_from_scope if bound is None else _from_locals)(compiler, keys, node)
    elif isinstance(node, nodes.Getattr):
        closure = _item(compiler, node, node.attr, tolerant)
    elif not isinstance(node, nodes.Getitem):
        closure = compiler.expression(node, tolerant)
    elif isinstance(node.arg, nodes.Slice):
        closure = _slice(compiler, node, node.arg, tolerant)
    else:
        closure = _item(compiler, node, constant_key(node.arg), tolerant)
    compiler.depth -= 1
    return closure


def _from_scope(compiler: Compiler, path: nodes.Path, node: nodes.Expr) -> Closure:
    """The hot path of every guard: one closure per length, no loop for the usual lengths."""
    name, keys, whole = str(path[0]), path[1:], compiler.missing(node)
    parts = enumerate(nodes.path_texts(path), start=1)
    absent, *gaps = [Missing(whole.text, whole.offset, part, whole.hint, path[:end]) for end, part in parts]
    pairs, fail = list(zip(keys, gaps, strict=True)), compiler.failing(node)
    first, gap1 = pairs[0] if pairs else ("", absent)
    second, gap2 = pairs[1] if len(pairs) > 1 else ("", absent)

    def step(scope: Scope, value: Any, key: str | int, gap: Missing) -> Any:
        try:
            return lookup(value, key, gap, scope.get(CONTENTS_KEY))
        except Exception as error:
            raise fail(error) from None

    def one_key(scope: Scope, run: Any) -> Any:
        try:
            return scope[name]
        except KeyError:
            return absent

    def two_keys(scope: Scope, run: Any) -> Any:
        try:
            value = scope[name]
        except KeyError:
            return absent
        return value.get(first, gap1) if type(value) is dict else step(scope, value, first, gap1)

    def three_keys(scope: Scope, run: Any) -> Any:
        try:
            value = scope[name]
        except KeyError:
            return absent
        if type(value) is dict:
            value = value.get(first, gap1)
            if type(value) is dict:
                return value.get(second, gap2)
        else:
            value = step(scope, value, first, gap1)
        return value if type(value) is Missing else step(scope, value, second, gap2)

    def many_keys(scope: Scope, run: Any) -> Any:
        try:
            value = scope[name]
        except KeyError:
            return absent
        for key, gap in pairs:
            value = value.get(key, gap) if type(value) is dict else step(scope, value, key, gap)
            if type(value) is Missing:
                return value
        return value

    return (one_key, two_keys, three_keys, many_keys)[min(len(pairs), 3)]


def _from_locals(compiler: Compiler, path: nodes.Path, node: nodes.Expr) -> Closure:
    compiler.simple = False
    name, keys, outside = str(path[0]), path[1:], _from_scope(compiler, path, node)
    gap, fail = compiler.missing(node), compiler.failing(node)

    def local(scope: Scope, run: Evaluation) -> Any:
        if name not in run.locals:
            return outside(scope, run)
        value = run.locals[name]
        try:
            for key in keys:
                value = lookup(value, key, gap, run.budget.contents)
        except Exception as error:
            raise fail(error) from None
        return value

    return local


def _item(compiler: Compiler, node: nodes.Getattr | nodes.Getitem, key: str | int | None, tolerant: bool) -> Closure:
    """A key of something that is not a path; a computed one if `key` is None."""
    inner = _raw(compiler, node.node, tolerant)
    computed = compiler.expression(node.arg) if key is None and isinstance(node, nodes.Getitem) else None
    gap, fail = compiler.missing(node), compiler.failing(node)

    def get(scope: Scope, run: Any) -> Any:
        value, contents = inner(scope, run), scope.get(CONTENTS_KEY)
        name: Any = key if computed is None else computed(scope, run)
        try:
            name = unwrapped(name, contents)  # only scalars are keys: hashing a nested tuple can take forever
            return lookup(value, name, gap, contents) if type(name) in SCALARS else gap
        except Exception as error:
            raise fail(error) from None

    return get


def _slice(compiler: Compiler, node: nodes.Getitem, bounds: nodes.Slice, tolerant: bool) -> Closure:
    compiler.simple = False
    inner = compiler.expression(node.node, tolerant)
    ends = [None if part is None else compiler.expression(part) for part in (bounds.start, bounds.stop, bounds.step)]
    gap, fail = compiler.missing(node), compiler.failing(node)

    def cut(scope: Scope, run: Evaluation) -> Any:
        value = inner(scope, run)
        numbers = [None if end is None else end(scope, run) for end in ends]
        if isinstance(value, Missing) or any(isinstance(number, Missing) for number in numbers):
            return gap
        try:
            return operators.sliced(value, numbers, run.budget)
        except Exception as error:
            raise fail(error) from None

    return cut


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
    operate, fail = operators.ARITHMETIC[node.op], compiler.failing(node)

    def binary(scope: Scope, run: Evaluation) -> Any:
        a, b = first(scope, run), second(scope, run)
        if type(a) is Missing:
            return a
        if type(b) is Missing:
            return b
        try:
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
    symbol = node.op
    return _of_operands(compiler, node, [node.node], tolerant, lambda values, budget: operators.sign(symbol, *values))


def _concat(compiler: Compiler, node: nodes.Concat, tolerant: bool) -> Closure:
    return _of_operands(compiler, node, node.nodes, tolerant, operators.concatenate)


def _of_operands(
    compiler: Compiler, node: nodes.Expr, operands: list[nodes.Expr], tolerant: bool, operate: Callable[..., Any]
) -> Closure:
    """An operation on a list of values; missing if one of them is."""
    compiler.simple = False
    parts, fail = [compiler.expression(child, tolerant) for child in operands], compiler.failing(node)

    def apply(scope: Scope, run: Evaluation) -> Any:
        values = [part(scope, run) for part in parts]
        for value in values:
            if type(value) is Missing:
                return value
        try:
            return operate(values, run.budget)
        except Exception as error:
            raise fail(error) from None

    return apply


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
    links = [(operators.COMPARISONS[op], compiler.expression(operand)) for op, operand in node.ops]
    match node.ops:  # most guards compare with a constant, or with a list of them
        case [("==", nodes.Const(value=value))] if not _may_be_decimal(value):
            return lambda scope, run: first(scope, run) == value
        case [("!=", nodes.Const(value=value))] if not _may_be_decimal(value):
            return lambda scope, run: first(scope, run) != value
        case [("==" | "!=" as op, nodes.Const(value=value))]:
            compared, same = operators.compared, op == "=="
            kinds = (int, float) if isinstance(value, str) else (str,)
            return lambda scope, run: (
                ((a := first(scope, run)) == value or (type(a) in kinds and compared(a, value) == 0)) is same
            )
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


def _may_be_decimal(value: Any) -> bool:
    """Whether a constant is a number, or text that compares with one."""
    return type(value) in (int, float) or (type(value) is str and operators.DECIMAL.fullmatch(value) is not None)


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
                compiler.comparisons.append(nodes.Comparison(path[0], op, strings, start(node)))
        before = after


OPERATIONS: Mapping[type[nodes.Node], Callable[[Compiler, Any, bool], Closure]] = {
    nodes.Name: path,
    nodes.Getattr: path,
    nodes.Getitem: path,
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
