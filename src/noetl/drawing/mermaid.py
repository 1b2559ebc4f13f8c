"""Mermaid `flowchart TD`, for pages that render it."""

from __future__ import annotations

from collections.abc import Iterator

from noetl.drawing.net import DrawnNet, DrawnNode, Edge

SPECIAL = '"#&<>|[](){}`;\\%'
ESCAPES = str.maketrans({char: f"#{ord(char)};" for char in SPECIAL})

SHAPES = {"step": ('["', '"]'), "missing": ('["', '"]'), "computed": ('(("', '"))')}
FINAL_SHAPE = ('[["', '"]]')


def mermaid_of(net: DrawnNet) -> str:
    return "\n".join(lines(net)) + "\n"


def lines(net: DrawnNet) -> Iterator[str]:
    yield "flowchart TD"
    for number, node in enumerate(net.nodes):
        opening, closing = FINAL_SHAPE if node.final else SHAPES[node.role]
        yield f"  n{number}{opening}{label(node)}{closing}"
    for edge in net.edges:
        yield f"  n{edge.source} {arrow(edge)} n{edge.target}"
    if net.entry is not None:
        yield "  entry(( )) --> " + f"n{net.entry}"
        yield "  style entry fill:#334155,stroke:#334155"
    for number, node in enumerate(net.nodes):
        if node.role != "step":
            yield f"  style n{number} stroke-dasharray:4 3"
    caught = [str(number) for number, edge in enumerate(net.edges) if edge.failure]
    if caught:
        yield f"  linkStyle {','.join(caught)} stroke:#dc2626,color:#dc2626"


def label(node: DrawnNode) -> str:
    rows = [f"<b>{escaped(node.name) or '&nbsp;'}</b>"]
    if node.badges:
        rows.append("<i>" + " · ".join(escaped(badge.text) for badge in node.badges) + "</i>")
    rows += [escaped(line.text.strip()) for line in node.tasks]
    return "<br/>".join(rows)


def arrow(edge: Edge) -> str:
    line = "-.->" if edge.failure else "-->"
    return f'{line}|"{escaped(edge.label)}"|' if edge.label else line


def escaped(text: str) -> str:
    """Entity codes as Mermaid spells them, for everything its grammar or HTML could take for its own."""
    return text.translate(ESCAPES)
