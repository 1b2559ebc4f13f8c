"""Sizes, places and lines of a drawn net, in the units of the SVG.

`layout` gives the columns; this module adds heights and lines. A line is drawn as x over y, a monotone cubic through
its passes: it is vertical at boxes and labels, and stays between the passes that it connects.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from noetl.drawing.layout import Extent, Layout, lay_out
from noetl.drawing.net import Badge, DrawnNet, DrawnNode, Edge, shorten

MARGIN, GAP, PAD, MARK = 28, 30, 14, 9
NAME_SIZE, TASK_SIZE, PILL_SIZE, LABEL_SIZE = 14, 12, 12, 12
NAME_ROW, TASK_ROW, PILL_ROW, RUN_ROW, PILL, LABEL = 22, 19, 22, 20, 17, 20
BADGES_WIDE, LINE_WIDE = 250, 44
ENTRY_REACH = LOOP_REACH = 34
STATUS = 24  # the icon beside the name, where boxes have a row for the run


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


class Geometry:
    """Where everything of a net is drawn. With `run_row`, the box of a step has one more row."""

    def __init__(self, net: DrawnNet, *, run_row: bool = False) -> None:
        self.net, self.run_row = net, run_row
        self.loops: list[list[int]] = [[] for _ in net.nodes]
        for number, edge in enumerate(net.edges):
            if edge.source == edge.target:
                self.loops[edge.source].append(number)
        self.boxes = [self.box(number) for number in range(len(net.nodes))]
        extents = [Extent(box.width / 2 + box.before, box.width / 2 + box.after) for box in self.boxes]
        halves = [label_width(edge) / 2 for edge in net.edges]
        labels = [Extent(half, half) if edge.label else None for edge, half in zip(net.edges, halves, strict=True)]
        self.layout = lay_out(net, extents, labels, gap=GAP)
        for item in self.layout.items:
            item.x += MARGIN
        self.tops, self.bottoms = bands(self.layout, self.boxes)
        self.ports = ports(self.layout, self.boxes, net)
        self.width = max((item.x + item.extent.after for item in self.layout.items), default=float(MARGIN)) + MARGIN
        self.height = (self.bottoms[-1] if self.bottoms else float(MARGIN)) + MARGIN

    def box(self, number: int) -> Box:
        node = self.net.nodes[number]
        rows = tuple(badge_rows(badges_inside(node)))
        has_run_row = self.run_row and node.role == "step"
        widths = [text_width(shorten(node.name, LINE_WIDE), NAME_SIZE, 0.63) + STATUS * has_run_row]
        widths += [sum(pill_width(badge) + 6 for badge in row) - 6 for row in rows]
        widths += [14 + text_width(shorten(line.text, LINE_WIDE), TASK_SIZE) for line in node.tasks]
        least = 40 if node.role == "computed" else 96
        height = 2 * 10 + NAME_ROW + len(rows) * PILL_ROW + MARK * (node.inclusive and not node.tasks)
        if node.tasks:
            height += 11 + len(node.tasks) * TASK_ROW
        loops = self.loops[number]
        wide = max((text_width(self.net.edges[loop].label, LABEL_SIZE) + 14 for loop in loops), default=0.0)
        after = LOOP_REACH + 12 * (len(loops) - 1) + wide if loops else 0.0
        height = max(height, 26 + LABEL * len(loops)) + RUN_ROW * has_run_row
        return Box(max(least, *widths) + 2 * PAD, height, rows, ENTRY_REACH if node.entry else 0.0, after)

    def corner(self, number: int) -> tuple[float, float]:
        item = self.layout.items[number]
        return item.x - self.boxes[number].width / 2, self.tops[item.row]

    def path(self, number: int) -> str:
        """The line of an edge, as the data of an SVG path."""
        edge = self.net.edges[number]
        return self.own_loop(number) if edge.source == edge.target else curve(self.knots(number))

    def label_at(self, number: int) -> tuple[float, float]:
        """The middle of the label of an edge, or where it would be."""
        edge, chain = self.net.edges[number], self.layout.chains[number]
        if edge.source == edge.target:
            (x, y), box, loops = self.corner(edge.source), self.boxes[edge.source], self.loops[edge.source]
            x += box.width + LOOP_REACH + 12 * (len(loops) - 1) + label_width(edge) / 2 - 2
            return x, y + box.height / 2 + (loops.index(number) - (len(loops) - 1) / 2) * LABEL
        if chain is None:
            start, end = self.direct(edge)
            return (start.x + end.x) / 2, (start.y + end.y) / 2
        passes = [self.layout.items[item] for item in chain[1:-1]]
        item = next((item for item in passes if item.labelled), passes[0])
        return item.x, (self.tops[item.row] + self.bottoms[item.row]) / 2

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


def text_width(text: str, size: float, em: float = 0.61) -> float:
    """Upper bound of the width of a text; `em` is the width of a common letter."""
    return size * sum(1.05 if unicodedata.east_asian_width(char) in "WF" else em for char in text)


def label_width(edge: Edge) -> float:
    return text_width(edge.label, LABEL_SIZE) + 12


def pill_width(badge: Badge) -> float:
    return text_width(badge.text, PILL_SIZE, 0.54) + 14


def badges_inside(node: DrawnNode) -> list[Badge]:
    """The badges in the box; a fan-out is a mark on its border instead."""
    return [badge for badge in node.badges if badge.kind != "route"]


def badge_rows(badges: Sequence[Badge]) -> Iterator[tuple[Badge, ...]]:
    row: list[Badge] = []
    for badge in badges:
        if row and sum(pill_width(pill) + 6 for pill in [*row, badge]) > BADGES_WIDE:
            yield tuple(row)
            row = []
        row.append(badge)
    if row:
        yield tuple(row)


def bands(layout: Layout, boxes: Sequence[Box]) -> tuple[list[float], list[float]]:
    """Top and bottom of each row. The further lines lead sideways, the larger the distance between rows."""
    tops: list[float] = []
    bottoms: list[float] = []
    y = float(MARGIN)
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
