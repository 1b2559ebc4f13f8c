"""Box drawing for a terminal.

Small nets are drawn in layers. Between two rows lines run in a channel: every bundle of lines gets a track
(a text row) for its sideways part. A bundle is one box's ways out above the labels, and one box's ways in
below them, so lines that touch belong together, and where lines cross one is interrupted. What leads back
up is listed beneath. A net that does not fit the width, or whose lines could not be told apart, is written
as an outline instead.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from math import floor

from noetl.drawing.layout import Extent, Item, Layout, ends, lay_out, levels, turned_edges
from noetl.drawing.net import Edge, Net, Node

NARROWEST = 24
GAP = 3
NORTH, EAST, SOUTH, WEST = 1, 2, 4, 8
STROKES = " ╵╶└╷│┌├╴┘─┴┐┤┬┼"  # by the sum of the directions a stroke has
LARGE = 120  # steps; beyond, fewer tries
TRIES = ((40, 40), (40, 24), (30, 18), (20, 12), (16, 0))  # columns for a line in a box, and for a label


def text_of(net: Net, width: int = 100) -> str:
    width = max(width, NARROWEST)
    lines = layered(net, width) or list(outline(net, width))
    return "\n".join(line.rstrip() for line in lines) + "\n"


def layered(net: Net, width: int) -> list[str] | None:
    """The drawing and the list beneath it; None where the outline tells more."""
    turned, _ = turned_edges(net)
    back: list[list[str]] = [[] for _ in net.nodes]
    for edge, leads_back in zip(net.edges, turned, strict=True):
        if leads_back:
            back[edge.source].append(f"↺ {net.nodes[edge.target].name}")
    for line, label in TRIES if len(net.nodes) <= LARGE else TRIES[:: len(TRIES) - 1]:
        boxes = [box_lines(node, returns, width, line) for node, returns in zip(net.nodes, back, strict=True)]
        if hopeless(net, turned, boxes, width):
            continue
        labels = [fit(edge_label(edge), label) if label else "" for edge in net.edges]
        drawn = Sheet(net, boxes, labels).drawn(width)
        if drawn is not None:
            beneath = list(listing(net, turned, labels, width))
            return [*drawn, "", *beneath] if beneath else drawn
    return None


def hopeless(net: Net, turned: Sequence[bool], boxes: Sequence[Sequence[str]], width: int) -> bool:
    """Whether boxes and passing lines alone need too many columns: spares a huge net the layout."""
    level = levels(net, turned)
    rows = [0] * (max(level, default=0) + 2)
    for node, lines in enumerate(boxes):
        rows[level[node]] += columns(lines[0]) + GAP - 1
    passing = [0] * len(rows)
    for edge, back in zip(net.edges, turned, strict=True):
        if not back and edge.source != edge.target:
            upper, lower = ends(edge, back)
            passing[level[upper] + 1] += GAP
            passing[level[lower]] -= GAP
    return any(boxed + lines > width + GAP for boxed, lines in zip(rows, accumulate(passing), strict=True))


# --- texts --------------------------------------------------------------------------------------------------


def box_lines(node: Node, returns: Sequence[str], width: int, limit: int) -> list[str]:
    """A node's box without its ports."""
    top = [fit(node_name(node), width - 4), *badge_lines(node, limit)]
    below = [fit(line, limit) for line in (*(task.text for task in node.tasks), *returns)]
    wide = max(columns(line) for line in top + below)
    rows = [f"│ {padded(line, wide)} │" for line in top]
    if below:
        rows += ["├" + "─" * (wide + 2) + "┤", *(f"│ {padded(line, wide)} │" for line in below)]
    return ["┌" + "─" * (wide + 2) + "┐", *rows, "└" + "─" * (wide + 2) + "┘"]


def node_name(node: Node) -> str:
    return ("● " if node.entry else "") + node.name + (" (no such step)" if node.role == "missing" else "")


def badge_lines(node: Node, limit: int) -> list[str]:
    lines: list[str] = []
    for badge in node.badges:
        shown = f"[{fit(badge.text, limit - 2)}]"
        if lines and columns(f"{lines[-1]} {shown}") <= limit:
            lines[-1] += f" {shown}"
        else:
            lines.append(shown)
    return lines


def edge_label(edge: Edge) -> str:
    return ("✗ " if edge.failure else "") + edge.label


def in_full(edge: Edge) -> str:
    guard = edge.guard if edge.guard in ("", "else", "never") else f"when {edge.guard}"
    said = "  ".join(part for part in (guard, edge.wait) if part)
    return ("  ✗" if edge.failure else "") + (f"  {said}" if said else "")


