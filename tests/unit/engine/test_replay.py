"""A log folded again, and decided again under another playbook."""

# ruff: noqa: E501 (playbooks in one line a step are easier to compare)

from __future__ import annotations

import asyncio
from functools import partial
from math import inf
from typing import NamedTuple

import pytest
from forking import FORK, _added, again, forked
from stage import EXECUTION, Stage, play, text_of
from test_forks import CHAIN, CHILD, FINAL, RICH, Counter

from noetl.engine.commands import Cancel, Pause, Resume, Signal
from noetl.engine.history.replay import Difference
from noetl.engine.state import Execution
from noetl.model.outcome import failed
from noetl.runtime import history
from noetl.runtime.history import Replayed
from noetl.runtime.past import PastReader
from noetl.runtime.replays import Replayer


class Decided(NamedTuple):
    state: Execution
    equal: bool | None
    difference: Difference | None


def replayed(stage: Stage, text: str | None = None, execution: str = EXECUTION, slice_seconds: float = inf) -> Decided:
    def replay(past: PastReader, digest: str) -> Decided:
        replayer = Replayer(past, execution, past.playbook(digest))
        scanned_to = 0
        while (result := replayer.advance(past, slice_seconds)).equal is None:
            assert result.scanned_to > scanned_to
            scanned_to = result.scanned_to
        return Decided(replayer.replay.state, result.equal, result.first_difference)

    async def work() -> Decided:
        digest = _added(stage, text) if text is not None else stage.digest
        return await stage.engine.runtime.past.do(partial(replay, digest=digest))

    return again(stage, work)


ROUTES = """\
- {step: a, tool: [one: {kind: python, code: count}, two: {kind: python, code: count}], next: {arcs: [{step: b, when: "{{ steps.a.result > 1 }}"}, {step: c}]}}
- {step: b, loop: {in: [1, 2, 3], iterator: x}, tool: {kind: noop, result: "{{ iter.x }}"}}
- {step: c, tool: {kind: noop}}
"""
LARGE = "- {step: a, tool: {kind: noop, result: {n: 1, text: \"{{ 'x' * 70000 }}\"}}, next: {arcs: [{step: b, when: '{{ steps.a.result.n == 1 }}', args: {t: '{{ steps.a.result.text[:3] }}'}}]}}\n- {step: b, tool: {kind: noop, result: '{{ args.t }}'}}"


@pytest.mark.damaged_log("the summary is replaced")
def test_the_fold_of_a_log_is_what_is_stored() -> None:
    stage = play(RICH, head=FINAL, children={"child": CHILD})

    async def work() -> Replayed:
        return await history.replay(stage.engine.runtime, EXECUTION)

    result = again(stage, work)
    assert (result.equal, result.state.result) == (True, stage.state.result)
    stage.store.runs[EXECUTION] = type(stage.store.runs[EXECUTION])(
        EXECUTION, "x", "x", "failed", 0.0, digest=stage.digest
    )
    assert not again(stage, work).equal


@pytest.mark.parametrize("workflow", [CHAIN, ROUTES, RICH, LARGE], ids=["chain", "routes", "rich", "large"])
def test_under_its_own_playbook_nothing_differs(workflow: str) -> None:
    head = FINAL if workflow is RICH else ""
    stage = play(workflow, head=head, children={"child": CHILD}, tools={"count": Counter()}, ctx={"given": 1})
    for seconds in (inf, 0.0):  # at once, and in slices of one event
        result = replayed(stage, slice_seconds=seconds)
        assert (result.difference, result.equal, result.state.status) == (None, True, "succeeded")
        assert (result.state.ctx, result.state.seq) == (stage.state.ctx, stage.state.seq)


def test_nothing_differs_after_failures_pauses_signals_cancels_and_crashes() -> None:
    failing = "- {step: a, tool: {kind: python, code: bad}, next: {arcs: [{step: b, when: '{{ event.name == \"step.failed\" }}'}]}}\n- {step: b, tool: {kind: python, code: bad}}"
    assert replayed(play(failing, tools={"bad": lambda: failed("shaky", "no")})).difference is None
    limit = "- {step: a, spec: {timeout: 30}, tool: {kind: wait, signal: go}}"
    assert replayed(play(limit)).difference is None
    assert (
        replayed(play(CHAIN, Pause(), Resume(), Signal("x", "1"), Cancel(), tools={"count": Counter()})).difference
        is None
    )

    async def crashing(stage: Stage) -> None:
        await stage.engine.worker.claim()
        await stage.until(lambda: bool(stage.of("task.started")))
        await stage.crash()

    async def slow() -> int:
        await asyncio.sleep(0.2)
        return 1

    assert (
        replayed(
            play("- {step: a, tool: {kind: python, code: slow}}", tools={"slow": slow}, during=crashing)
        ).difference
        is None
    )


