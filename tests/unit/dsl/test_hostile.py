"""Hostile playbooks: each ends soon with an answer, in little memory, and never with a crash.

The worst ones are read in a process of their own with 448 MiB of memory, far more than they need.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from itertools import chain, cycle
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from tests.servers import forked
from tests.servers.patience import PATIENCE_SECONDS
from tests.table import for_each, representatives

from noetl.dsl.compile import Loaded, load
from noetl.dsl.problem import MAX_PROBLEMS, Problem
from noetl.dsl.reader import MAX_BYTES, MAX_NODES, read
from noetl.dsl.tree import plain
from noetl.tools.registry import KINDS

from rich_playbooks import CANONICAL, CLASSIC  # isort: skip

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: a, path: a}\n"
LAST = "workflow: [{step: s, tool: {kind: noop}}]\n"
MEMORY = 448 << 20

CHILD = """
import json, sys
from noetl.dsl.compile import load
from noetl.tools.registry import KINDS
loaded = load("hostile.yaml", open(sys.argv[1], "rb").read(), KINDS)
errors = [problem for problem in loaded.problems if problem.severity == "error"]
assert (loaded.playbook is None) == bool(errors)
steps = len(loaded.playbook.steps) if loaded.playbook else None
codes = sorted({problem.code for problem in loaded.problems})
print(json.dumps({"steps": steps, "codes": codes, "problems": len(loaded.problems)}))
"""


class Answer(NamedTuple):
    """What the process of its own found."""

    steps: int | None
    codes: list[str]
    problems: int


class Apart:
    """Reads playbooks in a process with limits."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "hostile.yaml"

    def __call__(self, text: str | bytes) -> Answer:
        self.file.write_bytes(text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass"))
        done = forked.run([str(self.file)], code=CHILD, memory=MEMORY, timeout=PATIENCE_SECONDS)
        assert done.returncode == 0, done.stderr.decode()[-2000:]
        return Answer(**json.loads(done.stdout))


@pytest.fixture
def apart(tmp_path: Path) -> Apart:
    return Apart(tmp_path)


def judged(text: str | bytes) -> Loaded:
    """What became of a text. Every problem has a place inside it."""
    loaded = load("t.yaml", text, KINDS)
    assert (loaded.playbook is None) == any(problem.severity == "error" for problem in loaded.problems)
    if isinstance(text, str):
        lines = text.removeprefix("\ufeff").split("\n")
        for problem in loaded.problems:
            assert 1 <= problem.line <= len(lines), problem
            assert 1 <= problem.column <= len(lines[problem.line - 1]) + 1, problem
    return loaded


def only(text: str | bytes) -> Problem:
    (problem,) = judged(text).problems
    return problem


def workflow(steps: str) -> str:
    return f"{HEAD}workflow:\n{steps}"


# -- size and depth -------------------------------------------------------------------------------------------------


class TestSize:
    def test_one_mebibyte_is_read_and_one_byte_more_is_not(self) -> None:
        text = HEAD + LAST
        full = text + "#" * (MAX_BYTES - len(text))
        assert judged(full).playbook is not None
        assert only(full + "#").code == "NTL003"
        assert only((full + "#").encode()).code == "NTL003"

    def test_text_is_measured_in_bytes_not_characters(self) -> None:
        assert only("#" + "😀" * (MAX_BYTES // 4)).code == "NTL003"

    def test_a_ten_megabyte_scalar_is_refused_unread(self, apart: Apart) -> None:
        assert apart(b"a: " + b"x" * 10_000_000).codes == ["NTL003"]

    def test_scalars_of_almost_a_mebibyte_are_fine(self) -> None:
        loaded = judged(f"{HEAD}workload: {{a: {'x' * 1_000_000}}}\n{LAST}")
        assert len(loaded.require().workload["a"]) == 1_000_000

    def test_a_very_long_key_is_refused_in_few_words(self) -> None:
        problem = judged(f"{HEAD}{LAST}{'k' * 900_000}: 1\n").problems[0]
        assert len(problem.message) < 2000
        assert len(problem.source) <= 500

    def test_up_to_the_last_node_all_is_well(self) -> None:
        def text(items: int) -> str:
            return f"{HEAD}{LAST}workload: {{a: [{'1,' * items}]}}\n"

        used = sum(1 for _ in nodes(plain(read("t", text(0))[0])))
        assert judged(text(MAX_NODES - used)).playbook is not None
        assert only(text(MAX_NODES - used + 1)).code == "NTL003"


def nodes(value: Any) -> Iterator[Any]:
    """Every node of a document as the reader counts them, keys included."""
    yield value
    if isinstance(value, dict):
        yield from value
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from nodes(inner)


class TestDepth:
    @pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ("{a: ", "}")])
    def test_64_levels_are_read_and_65_are_not(self, opening: str, closing: str) -> None:
        def text(levels: int) -> str:
            inner = levels - 2  # the root and the scalar inside count too
            return f"a: {opening * inner}1{closing * inner}\n"

        assert read("t", text(64))[0] is not None
        root, problems = read("t", text(65))
        assert root is None
        assert problems.sorted()[0].code == "NTL003"

    def test_an_alias_adds_the_depth_of_its_anchor(self) -> None:
        deep = f"a: &a {'[' * 40}{']' * 40}\nb: {'[' * 30}*a{']' * 30}\n"
        assert only(deep).message == "nested more than 64 levels deep"

    @pytest.mark.parametrize("part", ["[", "{", "- ", "? ", "{a: ", "[{a: ", "&a [", "!!seq [", "- - a: "])
    def test_fifty_thousand_levels_are_refused(self, apart: Apart, part: str) -> None:
        assert apart(part * 50_000).codes in (["NTL003"], ["NTL002"])

    def test_deep_block_indentation_is_refused(self, apart: Apart) -> None:
        text = "".join(f"{' ' * i}a:\n" for i in range(1400))
        assert apart(text).codes == ["NTL003"]


class TestAliases:
    def test_the_billion_laughs_are_refused(self, apart: Apart) -> None:
        lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
        lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 20)]
        assert apart("\n".join(lines)).codes == ["NTL003"]

    def test_so_are_maps_that_merge_each_other(self, apart: Apart) -> None:
        lines = ["a0: &a0 {k0: 1, l0: 2}"]
        lines += [
            f"a{i}: &a{i} {{<<: [{', '.join([f'*a{i - 1}'] * 9)}], k{i}: *a{i - 1}, l{i}: *a{i - 1}}}"
            for i in range(1, 20)
        ]
        assert apart("\n".join(lines)).codes == ["NTL003"]

    def test_many_aliases_of_one_large_part_count_as_what_they_expand_to(self, apart: Apart) -> None:
        def text(times: int) -> str:
            return f"{HEAD}{LAST}workload:\n  a: &a [{'1,' * 222}]\n  b: [{'*a,' * times}]\n"

        assert apart(text(222)).steps == 1
        assert apart(text(226)).codes == ["NTL003"]

    def test_an_alias_used_everywhere_is_checked_and_built_at_each_place(self) -> None:
        steps = "".join(f"- {{step: s{i}, tool: *t, next: s{i + 1}}}\n" for i in range(50))
        text = (
            f"{HEAD}workload: {{t: &t {{kind: noop, retry: {{max_attempts: 2}}, args: {{a: 1}}}}}}\nworkflow:\n{steps}"
        )
        loaded = judged(f"{text}- step: s50\n")
        first, *others = loaded.require().steps[:50]
        assert all(step.tasks == first.tasks for step in others)

    def test_thousands_of_tag_directives_are_not_compared_with_each_other(self, apart: Apart) -> None:
        directives = "".join(f"%TAG !a{i}! x\n" for i in range(60_000))
        assert apart(f"{directives}---\n{HEAD}").codes == ["NTL009"]
        assert apart(f"{HEAD}...\n{directives}---\na: 1\n").codes == ["NTL009"]


