"""Names and paths to closures: what a template reads from its scope or from its own variables.

Values that come out of a path are unwrapped (see View) unless they are looked into further.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from noetl.expression import nodes
from noetl.expression.nodes import MAX_KEYS, Closure, Path, Read, Scope, constant_key, path_texts, static_path
from noetl.expression.text import Evaluation
from noetl.expression.values import (
    CONTENTS_KEY,
    SCALARS,
    Fault,
    Missing,
    Sealed,
    View,
    lookup,
    refuse_sealed,
    unwrapped,
)

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
        if len(keys) > MAX_KEYS:
            compiler.refuse(node, "the path is too long")
        bound = compiler.bound.get(str(keys[0]))
        if not bound:
            compiler.reads.append(Read(keys, root.offset, tolerant or bound is not None))
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


def _from_scope(compiler: Compiler, path: Path, node: nodes.Expr) -> Closure:
    """The hot path of every guard: one closure per length, no loop for the usual lengths."""
    name, keys, whole = str(path[0]), path[1:], compiler.missing(node)
    absent, *gaps = [Missing(whole.text, whole.offset, part, whole.hint) for part in path_texts(path)]
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


def _from_locals(compiler: Compiler, path: Path, node: nodes.Expr) -> Closure:
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
        wanted: Any = key if computed is None else computed(scope, run)
        try:
            wanted = unwrapped(wanted, contents)  # only scalars are keys: hashing a nested tuple can take forever
            return lookup(value, wanted, gap, contents) if type(wanted) in SCALARS else gap
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
            if not isinstance(value, str | list | tuple):
                raise Fault("only a list or a string can be sliced")
            if not all(number is None or isinstance(number, int) for number in numbers) or numbers[2] == 0:
                raise Fault("the bounds of a slice are whole numbers, its step is not 0")
            size = len(range(*slice(*numbers).indices(len(value))))
            if isinstance(value, str):
                run.budget.string(size)
            else:
                run.budget.charge(8 * size)
            return value[slice(*numbers)]
        except Exception as error:
            raise fail(error) from None

    return cut
