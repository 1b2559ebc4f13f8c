"""Compiles the syntax tree to Python closures.

An expression becomes `closure(scope, run) -> value`. `EXPRESSIONS` has a function per node type that playbooks have;
a node type without one is refused, so nothing works by accident. `run` holds the budget and the template's
own variables; an expression that needs neither (names, paths, constants, comparisons, and/or/not, default,
`is defined`) is `simple` and runs with None.

A statement becomes `closure(scope, run) -> None` that appends to `run.out`. Names that a statement binds are known
while its body is compiled, so a name is either the template's own or read from the scope.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

from noetl.errors import TemplateSyntax
from noetl.expression import nodes
from noetl.expression.calls import CALLS, filtered
from noetl.expression.entries import sequence
from noetl.expression.functions import METHOD_NAMES
from noetl.expression.nodes import Closure, Comparison, Read, Scope, Unknown, Use, described, start
from noetl.expression.operations import OPERATIONS, path
from noetl.expression.text import Evaluation
from noetl.expression.values import Fault, LoopVariable, Missing, Namespace, Sealed, located, undefined, unwrapped

MAX_DEPTH = 96  # of the tree; evaluation takes a Python frame or two per level
Statement = Callable[[Scope, Evaluation], None]


class Compiler:
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
        """A closure for the plain value of a node. `tolerant`: a missing value is handled."""
        compile_node = EXPRESSIONS.get(type(node))
        if compile_node is None:
            self.refuse(node, f"'{type(node).__name__.lower()}' is not available in playbooks")
        self.enter(node)
        closure = compile_node(self, node, tolerant)
        self.depth -= 1
        return closure

    def whole(self, node: nodes.Expr) -> Closure:
        """The value of a template that is this one expression: a path passes on what it finds."""
        if isinstance(node, nodes.Name | nodes.Getattr | nodes.Getitem):
            return path(self, node, False, passed=True)
        return self.expression(node)

    def enter(self, node: nodes.Node) -> None:
        """Count a level of the tree; who compiles it counts down again."""
        self.depth += 1
        if self.depth > MAX_DEPTH:
            self.refuse(node, "the template is nested too deeply")

    def refuse(self, node: nodes.Node, message: str, hint: str | None = None) -> NoReturn:
        raise TemplateSyntax(message, self.source, start(node), hint)

    def missing(self, node: nodes.Node) -> Missing:
        text, hint = described(node), ""
        if isinstance(node, nodes.Getattr) and node.attr in METHOD_NAMES:
            hint = f"if the method is meant, call it: {text}()"
        return Missing(text, start(node), "", hint)

    def failing(self, node: nodes.Node, offset: int | None = None) -> Callable[[Exception], Exception]:
        """The exception for an error in this node, at its start unless an offset is set."""
        source = self.source
        return lambda error: located(error, source, start(node) if offset is None else offset)

    def behind(self, pattern: re.Pattern[str], node: nodes.Node) -> int:
        """The offset of a name whose node has the offset of the `is` or the dot before it."""
        match = pattern.match(self.source, node.offset)
        return match.end() if match else node.offset

    # --- statements

    def body(self, children: list[nodes.Node]) -> Statement:
        self.simple = False
        return _in_order([self._statement(child) for child in children])

    def _block(self, children: list[nodes.Node], names: Sequence[str] = ()) -> Statement:
        """A body in which these names are bound; names that it binds itself end with it."""
        before = self.bound
        self.bound = before | dict.fromkeys(names, True)
        body = self.body(children)
        self.bound = before
        return body

    def _statement(self, node: nodes.Node) -> Statement:
        method = getattr(self, f"_stmt_{type(node).__name__}", None)
        if method is None:
            self.refuse(node, f"'{type(node).__name__.lower()}' is not available in playbooks")
        self.enter(node)
        statement: Statement = method(node)
        self.depth -= 1
        return statement

    def _stmt_Output(self, node: nodes.Output) -> Statement:
        return _in_order([self._printed(child) for child in node.nodes])

    def _printed(self, node: nodes.Expr) -> Statement:
        if not isinstance(node, nodes.TemplateData):
            return self._printing(node, self.expression(node))
        text, fail = node.data, self.failing(node)

        def emit(scope: Scope, run: Evaluation) -> None:
            try:
                run.print(text)
            except Exception as error:
                raise fail(error) from None

        return emit

    def _printing(self, node: nodes.Node, value: Closure) -> Statement:
        fail, source = self.failing(node), self.source

        def emit(scope: Scope, run: Evaluation) -> None:
            printed = value(scope, run)
            if type(printed) is Missing:
                raise undefined(printed, source, start(node))
            try:
                run.print(printed)
            except Exception as error:
                raise fail(error) from None

        return emit

    def _stmt_If(self, node: nodes.If) -> Statement:
        outcomes: list[dict[str, bool]] = []
        before = self.bound

        def branch_of(children: list[nodes.Node]) -> Statement:
            branch = self.body(children)
            outcomes.append(self.bound)
            self.bound = before
            return branch

        branches = [(self.expression(branch.test), branch_of(branch.body)) for branch in (node, *node.elif_)]
        otherwise = branch_of(node.else_)
        names = {name for outcome in outcomes for name in outcome}  # bound for sure where every branch binds them
        self.bound = {name: all(outcome.get(name, False) for outcome in outcomes) for name in names}

        def choose(scope: Scope, run: Evaluation) -> None:
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
        body = self._block(node.body, ["loop"])
        self.bound = before
        otherwise = self._block(node.else_)
        fail, at_values = self.failing(node), self.failing(node.iter)

        def bind(element: Any, scope: Scope, run: Evaluation) -> None:
            try:
                run.budget.step()
            except Exception as error:
                raise fail(error) from None
            assign(element, scope, run)

        def selected(element: Any, scope: Scope, run: Evaluation) -> Any:
            bind(element, scope, run)
            return keep is None or keep(scope, run)

        def repeat(scope: Scope, run: Evaluation) -> None:
            outer, items = run.locals, values(scope, run)
            run.locals = dict(outer)
            try:
                items = sequence(run.budget, items)
            except Exception as error:
                raise at_values(error) from None
            if keep is not None:
                items = [element for element in items if selected(element, scope, run)]
            loop = LoopVariable(items)
            for place, element in enumerate(loop.items):
                loop.index0 = place
                run.locals = {**outer, "loop": loop}
                bind(element, scope, run)
                body(scope, run)
            run.locals = dict(outer)
            if not loop.items:
                otherwise(scope, run)
            run.locals = outer

        return repeat

    def _target(self, node: nodes.Node) -> Callable[[Any, Scope, Evaluation], None]:
        """How to bind a value to a name, a tuple of names or a namespace's field."""
        fail = self.failing(node)
        if isinstance(node, nodes.Name):
            name = node.name

            def bind(value: Any, scope: Scope, run: Evaluation) -> None:
                run.locals[name] = value

            return bind
        if isinstance(node, nodes.NSRef):
            namespace, field = node.name, node.attr

            def set_field(value: Any, scope: Scope, run: Evaluation) -> None:
                target = run.locals.get(namespace)
                if not isinstance(target, Namespace):
                    hint = f"write {{% set {namespace} = namespace() %}} first"
                    raise fail(Fault(f"'{namespace}' is not a namespace", hint))
                target.fields[field] = value

            return set_field
        if not isinstance(node, nodes.Tuple):
            self.refuse(node, f"cannot assign to {described(node)}")
        parts = [self._target(child) for child in node.items]

        def unpack(value: Any, scope: Scope, run: Evaluation) -> None:
            value = unwrapped(value, run.budget.contents)
            if not isinstance(value, list | tuple) or len(value) != len(parts):
                raise fail(Fault(f"a list of {len(parts)} elements is needed to fill {len(parts)} names"))
            for part, element in zip(parts, value, strict=True):
                part(element, scope, run)

        return unpack

    def _stmt_Assign(self, node: nodes.Assign) -> Statement:
        value = self.expression(node.node)

        def namespace(scope: Scope, run: Evaluation) -> Any:
            fields = value(scope, run)
            return Namespace(fields) if isinstance(fields, dict) else fields

        match node.node:
            case nodes.Call(node=nodes.Name(name="namespace")):
                return self._assigned(node.target, namespace)
        return self._assigned(node.target, value)

    def _assigned(self, node: nodes.Node, value: Closure) -> Statement:
        assign = self._target(node)
        self.bound = self.bound | dict.fromkeys(_targets(node), True)

        def set_(scope: Scope, run: Evaluation) -> None:
            assign(value(scope, run), scope, run)

        return set_

    def _stmt_AssignBlock(self, node: nodes.AssignBlock) -> Statement:
        return self._assigned(node.target, self._captured(node.body, node.filter))

    def _captured(self, children: list[nodes.Node], pipe: nodes.Filter | None) -> Closure:
        """The output of a body, through filters if there are any, as a value."""
        body = self._block(children)

        def capture(scope: Scope, run: Evaluation) -> str | Sealed:
            out, run.out, own = run.out, [], run.locals
            sealed, run.sealed = run.sealed, False
            run.locals = dict(own)
            body(scope, run)
            text, run.out, run.locals = "".join(run.out), out, own
            run.size -= len(text)  # it is not printed yet
            run.budget.memory -= len(text)
            secret, run.sealed = run.sealed, sealed
            return Sealed(text) if secret else text

        return self._piped(pipe, capture)

    def _piped(self, pipe: nodes.Expr | None, subject: Closure) -> Closure:
        return filtered(self, pipe, self._piped(pipe.node, subject)) if isinstance(pipe, nodes.Filter) else subject

    def _stmt_FilterBlock(self, node: nodes.FilterBlock) -> Statement:
        return self._printing(node, self._captured(node.body, node.filter))

    def _stmt_With(self, node: nodes.With) -> Statement:
        values = [self.expression(value) for value in node.values]
        assigns = [self._target(target) for target in node.targets]
        body = self._block(node.body, [name for target in node.targets for name in _targets(target)])

        def with_(scope: Scope, run: Evaluation) -> None:
            bound = [value(scope, run) for value in values]
            outer, run.locals = run.locals, dict(run.locals)
            for assign, value in zip(assigns, bound, strict=True):
                assign(value, scope, run)
            body(scope, run)
            run.locals = outer

        return with_


def _in_order(statements: list[Statement]) -> Statement:
    def run_all(scope: Scope, run: Evaluation) -> None:
        for statement in statements:
            statement(scope, run)

    return statements[0] if len(statements) == 1 else run_all


def _targets(node: nodes.Node) -> list[str]:
    if isinstance(node, nodes.Name):
        return [node.name]
    return [name for child in node.items for name in _targets(child)] if isinstance(node, nodes.Tuple) else []


EXPRESSIONS: Mapping[type[nodes.Node], Callable[[Compiler, Any, bool], Closure]] = {**OPERATIONS, **CALLS}
