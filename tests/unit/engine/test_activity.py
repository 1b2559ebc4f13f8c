"""What lists say about an execution: its activity, its progress, its waits, its error and how it was started."""

# ruff: noqa: E501 (playbooks in one line a step are easier to compare)

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest
from stage import EXECUTION, During, Stage, play
from test_explain import live

from noetl.engine.commands import Cancel, Pause, Resume, Signal
from noetl.engine.events import StepResumed
from noetl.model.actor import Actor
from noetl.model.outcome import failed
from noetl.runtime import activity
from noetl.runtime.activity import (
    MAX_LISTED,
    CountedWaits,
    Details,
    activity_of,
    counted_waits,
    progress_of,
    trigger_of,
)
from noetl.store.store import Change, Summary

SINCE = "2023-11-14T22:13:20"  # the time at which a stage begins
ASK = "- {step: ask, tool: [{v: {kind: wait, signal: verdict}}], next: {arcs: [{step: ship, when: '{{ steps.ask.result.ship }}'}]}}\n- {step: ship, tool: {kind: noop}}"


def watched(seen: list[Any], *commands: Any, status: str = "waiting") -> During:
    """Note the summary of the run once it has a status, and then send commands."""

    async def during(stage: Stage) -> None:
        driving = asyncio.create_task(stage.drive())
        await stage.until(lambda: EXECUTION in stage.store.runs and stage.store.runs[EXECUTION].status == status)
        seen.append(stage.store.runs[EXECUTION])
        await stage.handle(*commands)
        await driving

    return during


def details(summary: Summary) -> Details:
    return msgspec.json.decode(summary.details, type=Details)


def test_a_run_that_waits_for_a_signal_says_since_when_and_what_an_answer_has() -> None:
    seen: list[Summary] = []
    play(ASK, during=watched(seen, Signal("verdict", "1", {"ship": True})))
    (summary,) = seen
    assert (summary.waits, summary.activity) == (" signal ", f"waiting for signal verdict since {SINCE}Z")
    (wait,) = details(summary).waits
    assert msgspec.to_builtins(wait) == {
        "run": "ask#1",
        "item": None,
        "for": "signal",
        "name": "verdict",
        "due": None,
        "since": f"{SINCE}.000Z",
        "message": "ask#1 waits for the signal 'verdict'",
        "fields": [{"path": "ship", "type": "boolean"}],
    }


@pytest.mark.parametrize(
    ("workflow", "kind", "activity"),
    [
        (
            "- {step: a, tool: {kind: noop}, next: {spec: {mode: inclusive}, arcs: [{step: w}, {step: j}]}}\n"
            "- {step: w, tool: {kind: wait, signal: go}, next: {arcs: [{step: j}]}}\n- {step: j, spec: {join: all}, tool: {kind: noop}}",
            " join signal ",
            f"waiting for signal go since {SINCE}Z, and for 1 more",
        ),
        (
            "- {step: a, tool: {kind: noop}, next: {arcs: [{step: b, spec: {delay: 60}}]}}\n- {step: b, tool: {kind: wait, signal: go}}",
            " timer ",
            f"waiting for the delay before b since {SINCE}Z",
        ),
        (
            "- {step: a, tool: {kind: wait, signals: [go, stop]}}",
            " signal ",
            f"waiting for signal go or stop since {SINCE}Z",
        ),
        (
            "- {step: a, tool: {kind: playbook, path: child}, next: {arcs: [{step: b}]}}\n- {step: b, tool: {kind: wait, signal: go}}",
            " child ",
            "waiting for child ",
        ),
    ],
)
def test_every_kind_of_wait_is_named(workflow: str, kind: str, activity: str) -> None:
    seen: list[Summary] = []
    child = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: c, path: child}\nworkflow:\n  - {step: w, tool: {kind: wait, signal: go, spec: {timeout: 5}}}\n"

    async def during(stage: Stage) -> None:
        stage.engine.watched = True
        driving = asyncio.create_task(stage.drive())
        await stage.until(lambda: EXECUTION in stage.store.runs and stage.store.runs[EXECUTION].waits == kind)
        seen.append(stage.store.runs[EXECUTION])
        await stage.handle(Cancel("enough", Actor("user", "ada")))
        await driving

    stage = play(workflow, during=during, children={"child": child})
    assert seen[0].activity.startswith(activity)
    ended = stage.store.runs[EXECUTION]
    assert (ended.activity, ended.waits, ended.status) == ("cancelled by user ada: enough", "", "cancelled")


