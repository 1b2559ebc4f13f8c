"""A decision that raises fails its execution at once: no report bounces back to its worker, no timer comes for ever."""

from __future__ import annotations

from typing import Any

import pytest
from stage import Stage, play, text_of

from noetl.engine import decide as deciding
from noetl.engine import lifecycle
from noetl.engine import settle as settling
from noetl.model.identity import step_of

PAY = """
- step: pay
  tool: [{t: {kind: python, code: pay}}]
  next: {arcs: [{step: after}]}
- {step: after, tool: {kind: noop}}
"""
FINAL = "executor: {spec: {final_step: tell}}\n"
TELL = "- {step: tell, tool: {kind: python, code: tell, args: {summary: '{{ args.summary }}'}}}\n"


class Effects:
    """Tools that count what they did."""

    def __init__(self) -> None:
        self.paid = 0
        self.told: list[dict[str, Any]] = []

    def pay(self) -> str:
        self.paid += 1
        return '"\\ud800"'

    def tell(self, summary: dict[str, Any]) -> None:
        self.told.append(summary)

    @property
    def tools(self) -> dict[str, Any]:
        return {"pay": self.pay, "tell": self.tell}


def break_routing(monkeypatch: pytest.MonkeyPatch, step: str, error: Exception) -> None:
    """The arcs of a step cannot be decided, as if the engine had a defect."""
    route = settling.route

    def broken(decision: Any, ended: Any) -> None:
        if step_of(ended.run) == step and decision.state.finished is None:
            raise error
        route(decision, ended)

    monkeypatch.setattr(settling, "route", broken)


def check_failed(end: Stage, text: str) -> None:
    assert end.state.status == "failed"
    assert end.state.error is not None
    assert end.state.error["kind"] == "internal"
    assert text in end.state.error["message"]


@pytest.mark.parametrize("error", [KeyError("gone"), RecursionError("too deep"), ValueError("\ud800")])
def test_a_report_that_cannot_be_decided_fails_the_run_and_keeps_its_outcome(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    break_routing(monkeypatch, "pay", error)
    effects = Effects()
    end = play(PAY, tools=effects.tools)
    check_failed(end, type(error).__name__)
    assert effects.paid == 1
    assert [event.outcome.status for event in end.of("task.done")] == ["ok"]
    assert end.names.count("step.done") == 1


def test_the_final_step_runs_after_a_decision_that_cannot_be_made(monkeypatch: pytest.MonkeyPatch) -> None:
    break_routing(monkeypatch, "pay", KeyError("gone"))
    effects = Effects()
    end = play(PAY + TELL, head=FINAL, tools=effects.tools)
    check_failed(end, "KeyError")
    assert [summary["status"] for summary in effects.told] == ["failed"]


def test_the_run_ends_also_if_its_facts_and_its_final_step_cannot_be_decided(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*args: Any) -> None:
        raise KeyError("gone")

    monkeypatch.setitem(deciding.ACCEPT, deciding.e.TaskDone, broken)
    monkeypatch.setattr(lifecycle, "_start_final_step", broken)
    effects = Effects()
    end = play(PAY + TELL, head=FINAL, tools=effects.tools)
    check_failed(end, "KeyError")
    assert effects.paid == 1
    assert effects.told == []


def test_a_timer_that_cannot_be_decided_fails_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    admit = settling._admit

    def broken(decision: Any, token: Any) -> None:
        if token.step == "late":
            raise KeyError("gone")
        admit(decision, token)

    monkeypatch.setattr(settling, "_admit", broken)
    end = play("""
        - {step: start, next: {arcs: [{step: late, spec: {delay: 30}}]}}
        - {step: late, tool: {kind: noop}}
    """)
    check_failed(end, "KeyError")


def test_a_child_that_cannot_be_started_fails_its_parent(monkeypatch: pytest.MonkeyPatch) -> None:
    start = deciding.start

    def broken(decision: Any, command: Any) -> None:
        if command.parent is not None and command.refused is None:
            raise KeyError("gone")
        start(decision, command)

    monkeypatch.setattr(deciding, "start", broken)
    child = text_of("- {step: start, tool: {kind: noop}}")
    end = play("- {step: ask, tool: {kind: playbook, path: child}}", children={"child": child})
    assert end.state.status == "failed"
    assert end.state.error is not None
    assert end.state.error["kind"] == "child_failed"
    assert "KeyError" in end.state.error["message"]


def test_data_that_cannot_be_stored_never_repeats_an_effect() -> None:
    effects = Effects()
    end = play(
        """
        - step: pay
          tool: [{t: {kind: python, code: pay}}]
          next: {arcs: [{step: after, args: {answer: "{{ steps.pay.result | fromjson }}"}}]}
        - {step: after, tool: {kind: noop}}
        """,
        tools=effects.tools,
    )
    assert end.state.status == "failed"
    assert effects.paid == 1
