"""Jinja's syntax tree to Python closures.

An expression becomes `closure(scope, run) -> value`, a statement `closure(scope, run) -> None` that appends
to `run.out`. There is one method per node type that playbooks have; a node type without one is refused, so
nothing works by accident. `run` holds the budget and the template's own variables; an expression that needs
neither (names, paths, constants, comparisons, and/or/not, default, tests) is `simple` and runs with None.

Names are read from the scope unless the template binds them. Values that came out of a path are unwrapped
(see View) unless they are looked into further.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, NoReturn

from jinja2 import nodes

from noetl.errors import TemplateFailed, TemplateSyntax
from noetl.expression import operators
from noetl.expression.budget import CHARACTERS, Budget
from noetl.expression.fault import Fault, OutOfBudget, located, undefined
from noetl.expression.filters import FILTERS, SQL_FILTERS, TOLERANT, Entry, sequence
from noetl.expression.functions import FUNCTIONS, METHOD_NAMES, method_of
from noetl.expression.missing import NOTHING, SCALARS, Missing, View, item, lookup, unwrapped
from noetl.expression.predicates import TESTS, holds
from noetl.expression.text import to_text

MAX_DEPTH = 96  # of the tree; evaluation takes a Python frame or two per level

Path = tuple[str | int, ...]
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


class Run:
    """One evaluation under way."""

    __slots__ = ("budget", "holes", "locals", "out", "size")

    def __init__(self, budget: Budget) -> None:
        self.budget = budget
        self.locals: dict[str, Any] = {}
        self.out: list[str] = []
        self.size = 0
        self.holes = False  # a missing value was put into a list or map

    def emit(self, text: str) -> None:
        """Appends to the output."""
        self.size += len(text)
        if self.size > CHARACTERS:
            raise OutOfBudget(f"the result may have at most {CHARACTERS:,} characters")
        self.out.append(text)


Closure = Callable[[Scope, Any], Any]
Statement = Callable[[Scope, Run], None]


class Namespace(View):
    """What `{% set ns = namespace() %}` binds. Elsewhere it is a map: nobody else sees the object."""

    __slots__ = ("fields",)

    def __init__(self, fields: dict[str, Any]) -> None:
        self.fields = fields

    def lookup(self, name: str | int) -> Any:
        return self.fields[name]  # type: ignore[index]

    def value(self) -> Any:
        return dict(self.fields)


class Loop(View):
    """The `loop` variable."""

    __slots__ = ("index0", "items")

    def __init__(self, items: Sequence[Any]) -> None:
        self.items, self.index0 = items, 0

    def lookup(self, name: str | int) -> Any:
        place, count = self.index0, len(self.items)
        match name:
            case "index":
                return place + 1
            case "index0":
                return place
            case "first":
                return place == 0
            case "last":
                return place == count - 1
            case "length":
                return count
            case "revindex":
                return count - place
            case "revindex0":
                return count - place - 1
            case "previtem" if place > 0:
                return self.items[place - 1]
            case "nextitem" if place < count - 1:
                return self.items[place + 1]
        raise KeyError(name)

    def value(self) -> Any:
        raise Fault("'loop' is not a value", "use loop.index, loop.first, loop.last, loop.length ...")


class Compiler:
    """Compiles one template and notes what it reads and uses on the way."""

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

    # --- the two entries

    def expression(self, node: nodes.Node, tolerant: bool = False) -> Closure:
        """A closure for the plain value of a node. `tolerant`: a missing value is coped with."""
        closure: Closure = self._visit("expr", node, tolerant)
        return closure

    def body(self, children: list[nodes.Node]) -> Statement:
        """A closure that runs statements in order."""
        self.simple = False
        steps: list[Statement] = [self._visit("stmt", child) for child in children]
        if len(steps) == 1:
            return steps[0]

        def run_all(scope: Scope, run: Run) -> None:
            for step in steps:
                step(scope, run)

        return run_all

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

    def missing(self, node: nodes.Node, part: str = "") -> Missing:
        return Missing(described(node), start(node), part)

    # --- names and paths

    def _expr_Name(self, node: nodes.Name, tolerant: bool) -> Closure:
        return self._path(node, tolerant)

    def _expr_Getattr(self, node: nodes.Getattr, tolerant: bool) -> Closure:
        return self._path(node, tolerant)

    def _expr_Getitem(self, node: nodes.Getitem, tolerant: bool) -> Closure:
        return self._path(node, tolerant)

    def _path(self, node: nodes.Expr, tolerant: bool) -> Closure:
        raw, fail = self._raw(node, tolerant), self.failing(node)

        def plain(scope: Scope, run: Any) -> Any:
            value = raw(scope, run)
            if isinstance(value, View):
                try:
                    return value.value()
                except Exception as error:
                    raise fail(error) from None
            return value

        return plain

    def _raw(self, node: nodes.Expr, tolerant: bool) -> Closure:
        """The value of a path before it is unwrapped, to look further into it."""
        static = static_path(node)
        if static is not None:
            path, root = static
            if path[0] not in self.bound:
                self.reads.append(Read(path, root.lineno, tolerant))
                return self._from_scope(path, node)
            if not self.bound[str(path[0])]:
                self.reads.append(Read(path, root.lineno, True))
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
        gaps = [self.missing(node, path_text(path[: count + 1])) for count in range(len(path))]
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
        ends = [
            None if part is None else self.expression(part)
            for part in (bounds.start, bounds.stop, bounds.step)
        ]
        gap, fail = self.missing(node), self.failing(node)

        def cut(scope: Scope, run: Run) -> Any:
            value = inner(scope, run)
            numbers = [None if end is None else end(scope, run) for end in ends]
            if isinstance(value, Missing) or any(isinstance(number, Missing) for number in numbers):
                return gap
            try:
                return _sliced(value, numbers, run.budget)
            except Exception as error:
                raise fail(error) from None

        return cut

    # --- literals

    def _expr_Const(self, node: nodes.Const, tolerant: bool) -> Closure:
        value = node.value
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
                return operate(a, b, run.budget)
            except Exception as error:
                raise fail(error) from None

        return binary

    _expr_Add = _expr_Sub = _expr_Mul = _expr_Div = _expr_FloorDiv = _expr_Mod = _expr_Pow = _binary

    def _unary(self, node: nodes.UnaryExpr, tolerant: bool) -> Closure:
        if isinstance(node.node, nodes.Const) and type(node.node.value) in (int, float):
            number = -node.node.value if isinstance(node, nodes.Neg) else node.node.value
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
                if not compare(a, b, run):
                    return False
                a = b
            return True

        return chain

    def _compared(self, operand: nodes.Operand, node: nodes.Compare) -> tuple[Closure, Any, Any]:
        """The right side, how to compare with it, and its value if it is constant."""
        right, compare, fail = self.expression(operand.expr), _COMPARE[operand.op], self.failing(node)

        def checked(a: Any, b: Any, run: Any) -> bool:
            try:
                return compare(a, b, run and run.budget)
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
        return lambda scope, run: compare(left(scope, run), right(scope, run), run)

    def _note_comparisons(self, node: nodes.Compare) -> None:
        left = node.expr
        for operand in node.ops:
            right, op = operand.expr, _SYMBOLS.get(operand.op, "")
            for side, other in ((left, right), (right, left) if op in ("==", "!=") else (None, None)):
                path = static_path(side) if side is not None else None
                values = _strings(other, op)
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
        self.filters.append(Use(name, node.lineno))
        self._note_nested(node)
        args, kwargs = self._arguments(node)
        entry = FILTERS.get(name) or SQL_FILTERS.get(name)
        if entry is None:
            return self._unknown("filter", name, node.lineno)
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
        name, offset = str(name_node.value), name_node.lineno
        kind, uses, known = (
            ("filter", self.filters, FILTERS) if node.name == "map" else ("test", self.tests, TESTS)
        )
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
                result = call(run.budget, value, *given, **named)
            except Exception as error:
                raise fail(error) from None
            run.holes = run.holes or leaves_holes
            return gap if result is NOTHING else result

        return apply

    def failing_at(self, node: nodes.Node) -> Callable[[Exception], Exception]:
        """Like failing, but at the filter's own name instead of the start of its subject."""
        source, offset = self.source, node.lineno
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
        self.functions.append(Use(name, target.lineno))
        args, kwargs = self._arguments(node)
        entry = FUNCTIONS.get(name)
        if entry is None or name in self.bound:
            return self._unknown("function", name, target.lineno)
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
        if not args or kwargs:
            self.refuse(node, "loop.cycle takes the values to choose from")

        def cycle(scope: Scope, run: Run) -> Any:
            return args[run.locals["loop"].index0 % len(args)](scope, run)

        return cycle

    def _behind(self, pattern: re.Pattern[str], node: nodes.Node) -> int:
        """Where a name stands whose node has the place of the `is` or the dot before it."""
        match = pattern.match(self.source, node.lineno)
        return match.end() if match else node.lineno

    def _unknown(self, kind: str, name: str, offset: int) -> Closure:
        """Noted for the validator; an error only when it is evaluated."""
        self.unknown.append(Unknown(kind, name, offset))
        message, source = f"no {kind} is called '{name[:60]}'", self.source

        def unknown(scope: Scope, run: Any) -> NoReturn:
            raise TemplateFailed(message, source, offset)

        return unknown

    def refuse_call(self, node: nodes.Node, what: str, entry: Entry) -> NoReturn:
        raise TemplateSyntax(f"{what} takes {entry.signature}", self.source, node.lineno)

    # --- statements

    def _stmt_Output(self, node: nodes.Output) -> Statement:
        parts = [self._printed(child) for child in node.nodes]

        def output(scope: Scope, run: Run) -> None:
            for part in parts:
                part(scope, run)

        return parts[0] if len(parts) == 1 else output

    def _printed(self, node: nodes.Expr) -> Statement:
        fail, source, offset = self.failing(node), self.source, start(node)
        value = self.expression(node)

        def emit(scope: Scope, run: Run) -> None:
            found = value(scope, run)
            if type(found) is Missing:
                raise undefined(found, source, offset)
            try:
                run.emit(found if type(found) is str else to_text(found, run.budget))
            except Exception as error:
                raise fail(error) from None

        return emit

    def _stmt_If(self, node: nodes.If) -> Statement:
        branches: list[tuple[Closure, Statement]] = []
        outcomes: list[dict[str, bool]] = []
        before = self.bound
        for branch in (node, *node.elif_):
            test = self.expression(branch.test)
            self.bound = dict(before)
            branches.append((test, self.body(branch.body)))
            outcomes.append(self.bound)
            self.bound = before
        self.bound = dict(before)
        otherwise = self.body(node.else_)
        outcomes.append(self.bound)
        self.bound = _merged(outcomes)

        def choose(scope: Scope, run: Run) -> None:
            for test, branch in branches:
                if test(scope, run):
                    return branch(scope, run)
            return otherwise(scope, run)

        return choose

    def _stmt_For(self, node: nodes.For) -> Statement:
        if node.recursive:
            self.refuse(node, "recursive loops are not available in playbooks")
        values, before = self.expression(node.iter), self.bound
        self.bound = before | dict.fromkeys(_targets(node.target), True)
        assign = self._target(node.target)
        keep = self.expression(node.test) if node.test is not None else None
        self.bound = self.bound | {"loop": True}
        body = self.body(node.body)
        self.bound = dict(before)
        otherwise = self.body(node.else_)
        self.bound = before
        fail, at_values = self.failing_at(node), self.failing(node.iter)

        def elements(scope: Scope, run: Run) -> Sequence[Any]:
            found = values(scope, run)
            try:
                found = sequence(run.budget, found)
            except Exception as error:
                raise at_values(error) from None
            return [e for e in found if kept(e, scope, run)] if keep is not None else found

        def kept(element: Any, scope: Scope, run: Run) -> bool:
            step(run)
            assign(element, scope, run)
            return bool(keep is not None and keep(scope, run))

        def step(run: Run) -> None:
            try:
                run.budget.step()
            except Exception as error:
                raise fail(error) from None

        def repeat(scope: Scope, run: Run) -> None:
            outer = run.locals
            run.locals = dict(outer)
            loop = Loop(elements(scope, run))
            for place, element in enumerate(loop.items):
                step(run)
                loop.index0 = place
                run.locals = {**outer, "loop": loop}
                assign(element, scope, run)
                body(scope, run)
            run.locals = dict(outer)
            if not loop.items:
                otherwise(scope, run)
            run.locals = outer

        return repeat

    def _target(self, node: nodes.Node) -> Callable[[Any, Scope, Run], None]:
        """How to bind a value to a name, a tuple of names or a namespace's field."""
        fail = self.failing(node)
        if isinstance(node, nodes.Name):
            name = node.name

            def bind(value: Any, scope: Scope, run: Run) -> None:
                run.locals[name] = value

            return bind
        if isinstance(node, nodes.NSRef):
            return self._field(node)
        if not isinstance(node, nodes.Tuple):
            self.refuse(node, "this can't be assigned to")
        parts = [self._target(child) for child in node.items]

        def unpack(value: Any, scope: Scope, run: Run) -> None:
            value = unwrapped(value)
            if not isinstance(value, list | tuple) or len(value) != len(parts):
                raise fail(Fault(f"a list of {len(parts)} elements is needed to fill {len(parts)} names"))
            for part, element in zip(parts, value, strict=True):
                part(element, scope, run)

        return unpack

    def _field(self, node: nodes.NSRef) -> Callable[[Any, Scope, Run], None]:
        name, field, fail = node.name, node.attr, self.failing(node)

        def assign(value: Any, scope: Scope, run: Run) -> None:
            target = run.locals.get(name)
            if not isinstance(target, Namespace):
                raise fail(
                    Fault(f"'{name}' is not a namespace", f"write {{% set {name} = namespace() %}} first")
                )
            target.fields[field] = value

        return assign

    def _stmt_Assign(self, node: nodes.Assign) -> Statement:
        value = self.expression(node.node)
        makes_namespace = (
            isinstance(node.node, nodes.Call)
            and isinstance(node.node.node, nodes.Name)
            and node.node.node.name == "namespace"
        )
        return self._assigned(
            node.target, lambda s, r: Namespace(value(s, r)) if makes_namespace else value(s, r)
        )

    def _assigned(self, node: nodes.Node, value: Closure) -> Statement:
        assign = self._target(node)
        self.bound = self.bound | dict.fromkeys(_targets(node), True)

        def set_(scope: Scope, run: Run) -> None:
            assign(value(scope, run), scope, run)

        return set_

    def _stmt_AssignBlock(self, node: nodes.AssignBlock) -> Statement:
        return self._assigned(node.target, self._captured(node.body, node.filter))

    def _captured(self, children: list[nodes.Node], pipe: nodes.Filter | None) -> Closure:
        """What a body prints, through filters if there are any, as a value."""
        before = self.bound
        body = self.body(children)
        self.bound = before

        def capture(scope: Scope, run: Run) -> str:
            out, run.out, own = run.out, [], run.locals
            run.locals = dict(own)
            body(scope, run)
            text, run.out, run.locals = "".join(run.out), out, own
            run.size -= len(text)  # it is not printed yet
            run.budget.memory -= len(text)
            return text

        return capture if pipe is None else self._piped(pipe, capture)

    def _piped(self, pipe: nodes.Filter, subject: Closure) -> Closure:
        inner = self._piped(pipe.node, subject) if isinstance(pipe.node, nodes.Filter) else subject
        return self._filtered(pipe, inner)

    def _stmt_FilterBlock(self, node: nodes.FilterBlock) -> Statement:
        text, fail = self._captured(node.body, node.filter), self.failing(node)

        def emit(scope: Scope, run: Run) -> None:
            value = text(scope, run)
            try:
                run.emit(to_text(value, run.budget))
            except Exception as error:
                raise fail(error) from None

        return emit

    def _stmt_With(self, node: nodes.With) -> Statement:
        before = self.bound
        values = [self.expression(value) for value in node.values]
        assigns = [self._target(target) for target in node.targets]
        names = {name: True for target in node.targets for name in _targets(target)}
        self.bound = before | names
        body = self.body(node.body)
        self.bound = before

        def with_(scope: Scope, run: Run) -> None:
            found = [value(scope, run) for value in values]
            outer, run.locals = run.locals, dict(run.locals)
            for assign, value in zip(assigns, found, strict=True):
                assign(value, scope, run)
            body(scope, run)
            run.locals = outer

        return with_


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


