"""Edits of a document's tree that keep the place of each part."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from noetl.dsl.tree import Map, Seq, span_of


def as_map(node: Any) -> Map:
    return node if isinstance(node, Map) else Map()


def as_list(node: Any) -> Seq:
    return node if isinstance(node, Seq) else Seq()


def map_at(node: Any, values: Mapping[str, Any] | None = None, **more: Any) -> Map:
    """A new map at the place of the node; values that are None are left out."""
    new = Map(span_of(node))
    new.update({key: value for key, value in {**(values or {}), **more}.items() if value is not None})
    return new


def list_at(node: Any, items: Iterable[Any] = ()) -> Seq:
    new = Seq(span_of(node))
    new.extend(items)
    return new


def merged(below: Map, above: Map) -> Map:
    """Add the values of `above` to `below`; they replace equal keys."""
    below.spans.update(above.spans)
    below.update(above)
    return below


def part_of(node: Map, keys: Iterable[str]) -> Map:
    part = map_at(node)
    for key in keys:
        part[key] = node[key]
        if key in node.spans:
            part.spans[key] = node.spans[key]
    return part


def rename_key(node: Map, old: str, new: str) -> None:
    """Give a key another name in place, so that order and positions stay."""
    pairs = list(node.items())
    node.clear()
    node.update({new if key == old else key: value for key, value in pairs})
    if old in node.spans:
        node.spans[new] = node.spans[old]


def put_after(node: Map, before: str, key: str, value: Any) -> None:
    pairs = list(node.items())
    node.clear()
    for name, old in pairs:
        node[name] = old
        if name == before:
            node[key] = value
    node.setdefault(key, value)


def insert_item(items: Seq, position: int, item: Map) -> None:
    items.insert(position, item)
    items.spans.insert(position, item.span)


def free_label(label: str, labels: set[str], reserved: Iterable[str] = ()) -> str:
    """The label, with a number where it is in use or reserved. Adds it to `labels`."""
    number, free = 1, label
    while free in labels or free in reserved:
        number += 1
        free = f"{label}_{number}"
    labels.add(free)
    return free
