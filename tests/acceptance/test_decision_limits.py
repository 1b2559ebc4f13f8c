"""What the templates of one decision may cost: over the limit the run fails, and the engine carries on.

While a decision is made, its server answers nobody. So each of these ended with a server that was silent for seconds,
minutes or for ever.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.acceptance.embedded import Ended, run

from noetl.expression import budget

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: limits, path: limits}\n"
SHARED = "{{ " + "[" * 12 + "1" + "]*9" * 12 + " }}"
NOOP = "    tool: {kind: noop}\n"
SECONDS = 300  # not a measure: it only keeps a decision without a limit from stopping the suite
TOGETHER = "used up the 200 ms of CPU time"
DECISION = "the templates of this decision"


def steps(first: str, *, head: str = "", second: str = NOOP) -> str:
    """A step `start` with more keys, and a step `b` behind it."""
    return f"{HEAD}{head}workflow:\n  - step: start\n{NOOP}{first}  - step: b\n{second}"


def arcs(count: int, guard: str) -> str:
    one = f'        - {{step: b, when: "{guard}"}}\n'
    return f"    next:\n      arcs:\n{one * count}"


def error_of(ended: Ended) -> dict[str, Any]:
    assert ended.state.status == "failed"
    error = ended.of("playbook.processed")[0].error
    assert error["kind"] == "template"
    return error


NEEDLE = {"n": "a" * 45 + "c" + "a" * 45, "s": "a" * 7_000_000}
SLOW_GUARD = "{{ range(60000) | map('string') | join | length == 1 }}"
STRIP = "{{ ('\\u0100' * 262144).lstrip('\\u0200' * 120000 ~ '\\u0100') == 'x' }}"
STALLS: dict[str, tuple[str, dict[str, Any], str, str]] = {
    "shared list in the workload": (steps("", head=f"workload: {{x: '{SHARED}'}}\n"), {}, DECISION, "workload"),
    "shared list in the args of an arc": (
        steps(f"    next: {{arcs: [{{step: b, args: {{x: '{SHARED}'}}}}]}}\n"),
        {},
        DECISION,
        "next/0",
    ),
    "shared list in the output": (
        steps("", head=f"executor: {{spec: {{output: '{SHARED}'}}}}\n"),
        {},
        DECISION,
        "executor.spec.output",
    ),
    "shared list in a loop": (
        steps("    next: {arcs: [{step: b}]}\n", second=f"    loop: {{in: '{SHARED}', iterator: i}}\n{NOOP}"),
        {},
        DECISION,
        "loop.in",
    ),
    "shared list in set_ctx": (
        f"{HEAD}workflow:\n  - step: start\n    tool:\n      - t: {{kind: noop, spec: {{policy: {{rules: [{{else: "
        f"{{then: {{do: continue, set_ctx: {{x: '{SHARED}'}}}}}}}}]}}}}}}\n",
        {},
        "the template",
        "",
    ),
    "2,200 guards that search in a long text": (
        steps(arcs(2200, "{{ workload.n in workload.s }}"), head="workload: {n: x, s: y}\n"),
        NEEDLE,
        TOGETHER,
        "next/",
    ),
    "800 guards of 30 ms": (steps(arcs(800, SLOW_GUARD)), {}, TOGETHER, "next/"),
    "a set of characters to strip": (steps(arcs(1, STRIP)), {}, "too long for this", "next/0"),
    "many gates": (
        steps(
            "    next: {arcs: [{step: b}]}\n",
            second=f"{NOOP}    spec: {{policy: {{admit: {{rules: "
            + "["
            + ", ".join(f'{{when: "{SLOW_GUARD}", then: {{allow: false}}}}' for _ in range(200))
            + "]}}}\n",
        ),
        {},
        TOGETHER,
        "admit",
    ),
}


@pytest.mark.parametrize("name", STALLS)
def test_decision_over_its_limit_fails_the_run(tmp_path: Path, name: str) -> None:
    text, payload, message, place = STALLS[name]
    ended = run(tmp_path, text, payload, seconds=SECONDS)
    error = error_of(ended)
    assert message in error["message"]
    assert place in f"{error.get('place', '')} {error['message']}"
    assert len(ended.of("playbook.processed")) == 1


def test_small_guards_of_one_decision_are_counted_as_well(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A circle of steps that need no worker is one decision of many firings."""
    monkeypatch.setattr(budget, "DECISION_SECONDS", 0.02)
    guards = '        - {step: start, when: "{{ workload.n == 2 }}"}\n' * 2000
    text = (
        f"{HEAD}workload: {{n: 1}}\nworkflow:\n  - step: start\n    next:\n      arcs:\n{guards}        - step: start\n"
    )
    assert TOGETHER in error_of(run(tmp_path, text, seconds=SECONDS))["message"]


