"""A playbook's graph as data, for programs that draw it: where each box and line is, in the units of the SVG."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import msgspec

from noetl.drawing.geometry import Geometry, badges_inside
from noetl.drawing.net import BadgeKind, DrawnNode, Edge, Role, net_of
from noetl.model.playbook import Playbook


class Place(Protocol):
    @property
    def line(self) -> int: ...


class GraphBadge(msgspec.Struct, frozen=True):
    """A mark of a step, such as its loop or its join. `title` explains it."""

    kind: BadgeKind
    text: str
    title: str


class GraphTask(msgspec.Struct, frozen=True):
    """A task of a step. `note` lists its jumps, `depth` counts the iterators around it."""

    label: str
    kind: str
    note: str
    depth: int
    line: int


class GraphNode(msgspec.Struct, frozen=True):
    """A box: a step, a target that does not exist, or the node of all computed targets. `line` is 0 without a place in
    the text."""

    name: str
    role: Role
    x: float
    y: float
    w: float
    h: float
    entry: bool
    final: bool
    inclusive: bool
    description: str
    line: int
    badges: list[GraphBadge]
    tasks: list[GraphTask]


class GraphEdge(msgspec.Struct, frozen=True):
    """A line between two boxes, by their indexes. `arc` is its number in the router of the source, or -1 for the `next`
    of a classic branch. `reversed` lines lead back up. `path` is the data of an SVG path, `label_x` and `label_y` the
    middle of the label."""

    source: int
    target: int
    arc: int
    guard: str
    label: str
    delay: float | None
    failure: bool
    reversed: bool
    path: str
    label_x: float
    label_y: float
    line: int


class Graph(msgspec.Struct, frozen=True):
    """The graph of a playbook, laid out."""

    name: str
    width: float
    height: float
    nodes: list[GraphNode]
    edges: list[GraphEdge]


def graph_of(playbook: Playbook, places: Mapping[str, Place], *, run_row: bool = False) -> Graph:
    """The graph. `places` has the parts of the text; with `run_row`, the box of a step has one more row."""
    net = net_of(playbook)
    geometry = Geometry(net, run_row=run_row)

    def line(place: str) -> int:
        return places[place].line if place in places else 0

    def drawn_node(number: int, node: DrawnNode) -> GraphNode:
        (x, y), box = geometry.corner(number), geometry.boxes[number]
        return GraphNode(
            name=node.name,
            role=node.role,
            x=_rounded(x),
            y=_rounded(y),
            w=_rounded(box.width),
            h=_rounded(box.height),
            entry=node.entry,
            final=node.final,
            inclusive=node.inclusive,
            description=node.desc,
            line=line(node.place),
            badges=[GraphBadge(badge.kind, badge.text, badge.title) for badge in badges_inside(node)],
            tasks=[GraphTask(task.label, task.kind, task.note, task.depth, line(task.place)) for task in node.tasks],
        )

    def drawn_edge(number: int, edge: Edge) -> GraphEdge:
        label_x, label_y = geometry.label_at(number)
        return GraphEdge(
            source=edge.source,
            target=edge.target,
            arc=edge.arc,
            guard=edge.guard,
            label=edge.label,
            delay=edge.delay,
            failure=edge.failure,
            reversed=geometry.layout.turned[number],
            path=geometry.path(number),
            label_x=_rounded(label_x),
            label_y=_rounded(label_y),
            line=line(edge.place),
        )

    return Graph(
        name=net.name,
        width=_rounded(geometry.width),
        height=_rounded(geometry.height),
        nodes=[drawn_node(number, node) for number, node in enumerate(net.nodes)],
        edges=[drawn_edge(number, edge) for number, edge in enumerate(net.edges)],
    )


def _rounded(number: float) -> float:
    return round(number, 1)
