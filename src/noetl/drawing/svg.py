"""A standalone SVG: no scripts, styles or fonts from elsewhere, and a background of its own for dark viewers.

`layout` gives the columns; this module adds heights, lines and colours. A line is drawn as x over y, a monotone cubic
through its passes: it is vertical at boxes and labels, and stays between the passes that it connects.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple
from xml.sax.saxutils import escape, quoteattr

from noetl.drawing.layout import Extent, Layout, lay_out
from noetl.drawing.net import Badge, BadgeKind, DrawnNet, DrawnNode, Edge, shorten

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

MARGIN, GAP, PAD, MARK = 28, 30, 14, 9
NAME_SIZE, TASK_SIZE, PILL_SIZE, LABEL_SIZE = 14, 12, 10.5, 11.5
NAME_ROW, TASK_ROW, PILL_ROW, PILL, LABEL = 22, 19, 22, 17, 20
BADGES_WIDE, LINE_WIDE = 250, 44
ENTRY_REACH = LOOP_REACH = 34


class Box(NamedTuple):
    """Size of a node's box; `before` and `after` are the room for its entry mark and its loops."""

    width: float
    height: float
    badges: tuple[tuple[Badge, ...], ...]
    before: float
    after: float


class Knot(NamedTuple):
    """A point of a line; `slope` is dx/dy, None where it is free."""

    x: float
    y: float
    slope: float | None = 0.0


def svg_of(net: DrawnNet) -> str:
    return "\n".join(Picture(net).lines()) + "\n"


