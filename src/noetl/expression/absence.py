"""Finds the reads of a template that fail if the scope does not have a name, without evaluating the template.

It follows a missing value up the tree, as an evaluation does: a test or a comparison absorbs it, `default` and `or`
replace it, most operations pass it on, and at the root it is an error. `Demand` says what the operations above a node
do with it. A branch is evaluated under assumptions: in `{{ x if x is defined else 1 }}` the first `x` is read only if
it exists. If a condition depends on more than that, it is unknown whether its branch is evaluated.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from noetl.expression import nodes
from noetl.expression.functions import TOLERANT
from noetl.expression.nodes import Absence, Assumptions, Const, constant_key, static_path

if TYPE_CHECKING:
    from noetl.expression.template import Template


class Demand(NamedTuple):
    """Whether a missing value is an error, and one inside a list or map."""

    value: bool
    parts: bool

    @property
    def of_container(self) -> Demand:
        """Of a list or map from which a part is taken."""
        return Demand(self.value, self.value)

    @property
    def of_part(self) -> Demand:
        return Demand(self.parts, self.parts)

    @property
    def of_operand(self) -> Demand:
        """Of a value that an operation reads: it passes on a missing one, and fails at a missing part."""
        return Demand(self.value, True)


MAX_FOLLOWED_VALUES = 1000
NEEDED, ABSORBED = Demand(True, True), Demand(False, False)
_ENDS = {"first": 0, "last": -1}
_PICKING = ("first", "last", "sum")  # filters whose result may be one of the parts
_PASSING = ("list", "reverse", "items")  # filters whose result has the same parts
_COUNTING = ("length", "count")
_KEEPING_TESTS = ("undefined", "ne", "!=")  # tests that a missing value passes
_DROPPING = (("select", "defined"), ("reject", "undefined"))  # filters that drop missing values
_UNEQUAL = ("!=", "not in")  # comparisons that are true for a missing value


class BranchAssumptions(NamedTuple):
    """The assumptions that follow if a condition is true, or if it is false."""

    assumptions: Assumptions = frozenset()
    certain: bool = False
    """Whether the assumptions are sufficient for it."""


class EvaluationPoint(NamedTuple):
    """The point at which a node is evaluated, and the assumptions that hold there."""

    assumptions: Assumptions = frozenset()
    certain: bool = True
    local_names: Mapping[str, Any] = {}
    """Names that the template sets: the expression of the value and the point where it is evaluated, or None."""

    def where(self, condition: nodes.Expr, truth: bool) -> EvaluationPoint:
        return self.inside(_branch(condition, truth, self))

    def inside(self, branch: BranchAssumptions) -> EvaluationPoint:
        return self._replace(assumptions=self.assumptions | branch.assumptions, certain=self.certain and branch.certain)

    def perhaps(self, is_certain: bool = False) -> EvaluationPoint:
        """Where it may be unknown whether a node is evaluated."""
        return self._replace(certain=self.certain and is_certain)

    def binding(self, target: nodes.Node, value: Any = None) -> EvaluationPoint:
        if isinstance(target, nodes.Name):
            return self._replace(local_names={**self.local_names, target.name: value})
        names = dict.fromkeys(name.name for name in target.find_all(nodes.Name))
        return self._replace(local_names={**self.local_names, **names})


@lru_cache(maxsize=8)
def absences(template: Template, guard: bool) -> Mapping[int, list[Absence]]:
    by_offset = defaultdict[int, list[Absence]](list)
    try:
        reads = _absences(template, guard)
    except (RecursionError, _TooManyBindings):  # nothing is certain
        reads = [Absence(str(read.path[0]), read.offset, True, frozenset(), False) for read in template.reads]
    for absence in reads:
        by_offset[absence.offset].append(absence)
    return by_offset


def _absences(template: Template, guard: bool) -> list[Absence]:
    reader = _AbsenceReader()
    if template.expression is not None:
        return list(reader.expression(template.expression, ABSORBED if guard else NEEDED, EvaluationPoint()))
    return reader.body(template.tree.body, EvaluationPoint())[0]


class _TooManyBindings(Exception):
    """The values of local names depend on each other in too many ways."""


class _AbsenceReader:
    def __init__(self) -> None:
        self.followed: set[tuple[int, Demand, Assumptions, bool]] = set()  # values of local names

    # --- statements

    def body(self, children: list[nodes.Node], at: EvaluationPoint) -> tuple[list[Absence], EvaluationPoint]:
        reads: list[Absence] = []
        for child in children:
            more, at = self.statement(child, at)
            reads += more
        return reads, at

    def statement(self, node: nodes.Node, at: EvaluationPoint) -> tuple[list[Absence], EvaluationPoint]:
        match node:
            case nodes.Output():
                return [read for part in node.nodes for read in self.expression(part, NEEDED, at)], at
            case nodes.If():
                return self._choice(node, at)
            case nodes.For():
                return self._loop(node, at), at
            case nodes.Assign():
                return list(self.expression(node.node, ABSORBED, at)), at.binding(node.target, (node.node, at))
            case nodes.AssignBlock():
                return self._captured(node, at), at.binding(node.target)
            case nodes.FilterBlock():
                return self._captured(node, at), at
            case nodes.With():
                reads, inner = list(self._each(node.values, ABSORBED, at)), at
                for target, value in zip(node.targets, node.values, strict=True):
                    inner = inner.binding(target, (value, at))
                return reads + self.body(node.body, inner)[0], at
        return [], at

    def _choice(self, node: nodes.If, at: EvaluationPoint) -> tuple[list[Absence], EvaluationPoint]:
        reads: list[Absence] = []
        local_names = dict(at.local_names)
        otherwise = at
        for branch in (node, *node.elif_):
            reads += self.expression(branch.test, ABSORBED, otherwise)
            more, after = self.body(branch.body, otherwise.where(branch.test, True))
            otherwise = otherwise.where(branch.test, False)
            reads += more
            local_names |= after.local_names
        more, after = self.body(node.else_, otherwise)
        return reads + more, at._replace(local_names=local_names | dict(after.local_names))

    def _loop(self, node: nodes.For, at: EvaluationPoint) -> list[Absence]:
        reads = list(self.expression(node.iter, Demand(True, node.test is None), at))
        inner = at.perhaps(_is_filled(node.iter)).binding(node.target)
        if node.test is not None:
            reads += self.expression(node.test, ABSORBED, inner)
            inner = inner.where(node.test, True)
        inner = inner._replace(local_names={**inner.local_names, "loop": None})
        otherwise = at.perhaps(_is_literal(node.iter) and not _is_filled(node.iter))
        return reads + self.body(node.body, inner)[0] + self.body(node.else_, otherwise)[0]

    def _captured(self, node: nodes.AssignBlock | nodes.FilterBlock, at: EvaluationPoint) -> list[Absence]:
        reads = self.body(node.body, at)[0]
        pipe: nodes.Expr | None = node.filter
        while isinstance(pipe, nodes.Filter):
            for argument in (*pipe.args, *pipe.kwargs.values()):
                reads += self.expression(argument, NEEDED, at)
            pipe = pipe.node
        return reads

    # --- expressions

    def expression(self, node: nodes.Expr | None, demand: Demand, at: EvaluationPoint) -> Iterator[Absence]:
        match node:
            case nodes.Name():
                yield from self._name(node, demand, at)
            case nodes.Getattr() | nodes.Getitem():
                yield from self._item(node, demand, at)
            case nodes.Slice():
                yield from self._each([node.start, node.stop, node.step], demand, at)
            case nodes.List() | nodes.Tuple():
                yield from self._each(node.items, demand.of_part, at)
            case nodes.Dict():
                yield from self._each([key for key, _ in node.items], NEEDED, at)
                yield from self._each([value for _, value in node.items], demand.of_part, at)
            case nodes.Filter():
                yield from self._filter(node, demand, at)
            case nodes.Test():
                yield from self._each([node.node, *node.args], ABSORBED, at)
            case nodes.Call():
                yield from self._call(node, demand, at)
            case nodes.Compare():
                yield from self._each([node.expr, *(operand for _, operand in node.ops)], ABSORBED, at)
            case nodes.Concat():
                yield from self._each(node.nodes, demand.of_operand, at)
            case nodes.Unary():
                yield from self.expression(node.node, ABSORBED if node.op == "not" else demand.of_operand, at)
            case nodes.Binary():
                yield from self._binary(node, demand, at)
            case nodes.CondExpr():
                yield from self._conditional(node, demand, at)

    def _each(self, parts: Iterable[nodes.Expr | None], demand: Demand, at: EvaluationPoint) -> Iterator[Absence]:
        for part in parts:
            yield from self.expression(part, demand, at)

    def _name(self, node: nodes.Name, demand: Demand, at: EvaluationPoint) -> Iterator[Absence]:
        if node.name not in at.local_names:
            yield Absence(node.name, node.offset, demand.value, at.assumptions, at.certain)
        elif (binding := at.local_names[node.name]) is not None:
            value, point = binding
            key = (id(value), demand, at.assumptions, at.certain)
            if key in self.followed:
                return
            self.followed.add(key)
            if len(self.followed) > MAX_FOLLOWED_VALUES:
                raise _TooManyBindings
            yield from self.expression(value, demand, point.inside(BranchAssumptions(at.assumptions, at.certain)))

    def _item(self, node: nodes.Getattr | nodes.Getitem, demand: Demand, at: EvaluationPoint) -> Iterator[Absence]:
        key = node.attr if isinstance(node, nodes.Getattr) else constant_key(node.arg)
        if isinstance(node, nodes.Getitem):
            yield from self.expression(node.arg, demand.of_container, at)  # a list is no key, whatever is in it
        subject, fallback = _alternatives(node.node)
        if isinstance(node.node, nodes.Dict) and key is not None:
            for name, value in node.node.items:
                may_match = not isinstance(name, Const) or name.value == key
                yield from self.expression(value, demand if may_match else ABSORBED, at)
        elif isinstance(node.node, nodes.List | nodes.Tuple) and (key is not None or _is_slice(node)):
            yield from self._picked(node.node.items, key, demand, at)
        elif fallback is not None and key is not None and _lacks(fallback, key):
            yield from self.expression(subject, demand, at)  # the fallback has no such key either
        else:
            yield from self.expression(node.node, demand.of_container, at)

    def _picked(
        self, items: list[nodes.Expr], key: str | int | None, demand: Demand, at: EvaluationPoint
    ) -> Iterator[Absence]:
        """Items of a literal list that a key selects: one, or any of them if it is a slice."""
        for place, item in enumerate(items):
            may_match = key is None or key in (place, place - len(items))
            yield from self.expression(item, demand if may_match else ABSORBED, at.perhaps(key is not None))

    def _filter(self, node: nodes.Filter, demand: Demand, at: EvaluationPoint) -> Iterator[Absence]:
        arguments = [*node.args, *node.kwargs.values()]
        if node.name not in TOLERANT:
            if node.name in _ENDS and isinstance(node.node, nodes.List | nodes.Tuple):
                yield from self._picked(node.node.items, _ENDS[node.name], demand, at)
            elif isinstance(node.node, nodes.List | nodes.Tuple) and _handles_missing_parts(node):
                items = [item for item in node.node.items if static_path(item) is None]
                yield from self._each(items, _filter_demand(node, demand).of_part, at)
            else:
                yield from self.expression(node.node, _filter_demand(node, demand), at)
            yield from self._each(arguments, Demand(demand.value, not _handles_missing_parts(node)), at)
            return
        yield from self.expression(node.node, Demand(False, demand.parts), at)
        yield from self._each(arguments, demand, at.inside(_absent([node.node], at)))

    def _call(self, node: nodes.Call, demand: Demand, at: EvaluationPoint) -> Iterator[Absence]:
        if isinstance(node.node, nodes.Getattr):
            in_pairs = node.node.attr == "items" and isinstance(node.node.node, nodes.Dict)
            yield from self.expression(node.node.node, demand.of_container, at.perhaps(not in_pairs))
        yield from self._each(node.args, demand.of_operand, at)
        yield from self._each(node.kwargs.values(), demand.of_part, at)

    def _binary(self, node: nodes.Binary, demand: Demand, at: EvaluationPoint) -> Iterator[Absence]:
        first, second, then = demand.of_operand, demand.of_operand, at
        if node.op == "+":
            first = second = demand
        elif node.op == "and":  # a list or map that it passes on is empty
            first, second, then = Demand(demand.value, False), demand, at.where(node.first, True)
        elif node.op == "or":
            first, second, then = Demand(False, demand.parts), demand, at.where(node.first, False)
        yield from self.expression(node.first, first, at)
        yield from self.expression(node.second, second, then)

    def _conditional(self, node: nodes.CondExpr, demand: Demand, at: EvaluationPoint) -> Iterator[Absence]:
        yield from self.expression(node.test, ABSORBED, at)
        yield from self.expression(node.expr1, demand, at.where(node.test, True))
        if node.expr2 is not None:
            yield from self.expression(node.expr2, demand, at.where(node.test, False))
        elif demand.value:  # without an `else` the value is missing where the test is false
            needed = {name for name, state in _branch(node.test, True, at).assumptions if state == "present"}
            tested = [node.test] if isinstance(node.test, nodes.Name) else node.test.find_all(nodes.Name)
            yield from self._each((name for name in tested if name.name in needed), NEEDED, at)


def _is_slice(node: nodes.Getattr | nodes.Getitem) -> bool:
    return isinstance(node, nodes.Getitem) and isinstance(node.arg, nodes.Slice)


def _is_literal(node: nodes.Expr) -> bool:
    return isinstance(node, nodes.List | nodes.Tuple | nodes.Dict)


def _is_filled(node: nodes.Expr) -> bool:
    """Whether it is a literal list or map that is not empty."""
    return isinstance(node, nodes.List | nodes.Tuple | nodes.Dict) and bool(node.items)


def _handles_missing_parts(node: nodes.Filter) -> bool:
    """Whether the author of a filter expects that parts are missing: it drops or replaces them."""
    first = node.args[0].value if node.args and isinstance(node.args[0], Const) else None
    return (node.name, first) in _DROPPING or (node.name == "map" and first in TOLERANT)


def _filter_demand(node: nodes.Filter, demand: Demand) -> Demand:
    """The demand of a filter on its value: most filters fail at a missing part."""
    first = node.args[0].value if node.args and isinstance(node.args[0], Const) else None
    parts = True
    if node.name in (*_COUNTING, "selectattr"):
        parts = False
    elif node.name == "select":
        parts = demand.parts and first in _KEEPING_TESTS
    elif node.name == "reject":
        parts = demand.parts and first not in _KEEPING_TESTS
    elif node.name == "map":
        parts = demand.parts and first not in TOLERANT and "default" not in node.kwargs
    elif node.name in _PICKING:
        parts = demand.value
    elif node.name == "list" and isinstance(node.node, nodes.Dict):
        parts = False  # its keys
    elif node.name in _PASSING:
        parts = demand.parts
    return Demand(demand.value, parts)


def _alternatives(node: nodes.Expr) -> tuple[nodes.Expr | None, nodes.Expr | None]:
    """The parts of `a or b` and `a | default(b)`."""
    match node:
        case nodes.Binary(op="or"):
            return node.first, node.second
        case nodes.Filter(args=[fallback, *_]) if node.name in TOLERANT:
            return node.node, fallback
    return None, None


def _lacks(node: nodes.Expr, key: str | int) -> bool:
    """Whether a literal has no such key."""
    match node:
        case nodes.Dict():
            return all(isinstance(name, Const) and name.value != key for name, _ in node.items)
        case nodes.List():
            return not (isinstance(key, int) and -len(node.items) <= key < len(node.items))
        case Const(value=str(text)):
            return not (isinstance(key, int) and -len(text) <= key < len(text))
    return isinstance(node, Const)


# --- conditions


def _branch(node: nodes.Expr, truth: bool, at: EvaluationPoint) -> BranchAssumptions:
    match node:
        case nodes.Unary(op="not"):
            return _branch(node.node, not truth, at)
        case nodes.Binary(op="and" | "or" as op):
            first, second = _branch(node.first, truth, at), _branch(node.second, truth, at)
            return _both(first, second) if (op == "and") is truth else _either(first, second)
        case nodes.Test(name="defined" | "undefined" as name) if truth is (name == "defined"):
            return _present([node.node], at, isinstance(node.node, nodes.Name))
        case nodes.Test(name="defined" | "undefined"):
            return _absent([node.node], at)
        case nodes.Test():
            return _compared([node.node, *node.args], truth is (node.name not in _KEEPING_TESTS), at)
        case nodes.Compare(ops=[(op, other)]):
            return _compared([node.expr, other], truth is (op not in _UNEQUAL), at)
        case nodes.Compare():
            return BranchAssumptions()
        case Const():
            return BranchAssumptions(certain=bool(node.value) is truth)
        case nodes.List() | nodes.Tuple() | nodes.Dict():
            return BranchAssumptions(certain=bool(node.items) is truth)
        case nodes.Name() if node.name not in at.local_names and truth:
            return BranchAssumptions(frozenset([(node.name, "present"), (node.name, "true")]), True)
        case nodes.Name() if node.name not in at.local_names:
            return BranchAssumptions(frozenset([(node.name, "false")]), True)
    return _compared([node], truth, at)


def _both(first: BranchAssumptions, second: BranchAssumptions) -> BranchAssumptions:
    return BranchAssumptions(first.assumptions | second.assumptions, first.certain and second.certain)


def _either(first: BranchAssumptions, second: BranchAssumptions) -> BranchAssumptions:
    common = first.assumptions & second.assumptions
    for branch in (first, second):
        if branch.certain and common.issuperset(pair for pair in branch.assumptions if pair[1] == "present"):
            return branch
    return BranchAssumptions(common)


def _compared(parts: list[nodes.Expr], holds: bool, at: EvaluationPoint) -> BranchAssumptions:
    """The assumptions of a condition that is false if one of these values is missing."""
    return _present(parts, at) if holds else _absent(parts, at)


def _present(parts: list[nodes.Expr], at: EvaluationPoint, certain: bool = False) -> BranchAssumptions:
    return BranchAssumptions(frozenset((name, "present") for name in _needed_for(parts, at)), certain)


def _absent(parts: list[nodes.Expr | None] | list[nodes.Expr], at: EvaluationPoint) -> BranchAssumptions:
    """One of these values is missing; which name that is, is certain only if they need a single one."""
    names = _needed_for(parts, at)
    if len(names) != 1:
        return BranchAssumptions()
    return BranchAssumptions(frozenset((name, "missing") for name in names), True)


def _needed_for(parts: Iterable[nodes.Expr | None], at: EvaluationPoint) -> set[str]:
    """The names without which one of these values is missing."""
    names: set[str] = set()
    for node in parts:
        match node:
            case nodes.Name() if node.name not in at.local_names:
                names.add(node.name)
            case nodes.Name() if isinstance(binding := at.local_names[node.name], tuple) and static_path(binding[0]):
                names |= _needed_for([binding[0]], binding[1])
            case nodes.Getattr() | nodes.Unary(op="-" | "+"):
                names |= _needed_for([node.node], at)
            case nodes.Getitem():
                names |= _needed_for([node.node, node.arg], at)
            case nodes.Slice():
                names |= _needed_for([node.start, node.stop, node.step], at)
            case nodes.Filter() if node.name not in TOLERANT:
                names |= _needed_for([node.node, *node.args], at)
            case nodes.Concat():
                names |= _needed_for(node.nodes, at)
            case nodes.Binary(op="and"):
                names |= _needed_for([node.first], at)
            case nodes.Binary() if node.op != "or":
                names |= _needed_for([node.first, node.second], at)
            case nodes.Call(node=nodes.Getattr(node=subject)):
                names |= _needed_for([subject, *node.args], at)
            case nodes.Call():
                names |= _needed_for(node.args, at)
    return names