# -- bytes that are no text -----------------------------------------------------------------------------------------


CONTROL = [0, 1, 7, 8, 11, 12, 14, 27, 31, 127, 128, 155, 159, 0xFFFE, 0xFFFF]


class TestEncoding:
    @for_each("char", list(map(chr, CONTROL)))
    @for_each("where", ["start", "comment", "key", "value", "end"])
    def test_control_characters_are_refused_where_they_stand(self, char: str, where: str) -> None:
        text = {
            "start": f"{char}a: 1\n",
            "comment": f"a: 1 # {char}\n",
            "key": f"a: 1\nb{char}: 2\n",
            "value": f"a:\n  - 'é{char}'\n",
            "end": f"a: 1\n{char}",
        }[where]
        problem = only(text)
        before = text[: text.index(char)]
        assert problem.code == "NTL001"
        assert (problem.line, problem.column) == (before.count("\n") + 1, len(before.rpartition("\n")[2]) + 1)
        assert f"U+{ord(char):04X}" in problem.message

    @pytest.mark.parametrize("number", [0xD800, 0xDFFF, 0xDC80])
    def test_lone_surrogates_are_refused(self, number: int) -> None:
        char = chr(number)
        assert only(f"a: '{char}'").code == "NTL001"
        assert only(f"a: '{char}'".encode("utf-8", "surrogatepass")).code == "NTL001"

    @pytest.mark.parametrize("bad", [b"\xff", b"\xc3", b"\xed\xa0\x80", b"\xf8\x88\x80\x80\x80", b"\xc0\xaf", b"\x80"])
    @pytest.mark.parametrize("before", ["", "a: ", "a: é\nb: 'x"])
    def test_invalid_utf8_is_refused_where_it_stands(self, bad: bytes, before: str) -> None:
        problem = only(before.encode() + bad + b"\nc: 1\n")
        assert problem.code == "NTL001"
        assert (problem.line, problem.column) == (before.count("\n") + 1, len(before.rpartition("\n")[2]) + 1)

    @pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32"])
    def test_other_encodings_are_refused(self, encoding: str) -> None:
        assert only((HEAD + LAST).encode(encoding)).code == "NTL001"

    def test_a_byte_order_mark_inside_the_text_is_no_crash(self) -> None:
        judged(f"{HEAD}\ufeff{LAST}")
        judged(f"\ufeff\ufeff{HEAD}{LAST}")

    @pytest.mark.parametrize("text", ["\r" * 1000, "\t", "\t\n\t", "\u2028", "\u0085" * 99, " \r\n \r", "\n" * 100_000])
    def test_blanks_alone_are_an_empty_or_broken_document(self, text: str) -> None:
        assert only(text).code in ("NTL002", "NTL007")