class Picture:
    def __init__(self, net: DrawnNet) -> None:
        self.net = net
        self.loops: list[list[int]] = [[] for _ in net.nodes]
        for number, edge in enumerate(net.edges):
            if edge.source == edge.target:
                self.loops[edge.source].append(number)
        self.boxes = [self.box(number) for number in range(len(net.nodes))]
        extents = [Extent(box.width / 2 + box.before, box.width / 2 + box.after) for box in self.boxes]
        halves = [text_width(edge.label, LABEL_SIZE) / 2 + 6 for edge in net.edges]
        labels = [Extent(half, half) if edge.label else None for edge, half in zip(net.edges, halves, strict=True)]
        self.layout = lay_out(net, extents, labels, gap=GAP)
        self.tops, self.bottoms = bands(self.layout, self.boxes)
        self.ports = ports(self.layout, self.boxes, net)

    def box(self, number: int) -> Box:
        node = self.net.nodes[number]
        rows = tuple(badge_rows([badge for badge in node.badges if badge.kind != "route"]))
        widths = [text_width(shorten(node.name, LINE_WIDE), NAME_SIZE, 0.63)]
        widths += [sum(pill_width(badge) + 6 for badge in row) - 6 for row in rows]
        widths += [14 + text_width(shorten(line.text, LINE_WIDE), TASK_SIZE) for line in node.tasks]
        least = 40 if node.role == "computed" else 96
        height = 2 * 10 + NAME_ROW + len(rows) * PILL_ROW + MARK * (node.inclusive and not node.tasks)
        if node.tasks:
            height += 11 + len(node.tasks) * TASK_ROW
        loops = self.loops[number]
        wide = max((text_width(self.net.edges[each].label, LABEL_SIZE) + 14 for each in loops), default=0.0)
        after = LOOP_REACH + 12 * (len(loops) - 1) + wide if loops else 0.0
        height = max(height, 26 + LABEL * len(loops))
        return Box(max(least, *widths) + 2 * PAD, height, rows, ENTRY_REACH if node.entry else 0.0, after)

    def lines(self) -> Iterator[str]:
        width = max((item.x + item.extent.after for item in self.layout.items), default=0.0) + 2 * MARGIN
        height = (self.bottoms[-1] if self.bottoms else 0.0) + 2 * MARGIN
        name = self.net.name or "playbook"
        yield (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
            f'viewBox="0 0 {width:.0f} {height:.0f}" role="img" aria-label={quoteattr("Playbook " + name)}>'
        )
        yield f"<title>{escape(name)}</title>"
        yield "<defs>" + head("noetl-tip", EDGE) + head("noetl-tip-failure", FAILURE) + "</defs>"
        yield f'<rect width="100%" height="100%" rx="12" fill="{PAPER}"/>'
        yield f'<g transform="translate({MARGIN} {MARGIN})" font-family="{SANS}">'
        for number in range(len(self.net.edges)):
            yield self.edge(number)
        for number, node in enumerate(self.net.nodes):
            yield from self.node(number, node)
        for number, edge in enumerate(self.net.edges):
            if edge.label:
                yield from self.label(number, edge)
        yield "</g>"
        yield "</svg>"

    def corner(self, number: int) -> tuple[float, float]:
        item = self.layout.items[number]
        return item.x - self.boxes[number].width / 2, self.tops[item.row]

    def node(self, number: int, node: DrawnNode) -> Iterator[str]:
        (x, y), box = self.corner(number), self.boxes[number]
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
        shape = self.own_loop(number) if edge.source == edge.target else curve(self.knots(number))
        paint = f'stroke="{EDGE}" marker-end="url(#noetl-tip)"'
        if edge.failure:
            paint = f'stroke="{FAILURE}" stroke-dasharray="6 4" marker-end="url(#noetl-tip-failure)"'
        title = f"<title>{escape(self.net.tooltip(edge))}</title>"
        return f'<path class="arc" d="{shape}" fill="none" stroke-width="1.6" {paint}>{title}</path>'

    def own_loop(self, number: int) -> str:
        node = self.net.edges[number].source
        (x, y), box = self.corner(node), self.boxes[node]
        nth = self.loops[node].index(number)
        side, middle = x + box.width, y + box.height / 2
        reach = (LOOP_REACH - 4) * 4 / 3 + 16 * nth
        half = min(12 + 5 * nth, box.height / 2 - 6)
        return (
            f"M{side:.1f},{middle - half:.1f} C{side + reach:.1f},{middle - half - 6:.1f} "
            f"{side + reach:.1f},{middle + half + 6:.1f} {side:.1f},{middle + half:.1f}"
        )

    def knots(self, number: int) -> list[Knot]:
        edge, chain = self.net.edges[number], self.layout.chains[number]
        if chain is None:
            return self.direct(edge)
        items = self.layout.items
        start, end = self.ports[number]
        upper, first = chain[0], items[chain[0]].row
        foot = self.tops[first] + self.boxes[upper].height + MARK * self.net.nodes[upper].inclusive
        way = [Knot(start, foot), Knot(start, self.bottoms[first])]
        for item in map(items.__getitem__, chain[1:-1]):
            top, bottom = self.tops[item.row], self.bottoms[item.row]
            if item.row % 2:
                way.append(Knot(item.x, (top + bottom) / 2, None))
            else:
                way += [Knot(item.x, top), Knot(item.x, bottom)]
        way.append(Knot(end, self.tops[items[chain[-1]].row]))
        return way[::-1] if self.layout.turned[number] else way

    def direct(self, edge: Edge) -> list[Knot]:
        """A straight line, for the few edges without passes in a huge net."""
        source, target = self.layout.items[edge.source], self.layout.items[edge.target]
        foot = self.tops[source.row] + self.boxes[edge.source].height
        if source.row < target.row:
            return [Knot(source.x, foot), Knot(target.x, self.tops[target.row])]
        target_foot = self.tops[target.row] + self.boxes[edge.target].height
        return [Knot(source.x, self.tops[source.row]), Knot(target.x, target_foot)]

    def label(self, number: int, edge: Edge) -> Iterator[str]:
        chain, wide = self.layout.chains[number], text_width(edge.label, LABEL_SIZE) + 12
        if edge.source == edge.target:
            (x, y), box, loops = self.corner(edge.source), self.boxes[edge.source], self.loops[edge.source]
            x += box.width + LOOP_REACH + 12 * (len(loops) - 1) + wide / 2 - 2
            y += box.height / 2 + (loops.index(number) - (len(loops) - 1) / 2) * LABEL
        elif chain is None:
            start, end = self.direct(edge)
            x, y = (start.x + end.x) / 2, (start.y + end.y) / 2
        else:
            item = next(item for item in map(self.layout.items.__getitem__, chain) if item.labelled)
            x, y = item.x, (self.tops[item.row] + self.bottoms[item.row]) / 2
        ink = FAILURE if edge.failure else "#334155"
        yield f"<g><title>{escape(self.net.tooltip(edge))}</title>"
        yield rect(x - wide / 2, y - LABEL / 2, wide, LABEL, 6, PAPER, "#fecaca" if edge.failure else "#e2e8f0")
        font = f'class="guard" font-family="{MONO}" font-size="{LABEL_SIZE}" text-anchor="middle"'
        yield text_at(x, y + 4, edge.label, font, ink) + "</g>"


