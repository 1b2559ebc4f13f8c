"""Markup that other tools draw: Mermaid `flowchart TD` for pages that render it, and Graphviz DOT."""

from __future__ import annotations

from collections.abc import Iterator

from noetl.drawing.net import DrawnNet, DrawnNode

MERMAID_ESCAPES = str.maketrans({char: f"#{ord(char)};" for char in '"#&<>|[](){}`;\\%'})
MERMAID_SHAPES = {"step": ('["', '"]'), "missing": ('["', '"]'), "computed": ('(("', '"))')}
DOT_HEAD = """\
  rankdir=TB;
  node [shape=box, style="rounded,filled", fillcolor="#ffffff", color="#94a3b8"];
  node [fontname="Helvetica", fontsize=11];
  edge [color="#64748b", fontname="Helvetica", fontsize=10];"""


def mermaid_of(net: DrawnNet) -> str:
    lines = ["flowchart TD"]
    for number, node in enumerate(net.nodes):
        opening, closing = ('[["', '"]]') if node.final else MERMAID_SHAPES[node.role]
        lines.append(f"  n{number}{opening}{node_label(node)}{closing}")
    for edge in net.edges:
        arrow = ("-.->" if edge.failure else "-->") + (f'|"{for_mermaid(edge.label)}"|' if edge.label else "")
        lines.append(f"  n{edge.source} {arrow} n{edge.target}")
    if net.entry is not None:
        lines += [f"  entry(( )) --> n{net.entry}", "  style entry fill:#334155,stroke:#334155"]
    others = [number for number, node in enumerate(net.nodes) if node.role != "step"]
    lines += [f"  style n{number} stroke-dasharray:4 3" for number in others]
    if failures := [str(number) for number, edge in enumerate(net.edges) if edge.failure]:
        lines.append(f"  linkStyle {','.join(failures)} stroke:#dc2626,color:#dc2626")
    return "\n".join(lines) + "\n"


def node_label(node: DrawnNode) -> str:
    rows = [f"<b>{for_mermaid(node.name) or '&nbsp;'}</b>"]
    if node.badges:
        rows.append("<i>" + " · ".join(for_mermaid(badge.text) for badge in node.badges) + "</i>")
    rows += [for_mermaid(line.text.strip()) for line in node.tasks]
    return "<br/>".join(rows)


def for_mermaid(text: str) -> str:
    """Entity codes as Mermaid spells them, for everything its grammar or HTML could take for its own."""
    return text.translate(MERMAID_ESCAPES)


def dot_of(net: DrawnNet) -> str:
    lines = [f'digraph "{for_dot(net.name)}" {{', DOT_HEAD]
    lines += [f"  n{number} [{', '.join(node_attributes(node))}];" for number, node in enumerate(net.nodes)]
    for edge in net.edges:
        attributes = [f'label="{for_dot(edge.label)}"'] if edge.label else []
        attributes.append(f'tooltip="{for_dot(net.tooltip(edge))}"')
        if edge.failure:
            attributes.append('style=dashed, color="#dc2626", fontcolor="#dc2626"')
        lines.append(f"  n{edge.source} -> n{edge.target} [{', '.join(attributes)}];")
    if net.entry is not None:
        lines.append('  entry [shape=point, width=0.12, label="", color="#334155"];')
        lines.append(f"  entry -> n{net.entry};")
    return "\n".join([*lines, "}"]) + "\n"


def node_attributes(node: DrawnNode) -> Iterator[str]:
    rows = [node.name]
    if node.badges:
        rows.append(" · ".join(f"[{badge.text}]" for badge in node.badges))
    title = r"\n".join(map(for_dot, rows)) + (r"\n" if node.tasks else "")
    tasks = "".join(for_dot(line.text) + r"\l" for line in node.tasks)
    yield f'label="{title}{tasks}"'
    if node.desc:
        yield f'tooltip="{for_dot(node.desc)}"'
    if node.role == "computed":
        yield 'shape=circle, style="dashed"'
    if node.role == "missing":
        yield 'style="rounded,dashed"'
    if node.final:
        yield "peripheries=2"


def for_dot(text: str) -> str:
    """Backslashes doubled (Graphviz expands \\N and friends) and entities disarmed (it expands those too)."""
    return text.replace("&", "&amp;").replace("\\", "\\\\").replace('"', '\\"').replace("\n", r"\n")