# -- large nets and pipelines ---------------------------------------------------------------------------------------

INCLUSIVE = "spec: {mode: inclusive}, "


def arcs(*steps: str) -> str:
    return f"arcs: [{', '.join(f'{{step: {step}}}' for step in steps)}]"


def fork(name: str, *steps: str) -> str:
    return f"- {{step: {name}, next: {{{INCLUSIVE}{arcs(*steps)}}}}}\n"


def link(name: str, *steps: str) -> str:
    return f"- {{step: {name}, next: {{{arcs(*steps)}}}}}\n"


def writer(name: str, *keys: str, to: str = "") -> str:
    patch = ", ".join(f"{key}: 1" for key in keys)
    rules = f"rules: [{{else: {{then: {{do: continue, set_ctx: {{{patch}}}}}}}}}]"
    after = f", next: {{{arcs(to)}}}" if to else ""
    return f"- {{step: {name}, tool: {{kind: noop, spec: {{policy: {{{rules}}}}}}}{after}}}\n"


NETS = {
    "a chain": "".join(link(f"s{i}", f"s{i + 1}") for i in range(4900)) + "- {step: s4900}\n",
    "a chain that nothing leads to": "- {step: start}\n"
    + "".join(f"- {{step: s{i}, next: s{i + 1}}}\n" for i in range(9900))
    + "- {step: s9900}\n",
    "one circle": "".join(link(f"s{i}", f"s{(i + 1) % 4900}") for i in range(4900)),
    "many small circles": "".join(link(f"s{i}", f"t{i}") + link(f"t{i}", f"s{i}") for i in range(2400)),
    "each to each": "".join(fork(f"s{i}", *(f"s{j}" for j in range(120))) for i in range(120)),
    "a chain of diamonds": "".join(
        fork(f"f{i}", f"a{i}", f"b{i}") + link(f"a{i}", f"f{i + 1}") + link(f"b{i}", f"f{i + 1}") for i in range(1200)
    )
    + "- {step: f1200}\n",
    "a chain of uneven diamonds": "".join(
        fork(f"f{i}", f"a{i}", f"b{i}")
        + link(f"a{i}", f"f{i + 1}")
        + link(f"b{i}", f"c{i}")
        + link(f"c{i}", f"f{i + 1}", f"f{min(i + 3, 900)}")
        for i in range(900)
    )
    + "- {step: f900}\n",
    "a comb": "".join(fork(f"f{i}", f"a{i}", f"f{i + 1}") + f"- {{step: a{i}}}\n" for i in range(1700))
    + "- {step: f1700}\n",
    "a comb that writes": "".join(fork(f"f{i}", f"a{i}", f"f{i + 1}") + writer(f"a{i}", "x", "y") for i in range(900))
    + "- {step: f900}\n",
    "forks that go on and back": "".join(fork(f"s{i}", f"s{i + 1}", f"s{max(i - 1, 0)}") for i in range(2000))
    + "- {step: s2000}\n",
    "many forks to the same two writers": "".join(
        link(f"e{i}", f"g{i}", f"e{i + 1}") + fork(f"g{i}", "p", "q") for i in range(1300)
    )
    + "- {step: e1300}\n"
    + writer("p", *(f"k{i}" for i in range(1500)), to="m")
    + writer("q", *(f"k{i}" for i in range(1500)), to="m")
    + "- {step: m}\n",
    "one fork to everything": fork("s", *(f"e{i}" for i in range(3500)))
    + "".join(link(f"e{i}", f"e{i * 7 % 3500}") for i in range(3500)),
    "args that pile up against the order": "".join(
        f"- {{step: s{i}, next: {{arcs: [{{step: s{i + 1}, args: {{a{i}: 1}}}}]}}}}\n" for i in reversed(range(3500))
    )
    + "- {step: s3500, tool: {kind: noop, result: '{{ a1 }}'}}\n",
    "many cases": "- step: s\n  tool: {kind: noop}\n  next: e\n  case:\n"
    + "".join(
        f"  - {{when: '{{{{ result == {i} }}}}', then: [{{c: {{tool: {{kind: noop}}}}}}]}}\n" for i in range(2500)
    )
    + "- {step: e}\n",
}


