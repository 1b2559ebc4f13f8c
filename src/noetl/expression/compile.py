"""Expressions of Jinja's syntax tree to Python closures (statements.py does the statements).

An expression becomes `closure(scope, run) -> value`. There is one method per node type that playbooks have;
a node type without one is refused, so nothing works by accident. `run` holds the budget and the template's
own variables; an expression that needs neither (names, paths, constants, comparisons, and/or/not, default,
`is defined`) is `simple` and runs with None.

Names are read from the scope unless the template binds them. Values that came out of a path are unwrapped
(see View) unless they are looked into further.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, NoReturn

from noetl.errors import TemplateFailed, TemplateSyntax
from noetl.expression import nodes, operators
from noetl.expression.budget import BUDGET_KEY, Budget
from noetl.expression.data import is_storable
from noetl.expression.fault import Fault, located
from noetl.expression.filters import FILTERS, SQL_FILTERS, TOLERANT, Entry
from noetl.expression.functions import FUNCTIONS, METHOD_NAMES, method_of
from noetl.expression.missing import NOTHING, SCALARS, Missing, View, item, lookup
from noetl.expression.predicates import TESTS, holds
from noetl.expression.run import Loop, Run
from noetl.expression.sealed import ENCODINGS, Sealed, encoding, refuse_sealed
from noetl.expression.shape import (
    Path,
    constant_key,
    constant_values,
    described,
    path_texts,
    start,
    static_path,
    string_values,
)

MAX_DEPTH = 96  # of the tree; evaluation takes a Python frame or two per level

Scope = Mapping[str, Any]


class Read(NamedTuple):
    """A value that a template takes from its scope, by the longest path that is known beforehand.

    `guarded`: the template copes with its absence (default, `is defined`, left of `or`).
    """

    path: Path
    offset: int
    guarded: bool


class Use(NamedTuple):
    """A filter, test or function by name."""

    name: str
    offset: int


class Unknown(NamedTuple):
    """A filter, test, function or method that does not exist. `kind` is one of these words."""

    kind: str
    name: str
    offset: int


class Comparison(NamedTuple):
    """A path compared with string constants by ==, !=, in or not in."""

    path: Path
    op: str
    values: tuple[str, ...]
    offset: int


Closure = Callable[[Scope, Any], Any]


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
        closure: Closure = self._visit("expr", node, tolerant)
        return closure

    def whole(self, node: nodes.Expr) -> Closure:
        """The value of a template that is this one expression: a path passes on what it finds."""
        if isinstance(node, nodes.Name | nodes.Getattr | nodes.Getitem):
            return self._path(node, False, passed=True)
        return self.expression(node)

    def _visit(self, kind: str, node: nodes.Node, *args: Any) -> Any:
        method = getattr(self, f"_{kind}_{type(node).__name__}", None)
        if method is None:
            self.refuse(node, f"'{type(node).__name__.lower()}' is not available in playbooks")
        self.depth += 1
        if self.depth > MAX_DEPTH:
            self.refuse(node, "the template is nested too deeply")
        try:
            return method(node, *args)
        finally:
            self.depth -= 1

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

    # --- names and paths

    def _expr_Name(self, node: nodes.Name, tolerant: bool) -> Closure:
        return self._path(node, tolerant)

    def _expr_Getattr(self, node: nodes.Getattr, tolerant: bool) -> Closure:
        return self._path(node, tolerant)

    def _expr_Getitem(self, node: nodes.Getitem, tolerant: bool) -> Closure:
        return self._path(node, tolerant)

    def _path(self, node: nodes.Expr, tolerant: bool, passed: bool = False) -> Closure:
        raw, fail = self._raw(node, tolerant), self.failing(node)

        def plain(scope: Scope, run: Any) -> Any:
            value = raw(scope, run)
            if isinstance(value, View) and type(value) is not Sealed:
                try:
                    return value.passed() if passed else value.value()
                except Exception as error:
                    raise fail(error) from None
            return value

        return plain

    def _raw(self, node: nodes.Expr, tolerant: bool) -> Closure:
        """The value of a path before it is unwrapped, to look further into it."""
        self.depth += 1
        if self.depth > MAX_DEPTH:
            self.refuse(node, "the template is nested too deeply")
        try:
            return self._looked_up(node, tolerant)
        finally:
            self.depth -= 1

    def _looked_up(self, node: nodes.Expr, tolerant: bool) -> Closure:
        static = static_path(node)
        if static is not None:
            path, root = static
            if len(path) > MAX_DEPTH:
                self.refuse(node, "the path is too long")
            if path[0] not in self.bound:
                self.reads.append(Read(path, root.offset, tolerant))
                return self._from_scope(path, node)
            if not self.bound[str(path[0])]:
                self.reads.append(Read(path, root.offset, True))
            return self._from_locals(path, node)
        if isinstance(node, nodes.Getattr):
            return self._step(node, node.node, node.attr, tolerant)
        if isinstance(node, nodes.Getitem):
            if isinstance(node.arg, nodes.Slice):
                return self._slice(node, node.arg, tolerant)
            key = constant_key(node.arg)
            if key is not None:
                return self._step(node, node.node, key, tolerant)
            return self._item(node, tolerant)
        return self.expression(node, tolerant)

    def _from_scope(self, path: Path, node: nodes.Node) -> Closure:
        """The hot path of every guard: one closure per length, no loop for the usual lengths."""
        name, keys = str(path[0]), path[1:]
        whole = self.missing(node)
        gaps = [Missing(whole.text, whole.offset, part, whole.hint) for part in path_texts(path)]
        absent, fail = gaps[0], self.failing(node)

        def one(scope: Scope, run: Any) -> Any:
            try:
                return scope[name]
            except KeyError:
                return absent

        def two(scope: Scope, run: Any) -> Any:
            try:
                value = scope[name]
            except KeyError:
                return absent
            if type(value) is dict:
                return value.get(first, gap1)
            return step(value, first, gap1)

        def three(scope: Scope, run: Any) -> Any:
            try:
                value = scope[name]
            except KeyError:
                return absent
            if type(value) is dict:
                value = value.get(first, gap1)
                if type(value) is dict:
                    return value.get(second, gap2)
            else:
                value = step(value, first, gap1)
            return value if type(value) is Missing else step(value, second, gap2)

        def many(scope: Scope, run: Any) -> Any:
            try:
                value = scope[name]
            except KeyError:
                return absent
            for key, gap in pairs:
                value = value.get(key, gap) if type(value) is dict else step(value, key, gap)
                if type(value) is Missing:
                    return value
            return value

        def step(value: Any, key: str | int, gap: Missing) -> Any:
            try:
                return lookup(value, key, gap)
            except Exception as error:
                raise fail(error) from None

        if not keys:
            return one
        first, gap1 = keys[0], gaps[1]
        if len(keys) == 1:
            return two
        second, gap2 = keys[1], gaps[2]
        pairs = list(zip(keys, gaps[1:], strict=True))
        return three if len(keys) == 2 else many

    def _from_locals(self, path: Path, node: nodes.Node) -> Closure:
        self.simple = False
        name, keys, outside = str(path[0]), path[1:], self._from_scope(path, node)
        gap, fail = self.missing(node), self.failing(node)

        def local(scope: Scope, run: Run) -> Any:
            if name not in run.locals:
                return outside(scope, run)
            value = run.locals[name]
            try:
                for key in keys:
                    value = lookup(value, key, gap)
            except Exception as error:
                raise fail(error) from None
            return value

        return local

    def _step(self, node: nodes.Expr, base: nodes.Expr, key: str | int, tolerant: bool) -> Closure:
        inner, gap, fail = self._raw(base, tolerant), self.missing(node), self.failing(node)

        def step(scope: Scope, run: Any) -> Any:
            value = inner(scope, run)
            try:
                return lookup(value, key, gap)
            except Exception as error:
                raise fail(error) from None

        return step

    def _item(self, node: nodes.Getitem, tolerant: bool) -> Closure:
        inner, key = self._raw(node.node, tolerant), self.expression(node.arg)
        gap, fail = self.missing(node), self.failing(node)

        def get(scope: Scope, run: Any) -> Any:
            value, wanted = inner(scope, run), key(scope, run)
            try:
                return item(value, wanted, gap)
            except Exception as error:
                raise fail(error) from None

        return get

    def _slice(self, node: nodes.Getitem, bounds: nodes.Slice, tolerant: bool) -> Closure:
        self.simple = False
        inner = self.expression(node.node, tolerant)
        ends = [None if part is None else self.expression(part) for part in (bounds.start, bounds.stop, bounds.step)]
        gap, fail = self.missing(node), self.failing(node)

        def cut(scope: Scope, run: Run) -> Any:
            value = inner(scope, run)
            numbers = [None if end is None else end(scope, run) for end in ends]
            if isinstance(value, Missing) or any(isinstance(number, Missing) for number in numbers):
                return gap
            try:
                refuse_sealed(value)
                return _sliced(value, numbers, run.budget)
            except Exception as error:
                raise fail(error) from None

        return cut

    # --- literals

    def _expr_Const(self, node: nodes.Const, tolerant: bool) -> Closure:
        value = node.value
        self.simple = self.simple and is_storable(value)
        return lambda scope, run: value

    def _expr_TemplateData(self, node: nodes.TemplateData, tolerant: bool) -> Closure:
        value = node.data
        return lambda scope, run: value

    def _expr_List(self, node: nodes.List, tolerant: bool) -> Closure:
        return self._elements(node, list)

    def _expr_Tuple(self, node: nodes.Tuple, tolerant: bool) -> Closure:
        return self._elements(node, tuple)

    def _elements(self, node: nodes.List | nodes.Tuple, make: Callable[[list[Any]], Any]) -> Closure:
        constants = constant_values(node)
        if constants is not None:
            self.simple = self.simple and all(map(is_storable, constants))
            return lambda scope, run: make(constants)  # a fresh one: the caller may keep and change it
        self.simple = False
        parts = [self.expression(child) for child in node.items]
        fail = self.failing(node)

        def build(scope: Scope, run: Run) -> Any:
            values = [part(scope, run) for part in parts]
            try:
                run.budget.elements(len(values))
            except Exception as error:
                raise fail(error) from None
            run.holes = run.holes or any(type(value) is Missing for value in values)
            return make(values)

        return build

    def _expr_Dict(self, node: nodes.Dict, tolerant: bool) -> Closure:
        self.simple = False
        pairs = [(self.expression(pair.key), self.expression(pair.value)) for pair in node.items]
        fail = self.failing(node)

        def build(scope: Scope, run: Run) -> Any:
            found = {}
            try:
                run.budget.elements(2 * len(pairs))
                for key, value in pairs:
                    name = key(scope, run)
                    if type(name) not in SCALARS:
                        raise Fault("a key of a map must be a string or a number")
                    found[name] = value(scope, run)
            except Exception as error:
                raise fail(error) from None
            run.holes = run.holes or any(type(value) is Missing for value in found.values())
            return found

        return build

    # --- operators

    def _binary(self, node: nodes.BinExpr, tolerant: bool) -> Closure:
        self.simple = False
        operate = _OPERATORS[type(node).__name__]
        left, right = self.expression(node.left, tolerant), self.expression(node.right, tolerant)
        fail = self.failing(node)

        def binary(scope: Scope, run: Run) -> Any:
            a, b = left(scope, run), right(scope, run)
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

    _expr_Add = _expr_Sub = _expr_Mul = _expr_Div = _expr_FloorDiv = _expr_Mod = _expr_Pow = _binary

    def _unary(self, node: nodes.UnaryExpr, tolerant: bool) -> Closure:
        if isinstance(node.node, nodes.Const) and type(node.node.value) in (int, float):
            number = -node.node.value if isinstance(node, nodes.Neg) else node.node.value
            self.simple = self.simple and is_storable(number)
            return lambda scope, run: number
        self.simple = False
        operate = operators.negative if isinstance(node, nodes.Neg) else operators.positive
        inner, fail = self.expression(node.node, tolerant), self.failing(node)

        def unary(scope: Scope, run: Run) -> Any:
            value = inner(scope, run)
            if type(value) is Missing:
                return value
            try:
                return operate(value, run.budget)
            except Exception as error:
                raise fail(error) from None

        return unary

    _expr_Neg = _expr_Pos = _unary

    def _expr_Concat(self, node: nodes.Concat, tolerant: bool) -> Closure:
        self.simple = False
        parts, fail = [self.expression(child, tolerant) for child in node.nodes], self.failing(node)

        def concat(scope: Scope, run: Run) -> Any:
            values = [part(scope, run) for part in parts]
            for value in values:
                if type(value) is Missing:
                    return value
            try:
                return operators.concatenate(values, run.budget)
            except Exception as error:
                raise fail(error) from None

        return concat

    def _expr_And(self, node: nodes.And, tolerant: bool) -> Closure:
        left, right = self.expression(node.left, tolerant), self.expression(node.right, tolerant)
        return lambda scope, run: left(scope, run) and right(scope, run)

    def _expr_Or(self, node: nodes.Or, tolerant: bool) -> Closure:
        left, right = self.expression(node.left, True), self.expression(node.right, tolerant)
        return lambda scope, run: left(scope, run) or right(scope, run)

    def _expr_Not(self, node: nodes.Not, tolerant: bool) -> Closure:
        inner = self.expression(node.node)
        return lambda scope, run: not inner(scope, run)

    def _expr_CondExpr(self, node: nodes.CondExpr, tolerant: bool) -> Closure:
        test, yes = self.expression(node.test), self.expression(node.expr1, tolerant)
        if node.expr2 is None:
            gap = self.missing(node)
            return lambda scope, run: yes(scope, run) if test(scope, run) else gap
        no = self.expression(node.expr2, tolerant)
        return lambda scope, run: yes(scope, run) if test(scope, run) else no(scope, run)

    # --- comparisons

    def _expr_Compare(self, node: nodes.Compare, tolerant: bool) -> Closure:
        self._note_comparisons(node)
        left = self.expression(node.expr)
        links = [(operand.op, self._compared(operand, node)) for operand in node.ops]
        if len(links) == 1:
            return self._single(left, *links[0])

        def chain(scope: Scope, run: Any) -> bool:
            a = left(scope, run)
            for _, (right, compare, _constant) in links:
                b = right(scope, run)
                if not compare(a, b, scope, run):
                    return False
                a = b
            return True

        return chain

    def _compared(self, operand: nodes.Operand, node: nodes.Compare) -> tuple[Closure, Any, Any]:
        """The right side, how to compare with it, and its value if it is constant."""
        right, compare, fail = self.expression(operand.expr), _COMPARE[operand.op], self.failing(node)

        def checked(a: Any, b: Any, scope: Scope, run: Any) -> bool:
            try:
                return compare(a, b, scope.get(BUDGET_KEY) if run is None else run.budget)
            except Exception as error:
                raise fail(error) from None

        return right, checked, operand.expr

    def _single(self, left: Closure, op: str, link: tuple[Closure, Any, nodes.Expr]) -> Closure:
        right, compare, expr = link
        if isinstance(expr, nodes.Const) and op in ("eq", "ne"):
            value = expr.value
            if op == "eq":
                return lambda scope, run: left(scope, run) == value
            return lambda scope, run: left(scope, run) != value
        constants = constant_values(expr)
        if constants is not None and op in ("in", "notin"):
            known = tuple(constants)
            if op == "in":
                return lambda scope, run: left(scope, run) in known
            return lambda scope, run: left(scope, run) not in known
        return lambda scope, run: compare(left(scope, run), right(scope, run), scope, run)

    def _note_comparisons(self, node: nodes.Compare) -> None:
        left = node.expr
        for operand in node.ops:
            right, op = operand.expr, _SYMBOLS.get(operand.op, "")
            for side, other in ((left, right), (right, left) if op in ("==", "!=") else (None, None)):
                path = static_path(side) if side is not None else None
                values = string_values(other, op)
                if op and path is not None and values and path[0][0] not in self.bound:
                    self.comparisons.append(Comparison(path[0], op, values, start(node)))
            left = right

    # --- filters, tests, calls

    def _arguments(self, node: Any) -> tuple[list[Closure], dict[str, Closure]]:
        if node.dyn_args is not None or node.dyn_kwargs is not None:
            self.refuse(node, "'*' and '**' arguments are not available in playbooks")
        names = [keyword.key for keyword in node.kwargs]
        if len(set(names)) != len(names):
            self.refuse(node, "an argument is given twice")
        positional = [self.expression(arg) for arg in node.args]
        return positional, {keyword.key: self.expression(keyword.value) for keyword in node.kwargs}

    def _expr_Filter(self, node: nodes.Filter, tolerant: bool) -> Closure:
        if node.node is None:
            self.refuse(node, "a filter needs a value")
        subject = self.expression(node.node, tolerant or node.name in TOLERANT)
        return self._filtered(node, subject)

    def _filtered(self, node: nodes.Filter, subject: Closure) -> Closure:
        name = node.name
        self.filters.append(Use(name, node.offset))
        self._note_nested(node)
        args, kwargs = self._arguments(node)
        entry = FILTERS.get(name) or SQL_FILTERS.get(name)
        if entry is None:
            return self._unknown("filter", name, node.offset)
        if entry.refuses(len(args), list(kwargs)):
            self.refuse_call(node, f"filter '{name}'", entry)
        if name in TOLERANT:
            return self._defaulted(node, subject, args, kwargs)
        return self._applied(node, entry, subject, args, kwargs)

    def _note_nested(self, node: nodes.Filter) -> None:
        """Names of filters and tests that are arguments: map('upper'), select('odd')."""
        place = {"map": 0, "select": 0, "reject": 0, "selectattr": 1, "rejectattr": 1}.get(node.name)
        name_node = node.args[place] if place is not None and len(node.args) > place else None
        if not isinstance(name_node, nodes.Const):
            return
        name, offset = str(name_node.value), name_node.offset
        kind, uses, known = ("filter", self.filters, FILTERS) if node.name == "map" else ("test", self.tests, TESTS)
        uses.append(Use(name, offset))
        if name not in known:
            self.unknown.append(Unknown(kind, name, offset))

    def _applied(
        self,
        node: nodes.Expr,
        entry: Entry,
        subject: Closure,
        args: list[Closure],
        kwargs: dict[str, Closure],
    ) -> Closure:
        self.simple = False
        call, gap, fail = entry.call, self.missing(node), self.failing_at(node)
        leaves_holes = call is FILTERS["map"].call
        encodes = isinstance(node, nodes.Filter) and node.name in ENCODINGS
        if encodes:
            call = encoding(call)

        def apply(scope: Scope, run: Run) -> Any:
            value = subject(scope, run)
            if type(value) is Missing:
                return value
            given = [arg(scope, run) for arg in args]
            named = {key: arg(scope, run) for key, arg in kwargs.items()}
            for argument in (*given, *named.values()):
                if type(argument) is Missing:
                    return argument
            try:
                run.budget.check()
                refuse_sealed(None if encodes else value, *given, *named.values())
                result = call(run.budget, value, *given, **named)
            except Exception as error:
                raise fail(error) from None
            run.holes = run.holes or leaves_holes
            return gap if result is NOTHING else result

        return apply

    def failing_at(self, node: nodes.Node) -> Callable[[Exception], Exception]:
        """Like failing, but at the name of the filter or method instead of the start of its subject."""
        source, offset = self.source, node.offset
        if isinstance(node, nodes.Call):
            offset = self._behind(_DOT, node.node)
        return lambda error: located(error, source, offset)

    def _defaulted(
        self, node: nodes.Filter, subject: Closure, args: list[Closure], kwargs: dict[str, Closure]
    ) -> Closure:
        """default is the filter of guards, so it has a closure of its own."""
        fallback = args[0] if args else kwargs.get("default_value", lambda scope, run: "")
        boolean = args[1] if len(args) > 1 else kwargs.get("boolean")

        def defaulted(scope: Scope, run: Any) -> Any:
            value = subject(scope, run)
            return fallback(scope, run) if type(value) is Missing else value

        def defaulted_if_false(scope: Scope, run: Any) -> Any:
            value = subject(scope, run)
            absent = type(value) is Missing or (not value and boolean is not None and boolean(scope, run))
            return fallback(scope, run) if absent else value

        return defaulted if boolean is None else defaulted_if_false

    def _expr_Test(self, node: nodes.Test, tolerant: bool) -> Closure:
        name = node.name
        offset = self._behind(_IS, node)
        self.tests.append(Use(name, offset))
        subject = self.expression(node.node, name in ("defined", "undefined"))
        args, kwargs = self._arguments(node)
        entry = TESTS.get(name)
        if entry is None:
            return self._unknown("test", name, offset)
        if kwargs or entry.refuses(len(args), ()):
            self.refuse_call(node, f"test '{name}'", entry)
        if name == "defined":
            return lambda scope, run: type(subject(scope, run)) is not Missing
        if name == "undefined":
            return lambda scope, run: type(subject(scope, run)) is Missing
        if name == "none":
            return lambda scope, run: subject(scope, run) is None
        return self._tested(node, entry, subject, args)

    def _tested(self, node: nodes.Test, entry: Entry, subject: Closure, args: list[Closure]) -> Closure:
        self.simple = False
        fail = self.failing(node)

        def test(scope: Scope, run: Run) -> bool:
            value, given = subject(scope, run), [arg(scope, run) for arg in args]
            try:
                refuse_sealed(value, *given)
                return holds(entry, run.budget, value, given)
            except Exception as error:
                raise fail(error) from None

        return test

    def _expr_Call(self, node: nodes.Call, tolerant: bool) -> Closure:
        if isinstance(node.node, nodes.Getattr):
            return self._method(node, node.node, tolerant)
        if isinstance(node.node, nodes.Name):
            return self._function(node, node.node)
        return self.refuse(node, "only functions and methods can be called")

    def _function(self, node: nodes.Call, target: nodes.Name) -> Closure:
        name = target.name
        self.functions.append(Use(name, target.offset))
        args, kwargs = self._arguments(node)
        entry = FUNCTIONS.get(name)
        if entry is None or name in self.bound:
            return self._unknown("function", name, target.offset)
        if entry.refuses(len(args), list(kwargs)):
            self.refuse_call(target, f"function '{name}'", entry)
        self.simple = False
        call, fail = entry.call, self.failing(target)

        def invoke(scope: Scope, run: Run) -> Any:
            given = [arg(scope, run) for arg in args]
            named = {key: arg(scope, run) for key, arg in kwargs.items()}
            for argument in given:
                if type(argument) is Missing:
                    return argument
            run.holes = run.holes or any(type(argument) is Missing for argument in named.values())
            try:
                run.budget.check()
                return call(run.budget, scope, *given, **named)
            except Exception as error:
                raise fail(error) from None

        return invoke

    def _method(self, node: nodes.Call, target: nodes.Getattr, tolerant: bool) -> Closure:
        name = target.attr
        if self._is_loop(target.node) and name == "cycle":
            return self._cycle(node)
        subject = self.expression(target.node, tolerant)
        args, kwargs = self._arguments(node)
        if name not in METHOD_NAMES:
            return self._unknown("method", name, self._behind(_DOT, target))

        def method(budget: Budget, value: Any, *given: Any, **named: Any) -> Any:
            entry = method_of(value, name)
            if entry.refuses(len(given), list(named)):
                raise Fault(f"method '{name}' takes {entry.signature}")
            return entry.call(budget, value, *given, **named)

        return self._applied(node, Entry(method, ""), subject, args, kwargs)

    def _is_loop(self, node: nodes.Expr) -> bool:
        return isinstance(node, nodes.Name) and node.name == "loop" and "loop" in self.bound

    def _cycle(self, node: nodes.Call) -> Closure:
        self.simple = False
        args, kwargs = self._arguments(node)
        fail = self.failing(node)
        if not args or kwargs:
            self.refuse(node, "loop.cycle takes the values to choose from")

        def cycle(scope: Scope, run: Run) -> Any:
            loop = run.locals["loop"]
            if not isinstance(loop, Loop):
                raise fail(Fault("'loop' is not the loop here"))
            return args[loop.index0 % len(args)](scope, run)

        return cycle

    def _behind(self, pattern: re.Pattern[str], node: nodes.Node) -> int:
        """Where a name stands whose node has the place of the `is` or the dot before it."""
        match = pattern.match(self.source, node.offset)
        return match.end() if match else node.offset

    def _unknown(self, kind: str, name: str, offset: int) -> Closure:
        """Noted for the validator; an error only when it is evaluated."""
        self.unknown.append(Unknown(kind, name, offset))
        message, source = f"no {kind} is called '{name[:60]}'", self.source

        def unknown(scope: Scope, run: Any) -> NoReturn:
            raise TemplateFailed(message, source, offset)

        return unknown

    def refuse_call(self, node: nodes.Node, what: str, entry: Entry) -> NoReturn:
        raise TemplateSyntax(f"{what} takes {entry.signature}", self.source, node.offset)


# --- tables ------------------------------------------------------------------------------------------

_OPERATORS: dict[str, operators.Binary] = {
    "Add": operators.add,
    "Sub": operators.subtract,
    "Mul": operators.multiply,
    "Div": operators.divide,
    "FloorDiv": operators.floor_divide,
    "Mod": operators.modulo,
    "Pow": operators.power,
}

_COMPARE: dict[str, Callable[[Any, Any, Budget | None], bool]] = {
    "eq": operators.equal,
    "ne": lambda a, b, budget: not operators.equal(a, b, budget),
    "lt": lambda a, b, budget: operators.ordered(a, b, "<", budget),
    "lteq": lambda a, b, budget: operators.ordered(a, b, "<=", budget),
    "gt": lambda a, b, budget: operators.ordered(a, b, ">", budget),
    "gteq": lambda a, b, budget: operators.ordered(a, b, ">=", budget),
    "in": operators.contains,
    "notin": lambda a, b, budget: not operators.contains(a, b, budget),
}

_IS = re.compile(r"is\s+(not\s+)?")
_DOT = re.compile(r"\.\s*")
_SYMBOLS = {"eq": "==", "ne": "!=", "in": "in", "notin": "not in"}


def _sliced(value: Any, numbers: list[Any], budget: Budget) -> Any:
    if not isinstance(value, str | list | tuple):
        raise Fault("only a list or a string can be sliced")
    if not all(number is None or isinstance(number, int) for number in numbers) or numbers[2] == 0:
        raise Fault("the bounds of a slice are whole numbers, its step is not 0")
    cut = slice(*numbers)
    if isinstance(value, str):
        budget.string(len(range(*cut.indices(len(value)))))
    else:
        budget.charge(8 * len(range(*cut.indices(len(value)))))
    return value[cut]