def listing(net: Net, turned: Sequence[bool], labels: Sequence[str], width: int) -> Iterator[str]:
    """Edges that lead back, then those whose label had to be cut."""
    cut = [shown != edge_label(edge) or "…" in shown for edge, shown in zip(net.edges, labels, strict=True)]
    for mark, chosen in (("↺", turned), ("…", [c and not t for c, t in zip(cut, turned, strict=True)])):
        for edge, wanted in zip(net.edges, chosen, strict=True):
            if wanted:
                way = f"{net.nodes[edge.source].name} → {net.nodes[edge.target].name}"
                yield from wrapped(f"{mark} {way}{in_full(edge)}", width, "    ")


def outline(net: Net, width: int) -> Iterator[str]:
    """Every step with its tasks and its ways out, one below the other."""
    ways: list[list[Edge]] = [[] for _ in net.nodes]
    for edge in net.edges:
        ways[edge.source].append(edge)
    for number, node in enumerate(net.nodes):
        if number:
            yield ""
        title = [node_name(node), *(f"[{badge.text}]" for badge in node.badges)]
        yield from wrapped("  ".join(title), width, "    ")
        bar = "│ " if ways[number] else "  "
        for line in node.tasks:
            yield bar + fit(line.text, width - 2)
        for place, edge in enumerate(ways[number]):
            last = place == len(ways[number]) - 1
            said = net.nodes[edge.target].name + in_full(edge)
            yield from wrapped(("└─▶ " if last else "├─▶ ") + said, width, "      " if last else "│     ")


# --- columns ------------------------------------------------------------------------------------------------


def cells(text: str) -> list[str]:
    """What stands in each column: a wide character takes two, a combining one none."""
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


def padded(text: str, wide: int) -> str:
    return text + " " * (wide - columns(text))


def fit(text: str, wide: int) -> str:
    """The text, cut with … where it is too wide."""
    if columns(text) <= wide:
        return text
    kept = cells(text)[: wide - 1]
    if kept and kept[-1] and unicodedata.east_asian_width(kept[-1][0]) in "WF":
        kept[-1] = " "  # only half of it would fit
    return "".join(kept).rstrip() + "…"


def wrapped(text: str, width: int, indent: str) -> Iterator[str]:
    """The text in lines of at most `width` columns, broken at blanks where there are any, else anywhere."""
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


# --- the layered drawing ------------------------------------------------------------------------------------


