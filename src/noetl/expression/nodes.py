"""The syntax tree of a template, with Jinja's names, and the facts about a template that are known before it is
evaluated."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal, NamedTuple, TypeVar

import msgspec

MAX_KEYS = 96  # of a path; looking for the root of a longer one again and again would take forever


class Node(msgspec.Struct, eq=False):
    """A part of a template, and the offset of its token; `start` says where it begins."""

    offset: int

    def find_all(self, kind: type[Kind] | tuple[type[Kind], ...]) -> Iterator[Kind]:
        """The nodes of a kind below this one."""
        parts: list[Any] = [getattr(self, name) for name in self.__struct_fields__]
        while parts:
            part = parts.pop()
            if isinstance(part, Node):
                if isinstance(part, kind):
                    yield part
                yield from part.find_all(kind)
            elif isinstance(part, list | tuple | dict):
                parts += part.values() if isinstance(part, dict) else part


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


class Dict(Expr):
    items: list[tuple[Expr, Expr]]


class CondExpr(Expr):
    test: Expr
    expr1: Expr
    expr2: Expr | None


class Filter(Expr):
    node: Expr | None
    name: str
    args: list[Expr]
    kwargs: dict[str, Expr]


class Test(Expr):
    node: Expr
    name: str
    args: list[Expr]
    kwargs: dict[str, Expr]


class Call(Expr):
    node: Expr
    args: list[Expr]
    kwargs: dict[str, Expr]


class Concat(Expr):
    nodes: list[Expr]


class Compare(Expr):
    expr: Expr
    ops: list[tuple[str, Expr]]


class Binary(Expr):
    """Two operands and `+ - * / // % ** and or` between them."""

    op: str
    first: Expr
    second: Expr


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


class Root(Node):
    body: list[Node]


# --- analysis

Path = tuple[str | int, ...]
Scope = Mapping[str, Any]
Closure = Callable[[Scope, Any], Any]  # scope and Evaluation (None if the template is simple) to a value


class Read(NamedTuple):
    """A value that a template takes from its scope, by the longest path that is known beforehand.

    `guarded`: the template handles its absence (default, `is defined`, left of `or`).
    """

    path: Path
    offset: int
    guarded: bool


class Use(NamedTuple):
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


NameState = Literal["present", "missing", "true", "false"]
"""Of a name in the scope. A missing name is also false."""
Assumptions = frozenset[tuple[str, NameState]]


class Absence(NamedTuple):
    """A read of a name that the scope may not have."""

    name: str
    offset: int
    fails: bool
    """Whether the template fails here if the name is missing."""
    assumptions: Assumptions
    """Assumptions that hold whenever the template reads the name here."""
    certain: bool
    """Whether the template reads the name here whenever the assumptions hold. The body of a loop counts as
    evaluated."""

    @property
    def is_unreachable(self) -> bool:
        """Whether the template reads the name here only if the scope has it."""
        return (self.name, "present") in self.assumptions


# For nodes that have the offset of a later token: the part that they start with.
_FIRST = {
    Binary: "first",
    **dict.fromkeys((Getattr, Getitem, Call, Filter, Test), "node"),
    Compare: "expr",
    CondExpr: "expr1",
    Concat: "nodes",
    Tuple: "items",
}


def start(node: Node) -> int:
    while (name := _FIRST.get(type(node))) is not None:
        first = getattr(node, name)
        first = (first[0] if first else None) if isinstance(first, list) else first
        if first is None:
            break
        node = first
    return node.offset


def described(node: Node | None) -> str:
    """The expression as its author wrote it, as far as a message needs."""
    match node:
        case Name():
            return node.name
        case Getattr():
            return f"{described(node.node)}.{node.attr}"
        case Getitem():
            key = "..." if isinstance(node.arg, Slice) else described(node.arg)
            return f"{described(node.node)}[{key}]"
        case Const():
            return repr(node.value)[:40]
        case Filter():
            return f"{described(node.node)} | {node.name}"
        case Call():
            return f"{described(node.node)}()"
    return "(...)"


def path_texts(path: Path) -> list[str]:
    """A path and all its beginnings, the shortest first, as they are written in a template."""
    texts = [str(path[0])]
    for key in path[1:]:
        texts.append(texts[-1] + (f".{key}" if isinstance(key, str) and key.isidentifier() else f"[{key!r}]"))
    return texts


def static_path(node: Node | None) -> tuple[Path, Name] | None:
    """The path of a chain of constant keys, and the name at its root."""
    keys: list[str | int] = []
    while len(keys) <= MAX_KEYS:
        match node:
            case Name():
                return (node.name, *reversed(keys)), node
            case Getattr():
                keys.append(node.attr)
            case Getitem():
                key = constant_key(node.arg)
                if key is None:
                    return None
                keys.append(key)
            case _:
                return None
        node = node.node
    return None


def constant_key(node: Node) -> str | int | None:
    match node:
        case Const(value=str(key) | int(key)) if not isinstance(key, bool):
            return key
        case Unary(op="-", node=Const(value=int(number))) if not isinstance(number, bool):
            return -number
    return None


def constant_values(node: Node | None) -> list[Any] | None:
    if isinstance(node, List | Tuple) and all(isinstance(e, Const) for e in node.items):
        return [element.value for element in node.items if isinstance(element, Const)]
    return None
