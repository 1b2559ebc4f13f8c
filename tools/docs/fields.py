"""Fields of structs in words: their types, and the notes that stand under them in the source."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from functools import cache
from types import ModuleType
from typing import Any, NamedTuple

import msgspec

from tools.docs.markdown import codes

WORDS = {
    "str": "text",
    "int": "number",
    "float": "number",
    "bool": "true or false",
    "Any": "any value",
    "Error": "[error](outcomes.md#error)",
    "Outcome": "[outcome](outcomes.md#outcome)",
    "Status": "`ok` or `error`",
    "Patch": "list of writes",
    "TaskId": "task id",
    "Interval": "two numbers",
    "Layer": "`policy` or `spec`",
    "InlinedPart": "key and text",
    "Target": "targets",
    "Actor": "kind and name",
}


class Field(NamedTuple):
    """A field of a struct."""

    name: str
    type: str
    required: bool
    note: str


def fields(kind: type[msgspec.Struct]) -> Iterator[Field]:
    """The fields that a struct itself declares."""
    declared, notes = _source(kind)
    for field in msgspec.structs.fields(kind):
        yield Field(field.encode_name, words(declared[field.name]), field.required, notes.get(field.name, ""))


def words(annotation: str) -> str:
    """A type as a reader of the reference sees it."""
    optional = annotation.endswith(" | None")
    name = annotation.removesuffix(" | None")
    if match := re.fullmatch(r"Literal\[(.*)\]", name):
        text = codes((part.strip(" '") for part in match[1].split(",")), "or")
    elif name.startswith("tuple["):
        inner = name[6:-1].removesuffix(", ...")
        plural = {"int": "list of numbers", "str": "list of names"}
        text = plural.get(inner) or "list of " + ", ".join(WORDS[part] for part in inner.split(", "))
    elif name.startswith("dict["):
        text = "map"
    elif name.startswith("list["):
        text = "list"
    else:
        text = WORDS[name]
    return f"{text}, or null" if optional else text


def _source(kind: type) -> tuple[dict[str, str], dict[str, str]]:
    """The annotations of a class and its bases as they are written, and the text that stands under each."""
    declared: dict[str, str] = {}
    notes: dict[str, str] = {}
    for base in reversed(kind.__mro__):
        module, last = inspect.getmodule(base), ""
        known = _classes(module) if module is not None and module.__name__.startswith("noetl") else {}
        for node in known[base.__name__].body if base.__name__ in known else ():
            if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                last = node.target.id
                declared[last] = ast.unparse(node.annotation)
            elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and last:
                notes[last] = " ".join(str(node.value.value).split())
    return declared, notes


@cache
def _classes(module: ModuleType) -> dict[str, Any]:
    tree = ast.parse(inspect.getsource(module))
    return {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