def test_a_step_that_is_not_admitted_waits_for_admission() -> None:
    seen: list[Summary] = []
    gate = "spec: {policy: {admit: {rules: [{when: '{{ ctx.open }}', then: {allow: true}}]}}}"
    workflow = (
        "- {step: a, tool: {kind: noop}, next: {spec: {mode: inclusive}, arcs: [{step: b}, {step: w}]}}\n"
        f"- {{step: b, {gate}, tool: {{kind: noop}}}}\n- {{step: w, tool: {{kind: wait, signal: go}}}}"
    )
    play(workflow, during=watched(seen, Cancel()))
    assert seen[0].waits == " admission signal "
    assert [(wait.kind, wait.run) for wait in details(seen[0]).waits] == [("signal", "w#1"), ("admission", "b")]


def test_a_failed_run_names_step_kind_and_message() -> None:
    stage = play(
        "- {step: order, tool: {kind: python, code: f}}", tools={"f": lambda: failed("exit_code", "No such\nfile")}
    )
    summary = stage.store.runs[EXECUTION]
    assert summary.activity == "order: exit_code, No such file"
    error = details(summary).error
    assert error is not None
    assert (error.kind, error.step, error.message) == ("exit_code", "order", "No such file")


def test_a_run_that_succeeded_with_failed_items_says_how_many() -> None:
    loop = "loop: {in: '{{ range(5) | list }}', iterator: x, spec: {on_error: continue}}"
    stage = play(
        f"- {{step: fetch, {loop}, tool: {{kind: python, args: {{x: '{{{{ iter.x }}}}'}}, code: f}}}}",
        tools={"f": lambda x: failed("exit_code", "no") if x % 2 else x},
    )
    summary = stage.store.runs[EXECUTION]
    assert (summary.status, summary.activity) == ("succeeded", "2 of 5 items failed")
    assert details(summary).failed_items == 2
    assert msgspec.to_builtins(details(summary).progress) == {"total": 5, "ok": 3, "failed": 2}


def test_the_progress_of_a_loop_is_stored_once_a_second_and_the_waits_at_once() -> None:
    """Each item takes 0.4 seconds: of 40 items, 16 seconds, there are not many more writes than seconds."""
    written: list[Summary] = []

    async def during(stage: Stage) -> None:
        commit = stage.store.commit

        def counted(changes: Any) -> list[bool]:
            written.extend(change.summary for change in changes if change.summary is not None)
            return commit(changes)

        stage.store.commit = counted  # type: ignore[method-assign]

        def tick() -> None:
            stage.clock.time += 0.4

        stage.registry.tools["f"] = tick
        await stage.drive()

    loop = "loop: {in: '{{ range(40) | list }}', iterator: x}"
    play(f"- {{step: fetch, {loop}, tool: {{kind: python, code: f}}}}", during=during)
    progress = [summary.activity for summary in written if summary.status == "running" and "of 40" in summary.activity]
    assert len(progress) == len(set(progress)) <= 17
    assert {activity.partition(":")[0] for activity in progress} <= {"fetch"}
    assert written[-1].status == "succeeded"


def test_progress_is_that_of_the_active_loop() -> None:
    seen: list[Any] = []

    async def during(stage: Stage) -> None:
        async def note() -> None:
            seen.append((progress_of(stage.live()), activity_of(stage.live()).sentence))

        stage.registry.tools["f"] = note
        await stage.drive()

    loop = "loop: {in: [1, 2], iterator: x}"
    play(f"- {{step: fetch, {loop}, tool: {{kind: python, code: f}}}}", during=during)
    progress, activity = seen[0]
    assert (msgspec.to_builtins(progress), activity) == ({"total": 2, "ok": 0, "failed": 0}, "fetch: 0 of 2")


@pytest.mark.parametrize(
    ("actor", "trigger"),
    [
        (Actor("user", "ada"), ("api", "ada")),
        (Actor("schedule", "nightly"), ("schedule", "nightly")),
        (Actor("hook", "orders"), ("hook", "orders")),
        (None, ("api", "")),
    ],
)
def test_the_trigger_is_who_requested_the_run(actor: Actor | None, trigger: tuple[str, str]) -> None:
    state = play("- {step: a, tool: {kind: noop}}").live()
    state.actor = actor
    assert (trigger_of(state).kind, trigger_of(state).name) == trigger
    state.parent = ("p", "a#1", 1)
    assert trigger_of(state).kind == "child"
    state.forked = ("s", 5)
    assert (trigger_of(state).kind, trigger_of(state).name) == ("fork", "s")


