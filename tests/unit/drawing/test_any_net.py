"""Whatever the net, every format draws it and names every step."""

from __future__ import annotations

from itertools import combinations
from xml.etree import ElementTree

from hypothesis import given, settings
from hypothesis import strategies as st

from noetl.drawing import draw
from noetl.drawing.markup import for_dot, for_mermaid
from noetl.drawing.net import net_of, one_line
from noetl.drawing.text import columns
from noetl.model.playbook import Arc, Playbook, Router, Step, Task

from .test_svg import box_rects, of_class

WIDTH = 90
names = st.text(min_size=1, max_size=20).filter(lambda name: one_line(name).strip() == name != "" and "{{" not in name)
guards = st.one_of(st.booleans(), st.text(max_size=60), st.just("{{ event.name == 'step.failed' }}"))


@st.composite
def playbooks(draw_from: st.DrawFn) -> Playbook:
    steps = draw_from(st.lists(names, min_size=1, max_size=30, unique=True))
    arc = st.builds(Arc, step=st.sampled_from(steps), when=guards, delay=st.sampled_from([None, None, 5.0]))
    router = st.builds(Router, st.lists(arc, max_size=3).map(tuple), st.sampled_from(["exclusive", "inclusive"]))
    tasks = st.lists(st.builds(Task, label=st.text(max_size=12), kind=st.text(max_size=12)), max_size=2).map(tuple)
    net = tuple(Step(name, router=draw_from(router), tasks=draw_from(tasks)) for name in steps)
    final = draw_from(st.sampled_from([None, *steps]))
    return Playbook("any", "any", net, entry=draw_from(st.sampled_from(steps)), final=final)


@settings(deadline=None, max_examples=80)
@given(playbooks())
def test_every_format_names_every_step(book: Playbook) -> None:
    drawn = draw(book, "text", width=WIDTH)
    assert all(columns(line) <= WIDTH for line in drawn.splitlines())
    mermaid, dot = draw(book, "mermaid"), draw(book, "dot")
    for step in book.steps:
        assert step.name in drawn
        assert for_mermaid(step.name) in mermaid
        assert for_dot(step.name) in dot


@settings(deadline=None, max_examples=80)
@given(playbooks())
def test_svg_has_every_box_and_arc_and_boxes_keep_apart(book: Playbook) -> None:
    root = ElementTree.fromstring(draw(book, "svg"))
    assert [each.get("data-step") for each in of_class(root, "g", "step")] == [step.name for step in book.steps]
    assert len(of_class(root, "path", "arc")) == len(net_of(book).edges)
    for a, b in combinations(box_rects(root), 2):
        assert a[2] <= b[0] or b[2] <= a[0] or a[3] <= b[1] or b[3] <= a[1]
