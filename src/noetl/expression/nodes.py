"""The syntax tree of a template. Nodes are named as in Jinja, whose grammar this is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeVar

import msgspec


class Node(msgspec.Struct, eq=False):
    """A part of a template, and the offset of the token that it is found at (`shape.start` says where it begins)."""

    offset: int

    def find_all(self, kind: type[Kind] | tuple[type[Kind], ...]) -> Iterator[Kind]:
        """All nodes of a kind below this one."""
        for name in self.__struct_fields__:
            value = getattr(self, name)
            for child in value if isinstance(value, list) else (value,):
                if isinstance(child, Node):
                    if isinstance(child, kind):
                        yield child
                    yield from child.find_all(kind)


Kind = TypeVar("Kind", bound=Node)


class Expr(Node): ...


class Name(Expr):
    name: str


class NSRef(Expr):
    name: str
    attr: str


class Const(Expr):
    value: Any


class TemplateData(Expr):
    data: str


class Getattr(Expr):
    node: Expr
    attr: str


class Getitem(Expr):
    node: Expr
    arg: Expr


class Slice(Expr):
    start: Expr | None
    stop: Expr | None
    step: Expr | None


class Tuple(Expr):
    items: list[Expr]


class List(Expr):
    items: list[Expr]


class Pair(Node):
    key: Expr
    value: Expr


class Dict(Expr):
    items: list[Pair]


class CondExpr(Expr):
    test: Expr
    expr1: Expr
    expr2: Expr | None


class Keyword(Node):
    key: str
    value: Expr


class Filter(Expr):
    node: Expr | None
    name: str
    args: list[Expr]
    kwargs: list[Keyword]


class Test(Expr):
    node: Expr
    name: str
    args: list[Expr]
    kwargs: list[Keyword]


class Call(Expr):
    node: Expr
    args: list[Expr]
    kwargs: list[Keyword]


class Concat(Expr):
    nodes: list[Expr]


class Operand(Node):
    op: str
    expr: Expr


class Compare(Expr):
    expr: Expr
    ops: list[Operand]


class Binary(Expr):
    """Two operands and `+ - * / // % ** and or` between them."""

    op: str
    left: Expr
    right: Expr


class Unary(Expr):
    """An operand behind `not`, `-` or `+`."""

    op: str
    node: Expr


class Output(Node):
    nodes: list[Expr]


class If(Node):
    test: Expr
    body: list[Node]
    elif_: list[If]
    else_: list[Node]


class For(Node):
    target: Node
    iter: Expr
    body: list[Node]
    else_: list[Node]
    test: Expr | None
    recursive: bool


class Assign(Node):
    target: Expr
    node: Expr


class AssignBlock(Node):
    target: Expr
    filter: Filter | None
    body: list[Node]


class FilterBlock(Node):
    body: list[Node]
    filter: Filter


class With(Node):
    targets: list[Expr]
    values: list[Expr]
    body: list[Node]


class Template(Node):
    body: list[Node]
