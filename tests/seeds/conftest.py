"""Helpers for the tests that go through the five seeds section by section.

A text says itself what the validator has to find: a comment such as `# NTL308` stands at the end of each line that
gets a problem with that code. What is not marked must not be found, and what is marked must be.
"""

from __future__ import annotations

import re
from textwrap import dedent, indent

from noetl.dsl.compile import Loaded, load
from noetl.dsl.migrate import migrate
from noetl.dsl.problem import Problem
from noetl.model.playbook import Playbook, Rule, Step, Task
from noetl.tools.registry import KINDS

HEAD = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: fragment, path: seeds/fragment}
"""


def playbook(workflow: str, *, root: str = "", ends: str = "") -> str:
    """A whole playbook around the steps of a fragment.

    `root` holds further root sections, `ends` names steps that are only there to be arrived at.
    """
    steps = dedent(workflow) + "".join(f"- step: {name}\n  tool: {{kind: noop}}\n" for name in ends.split())
    return f"{HEAD}{dedent(root)}workflow:\n{indent(steps, '  ')}"


def pipeline(tasks: str, *, root: str = "") -> str:
    """A playbook whose only step, `work`, has these tasks."""
    return playbook(f"- step: work\n  tool:\n{indent(dedent(tasks), '    ')}", root=root)


def policy(rules: str, *, root: str = "") -> str:
    """A playbook with one http task, `call`, whose policy has these rules."""
    task = '- call:\n    kind: http\n    url: "https://svc.test"\n    spec:\n      policy:\n        rules:\n'
    return pipeline(f"{task}{indent(dedent(rules), '          ')}", root=root)


def compiled(text: str) -> Playbook:
    """The playbook, which has no errors and exactly the warnings its comments name."""
    return checked(text).require()


def rewritten(text: str) -> Playbook:
    """The playbook that a classic one becomes in the canonical dialect, where every step of it has a spelling there."""
    checked(text)
    migration = migrate("seed.yaml", dedent(text), KINDS)
    assert migration.leftovers == []
    return load("seed.yaml", migration.text, KINDS).require()


def refused(text: str) -> list[Problem]:
    """The errors of a text that does not compile; problems are exactly those its comments name."""
    loaded = checked(text)
    assert loaded.playbook is None, "expected to be refused"
    return [problem for problem in loaded.problems if problem.severity == "error"]


def refused_once(text: str) -> Problem:
    """The only error of a text."""
    (problem,) = refused(text)
    return problem


def checked(text: str) -> Loaded:
    """What became of a text, whose comments name every problem."""
    text = dedent(text)
    loaded = load("seed.yaml", text, KINDS)
    result = sorted((problem.line, problem.code) for problem in loaded.problems)
    assert result == _announced(text), "\n".join(f"{problem} | {problem.hint}" for problem in loaded.problems)
    return loaded


def _announced(text: str) -> list[tuple[int, str]]:
    marks = []
    for number, line in enumerate(text.splitlines(), start=1):
        for comment in re.findall(r"#(.*)$", line):
            marks += [(number, code) for code in re.findall(r"NTL\d{3}", comment)]
    return sorted(marks)


def task(book: Playbook, step: str, label: str = "task_1") -> Task:
    """The task of that label in a step's own pipeline."""
    return next(one for one in book.step(step).tasks if one.label == label)


def labels(step: Step) -> list[str]:
    """The labels of a step's pipeline."""
    return [one.label for one in step.tasks]


def arcs(step: Step) -> list[tuple[str, bool | str]]:
    """Target and guard of each arc of a step."""
    return [(arc.step, arc.when) for arc in step.router.arcs]


def rules(one: Task) -> tuple[Rule, ...]:
    """The rules of a task that has a policy."""
    assert one.policy is not None
    return one.policy


def directives(one: Task) -> list[tuple[bool | str | None, str]]:
    """Guard and directive of each rule of a task; the guard of `else` is None."""
    return [(rule.when, rule.then.do) for rule in rules(one)]
