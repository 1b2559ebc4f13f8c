"""What the log of a canonical playbook tells: its phases, who wrote what, the envelope, and what templates are given."""

# ruff: noqa: E501 (playbooks in one line a step are easier to compare)

from __future__ import annotations

from datetime import datetime
from typing import Any

from stage import EXECUTION, Stage, play

from noetl.engine.commands import Claim, Pause, Resume, Signal
from noetl.engine.envelope import envelope
from noetl.model.outcome import failed

ROUTE = """
    - step: start
      loop: {in: [5, 6], iterator: n}
      tool:
        - double: {kind: noop, result: "{{ iter.n * 2 }}"}
      next: {arcs: [{step: last, args: {all: "{{ steps.start.result }}"}}]}
    - step: last
      tool: {kind: noop, result: "{{ args.all }}"}
"""


def envelopes(stage: Stage) -> list[dict[str, Any]]:
    rows = stage.store.read(EXECUTION)
    return [envelope(EXECUTION, row.seq, row.at, event) for row, event in zip(rows, stage.events, strict=True)]


def of(stage: Stage, name: str) -> list[dict[str, Any]]:
    return [event for event in envelopes(stage) if event["event_type"] == name]


def test_the_phases_of_a_run_are_told_in_order() -> None:
    end = play("- {step: start, tool: {kind: noop}}")
    assert end.names == [
        "playbook.execution.requested", "playbook.request.evaluated", "playbook.started", "workflow.started",
        "token.enqueued", "step.scheduled", "step.started", "task.started", "task.done", "step.done",
        "next.evaluated", "workflow.finished", "playbook.processed",
    ]  # fmt: skip


def test_a_loop_tells_its_beginning_each_item_and_its_end() -> None:
    names = [name for name in play(ROUTE).names if name.startswith("loop.")]
    assert names == ["loop.started", *["loop.iteration.started", "loop.iteration.done"] * 2, "loop.done"]


def test_each_event_says_who_wrote_it() -> None:
    bad = "- {step: start, loop: {in: [0], iterator: n}, tool: {kind: noop, result: '{{ 1 / iter.n }}'}}"
    written: dict[str, set[str]] = {"server": set(), "worker": set()}
    for stage in (play(ROUTE), play(bad), play("- {step: start, tool: {kind: noop, result: '{{ 1 / 0 }}'}}")):
        for event in envelopes(stage):
            written[event["source"]].add(event["event_type"])
    assert written == {
        "server": {
            "playbook.execution.requested", "playbook.request.evaluated", "playbook.started", "workflow.started",
            "token.enqueued", "step.scheduled", "step.started", "loop.started", "loop.done", "next.evaluated",
            "workflow.finished", "playbook.processed",
        },
        "worker": {
            "task.started", "task.done", "step.done", "step.failed",
            "loop.iteration.started", "loop.iteration.done", "loop.iteration.failed",
        },
    }  # fmt: skip


def test_every_event_has_the_whole_envelope_in_both_spellings() -> None:
    result = envelopes(play(ROUTE))
    always = "event_id event_type ts timestamp execution_id source name entity entity_type entity_id status trace_id"
    for event in result:
        assert all(event[field] for field in always.split())
        assert (event["ts"], event["entity"], event["data"]) == (
            event["timestamp"],
            event["entity_type"],
            event["payload"],
        )
        assert {"step_run_id", "task_run_id", "parent_id"} <= set(event)
    assert len({event["event_id"] for event in result}) == len(result)
    assert {one["trace_id"] for one in result} == {EXECUTION.replace("-", "")}
    assert [one["timestamp"] for one in result] == sorted(one["timestamp"] for one in result)
    assert {"PlaybookExecutionRequested", "StepScheduled", "TaskStarted", "LoopDone", "PlaybookProcessed"} <= {
        one["name"] for one in result
    }
    assert {one["entity"] for one in result} == {"playbook", "workflow", "token", "step", "task", "loop", "next"}


def test_ids_of_a_task_in_a_loop_name_all_that_it_is_part_of() -> None:
    second = of(play(ROUTE), "task.done")[1]
    ids = ("execution_id", "step_run_id", "iteration_id", "task_run_id", "task_label", "attempt", "parent_id")
    assert [second[name] for name in ids] == [
        EXECUTION,
        "start#1",
        "start#1[1]",
        "start#1[1]/double#1",
        "double",
        1,
        "start#1[1]",
    ]
    assert of(play(ROUTE), "loop.iteration.done")[1]["parent_id"] == "start#1"


def test_an_event_is_in_progress_a_success_an_error_or_paused() -> None:
    stage = play("- {step: start, tool: {kind: noop, result: '{{ 1 / 0 }}'}}", Pause(), Resume())
    status = {event["event_type"]: event["status"] for event in envelopes(stage)}
    expected = {
        "playbook.paused": "paused",
        "task.started": "in_progress",
        "workflow.started": "in_progress",
        "playbook.request.evaluated": "success",
        "task.done": "error",
        "step.failed": "error",
        "playbook.processed": "error",
    }
    assert {name: status[name] for name in expected} == expected


