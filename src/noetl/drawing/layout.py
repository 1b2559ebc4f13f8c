"""Layered layout: who stands in which row, in which order, and where.

The idea is Sugiyama's, in four steps, each cheap and each blind to the format it serves:

1. **Turn.** A walk from the entry finds the edges that lead back to a node still being walked; seen the
   other way round, they leave a net without cycles.
2. **Layer.** A node stands one row below the lowest node that leads to it. Rows of boxes get the even
   numbers; in between, each odd row has one *pass* per edge that crosses it. An edge over several rows gets
   a pass in each, so lines have columns of their own and never run through boxes, and an edge's label is
   simply a wide pass.
3. **Order.** Sweeps down and up sort each row by the mean place of its neighbours; the order with the
   fewest crossings is kept.
4. **Place.** Sweeps again, this time every item wants to stand straight below (then above) its neighbours.
   For one row the best answer is exact: least squares under minimum distances is an isotonic regression,
   solved by pooling neighbours that collide (`pushed_apart`). Last, passes of one edge move to one column
   where they can.

Work is linear in the number of items per sweep, and `PASSES` bounds that: the longest edges beyond it get
no passes and the format draws them as it can.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import inf
from typing import NamedTuple

from noetl.drawing.net import Edge, Net

PASSES = 12_000
ORDER_SWEEPS = 6
PLACE_SWEEPS = 6


class Extent(NamedTuple):
    """How far an item reaches to either side of the line through it."""

    left: float
    right: float


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


@dataclass(frozen=True, slots=True)
class Layout:
    """`rows` lists items from left to right; item n of the first ones is the box of node n.

    `chains` has, for each edge, its items from the upper box to the lower; None for an edge without a place:
    from a node to itself, turned and not asked for, or too long.
    """

    items: list[Item]
    rows: list[list[int]]
    chains: list[list[int] | None]
    turned: list[bool]


def lay_out(
    net: Net,
    boxes: Sequence[Extent],
    labels: Sequence[Extent | None],
    *,
    gap: float,
    draw_turned: bool = True,
) -> Layout:
    """The layout of a net whose boxes and labels have the given extents."""
    turned, rank = turned_edges(net)
    level = levels(net, turned)
    items = [Item(2 * level[node], boxes[node], node=node) for node in range(len(net.nodes))]
    chains: list[list[int] | None] = [None] * len(net.edges)
    for number in edges_with_room(net, turned if not draw_turned else (), level):
        chains[number] = chain(items, number, net.edges[number], turned[number], labels[number])
    rows = ordered(items, rank, net)
    place(items, rows, gap)
    straighten_all(items, rows, chains, gap)
    shift(items)
    return Layout(items, rows, chains, turned)


def outgoing(net: Net) -> list[list[int]]:
    ways: list[list[int]] = [[] for _ in net.nodes]
    for number, edge in enumerate(net.edges):
        ways[edge.source].append(number)
    return ways


def turned_edges(net: Net) -> tuple[list[bool], list[int]]:
    """Which edges lead back in a depth-first walk from the entry, and when the walk met each node."""
    ways = outgoing(net)
    turned = [False] * len(net.edges)
    met = [-1] * len(net.nodes)
    walking = [False] * len(net.nodes)
    clock = 0
    for root in roots(net):
        if met[root] >= 0:
            continue
        met[root], walking[root], clock = clock, True, clock + 1
        path = [(root, iter(ways[root]))]
        while path:
            node, rest = path[-1]
            number = next(rest, None)
            if number is None:
                walking[node] = False
                path.pop()
                continue
            target = net.edges[number].target
            turned[number] = walking[target]
            if met[target] < 0:
                met[target], walking[target], clock = clock, True, clock + 1
                path.append((target, iter(ways[target])))
    return turned, met


def roots(net: Net) -> list[int]:
    """Where walks begin: the entry, then nodes nothing leads to, then the rest."""
    reached = {edge.target for edge in net.edges if edge.source != edge.target}
    nodes = range(len(net.nodes))
    first = [] if net.entry is None else [net.entry]
    return [*first, *(node for node in nodes if node not in reached), *nodes]


def ends(edge: Edge, turned: bool) -> tuple[int, int]:
    """Upper node and lower node."""
    return (edge.target, edge.source) if turned else (edge.source, edge.target)


def levels(net: Net, turned: Sequence[bool]) -> list[int]:
    """The longest way to each node; a final step that nothing leads to stands below all others."""
    below: list[list[int]] = [[] for _ in net.nodes]
    waiting = [0] * len(net.nodes)
    for edge, back in zip(net.edges, turned, strict=True):
        if edge.source != edge.target:
            upper, lower = ends(edge, back)
            below[upper].append(lower)
            waiting[lower] += 1
    alone = [node.final and not below[place] and not waiting[place] for place, node in enumerate(net.nodes)]
    level = [0] * len(net.nodes)
    ready = [node for node, count in enumerate(waiting) if count == 0]
    while ready:
        node = ready.pop()
        for lower in below[node]:
            level[lower] = max(level[lower], level[node] + 1)
            waiting[lower] -= 1
            if waiting[lower] == 0:
                ready.append(lower)
    bottom = max((each for each, single in zip(level, alone, strict=True) if not single), default=-1) + 1
    return [bottom if single else each for each, single in zip(level, alone, strict=True)]


def edges_with_room(net: Net, left_out: Sequence[bool], level: Sequence[int]) -> list[int]:
    """The edges that get passes, in their order: all but the longest beyond `PASSES`."""

    def span(number: int) -> int:
        edge = net.edges[number]
        return 2 * abs(level[edge.target] - level[edge.source])

    shown = [number for number in range(len(net.edges)) if not (left_out and left_out[number])]
    wanted = [number for number in shown if span(number)]
    room = PASSES
    kept = []
    for number in sorted(wanted, key=span):
        room -= span(number)
        if room < 0:
            break
        kept.append(number)
    return sorted(kept)


def chain(items: list[Item], number: int, edge: Edge, turned: bool, label: Extent | None) -> list[int]:
    """Adds the passes of an edge and links them; its label stands next to the node it leaves."""
    upper, lower = ends(edge, turned)
    first, last = items[upper].row + 1, items[lower].row - 1
    label_row = last if turned else first
    way = [upper]
    for row in range(first, last + 1):
        shown = label if row == label_row else None
        items.append(Item(row, shown or Extent(0, 0), edge=number, labelled=shown is not None))
        way.append(len(items) - 1)
    way.append(lower)
    for above, under in pairwise(way):
        items[above].down.append(under)
        items[under].up.append(above)
    return way


# --- order --------------------------------------------------------------------------------------------------


def ordered(items: Sequence[Item], rank: Sequence[int], net: Net) -> list[list[int]]:
    """Rows of items in the order with the fewest crossings that a few sweeps find."""
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
        if (found := crossings(items, rows)) < fewest:
            best, fewest = [list(row) for row in rows], found
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
        seen: list[int] = []
        for number in upper:
            targets = sorted(slot[under] for under in items[number].down)
            total += sum(len(seen) - bisect_right(seen, target) for target in targets)
            for target in targets:
                insort(seen, target)
    return total


# --- place --------------------------------------------------------------------------------------------------


def place(items: Sequence[Item], rows: Sequence[Sequence[int]], gap: float) -> None:
    """Gives every item its x, the leftmost reach at 0."""
    for row in rows:
        align(items, row, gap, lambda item: [])
    for _ in range(PLACE_SWEEPS):
        for row in rows[1:]:
            align(items, row, gap, lambda item: item.up)
        for row in rows[-2::-1]:
            align(items, row, gap, lambda item: item.down)
    for row in rows:
        align(items, row, gap, lambda item: item.up + item.down)


def shift(items: Sequence[Item]) -> None:
    edge = min((item.x - item.extent.left for item in items), default=0.0)
    for item in items:
        item.x -= edge


def straighten_all(
    items: Sequence[Item], rows: Sequence[Sequence[int]], chains: Sequence[list[int] | None], gap: float
) -> None:
    slot = {number: place_in_row for row in rows for place_in_row, number in enumerate(row)}

    def free(number: int) -> tuple[float, float]:
        return room(items, rows[items[number].row], slot[number], gap)

    for way in chains:
        if way is not None:
            straighten(items, way[1:-1], free)


def straighten(items: Sequence[Item], passes: Sequence[int], free: Callable[[int], tuple[float, float]]) -> None:
    """Puts passes of one edge on one column, as many in a row as the items beside them allow."""
    run: list[int] = []
    low, high = -inf, inf
    for number in passes:
        left, right = free(number)
        if run and max(low, left) > min(high, right):
            on_one_column(items, run, low, high)
            run, low, high = [], -inf, inf
        run.append(number)
        low, high = max(low, left), min(high, right)
    on_one_column(items, run, low, high)


def room(items: Sequence[Item], row: Sequence[int], slot: int, gap: float) -> tuple[float, float]:
    """Between which places an item can move while its neighbours stay."""
    item, low, high = items[row[slot]], -inf, inf
    if slot:
        before = items[row[slot - 1]]
        low = before.x + before.extent.right + gap + item.extent.left
    if slot + 1 < len(row):
        after = items[row[slot + 1]]
        high = after.x - after.extent.left - gap - item.extent.right
    return low, max(low, high)


def on_one_column(items: Sequence[Item], run: Sequence[int], low: float, high: float) -> None:
    if run:
        x = min(max(sum(items[number].x for number in run) / len(run), low), high)
        for number in run:
            items[number].x = x


def align(items: Sequence[Item], row: Sequence[int], gap: float, near: Callable[[Item], list[int]]) -> None:
    wanted, weights = [], []
    for number in row:
        item = items[number]
        pulls = [(items[other].x, pull(item, items[other])) for other in near(item)]
        weight = sum(force for _, force in pulls)
        wanted.append(sum(x * force for x, force in pulls) / weight if weight else item.x)
        weights.append(weight or 0.1)
    for number, x in zip(row, pushed_apart(wanted, weights, distances(items, row, gap)), strict=True):
        items[number].x = x


def pull(one: Item, other: Item) -> float:
    """Lines between two passes should be the straightest, those between boxes need it least."""
    return (1.0, 2.0, 8.0)[(one.node is None) + (other.node is None)]


def distances(items: Sequence[Item], row: Sequence[int], gap: float) -> list[float]:
    return [items[a].extent.right + gap + items[b].extent.left for a, b in pairwise(row)]


def pushed_apart(wanted: Sequence[float], weights: Sequence[float], least: Sequence[float]) -> list[float]:
    """The places nearest to the wanted ones, by weighted squares, that keep order and least distances."""
    offset, offsets = 0.0, [0.0]
    for distance in least:
        offset += distance
        offsets.append(offset)
    pools: list[tuple[float, float, int]] = []  # mean, weight, members
    for want, weight, offset in zip(wanted, weights, offsets, strict=False):
        mean, members = want - offset, 1
        while pools and pools[-1][0] >= mean:
            other, other_weight, count = pools.pop()
            mean = (mean * weight + other * other_weight) / (weight + other_weight)
            weight, members = weight + other_weight, members + count
        pools.append((mean, weight, members))
    means = [mean for mean, _, members in pools for _ in range(members)]
    return [mean + offset for mean, offset in zip(means, offsets, strict=False)]
