"""Tool kinds as the API describes them."""

from __future__ import annotations

import msgspec

from noetl.model.inputs import InputRow, rows
from noetl.model.kind import Kind


class ToolInput(msgspec.Struct, frozen=True):
    """An input of a tool kind. `default` is as written in YAML, empty if there is no useful one."""

    name: str
    type: str
    required: bool
    default: str
    description: str


class ToolKind(msgspec.Struct, frozen=True):
    """A tool kind. `extra` names the optional dependency it needs, `outcome` its own field on the outcome. A task needs
    exactly one input of each group in `one_of`. `timeout` is in seconds, null for none."""

    kind: str
    summary: str
    extra: str | None
    timeout: float | None
    outcome: str | None
    one_of: list[tuple[str, ...]]
    inputs: list[ToolInput]


class ToolKinds(msgspec.Struct, frozen=True):
    """The tool kinds of the server by name."""

    items: list[ToolKind]


def tool_kind(kind: Kind) -> ToolKind:
    inputs = list(map(_input, rows(kind)))
    return ToolKind(kind.name, kind.summary, kind.extra, kind.timeout, kind.outcome, list(kind.one_of), inputs)


def _input(row: InputRow) -> ToolInput:
    return ToolInput(**row._asdict())
