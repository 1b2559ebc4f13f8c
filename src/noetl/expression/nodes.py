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


class Expr(Node, eq=False):
    pass


class Name(Expr, eq=False):
    name: str


class NSRef(Expr, eq=False):
    name: str
    attr: str


class Const(Expr, eq=False):
    value: Any


class TemplateData(Expr, eq=False):
    data: str


class Getattr(Expr, eq=False):
    node: Expr
    attr: str


class Getitem(Expr, eq=False):
    node: Expr
    arg: Expr


class Slice(Expr, eq=False):
    start: Expr | None
    stop: Expr | None
    step: Expr | None


class Tuple(Expr, eq=False):
    items: list[Expr]


class List(Expr, eq=False):
    items: list[Expr]


class Pair(Node, eq=False):
    key: Expr
    value: Expr


class Dict(Expr, eq=False):
    items: list[Pair]


class CondExpr(Expr, eq=False):
    test: Expr
    expr1: Expr
    expr2: Expr | None


class Keyword(Node, eq=False):
    key: str
    value: Expr


class Filter(Expr, eq=False):
    node: Expr | None
    name: str
    args: list[Expr]
    kwargs: list[Keyword]
    dyn_args: Expr | None = None
    dyn_kwargs: Expr | None = None


class Test(Expr, eq=False):
    node: Expr
    name: str
    args: list[Expr]
    kwargs: list[Keyword]
    dyn_args: Expr | None = None
    dyn_kwargs: Expr | None = None


class Call(Expr, eq=False):
    node: Expr
    args: list[Expr]
    kwargs: list[Keyword]
    dyn_args: Expr | None = None
    dyn_kwargs: Expr | None = None


class Concat(Expr, eq=False):
    nodes: list[Expr]


class Operand(Node, eq=False):
    op: str
    expr: Expr


class Compare(Expr, eq=False):
    expr: Expr
    ops: list[Operand]


class BinExpr(Expr, eq=False):
    left: Expr
    right: Expr


class UnaryExpr(Expr, eq=False):
    node: Expr


class Add(BinExpr, eq=False):
    pass


class Sub(BinExpr, eq=False):
    pass


class Mul(BinExpr, eq=False):
    pass


class Div(BinExpr, eq=False):
    pass


class FloorDiv(BinExpr, eq=False):
    pass


class Mod(BinExpr, eq=False):
    pass


class Pow(BinExpr, eq=False):
    pass


class And(BinExpr, eq=False):
    pass


class Or(BinExpr, eq=False):
    pass


class Not(UnaryExpr, eq=False):
    pass


class Neg(UnaryExpr, eq=False):
    pass


class Pos(UnaryExpr, eq=False):
    pass


class Output(Node, eq=False):
    nodes: list[Expr]


class If(Node, eq=False):
    test: Expr
    body: list[Node]
    elif_: list[If]
    else_: list[Node]


class For(Node, eq=False):
    target: Node
    iter: Expr
    body: list[Node]
    else_: list[Node]
    test: Expr | None
    recursive: bool


class Assign(Node, eq=False):
    target: Expr
    node: Expr


class AssignBlock(Node, eq=False):
    target: Expr
    filter: Filter | None
    body: list[Node]


class FilterBlock(Node, eq=False):
    body: list[Node]
    filter: Filter


class With(Node, eq=False):
    targets: list[Expr]
    values: list[Expr]
    body: list[Node]


class Template(Node, eq=False):
    body: list[Node]
