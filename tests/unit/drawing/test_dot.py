from __future__ import annotations

import re

from noetl.drawing import draw
from noetl.drawing.net import net_of
from noetl.model.playbook import Playbook

from .nets import BRANCH, HOSTILE_NET, MIXED

QUOTED = r'"(?:[^"\\]|\\.)*"'


def test_every_node_and_edge_is_there(any_playbook: Playbook) -> None:
    drawn, net = draw(any_playbook, "dot"), net_of(any_playbook)
    assert len(re.findall(r"^  n\d+ \[label=", drawn, re.M)) == len(net.nodes)
    edges = re.findall(r"^  n(\d+) -> n(\d+) \[", drawn, re.M)
    assert edges == [(str(edge.source), str(edge.target)) for edge in net.edges]


def test_nothing_but_plain_words_is_left_outside_quotes(any_playbook: Playbook) -> None:
    outside = re.sub(QUOTED, "", draw(any_playbook, "dot"))
    assert set(re.sub(r"[\w\s=,;\[\]{}.>-]", "", outside)) == set()


def test_labels_and_styles() -> None:
    drawn = draw(BRANCH, "dot")
    assert r'n0 [label="fetch\nget · http\l"];' in drawn
    assert 'n0 -> n1 [label="n > 9"' in drawn
    assert re.search(r"n0 -> n3 .*style=dashed", drawn)
    assert "entry -> n0;" in drawn
    assert "peripheries=2" in draw(MIXED, "dot")


def test_escapes_of_graphviz_are_disarmed() -> None:
    drawn = draw(HOSTILE_NET, "dot")
    assert r"\\N" in drawn
    assert "&amp;" in drawn
