"""The values that a template reads, with the type that their use implies."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal, NamedTuple

from noetl.errors import TemplateError
from noetl.expression import nodes
from noetl.expression.nodes import Path, path_texts, static_path
from noetl.expression.template import parse

ValueType = Literal["boolean", "number", "string", "any"]

NUMERIC = frozenset(["-", "*", "/", "//", "%", "**"])
FILTERS: dict[str, ValueType] = {
    **dict.fromkeys(["int", "float", "round", "abs"], "number"),
    **dict.fromkeys(["lower", "upper", "trim", "title", "capitalize", "replace", "split", "startswith"], "string"),
}


class TypedRead(NamedTuple):
    path: Path
    type: ValueType


def path_text(path: Path) -> str:
    """A path as it is written in a template."""
    return path_texts(path)[-1]


def is_path(source: str) -> bool:
    """Whether the value of a valid template is one that it reads, unchanged."""
    expression: nodes.Node | None = parse(source).expression
    while isinstance(expression, nodes.Filter) and expression.name in ("default", "d"):
        expression = expression.node
    return static_path(expression) is not None


def typed_reads(source: str, *, guard: bool) -> Iterator[TypedRead]:
    """The values that a template reads; a guard is used as a boolean. None for an invalid source."""
    try:
        tree = parse(source).tree
    except TemplateError:  # such as braces in a comment of SQL, which is never rendered
        return
    for node in tree.body:
        yield from _read_by(node, "boolean" if guard else "any")


def _read_by(node: Any, expected: ValueType) -> Iterator[TypedRead]:
    """The static paths in a node, each with the type that its use shows; `expected` is that of the node itself."""
    if isinstance(node, list | tuple):
        for part in node:
            yield from _read_by(part, expected)
        return
    if not isinstance(node, nodes.Node):
        return
    if (path := static_path(node)) is not None:
        yield TypedRead(path[0], expected)
        return
    for part, kind in _parts(node, expected):
        yield from _read_by(part, kind)


def _parts(node: nodes.Node, expected: ValueType) -> Iterator[tuple[Any, ValueType]]:
    match node:
        case nodes.Output():
            yield node.nodes, expected if len(node.nodes) == 1 else "any"
        case nodes.Compare():
            sides = [node.expr, *(operand for _, operand in node.ops)]
            kinds = {_constant_type(side) for side in sides} - {None}
            kind = kinds.pop() if len(kinds) == 1 else None
            yield sides, kind or "any"
        case nodes.Binary(op="and" | "or"):
            yield [node.first, node.second], expected if expected == "boolean" else "any"
        case nodes.Binary():
            yield [node.first, node.second], "number" if node.op in NUMERIC else "any"
        case nodes.Unary():
            yield node.node, "boolean" if node.op == "not" else "number"
        case nodes.CondExpr():
            yield node.test, "boolean"
            yield [node.expr1, node.expr2], expected
        case nodes.If():
            yield node.test, "boolean"
            yield _others(node, "test"), "any"
        case nodes.Filter(name="default" | "d"):
            values = [argument for argument in node.args if _constant_type(argument) not in (None, "boolean")]
            kind = _constant_type(values[0]) if values and expected == "any" else None
            yield node.node, kind or expected
        case nodes.Filter():
            yield node.node, FILTERS.get(node.name, "any")
            yield _others(node, "node"), "any"
        case _:
            yield _others(node), "any"


def _others(node: nodes.Node, *without: str) -> list[Any]:
    parts = [getattr(node, name) for name in node.__struct_fields__ if name not in without]
    return [part.values() if isinstance(part, dict) else part for part in parts]


def _constant_type(node: Any) -> ValueType | None:
    match node:
        case nodes.Const(value=bool()):
            return "boolean"
        case nodes.Const(value=int() | float()):
            return "number"
        case nodes.Const(value=str()):
            return "string"
        case nodes.List(items=items) | nodes.Tuple(items=items):
            kinds = {_constant_type(item) for item in items}
            return kinds.pop() if len(kinds) == 1 else None
    return None
