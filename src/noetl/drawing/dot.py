"""Graphviz DOT."""

from __future__ import annotations

from collections.abc import Iterator

from noetl.drawing.net import DrawnNet, DrawnNode

HEAD = """\
  rankdir=TB;
  node [shape=box, style="rounded,filled", fillcolor="#ffffff", color="#94a3b8"];
  node [fontname="Helvetica", fontsize=11];
  edge [color="#64748b", fontname="Helvetica", fontsize=10];"""


def dot_of(net: DrawnNet) -> str:
    lines = [f'digraph "{escaped(net.name)}" {{', HEAD]
    lines += [f"  n{number} [{', '.join(node_attributes(node))}];" for number, node in enumerate(net.nodes)]
    for edge in net.edges:
        attributes = [f'label="{escaped(edge.label)}"'] if edge.label else []
        attributes.append(f'tooltip="{escaped(net.tooltip(edge))}"')
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
    title = r"\n".join(map(escaped, rows)) + (r"\n" if node.tasks else "")
    tasks = "".join(escaped(line.text) + r"\l" for line in node.tasks)
    yield f'label="{title}{tasks}"'
    if node.desc:
        yield f'tooltip="{escaped(node.desc)}"'
    if node.role == "computed":
        yield 'shape=circle, style="dashed"'
    if node.role == "missing":
        yield 'style="rounded,dashed"'
    if node.final:
        yield "peripheries=2"


def escaped(text: str) -> str:
    """Backslashes doubled (Graphviz expands \\N and friends) and entities disarmed (it expands those too)."""
    return text.replace("&", "&amp;").replace("\\", "\\\\").replace('"', '\\"').replace("\n", r"\n")
