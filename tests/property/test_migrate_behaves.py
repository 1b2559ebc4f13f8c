"""`noetl migrate` gives a playbook that behaves the same: random classic ones and what they become are both run.

Compared are the ways (which steps of the classic playbook were entered, in which order), the status, the variables, and
the result and status of every step that both have. A chain of the classic one is a step of its own in the other; a
failure inside of it is then that step's.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from noetl.dsl.migrate import migrate
from noetl.model.outcome import Outcome, failed
from noetl.tools.registry import KINDS

sys.path.insert(0, str(Path(__file__).parents[1] / "unit" / "engine"))

from stage import Stage, play_text

HEAD = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: story, path: tests/story}
workload: {two: 2, yes: true}
workflow:
"""
GUARDS = (
    "event.name == 'call.done'",
    "event.name == 'call.error'",
    "event.name == 'step.exit'",
    "event.name == 'call.done' and result == 2",
    "event.name == 'call.done' or event.name == 'step.exit'",
    "event.name == 'step.exit' and workload.yes",
    "event.name == 'step.exit' and this.status == 'error'",
    "event.name == 'call.done' or workload.yes",
    "event.name == 'step.exit' or result == 2",
    "not (event.name == 'call.done')",
    "not (event.name == 'call.error')",
    "not (event.name == 'step.exit')",
    "not event.name == 'call.done' and workload.yes",
    "not (event.name == 'step.exit' or result == 2)",
    "not (event.name == 'call.error') and this.status == 'error'",
    "error",
    "result == workload.two",
    "response.status == 'error'",
    "this.error.kind == 'shaky'",
    "response.data == 1",
    "vars.seen | default(0) == 2",
    "true",
    "false",
)
ONLY_AT_EXIT = "{when: \"{{ event.name == 'step.exit' }}\", then: {next: b}}"
TARGETS = (
    "a",
    "b",
    "[a, b]",
    '[{step: a, args: {k: "{{ result }}"}}]',
    '[{step: c, args: {k: "{{ vars.seen | default(7) }}"}}]',
)


@st.composite
def chains(draw: Any, *, failure: bool) -> str:
    """What a branch does, in either form."""
    goto = draw(st.sampled_from(TARGETS)) if draw(st.booleans()) else None
    if failure:  # there is no result then
        goto = draw(st.sampled_from(("a", "b", "[a, b]", None)))
    if draw(st.booleans()):
        parts = [f"next: {goto}"] if goto else []
        if draw(st.booleans()):
            parts.append("set: {was: set}")
        if draw(st.booleans()):
            parts.append("sink: {tool: {kind: python, code: store}, args: {x: 1}}")
        if draw(st.integers(0, 3)) == 0:
            parts.append("retry: {max_attempts: 2, initial_delay: 0}")
        return "{" + ", ".join(parts) + "}"
    items = []
    if draw(st.booleans()):
        tool = draw(st.sampled_from(("good", "bad", "flaky")))
        retry = draw(st.sampled_from(("", ", retry: {max_attempts: 2, initial_delay: 0}")))
        items.append(f"{{call: {{tool: {{kind: python, code: {tool}}}{retry}}}}}")
        if draw(st.booleans()):
            items.append('{set: {told: "{{ call.result }}"}}')
    if goto:
        items.append(f"{{next: {{to: {goto if goto.startswith('[') else f'[{goto}]'}}}}}")
    return "[" + ", ".join(items) + "]"


@st.composite
def branches(draw: Any) -> str:
    if draw(st.integers(0, 4)) == 0:
        return f"{{else: {draw(chains(failure=True))}}}"
    guard = draw(st.sampled_from(GUARDS))
    sees = "error" in guard or "step.exit" in guard or "status" in guard
    return f'{{when: "{{{{ {guard} }}}}", then: {draw(chains(failure=sees))}}}'


