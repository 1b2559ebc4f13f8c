"""Forks and retries: an execution that begins with the events of another one and goes its own way."""

# ruff: noqa: E501 (playbooks in one line a step are easier to compare)

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from forking import FAILURE, FORK, again, events_of, forked
from stage import EXECUTION, Stage, play, text_of

from noetl.engine import loops
from noetl.engine.commands import Cancel, Pause, Signal
from noetl.engine.history.fork import AgainView
from noetl.errors import Conflict, NotFound, UsageError
from noetl.model.identity import TaskId, action_id
from noetl.model.outcome import failed
from noetl.runtime import history
from noetl.runtime.history import Edit, RetryPoint

CHAIN = """\
- {step: a, tool: [one: {kind: python, code: count}, two: {kind: python, code: count}], next: {arcs: [{step: b}]}}
- {step: b, tool: {kind: python, code: count}, next: {arcs: [{step: c}]}}
- {step: c, tool: {kind: noop, result: "{{ steps.b.result }} {{ ctx.word | default('none') }}"}}
"""

# No time limits here: time jumps to the next timer when nothing moves for a while, as on a busy machine.
RICH = """\
- step: start
  next: {spec: {mode: inclusive}, arcs: [{step: each, args: {n: 1}}, {step: side, when: "{{ true }}"}]}
- step: each
  loop: {in: [1, 2, 3, 4, 5], iterator: x, spec: {mode: parallel, max_in_flight: 2}}
  tool:
    - double: {kind: noop, result: "{{ iter.x * 2 }}", spec: {policy: {rules: [{else: {then: {do: continue, set_ctx: {sum: {$add: "{{ iter.x }}"}}}}}]}}}
    - plus: {kind: noop, result: "{{ _prev + args.n }}"}
  next: {arcs: [{step: meet}]}
- step: side
  tool:
    - wait: {kind: noop, spec: {policy: {rules: [{when: "{{ _attempt < 3 }}", then: {do: retry, attempts: 3, delay: 20}}, {else: {then: {do: continue, set_ctx: {open: true}}}}]}}}
  next: {arcs: [{step: slow}]}
- {step: slow, tool: {kind: playbook, path: child}, next: {arcs: [{step: meet, spec: {delay: 5}}]}}
- {step: none, loop: {in: [], iterator: y}, tool: {kind: noop}, next: {arcs: [{step: last}]}}
- {step: meet, spec: {join: all, policy: {admit: {rules: [{when: "{{ ctx.open }}", then: {allow: true}}]}}}, next: {arcs: [{step: none}]}}
- {step: last, tool: {kind: noop, result: "{{ steps.each.result }} {{ ctx.sum }} {{ steps.slow.result }}"}}
- {step: bye, tool: {kind: noop, result: "{{ steps.last.result }}, {{ args.summary.status }}"}}
"""
CHILD = text_of("- {step: only, tool: {kind: noop, result: born}}").replace("tests/story", "tests/child")
FINAL = "executor: {spec: {final_step: bye}}\n"