@pytest.mark.parametrize(
    "net", representatives(NETS, "a chain of uneven diamonds", "many forks to the same two writers", part="fuzz")
)
def test_a_large_net_is_checked_in_bounded_time(apart: Apart, net: str) -> None:
    answer = apart(workflow(net))
    assert answer.steps is not None


def test_ten_thousand_steps_compile(apart: Apart) -> None:
    steps = "".join(f"- {{step: s{i}, next: s{i + 1}}}\n" for i in range(9_985))
    assert apart(workflow(f"{steps}- {{step: s9985}}\n")) == Answer(9_986, ["NTL208"], 1)


def test_five_thousand_tasks_in_one_step_compile(apart: Apart) -> None:
    tasks = "".join(f"  - t{i}: {{kind: noop, result: '{{{{ tasks.t0 }}}}'}}\n" for i in range(5_000))
    assert apart(workflow(f"- step: s\n  tool:\n{tasks}")) == Answer(1, [], 0)


def test_five_thousand_arcs_on_one_step_compile(apart: Apart) -> None:
    ends = "".join(f"- {{step: e{i}}}\n" for i in range(5_000))
    answer = apart(workflow(fork("s", *(f"e{i}" for i in range(5_000))) + ends))
    assert (answer.steps, answer.codes) == (5_001, ["NTL208"])


def jump(number: int, to: str) -> str:
    return f"t{number}: {{kind: noop, spec: {{policy: {{rules: [{{else: {{then: {{do: jump, to: {to}}}}}}}]}}}}}}"


PIPELINES = {
    "jumps back": [jump(i, f"t{max(i - 1, 0)}") for i in range(2200)],
    "jumps on": [jump(i, f"t{min(i + 1, 2199)}") for i in range(2200)],
    "jumps to nowhere": [jump(i, f"u{i}") for i in range(2200)],
    "many iterators": [f"t{i}: {{kind: iterator, in: [1], iterator: x, tool: {{kind: noop}}}}" for i in range(3500)],
}


@pytest.mark.parametrize("tasks", representatives(PIPELINES, "jumps back", part="fuzz"))
def test_a_long_pipeline_is_checked_in_bounded_time(apart: Apart, tasks: list[str]) -> None:
    apart(workflow("- step: s\n  tool:\n" + "".join(f"  - {task}\n" for task in tasks)))


# -- parts that grow when they are written out ----------------------------------------------------------------------


