"""NTL406: a guard on the name of an event that never comes, in both dialects (R15)."""

from __future__ import annotations

import pytest

from noetl.dsl.compile import load
from noetl.tools.registry import KINDS

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: x, path: x}\nworkflow:\n"
LISTENS = "spec: {eval_mode: on_event}"


def problems_in(text: str) -> list[tuple[str, str | None]]:
    problems = load("x.yaml", HEAD + text, KINDS).problems
    assert [problem for problem in problems if problem.severity == "error"] == []
    return [(problem.message, problem.hint) for problem in problems if problem.code == "NTL406"]


def branch(guard: str, more: str = "tool: {kind: noop}") -> str:
    return f'  - {{step: s, {more}, case: [{{when: "{{{{ {guard} }}}}", then: {{next: t}}}}]}}\n  - {{step: t}}\n'


def arc(guard: str, more: str = "") -> str:
    arcs = f'next: {{arcs: [{{step: t, when: "{{{{ {guard} }}}}"}}]}}'
    return f"  - {{step: s, {more}tool: [{{a: {{kind: noop}}}}], {arcs}}}\n  - {{step: t}}\n"


@pytest.mark.parametrize(
    "name", ["step.enter", "loop.done", "tool.started", "message.received", "calls.dun", "step.started"]
)
def test_a_branch_is_told_of_an_event_that_never_comes(name: str) -> None:
    ((message, hint),) = problems_in(branch(f"event.name == '{name}'"))
    assert message == f"event.name is never '{name}' here"
    assert hint is not None


def test_a_misspelt_name_is_answered_with_the_right_one() -> None:
    for guard, meant in (("call.eror", "call.error"), ("step.exti", "step.exit"), ("tool.procesed", "tool.processed")):
        ((_, hint),) = problems_in(branch(f"event.name == '{guard}'"))
        assert hint == f"did you mean {meant!r}?"
    ((message, hint),) = problems_in(branch("event.name == 'mesage.received'", LISTENS))
    assert (message, hint) == ("event.name is never 'mesage.received' here", "did you mean 'message.received'?")
    ((message, hint),) = problems_in(branch("event.name in ['call.error', 'step.exti']"))
    assert (message, hint) == ("event.name is never 'step.exti' here", "did you mean 'step.exit'?")
    ((_, hint),) = problems_in(arc("event.name == 'step.dnoe'"))
    assert hint == "did you mean 'step.done'?"


@pytest.mark.parametrize(
    "name", ["call.done", "step.exit", "tool.processed", "TaskProcessed", "step.finished", "StepFailed"]
)
def test_names_that_come_are_quiet_in_a_branch(name: str) -> None:
    assert problems_in(branch(f"event.name == '{name}'")) == []


def test_a_loop_and_a_listener_see_more() -> None:
    loop = "tool: {kind: noop}, loop: {in: [1], iterator: n}"
    for name in ("loop.done", "loop.finished", "LoopDone"):
        assert problems_in(branch(f"event.name == '{name}'", loop)) == []
    for name in (
        "message.received",
        "timer.fired",
        "step.enter",
        "step.exit",
        "retry.started",
        "LoopIterationCompleted",
    ):
        assert problems_in(branch(f"event.name == '{name}'", LISTENS)) == []
    for name in ("call.done", "token.claimed.twice", "next.evaluated"):
        assert len(problems_in(branch(f"event.name == '{name}'", LISTENS))) == 1
    assert problems_in(branch("event.name == 'call.done'", f"tool: {{kind: noop}}, {LISTENS}")) == []


def test_arcs_know_other_names_for_the_end_of_their_step() -> None:
    for name in ("step.finished", "step.exit", "StepDone", "StepFailed"):
        assert problems_in(arc(f"event.name == '{name}'")) == []
    assert len(problems_in(arc("event.name == 'tool.processed'"))) == 1
    assert problems_in(arc("event.name == 'step.finished'", "loop: {in: [1], iterator: n}, ")) == []
