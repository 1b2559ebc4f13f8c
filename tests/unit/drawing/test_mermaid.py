from __future__ import annotations

import re

from noetl.drawing import draw
from noetl.drawing.net import net_of
from noetl.model.playbook import Playbook

from .nets import BRANCH, HOSTILE_NET, MIXED


def test_every_node_and_edge_is_there(any_playbook: Playbook) -> None:
    lines, net = draw(any_playbook, "mermaid").splitlines(), net_of(any_playbook)
    assert lines[0] == "flowchart TD"
    nodes = [line for line in lines if re.match(r"  n\d+[\[(]", line)]
    edges = [match.groups() for line in lines if (match := re.match(r"  n(\d+) -.*> ?(?:\|.*\| )?n(\d+)$", line))]
    assert len(nodes) == len(net.nodes)
    assert edges == [(str(edge.source), str(edge.target)) for edge in net.edges]


def test_small_drawing() -> None:
    assert (
        draw(BRANCH, "mermaid")
        == """\
flowchart TD
  n0["<b>fetch</b><br/>get · http"]
  n1["<b>big</b>"]
  n2["<b>small</b>"]
  n3["<b>alert</b>"]
  n4["<b>done</b>"]
  n0 -->|"n #62; 9"| n1
  n0 -.->|"event.name == 'step.failed'"| n3
  n0 -->|"else"| n2
  n1 --> n4
  n2 --> n4
  entry(( )) --> n0
  style entry fill:#334155,stroke:#334155
  linkStyle 1 stroke:#dc2626,color:#dc2626
"""
    )


def test_badges_and_the_final_shape() -> None:
    drawn = draw(MIXED, "mermaid")
    assert "<i>loop parallel ×8 · timeout 5m</i>" in drawn
    assert '[["<b>cleanup</b>' in drawn


def test_hostile_text_cannot_leave_its_quotes() -> None:
    for line in draw(HOSTILE_NET, "mermaid").splitlines():
        said = re.findall(r'"([^"]*)"', line)
        assert line.count('"') in (0, 2)
        for text in said:
            without_ours = re.sub(r"</?[bi]>|<br/>|#\d+;", "", text)
            assert not set(without_ours) & set('"#&<>|[](){}`;\\')