def test_handled_failure_does_not_give_the_decision_more_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The loop's template fails the step; the guard that would take that up has no time left."""
    monkeypatch.setattr(budget, "DECISION_SECONDS", 0.02)  # a fast machine reaches another limit within 200 ms
    text = f"""{HEAD}workflow:
  - step: start
    loop: {{in: "{{% for i in range(9999) %}}{{{{ range(9999) | sum }}}}{{% endfor %}}", iterator: i}}
    tool: {{kind: noop}}
    next:
      arcs:
        - {{step: b, when: "{{{{ event.name == 'step.failed' }}}}"}}
  - step: b
    tool: {{kind: noop}}
"""
    assert TOGETHER in error_of(run(tmp_path, text, seconds=SECONDS))["message"]


@pytest.mark.parametrize(
    "data", ['"\\\\ud800"', "1e999", "[" * 500 + "]" * 500, "99999999999999999999999"], ids=lambda data: data[:12]
)
def test_data_that_cannot_be_stored_fails_the_run_once(tmp_path: Path, data: str) -> None:
    """It repeated the task: the report was refused, and the worker was granted the run again."""
    effects = tmp_path / "effects"
    text = f"""{HEAD}workload: {{data: '{data}'}}
workflow:
  - step: start
    tool: {{kind: shell, cmds: [[sh, -c, 'echo paid >> {effects}']]}}
    next: {{arcs: [{{step: b, args: {{x: "{{{{ workload.data | fromjson }}}}"}}}}]}}
  - step: b
    tool: {{kind: noop}}
"""
    error_of(run(tmp_path, text.replace("\\\\ud", "\\ud"), seconds=SECONDS))
    assert effects.read_text() == "paid\n"


@pytest.mark.parametrize(
    ("value", "limit"),
    [
        ("['x' * 1000000] * 7", "limit 16,777,216 for all stored values of a decision"),
        ("[[1]] * 200000", "limit 500,000 lists and maps in all stored values of a decision"),
    ],
)
def test_stored_values_of_one_decision_are_bounded_in_sum(tmp_path: Path, value: str, limit: str) -> None:
    count = 10
    chain = "".join(
        f'  - step: s{i}\n    tool: {{kind: python, code: "result = {value} + [{i}]"}}\n'
        f"    next: {{arcs: [{{step: s{i + 1}}}]}}\n"
        for i in range(count)
    )
    guard = " + ".join(f"(steps.s{i}.result | length)" for i in range(count))
    text = (
        (
            f"{HEAD}workflow:\n{chain}  - step: s{count}\n{NOOP}"
            f"    next: {{arcs: [{{step: z, when: '{{{{ {guard} > 5 }}}}'}}]}}\n  - step: z\n{NOOP}"
        )
        .replace("- step: s0\n", "- step: start\n")
        .replace("steps.s0.", "steps.start.")
    )
    error = error_of(run(tmp_path, text, seconds=SECONDS))
    assert limit in error["message"]


def test_two_stored_values_can_be_looked_into(tmp_path: Path) -> None:
    text = f"""{HEAD}workflow:
  - step: start
    tool: {{kind: python, code: "result = ['x' * 1000000] * 7"}}
    next: {{arcs: [{{step: a}}]}}
  - step: a
    tool: {{kind: python, code: "result = ['y' * 1000000] * 7"}}
    next:
      arcs:
        - {{step: b, when: "{{{{ (steps.start.result | length) + (steps.a.result | length) == 14 }}}}"}}
  - step: b
    tool: {{kind: noop, result: 5}}
"""
    ended = run(tmp_path, text, seconds=SECONDS)
    assert ended.state.status == "succeeded"
    assert "b" in ended.state.steps
