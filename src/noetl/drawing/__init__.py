"""Draws a playbook's net: text for a terminal, Mermaid or DOT for other tools, a standalone SVG, or JSON for programs
that draw it themselves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeAlias

import msgspec

from noetl.drawing.graph import Place, graph_of
from noetl.drawing.markup import dot_of, mermaid_of
from noetl.drawing.net import net_of
from noetl.drawing.svg import svg_of
from noetl.drawing.text import text_of
from noetl.model.playbook import Playbook

__all__ = ["Format", "draw"]

Format: TypeAlias = Literal["text", "mermaid", "dot", "svg", "json"]


def draw(playbook: Playbook, format: Format, *, width: int = 100, places: Mapping[str, Place] | None = None) -> str:
    """The drawing, ending with a newline. `width` is in columns and bounds the text format only; `places` gives the
    lines of the JSON format."""
    if format == "json":
        graph = msgspec.json.encode(graph_of(playbook, places or {}))
        return msgspec.json.format(graph, indent=2).decode() + "\n"
    net = net_of(playbook)
    if format == "text":
        return text_of(net, width)
    return {"mermaid": mermaid_of, "dot": dot_of, "svg": svg_of}[format](net)
