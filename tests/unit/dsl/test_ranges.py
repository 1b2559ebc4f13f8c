"""Problems have the range they are about, the steps on their path, and a fix where the hint names one replacement."""

from __future__ import annotations

import pickle
from pathlib import Path

import msgspec
import pytest
import yaml

from noetl.dsl.compile import load
from noetl.dsl.problem import MAX_STEPS_ON_PATH, Problem, did_you_mean
from noetl.tools.registry import KINDS

TESTS = Path(__file__).parents[2]
HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: orders, path: shop/orders}\n"
MISTAKES = yaml.safe_load((TESTS / "mistakes" / "table.yaml").read_text(encoding="utf-8"))
TEXTS = [
    *(path.read_bytes().decode("utf-8", "replace") for path in sorted((TESTS / "checks").glob("*.bad.yaml"))),
    *(HEAD * (not row["text"].startswith("---")) + row["text"] for row in MISTAKES if row.get("text")),
]


def problems(text: str) -> list[Problem]:
    return load("playbook.yaml", text, KINDS).problems


def range_of(problem: Problem, text: str) -> str:
    assert problem.end_line == problem.line
    return text.split("\n")[problem.line - 1][problem.column - 1 : problem.end_column - 1]


def fixed(problem: Problem, text: str) -> str:
    assert problem.fix is not None
    lines = text.split("\n")
    line = lines[problem.line - 1]
    lines[problem.line - 1] = line[: problem.column - 1] + problem.fix.text + line[problem.end_column - 1 :]
    return "\n".join(lines)


def test_every_range_is_within_its_line() -> None:
    for text in TEXTS:
        for problem in problems(text):
            length = len(text.split("\n")[problem.line - 1])
            assert problem.end_line == problem.line
            assert problem.column <= problem.end_column <= max(length, 1) + 1, problem


def test_every_fix_removes_its_problem_and_adds_no_error() -> None:
    fixes = 0
    for text in TEXTS:
        before = problems(text)
        known = {(problem.code, problem.message) for problem in before}
        for problem in before:
            if problem.fix is None:
                continue
            fixes += 1
            after = problems(fixed(problem, text))
            assert (problem.line, problem.code, problem.message) not in {
                (one.line, one.code, one.message) for one in after
            }, problem
            new = [
                problem
                for problem in after
                if problem.severity == "error" and (problem.code, problem.message) not in known
            ]
            assert not [one for one in new if one.line == problem.line], (problem, problem.fix, new)
    assert fixes > 15


STEPS = """\
workload: {limit: 1}
workflow:
  - step: start
    %s
    next: {arcs: [{step: end, when: "{{ ctx.ready }}"}]}
  - step: end
    tool: {kind: noop, result: "{{ workload.limit }}"}
"""


@pytest.mark.parametrize(
    ("line", "source", "fix"),
    [
        ("tols: {kind: noop}", "tols", "tool"),
        ("tool: {kind: htp, url: http://x}", "htp", "http"),
        ("tool: {kind: bash, cmds: [ls]}", "bash", "shell"),
        ("tool: {kind: noop, result: '{{ ctx.redy }}', spec: {policy: {rules: [{else: {then: {do: continue, "
         "set_ctx: {ready: 1}}}}]}}}", "ctx.redy", "ctx.ready"),
        ("tool: {kind: noop, result: '{{ limt }}'}", "limt", "limit"),
        ("tool: {kind: noop, result: '{{ steps.strt.result.rows[0] }}'}", "steps.strt.result.rows[0]",
         "steps.start.result.rows[0]"),
        ("tool: {kind: noop, result: '{{ workload.limit | uper }}'}", "uper", "upper"),
        ("loop: {in: [1], iterator: n, spec: {mode: concurrent}}", "concurrent", "parallel"),
        ("loop: {in: [1], iterator: n, spec: {collect: yes}}", "yes", "true"),
        ("spec: {pool: 5}", "5", '"5"'),
        ("desc: {{ x }}", "{{ x }}", '"{{ x }}"'),
    ],
)  # fmt: skip
def test_a_hint_with_one_replacement_has_a_fix(line: str, source: str, fix: str) -> None:
    text = HEAD + STEPS % line
    problem = next(problem for problem in problems(text) if problem.fix is not None)
    assert (range_of(problem, text), problem.fix) == (source, msgspec.convert({"text": fix}, type(problem.fix)))


