"""The graph as data: the same places as in the SVG."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path
from xml.etree import ElementTree

import msgspec
import pytest

from noetl.drawing import draw
from noetl.drawing.geometry import RUN_ROW, STATUS
from noetl.drawing.graph import Graph, GraphNode, graph_of
from noetl.drawing.net import net_of
from noetl.dsl.compile import load
from noetl.model.playbook import Playbook
from noetl.tools.registry import KINDS

from .nets import CLASSIC, CYCLE, FAN, POLL
from .test_svg import box_rects, of_class

EXAMPLES = Path(__file__).parents[3] / "examples"
TEXT = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: lines, path: tests/lines}
workflow:
  - step: start
    desc: begins
    tool:
      - each:
          kind: iterator
          in: [1, 2]
          iterator: n
          tool:
            - inner: {kind: noop}
      - last: {kind: noop}
    next:
      arcs:
        - {step: other, when: "{{ ctx.ready }}"}
        - step: start
  - step: other
    loop: {in: [1], iterator: item}
    tool: {kind: noop}
"""


def graph_of_text(text: str, **more: bool) -> Graph:
    loaded = load("lines.yaml", text, KINDS)
    return graph_of(loaded.require(), loaded.places, **more)


def rect(node: GraphNode) -> tuple[float, float, float, float]:
    return node.x, node.y, node.x + node.w, node.y + node.h


def test_boxes_and_lines_are_where_the_svg_has_them(any_playbook: Playbook) -> None:
    graph, root = graph_of(any_playbook, {}), ElementTree.fromstring(draw(any_playbook, "svg"))
    assert [rect(node) for node in graph.nodes] == [pytest.approx(box, abs=0.2) for box in box_rects(root)]
    assert [edge.path for edge in graph.edges] == [path.get("d") for path in of_class(root, "path", "arc")]
    width, height = float(root.get("width", "0")), float(root.get("height", "0"))
    assert (graph.width, graph.height) == pytest.approx((width, height), abs=0.6)
    labelled = [edge for edge in graph.edges if edge.label]
    texts = of_class(root, "text", "guard")
    assert [edge.label for edge in labelled] == [text.text for text in texts]
    assert [edge.label_x for edge in labelled] == [pytest.approx(float(text.get("x", "0"))) for text in texts]


def test_edges_name_their_nodes_by_index(any_playbook: Playbook) -> None:
    graph, net = graph_of(any_playbook, {}), net_of(any_playbook)
    assert [(edge.source, edge.target) for edge in graph.edges] == [(edge.source, edge.target) for edge in net.edges]
    assert [node.name for node in graph.nodes] == [node.name for node in net.nodes]


def test_a_row_for_runs_makes_every_box_of_a_step_higher_by_the_same(any_playbook: Playbook) -> None:
    plain, with_row = graph_of(any_playbook, {}), graph_of(any_playbook, {}, run_row=True)
    pairs = list(zip(plain.nodes, with_row.nodes, strict=True))
    assert {(node.role == "step", round(wide.h - node.h)) for node, wide in pairs} <= {(True, RUN_ROW), (False, 0)}
    for a, b in combinations(map(rect, with_row.nodes), 2):
        assert a[2] <= b[0] or b[2] <= a[0] or a[3] <= b[1] or b[3] <= a[1]


def test_a_row_for_runs_comes_with_room_for_an_icon_beside_the_name() -> None:
    long = TEXT.replace("step: start", "step: a_step_whose_name_is_wider_than_its_tasks")
    plain, with_row = graph_of_text(long).nodes[0], graph_of_text(long, run_row=True).nodes[0]
    assert with_row.w == plain.w + STATUS


def test_parts_have_the_lines_of_the_text() -> None:
    graph = graph_of_text(TEXT)
    start, other = graph.nodes
    assert (start.line, other.line, start.description) == (5, 19, "begins")
    assert [(task.label, task.kind, task.depth, task.line) for task in start.tasks] == [
        ("each", "iterator", 0, 9),
        ("inner", "noop", 1, 13),
        ("last", "noop", 0, 14),
    ]
    assert [(edge.arc, edge.guard, edge.line) for edge in graph.edges] == [(0, "ctx.ready", 17), (1, "else", 18)]
    assert [badge.kind for badge in other.badges] == ["loop"]


def test_every_part_of_every_example_has_a_line() -> None:
    for file in EXAMPLES.glob("*.yaml"):
        loaded = load(file.name, file.read_bytes(), KINDS)
        graph = graph_of(loaded.require(), loaded.places)
        steps = [node for node in graph.nodes if node.role == "step"]
        parts = [*steps, *(task for node in steps for task in node.tasks if task.kind), *graph.edges]
        assert [part for part in parts if not part.line] == [], file.name


def test_lines_that_lead_back_are_reversed_and_own_loops_are_not() -> None:
    assert [edge.reversed for edge in graph_of(CYCLE, {}).edges].count(True) == 1
    assert any(edge.source == edge.target for edge in graph_of(POLL, {}).edges)


def test_the_next_of_a_classic_branch_has_no_number() -> None:
    assert [edge.arc for edge in graph_of(CLASSIC, {}).edges][:3] == [-1, -1, -1]


def test_a_fan_out_is_a_flag_and_not_a_badge() -> None:
    first = graph_of(FAN, {}).nodes[0]
    assert first.inclusive
    assert "route" not in {badge.kind for badge in first.badges}


def test_the_json_format_is_the_graph() -> None:
    loaded = load("lines.yaml", TEXT, KINDS)
    printed = draw(loaded.require(), "json", places=loaded.places)
    assert msgspec.json.decode(printed, type=Graph) == graph_of_text(TEXT)
