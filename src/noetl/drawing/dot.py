"""Graphviz DOT."""

from __future__ import annotations

from collections.abc import Iterator

from noetl.drawing.net import DrawnNet, DrawnNode, Edge

HEAD = """\
  rankdir=TB;
  node [shape=box, style="rounded,filled", fillcolor="#ffffff", color="#94a3b8"];
  node [fontname="Helvetica", fontsize=11];
  edge [color="#64748b", fontname="Helvetica", fontsize=10];"""


def dot_of(net: DrawnNet) -> str:
    return "\n".join([f"digraph {quoted(net.name)} {{", HEAD, *body(net), "}"]) + "\n"


def body(net: DrawnNet) -> Iterator[str]:
    for number, node in enumerate(net.nodes):
        yield f"  n{number} [{', '.join(node_attributes(node))}];"
    for edge in net.edges:
        yield f"  n{edge.source} -> n{edge.target} [{', '.join(edge_attributes(net, edge))}];"
    if net.entry is not None:
        yield '  entry [shape=point, width=0.12, label="", color="#334155"];'
        yield f"  entry -> n{net.entry};"


def node_attributes(node: DrawnNode) -> Iterator[str]:
    rows = [node.name]
    if node.badges:
        rows.append(" · ".join(f"[{badge.text}]" for badge in node.badges))
    if not node.tasks:
        yield "label=" + quoted("\n".join(rows))
    else:
        tasks = "".join(escaped(line.text) + r"\l" for line in node.tasks)
        yield "label=" + '"' + r"\n".join(map(escaped, rows)) + r"\n" + tasks + '"'
    if node.desc:
        yield f"tooltip={quoted(node.desc)}"
    if node.role == "computed":
        yield 'shape=circle, style="dashed"'
    if node.role == "missing":
        yield 'style="rounded,dashed"'
    if node.final:
        yield "peripheries=2"


def edge_attributes(net: DrawnNet, edge: Edge) -> Iterator[str]:
    if edge.label:
        yield f"label={quoted(edge.label)}"
    yield f"tooltip={quoted(net.tooltip(edge))}"
    if edge.failure:
        yield 'style=dashed, color="#dc2626", fontcolor="#dc2626"'


def quoted(text: str) -> str:
    return f'"{escaped(text)}"'


def escaped(text: str) -> str:
    """Backslashes doubled (Graphviz expands \\N and friends) and entities disarmed (it expands those too)."""
    return text.replace("&", "&amp;").replace("\\", "\\\\").replace('"', '\\"').replace("\n", r"\n")