def test_a_condition_without_braces_is_fixed() -> None:
    text = HEAD + STEPS.replace('"{{ ctx.ready }}"', "ctx.ready") % "tool: {kind: noop}"
    problem = next(problem for problem in problems(text) if problem.code == "NTL504")
    assert problem.fix is not None
    assert (range_of(problem, text), problem.fix.text) == ("ctx.ready", '"{{ ctx.ready }}"')


@pytest.mark.parametrize(("word", "condition"), [("yes", "true"), ("Off", "false")])
def test_a_yaml_1_1_boolean_as_a_condition_is_fixed(word: str, condition: str) -> None:
    text = HEAD + STEPS.replace('"{{ ctx.ready }}"', word) % "tool: {kind: noop}"
    problem = next(problem for problem in problems(text) if problem.code == "NTL504")
    assert problem.fix is not None
    assert problem.fix.text == f'"{{{{ {condition} }}}}"'


def test_a_name_that_is_no_word_is_not_put_after_a_dot() -> None:
    hint = did_you_mean("load_data", ["load-data"])
    assert hint is not None
    assert hint.fix("steps.load_data") is None
    assert hint.fix("load_data") == "load-data"


def test_a_hint_is_sent_to_other_processes_as_text() -> None:
    hint = pickle.loads(pickle.dumps(did_you_mean("uper", ["upper"])))
    assert (type(hint), hint) == (str, "did you mean 'upper'?")


@pytest.mark.parametrize(
    ("code", "path"),
    [
        ("NTL402", ["never"]),
        ("NTL403", ["start", "left"]),
        ("NTL405", ["start", "left", "end", "right"]),
        ("NTL410", ["left", "right"]),
    ],
)
def test_problems_of_the_net_have_the_steps_on_their_path(code: str, path: list[str]) -> None:
    ways = {
        "NTL402": ("{arcs: [{step: left}]}", "{arcs: [{step: right}]}", "{arcs: [{step: end}]}"),
        "NTL403": ("{arcs: [{step: right}, {step: left}]}", "{arcs: [{step: end}]}", "{arcs: [{step: left}]}"),
        "NTL405": (
            "{spec: {mode: inclusive}, arcs: [{step: left}, {step: right}]}",
            "{arcs: [{step: end}]}",
            "{arcs: [{step: end}]}",
        ),
        "NTL410": ("{arcs: [{step: left}]}", "{arcs: [{step: right}]}", "{arcs: [{step: left}]}"),
    }[code]
    steps = "".join(
        f"  - {{step: {name}, next: {way}}}\n" for name, way in zip(("start", "left", "right"), ways, strict=True)
    )
    text = f"{HEAD}workflow:\n{steps}  - {{step: end, tool: {{kind: noop}}}}\n"
    if code == "NTL402":
        text += "  - {step: never, tool: {kind: noop}}\n"
    problem = next(problem for problem in problems(text) if problem.code == code)
    assert list(problem.path) == path


def test_a_long_path_keeps_its_ends() -> None:
    names = [f"s{number}" for number in range(200)]
    steps = "".join(
        f"  - {{step: {name}, next: {{arcs: [{{step: {names[(i + 1) % 200]}}}]}}}}\n" for i, name in enumerate(names)
    )
    problem = next(problem for problem in problems(f"{HEAD}workflow:\n{steps}") if problem.code == "NTL410")
    assert len(problem.path) == MAX_STEPS_ON_PATH
    assert (problem.path[0], problem.path[-1]) == ("s0", "s199")
