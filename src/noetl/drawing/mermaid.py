"""Mermaid `flowchart TD`, for pages that render it."""

from __future__ import annotations

from noetl.drawing.net import DrawnNet, DrawnNode

ESCAPES = str.maketrans({char: f"#{ord(char)};" for char in '"#&<>|[](){}`;\\%'})
SHAPES = {"step": ('["', '"]'), "missing": ('["', '"]'), "computed": ('(("', '"))')}
FINAL_SHAPE = ('[["', '"]]')


def mermaid_of(net: DrawnNet) -> str:
    lines = ["flowchart TD"]
    for number, node in enumerate(net.nodes):
        opening, closing = FINAL_SHAPE if node.final else SHAPES[node.role]
        lines.append(f"  n{number}{opening}{label(node)}{closing}")
    for edge in net.edges:
        arrow = ("-.->" if edge.failure else "-->") + (f'|"{escaped(edge.label)}"|' if edge.label else "")
        lines.append(f"  n{edge.source} {arrow} n{edge.target}")
    if net.entry is not None:
        lines += [f"  entry(( )) --> n{net.entry}", "  style entry fill:#334155,stroke:#334155"]
    others = [number for number, node in enumerate(net.nodes) if node.role != "step"]
    lines += [f"  style n{number} stroke-dasharray:4 3" for number in others]
    if failures := [str(number) for number, edge in enumerate(net.edges) if edge.failure]:
        lines.append(f"  linkStyle {','.join(failures)} stroke:#dc2626,color:#dc2626")
    return "\n".join(lines) + "\n"


def label(node: DrawnNode) -> str:
    rows = [f"<b>{escaped(node.name) or '&nbsp;'}</b>"]
    if node.badges:
        rows.append("<i>" + " · ".join(escaped(badge.text) for badge in node.badges) + "</i>")
    rows += [escaped(line.text.strip()) for line in node.tasks]
    return "<br/>".join(rows)


def escaped(text: str) -> str:
    """Entity codes as Mermaid spells them, for everything its grammar or HTML could take for its own."""
    return text.translate(ESCAPES)
