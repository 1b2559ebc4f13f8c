"""Compiles filters, tests, functions and methods to closures."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NoReturn

from noetl.errors import TemplateFailed, TemplateSyntax
from noetl.expression import nodes
from noetl.expression.budget import Budget
from noetl.expression.entries import Entry
from noetl.expression.functions import FILTERS, FUNCTIONS, METHOD_NAMES, METHODS, SQL_FILTERS, TESTS, TOLERANT, holds
from noetl.expression.nodes import Closure, Scope, Unknown, Use
from noetl.expression.text import Evaluation
from noetl.expression.values import (
    ENCODINGS,
    NOTHING,
    Contents,
    Fault,
    LoopVariable,
    Missing,
    Sealed,
    kind_of,
    refuse_sealed,
    revealed,
    unwrapped,
)

if TYPE_CHECKING:
    from noetl.expression.compile import Compiler

DOT = re.compile(r"\.\s*")
_IS = re.compile(r"is\s+(not\s+)?")
# Filters with an argument that names a filter or test, and the place of that argument.
_NAMING = {"map": 0, "select": 0, "reject": 0, "selectattr": 1, "rejectattr": 1}


Arguments = tuple[list[Closure], dict[str, Closure]]


def _arguments(compiler: Compiler, node: nodes.Filter | nodes.Test | nodes.Call) -> Arguments:
    positional = [compiler.expression(arg) for arg in node.args]
    return positional, {name: compiler.expression(value) for name, value in node.kwargs.items()}


def _filter(compiler: Compiler, node: nodes.Filter, tolerant: bool) -> Closure:
    if node.node is None:
        compiler.refuse(node, "a filter needs a value")
    return filtered(compiler, node, compiler.expression(node.node, tolerant or node.name in TOLERANT))


def filtered(compiler: Compiler, node: nodes.Filter, subject: Closure) -> Closure:
    name = node.name
    compiler.filters.append(Use(name, node.offset))
    place = _NAMING.get(name, len(node.args))
    nested = node.args[place] if place < len(node.args) else None
    if isinstance(nested, nodes.Const):  # map('upper'), select('odd')
        kind, uses, table = ("filter", compiler.filters, FILTERS) if name == "map" else ("test", compiler.tests, TESTS)
        uses.append(Use(str(nested.value), nested.offset))
        if str(nested.value) not in table:
            compiler.unknown.append(Unknown(kind, str(nested.value), nested.offset))
    args, kwargs = _arguments(compiler, node)
    entry = FILTERS.get(name) or SQL_FILTERS.get(name)
    if entry is None:
        return _unknown(compiler, "filter", name, node.offset)
    if entry.refuses(len(args), list(kwargs)):
        _refuse_call(compiler, node, f"filter '{name}'", entry)
    if name not in TOLERANT:
        return _applied(compiler, node, entry, subject, (args, kwargs))
    # `default` is the filter of guards, so it has closures of its own
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


def _applied(compiler: Compiler, node: nodes.Expr, entry: Entry, subject: Closure, arguments: Arguments) -> Closure:
    compiler.simple = False
    args, kwargs = arguments
    offset = compiler.behind(DOT, node.node) if isinstance(node, nodes.Call) else node.offset  # of the name
    call, gap, fail = entry.call, compiler.missing(node), compiler.failing(node, offset)
    leaves_holes = call is FILTERS["map"].call
    encodes = isinstance(node, nodes.Filter) and node.name in ENCODINGS
    if encodes:
        call = _encoding(call)

    def apply(scope: Scope, run: Evaluation) -> Any:
        value = subject(scope, run)
        if type(value) is Missing:
            return value
        positional = [arg(scope, run) for arg in args]
        named = {key: arg(scope, run) for key, arg in kwargs.items()}
        for argument in (*positional, *named.values()):
            if type(argument) is Missing:
                return argument
        try:
            run.budget.check()
            refuse_sealed(None if encodes else value, *positional, *named.values())
            result = call(run.budget, value, *positional, **named)
        except Exception as error:
            raise fail(error) from None
        run.holes = run.holes or leaves_holes
        return gap if result is NOTHING else result

    return apply


def _encoding(call: Callable[..., Any]) -> Callable[..., Any]:
    """A filter that accepts secrets; its result is then sealed again."""

    def encode(budget: Budget, value: Any, *args: Any, **more: Any) -> Any:
        before = budget.memory
        is_secret = _holds_secret(value, budget)
        budget.memory = before  # nothing was made
        if not is_secret:
            return call(budget, value, *args, **more)
        return Sealed(call(budget, _revealed_inside(value, budget.contents), *args, **more))

    return encode


def _holds_secret(value: Any, budget: Budget) -> bool:
    """Whether a value is or contains a secret. Each element counts toward the budget: values may share parts."""
    if not isinstance(value, Sealed):
        value = unwrapped(value, budget.contents)
    if isinstance(value, Mapping | list | tuple):
        inner = value.values() if isinstance(value, Mapping) else value
        budget.charge(8 * len(value))
        budget.check()
        return any(_holds_secret(item, budget) for item in inner)
    return isinstance(value, Sealed)


def _revealed_inside(value: Any, contents: Contents) -> Any:
    value = revealed(value, contents)
    if isinstance(value, Mapping):
        return {key: _revealed_inside(item, contents) for key, item in value.items()}
    return [_revealed_inside(item, contents) for item in value] if isinstance(value, list | tuple) else value


def _test(compiler: Compiler, node: nodes.Test, tolerant: bool) -> Closure:
    name, offset = node.name, compiler.behind(_IS, node)
    compiler.tests.append(Use(name, offset))
    subject = compiler.expression(node.node, name in ("defined", "undefined"))
    args, kwargs = _arguments(compiler, node)
    entry = TESTS.get(name)
    if entry is None:
        return _unknown(compiler, "test", name, offset)
    if kwargs or entry.refuses(len(args), ()):
        _refuse_call(compiler, node, f"test '{name}'", entry)
    if name == "defined":
        return lambda scope, run: type(subject(scope, run)) is not Missing
    if name == "undefined":
        return lambda scope, run: type(subject(scope, run)) is Missing
    if name == "none":
        return lambda scope, run: subject(scope, run) is None
    compiler.simple = False
    fail = compiler.failing(node)

    def test(scope: Scope, run: Evaluation) -> bool:
        value, positional = subject(scope, run), [arg(scope, run) for arg in args]
        try:
            refuse_sealed(value, *positional)
            return holds(entry, run.budget, value, positional)
        except Exception as error:
            raise fail(error) from None

    return test


def _call(compiler: Compiler, node: nodes.Call, tolerant: bool) -> Closure:
    if isinstance(node.node, nodes.Getattr):
        return _method(compiler, node, node.node, tolerant)
    if not isinstance(node.node, nodes.Name):
        compiler.refuse(node, "only functions and methods can be called")
    target, name = node.node, node.node.name
    compiler.functions.append(Use(name, target.offset))
    args, kwargs = _arguments(compiler, node)
    entry = FUNCTIONS.get(name)
    if entry is None or name in compiler.bound:
        return _unknown(compiler, "function", name, target.offset)
    if entry.refuses(len(args), list(kwargs)):
        _refuse_call(compiler, target, f"function '{name}'", entry)
    compiler.simple = False
    call, fail = entry.call, compiler.failing(target)

    def invoke(scope: Scope, run: Evaluation) -> Any:
        positional = [arg(scope, run) for arg in args]
        named = {key: arg(scope, run) for key, arg in kwargs.items()}
        for argument in positional:
            if type(argument) is Missing:
                return argument
        run.holes = run.holes or any(type(argument) is Missing for argument in named.values())
        try:
            run.budget.check()
            return call(run.budget, scope, *positional, **named)
        except Exception as error:
            raise fail(error) from None

    return invoke


def _method(compiler: Compiler, node: nodes.Call, target: nodes.Getattr, tolerant: bool) -> Closure:
    name = target.attr
    match target.node:
        case nodes.Name(name="loop") if name == "cycle" and "loop" in compiler.bound:
            return _cycle(compiler, node)
    subject, arguments = compiler.expression(target.node, tolerant), _arguments(compiler, node)
    if name not in METHOD_NAMES:
        return _unknown(compiler, "method", name, compiler.behind(DOT, target))

    def method(budget: Budget, value: Any, *positional: Any, **named: Any) -> Any:
        kind = "str" if isinstance(value, str) else "dict" if isinstance(value, Mapping) else "list"
        entry = METHODS[kind].get(name) if isinstance(value, str | Mapping | list | tuple) else None
        if entry is None:
            raise Fault(f"{kind_of(value)} has no method '{name}' that a template may call")
        if entry.refuses(len(positional), list(named)):
            raise Fault(f"method '{name}' takes {entry.signature}")
        return entry.call(budget, value, *positional, **named)

    return _applied(compiler, node, Entry(method, ""), subject, arguments)


def _cycle(compiler: Compiler, node: nodes.Call) -> Closure:
    compiler.simple = False
    args, kwargs = _arguments(compiler, node)
    fail = compiler.failing(node)
    if not args or kwargs:
        compiler.refuse(node, "loop.cycle takes the values to choose from")

    def cycle(scope: Scope, run: Evaluation) -> Any:
        loop = run.locals["loop"]
        if not isinstance(loop, LoopVariable):
            raise fail(Fault("'loop' is not the loop here"))
        return args[loop.index0 % len(args)](scope, run)

    return cycle


def _unknown(compiler: Compiler, kind: str, name: str, offset: int) -> Closure:
    """Noted for the validator; an error only when it is evaluated."""
    compiler.unknown.append(Unknown(kind, name, offset))
    message, source = f"unknown {kind} '{name[:60]}'", compiler.source

    def unknown(scope: Scope, run: Any) -> NoReturn:
        raise TemplateFailed(message, source, offset)

    return unknown


def _refuse_call(compiler: Compiler, node: nodes.Node, callee: str, entry: Entry) -> NoReturn:
    raise TemplateSyntax(f"{callee} takes {entry.signature}", compiler.source, node.offset)


CALLS: Mapping[type[nodes.Node], Callable[[Compiler, Any, bool], Closure]] = {
    nodes.Filter: _filter,
    nodes.Test: _test,
    nodes.Call: _call,
}
