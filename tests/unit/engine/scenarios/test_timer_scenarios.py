"""What happens when a time has come, and what ends a wait before it."""

from __future__ import annotations

import msgspec
from scenario import Scenario, begun, ran

from noetl.engine.commands import ChildEnded, Claim, Pause, Report, Signal, TimerDue
from noetl.engine.events import (
    Event,
    MessageReceived,
    NextEvaluated,
    StepDone,
    StepFailed,
    StepPaused,
    StepResumed,
    StepScheduled,
    StepStarted,
    TimerFired,
    TokenEnqueued,
)
from noetl.model.outcome import Outcome
from noetl.store.codec import freeze, thaw

DELAYED = """\
- step: start
  tool: {kind: noop}
  next: {arcs: [{step: late, spec: {delay: 5s}}]}
- {step: late, tool: {kind: noop}}
"""
LIMITED = """\
- step: start
  spec: {timeout: 10s}
  tool: {kind: noop}
"""
WAITS = """\
- step: start
  tool: [{ask: {kind: wait, signal: go, spec: {timeout: 10s}}}]
"""
WAITING: tuple[Event, ...] = (
    *begun(),
    StepStarted("start#1", 1, "worker"),
    StepPaused("start#1", 1, "waiting", until="signal", key="go", due=10.0),
)


def only_timer(scenario: Scenario) -> str:
    (timer,) = scenario.state.timers
    return timer


def test_a_delayed_token_arrives_when_its_time_has_come() -> None:
    scenario = Scenario(DELAYED).given(*begun(), StepStarted("start#1", 1, "worker"))
    scenario.when(Report(1, (StepDone("start#1"),)), at=1.0).then(
        StepDone("start#1"),
        NextEvaluated("start#1", "step.done", selected=(0,)),
        TokenEnqueued(2, "late", origin="start#1", due=6.0),
    )
    timer = only_timer(scenario)
    scenario.when(TimerDue(timer), at=6.0).then(TimerFired(timer), StepScheduled("late#1", (2,)))


def test_a_timer_that_is_early_or_unknown_changes_nothing() -> None:
    delayed = (
        *ran("start", 1),
        NextEvaluated("start#1", "step.done", selected=(0,)),
        TokenEnqueued(2, "late", origin="start#1", due=6.0),
    )
    scenario = Scenario(DELAYED).given(*begun(), *delayed)
    scenario.when(TimerDue(only_timer(scenario)), at=5.9).then_nothing()
    scenario.when(TimerDue("token:99"), at=9.0).then_nothing()


def test_a_timer_fires_once() -> None:
    scenario = Scenario(WAITS).given(*WAITING)
    timer = only_timer(scenario)
    scenario.when(TimerDue(timer), at=10.0)
    assert scenario.events
    scenario.when(TimerDue(timer), at=11.0).then_nothing()


def test_a_step_that_takes_too_long_fails() -> None:
    scenario = Scenario(LIMITED).given(*begun()).when(Claim("worker"), at=2.0)
    timer = only_timer(scenario)
    scenario.when(TimerDue(timer), at=11.0).then_nothing()
    scenario.when(TimerDue(timer), at=12.0)
    failed = next(event for event in scenario.events if isinstance(event, StepFailed))
    assert (failed.run, failed.error.kind) == ("start#1", "timeout")
    scenario.when(Report(1, (StepDone("start#1"),)), at=13.0).then_nothing()


def test_a_signal_ends_a_wait_and_its_timer() -> None:
    scenario = Scenario(WAITS).given(*WAITING)
    timer = only_timer(scenario)
    scenario.when(Signal("go", "mail-1", {"by": "ada"}), at=3.0).then(
        MessageReceived("go", "mail-1", {"by": "ada"}),
        StepResumed("start#1", outcome=Outcome(result={"by": "ada"}), message="mail-1"),
    )
    assert scenario.state.timers == {}
    scenario.when(TimerDue(timer), at=10.0).then_nothing()


def test_a_snapshot_with_the_name_of_a_consumed_signal_is_read() -> None:
    """Version 0.1.0 kept the name after the last signal of that name was consumed."""
    scenario = Scenario(WAITS).given(*WAITING).when(Signal("go", "mail-1"), at=3.0)
    frozen = msgspec.json.decode(freeze(scenario.state))
    stored = msgspec.json.encode({**frozen, "signals": {"go": []}})
    assert thaw(stored, scenario.net) == thaw(freeze(scenario.state), scenario.net)


def test_a_wait_that_nobody_ends_is_timed_out() -> None:
    scenario = Scenario(WAITS).given(*WAITING)
    scenario.when(TimerDue(only_timer(scenario)), at=10.0)
    fired, resumed = scenario.events
    assert isinstance(fired, TimerFired)
    assert isinstance(resumed, StepResumed)
    assert resumed.outcome is not None
    assert resumed.outcome.error is not None
    assert resumed.outcome.error.kind == "timeout"


def test_a_signal_counts_once_and_is_kept_until_somebody_waits() -> None:
    scenario = Scenario(WAITS).given(*begun())
    scenario.when(Signal("go", "mail-1")).then(MessageReceived("go", "mail-1"))
    scenario.when(Signal("go", "mail-1")).then_nothing()


def test_time_is_stopped_while_an_execution_is_paused() -> None:
    scenario = Scenario(WAITS).given(*WAITING)
    timer = only_timer(scenario)
    scenario.when(Pause(), at=3.0).when(TimerDue(timer), at=10.0).then_nothing()


def test_the_end_of_a_child_nothing_waits_for_changes_nothing() -> None:
    Scenario(WAITS).given(*WAITING).when(ChildEnded("another", Outcome())).then_nothing()