@st.composite
def steps(draw: Any) -> str:
    tool = draw(st.sampled_from(("one", "two", "bad", "flaky")))
    lines = ["- step: start", f"  tool: {{kind: python, code: {tool}}}"]
    knobs = []
    if draw(st.booleans()):
        knobs.append(f"on_error: {draw(st.sampled_from(('fail', 'ignore')))}")
    case = draw(st.lists(branches(), max_size=3))
    case.sort(key=lambda branch: branch.startswith("{else"))
    case = case[: next((i + 1 for i, one in enumerate(case) if one.startswith("{else")), len(case))]
    if case and draw(st.booleans()):
        knobs.append("branch_order: priority")
        case = [f"{{priority: {draw(st.integers(0, 2))}, {one[1:]}" for one in case]
    if knobs:
        lines.insert(1, f"  spec: {{{', '.join(knobs)}}}")
    if draw(st.booleans()):
        lines.append("  retry: {max_attempts: 2, initial_delay: 0}")
    loop = draw(st.integers(0, 3)) == 0
    if loop:
        lines.append("  loop: {in: [1, 2], iterator: n, mode: parallel}")
    elif draw(st.booleans()):
        lines.append('  vars: {seen: "{{ result }}"}')
    if not loop and draw(st.integers(0, 2)) == 0:
        sink = draw(st.sampled_from(("store", "bad")))
        lines.append(f'  sink: {{tool: {{kind: python, code: {sink}}}, args: {{x: "{{{{ result }}}}"}}}}')
    if case:
        lines.append("  case:")
        lines += [f"    - {one}" for one in case]
    if draw(st.booleans()) or not case:
        lines.append(f"  next: {draw(st.sampled_from(('c', '[c, d]', '[{step: d, args: {k: 5}}]')))}")
    lines += [f'- {{step: {name}, tool: {{kind: noop, result: "{{{{ args.k | default(0) }}}}"}}}}' for name in "abcd"]
    return "".join(f"  {line}\n" for line in lines)


class Flaky:
    """Fails each time it is first asked."""

    def __init__(self) -> None:
        self.asked = 0

    def __call__(self) -> Outcome:
        self.asked += 1
        return failed("shaky", "not yet") if self.asked % 2 else Outcome(result=2)


def played(text: str) -> Stage:
    tools = {
        "one": lambda: 1,
        "two": lambda: 2,
        "good": lambda: "good",
        "bad": lambda: failed("shaky", "it broke"),
        "flaky": Flaky(),
        "store": lambda x: "stored",
    }
    return play_text(text, tools)


def behaviour(stage: Stage) -> dict[str, Any]:
    state, own = stage.state, {"start", "a", "b", "c", "d"}
    ways = [run.partition("#")[0] for run in stage.runs()]
    failed_chain = state.error is not None and (
        "/" in str(state.error.get("task")) or state.error.get("step") not in own or state.error.get("task") == "sink"
    )
    ends = {name: (one.status, one.result) for name, one in state.steps.items() if name in own}
    if failed_chain:
        ends.pop("start", None)
    return {
        "ways": sorted(way for way in ways if way in own),
        "status": state.status,
        "vars": state.ctx.get("vars", {}),
        "steps": ends,
    }


@pytest.mark.parametrize("guard", GUARDS)
def test_a_guard_becomes_arcs_that_fire_when_it_does(guard: str) -> None:
    """Alone, before and after another branch, whether the call succeeds or fails."""
    own, exit = f'{{when: "{{{{ {guard} }}}}", then: {{next: a}}}}', ONLY_AT_EXIT
    for tool in ("one", "two", "bad"):
        for case in ([own], [own, exit], [exit, own], [own, "{else: {next: c}}"]):
            lines = ["- step: start", f"  tool: {{kind: python, code: {tool}}}", '  vars: {seen: "{{ result }}"}']
            lines += ["  case:", *(f"    - {branch}" for branch in case), "  next: d"]
            lines += [f"- {{step: {name}, tool: {{kind: noop}}}}" for name in "abcd"]
            check_migration(HEAD + "".join(f"  {line}\n" for line in lines))


def test_a_negated_guard_of_a_retry_repeats_the_failed_call() -> None:
    text = (
        HEAD
        + """\
  - step: start
    tool: {kind: python, code: flaky}
    case:
      - when: "{{ not (event.name == 'step.exit') and error }}"
        then: {retry: {max_attempts: 2, initial_delay: 0}}
"""
    )
    assert played(text).state.status == "succeeded"
    check_migration(text)


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(steps())
def test_what_a_playbook_becomes_behaves_as_it_did(workflow: str) -> None:
    check_migration(HEAD + workflow)


def check_migration(text: str) -> None:
    migration = migrate("p.yaml", text, KINDS)
    assert not any(problem.severity == "error" for problem in migration.problems), (text, migration.problems)
    if migration.leftovers:
        assert {problem.message.split("`")[1] for problem in migration.leftovers} == {"sink"}, (
            text,
            migration.leftovers,
        )
        return
    before, after = behaviour(played(text)), behaviour(played(migration.text))
    assert before == after, f"{text}\n{migration.text}"
