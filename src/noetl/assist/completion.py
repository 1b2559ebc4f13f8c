"""Completions and hover text, as an editor receives them."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

CompletionKind: TypeAlias = Literal[
    "key", "value", "kind", "step", "task", "credential", "name", "field", "filter", "test", "function"
]


class Completion(msgspec.Struct, frozen=True):
    """Something to type: `insert` replaces the word before the cursor."""

    label: str
    kind: CompletionKind
    detail: str
    insert: str
    doc: str


class Position(msgspec.Struct, frozen=True):
    """Line and column, both from 1."""

    line: int
    column: int


class Hover(msgspec.Struct, frozen=True):
    """The meaning of the text in a range."""

    start: Position = msgspec.field(name="from")
    end: Position = msgspec.field(name="to")
    text: str


class Assist(msgspec.Struct, frozen=True):
    """Completions at a position of a playbook's text, and the meaning of the word there."""

    completions: list[Completion] = []
    hover: Hover | None = None
