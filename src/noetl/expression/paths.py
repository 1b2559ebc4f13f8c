"""Names and paths to closures: what a template reads from its scope or from its own variables.

Values that come out of a path are unwrapped (see View) unless they are looked into further.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from noetl.expression import nodes
from noetl.expression.analysis import Closure, Path, Read, Scope, constant_key, path_texts, static_path
from noetl.expression.budget import Budget
from noetl.expression.fault import Fault
from noetl.expression.missing import CONTENTS_KEY, Missing, View, item, lookup
from noetl.expression.run import Evaluation
from noetl.expression.sealed import Sealed, refuse_sealed

if TYPE_CHECKING:
    from noetl.expression.compile import Compiler

MAX_KEYS = 96


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
    closure = _looked_up(compiler, node, tolerant)
    compiler.depth -= 1
    return closure


def _looked_up(compiler: Compiler, node: nodes.Expr, tolerant: bool) -> Closure:
    static = static_path(node)
    if static is not None:
        keys, root = static
        if len(keys) > MAX_KEYS:
            compiler.refuse(node, "the path is too long")
        if keys[0] not in compiler.bound:
            compiler.reads.append(Read(keys, root.offset, tolerant))
            return _from_scope(compiler, keys, node)
        if not compiler.bound[str(keys[0])]:
            compiler.reads.append(Read(keys, root.offset, True))
        return _from_locals(compiler, keys, node)
    if isinstance(node, nodes.Getattr):
        return _step(compiler, node, node.node, node.attr, tolerant)
    if isinstance(node, nodes.Getitem):
        if isinstance(node.arg, nodes.Slice):
            return _slice(compiler, node, node.arg, tolerant)
        key = constant_key(node.arg)
        if key is not None:
            return _step(compiler, node, node.node, key, tolerant)
        return _item(compiler, node, tolerant)
    return compiler.expression(node, tolerant)


def _from_scope(compiler: Compiler, path: Path, node: nodes.Node) -> Closure:
    """The hot path of every guard: one closure per length, no loop for the usual lengths."""
    name, keys, whole = str(path[0]), path[1:], compiler.missing(node)
    absent, *gaps = [Missing(whole.text, whole.offset, part, whole.hint) for part in path_texts(path)]
    if not keys:
        return _one_key(name, absent)
    step = _located_lookup(compiler.failing(node))
    if len(keys) == 1:
        return _two_keys(name, absent, keys[0], gaps[0], step)
    pairs = list(zip(keys, gaps, strict=True))
    return (_three_keys if len(keys) == 2 else _many_keys)(name, absent, pairs, step)


Lookup = Callable[[Scope, Any, str | int, Missing], Any]


def _located_lookup(fail: Callable[[Exception], Exception]) -> Lookup:
    def step(scope: Scope, value: Any, key: str | int, gap: Missing) -> Any:
        try:
            return lookup(value, key, gap, scope.get(CONTENTS_KEY))
        except Exception as error:
            raise fail(error) from None

    return step


def _one_key(name: str, absent: Missing) -> Closure:
    def one(scope: Scope, run: Any) -> Any:
        try:
            return scope[name]
        except KeyError:
            return absent

    return one


def _two_keys(name: str, absent: Missing, first: str | int, gap: Missing, step: Lookup) -> Closure:
    def two(scope: Scope, run: Any) -> Any:
        try:
            value = scope[name]
        except KeyError:
            return absent
        return value.get(first, gap) if type(value) is dict else step(scope, value, first, gap)

    return two


def _three_keys(name: str, absent: Missing, pairs: list[tuple[str | int, Missing]], step: Lookup) -> Closure:
    (first, gap1), (second, gap2) = pairs

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
            value = step(scope, value, first, gap1)
        return value if type(value) is Missing else step(scope, value, second, gap2)

    return three


def _many_keys(name: str, absent: Missing, pairs: list[tuple[str | int, Missing]], step: Lookup) -> Closure:
    def many(scope: Scope, run: Any) -> Any:
        try:
            value = scope[name]
        except KeyError:
            return absent
        for key, gap in pairs:
            value = value.get(key, gap) if type(value) is dict else step(scope, value, key, gap)
            if type(value) is Missing:
                return value
        return value

    return many


def _from_locals(compiler: Compiler, path: Path, node: nodes.Node) -> Closure:
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


def _step(compiler: Compiler, node: nodes.Expr, base: nodes.Expr, key: str | int, tolerant: bool) -> Closure:
    inner, gap, step = _raw(compiler, base, tolerant), compiler.missing(node), _located_lookup(compiler.failing(node))
    return lambda scope, run: step(scope, inner(scope, run), key, gap)


def _item(compiler: Compiler, node: nodes.Getitem, tolerant: bool) -> Closure:
    inner, key = _raw(compiler, node.node, tolerant), compiler.expression(node.arg)
    gap, fail = compiler.missing(node), compiler.failing(node)

    def get(scope: Scope, run: Any) -> Any:
        value, wanted = inner(scope, run), key(scope, run)
        try:
            return item(value, wanted, gap, scope.get(CONTENTS_KEY))
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
            refuse_sealed(value)
            return _sliced(value, numbers, run.budget)
        except Exception as error:
            raise fail(error) from None

    return cut


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