def text_width(text: str, size: float, em: float = 0.61) -> float:
    """Upper bound of the width of a text; `em` is the width of a common letter."""
    return size * sum(1.05 if unicodedata.east_asian_width(char) in "WF" else em for char in text)


def pill_width(badge: Badge) -> float:
    return text_width(badge.text, PILL_SIZE, 0.54) + 14


def badge_rows(badges: Sequence[Badge]) -> Iterator[tuple[Badge, ...]]:
    row: list[Badge] = []
    for badge in badges:
        if row and sum(pill_width(each) + 6 for each in [*row, badge]) > BADGES_WIDE:
            yield tuple(row)
            row = []
        row.append(badge)
    if row:
        yield tuple(row)


def bands(layout: Layout, boxes: Sequence[Box]) -> tuple[list[float], list[float]]:
    """Top and bottom of each row. The further lines lead sideways, the larger the distance between rows."""
    tops: list[float] = []
    bottoms: list[float] = []
    y = 0.0
    for row in layout.rows:
        members = [layout.items[number] for number in row]
        aside = max((abs(layout.items[other].x - item.x) for item in members for other in item.up), default=0.0)
        if tops:
            y += min(18 + 0.07 * aside, 44)
        tops.append(y)
        heights = [LABEL * item.labelled if item.node is None else boxes[item.node].height for item in members]
        y += max(heights, default=0)
        bottoms.append(y)
    return tops, bottoms


def ports(layout: Layout, boxes: Sequence[Box], net: DrawnNet) -> list[tuple[float, float]]:
    """Where each edge meets its upper and its lower box: side by side, in the order of their other ends."""
    ends = [[0.0, 0.0] for _ in layout.chains]
    lines: dict[tuple[int, int], list[tuple[float, int]]] = {}
    for number, chain in enumerate(layout.chains):
        if chain:
            lines.setdefault((chain[0], 0), []).append((layout.items[chain[1]].x, number))
            lines.setdefault((chain[-1], 1), []).append((layout.items[chain[-2]].x, number))
    for (node, end), others in lines.items():
        width = 0 if end == 0 and net.nodes[node].inclusive else boxes[node].width
        step = min(26.0, max(width - 28, 0) / max(len(others) - 1, 1))
        for place, (_, number) in enumerate(sorted(others)):
            ends[number][end] = layout.items[node].x + (place - (len(others) - 1) / 2) * step
    return [(upper, lower) for upper, lower in ends]


def curve(knots: Sequence[Knot]) -> str:
    knots = [knot for knot, after in pairwise(knots) if (knot.x, knot.y) != (after.x, after.y)] + [knots[-1]]
    secants = [(b.x - a.x) / (b.y - a.y) if b.y != a.y else 0.0 for a, b in pairwise(knots)]
    slopes = []
    for place, knot in enumerate(knots):
        slope = knot.slope
        if slope is None:  # the harmonic mean; zero where the curve turns
            a, b = secants[place - 1 : place + 1]
            slope = 2 * a * b / (a + b) if a * b > 0 else 0.0
        slopes.append(slope)
    path = [f"M{knots[0].x:.1f},{knots[0].y:.1f}"]
    for (start, end), (s, t) in zip(pairwise(knots), pairwise(slopes), strict=True):
        if start.x == end.x:
            path.append(f"L{end.x:.1f},{end.y:.1f}")
            continue
        h = 0.42 * (end.y - start.y)
        first, second = f"{start.x + s * h:.1f},{start.y + h:.1f}", f"{end.x - t * h:.1f},{end.y - h:.1f}"
        path.append(f"C{first} {second} {end.x:.1f},{end.y:.1f}")
    return " ".join(path)


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