CALL_A0 = "workflow: [{step: s, tool: {kind: workbook, name: a0}}]\n"


class TestWrittenOut:
    def test_workbook_tasks_that_call_each_other_twice_do_not_explode(self, apart: Apart) -> None:
        calls = "".join(
            f"  a{i}: {{kind: iterator, in: [1], iterator: x, tool: [{{kind: workbook, name: a{i + 1}}}, "
            f"{{kind: workbook, name: a{i + 1}}}]}}\n"
            for i in range(60)
        )
        text = f"{HEAD}workbook:\n{calls}  a60: {{kind: noop}}\n{CALL_A0}"
        assert apart(text).codes == ["NTL003"]

    def test_a_workbook_task_that_calls_itself_inside_an_iterator_is_a_circle(self) -> None:
        task = "{kind: iterator, in: [1], iterator: x, tool: {kind: workbook, name: a}}"
        text = f"{HEAD}workbook: {{a: {task}}}\nworkflow: [{{step: s, tool: {{kind: workbook, name: a}}}}]\n"
        assert only(text).code == "NTL212"

    def test_a_long_chain_of_calls_compiles(self, apart: Apart) -> None:
        calls = "".join(f"  a{i}: {{kind: workbook, name: a{i + 1}}}\n" for i in range(7000))
        text = f"{HEAD}workbook:\n{calls}  a7000: {{kind: noop}}\n{CALL_A0}"
        assert apart(text).steps == 1

    def test_a_long_circle_of_calls_is_reported_once(self, apart: Apart) -> None:
        calls = "".join(f"  a{i}: {{kind: workbook, name: a{(i + 1) % 7000}}}\n" for i in range(7000))
        assert apart(f"{HEAD}workbook:\n{calls}{LAST}") == Answer(None, ["NTL212"], 1)

    def test_large_defaults_under_many_tasks(self, apart: Apart) -> None:
        headers = ", ".join(f"h{i}: v" for i in range(8000))
        tasks = "".join(f"  - t{i}: {{kind: http, url: http://x, headers: {{a: b}}}}\n" for i in range(3000))
        spec = f"executor: {{spec: {{http: {{headers: {{{headers}}}}}}}}}\n"
        assert apart(f"{HEAD}{spec}workflow:\n- step: s\n  tool:\n{tasks}").codes == ["NTL003"]

    def test_large_args_of_a_classic_step_with_many_tasks(self, apart: Apart) -> None:
        args = ", ".join(f"a{i}: 1" for i in range(8000))
        tasks = "  - {kind: noop}\n" * 8000
        assert apart(workflow(f"- step: s\n  args: {{{args}}}\n  tool:\n{tasks}")).codes == ["NTL003"]

    def test_a_long_classic_condition_over_many_tasks(self, apart: Apart) -> None:
        when = f"success or error == ''{'x' * 2000}''"
        tasks = "  - {kind: noop}\n" * 9000
        text = f"- step: s\n  retry: {{retry_when: '{{{{ {when} }}}}'}}\n  tool:\n{tasks}"
        assert apart(workflow(text)).codes == ["NTL003"]

    def test_many_branches_that_fall_back_to_many_targets(self, apart: Apart) -> None:
        targets = ", ".join(f"e{i}" for i in range(3000))
        branches = "  - {when: '{{ true }}', then: [{c: {tool: {kind: noop}}}]}\n" * 2000
        ends = "".join(f"- {{step: e{i}}}\n" for i in range(3000))
        answer = apart(workflow(f"- step: s\n  tool: {{kind: noop}}\n  next: [{targets}]\n  case:\n{branches}{ends}"))
        assert "NTL003" in answer.codes


# -- very many problems ---------------------------------------------------------------------------------------------