class Counter:
    """A tool that counts its calls."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self) -> int:
        self.calls += 1
        return self.calls


def seq_of(stage: Stage, name: str, last: bool = False, **fields: Any) -> int:
    """The seq of the first event of a name, or the last one."""
    result = [
        seq
        for seq, event in enumerate(stage.events, start=1)
        if event.name == name and all(getattr(event, key) == value for key, value in fields.items())
    ]
    return result[-1] if last else result[0]


# -- forks ----------------------------------------------------------------------------------------------------------


def test_a_fork_has_the_events_of_its_source_and_continues() -> None:
    count = Counter()
    stage = play(CHAIN, tools={"count": count})
    at = seq_of(stage, "step.done", run="a#1")
    result, state = forked(stage, at)
    events = events_of(stage)
    assert events[:at] == stage.events[:at]
    told = events[result.source_seq]
    assert (told.name, told.source_id, told.source_seq) == ("execution.forked", EXECUTION, result.source_seq)
    assert (state.status, state.result) == ("succeeded", "4 none")
    assert count.calls == 4  # two of a and one of b, and b once more


def test_the_source_is_left_alone() -> None:
    stage = play(CHAIN, tools={"count": Counter()})
    before = stage.store.read(EXECUTION)
    forked(stage, seq_of(stage, "step.done", run="a#1"))
    assert stage.store.read(EXECUTION) == before


def test_actions_of_a_fork_are_not_those_of_its_source() -> None:
    stage = play(CHAIN, tools={"count": Counter()})
    before = [context.action for context in stage.registry.contexts]
    forked(stage, 1)
    after = [context.action for context in stage.registry.contexts][len(before) :]
    task = TaskId("a#1", "one#1")
    assert (before[0], after[0]) == (action_id(EXECUTION, task), action_id(FORK, task))
    assert not set(before) & set(after)


def test_at_its_first_event_a_fork_is_the_whole_run_again() -> None:
    stage = play(CHAIN, tools={"count": Counter()}, payload={"a": 1}, ctx={"word": "hi"})
    result, state = forked(stage, 1)
    assert result.source_seq == seq_of(stage, "token.enqueued")
    assert (state.workload, state.ctx, state.result) == ({"a": 1}, {"word": "hi"}, "6 hi")


def test_ctx_of_a_fork_can_be_set_and_runs_under_way_see_it() -> None:
    steps = """\
    - step: a
      tool: [one: {kind: noop}, two: {kind: noop, result: "{{ ctx.word }} {{ ctx.other }}"}]
      next: {arcs: [{step: b, when: "{{ ctx.word == 'new' }}"}]}
    - {step: b, tool: {kind: noop, result: "{{ steps.a.result }} {{ ctx.word }}"}}
    """
    stage = play(steps, ctx={"word": "old", "other": 1})
    at = seq_of(stage, "task.done")
    result, state = forked(stage, at, ctx={"word": "new"})
    assert (state.ctx, state.result) == ({"word": "new", "other": 1}, "new 1 new")
    assert events_of(stage)[result.source_seq].set_ctx == (("word", "=", "new"),)


def test_after_every_event_a_fork_comes_to_the_same_end() -> None:
    """Also in the middle of what the engine has said in one breath."""
    stage = play(RICH, head=FINAL, children={"child": CHILD})
    assert stage.state.result == "[3, 5, 7, 9, 11] 15 born, succeeded"
    end = seq_of(stage, "playbook.processed")
    last = seq_of(stage, "step.done", run="bye#1")
    for at in range(1, last + 1):
        name = f"00000000-0000-7000-8000-0000000f{at:04d}"
        result, state = forked(stage, at, name=name)
        assert (state.status, state.result, state.ctx) == ("succeeded", stage.state.result, stage.state.ctx), at
        assert at <= result.source_seq < end
        assert events_of(stage, name)[:at] == stage.events[:at]


def test_forks_of_forks() -> None:
    stage = play(CHAIN, tools={"count": Counter()})
    first, _ = forked(stage, seq_of(stage, "step.done", run="a#1"))
    other = FORK[:-1] + "e"
    result, state = forked(stage, first.source_seq + 2, source=FORK, name=other)
    assert state.status == "succeeded"
    assert [event.source_id for event in events_of(stage, other) if event.name == "execution.forked"] == [
        EXECUTION,
        FORK,
    ]
    assert state.forked == (FORK, result.source_seq)


def test_a_fork_of_a_run_that_continues_takes_nothing_from_it() -> None:
    steps = "- {step: a, tool: {kind: wait, signal: go}, next: {arcs: [{step: b}]}}\n- {step: b, tool: {kind: noop, result: '{{ steps.a.result }}'}}"

    async def during(stage: Stage) -> None:
        driving = asyncio.create_task(stage.drive())
        await stage.until(lambda: stage.live().shown_status == "waiting")
        runtime = stage.engine.runtime
        await history.fork(runtime, EXECUTION, FORK, None, Edit())
        await stage.handle(Signal("go", "1", "theirs"), execution=FORK)
        assert (await stage.engine.drive(FORK)).result == "theirs"
        assert stage.live().shown_status == "waiting"
        await stage.handle(Signal("go", "1", "ours"))
        await driving

    assert play(steps, during=during).state.result == "ours"


def test_a_paused_run_is_forked_into_one_that_runs() -> None:
    async def during(stage: Stage) -> None:
        await stage.handle(Pause())
        await history.fork(stage.engine.runtime, EXECUTION, FORK, None, Edit())
        assert (await stage.engine.drive(FORK)).status == "succeeded"
        assert stage.live().status == "paused"
        await stage.handle(Cancel("enough"))

    play(CHAIN, tools={"count": Counter()}, during=during)


def test_a_fork_has_children_of_its_own() -> None:
    steps = "- {step: a, tool: {kind: playbook, path: child}, next: {arcs: [{step: b}]}}\n- {step: b, tool: {kind: noop, result: '{{ steps.a.result }}'}}"
    stage = play(steps, children={"child": CHILD})
    _, state = forked(stage, seq_of(stage, "step.paused"))
    assert state.result == "born"
    asked = [event.key for event in events_of(stage) if event.name == "step.paused"]
    assert asked[0] == stage.of("step.paused")[0].key != asked[1]
    children = {summary.execution_id: summary.parent for summary in stage.store.summaries()}
    assert (children[asked[0]], children[asked[1]]) == (EXECUTION, FORK)


def test_a_fork_of_a_child_has_no_parent() -> None:
    steps = "- {step: a, tool: {kind: playbook, path: child}}"
    stage = play(steps, children={"child": CHILD})
    child = stage.of("step.paused")[0].key
    _, state = forked(stage, 6, source=child)
    assert (state.status, state.parent) == ("succeeded", None)


def test_timers_have_as_much_time_left_as_they_had() -> None:
    steps = "- {step: a, spec: {timeout: 100}, tool: {kind: wait, signal: go, spec: {timeout: 60}}}"

    async def during(stage: Stage) -> None:
        driving = asyncio.create_task(stage.drive())
        await driving

    stage = play(steps, during=during)
    at = seq_of(stage, "step.paused")
    stage.clock.time += 100_000

    async def work() -> dict[str, float]:
        await history.fork(stage.engine.runtime, EXECUTION, FORK, at, Edit())
        return dict(stage.live(FORK).timers)

    left = {name: due - stage.clock.time for name, due in again(stage, work).items()}
    assert left == {"timeout:a#1": pytest.approx(100), "wait:a#1:-1": pytest.approx(60)}


def test_after_the_end_there_is_nothing_to_fork() -> None:
    stage = play(CHAIN, tools={"count": Counter()})
    with pytest.raises(Conflict, match="has ended after"):
        forked(stage)
    with pytest.raises(Conflict, match="had ended at event"):
        forked(stage, len(stage.events))
    with pytest.raises(UsageError, match="event 999 not found"):
        forked(stage, 999)
    with pytest.raises(NotFound):
        forked(stage, 1, source="00000000-0000-7000-8000-000000000099")


def test_asked_twice_it_is_one_fork() -> None:
    stage = play(CHAIN, tools={"count": Counter()})

    async def work() -> int:
        for _ in range(2):
            stage.engine.runtime.executions.clear()  # as at another server
            await history.fork(stage.engine.runtime, EXECUTION, FORK, 8, Edit())
        return len(stage.store.read(FORK))

    rows = again(stage, work)
    assert [event.name for event in events_of(stage)].count("execution.forked") == 1
    assert rows < len(stage.events)


# -- with an edited playbook ----------------------------------------------------------------------------------------


def test_a_fork_continues_with_an_edited_playbook() -> None:
    stage = play(CHAIN, tools={"count": Counter()})
    edited = text_of(CHAIN.replace("steps.b.result }} {{", "steps.b.result }}, edited, {{"))
    result, state = forked(stage, seq_of(stage, "step.done", run="a#1"), text=edited)
    assert state.result == "4, edited, none"
    told = events_of(stage)[result.source_seq]
    assert told.playbook == state.digest != stage.digest


def test_steps_of_the_past_may_be_gone_and_new_ones_are_found() -> None:
    stage = play(CHAIN, tools={"count": Counter()})
    edited = text_of(
        "- {step: b, tool: {kind: noop, result: new}, next: {arcs: [{step: d}]}}\n"
        "- {step: d, tool: {kind: noop, result: 'd {{ steps.b.result }}'}}"
    )
    _, state = forked(stage, seq_of(stage, "step.started", run="b#1"), text=edited)
    assert state.result == "d new"


@pytest.mark.parametrize(
    ("edited", "message"),
    [
        ("- {step: a, tool: {kind: noop}}", "b#1 is at the step 'b', which it does not have"),
        ("- {step: b, loop: {in: [1], iterator: x}, tool: {kind: noop}}", "b#1 is running as no loop, .* is a loop"),
        ("- {step: b}", "has no task there"),
    ],
)
def test_what_is_alive_must_be_at_home_in_the_edited_playbook(edited: str, message: str) -> None:
    stage = play(CHAIN, tools={"count": Counter()})
    with pytest.raises(Conflict, match=message):
        forked(stage, seq_of(stage, "step.started", run="b#1"), text=text_of(edited))
    assert stage.store.read(FORK) == []


def test_a_task_that_comes_next_must_be_there() -> None:
    stage = play(CHAIN, tools={"count": Counter()})
    edited = text_of(CHAIN.replace("two: {", "zwei: {"))
    at = seq_of(stage, "task.done")
    with pytest.raises(Conflict, match="a#1 is at the task 'two', which the step 'a' does not have there"):
        forked(stage, at, text=edited)


def test_an_edited_workload_is_made_anew_with_the_payload_over_it() -> None:
    steps = "- {step: a, tool: {kind: noop}, next: {arcs: [{step: b}]}}\n- {step: b, tool: {kind: noop, result: '{{ workload.x }} {{ workload.y }} {{ workload.z }}'}}"
    stage = play(steps, head="workload: {x: 1, y: 2, z: 3}\n", payload={"y": 20})
    edited = text_of(steps, "workload: {x: 10, y: 11, z: '{{ workload.x }}!'}\n")
    _, state = forked(stage, seq_of(stage, "step.done", run="a#1"), text=edited)
    assert state.result == "10 20 10!"


def test_a_step_that_joins_in_the_edited_playbook_only() -> None:
    steps = """\
    - {step: start, next: {spec: {mode: inclusive}, arcs: [{step: a}, {step: b}]}}
    - {step: a, next: {arcs: [{step: meet}]}}
    - {step: b, tool: {kind: wait, signal: go, spec: {timeout: 5}, }, next: {arcs: [{step: meet, when: "{{ event.name }}"}]}}
    - {step: meet, spec: {policy: {admit: {rules: [{when: "{{ ctx.open }}", then: {allow: true}}]}}}, tool: {kind: noop, result: "{{ args_by | length }}"}}
    """
    stage = play(steps)
    joins = text_of(steps.replace("meet, spec: {policy", "meet, spec: {join: all, policy"))
    _, state = forked(stage, seq_of(stage, "step.started", run="b#1"), text=joins, ctx={"open": True})
    assert (state.entries["meet"], state.result) == (1, 2)


# -- retries --------------------------------------------------------------------------------------------------------


def flaky(failures: int, result: Any = "fine") -> Any:
    calls = []

    def tool() -> Any:
        calls.append(1)
        return failed("shaky", "it broke") if len(calls) <= failures else result

    return tool


def test_a_retry_continues_with_the_task_that_failed() -> None:
    steps = """\
    - {step: a, tool: {kind: python, code: count}, next: {arcs: [{step: b}]}}
    - step: b
      tool:
        - one: {kind: python, code: count}
        - two: {kind: python, code: shaky}
        - three: {kind: noop, result: "{{ _prev }} {{ tasks.one.result }}"}
    """
    count = Counter()
    stage = play(steps, tools={"count": count, "shaky": flaky(1)})
    assert stage.state.status == "failed"
    result, state = forked(stage, retry=FAILURE)
    assert (state.status, state.result, count.calls) == ("succeeded", "fine 2", 2)
    assert result.again == [AgainView("b#1", "b", "two", None, True)]
    assert result.done == ["a"]
    told = events_of(stage)[result.source_seq]
    assert (told.reason, told.again) == ("retry", ("b#1",))


def test_the_task_that_is_tried_again_sees_what_it_saw() -> None:
    steps = """\
    - step: a
      tool:
        - one: {kind: noop, result: before}
        - two: {kind: python, code: shaky, args: {given: "{{ _prev }}"}}
    """
    seen = []

    def shaky(given: str) -> Any:
        seen.append(given)
        return failed("shaky", "it broke") if len(seen) == 1 else "fine"

    stage = play(steps, tools={"shaky": shaky})
    forked(stage, retry=FAILURE)
    assert seen == ["before", "before"]


def test_a_retry_has_all_attempts_again() -> None:
    steps = """\
    - step: a
      tool: {kind: python, code: shaky, spec: {policy: {rules: [{when: "{{ outcome.status == 'error' }}", then: {do: retry, attempts: 3}}]}}}
    """
    stage = play(steps, tools={"shaky": flaky(5)})
    assert [event.attempt for event in stage.of("task.done")] == [1, 2, 3]
    _, state = forked(stage, retry=FAILURE)
    assert state.status == "succeeded"
    done = [(event.task.path, event.attempt) for event in events_of(stage) if event.name == "task.done"]
    assert done[3:] == [("task_1#2", 1), ("task_1#2", 2), ("task_1#2", 3)]


@pytest.mark.parametrize("mode", ["sequential", "parallel"])
def test_items_that_are_done_are_not_done_again(mode: str) -> None:
    steps = f"""\
    - step: a
      loop: {{in: [0, 1, 2, 3, 4, 5], iterator: x, spec: {{mode: {mode}}}}}
      tool: {{kind: python, code: shaky, args: {{x: "{{{{ iter.x }}}}"}}}}
    """
    seen: list[int] = []

    def shaky(x: int) -> Any:
        seen.append(x)
        return failed("shaky", "it broke") if seen.count(x) == 1 and x == 3 else x * 2

    stage = play(steps, tools={"shaky": shaky})
    done = {event.index for event in stage.of("loop.iteration.done")}
    assert stage.state.status == "failed"
    _, state = forked(stage, retry=FAILURE)
    assert (state.status, state.result) == ("succeeded", [0, 2, 4, 6, 8, 10])
    assert all(seen.count(x) == 1 for x in done)
    assert seen.count(3) == 2


def test_other_branches_continue_where_they_were() -> None:
    steps = """\
    - {step: start, next: {spec: {mode: inclusive}, arcs: [{step: a}, {step: b}]}}
    - {step: a, tool: [one: {kind: python, code: count}, two: {kind: python, code: slow}]}
    - {step: b, tool: {kind: python, code: shaky}}
    """
    count, gate = Counter(), asyncio.Event()
    calls = []

    async def slow() -> str:
        calls.append("slow")
        if len(calls) == 1:
            gate.set()
            await asyncio.sleep(60)
        return "slow"

    async def shaky() -> Any:
        await gate.wait()
        calls.append("shaky")
        return failed("shaky", "it broke") if calls.count("shaky") == 1 else "fine"

    stage = play(steps, tools={"count": count, "slow": slow, "shaky": shaky})
    assert stage.state.status == "failed"
    result, state = forked(stage, retry=FAILURE)
    assert state.status == "succeeded"
    assert count.calls == 1
    assert {(one.run, one.task, one.failed) for one in result.again} == {
        ("a#1", "two", False),
        ("b#1", "task_1", True),
    }


def test_a_retry_fails_as_before_if_nothing_has_changed_and_can_be_retried() -> None:
    stage = play("- {step: a, tool: {kind: python, code: shaky}}", tools={"shaky": flaky(2)})
    _, state = forked(stage, retry=FAILURE)
    assert state.status == "failed"
    _, state = forked(stage, retry=FAILURE, source=FORK, name=FORK[:-1] + "e")
    assert state.status == "succeeded"


def test_what_was_cancelled_continues() -> None:
    async def during(stage: Stage) -> None:
        driving = asyncio.create_task(stage.drive())
        await stage.until(lambda: stage.live().shown_status == "waiting")
        await stage.handle(Cancel("stop"))
        await driving

    steps = "- {step: a, tool: {kind: python, code: count}, next: {arcs: [{step: b}]}}\n- {step: b, tool: {kind: wait, signal: go}, next: {arcs: [{step: c}]}}\n- {step: c, tool: {kind: noop, result: there}}"
    count = Counter()
    stage = play(steps, tools={"count": count}, during=during)
    assert stage.state.status == "cancelled"
    result, state = forked(stage, retry=FAILURE, then=Signal("go", "1", None))
    assert (state.status, state.result, count.calls) == ("succeeded", "there", 1)
    assert [one.run for one in result.again] == ["b#1"]


def test_time_limits_begin_anew() -> None:
    steps = "- {step: a, spec: {timeout: 30}, tool: {kind: wait, signal: go}}"
    for head, text in (("", steps), ("executor: {spec: {timeout: 20}}\n", steps.replace("spec: {timeout: 30}, ", ""))):
        stage = play(text, head=head)
        assert stage.state.error["kind"] == "timeout"

        async def work(stage: Stage = stage) -> list[float]:
            await history.retry(stage.engine.runtime, EXECUTION, FORK, Edit(), FAILURE)
            return [due - stage.clock.time for due in stage.live(FORK).timers.values()]

        assert again(stage, work) == [pytest.approx(20 if head else 30)]


def test_a_guard_that_could_not_be_evaluated_is_checked_again() -> None:
    steps = "- {step: a, tool: {kind: python, code: count}, next: {arcs: [{step: b, when: '{{ 1 / ctx.by > 0 }}'}]}}\n- {step: b, tool: {kind: noop, result: b}}"
    count = Counter()
    stage = play(steps, tools={"count": count}, ctx={"by": 0})
    assert stage.state.error["kind"] == "template"
    _, state = forked(stage, retry=FAILURE, ctx={"by": 1})
    assert (state.status, state.result, count.calls) == ("succeeded", "b", 1)


def test_a_collection_that_was_no_list_and_a_gate_that_could_not_be_evaluated() -> None:
    for spec, step in (("", "loop: {in: '{{ ctx.x }}', iterator: i}, "), ("", "")):
        gate = (
            ""
            if step
            else "spec: {policy: {admit: {rules: [{when: '{{ ctx.x | length > 0 }}', then: {allow: true}}]}}}, "
        )
        text = f"- {{step: a, {spec}{step}{gate}tool: {{kind: noop, result: ok}}}}"
        stage = play(text, ctx={"x": 5})
        assert stage.state.status == "failed"
        _, state = forked(stage, retry=FAILURE, ctx={"x": [1]})
        assert state.status == "succeeded"


def test_a_final_step_that_failed_and_an_output_that_could_not_be_rendered() -> None:
    steps = "- {step: a, tool: {kind: python, code: count}}\n- {step: bye, tool: {kind: python, code: shaky}}"
    count = Counter()
    stage = play(steps, head="executor: {spec: {final_step: bye}}\n", tools={"count": count, "shaky": flaky(1, "bye")})
    _, state = forked(stage, retry=FAILURE)
    assert (state.status, state.result, count.calls) == ("succeeded", "bye", 1)
    stage = play(
        "- {step: a, tool: {kind: noop}}", head="executor: {spec: {output: '{{ ctx.x.y + 1 }}'}}\n", ctx={"x": {}}
    )
    assert stage.state.status == "failed"
    _, state = forked(stage, retry=FAILURE, ctx={"x": {"y": 1}})
    assert (state.status, state.result) == ("succeeded", 2)


def test_what_cannot_be_retried() -> None:
    stage = play(CHAIN, tools={"count": Counter()})
    with pytest.raises(Conflict, match="has succeeded"):
        forked(stage, retry=FAILURE)
    stage = play(CHAIN, head="workload: {x: '{{ 1 / 0 }}'}\n")
    with pytest.raises(Conflict, match="failed before its first step ran"):
        forked(stage, retry=FAILURE)


def test_a_run_that_continues_is_not_retried() -> None:
    async def during(stage: Stage) -> None:
        await stage.handle(Pause())
        with pytest.raises(Conflict, match="the run is paused and has not ended"):
            await history.retry(stage.engine.runtime, EXECUTION, FORK, Edit(), FAILURE)
        await stage.handle(Cancel())

    play(CHAIN, tools={"count": Counter()}, during=during)


def test_a_retry_with_an_edited_playbook() -> None:
    stage = play("- {step: a, tool: {kind: noop, result: '{{ 1 / 0 }}'}}")
    assert stage.state.error["kind"] == "template"
    _, state = forked(stage, retry=FAILURE, text=text_of("- {step: a, tool: {kind: noop, result: '{{ 1 / 1 }}'}}"))
    assert (state.status, state.result) == ("succeeded", 1.0)


# -- a retry from another point -------------------------------------------------------------------------------------

AGAIN = FORK[:-1] + "e"
FAILED_ITEMS = RetryPoint(failed_items=True)


def items(on_error: str, mode: str = "parallel", count: int = 6) -> str:
    return f"""\
