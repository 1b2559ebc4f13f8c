"""The checks of whole nets: what they find, against the definition, and how their work grows."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

import pytest
from tests.table import for_each

from noetl.dsl.checks import net
from noetl.dsl.compile import load
from noetl.dsl.graph import DirectedGraph
from noetl.expression import nodes
from noetl.expression.template import Template
from noetl.model.playbook import Playbook
from noetl.tools.registry import KINDS

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: x, path: x}\nworkflow:\n"


def playbook(steps: str) -> Playbook:
    return load("x.yaml", (HEAD + steps).encode(), KINDS).require()


def random_net(seed: int) -> Playbook:
    choose = random.Random(seed)
    count = choose.randint(2, 12)
    text = ""
    for number in range(count):
        spec = choose.choice(["", "", "spec: {join: all}, "])
        arcs = ", ".join(f"{{step: s{choose.randrange(count)}}}" for _ in range(choose.choice([0, 1, 2, 2, 3, 4])))
        mode = choose.choice(["inclusive", "inclusive", "exclusive"])
        leads = f", next: {{spec: {{mode: {mode}}}, arcs: [{arcs}]}}" if arcs else ""
        text += f"- {{step: s{number}, {spec}tool: {{kind: noop}}{leads}}}\n"
    return playbook(text)


def problems_in(book: Playbook) -> list[tuple[str, str]]:
    """The steps where tokens may meet, with the message."""
    findings: list[tuple[str, str]] = []

    def report(check: net.Check, place: str, message: str, hint: str | None, path: Sequence[str]) -> None:
        if check is net.MEETING:
            findings.append((place, message))

    net.check(book, set(), report)
    return findings


def meetings(book: Playbook) -> Iterator[tuple[str, str, str]]:
    """The definition, by brute force: a step where two branches of a fork arrive from steps of their own."""
    after = {step.name: [arc.step for arc in step.router.arcs] for step in book.steps}
    joins = {step.name for step in book.steps if step.join == "all"}
    told = set(joins)

    def reach(name: str) -> set[str]:
        seen, todo = {name}, [name]
        for one in todo:
            fresh = [to for to in (() if one in joins else after[one]) if to not in seen]
            seen.update(fresh)
            todo += fresh
        return seen

    for step in book.steps:
        if step.router.mode != "inclusive":
            continue
        targets = after[step.name]
        branches = list(dict.fromkeys(targets))
        reached = {branch: reach(branch) for branch in branches}
        times = {name: sum(name in steps for steps in reached.values()) for name in after}
        for name in branches:
            if targets.count(name) > 1 and name not in told:
                told.add(name)
                yield name, name, name
        for name in after:
            arriving = [
                branch
                for branch in branches
                if branch == name
                or any(
                    name in after[source] and source not in joins
                    for source in reached[branch]
                    if times[source] == 1 or source == branch
                )
            ]
            if times[name] > 1 and len(arriving) > 1 and name not in told:
                told.add(name)
                yield name, arriving[0], arriving[1]


@for_each("seed", range(300))
def test_meetings_are_those_of_the_definition(seed: int) -> None:
    book = random_net(seed)
    expected = list(meetings(book))
    actual = problems_in(book)
    assert sorted(name for name, _ in actual) == sorted(name for name, _, _ in expected)
    messages = dict(actual)
    for name, left, right in expected:
        assert f" → {left}" in messages[name]
        assert f" → {right}" in messages[name].rpartition(" and ")[2]


def bipartite(count: int) -> str:
    """Every step of one half leads to all of the other."""
    arcs = ", ".join(f"{{step: b{number}}}" for number in range(count))
    left = "".join(f"- {{step: a{i}, next: {{spec: {{mode: inclusive}}, arcs: [{arcs}]}}}}\n" for i in range(count))
    return left + "".join(f"- {{step: b{i}, next: {{arcs: [{{step: a{(i + 1) % count}}}]}}}}\n" for i in range(count))


def into_chain(count: int) -> str:
    """One step leads to every step of a chain."""
    arcs = ", ".join(f"{{step: s{number}}}" for number in range(count))
    start = f"- {{step: start, next: {{spec: {{mode: inclusive}}, arcs: [{arcs}]}}}}\n"
    return (
        start
        + "".join(f"- {{step: s{i}, next: {{arcs: [{{step: s{i + 1}}}]}}}}\n" for i in range(count - 1))
        + (f"- {{step: s{count - 1}, tool: {{kind: noop}}}}\n")
    )


def comb(count: int) -> str:
    """Two chains that meet at every tooth."""
    start = "- {step: start, next: {spec: {mode: inclusive}, arcs: [{step: c0}, {step: d0}]}}\n"
    chains = "".join(
        f"- {{step: {side}{i}, next: {{arcs: [{{step: x{i}, when: '{{{{ ctx.a }}}}'}}, {{step: {side}{i + 1}}}]}}}}\n"
        for side in "cd"
        for i in range(count)
    )
    teeth = "".join(f"- {{step: {side}{count}, tool: {{kind: noop}}}}\n" for side in "cd")
    return start + chains + teeth + "".join(f"- {{step: x{i}, tool: {{kind: noop}}}}\n" for i in range(count))


@pytest.mark.parametrize("make", [bipartite, into_chain, comb])
def test_work_grows_with_the_text(make: object, monkeypatch: pytest.MonkeyPatch) -> None:
    steps = 0
    among, ways = DirectedGraph.among, DirectedGraph.ways

    def counted(self: DirectedGraph, bits: int) -> Iterator[str]:
        nonlocal steps
        for name in among(self, bits):
            steps += 1
            yield name

    def counted_ways(self: DirectedGraph, start: str, through: int) -> dict[str, str]:
        nonlocal steps
        came = ways(self, start, through)
        steps += len(came)
        return came

    monkeypatch.setattr(DirectedGraph, "among", counted)
    monkeypatch.setattr(DirectedGraph, "ways", counted_ways)
    work = []
    for count in (20, 80):
        book = playbook(make(count))  # type: ignore[operator]
        steps = 0
        problems_in(book)
        arcs = sum(len(step.router.arcs) for step in book.steps)
        work.append((steps + 1) / arcs)
    assert work[1] < 3 * work[0] + 3


def test_parts_of_a_template_are_not_compared_with_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """Comparing two nodes walks both: a template of 65,400 characters took 43 s."""

    def refuse(self: nodes.Node, other: object) -> bool:
        raise AssertionError("nodes are compared by what is in them")

    monkeypatch.setattr(nodes.Node, "__eq__", refuse)
    for ends in (" ", "\n", "\r\n", "\r"):
        template = Template(f"{{{{1}}}}{ends}" * 50)
        assert template.evaluate({}) == ("1" + ends.replace("\r\n", "\n").replace("\r", "\n")) * 50
    assert Template(" {{ 1 }}\r\n").evaluate({}) == 1