def test_a_guard_that_comes_out_otherwise_is_the_first_difference() -> None:
    stage = play(ROUTES, tools={"count": Counter()})
    result = replayed(stage, text_of(ROUTES.replace("result > 1", "result > 5")))
    assert result.difference is not None
    at = next(seq for seq, event in enumerate(stage.events, start=1) if event.name == "next.evaluated")
    assert (result.difference.seq, result.difference.event_type, result.equal) == (at, "next.evaluated", False)
    assert result.difference.logged == {
        "event_type": "next.evaluated",
        "run": "a#1",
        "on": "step.done",
        "selected": (0,),
    }
    assert result.difference.replayed == {
        "event_type": "next.evaluated",
        "run": "a#1",
        "on": "step.done",
        "selected": (1,),
    }


@pytest.mark.parametrize(
    ("old", "new", "event", "message"),
    [
        ("in: [1, 2, 3]", "in: [1, 2]", "loop.started", "decides differently"),
        ("step: b, loop", "step: d, loop", "token.enqueued", "decides differently"),
        ("two: {kind", "zwei: {kind", "task.started", "no step or task"),
        (
            "tool: [one",
            "spec: {policy: {admit: {rules: [{when: '{{ ctx.x }}', then: {allow: true}}]}}}, tool: [one",
            "step.scheduled",
            "decides differently",
        ),
        (
            "one: {kind: python",
            "one: {spec: {policy: {rules: [{else: {then: {do: break}}}]}}, kind: python",
            "task.done",
            "the policy of the task decides break",
        ),
    ],
)
def test_other_first_differences(old: str, new: str, event: str, message: str) -> None:
    stage = play(ROUTES, tools={"count": Counter()})
    edited = (
        ROUTES.replace(old, new).replace("arcs: [{step: b", "arcs: [{step: d")
        if "step: d" in new
        else ROUTES.replace(old, new)
    )
    result = replayed(stage, text_of(edited)).difference
    assert result is not None
    if event == "task.started":  # workers start what they were given: only its outcome has no place
        assert (result.event_type, message in result.message) == ("task.done", True)
    else:
        assert (result.event_type, message in result.message) == (event, True), result


def test_an_edited_workload_and_a_longer_playbook_are_differences() -> None:
    stage = play("- {step: a, tool: {kind: noop}}", head="workload: {x: 1}\n")
    event = replayed(stage, text_of("- {step: a, tool: {kind: noop}}", "workload: {x: 2}\n")).difference
    assert (event.seq, event.event_type) == (2, "playbook.request.evaluated")
    event = replayed(
        stage, text_of("- {step: a, tool: {kind: noop}, next: {arcs: [{step: b}]}}\n- {step: b}", "workload: {x: 1}\n")
    ).difference
    assert event.event_type == "next.evaluated"


@pytest.mark.parametrize("workflow", [CHAIN, ROUTES, RICH], ids=["chain", "routes", "rich"])
def test_a_fork_at_any_event_is_decided_in_the_same_way_again(workflow: str) -> None:
    head = FINAL if workflow is RICH else ""
    stage = play(workflow, head=head, children={"child": CHILD}, tools={"count": Counter()})
    last = max(seq for seq, event in enumerate(stage.events, 1) if event.name == "step.done")
    for at in range(1, last + 1):
        name = f"00000000-0000-7000-8000-0000000f{at:04d}"
        forked(stage, at, name=name)
        assert replayed(stage, execution=name).difference is None, at


def test_more_firings_than_one_decision_may_have_are_replayed() -> None:
    steps = [f"- {{step: s{n}, next: {{arcs: [{{step: s{n + 1}}}]}}}}" for n in range(600)]
    stage = play("\n".join([*steps, "- {step: s600, tool: {kind: noop}}"]))
    assert [event.timer for event in stage.of("timer.fired")] == ["more"]
    assert replayed(stage).difference is None


def test_forks_are_replayed() -> None:
    stage = play(CHAIN, tools={"count": Counter()})
    forked(stage, 12, ctx={"word": "x"})
    result = replayed(stage, execution=FORK)
    assert (result.difference, result.state.status, result.state.ctx) == (None, "succeeded", {"word": "x"})
