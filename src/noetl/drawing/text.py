"""Box drawing for a terminal.

Small nets are drawn in layers. Between two rows, lines run in a channel: every bundle of lines has a track (a text row)
for its horizontal part. A bundle is the outgoing lines of one box above the labels, and the incoming lines of one box
below them, so lines that touch belong together, and where lines cross one is interrupted. Edges that lead back up are
listed below the drawing. A net that does not fit the width, or whose lines would be ambiguous, becomes an outline.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from itertools import accumulate
from math import floor

from noetl.drawing.layout import Extent, Layout, lay_out, levels, room, turned_edges
from noetl.drawing.net import DrawnNet, DrawnNode, Edge

MIN_WIDTH = 24
GAP = 3
NORTH, EAST, SOUTH, WEST = 1, 2, 4, 8
STROKES = " ╵╶└╷│┌├╴┘─┴┐┤┬┼"  # by the sum of the directions a stroke has
LARGE_NET = 120  # steps; for more, fewer limits are tried
LIMITS = ((40, 40), (40, 24), (30, 18), (20, 12), (16, 0))  # columns for a line in a box, and for a label


def text_of(net: DrawnNet, width: int = 100) -> str:
    width = max(width, MIN_WIDTH)
    lines = layered(net, width) or list(outline(net, width))
    return "\n".join(line.rstrip() for line in lines) + "\n"


def layered(net: DrawnNet, width: int) -> list[str] | None:
    """The drawing and the list below it; None if the net needs an outline."""
    turned, _ = turned_edges(net)
    back: list[list[str]] = [[] for _ in net.nodes]
    for edge, leads_back in zip(net.edges, turned, strict=True):
        if leads_back:
            back[edge.source].append(f"↺ {net.nodes[edge.target].name}")
    for line, label in LIMITS if len(net.nodes) <= LARGE_NET else LIMITS[:: len(LIMITS) - 1]:
        boxes = [box_lines(node, returns, width, line) for node, returns in zip(net.nodes, back, strict=True)]
        if is_too_wide(net, turned, boxes, width):
            continue
        labels = [fit(edge_label(edge), label) if label else "" for edge in net.edges]
        drawn = Sheet(net, boxes, labels).drawn(width)
        if drawn is not None:
            listed = list(listing(net, turned, labels, width))
            return [*drawn, "", *listed] if listed else drawn
    return None


def is_too_wide(net: DrawnNet, turned: Sequence[bool], boxes: Sequence[Sequence[str]], width: int) -> bool:
    """Whether boxes and passing lines alone need too many columns, so that no layout is needed to know."""
    level = levels(net, turned)
    rows = [0] * (max(level, default=0) + 2)
    for node, lines in enumerate(boxes):
        rows[level[node]] += columns(lines[0]) + GAP - 1
    passing = [0] * len(rows)
    for edge, leads_back in zip(net.edges, turned, strict=True):
        if not leads_back and edge.source != edge.target:
            passing[level[edge.source] + 1] += GAP
            passing[level[edge.target]] -= GAP
    return any(boxed + lines > width + GAP for boxed, lines in zip(rows, accumulate(passing), strict=True))


def box_lines(node: DrawnNode, returns: Sequence[str], width: int, limit: int) -> list[str]:
    top = [fit(node_name(node), width - 4)]
    for number, badge in enumerate(node.badges):
        text = f"[{fit(badge.text, limit - 2)}]"
        if number and columns(f"{top[-1]} {text}") <= limit:
            top[-1] += f" {text}"
        else:
            top.append(text)
    below = [fit(line, limit) for line in (*(task.text for task in node.tasks), *returns)]
    wide = max(columns(line) for line in top + below)
    rows = [f"│ {line}{' ' * (wide - columns(line))} │" for line in top + below]
    bar = "─" * (wide + 2)
    if below:
        rows.insert(len(top), f"├{bar}┤")
    return [f"┌{bar}┐", *rows, f"└{bar}┘"]


def node_name(node: DrawnNode) -> str:
    return ("● " if node.entry else "") + node.name + (" (no such step)" if node.role == "missing" else "")


def edge_label(edge: Edge) -> str:
    return ("✗ " if edge.failure else "") + edge.label


def in_full(edge: Edge) -> str:
    guard = edge.guard if edge.guard in ("", "else", "never") else f"when {edge.guard}"
    return "".join(f"  {part}" for part in ("✗" if edge.failure else "", guard, edge.wait) if part)


def listing(net: DrawnNet, turned: Sequence[bool], labels: Sequence[str], width: int) -> Iterator[str]:
    """Edges that lead back, then those whose label is cut."""
    rows = list(zip(net.edges, turned, labels, strict=True))
    back = [("↺", edge) for edge, is_turned, _ in rows if is_turned]
    cut = [
        ("…", edge) for edge, is_turned, label in rows if not is_turned and (label != edge_label(edge) or "…" in label)
    ]
    for mark, edge in back + cut:
        yield from wrapped(f"{mark} {net.ends(edge)}{in_full(edge)}", width, "    ")


def outline(net: DrawnNet, width: int) -> Iterator[str]:
    outgoing: list[list[Edge]] = [[] for _ in net.nodes]
    for edge in net.edges:
        outgoing[edge.source].append(edge)
    for node, edges in zip(net.nodes, outgoing, strict=True):
        if node is not net.nodes[0]:
            yield ""
        title = [node_name(node), *(f"[{badge.text}]" for badge in node.badges)]
        yield from wrapped("  ".join(title), width, "    ")
        bar = "│ " if edges else "  "
        for line in node.tasks:
            yield bar + fit(line.text, width - 2)
        for edge in edges:
            is_last = edge is edges[-1]
            text = net.nodes[edge.target].name + in_full(edge)
            yield from wrapped(("└─▶ " if is_last else "├─▶ ") + text, width, "      " if is_last else "│     ")


def cells(text: str) -> list[str]:
    """The text of each column: a wide character takes two columns, a combining one none."""
    row: list[str] = []
    for char in text:
        if row and unicodedata.combining(char):
            row[-1 if row[-1] else -2] += char
        elif unicodedata.east_asian_width(char) in "WF":
            row += [char, ""]
        else:
            row.append(char)
    return row


def columns(text: str) -> int:
    return len(text) if text.isascii() else len(cells(text))


def fit(text: str, wide: int) -> str:
    if columns(text) <= wide:
        return text
    row = cells(text)[: wide - 1]
    if row and row[-1] and unicodedata.east_asian_width(row[-1][0]) in "WF":
        row[-1] = " "  # only half of it would fit
    return "".join(row).rstrip() + "…"


def wrapped(text: str, width: int, indent: str) -> Iterator[str]:
    """The text in lines of at most `width` columns, broken at blanks if possible."""
    row, lead, start = cells(text), "", 0
    while len(row) - start > (room := width - columns(lead)):
        blanks = [place for place in range(start + room // 2, start + room + 1) if row[place] == " "]
        end = blanks[-1] if blanks else start + room - (row[start + room] == "")
        yield lead + "".join(row[start:end])
        start, lead = end, indent
        while start < len(row) and row[start] == " ":
            start += 1
    if start < len(row):
        yield lead + "".join(row[start:])


@dataclass(slots=True)
class Bundle:
    """Lines of one channel that belong to one box: the columns where they enter above and leave below."""

    tops: set[int] = field(default_factory=set)
    bottoms: set[int] = field(default_factory=set)
    track: int = 0

    @property
    def span(self) -> tuple[int, int]:
        both = self.tops | self.bottoms
        return min(both), max(both)

    @property
    def straight(self) -> bool:
        return len(self.tops | self.bottoms) == 1


class Sheet:
    def __init__(self, net: DrawnNet, boxes: Sequence[Sequence[str]], labels: Sequence[str]) -> None:
        self.net, self.boxes, self.labels = net, boxes, labels
        reaches = [Extent((columns(box[0]) - 1) // 2, columns(box[0]) // 2) for box in boxes]
        extents = [Extent(0, columns(label) + 1) if label else None for label in labels]
        self.layout = lay_out(net, reaches, extents, gap=GAP, draw_turned=False)
        on_whole_columns(self.layout)
        self.wide = 1 + max((int(item.x + item.extent.after) for item in self.layout.items), default=0)
        self.rows: list[list[str]] = []

    def drawn(self, width: int) -> list[str] | None:
        ways = zip(self.layout.chains, self.layout.turned, strict=True)
        if self.wide > width or any(chain is None and not turned for chain, turned in ways):
            return None
        for number, row in enumerate(self.layout.rows):
            if number and not self.channel(self.layout.rows[number - 1], below_labels=number % 2 == 0):
                return None
            if number % 2 == 0:
                self.box_row(row)
                continue
            y = self.add_rows(1 if row else 0)
            for item in (self.layout.items[place] for place in row):
                label = self.labels[item.edge] if item.labelled and item.edge is not None else ""
                self.write(y, int(item.x), f"│ {label}" if label else "│")
        return ["".join(row) for row in self.rows]

    def add_rows(self, count: int) -> int:
        """The number of the first of `count` new rows."""
        first = len(self.rows)
        self.rows += [[" "] * self.wide for _ in range(count)]
        return first

    def write(self, y: int, x: int, text: str) -> None:
        for place, cell in enumerate(cells(text)):
            self.rows[y][x + place] = cell

    def box_row(self, row: Sequence[int]) -> None:
        members = [self.layout.items[number] for number in row]
        top = self.add_rows(1 if self.rows else 0) + (1 if self.rows else 0)
        self.add_rows(max((len(self.boxes[item.node]) for item in members if item.node is not None), default=1))
        for item in members:
            x, foot = int(item.x), top
            if item.up:
                self.write(top - 1, x, "│" if item.node is None else "▼")
            if item.node is not None:
                for line in self.boxes[item.node]:
                    self.write(foot, int(item.x - item.extent.before), line)
                    foot += 1
                if item.down:
                    self.write(foot - 1, x, "┬")
            if item.down:
                for y in range(foot, len(self.rows)):
                    self.write(y, x, "│")

    def channel(self, upper: Sequence[int], *, below_labels: bool) -> bool:
        """Draw the lines from a row to the next; False if two bundles need the same columns."""
        items, bundles = self.layout.items, dict[int, Bundle]()
        for above in upper:
            for under in items[above].down:
                bundle = bundles.setdefault(under if below_labels else above, Bundle())
                bundle.tops.add(int(items[above].x))
                bundle.bottoms.add(int(items[under].x))
        height = tracks(list(bundles.values()))
        if height is None:
            return False
        first = self.add_rows(height)
        strokes = [[0] * self.wide for _ in range(height)]
        for bundle in bundles.values():
            for y, line in enumerate(strokes):
                entering = bundle.tops if bundle.straight or y < bundle.track else set()
                leaving = bundle.bottoms if bundle.straight or y > bundle.track else set()
                for column in entering | leaving:
                    line[column] = NORTH | SOUTH
        for bundle in bundles.values():
            if bundle.straight:
                continue
            (low, high), line = bundle.span, strokes[bundle.track]
            for column in range(low, high + 1):
                if not line[column]:  # where another bundle passes, this one is interrupted
                    ends_here = NORTH * (column in bundle.tops) | SOUTH * (column in bundle.bottoms)
                    line[column] = ends_here | EAST * (column < high) | WEST * (column > low)
        for y, line in enumerate(strokes, first):
            self.write(y, 0, "".join(STROKES[stroke] for stroke in line))
        return True


def on_whole_columns(layout: Layout) -> None:
    """Round every place and avoid bends: passes move above or below a box if there is room, then nearly straight
    lines become straight."""
    for item in layout.items:
        item.x = floor(item.x + 0.5)
    for row in layout.rows[1::2]:
        for place in (*range(len(row)), *reversed(range(len(row)))):
            item = layout.items[row[place]]
            above, under = layout.items[item.up[0]], layout.items[item.down[0]]
            columns = (under.x, above.x) if len(above.down) > 1 else (above.x, under.x)
            item.x = next((x for x in columns if is_free(layout, row, place, x)), item.x)
    for row in layout.rows[1:]:
        for place, number in enumerate(row):
            item = layout.items[number]
            offsets = sorted((layout.items[other].x - item.x for other in item.up), key=abs)
            if offsets and abs(offsets[0]) <= GAP and is_free(layout, row, place, item.x + offsets[0]):
                item.x += offsets[0]


def is_free(layout: Layout, row: Sequence[int], place: int, x: float) -> bool:
    low, high = room(layout.items, row, place, 2)
    return max(low, layout.items[row[place]].extent.before) <= x <= high


def tracks(bundles: Sequence[Bundle]) -> int | None:
    """Give each bundle with a horizontal part a row, and return the number of rows.

    If one bundle comes down a column that another leaves by, the first must turn off higher up; None if such demands
    are circular.
    """
    leaving = {column: place for place, bundle in enumerate(bundles) for column in bundle.bottoms}
    order: TopologicalSorter[int] = TopologicalSorter(dict.fromkeys(range(len(bundles)), ()))
    lower = [{leaving.get(column, place) for column in bundle.tops} - {place} for place, bundle in enumerate(bundles)]
    for place, others in enumerate(lower):
        for other in others:
            order.add(other, place)
    occupied: list[list[tuple[int, int]]] = []
    try:
        for place in order.static_order():
            bundle = bundles[place]
            if not bundle.straight:
                low, high = bundle.span
                while bundle.track < len(occupied) and any(
                    low <= end + 1 and start <= high + 1 for start, end in occupied[bundle.track]
                ):
                    bundle.track += 1
                occupied += [[] for _ in range(len(occupied), bundle.track + 1)]
                occupied[bundle.track].append((low, high))
            for other in lower[place]:
                bundles[other].track = max(bundles[other].track, bundle.track + (not bundle.straight))
    except CycleError:
        return None
    return len(occupied)
