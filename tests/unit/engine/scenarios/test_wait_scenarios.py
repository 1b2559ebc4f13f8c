"""Signals and children: who gets them, and that thousands of parked items cost a decision no more than a few."""

from __future__ import annotations

from typing import Any

import pytest
from tests.instructions import instructions
from tests.unit.engine.scenarios.scenario import Scenario, begun

from noetl.engine import events as e
from noetl.engine.commands import ChildEnded, Command, Signal
from noetl.engine.decide import decide
from noetl.engine.decision import Decision
from noetl.engine.evolve import evolve
from noetl.engine.state import Parked, ParkedItems
from noetl.model.outcome import Outcome
from noetl.runtime.activity import activity_of, counted_waits
from noetl.runtime.loaded_playbooks import LoadedPlaybook
from noetl.runtime.report import MAX_LISTED
from noetl.server.execution_views import state_view

FEW, MANY = 20, 400
WAITING = """\
- step: start
  loop: {in: "{{ range(1000) }}", iterator: n, spec: {mode: parallel, max_in_flight: 1000}}
  tool: {kind: wait, signal: "go{{ iter.n }}"}
"""


def parked(number: int, workflow: str = WAITING, **wait: Any) -> Scenario:
    """A loop of which so many items wait."""
    events: list[e.Event] = [e.LoopStarted("start#1", 1000, list(range(1000)), 1)]
    for index in range(number):
        named = {name: value.format(index) if isinstance(value, str) else value for name, value in wait.items()}
        events += (
            e.StepStarted("start#1", index + 1, "worker", (index, index + 1)),
            e.IterationStarted("start#1", index),
            e.StepPaused("start#1", index + 1, "waiting", index=index, **named),
        )
    return Scenario(workflow).given(*begun(), *events)


def decision_cost(number: int, command: Command, **wait: Any) -> int:
    state = parked(number, **wait).state

    def handle() -> None:
        decision = Decision(state, 1.0)
        decide(decision, command)
        assert any(isinstance(event, e.StepResumed) for event in decision.events)

    return instructions(handle)


@pytest.mark.parametrize(
    ("command", "wait"),
    [
        (Signal("go7", "1"), {"until": "signal", "key": "go{}"}),
        (Signal("b7", "1"), {"until": "signal", "keys": ("a", "b7")}),
        (ChildEnded("child7", Outcome()), {"until": "child", "key": "child{}"}),
    ],
    ids=["signal", "one of two signals", "child"],
)
def test_a_decision_about_one_wait_costs_the_same_among_many(command: Command, wait: dict[str, Any]) -> None:
    assert decision_cost(MANY, command, **wait) == decision_cost(FEW, command, **wait)


def test_what_a_list_shows_costs_the_same_among_many() -> None:
    few, many = (parked(number, until="signal", key="go{}").state for number in (FEW, MANY))
    activity_of(few), activity_of(many)  # what a playbook reads from signals is found once
    assert instructions(lambda: activity_of(many)) == instructions(lambda: activity_of(few))
    assert counted_waits(many).number == MANY


def test_every_run_has_its_waits_beside_one_with_many() -> None:
    other = "- {step: other, tool: {kind: wait, signal: stop}}\n"
    scenario = parked(MANY, WAITING + other, until="signal", key="go{}").given(
        e.TokenEnqueued(2, "other"),
        e.StepScheduled("other#1", (2,)),
        e.StepStarted("other#1", MANY + 1, "worker"),
        e.StepPaused("other#1", MANY + 1, "waiting", until="signal", key="stop"),
    )
    state, playbook = scenario.state, LoadedPlaybook(scenario.net.playbook, "scenario.yaml")
    runs: Any = state_view(state, 1.0, playbook.file, ["runs"]).runs
    waits = {run.run: [wait.name for wait in run.waits] for run in runs}
    assert waits == {"start#1": [f"go{index}" for index in range(MAX_LISTED)], "other#1": ["stop"]}


def test_the_cost_of_a_signal_does_not_grow_with_signals_times_waiting_items() -> None:
    def cost(number: int) -> int:
        others = [e.MessageReceived(f"other{count}", f"other{count}") for count in range(MANY)]
        scenario = parked(number, until="signal", key="go{}").given(*others)
        return instructions(lambda: decide(Decision(scenario.state, 1.0), Signal("go7", "1")))

    assert cost(MANY) == cost(FEW)


def test_signals_that_were_delivered_cost_nothing() -> None:
    scenario = parked(FEW, until="signal", key="go{}")

    def sent(index: int) -> int:
        return instructions(lambda: decide(Decision(scenario.state, 1.0), Signal(f"go{index}", str(index))))

    first, *costs = [sent(index) for index in range(FEW - 1)]
    assert max(costs) <= first * 1.1
    assert not scenario.state.signals


def test_of_several_items_the_one_that_has_waited_longest_gets_the_signal() -> None:
    scenario = parked(3, until="signal", key="go")
    for index in range(3):
        scenario.when(Signal("go", str(index)))
        (resumed,) = [event for event in scenario.events if isinstance(event, e.StepResumed)]
        assert resumed.index == index


def test_kept_signals_are_delivered_in_the_order_in_which_their_names_came() -> None:
    scenario = parked(0).given(
        e.MessageReceived("b", "1"),
        e.MessageReceived("a", "2"),
        e.StepStarted("start#1", 1, "worker", (0, 2)),
        e.StepPaused("start#1", 1, "waiting", index=0, until="signal", keys=("a", "b")),
    )
    scenario.when(Signal("c", "3"))
    resumed = [event.message for event in scenario.events if isinstance(event, e.StepResumed)]
    assert resumed == ["1"]


def test_parked_items_are_found_by_what_they_wait_for() -> None:
    items = ParkedItems({3: Parked("retry"), 1: Parked("signal", "go"), 2: Parked("signal", keys=("stop", "go"))})
    items[0] = Parked("child", "c")
    assert items.first({"retry", "child"}, 9) == [3, 0]
    assert items.first({"retry", "child"}, 1) == [3]
    assert items.signals == {"go", "stop"}
    assert items.waiting_for("signal", "go") == 1
    items.pop(1)
    assert (items.waiting_for("signal", "go"), items.waiting_for("child", "c")) == (2, 0)
    items.pop(2)
    assert (items.signals, items.kinds) == (set(), {"retry", "child"})
    items[3] = Parked("child", "c")
    assert (items.kinds, items.waiting_for("child", "c"), len(items)) == ({"child"}, 0, 2)
    items.clear()
    assert (items.kinds, items.waiting_for("child", "c"), items.pop(0)) == (set(), None, None)


def test_a_resumed_item_leaves_no_trace() -> None:
    state = parked(2, until="signal", key="go").state
    evolve(state, e.StepResumed("start#1", 0), 2.0)
    assert state.runs["start#1"].parked_items.waiting_for("signal", "go") == 1
