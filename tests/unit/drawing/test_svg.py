from __future__ import annotations

from itertools import combinations
from xml.etree import ElementTree

import pytest

from noetl.drawing import draw
from noetl.drawing.net import net_of, one_line
from noetl.model.playbook import Playbook

from .nets import CYCLE, FAN, HOSTILE, HOSTILE_NET, LONG_GUARD, MIXED, POLL

NS = "{http://www.w3.org/2000/svg}"
Rect = tuple[float, float, float, float]


def parsed(book: Playbook) -> ElementTree.Element:
    return ElementTree.fromstring(draw(book, "svg"))


def of_class(root: ElementTree.Element, tag: str, name: str) -> list[ElementTree.Element]:
    return [each for each in root.iter(NS + tag) if each.get("class") == name]


def box_rects(root: ElementTree.Element) -> list[Rect]:
    def number(each: ElementTree.Element, key: str) -> float:
        return float(each.get(key, "nan"))

    sides = [[number(each, key) for key in ("x", "y", "width", "height")] for each in of_class(root, "rect", "box")]
    return [(x, y, x + width, y + height) for x, y, width, height in sides]


def points(path: ElementTree.Element) -> list[tuple[float, float]]:
    """The points a path goes through, without its control points."""
    words = path.get("d", "").replace("M", " ").replace("C", " C ").replace("L", " ").split()
    kept: list[str] = []
    skip = 0
    for word in words:
        if word == "C":
            skip = 2
        elif skip:
            skip -= 1
        else:
            kept.append(word)
    return [(float(x), float(y)) for x, y in (word.split(",") for word in kept)]


def test_one_box_per_node_and_one_path_per_edge(any_playbook: Playbook) -> None:
    root, net = parsed(any_playbook), net_of(any_playbook)
    assert [each.get("data-step") for each in of_class(root, "g", "step")] == [node.name for node in net.nodes]
    assert len(of_class(root, "rect", "box")) == len(net.nodes)
    assert len(of_class(root, "path", "arc")) == len(net.edges)


def test_boxes_do_not_overlap_and_lie_on_the_paper(any_playbook: Playbook) -> None:
    root = parsed(any_playbook)
    rects = box_rects(root)
    for a, b in combinations(rects, 2):
        assert a[2] <= b[0] or b[2] <= a[0] or a[3] <= b[1] or b[3] <= a[1]
    width, height = float(root.get("width", "0")), float(root.get("height", "0"))
    assert all(x0 >= 0 and y0 >= 0 and x1 <= width and y1 <= height for x0, y0, x1, y1 in rects)


def test_lines_run_from_border_to_border_and_through_no_box(any_playbook: Playbook) -> None:
    root = parsed(any_playbook)
    for path in of_class(root, "path", "arc"):
        for x, y in points(path):
            assert not any(x0 + 1 < x < x1 - 1 and y0 + 1 < y < y1 - 1 for x0, y0, x1, y1 in box_rects(root))


def test_back_edge_points_upwards() -> None:
    paths = of_class(parsed(CYCLE), "path", "arc")
    back = next(path for path in paths if "decide → fetch" in "".join(path.itertext()))
    assert points(back)[0][1] > points(back)[-1][1]


def test_own_loop_starts_and_ends_at_the_right_side() -> None:
    root = parsed(POLL)
    start, end = points(of_class(root, "path", "arc")[0])
    right = box_rects(root)[0][2]
    assert start[0] == end[0] == pytest.approx(right, abs=0.2)


def test_fan_out_leaves_from_one_point() -> None:
    starts = {points(path)[0] for path in of_class(parsed(FAN), "path", "arc")[:3]}
    assert len(starts) == 1


def test_failure_is_dashed_and_the_entry_marked() -> None:
    root = parsed(MIXED)
    dashed = [path for path in of_class(root, "path", "arc") if path.get("stroke-dasharray")]
    assert ["extract → quarantine" in "".join(path.itertext()) for path in dashed] == [True]
    assert len(of_class(root, "g", "entry")) == 1


def test_full_guard_is_a_tooltip_and_a_short_one_is_written() -> None:
    root = parsed(MIXED)
    full = LONG_GUARD.strip("{} ")
    assert any(full in (title.text or "") for title in root.iter(NS + "title"))
    written = [text.text or "" for text in of_class(root, "text", "guard")]
    assert full not in written
    assert any(text.endswith("…") for text in written)


def test_hostile_text_stays_text() -> None:
    root = parsed(HOSTILE_NET)
    assert not list(root.iter(NS + "script"))
    assert of_class(root, "g", "step")[0].get("data-step") == one_line(HOSTILE)
    assert "</svg>" in "".join(root.itertext())


def test_it_stands_alone_and_has_a_name() -> None:
    drawn = draw(MIXED, "svg")
    assert "href" not in drawn
    assert "<style" not in drawn
    root = ElementTree.fromstring(drawn)
    assert root.get("role") == "img"
    assert root.get("aria-label") == "Playbook demo"
    assert root.findtext(NS + "title") == "demo"