- step: each
  loop: {{in: "{{{{ range({count}) }}}}", iterator: x, spec: {{mode: {mode}, on_error: {on_error}}}}}
  tool: {{kind: python, code: shaky, args: {{x: "{{{{ iter.x }}}}"}}}}
  next: {{arcs: [{{step: sum}}]}}
- {{step: sum, tool: {{kind: noop, result: "{{{{ steps.each.result | select | sum }}}}"}}}}
"""


class Shaky:
    """A tool that fails for some items the first time."""

    def __init__(self, *bad: int) -> None:
        self.bad, self.seen = bad, list[int]()

    def __call__(self, x: int) -> Any:
        self.seen.append(x)
        return failed("shaky", f"item {x} broke") if x in self.bad and self.seen.count(x) == 1 else x * 2


@pytest.mark.parametrize("mode", ["sequential", "parallel"])
def test_failed_items_of_a_loop_that_succeeded_run_again_and_only_they(mode: str) -> None:
    shaky = Shaky(1, 2, 4)
    stage = play(items("continue", mode), tools={"shaky": shaky})
    assert (stage.state.status, stage.state.result) == ("succeeded", 0 + 6 + 10)
    result, state = forked(stage, retry=FAILED_ITEMS)
    assert (state.status, state.result) == ("succeeded", 30)
    assert sorted(shaky.seen[6:]) == [1, 2, 4]
    assert state.steps["each"].result == [0, 2, 4, 6, 8, 10]
    assert result.again == [AgainView("each#1", "each", None, 3, True)]


def test_items_that_fail_again_can_be_retried_again() -> None:
    shaky, down = Shaky(1), [3]
    stage = play(items("continue"), tools={"shaky": lambda x: failed("down", "still") if x in down else shaky(x)})
    _, state = forked(stage, retry=FAILED_ITEMS)
    assert [failure["index"] for failure in state.steps["each"].failures or ()] == [3]
    down.clear()
    _, state = forked(stage, retry=FAILED_ITEMS, source=FORK, name=AGAIN)
    assert (state.status, state.result, shaky.seen.count(1)) == ("succeeded", 30, 2)


def test_results_in_chunks_are_kept_when_failed_items_run_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loops, "RESULTS_PER_CHUNK", 70)
    shaky = Shaky(0, 150, 299)
    stage = play(items("continue", count=300), tools={"shaky": shaky})
    assert sum(event.chunk is not None for event in stage.of("loop.iteration.done")) == 4
    _, state = forked(stage, retry=FAILED_ITEMS)
    assert (state.status, state.result) == ("succeeded", sum(range(300)) * 2)
    assert len(shaky.seen) == 303


def test_a_loop_that_collected_its_failures_is_reopened_by_any_retry() -> None:
    shaky = Shaky(2, 3)
    stage = play(items("collect"), tools={"shaky": shaky})
    assert stage.state.status == "failed"
    _, state = forked(stage, retry=FAILURE)
    assert (state.status, state.result) == ("succeeded", 30)
    assert sorted(shaky.seen[6:]) == [2, 3]


def test_the_step_of_the_loop_can_be_named() -> None:
    steps = items("continue").replace("- {step: sum", "- {step: other").replace("[{step: sum}]", "[{step: other}]")
    steps += items("continue").replace("step: each", "step: more").replace("steps.each", "steps.more")
    steps = steps.replace('sum }}"}}', 'sum }}"}, next: {arcs: [{step: more}]}}', 1)
    shaky = Shaky(1)
    stage = play(steps, tools={"shaky": lambda x: failed("down", "it is") if x == 5 else shaky(x)})
    assert stage.state.status == "succeeded"
    result, _ = forked(stage, retry=RetryPoint("more", failed_items=True))
    assert [view.run for view in result.again] == ["more#1"]
    assert "each" in result.done
    result, _ = forked(stage, retry=FAILED_ITEMS, name=AGAIN)
    assert [view.run for view in result.again] == ["each#1"]
    with pytest.raises(Conflict, match=r"no finished loop of step 'other' with failed items; .* are each#1, more#1"):
        forked(stage, retry=RetryPoint("other", failed_items=True), name=FORK[:-1] + "d")


def test_without_failed_items_there_is_no_loop_to_reopen() -> None:
    stage = play(items("continue"), tools={"shaky": Shaky()})
    with pytest.raises(Conflict, match="has no finished loop with failed items"):
        forked(stage, retry=FAILED_ITEMS)


def test_a_retry_of_a_success_with_failed_items_names_the_option() -> None:
    stage = play(items("continue"), tools={"shaky": Shaky(1)})
    with pytest.raises(Conflict, match="`--failed-items` runs the failed items of its loop again"):
        forked(stage, retry=FAILURE)


def test_a_log_with_a_reopened_loop_is_decided_in_the_same_way_again() -> None:
    stage = play(items("continue"), tools={"shaky": Shaky(1, 4)})
    forked(stage, retry=FAILED_ITEMS)
    replayed = again(stage, lambda: history.replay_with(stage.engine.runtime, FORK, stage.digest))
    assert replayed.equal
    assert again(stage, lambda: history.replay(stage.engine.runtime, FORK)).equal


def test_a_retry_can_begin_with_an_earlier_step() -> None:
    count = Counter()
    stage = play(CHAIN, tools={"count": count})
    result, state = forked(stage, retry=RetryPoint("b"))
    assert (state.status, count.calls) == ("succeeded", 4)
    assert result.done == ["a"]
    assert [view.run for view in result.again] == ["b#1"]
    with pytest.raises(NotFound, match="run of step 'd' not found in"):
        forked(stage, retry=RetryPoint("d"), name=AGAIN)


def test_a_retry_from_a_loop_runs_all_its_items() -> None:
    shaky = Shaky(1)
    stage = play(items("continue"), tools={"shaky": shaky})
    _, state = forked(stage, retry=RetryPoint("each"))
    assert (state.status, state.result, len(shaky.seen)) == ("succeeded", 30, 12)


def test_a_retry_from_a_step_evaluates_its_gate_and_the_items_of_its_loop_again() -> None:
    shaky = Shaky()
    steps = items("continue").replace("{{ range(6) }}", "{{ range(workload.count) }}")
    steps = steps.replace(
        "- step: each",
        '- step: each\n  spec: {policy: {admit: {rules: [{when: "{{ workload.count < 9 }}", then: {allow: true}}]}}}',
    )
    stage = play(steps, head="workload: {count: 2}\n", tools={"shaky": shaky})
    assert stage.state.result == 2
    result, state = forked(stage, retry=RetryPoint("each"), payload={"count": 4})
    assert result.again == [AgainView("each#1", "each", None, None, False)]
    assert (state.result, shaky.seen[2:]) == (12, [0, 1, 2, 3])
    _, state = forked(stage, retry=RetryPoint("each"), payload={"count": 9}, name=AGAIN)
    assert ("each" in state.steps, len(shaky.seen)) == (False, 6)


def test_values_of_the_payload_can_be_set_and_later_forks_keep_them() -> None:
    head = "workload: {city: Rome, size: 1, text: '{{ workload.city }} {{ workload.size }}'}\n"
    steps = "- {step: a, next: {arcs: [{step: b}]}, tool: {kind: noop}}\n- {step: b, tool: {kind: noop, result: '{{ text }}'}}"
    stage = play(steps, head=head, payload={"size": 2})
    assert stage.state.result == "Rome 2"
    _, state = forked(stage, retry=RetryPoint("b"), payload={"city": "Oslo"})
    assert state.result == "Oslo 2"
    _, state = forked(stage, retry=RetryPoint("b"), payload={"size": 3}, source=FORK, name=AGAIN)
    assert state.result == "Oslo 3"


def test_a_retry_keeps_the_edited_playbook_of_its_source() -> None:
    steps = "- {step: a, tool: {kind: noop}, next: {arcs: [{step: b}]}}\n- {step: b, tool: {kind: noop, result: old}}"
    stage = play(steps)
    forked(stage, retry=RetryPoint("b"), text=text_of(steps.replace("old", "new")))
    _, state = forked(stage, retry=RetryPoint("a"), source=FORK, name=AGAIN)
    assert state.result == "new"
