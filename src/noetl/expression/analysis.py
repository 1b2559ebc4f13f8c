"""What is known of a template before it is evaluated: what it reads and uses, where its nodes start, its constants."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from noetl.expression import nodes

Path = tuple[str | int, ...]
Scope = Mapping[str, Any]
Closure = Callable[[Scope, Any], Any]
"""The value of an expression; the second argument is the Run, None if the template is simple."""


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


_FIRST = {
    nodes.Binary: "left",
    **dict.fromkeys((nodes.Getattr, nodes.Getitem, nodes.Call, nodes.Filter, nodes.Test), "node"),
    nodes.Compare: "expr",
    nodes.CondExpr: "expr1",
    nodes.Concat: "nodes",
    nodes.Tuple: "items",
}
"""For nodes that have the place of a later token: the part that they start with."""


def start(node: nodes.Node) -> int:
    """Where the text of a node starts."""
    while (name := _FIRST.get(type(node))) is not None:
        first = getattr(node, name)
        first = (first[0] if first else None) if isinstance(first, list) else first
        if first is None:
            break
        node = first
    return node.offset


MAX_PATH = 96
"""A longer chain of keys is no path that anybody means; looking for its root again and again would take forever."""


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


def path_texts(path: Path) -> list[str]:
    """A path and all its beginnings, the shortest first, as they are written in a template."""
    texts = [str(path[0])]
    for key in path[1:]:
        texts.append(texts[-1] + (f".{key}" if isinstance(key, str) and key.isidentifier() else f"[{key!r}]"))
    return texts


def static_path(node: nodes.Node | None) -> tuple[Path, nodes.Name] | None:
    """The path of a chain of constant keys, and the name at its root."""
    keys: list[str | int] = []
    while len(keys) <= MAX_PATH:
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
    return None


def constant_key(node: nodes.Node) -> str | int | None:
    """The key of x['key'], x[0] or x[-1]."""
    if isinstance(node, nodes.Const) and type(node.value) in (str, int):
        key: str | int = node.value
        return key
    if (
        isinstance(node, nodes.Unary)
        and node.op == "-"
        and isinstance(node.node, nodes.Const)
        and type(node.node.value) is int
    ):
        return -int(node.node.value)
    return None


def constant_values(node: nodes.Node) -> list[Any] | None:
    """The values of a list or tuple of constants."""
    if isinstance(node, nodes.List | nodes.Tuple) and all(isinstance(e, nodes.Const) for e in node.items):
        return [element.value for element in node.items if isinstance(element, nodes.Const)]
    return None


def string_values(node: nodes.Node | None, op: str) -> tuple[str, ...]:
    """The string constants that a side of a comparison consists of."""
    if op in ("==", "!="):
        values = [node.value] if isinstance(node, nodes.Const) else []
    else:
        values = (constant_values(node) if node is not None else None) or []
    return tuple(values) if all(isinstance(value, str) for value in values) else ()
