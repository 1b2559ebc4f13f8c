"""Draws a playbook's net: text for a terminal, Mermaid or DOT for other tools, a standalone SVG."""

from __future__ import annotations

from typing import Literal, TypeAlias

from noetl.drawing.markup import dot_of, mermaid_of
from noetl.drawing.net import net_of
from noetl.drawing.svg import svg_of
from noetl.drawing.text import text_of
from noetl.model.playbook import Playbook

__all__ = ["Format", "draw"]

Format: TypeAlias = Literal["text", "mermaid", "dot", "svg"]


def draw(playbook: Playbook, format: Format, *, width: int = 100) -> str:
    """The drawing, ending with a newline. `width` is in columns and bounds the text format only."""
    net = net_of(playbook)
    if format == "text":
        return text_of(net, width)
    return {"mermaid": mermaid_of, "dot": dot_of, "svg": svg_of}[format](net)