def test_a_token_names_its_step_its_args_and_the_run_it_comes_from() -> None:
    first, second = play(ROUTE).of("token.enqueued")
    assert (first.step, first.args, first.origin) == ("start", {}, None)
    assert (second.step, second.args, second.origin) == ("last", {"all": [10, 12]}, "start#1")


def test_a_rule_sees_one_outcome_whether_the_call_went_well_or_not() -> None:
    text = """
        - step: start
          tool:
            - t: {kind: python, code: f, spec: {policy: {rules: [{else: {then: {do: continue, set_ctx: {seen: "{{ outcome }}"}}}}]}}}
    """
    good = play(text, tools={"f": lambda: 7}).state.ctx["seen"]
    assert (good["status"], good["result"], good["error"], good["meta"]["attempt"]) == ("ok", 7, None, 1)
    assert set(good["meta"]) == {"attempt", "duration_ms", "ts", "trace_id"}
    assert datetime.fromisoformat(good["meta"]["ts"]).tzinfo is not None
    assert good["meta"]["trace_id"] == EXECUTION.replace("-", "")
    bad = play(text, tools={"f": lambda: failed("shaky", "it broke", retryable=True, code=5)}).state.ctx["seen"]
    assert (bad["status"], bad["result"]) == ("error", None)
    assert bad["error"] == {"kind": "shaky", "message": "it broke", "retryable": True, "details": {"code": 5}}


def test_a_task_knows_what_came_before_its_label_its_attempt_and_the_execution() -> None:
    end = play("""
        - step: start
          tool:
            - one: {kind: noop, result: 1}
            - two:
                kind: noop
                result: "{{ [_prev, _task, _attempt, execution_id] if _attempt == 2 else 1 / 0 }}"
                spec: {policy: {rules: [{when: "{{ outcome.status == 'error' }}", then: {do: retry, delay: 0}}]}}
    """)
    assert end.state.result == [1, "two", 2, EXECUTION]


def test_ctx_is_told_as_patches_and_workload_stays_as_it_was() -> None:
    end = play(
        """
        - step: start
          loop: {in: [1, 2], iterator: n}
          tool:
            - t: {kind: noop, spec: {policy: {rules: [{else: {then: {do: continue, set_ctx: {sum: {$add: "{{ iter.n }}"}, level: "{{ iter.n }}"}}}}]}}}
          next: {arcs: [{step: last}]}
        - {step: last, tool: {kind: noop, result: ["{{ workload }}", "{{ ctx }}"]}}
        """,
        head="workload: {level: 9}\n",
        ctx={"given": True},
    )
    assert end.state.result == [{"level": 9}, {"given": True, "sum": 3, "level": 2}]
    assert [event.set_ctx for event in end.of("task.done") if event.set_ctx] == [
        (("sum", "$add", 1), ("level", "=", 1)),
        (("sum", "$add", 2), ("level", "=", 2)),
    ]


def test_items_of_a_loop_go_to_any_worker_that_asks() -> None:
    async def during(stage: Stage) -> None:
        works = [(await stage.engine.link.claim(Claim(name)))[0] for name in ("here", "there")]
        assert [(work.step, work.items) for work in works] == [("start", [0]), ("start", [1])]
        await stage.crash()
        await stage.drive()

    end = play(
        "- {step: start, loop: {in: '{{ range(8) }}', iterator: n, spec: {mode: parallel}}, tool: {kind: noop, result: '{{ iter.n }}'}}",
        during=during,
    )
    assert [event.worker for event in end.of("step.started")][:2] == ["here", "there"]
    assert end.state.result == list(range(8))


def test_an_item_reaches_the_items_around_it() -> None:
    end = play("""
        - step: start
          loop: {in: [a, b], iterator: region}
          tool:
            - towns:
                kind: iterator
                in: [1, 2]
                iterator: town
                tool:
                  - piers: {kind: iterator, in: [x], iterator: pier, tool: {kind: noop, result: "{{ iter.parent.parent.region ~ iter.parent.town ~ iter.pier ~ iter.parent.index }}"}}
    """)
    assert end.state.result == [[["a1x0"], ["a2x1"]], [["b1x0"], ["b2x1"]]]


def test_later_tasks_and_a_resumed_pipeline_see_the_trace_and_the_start_of_a_call() -> None:
    steps = """
    - step: start
      tool:
        - one: {kind: noop}
        - ask: {kind: wait, signal: go}
        - two: {kind: noop, result: "{{ [tasks.one.meta.ts, tasks.one.meta.trace_id] }}"}
    """
    ts, trace = play(steps, Signal("go", "1")).state.steps["start"].result
    assert (datetime.fromisoformat(ts).tzinfo is not None, trace) == (True, EXECUTION.replace("-", ""))
