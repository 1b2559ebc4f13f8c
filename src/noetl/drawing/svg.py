"""A standalone SVG: no scripts, styles or fonts from elsewhere, and a background of its own for dark viewers."""

from __future__ import annotations

from collections.abc import Iterator
from xml.sax.saxutils import escape, quoteattr

from noetl.drawing.geometry import (
    ENTRY_REACH,
    LABEL,
    LABEL_SIZE,
    LINE_WIDE,
    MARK,
    NAME_ROW,
    NAME_SIZE,
    PAD,
    PILL,
    PILL_ROW,
    PILL_SIZE,
    TASK_ROW,
    TASK_SIZE,
    Box,
    Geometry,
    label_width,
    pill_width,
)
from noetl.drawing.net import BadgeKind, DrawnNet, DrawnNode, Edge, shorten

SANS = "Inter, 'Segoe UI', 'Helvetica Neue', Arial, 'DejaVu Sans', sans-serif"
MONO = "ui-monospace, 'SF Mono', Menlo, Consolas, 'DejaVu Sans Mono', monospace"
PAPER, INK, SOFT, LINE, EDGE, FAILURE = "#f8fafc", "#0f172a", "#64748b", "#cbd5e1", "#64748b", "#dc2626"
PILLS: dict[BadgeKind, tuple[str, str]] = {
    "loop": ("#ede9fe", "#5b21b6"),
    "gate": ("#fef3c7", "#92400e"),
    "join": ("#dbeafe", "#1e40af"),
    "time": ("#ffedd5", "#9a3412"),
    "event": ("#fce7f3", "#9d174d"),
    "final": ("#dcfce7", "#166534"),
    "route": ("#e2e8f0", "#334155"),
}
SQL, CODE, DATA, NET, REST = "#059669", "#7c3aed", "#0891b2", "#2563eb", "#94a3b8"
DOTS = {
    **dict.fromkeys(("postgres", "duckdb", "snowflake", "sqlite", "sql", "ducklake"), SQL),
    **dict.fromkeys(("python", "shell", "script", "container", "quantum"), CODE),
    **dict.fromkeys(("gcs", "object", "file", "artifact", "nats"), DATA),
    **dict.fromkeys(("http", "playbook", "gateway", "webhook"), NET),
}


def svg_of(net: DrawnNet) -> str:
    return "\n".join(Picture(net).lines()) + "\n"


class Picture:
    def __init__(self, net: DrawnNet) -> None:
        self.net, self.geometry = net, Geometry(net)

    def lines(self) -> Iterator[str]:
        width, height = self.geometry.width, self.geometry.height
        name = self.net.name or "playbook"
        yield (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
            f'viewBox="0 0 {width:.0f} {height:.0f}" role="img" aria-label={quoteattr("Playbook " + name)}>'
        )
        yield f"<title>{escape(name)}</title>"
        yield "<defs>" + head("noetl-tip", EDGE) + head("noetl-tip-failure", FAILURE) + "</defs>"
        yield f'<rect width="100%" height="100%" rx="12" fill="{PAPER}"/>'
        yield f'<g font-family="{SANS}">'
        for number in range(len(self.net.edges)):
            yield self.edge(number)
        for number, node in enumerate(self.net.nodes):
            yield from self.node(number, node)
        for number, edge in enumerate(self.net.edges):
            if edge.label:
                yield from self.label(number, edge)
        yield "</g>"
        yield "</svg>"

    def node(self, number: int, node: DrawnNode) -> Iterator[str]:
        (x, y), box = self.geometry.corner(number), self.geometry.boxes[number]
        title = "\n".join([node.name, *([node.desc] if node.desc else []), *(line.text for line in node.tasks)])
        yield f'<g class="step" data-step={quoteattr(node.name)}><title>{escape(title)}</title>'
        if node.entry:
            middle = y + 10 + NAME_ROW / 2
            yield (
                '<g class="entry"><title>entry</title>'
                f'<circle cx="{x - ENTRY_REACH + 6:.1f}" cy="{middle:.1f}" r="5" fill="#334155"/>'
                f'<path d="M{x - ENTRY_REACH + 11:.1f},{middle:.1f} H{x - 1:.1f}" stroke="{EDGE}" stroke-width="1.6" '
                'marker-end="url(#noetl-tip)"/></g>'
            )
        if node.final:
            yield rect(x - 4, y - 4, box.width + 8, box.height + 8, 13, "none", "#86efac")
        dash = "" if node.role == "step" else ' stroke-dasharray="4 3"'
        border = "#475569" if node.entry else LINE
        yield rect(x, y, box.width, box.height, 10, "#ffffff", border, f'{dash} class="box"')
        yield from inside(node, box, x, y)
        if node.inclusive:  # a plate on the lower border, from which all arcs leave
            foot, middle = y + box.height, x + box.width / 2
            font = f'font-size="{PILL_SIZE}" font-weight="600" text-anchor="middle"'
            plate = rect(middle - 17, foot - MARK, 34, 2 * MARK, MARK, "#334155", "none")
            word = text_at(middle, foot + 3.5, "all", font, "#ffffff")
            yield f"<g><title>every arc whose guard holds fires</title>{plate}{word}</g>"
        yield "</g>"

    def edge(self, number: int) -> str:
        edge = self.net.edges[number]
        paint = f'stroke="{EDGE}" marker-end="url(#noetl-tip)"'
        if edge.failure:
            paint = f'stroke="{FAILURE}" stroke-dasharray="6 4" marker-end="url(#noetl-tip-failure)"'
        title = f"<title>{escape(self.net.tooltip(edge))}</title>"
        return (
            f'<path class="arc" d="{self.geometry.path(number)}" fill="none" stroke-width="1.6" {paint}>{title}</path>'
        )

    def label(self, number: int, edge: Edge) -> Iterator[str]:
        (x, y), wide = self.geometry.label_at(number), label_width(edge)
        ink = FAILURE if edge.failure else "#334155"
        yield f"<g><title>{escape(self.net.tooltip(edge))}</title>"
        yield rect(x - wide / 2, y - LABEL / 2, wide, LABEL, 6, PAPER, "#fecaca" if edge.failure else "#e2e8f0")
        font = f'class="guard" font-family="{MONO}" font-size="{LABEL_SIZE}" text-anchor="middle"'
        yield text_at(x, y + 4, edge.label, font, ink) + "</g>"


