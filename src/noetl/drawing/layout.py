"""Layered layout of a net (Sugiyama): the row, the order and the place of every item, for every format.

1. **Turn.** A walk from the entry finds the edges that lead back to a node on its path. Turned round, they leave a net
   without cycles.
2. **Layer.** A node is one row below the lowest node that leads to it. Boxes have the even rows; each odd row has one
   *pass* per edge that crosses it. An edge over several rows has a pass in each, so lines have columns of their own and
   never run through boxes, and the label of an edge is a wide pass.
3. **Order.** Sweeps down and up sort each row by the mean place of its neighbours. The order with the fewest crossings
   wins.
4. **Place.** Sweeps move every item towards its neighbours above, then below. For one row the optimum is exact: least
   squares under minimum distances is an isotonic regression, solved by pooling neighbours that collide
   (`pushed_apart`). Last, passes of one edge move to one column where they can.

Work is linear in the number of items per sweep. `MAX_PASSES` bounds it: the longest edges beyond it have no passes.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from graphlib import TopologicalSorter
from itertools import accumulate, pairwise
from math import inf
from typing import NamedTuple

from noetl.drawing.net import DrawnNet, Edge

MAX_PASSES = 12_000
ORDER_SWEEPS = 6
PLACE_SWEEPS = 6
PULLS = (1.0, 2.0, 8.0)
"""Weight of a line between two boxes, a box and a pass, and two passes, which should be the straightest."""


class Extent(NamedTuple):
    before: float
    after: float


@dataclass(slots=True)
class Item:
    """A node's box, or an edge's pass through a row."""

    row: int
    extent: Extent
    node: int | None = None
    edge: int | None = None
    labelled: bool = False
    x: float = 0.0
    up: list[int] = field(default_factory=list)
    down: list[int] = field(default_factory=list)


class Layout(NamedTuple):
    """`rows` lists items from left to right; item n of the first ones is the box of node n.

    `chains` has, for each edge, its items from the upper box to the lower; None for an edge without a place: from a
    node to itself, turned without `draw_turned`, or too long.
    """

    items: list[Item]
    rows: list[list[int]]
    chains: list[list[int] | None]
    turned: list[bool]


def lay_out(
    net: DrawnNet, boxes: Sequence[Extent], labels: Sequence[Extent | None], *, gap: float, draw_turned: bool = True
) -> Layout:
    turned, rank = turned_edges(net)
    level = levels(net, turned)
    items = [Item(2 * level[node], boxes[node], node=node) for node in range(len(net.nodes))]
    chains: list[list[int] | None] = [None] * len(net.edges)
    spans = [2 * abs(level[edge.target] - level[edge.source]) for edge in net.edges]
    drawn = [number for number, span in enumerate(spans) if span and (draw_turned or not turned[number])]
    drawn.sort(key=spans.__getitem__)
    passes = accumulate(spans[number] for number in drawn)
    for number in sorted(number for number, total in zip(drawn, passes, strict=True) if total <= MAX_PASSES):
        chains[number] = chain(items, number, net.edges[number], turned[number], labels[number])
    rows = ordered(items, rank, net)
    place(items, rows, gap)
    straighten(items, rows, chains, gap)
    border = min((item.x - item.extent.before for item in items), default=0.0)
    for item in items:
        item.x -= border
    return Layout(items, rows, chains, turned)


def turned_edges(net: DrawnNet) -> tuple[list[bool], list[int]]:
    """Which edges lead back in a depth-first walk from the entry, and when the walk met each node."""
    outgoing: list[list[int]] = [[] for _ in net.nodes]
    for number, edge in enumerate(net.edges):
        outgoing[edge.source].append(number)
    nodes, reached = range(len(net.nodes)), {edge.target for edge in net.edges if edge.source != edge.target}
    entry = [] if net.entry is None else [net.entry]
    turned, met = [False] * len(net.edges), dict[int, int]()
    walking: dict[int, Iterator[int]] = {}  # the path, with the edges to walk from each of its nodes
    for root in (*entry, *(node for node in nodes if node not in reached), *nodes):
        if root not in met:
            met[root], walking[root] = len(met), iter(outgoing[root])
        while walking:
            way = next(walking[next(reversed(walking))], None)
            if way is None:
                walking.popitem()
                continue
            target = net.edges[way].target
            turned[way] = target in walking
            if target not in met:
                met[target], walking[target] = len(met), iter(outgoing[target])
    return turned, [met[node] for node in nodes]


def ends(edge: Edge, turned: bool) -> tuple[int, int]:
    return (edge.target, edge.source) if turned else (edge.source, edge.target)


def levels(net: DrawnNet, turned: Sequence[bool]) -> list[int]:
    """The longest way to each node. A final step without edges is below all others."""
    above: list[list[int]] = [[] for _ in net.nodes]
    linked = set()
    for edge, is_turned in zip(net.edges, turned, strict=True):
        if edge.source != edge.target:
            upper, lower = ends(edge, is_turned)
            above[lower].append(upper)
            linked |= {upper, lower}
    level = [0] * len(net.nodes)
    for node in TopologicalSorter(dict(enumerate(above))).static_order():
        level[node] = max((level[upper] + 1 for upper in above[node]), default=0)
    alone = {place for place, node in enumerate(net.nodes) if node.final and place not in linked}
    bottom = max((row for node, row in enumerate(level) if node not in alone), default=-1) + 1
    return [bottom if node in alone else row for node, row in enumerate(level)]


def chain(items: list[Item], number: int, edge: Edge, turned: bool, label: Extent | None) -> list[int]:
    """Add the passes of an edge and link them. Its label is next to the node that it leaves."""
    upper, lower = ends(edge, turned)
    first, last = items[upper].row + 1, items[lower].row - 1
    label_row = last if turned else first
    way = [upper]
    for row in range(first, last + 1):
        extent = label if row == label_row else None
        items.append(Item(row, extent or Extent(0, 0), edge=number, labelled=extent is not None))
        way.append(len(items) - 1)
    way.append(lower)
    for above, under in pairwise(way):
        items[above].down.append(under)
        items[under].up.append(above)
    return way


def ordered(items: Sequence[Item], rank: Sequence[int], net: DrawnNet) -> list[list[int]]:
    rows: list[list[int]] = [[] for _ in range(max((item.row for item in items), default=-1) + 1)]

    def first_met(number: int) -> tuple[int, int]:
        item = items[number]
        if item.edge is None:
            return rank[number], -1
        return rank[net.edges[item.edge].target], item.edge

    for number in sorted(range(len(items)), key=first_met):
        rows[items[number].row].append(number)
    best, fewest = [list(row) for row in rows], crossings(items, rows)
    for sweep in range(ORDER_SWEEPS):
        if not fewest:
            break
        downwards = sweep % 2 == 0
        sort_by_neighbours(items, rows if downwards else rows[::-1], downwards=downwards)
        if (count := crossings(items, rows)) < fewest:
            best, fewest = [list(row) for row in rows], count
    return best


def sort_by_neighbours(items: Sequence[Item], rows: Iterable[list[int]], *, downwards: bool) -> None:
    place = [0.0] * len(items)
    for row in rows:
        for slot, number in enumerate(row):
            near = items[number].up if downwards else items[number].down
            place[number] = sum(place[other] for other in near) / len(near) if near else slot
        row.sort(key=place.__getitem__)
        for slot, number in enumerate(row):
            place[number] = slot


def crossings(items: Sequence[Item], rows: Sequence[Sequence[int]]) -> int:
    total = 0
    for upper, lower in pairwise(rows):
        slot = {number: place for place, number in enumerate(lower)}
        passed: list[int] = []
        for number in upper:
            targets = sorted(slot[under] for under in items[number].down)
            total += sum(len(passed) - bisect_right(passed, target) for target in targets)
            for target in targets:
                insort(passed, target)
    return total


def place(items: Sequence[Item], rows: Sequence[Sequence[int]], gap: float) -> None:
    for row in rows:
        align(items, row, gap, lambda item: [])
    for _ in range(PLACE_SWEEPS):
        for row in rows[1:]:
            align(items, row, gap, lambda item: item.up)
        for row in rows[-2::-1]:
            align(items, row, gap, lambda item: item.down)
    for row in rows:
        align(items, row, gap, lambda item: item.up + item.down)


def straighten(
    items: Sequence[Item], rows: Sequence[Sequence[int]], chains: Sequence[list[int] | None], gap: float
) -> None:
    slot = {number: place for row in rows for place, number in enumerate(row)}
    for way in chains:
        run: list[int] = []
        low, high = -inf, inf
        for number in way[1:-1] if way is not None else ():
            lowest, highest = room(items, rows[items[number].row], slot[number], gap)
            highest = max(lowest, highest)
            if max(low, lowest) > min(high, highest):
                on_one_column(items, run, low, high)
                run, low, high = [], -inf, inf
            run.append(number)
            low, high = max(low, lowest), min(high, highest)
        on_one_column(items, run, low, high)


def room(items: Sequence[Item], row: Sequence[int], slot: int, gap: float) -> tuple[float, float]:
    """Between which places an item can move while its neighbours stay."""
    item, low, high = items[row[slot]], -inf, inf
    if slot:
        before = items[row[slot - 1]]
        low = before.x + before.extent.after + gap + item.extent.before
    if slot + 1 < len(row):
        after = items[row[slot + 1]]
        high = after.x - after.extent.before - gap - item.extent.after
    return low, high


def on_one_column(items: Sequence[Item], run: Sequence[int], low: float, high: float) -> None:
    if run:
        x = min(max(sum(items[number].x for number in run) / len(run), low), high)
        for number in run:
            items[number].x = x


def align(items: Sequence[Item], row: Sequence[int], gap: float, near: Callable[[Item], list[int]]) -> None:
    targets, weights = [], []
    for number in row:
        item = items[number]
        pulls = [
            (other.x, PULLS[(item.node is None) + (other.node is None)]) for other in map(items.__getitem__, near(item))
        ]
        weight = sum(force for _, force in pulls)
        targets.append(sum(x * force for x, force in pulls) / weight if weight else item.x)
        weights.append(weight or 0.1)
    distances = [items[a].extent.after + gap + items[b].extent.before for a, b in pairwise(row)]
    for number, x in zip(row, pushed_apart(targets, weights, distances), strict=True):
        items[number].x = x


def pushed_apart(targets: Sequence[float], weights: Sequence[float], least: Sequence[float]) -> list[float]:
    """The places nearest to the wanted ones, by weighted squares, that keep order and least distances."""
    offsets = list(accumulate(least, initial=0.0))
    pools: list[tuple[float, float, int]] = []  # mean, weight, members
    for want, weight, offset in zip(targets, weights, offsets, strict=False):
        mean, members = want - offset, 1
        while pools and pools[-1][0] >= mean:
            other, other_weight, count = pools.pop()
            mean = (mean * weight + other * other_weight) / (weight + other_weight)
            weight, members = weight + other_weight, members + count
        pools.append((mean, weight, members))
    means = [mean for mean, _, members in pools for _ in range(members)]
    return [mean + offset for mean, offset in zip(means, offsets, strict=False)]