MANY = {
    "targets that do not exist": workflow("".join(f"- {{step: step_{i}, next: stop_{i}}}\n" for i in range(9000))),
    "keys that do not exist": workflow("".join(f"- {{step: s{i}, stepp: 1, tol: 2}}\n" for i in range(7000))),
    "names that do not exist": f"{HEAD}workload:\n"
    + "".join(f"  name_{i}: 1\n" for i in range(8000))
    + "workflow:\n- step: s\n  tool:\n"
    + "".join(f"  - {{kind: noop, result: '{{{{ nume_{i} }}}}'}}\n" for i in range(6000)),
    "inputs that nobody gives": f"{HEAD}workload:\n"
    + "".join(f"  name_{i}: 1\n" for i in range(8000))
    + "  all:\n"
    + "".join(f"  - '{{{{ workload.nume_{i} }}}}'\n" for i in range(20_000))
    + LAST,
    "steps that nobody has": workflow(
        "".join(f"- {{step: s{i}, tool: {{kind: noop, result: '{{{{ steps.x{i} }}}}'}}}}\n" for i in range(5000))
    ),
    "credentials that are not declared": f"{HEAD}keychain:\n"
    + "".join(f"- {{name: key_{i}, kind: bearer}}\n" for i in range(4000))
    + "workflow:\n- step: s\n  tool:\n"
    + "".join(f"  - {{kind: http, url: http://x, auth: kee_{i}}}\n" for i in range(3000)),
    "filters that do not exist": workflow(
        "- step: s\n  tool:\n"
        + "".join(
            "  - {kind: noop, result: '{{ 1 " + "".join(f"| f{i}x{j}" for j in range(30)) + " }}'}\n"
            for i in range(1500)
        )
    ),
    "names in one template": workflow(
        "- step: s\n  tool: {kind: noop, result: '{{ [" + ", ".join(f"n{i}" for i in range(9000)) + "] }}'}\n"
    ),
    "names in long templates": workflow(
        "- step: s\n  tool:\n" + "".join("  - {kind: noop, result: '" + "{{ a }}" * 9000 + "'}\n" for _ in range(10))
    ),
    "templates without quotes in one line": f"a: [{'{{a}},' * 9000}'{'x' * 900_000}']",
    "duplicate keys": HEAD + "x: 1\n" * 20_000,
    "duplicate steps": workflow("- {step: s, next: s}\n" * 9000),
    "steps without a name in one line": f"{HEAD}workflow: [{', '.join(['{stepp: s}'] * 12_000)}]\n",
    "rules behind else": workflow(
        "- step: s\n  tool: {kind: noop, spec: {policy: {rules: ["
        + "{else: {then: {do: continue}}}, " * 7000
        + "]}}}\n"
    ),
}


@pytest.mark.parametrize(
    "text",
    representatives(MANY, "names that do not exist", "duplicate keys", "rules behind else", part="fuzz"),
)
def test_very_many_problems_are_told_in_bounded_time(apart: Apart, text: str) -> None:
    answer = apart(text)
    assert 10 < answer.problems <= 2 * MAX_PROBLEMS


def test_many_warnings_do_not_crowd_out_an_error() -> None:
    steps = "".join(f"- {{step: s{i}}}\n" for i in range(MAX_PROBLEMS + 100))
    loaded = judged(workflow(f"{steps}- {{step: last, nxt: s1}}\n"))
    assert loaded.playbook is None
    assert sum(problem.severity == "error" for problem in loaded.problems) == 1


# -- texts that are hard for patterns -------------------------------------------------------------------------------

LONG = {
    "duration": workflow(f"- step: s\n  spec: {{timeout: {'1s' * 300_000}x}}\n  tool: {{kind: noop}}\n"),
    "duration of digits": workflow(f"- step: s\n  spec: {{timeout: '{'1' * 900_000}s'}}\n  tool: {{kind: noop}}\n"),
    "duration in blanks": workflow(f"- step: s\n  spec: {{timeout: '{' ' * 900_000}'}}\n  tool: {{kind: noop}}\n"),
    "name": workflow(f"- step: {'a' * 900_000}\n"),
    "name of words": workflow(f"- step: '{'a ' * 450_000}'\n"),
    "version": f"{HEAD}executor: {{version: '{'/' * 400_000}{'v' * 400_000}'}}\n{LAST}",
    "template": workflow(f"- step: s\n  tool: {{kind: noop, result: '{'{{ a }}' * 140_000}'}}\n"),
    "opened templates": workflow(f"- step: s\n  tool: {{kind: noop, result: '{'{{' * 30_000}'}}\n"),
    "nested brackets": workflow("- step: s\n  tool: {kind: noop, result: '{{ " + "(" * 60_000 + " }}'}\n"),
    "nested lists": workflow("- step: s\n  tool: {kind: noop, result: '{{ " + "[" * 5000 + "]" * 5000 + " }}'}\n"),
    "nested blocks": workflow(f"- step: s\n  tool: {{kind: noop, result: '{'{% if a %}' * 6000}'}}\n"),
    "nots": workflow("- step: s\n  tool: {kind: noop, result: '{{ " + "not " * 15_000 + "a }}'}\n"),
    "ands": workflow("- step: s\n  tool: {kind: noop, result: '{{ a" + " and a" * 9000 + " }}'}\n"),
    "pipes": workflow("- step: s\n  tool: {kind: noop, result: '{{ a" + " | e" * 15_000 + " }}'}\n"),
    "dots": workflow("- step: s\n  tool: {kind: noop, result: '{{ a" + ".a" * 30_000 + " }}'}\n"),
    "comments": workflow("- step: s\n  tool: {kind: noop, result: '" + "{#" * 30_000 + "'}\n"),
    "colons": ": " * 400_000,
    "dashes and braces": "- {" * 300_000,
    "unclosed": 'a: "' + "b: {{ c }} - " * 70_000,
    "blank lines before braces": "a: b: c" + "\n" * 900_000 + "{{",
    "a line of blanks": "a: b: c\n" + ": " + " " * 900_000 + "{{",
}