# --- questions about nodes ---------------------------------------------------------------------------


def start(node: nodes.Node) -> int:
    """Where the text of a node starts. Jinja gives operators the place of a later token."""
    while True:
        match node:
            case nodes.BinExpr():
                node = node.left
            case nodes.Compare():
                node = node.expr
            case nodes.CondExpr():
                node = node.expr1
            case nodes.Concat() if node.nodes:
                node = node.nodes[0]
            case nodes.Getattr() | nodes.Getitem() | nodes.Call() | nodes.Filter() | nodes.Test() if (
                node.node
            ):
                node = node.node
            case _:
                return node.lineno or 0


def described(node: nodes.Node | None) -> str:
    """The expression as its author wrote it, as far as a message needs."""
    match node:
        case nodes.Name():
            return node.name
        case nodes.Getattr():
            return f"{described(node.node)}.{node.attr}"
        case nodes.Getitem():
            key = "..." if isinstance(node.arg, nodes.Slice) else described(node.arg)
            return f"{described(node.node)}[{key}]"
        case nodes.Const():
            return repr(node.value)[:40]
        case nodes.Filter():
            return f"{described(node.node)} | {node.name}"
        case nodes.Call():
            return f"{described(node.node)}()"
    return "(...)"


def path_text(path: Path) -> str:
    """A path as it is written in a template."""
    text = str(path[0])
    for key in path[1:]:
        text += f".{key}" if isinstance(key, str) and key.isidentifier() else f"[{key!r}]"
    return text