def head(name: str, colour: str) -> str:
    return (
        f'<marker id="{name}" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="9" markerHeight="9" '
        f'markerUnits="userSpaceOnUse" orient="auto"><path d="M0,1 L10,5 L0,9 Z" fill="{colour}"/></marker>'
    )


def rect(x: float, y: float, width: float, height: float, radius: float, fill: str, stroke: str, more: str = "") -> str:
    return (
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" rx="{radius}" '
        f'fill="{fill}" stroke="{stroke}"{more}/>'
    )


def text_at(x: float, y: float, text: str, font: str, colour: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" {font} fill="{colour}" xml:space="preserve">{escape(text)}</text>'


def inside(node: DrawnNode, box: Box, x: float, y: float) -> Iterator[str]:
    """Name, pills and tasks of a box whose corner is at x, y; centred if there are no tasks."""
    at, anchor = (x + PAD, "start") if node.tasks else (x + box.width / 2, "middle")
    if not (node.tasks or box.badges):
        y += (box.height - MARK * node.inclusive - 20 - NAME_ROW) / 2
    font = f'font-size="{NAME_SIZE}" font-weight="600" text-anchor="{anchor}"'
    yield text_at(at, y + 26, shorten(node.name, LINE_WIDE), font, INK)
    y += 10 + NAME_ROW
    for row in box.badges:
        free = box.width - 2 * PAD - sum(pill_width(badge) + 6 for badge in row) + 6
        at = x + PAD + (0 if node.tasks else free / 2)
        for badge in row:
            (paper, ink), wide = PILLS[badge.kind], pill_width(badge)
            yield f"<g><title>{escape(badge.title or badge.text)}</title>"
            yield rect(at, y + 2, wide, PILL, PILL / 2, paper, "none")
            font = f'font-size="{PILL_SIZE}" text-anchor="middle"'
            yield text_at(at + wide / 2, y + 14, badge.text, font, ink) + "</g>"
            at += wide + 6
        y += PILL_ROW
    if node.tasks:
        yield f'<path d="M{x:.1f},{y + 5.5:.1f} h{box.width:.1f}" stroke="#e2e8f0"/>'
        y += 11
        font = f'font-family="{MONO}" font-size="{TASK_SIZE}" fill="{INK}" xml:space="preserve"'
        for line in node.tasks:
            indent = 2 * 0.61 * TASK_SIZE * line.depth
            colour = DOTS.get(line.kind, REST)
            yield f'<circle cx="{x + PAD + 3 + indent:.1f}" cy="{y + TASK_ROW / 2:.1f}" r="3" fill="{colour}"/>'
            text = shorten(line.text, LINE_WIDE).lstrip()
            label, rest = text[: len(line.label)], text[len(line.label) :]
            opening = f'<text x="{x + PAD + 14 + indent:.1f}" y="{y + 13.5:.1f}" {font}>'
            yield f'{opening}{escape(label)}<tspan fill="{SOFT}">{escape(rest)}</tspan></text>'
            y += TASK_ROW