def test_of_many_waits_only_the_first_are_described(monkeypatch: pytest.MonkeyPatch) -> None:
    workflow = (
        "- {step: a, tool: {kind: noop}, next: {spec: {mode: inclusive}, arcs: [{step: w}, {step: j}]}}\n"
        "- {step: w, loop: {in: '{{ range(40) }}', iterator: n, spec: {mode: parallel, max_in_flight: 40}}, tool: {kind: wait, signal: 'go{{ iter.n }}'}, next: {arcs: [{step: j}]}}\n"
        "- {step: j, spec: {join: all}, tool: {kind: noop}}"
    )
    result: list[CountedWaits] = []
    described: list[Any] = []
    awaited_text = activity.awaited_text

    async def during(stage: Stage) -> None:
        driving = asyncio.create_task(stage.drive())
        await stage.until(lambda: EXECUTION in stage.store.runs and stage.store.runs[EXECUTION].status == "waiting")
        state = stage.live()
        whole = counted_waits(state, 1_000).first
        assert len(whole) == 41
        with monkeypatch.context() as patch:
            patch.setattr(activity, "awaited_text", lambda parked: described.append(parked) or awaited_text(parked))
            activity_of(state)
        result.append(counted_waits(state))
        assert result == [CountedWaits(41, frozenset(wait.kind for wait in whole), whole[:MAX_LISTED])]
        await stage.handle(Cancel())
        await driving

    play(workflow, during=during)
    assert result[0].kinds == {"signal", "join"}
    assert len(described) <= 2 * MAX_LISTED


def test_a_paused_run_that_has_received_its_signal_waits_to_be_resumed() -> None:
    workflow = "- {step: ask, loop: {in: [0, 1, 2], iterator: n, spec: {mode: parallel}}, tool: {kind: wait, signals: [go, 'go{{ iter.n }}']}}"
    reports: list[Any] = []

    async def during(stage: Stage) -> None:
        driving = asyncio.create_task(stage.drive())
        await stage.until(lambda: EXECUTION in stage.store.runs and stage.store.runs[EXECUTION].status == "waiting")
        await stage.handle(Pause(), Signal("go2", "1", {}))
        reports.append((stage.store.runs[EXECUTION], (await live(stage, "ask")).notes))
        await stage.handle(Signal("go", "2", {}), Signal("go", "3", {}), Signal("other", "4", {}))
        reports.append((stage.store.runs[EXECUTION], (await live(stage, "ask")).notes))
        await driving
        await stage.handle(Resume())
        await stage.drive()

    stage = play(workflow, during=during)
    (partial, partial_notes), (complete, complete_notes) = reports
    received = "signal 'go2' was received and is kept until the execution is resumed"
    assert (partial.waits, partial.activity) == (" resume signal ", received)
    assert [(wait.kind, wait.item, wait.name) for wait in details(partial).waits] == [
        *(("signal", 0, "go"), ("signal", 0, "go0"), ("signal", 1, "go"))
    ]
    assert complete.waits == " resume "
    assert {(wait.kind, wait.item, wait.name, wait.due) for wait in details(complete).waits} == {
        *(("resume", 0, "go", None), ("resume", 1, "go", None), ("resume", 2, "go2", None))
    }
    assert details(complete).waits[0].message.startswith("ask#1[0] waits: signal 'go' was received")
    assert "answer with" in str(partial_notes)
    assert "answer with" not in str(complete_notes)
    assert "; signal 'go' was received and is kept until the execution is resumed" in str(complete_notes)
    assert stage.state.status == "succeeded"
    resumed = [event for event in stage.events if isinstance(event, StepResumed)]
    assert {(event.index, event.outcome.result["signal"]) for event in resumed if event.outcome} == {
        *((0, "go"), (1, "go"), (2, "go2"))
    }


def test_a_run_without_waits_does_not_write_its_summary_for_each_step() -> None:
    written: list[Change] = []

    async def during(stage: Stage) -> None:
        commit = stage.store.commit

        def counted(changes: Any) -> list[bool]:
            written.extend(change for change in changes if change.summary is not None)
            return commit(changes)

        stage.store.commit = counted  # type: ignore[method-assign]
        await stage.drive()

    steps = "\n".join(
        f"- {{step: s{n}, tool: {{kind: noop}}, next: {{arcs: [{{step: s{n + 1}}}]}}}}" for n in range(20)
    )
    play(f"{steps}\n- {{step: s20, tool: {{kind: noop}}}}", during=during)
    assert len(written) <= 3