@pytest.mark.parametrize("text", LONG.values(), ids=LONG.keys())
def test_a_text_that_is_hard_to_match_is_refused_in_bounded_time(apart: Apart, text: str) -> None:
    assert apart(text).steps is None


# -- odd names ------------------------------------------------------------------------------------------------------

ODD = ["__proto__", "constructor", "__class__", "__init__", "__dict__", "toString", "hasOwnProperty", "self", "None"]


class TestOddNames:
    @pytest.mark.parametrize("key", ODD)
    def test_are_ordinary_keys_of_free_maps(self, key: str) -> None:
        loaded = judged(f"{HEAD}workload: {{{key}: {{{key}: 1}}}}\n{LAST}")
        assert loaded.require().workload == {key: {key: 1}}

    @pytest.mark.parametrize("key", [*ODD, "5", "null", "true", "''", "1.5", "'{{ x }}'", "' '", '"\\n"', "é"])
    def test_are_unknown_keys_elsewhere(self, key: str) -> None:
        assert judged(f"{HEAD}{LAST}{key}: 1\n").problems[0].code in ("NTL101", "NTL508")
        assert judged(workflow(f"- {{step: s, tool: {{kind: noop}}, {key}: 1}}\n")).playbook is None

    @pytest.mark.parametrize("name", ODD)
    def test_may_name_a_step(self, name: str) -> None:
        text = workflow(f"- {{step: {name}, tool: {{kind: noop, result: '{{{{ steps.{name} }}}}'}}}}\n")
        loaded = judged(text)
        assert loaded.playbook is None or loaded.playbook.steps[0].name == name

    @pytest.mark.parametrize(
        "kind", [*ODD, "'noop '", "Noop", "5", "null", "[noop]", "{a: b}", "'{{ k }}'", "''", "'../x'"]
    )
    def test_are_no_kinds(self, kind: str) -> None:
        assert judged(workflow(f"- {{step: s, tool: {{kind: {kind}}}}}\n")).playbook is None


# -- every place, every wrong thing ---------------------------------------------------------------------------------

PARTS = {"canonical": plain(read("t", CANONICAL)[0]), "classic": plain(read("t", CLASSIC)[0])}
Path_ = tuple[Any, ...]


def places(node: Any, path: Path_ = ()) -> Iterator[Path_]:
    """The way to every node below the root."""
    inner = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, value in inner:
        yield (*path, key)
        yield from places(value, (*path, key))


def holder(root: Any, path: Path_) -> Any:
    for key in path[:-1]:
        root = root[key]
    return root


@pytest.mark.parametrize("dialect", PARTS)
def test_the_playbooks_to_be_broken_are_good(dialect: str) -> None:
    loaded = judged(json.dumps(PARTS[dialect], indent=1))
    assert loaded.playbook is not None
    assert loaded.dialect == dialect


WRONG = [None, True, 5, "x", [], {}, [[]], {"a": 1}, "{{ x }}", "{{ x"]


Damage = Callable[[Any, Any], None]
"""Changes a mapping or a list at a key or an index."""