def static_path(node: nodes.Node | None) -> tuple[Path, nodes.Name] | None:
    """The path of a chain of constant keys, and the name at its root."""
    keys: list[str | int] = []
    while True:
        match node:
            case nodes.Name():
                return (node.name, *reversed(keys)), node
            case nodes.Getattr():
                keys.append(node.attr)
            case nodes.Getitem():
                key = constant_key(node.arg)
                if key is None:
                    return None
                keys.append(key)
            case _:
                return None
        node = node.node


def constant_key(node: nodes.Node) -> str | int | None:
    """The key of x['key'], x[0] or x[-1]."""
    if isinstance(node, nodes.Const) and type(node.value) in (str, int):
        key: str | int = node.value
        return key
    if isinstance(node, nodes.Neg) and isinstance(node.node, nodes.Const) and type(node.node.value) is int:
        return -int(node.node.value)
    return None


def constant_values(node: nodes.Node) -> list[Any] | None:
    """The values of a list or tuple of constants."""
    if isinstance(node, nodes.List | nodes.Tuple) and all(isinstance(e, nodes.Const) for e in node.items):
        return [element.value for element in node.items if isinstance(element, nodes.Const)]
    return None


def _strings(node: nodes.Node | None, op: str) -> tuple[str, ...]:
    """The string constants that a side of a comparison consists of."""
    if op in ("==", "!="):
        values = [node.value] if isinstance(node, nodes.Const) else []
    else:
        values = (constant_values(node) if node is not None else None) or []
    return tuple(values) if all(isinstance(value, str) for value in values) else ()


def _targets(node: nodes.Node) -> list[str]:
    """The names that an assignment binds."""
    if isinstance(node, nodes.Name):
        return [node.name]
    return [name for child in node.items for name in _targets(child)] if isinstance(node, nodes.Tuple) else []


def _merged(outcomes: list[dict[str, bool]]) -> dict[str, bool]:
    """Names bound after an if: surely where every branch binds them, else perhaps."""
    names = {name for outcome in outcomes for name in outcome}
    return {name: all(outcome.get(name, False) for outcome in outcomes) for name in names}


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