@dataclass(slots=True)
class Bundle:
    """Lines of one channel that belong to one box: where they enter from above, where they leave below."""

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
    """The columns and rows of one drawing."""

    def __init__(self, net: Net, boxes: Sequence[Sequence[str]], labels: Sequence[str]) -> None:
        self.net, self.boxes, self.labels = net, boxes, labels
        self.rows: list[list[str]] = []

    def drawn(self, width: int) -> list[str] | None:
        reaches = [Extent((columns(box[0]) - 1) // 2, columns(box[0]) // 2) for box in self.boxes]
        labels = [Extent(0, columns(label) + 1) if label else None for label in self.labels]
        layout = lay_out(self.net, reaches, labels, gap=GAP, draw_turned=False)
        on_whole_columns(layout)
        self.wide = 1 + max((int(item.x + item.extent.right) for item in layout.items), default=0)
        ways = zip(self.net.edges, layout.chains, layout.turned, strict=True)
        if self.wide > width or any(chain is None and not turned for _, chain, turned in ways):
            return None
        for number, row in enumerate(layout.rows):
            if number and not self.channel(layout, layout.rows[number - 1], below_labels=number % 2 == 0):
                return None
            self.label_row(layout, row) if number % 2 else self.box_row(layout, row)
        return ["".join(row) for row in self.rows]

    def add_rows(self, count: int) -> int:
        """The number of the first of `count` new rows."""
        first = len(self.rows)
        self.rows += [[" "] * self.wide for _ in range(count)]
        return first

    def write(self, y: int, x: int, text: str) -> None:
        for place, cell in enumerate(cells(text)):
            self.rows[y][x + place] = cell

    def label_row(self, layout: Layout, row: Sequence[int]) -> None:
        y = self.add_rows(1 if row else 0)
        for item in (layout.items[number] for number in row):
            label = self.labels[item.edge] if item.labelled and item.edge is not None else ""
            self.write(y, int(item.x), f"│ {label}" if label else "│")

    def box_row(self, layout: Layout, row: Sequence[int]) -> None:
        members = [layout.items[number] for number in row]
        top = self.add_rows(1 if self.rows else 0) + (1 if self.rows else 0)
        self.add_rows(max((len(self.boxes[item.node]) for item in members if item.node is not None), default=1))
        for item in members:
            x, foot = int(item.x), top
            if item.up:
                self.write(top - 1, x, "│" if item.node is None else "▼")
            if item.node is not None:
                foot += self.box(item, item.node, top)
            if item.down:
                for y in range(foot, len(self.rows)):
                    self.write(y, x, "│")

    def box(self, item: Item, node: int, top: int) -> int:
        """Draws a box and returns its height."""
        lines = self.boxes[node]
        for down, line in enumerate(lines):
            self.write(top + down, int(item.x - item.extent.left), line)
        if item.down:
            self.write(top + len(lines) - 1, int(item.x), "┬")
        return len(lines)

    def channel(self, layout: Layout, upper: Sequence[int], *, below_labels: bool) -> bool:
        """Draws the lines from a row to the next; False where two bundles would need the same columns."""
        bundles: dict[int, Bundle] = {}
        for above in upper:
            for under in layout.items[above].down:
                bundle = bundles.setdefault(under if below_labels else above, Bundle())
                bundle.tops.add(int(layout.items[above].x))
                bundle.bottoms.add(int(layout.items[under].x))
        height = tracks(list(bundles.values()))
        if height is None:
            return False
        y = self.add_rows(height)
        strokes = [[0] * self.wide for _ in range(height)]
        for bundle in bundles.values():
            upright(strokes, bundle)
        for bundle in bundles.values():
            sideways(strokes, bundle)
        for down, line in enumerate(strokes):
            self.write(y + down, 0, "".join(STROKES[stroke] for stroke in line))
        return True


def on_whole_columns(layout: Layout) -> None:
    """Rounds every place and spares bends: passes go above or below a box where there is room, then nearly
    straight lines become straight."""
    for item in layout.items:
        item.x = floor(item.x + 0.5)
    for row in layout.rows[1::2]:
        for place in (*range(len(row)), *reversed(range(len(row)))):
            item = layout.items[row[place]]
            above, under = layout.items[item.up[0]], layout.items[item.down[0]]
            wanted = (under.x, above.x) if len(above.down) > 1 else (above.x, under.x)
            item.x = next((x for x in wanted if stands_free(layout, row, place, x)), item.x)
    for row in layout.rows[1:]:
        for place, number in enumerate(row):
            item = layout.items[number]
            offsets = sorted((layout.items[other].x - item.x for other in item.up), key=abs)
            if offsets and abs(offsets[0]) <= GAP and stands_free(layout, row, place, item.x + offsets[0]):
                item.x += offsets[0]


def stands_free(layout: Layout, row: Sequence[int], place: int, x: float) -> bool:
    item = layout.items[row[place]]
    if x < item.extent.left:
        return False
    if place:
        before = layout.items[row[place - 1]]
        if x - item.extent.left < before.x + before.extent.right + 2:
            return False
    if place + 1 < len(row):
        after = layout.items[row[place + 1]]
        return x + item.extent.right + 2 <= after.x - after.extent.left
    return True


def tracks(bundles: Sequence[Bundle]) -> int | None:
    """Gives each bundle that moves sideways a row and returns how many rows that takes.

    Where one bundle comes down a column that another leaves by, the first must turn off higher up; None if
    such demands go round in a circle.
    """
    leaving = {column: place for place, bundle in enumerate(bundles) for column in bundle.bottoms}
    lower: list[list[int]] = [[] for _ in bundles]
    waiting = [0] * len(bundles)
    for place, bundle in enumerate(bundles):
        for other in {leaving.get(column, place) for column in bundle.tops} - {place}:
            lower[place].append(other)
            waiting[other] += 1
    ready = [place for place, count in enumerate(waiting) if count == 0]
    taken: list[list[tuple[int, int]]] = []
    done = 0
    while ready:
        place = ready.pop(0)
        done += 1
        bundle = bundles[place]
        if not bundle.straight:
            bundle.track = free_track(taken, bundle)
        for other in lower[place]:
            bundles[other].track = max(bundles[other].track, bundle.track + (not bundle.straight))
            waiting[other] -= 1
            if waiting[other] == 0:
                ready.append(other)
    return len(taken) if done == len(bundles) else None


def free_track(taken: list[list[tuple[int, int]]], bundle: Bundle) -> int:
    left, right = bundle.span
    track = bundle.track
    while track < len(taken) and any(left <= end + 1 and start <= right + 1 for start, end in taken[track]):
        track += 1
    while track >= len(taken):
        taken.append([])
    taken[track].append((left, right))
    return track


def upright(strokes: list[list[int]], bundle: Bundle) -> None:
    for y, line in enumerate(strokes):
        for column in bundle.tops:
            if bundle.straight or y < bundle.track:
                line[column] = NORTH | SOUTH
        for column in bundle.bottoms:
            if bundle.straight or y > bundle.track:
                line[column] = NORTH | SOUTH


def sideways(strokes: list[list[int]], bundle: Bundle) -> None:
    if bundle.straight:
        return
    line, (left, right) = strokes[bundle.track], bundle.span
    for column in range(left, right + 1):
        if line[column]:
            continue  # another bundle passes: this one is interrupted
        ends_here = NORTH * (column in bundle.tops) | SOUTH * (column in bundle.bottoms)
        line[column] = ends_here | EAST * (column < right) | WEST * (column > left)
