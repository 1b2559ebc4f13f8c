"""Questions about nodes of the syntax tree: where they start, how they read, what is constant in them."""

from __future__ import annotations

from typing import Any

from noetl.expression import nodes

Path = tuple[str | int, ...]


_FIRST = {
    **dict.fromkeys(nodes.BinExpr.__subclasses__(), "left"),
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
"""A longer chain of keys is no path that anybody means; looking for its root again and again would take for ever."""


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
    if isinstance(node, nodes.Neg) and isinstance(node.node, nodes.Const) and type(node.node.value) is int:
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