def put(wrong: Any) -> Damage:
    def damage(inside: Any, key: Any) -> None:
        inside[key] = copy.deepcopy(wrong)

    return damage


def remove(inside: Any, key: Any) -> None:
    del inside[key]


def rename(inside: Any, key: Any) -> None:
    """Items have no names: remove them."""
    if isinstance(inside, dict):
        inside[f"{key}x"] = inside.pop(key)
    else:
        remove(inside, key)


DAMAGES: dict[str, Damage] = {
    "missing": remove,
    "with another name": rename,
    **{json.dumps(wrong): put(wrong) for wrong in WRONG},
}


def judge_with(dialect: str, path: Path_, damage: Damage) -> None:
    root = copy.deepcopy(PARTS[dialect])
    damage(holder(root, path), path[-1])
    judged(json.dumps(root, indent=1))


@pytest.mark.parametrize("dialect", PARTS)
def test_a_damage_in_any_place_is_judged(dialect: str) -> None:
    """A third of the places lack their part, a third have another name, and a third have one of the wrong values."""
    values = (put(wrong) for wrong in cycle(WRONG))
    damages = chain.from_iterable((remove, rename, value) for value in values)
    for path, damage in zip(places(PARTS[dialect]), damages, strict=False):
        judge_with(dialect, path, damage)


@pytest.mark.slow(part="fuzz")
@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("dialect", PARTS)
def test_each_damage_in_any_place_is_judged(dialect: str, damage: str) -> None:
    for path in places(PARTS[dialect]):
        judge_with(dialect, path, DAMAGES[damage])


@pytest.mark.parametrize("dialect", PARTS)
def test_a_repeated_item_in_any_list_is_judged(dialect: str) -> None:
    for path in places(PARTS[dialect]):
        root = copy.deepcopy(PARTS[dialect])
        inside = holder(root, path)
        if isinstance(inside, list):
            inside.insert(path[-1], inside[path[-1]])
            judged(json.dumps(root, indent=1))


TEMPLATE_FREE = [
    ("apiVersion",), ("kind",), ("metadata", "name"), ("metadata", "path"), ("keychain", 0, "name"),
    ("keychain", 0, "kind"), ("executor", "profile"), ("executor", "version"), ("executor", "spec", "entry_step"),
    ("executor", "spec", "final_step"), ("executor", "spec", "pool"), ("executor", "spec", "timeout"),
    ("executor", "spec", "on_failure"), ("executor", "spec", "max_step_runs"), ("executor", "spec", "retry"),
    ("workflow", 0, "step"), ("workflow", 0, "spec", "timeout"), ("workflow", 0, "spec", "join"),
    ("workflow", 0, "spec", "timers", "late"), ("workflow", 0, "spec", "policy", "admit", "mode"),
    ("workflow", 0, "spec", "policy", "admit", "rules", 0, "then", "allow"),
    ("workflow", 0, "tool", 0, "fetch", "kind"),
    ("workflow", 0, "tool", 0, "fetch", "spec", "max_visits"), ("workflow", 0, "tool", 1, "name"),
    ("workflow", 0, "tool", 0, "fetch", "spec", "policy", "rules", 1, "then", "do"),
    ("workflow", 0, "tool", 0, "fetch", "spec", "policy", "rules", 1, "then", "attempts"),
    ("workflow", 0, "tool", 0, "fetch", "spec", "policy", "rules", 3, "then", "to"),
    ("workflow", 0, "next", "spec", "mode"), ("workflow", 0, "next", "arcs", 0, "step"),
    ("workflow", 0, "next", "arcs", 1, "spec", "delay"), ("workflow", 1, "loop", "iterator"),
    ("workflow", 1, "loop", "spec", "mode"), ("workflow", 1, "loop", "spec", "max_in_flight"),
]  # fmt: skip


@pytest.mark.parametrize("path", TEMPLATE_FREE, ids=lambda path: ".".join(map(str, path)))
def test_a_template_where_none_can_be_is_an_error_at_that_place(path: Path_) -> None:
    root = copy.deepcopy(PARTS["canonical"])
    holder(root, path)[path[-1]] = "{{ workload.url }}"
    text = json.dumps(root, indent=1)
    (line,) = [number for number, line in enumerate(text.split("\n"), start=1) if '"{{ workload.url }}"' in line]
    assert line in [problem.line for problem in judged(text).problems if problem.severity == "error"]
