"""Classic steps on the engine: what a step does behind its tool, and steps that listen. Seeds 000 and 003."""

# ruff: noqa: E501 (playbooks in one line a step are easier to compare)

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from stage import EXECUTION, Cuts, Stage, Tool, play
from tests.servers.patience import PATIENCE_SECONDS

from noetl.engine import events as e
from noetl.engine.commands import Cancel, Lost, Pause, Resume, Signal
from noetl.engine.envelope import envelope
from noetl.model.identity import action_id
from noetl.model.outcome import Outcome, failed

ENDS = "".join(f"\n    - {{step: {name}, tool: {{kind: noop, result: {name}}}}}" for name in ("a", "b", "c", "d"))


def broken(kind: str = "shaky", **more: Any) -> Outcome:
    return failed(kind, "it broke", **more)


class Answers:
    """A tool that gives one answer after the other, the last one for ever, and remembers what it was asked."""

    def __init__(self, *answers: Any) -> None:
        self.answers, self.asked = answers, list[Any]()

    def __call__(self, x: Any = None) -> Any:
        self.asked.append(x)
        return self.answers[min(len(self.asked), len(self.answers)) - 1]


def ran(stage: Stage) -> list[str]:
    """The steps in the order in which they were entered."""
    return [run.partition("#")[0] for run in stage.runs()]


def calls(stage: Stage) -> list[str]:
    """Every call that was begun, without the step."""
    return [event.task.path for event in stage.events if isinstance(event, e.TaskStarted)]


def payloads_of(stage: Stage, name: str) -> list[dict[str, Any]]:
    """The payloads of the events of a type, as people see them."""
    rows = stage.store.read(EXECUTION)
    envelopes = [envelope(EXECUTION, row.seq, row.at, event) for row, event in zip(rows, stage.events, strict=True)]
    return json.loads(json.dumps([event["payload"] for event in envelopes if event["event_type"] == name]))


def carried_on_from_every_commit(whole: Stage, tools: dict[str, Tool], *, first: int = 1) -> None:
    """A process may die after any commit: whoever carries on comes to the same end by the same way."""
    rows = whole.store.read(EXECUTION)

    async def carried_on(stage: Stage) -> None:
        async with asyncio.timeout(PATIENCE_SECONDS):
            state = await stage.engine.adopt(EXECUTION)
            assert state is not None
            await stage.drive()
        await stage.engine.worker.stop()
        stage.engine.runtime.thread.shutdown()

    for end in whole.store.cuts[first:-1]:
        store = Cuts()
        store.events[EXECUTION] = rows[:end]
        store.blobs.update(whole.store.blobs)
        stage = Stage(whole.text, tools, {}, store)
        stage.clock.time = rows[end - 1].at
        asyncio.run(carried_on(stage))
        stage.check()
        assert (stage.state.result, stage.state.ctx, ran(stage)) == (whole.state.result, whole.state.ctx, ran(whole)), (
            end
        )
        done = [str(event.task) for event in stage.events if isinstance(event, e.TaskDone)]
        assert len(done) == len(set(done)) or whole.of("task.retry.scheduled"), end


# -- the order of a step ---------------------------------------------------------------------------------------------

IN_ORDER = f"""
    - step: start
      args: {{x: 7}}
      tool: {{kind: python, code: f}}
      vars: {{twice: "{{{{ result.n * 2 }}}}"}}
      case:
        - when: "{{{{ event.name == 'call.done' and vars.twice == 14 }}}}"
          then:
            - tell: {{tool: {{kind: python, code: g}}}}
            - set: {{told: "{{{{ tell.result }}}}"}}
            - next: {{to: [{{step: a, args: {{k: "{{{{ vars.told }}}}"}}}}]}}
      sink: {{tool: {{kind: python, code: h}}, args: {{x: "{{{{ result.n }}}}"}}}}
      next: b{ENDS}
"""


def test_a_step_binds_calls_extracts_decides_and_stores_in_this_order() -> None:
    tools = {"f": lambda x: {"n": x}, "g": lambda: "told", "h": Answers("stored")}
    stage = play(IN_ORDER, tools=tools)
    assert ran(stage) == ["start", "a"]
    own = [
        event.name
        for event in stage.events
        if getattr(event, "run", getattr(getattr(event, "task", None), "run", "")) == "start#1"
    ]
    assert own == [
        "step.scheduled", "step.started", "task.started", "task.done", "task.started", "task.done",
        "case.started", "case.evaluated", "task.started", "task.done", "task.started", "task.done",
        "next.requested", "sink.started", "sink.processed", "step.done", "next.evaluated",
    ]  # fmt: skip
    assert calls(stage)[:5] == ["task_1#1", "vars/set#1", "case_0/tell#1", "case_0/set#1", "sink/store#1"]
    assert stage.state.ctx == {"vars": {"twice": 14, "told": "told"}}
    assert tools["h"].asked == [7]
    assert stage.of("token.enqueued")[1].args == {"k": "told"}


def test_a_step_that_dies_anywhere_continues_behind_its_last_accepted_task() -> None:
    tools = {"f": lambda x: {"n": x}, "g": lambda: "told", "h": lambda x: "stored"}
    carried_on_from_every_commit(play(IN_ORDER, tools=tools), tools)


def test_the_result_of_a_step_is_that_of_its_tool_whatever_its_chains_and_sink_give() -> None:
    stage = play(IN_ORDER, tools={"f": lambda x: {"n": x}, "g": lambda: "told", "h": lambda x: "stored"})
    assert stage.state.steps["start"].result == {"n": 7}


def test_a_loop_is_over_before_variables_and_branches_see_the_results_of_all_items() -> None:
    steps = f"""
    - step: start
      loop: {{in: [3, 1, 2], iterator: n, mode: async, spec: {{batch_size: 2}}}}
      tool: {{kind: python, args: {{x: "{{{{ [n, loop_index] }}}}"}}, code: f}}
      vars: {{all: "{{{{ result }}}}"}}
      case:
        - when: "{{{{ event.name == 'step.exit' and response.data | length == 3 }}}}"
          then: {{next: a, sink: {{tool: {{kind: python, code: h}}, args: {{x: "{{{{ this.data }}}}"}}}}}}{ENDS}
    """
    kept = Answers(None)
    tools: dict[str, Tool] = {"f": lambda x: x, "h": kept}
    stage = play(steps, tools=tools)
    assert ran(stage) == ["start", "a"]
    assert stage.state.ctx == {"vars": {"all": [[3, 0], [1, 1], [2, 2]]}}
    assert kept.asked == [[[3, 0], [1, 1], [2, 2]]]
    assert stage.state.steps["start"].result == [[3, 0], [1, 1], [2, 2]]
    carried_on_from_every_commit(stage, tools)


def test_an_empty_loop_still_has_its_branches_looked_at() -> None:
    stage = play(
        f"""
    - step: start
      loop: {{in: [], iterator: n, mode: parallel}}
      tool: {{kind: noop}}
      case: [{{when: "{{{{ result == [] }}}}", then: {{next: a}}}}]
      next: b{ENDS}
    """
    )
    assert ran(stage) == ["start", "a"]


# -- branches --------------------------------------------------------------------------------------------------------


def branches(*lines: str, spec: str = "", tool: str = "{kind: python, code: f}", rest: str = "next: d") -> str:
    case = "".join(f"\n        - {line}" for line in lines)
    return f"""
    - step: start
      spec: {{{spec}}}
      tool: {tool}
      case:{case}
      {rest}{ENDS}
    """


def when(guard: str, then: str) -> str:
    return f'{{when: "{{{{ {guard} }}}}", then: {then}}}'


def test_the_first_branch_that_matches_wins_and_the_others_are_not_looked_at() -> None:
    stage = play(
        branches(when("result == 2", "{next: a}"), when("result == 1", "{next: b}"), when("1 / 0 == 1", "{next: c}")),
        tools={"f": lambda: 1},
    )
    assert ran(stage) == ["start", "b"]
    assert payloads_of(stage, "case.evaluated") == [
        {
            "run": "start#1", "matched": ["case_1"], "order": ["case_1"], "case_mode": "exclusive",
            "eval_mode": "on_entry", "trigger_event": "call.done",
        }
    ]  # fmt: skip
    assert payloads_of(stage, "next.evaluated")[0] == {
        "run": "start#1", "on": "step.done", "selected": [{"step": "b", "with": {}}], "policy": "end_step",
        "winner_branch": "case_1", "suppressed_branches": [], "routing_committed": True,
    }  # fmt: skip


def test_branches_are_checked_after_the_call_then_on_exit_and_else_comes_last() -> None:
    lines = [
        "{else: [{next: c}]}",
        when("event.name == 'step.exit' and workload.exit", "{next: b}"),
        when("event.name == 'call.done' and workload.call", "{next: a}"),
    ]
    for payload, end in (({"call": True, "exit": True}, "a"), ({"exit": True}, "b"), ({}, "c")):
        stage = play(
            branches(*lines), tools={"f": lambda: 1}, head="workload: {call: false, exit: false}\n", payload=payload
        )
        assert ran(stage) == ["start", end]


def test_next_is_the_fallback_where_no_branch_matches_or_the_one_that_does_leads_nowhere() -> None:
    for line in (when("result == 2", "{next: a}"), when("result == 1", "{set: {seen: true}}")):
        assert ran(play(branches(line), tools={"f": lambda: 1})) == ["start", "d"]


def test_without_next_a_step_ends_its_branch() -> None:
    stage = play(branches(when("result == 2", "{next: a}"), rest="desc: x"), tools={"f": lambda: 1})
    assert (ran(stage), stage.state.status) == (["start"], "succeeded")


def test_a_failed_call_is_seen_by_branches_that_look_at_it_and_never_by_next() -> None:
    lines = [when("true", "{next: a}"), when("event.name == 'call.error' and this.error.kind == 'shaky'", "{next: b}")]
    stage = play(branches(*lines), tools={"f": broken})
    assert (ran(stage), stage.state.status) == (["start", "b"], "succeeded")
    assert stage.state.steps["start"].status == "failed"
    plain = play(branches(when("true", "{next: a}"), "{else: [{next: b}]}"), tools={"f": broken})
    assert (ran(plain), plain.state.status) == (["start"], "failed")
    assert plain.state.error is not None
    assert plain.state.error["kind"] == "shaky"


@pytest.mark.parametrize(
    "guard", ["response.status == 'error'", "response.error.kind == 'shaky'", "this.status == 'error'"]
)
def test_a_branch_may_look_at_a_failure_through_the_envelope(guard: str) -> None:
    assert ran(play(branches(when(guard, "{next: a}")), tools={"f": broken})) == ["start", "a"]


@pytest.mark.parametrize("guard", ["error", "error.kind == 'shaky'", "outcome.status == 'error'", "event.data.error"])
def test_r5_a_branch_may_look_at_a_failure_by_its_error_or_outcome(guard: str) -> None:
    assert ran(play(branches(when(guard, "{next: a}")), tools={"f": broken})) == ["start", "a"]
    assert ran(play(branches(when(guard, "{next: a}")), tools={"f": lambda: 1})) == ["start", "d"]


@pytest.mark.parametrize(
    "guard",
    [
        "event.name == 'step.exit'",
        "event.name == 'step.exit' and response is defined",
        "event.name != 'call.done'",
        "event.name != 'call.error'",
        "not (event.name == 'call.error')",
        "event.name == 'call.done' or workload.yes",
        "result is none",
        "response is not defined",
    ],
)
def test_r5_a_branch_that_does_not_look_at_the_failure_does_not_carry_on_after_it(guard: str) -> None:
    stage = play(branches(when(guard, "{next: a}")), tools={"f": broken}, head="workload: {yes: true}\n")
    assert (ran(stage), stage.state.status) == (["start"], "failed")
    assert stage.state.error is not None
    assert stage.state.error["kind"] == "shaky"


def test_r5_response_is_undefined_where_the_call_got_none() -> None:
    line = when(
        "event.name == 'call.error'",
        """[{next: {to: [{step: a, args: {k: "{{ [response is defined, response.status_code | default('none'), response.status, response.error.kind] }}"}}]}}]""",
    )

    def seen(answer: Any) -> Any:
        return play(branches(line), tools={"f": lambda: answer}).of("token.enqueued")[1].args["k"]

    assert seen(broken()) == [False, "none", "error", "shaky"]
    assert seen(broken("connect", extra={"http": {"status": None}})) == [False, "none", "error", "connect"]
    assert seen(broken("http_status", extra={"http": {"status": 404}})) == [True, 404, "error", "http_status"]
    ignored = when("event.name == 'call.done' and response is not defined", "{next: a}")
    assert ran(play(branches(ignored, spec="on_error: ignore"), tools={"f": broken})) == ["start", "a"]
    assert ran(play(branches(ignored, spec="on_error: ignore"), tools={"f": lambda: 1})) == ["start", "d"]


def test_r5_a_failed_item_of_a_loop_is_no_response_and_exit_alone_does_not_carry_on() -> None:
    loop = 'loop: {in: "{{ [1, 2] }}", iterator: n}\n      next: d'
    line = when("event.name == 'step.exit' and response is defined", "{next: a}")
    assert ran(play(branches(line, rest=loop), tools={"f": broken})) == ["start"]
    assert ran(play(branches(line, rest=loop), tools={"f": lambda: 1})) == ["start", "a"]


def test_r5_a_listener_continues_after_its_failed_call_only_by_a_branch_that_looks_at_it() -> None:
    def listening(guard: str) -> Stage:
        return play(branches(when(guard, "{next: a}"), spec="eval_mode: on_event"), tools={"f": broken})

    assert ran(listening("event.name == 'call.error' and response is not defined")) == ["start", "a"]
    assert listening("event.name != 'call.done'").state.status == "failed"


def test_a_branch_that_fires_on_a_failure_takes_it_up_even_if_it_leads_nowhere() -> None:
    stage = play(
        branches(when("event.name == 'call.error'", "[{tell: {tool: {kind: python, code: g}}}]")),
        tools={"f": broken, "g": lambda: 1},
    )
    assert (ran(stage), stage.state.status, stage.state.steps["start"].status) == (["start"], "succeeded", "failed")
    assert stage.of("next.evaluated")[0].taken


def test_a_failure_inside_a_chain_fails_the_step_and_no_branch_sees_it() -> None:
    stage = play(
        branches(
            when("event.name == 'call.done'", "[{tell: {tool: {kind: python, code: g}}}, {next: a}]"),
            when("event.name == 'call.error'", "{next: b}"),
        ),
        tools={"f": lambda: 1, "g": broken},
    )
    assert (ran(stage), stage.state.status) == (["start"], "failed")
    assert stage.state.error is not None
    assert (stage.state.error["step"], stage.state.error["task"]) == ("start", "case_0/tell")


def test_a_step_out_of_time_and_a_failed_item_are_taken_up_by_a_branch() -> None:
    late = branches(
        when("event.name == 'call.error' and this.error.kind == 'timeout'", "{next: a}"),
        spec="timeout: 5",
        tool="{kind: wait, signal: never}",
    )
    assert ran(play(late)) == ["start", "a"]
    steps = branches(
        when("event.name == 'call.error'", "{next: a}"),
        rest='loop: {in: "{{ [1, 2, 3] }}", iterator: n, mode: parallel}\n      next: d',
    )
    stage = play(steps, tools={"f": broken})
    assert ran(stage) == ["start", "a"]
    assert stage.state.steps["start"].error is not None


def test_a_loop_whose_collection_is_no_list_is_taken_up_by_a_branch() -> None:
    steps = branches(
        when("response.error.kind == 'loop_input'", "{next: a}"),
        rest='loop: {in: "{{ 7 }}", iterator: n}\n      next: d',
    )
    assert ran(play(steps, tools={"f": lambda: 1})) == ["start", "a"]


def test_a_condition_that_cannot_be_evaluated_fails_the_step() -> None:
    stage = play(branches(when("result / 0 == 1", "{next: a}")), tools={"f": lambda: 1})
    assert stage.state.status == "failed"
    assert stage.state.error is not None
    assert stage.state.error["kind"] == "template"


def test_a_step_without_a_tool_has_branches_too() -> None:
    steps = f"""
    - {{step: start, case: [{{when: "{{{{ event.name == 'call.done' and workload.go }}}}", then: {{next: [{{step: a}}, {{step: b}}]}}}}]}}{ENDS}
    """
    assert ran(play(steps, head="workload: {go: true}\n")) == ["start", "a", "b"]


# -- modes and policies ----------------------------------------------------------------------------------------------

CHAINS = [
    when(
        "result > 0",
        "[{one: {tool: {kind: python, code: g}}}, {next: {to: [{step: a}]%s}}, {more: {tool: {kind: python, code: g}}}]",
    ),
    when("result > 5", "[{two: {tool: {kind: python, code: g}}}, {next: {to: [{step: b}]%s}}]"),
    when("result > 1", "[{three: {tool: {kind: python, code: g}}}]"),
]


def chains(policy: str, *, first: str = "", second: str = "", spec: str = "") -> Stage:
    lines = [CHAINS[0] % first, CHAINS[1] % second, CHAINS[2]]
    more = f", {spec}" if spec else ""
    text = branches(*lines, spec=f"case_mode: inclusive, next_policy: {policy}{more}")
    return play(text, tools={"f": lambda: 9, "g": lambda: 1})


def test_inclusive_runs_the_chains_of_all_branches_that_match_one_after_the_other() -> None:
    lines = [when(f"result > {n}", f"[{{t{n}: {{tool: {{kind: python, code: g}}}}}}]") for n in (0, 5, 1)]
    stage = play(branches(*lines, spec="case_mode: inclusive"), tools={"f": lambda: 3, "g": lambda: 1})
    assert calls(stage)[1:3] == ["case_0/t0#1", "case_2/t1#1"]
    assert ran(stage) == ["start", "d"]
    payload = payloads_of(stage, "case.evaluated")[0]
    assert (payload["matched"], payload["order"], payload["case_mode"]) == (
        ["case_0", "case_2"],
        ["case_0", "case_2"],
        "inclusive",
    )


def test_end_step_suppresses_the_branches_behind_it() -> None:
    stage = chains("end_step")
    assert calls(stage)[1:2] == ["case_0/one#1"]
    assert ran(stage) == ["start", "a"]
    assert [event.branch for event in stage.of("case.branch.suppressed")] == ["case_1", "case_2"]
    assert payloads_of(stage, "next.evaluated")[0]["suppressed_branches"] == ["case_1", "case_2"]


def test_break_chain_stops_its_own_chain_and_routes_when_all_have_run() -> None:
    stage = chains("break_chain")
    assert calls(stage)[1:4] == ["case_0/one#1", "case_1/two#1", "case_2/three#1"]
    assert ran(stage) == ["start", "a"]
    assert [event.pending for event in stage.of("next.requested")] == [True, True]
    assert stage.of("case.branch.suppressed") == []


def test_defer_continues_behind_next() -> None:
    stage = chains("defer")
    assert calls(stage)[1:5] == ["case_0/one#1", "case_0/more#1", "case_1/two#1", "case_2/three#1"]
    assert ran(stage) == ["start", "a"]


def test_a_next_may_have_its_own_policy() -> None:
    stage = chains("defer", second=", policy: end_step")
    assert calls(stage)[1:4] == ["case_0/one#1", "case_0/more#1", "case_1/two#1"]
    assert [event.branch for event in stage.of("case.branch.suppressed")] == ["case_2"]
    assert ran(stage) == ["start", "a"]


def test_the_highest_priority_wins_then_the_next_that_was_reached_first() -> None:
    assert ran(chains("break_chain", second=", priority: 10")) == ["start", "b"]
    assert ran(chains("break_chain", first=", priority: 10", second=", priority: 10")) == ["start", "a"]
    assert ran(chains("defer", first=", priority: -1")) == ["start", "b"]


def test_branch_order_by_priority_then_source() -> None:
    lines = [
        f'{{when: "{{{{ true }}}}", priority: {p}, then: [{{t{n}: {{tool: {{kind: python, code: g}}}}}}]}}'
        for n, p in enumerate((1, 10, 1))
    ]
    tools = {"f": lambda: 3, "g": lambda: 1}
    stage = play(branches(*lines, spec="case_mode: inclusive, branch_order: priority"), tools=tools)
    assert calls(stage)[1:4] == ["case_1/t1#1", "case_0/t0#1", "case_2/t2#1"]
    payload = payloads_of(stage, "case.evaluated")[0]
    assert (payload["matched"], payload["order"]) == (["case_0", "case_1", "case_2"], ["case_1", "case_0", "case_2"])
    alone = play(branches(*lines, spec="branch_order: priority"), tools=tools)
    assert calls(alone)[1:2] == ["case_1/t1#1"]


def test_an_inclusive_branch_may_come_to_match_on_exit_and_none_fires_twice() -> None:
    lines = [when("true", "[{set: {ready: true}}]"), when("vars.ready | default(false)", "{next: a}")]
    stage = play(branches(*lines, spec="case_mode: inclusive"), tools={"f": lambda: 1})
    assert ran(stage) == ["start", "a"]
    assert [event.order for event in stage.of("case.evaluated")] == [("case_0",), ("case_1",)]


def test_chains_that_die_anywhere_run_each_call_once_more_at_most_and_lead_to_the_same_place() -> None:
    tools = {"f": lambda: 9, "g": lambda: 1}
    for policy in ("end_step", "break_chain", "defer"):
        carried_on_from_every_commit(chains(policy), tools)


# -- where it leads --------------------------------------------------------------------------------------------------


def test_several_targets_each_get_a_token_with_args_of_their_own() -> None:
    stage = play(
        branches(when("true", '[{next: {to: [{step: a, args: {k: "{{ result }}"}}, b]}}]')), tools={"f": lambda: 5}
    )
    assert ran(stage) == ["start", "a", "b"]
    assert [event.args for event in stage.of("token.enqueued")[1:]] == [{"k": 5}, {}]


def test_a_delayed_next_arrives_later() -> None:
    stage = play(branches(when("true", "[{next: {spec: {delay: 90s}, to: [{step: a}]}}]")), tools={"f": lambda: 5})
    token = stage.of("token.enqueued")[1]
    scheduled = next(
        row.at
        for row, event in zip(stage.store.read(EXECUTION), stage.events, strict=True)
        if getattr(event, "run", "") == "a#1"
    )
    assert scheduled >= token.due
    assert payloads_of(stage, "next.evaluated")[0]["selected"] == [{"step": "a", "with": {}, "delay": 90.0}]


def test_a_computed_target_is_looked_up_when_it_is_known() -> None:
    line = when("true", "[{next: {to: [{step: \"{{ 'a' if result else 'b' }}\"}]}}]")
    assert ran(play(branches(line), tools={"f": lambda: True})) == ["start", "a"]
    assert ran(play(branches(line), tools={"f": lambda: False})) == ["start", "b"]


@pytest.mark.parametrize(("answer", "kind"), [("nowhere", "not_found"), (7, "template"), (None, "template")])
def test_a_computed_target_that_is_no_step_fails_the_execution(answer: Any, kind: str) -> None:
    stage = play(
        branches(when("event.name == 'call.done'", '[{next: {to: [{step: "{{ result }}"}]}}]')),
        tools={"f": lambda: answer},
    )
    assert stage.state.status == "failed"
    assert stage.state.error is not None
    assert stage.state.error["kind"] == kind


def test_a_join_waits_for_tokens_of_computed_targets() -> None:
    stage = play(
        """
    - {step: start, tool: {kind: noop}, next: [quick, slow]}
    - {step: quick, tool: {kind: noop}, next: both}
    - {step: slow, tool: {kind: wait, signal: go}, case: [{when: "{{ true }}", then: [{next: {to: [{step: "{{ 'bo' ~ 'th' }}"}]}}]}]}
    - {step: both, spec: {join: all}, tool: {kind: noop}}
    """,
        during=_signal_when_waiting("go"),
    )
    assert ran(stage) == ["start", "quick", "slow", "both"]


def _signal_when_waiting(name: str) -> Any:
    async def during(stage: Stage) -> None:
        async def send() -> None:
            await stage.until(lambda: any(run.parked for run in stage.live().runs.values()))
            await stage.handle(Signal(name, "1"))

        sending = asyncio.create_task(send())
        await stage.drive()
        await sending

    return during


# -- other names of events -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["tool.processed", "TaskProcessed", "task.done", "step.finished", "StepDone", "step.exit"]
)
def test_r15_a_branch_knows_the_end_of_the_call_and_of_the_step_by_other_names(name: str) -> None:
    steps = branches(when(f"event.name == '{name}'", "{next: a}"))
    assert ran(play(steps, tools={"f": lambda: 1})) == ["start", "a"]
    assert ran(play(steps, tools={"f": broken})) == ["start"]


def test_r15_a_branch_knows_a_failure_by_other_names() -> None:
    for guard in (
        "event.name == 'step.failed'",
        "event.name == 'StepFailed'",
        "event.name == 'tool.processed' and error",
    ):
        assert ran(play(branches(when(guard, "{next: a}")), tools={"f": broken})) == ["start", "a"], guard


@pytest.mark.parametrize("name", ["loop.done", "loop.finished", "LoopDone"])
def test_r15_a_branch_of_a_loop_knows_its_end_by_other_names(name: str) -> None:
    loop = 'loop: {in: "{{ [1, 2] }}", iterator: n}\n      next: d'
    steps = branches(when(f"event.name == '{name}' and result | length == 2", "{next: a}"), rest=loop)
    assert ran(play(steps, tools={"f": lambda: 1})) == ["start", "a"]


@pytest.mark.parametrize("name", ["step.finished", "step.exit", "StepDone", "tool.processed", "TaskProcessed"])
def test_r15_a_listener_hears_other_steps_by_other_names(name: str) -> None:
    guard = f"event.name == '{name}' and event.data.step == 'other'"
    steps = f"""
    - {{step: start, case: [{{when: true, then: {{next: [{{step: ear}}, {{step: other}}]}}}}]}}
    - {{step: ear, spec: {{eval_mode: on_event}}, case: [{{when: "{{{{ {guard} }}}}", then: {{next: a}}}}]}}
    - {{step: other, tool: {{kind: noop}}}}{ENDS}
    """
    assert ran(play(steps))[-1] == "a"


@pytest.mark.parametrize("name", ["step.finished", "step.exit", "StepDone", "LoopDone"])
def test_r15_an_arc_knows_the_end_of_its_step_by_other_names(name: str) -> None:
    loop = "loop: {in: [1], iterator: n}, " if name == "LoopDone" else ""
    steps = f"""
    - {{step: start, {loop}tool: [{{t: {{kind: noop}}}}], next: {{arcs: [{{step: a, when: "{{{{ event.name == '{name}' }}}}"}}]}}}}
    - {{step: a, tool: [{{t: {{kind: noop}}}}]}}
    """
    assert ran(play(steps)) == ["start", "a"]


# -- retries ---------------------------------------------------------------------------------------------------------


def test_retries_of_the_call_win_over_those_of_its_chain_and_those_over_the_steps() -> None:
    def attempts(task: str, chain: str, step: str) -> int:
        tool = Answers(broken())
        body = f"{{tool: {{kind: python, code: g}}{task}}}"
        steps = branches(f'{{when: "{{{{ true }}}}", then: [{{t: {body}}}]{chain}}}', rest=f"next: d{step}")
        play(steps, tools={"f": lambda: 1, "g": tool})
        return len(tool.asked)

    task, chain, step = ", retry: {max_attempts: 2}", ", retry: {max_attempts: 3}", "\n      retry: {max_attempts: 4}"
    assert [attempts(task, chain, step), attempts("", chain, step), attempts("", "", step), attempts("", "", "")] == [
        2,
        3,
        4,
        1,
    ]


AGAIN = "{retry: {max_attempts: 3, initial_delay: 0}}"


def busy(status: int) -> Outcome:
    return broken("http_status", extra={"http": {"status": status}})


def test_r6_a_retry_in_a_branch_without_tools_repeats_the_call_of_the_step() -> None:
    tool = Answers(busy(503), busy(503), 7)
    lines = [when("event.name == 'call.error'", AGAIN), when("event.name == 'call.done' and result == 7", "{next: a}")]
    stage = play(branches(*lines), tools={"f": tool})
    assert (len(tool.asked), ran(stage), stage.state.status) == (3, ["start", "a"], "succeeded")
    assert [event.attempt for event in stage.of("task.retry.scheduled")] == [2, 3]


def test_r6_a_retry_in_a_branch_that_is_exhausted_leaves_the_failure() -> None:
    for guard in (
        "event.name == 'call.error'",
        "response.status_code == 503",
        "true",
        "error",
        "this.status == 'error'",
    ):
        tool = Answers(busy(503))
        stage = play(branches(when(guard, AGAIN)), tools={"f": tool})
        assert (len(tool.asked), ran(stage), stage.state.status) == (3, ["start"], "failed"), guard
        assert stage.state.error is not None
        assert stage.state.error["kind"] == "http_status"


def test_r6_an_ok_call_is_repeated_only_by_a_branch_that_looks_at_its_result() -> None:
    for guard, count in (("true", 1), ("event.name == 'step.exit'", 1), ("result == 1", 3), ("response.data == 1", 3)):
        tool = Answers(1)
        stage = play(branches(when(guard, AGAIN)), tools={"f": tool})
        assert (len(tool.asked), ran(stage), stage.state.status) == (count, ["start", "d"], "succeeded"), guard


def test_r6_a_branch_before_or_behind_the_one_that_retries_keeps_its_place() -> None:
    gone = when("event.name == 'call.error' and response.status_code == 404", "{next: a}")
    again, given_up = when("event.name == 'call.error'", AGAIN), when("event.name == 'call.error'", "{next: b}")
    for status, count, end in ((404, 1, "a"), (503, 3, "b")):
        tool = Answers(busy(status))
        assert (ran(play(branches(gone, again, given_up), tools={"f": tool})), len(tool.asked)) == (
            ["start", end],
            count,
        )


def test_r6_a_branch_that_retries_and_leads_on_does_so_after_the_last_attempt() -> None:
    line = when("event.name == 'call.error'", "{retry: {max_attempts: 2, initial_delay: 0}, next: a}")
    tool = Answers(broken())
    assert (ran(play(branches(line), tools={"f": tool})), len(tool.asked)) == (["start", "a"], 2)
    tool = Answers(broken(), 1)
    assert (ran(play(branches(line), tools={"f": tool})), len(tool.asked)) == (["start", "d"], 2)


def test_r6_the_conditions_of_a_retry_in_a_branch_see_response_error_and_attempt() -> None:
    for condition, count in (
        ("response.status_code == 503", 4),
        ("response is defined and attempt < 3", 3),
        ("error is not none and attempt < 2", 2),
        ("error == 'it broke' and status_code == 503", 4),
        ("response.status_code == 429", 1),
    ):
        tool = Answers(busy(503))
        retry = f'{{retry: {{max_attempts: 4, initial_delay: 0, retry_when: "{{{{ {condition} }}}}"}}}}'
        stage = play(branches(when("event.name == 'call.error'", retry)), tools={"f": tool})
        assert (len(tool.asked), stage.state.status) == (count, "failed"), condition


def test_r6_a_retry_in_a_branch_repeats_the_item_of_a_loop_that_failed() -> None:
    tool = Answers(1, broken(), 2, 3)
    steps = branches(
        when("event.name == 'call.error'", AGAIN),
        rest='loop: {in: "{{ [1, 2, 3] }}", iterator: n}\n      next: d',
    )
    stage = play(steps, tools={"f": tool})
    assert (stage.state.steps["start"].result, ran(stage)) == ([1, 2, 3], ["start", "d"])


def test_r6_a_long_wait_of_a_retry_in_a_branch_survives_its_worker() -> None:
    line = when("event.name == 'call.error'", "{retry: {max_attempts: 2, initial_delay: 600}}")
    stage = play(branches(line), tools={"f": Answers(broken(), 2)})
    assert (ran(stage), [event.until for event in stage.of("step.paused")]) == (["start", "d"], ["retry"])
    carried_on_from_every_commit(stage, {"f": lambda: 2}, first=4)


@pytest.mark.parametrize("guard", ["error != none", "error is not none", "none != error", "status_code is not none"])
def test_r6_an_error_and_a_status_code_that_do_not_exist_are_null(guard: str) -> None:
    steps = f"""
    - {{step: start, tool: {{kind: python, code: f}}, retry: {{initial_delay: 0, retry_when: "{{{{ {guard} }}}}"}}, next: a}}{ENDS}
    """
    tool = Answers(1)
    assert (ran(play(steps, tools={"f": tool})), len(tool.asked)) == (["start", "a"], 1)
    tool = Answers(busy(503), 1)
    assert (ran(play(steps, tools={"f": tool})), len(tool.asked)) == (["start", "a"], 2)


@pytest.mark.parametrize(
    ("guard", "refused", "answered"),
    [
        ("response is defined", 1, 2),
        ("response is undefined", 2, 1),
        ("response", 1, 2),
        ("not response", 2, 1),
        ("(response | default('none')) == 'none'", 2, 1),
        ("response.status == 'error'", 2, 2),
    ],
)
def test_r5_response_is_undefined_in_retries_where_the_call_got_none(guard: str, refused: int, answered: int) -> None:
    steps = f"""
    - {{step: start, tool: {{kind: python, code: f}}, retry: {{max_attempts: 2, initial_delay: 0, retry_when: "{{{{ {guard} }}}}"}}, next: a}}{ENDS}
    """
    nothing = {"http": {"status": None, "headers": {}, "url": "http://127.0.0.1:9/"}}
    for outcome, count in ((failed("connect", "refused", extra=nothing), refused), (busy(503), answered)):
        tool = Answers(outcome)
        play(steps, tools={"f": tool})
        assert len(tool.asked) == count, guard


def test_r6_a_status_code_that_does_not_exist_is_in_no_order() -> None:
    steps = f"""
    - {{step: start, tool: {{kind: python, code: f}}, retry: {{initial_delay: 0, retry_when: "{{{{ status_code >= 500 or error is defined }}}}"}}, next: a}}{ENDS}
    """
    tool = Answers(broken(), 1)
    assert (ran(play(steps, tools={"f": tool})), len(tool.asked)) == (["start", "a"], 2)


def test_a_chain_is_retried_as_a_whole() -> None:
    one, two = Answers(1), Answers(broken(), broken(), 2)
    line = '{when: "{{ true }}", retry: {scope: chain, max_attempts: 3, backoff: {type: exponential, delay_seconds: 2}}, then: [{one: {tool: {kind: python, code: one}}}, {two: {tool: {kind: python, code: two}}}, {next: a}]}'
    stage = play(branches(line), tools={"f": lambda: 1, "one": one, "two": two})
    assert (len(one.asked), len(two.asked)) == (3, 3)
    assert calls(stage)[1:7] == [
        "case_0/one#1",
        "case_0/two#1",
        "case_0/one#2",
        "case_0/two#2",
        "case_0/one#3",
        "case_0/two#3",
    ]
    assert stage.clock.waits == [2.0, 4.0]
    assert ran(stage) == ["start", "a"]
    given_up = play(
        branches(line.replace("max_attempts: 3", "max_attempts: 2")),
        tools={"f": lambda: 1, "one": Answers(1), "two": Answers(broken())},
    )
    assert given_up.state.status == "failed"
    assert len(given_up.registry.contexts) == 5


def test_a_long_wait_in_a_chain_frees_the_worker_and_survives_it() -> None:
    tools = {"f": lambda: 1, "g": Answers(broken(), 2)}
    line = when(
        "true", "[{t: {tool: {kind: python, code: g}, retry: {max_attempts: 2, initial_delay: 600}}}, {next: a}]"
    )
    stage = play(branches(line), tools=tools)
    assert ran(stage) == ["start", "a"]
    assert [(event.until, event.chain) for event in stage.of("step.paused")] == [("retry", "case_0/")]
    carried_on_from_every_commit(stage, {"f": lambda: 1, "g": lambda: 2})


def test_backoff_grows_by_its_type_up_to_a_limit() -> None:
    def waits(backoff: str) -> list[float]:
        steps = f"""
    - {{step: start, tool: {{kind: python, code: f}}, retry: {{max_attempts: 5, backoff: {{{backoff}}}}}, next: a}}{ENDS}
        """
        return play(steps, tools={"f": Answers(broken(), broken(), broken(), broken(), 1)}).clock.waits

    assert waits("type: fixed, delay_seconds: 2") == [2, 2, 2, 2]
    assert waits("type: linear, delay_seconds: 1") == [1, 2, 3, 4]
    assert waits("type: exponential, delay_seconds: 1, max_delay_seconds: 3") == [1, 2, 3, 3]
    spread = waits("type: exponential, delay_seconds: 1, max_delay_seconds: 3, jitter: true")
    assert all(0.5 * most <= wait <= most for wait, most in zip(spread, [1, 2, 3, 3], strict=True))


def test_stop_when_repeats_an_ok_call_and_keeps_its_last_outcome() -> None:
    steps = f"""
    - step: start
      tool: {{kind: python, code: f}}
      retry: {{max_attempts: 4, initial_delay: 1, backoff_multiplier: 3, stop_when: "{{{{ result >= workload.enough or attempt == max_attempts }}}}"}}
      case: [{{when: "{{{{ success }}}}", then: {{next: a}}}}]{ENDS}
    """.replace("success", "response.status == 'ok'")
    stage = play(steps, tools={"f": Answers(1, 2, 3)}, head="workload: {enough: 3}\n")
    assert (stage.state.steps["start"].result, stage.clock.waits) == (3, [1, 3])
    last = play(steps, tools={"f": Answers(1, 2, 3)}, head="workload: {enough: 99}\n")
    assert (last.state.steps["start"].result, ran(last)) == (3, ["start", "a"])


def test_retry_when_sees_status_code_error_attempt_and_data() -> None:
    steps = f"""
    - step: start
      tool: {{kind: python, code: f}}
      retry: {{max_attempts: 9, initial_delay: 0, retry_when: "{{{{ (status_code == 503 or error == 'it broke') and not success and attempt < 3 and data is none }}}}"}}
      case: [{{when: "{{{{ event.name == 'call.error' and response.status_code == 503 }}}}", then: {{next: a}}}}]{ENDS}
    """
    tool = Answers(broken(extra={"http": {"status": 503}}))
    stage = play(steps, tools={"f": tool})
    assert (len(tool.asked), ran(stage)) == (3, ["start", "a"])


def test_on_error_ignores_or_retries() -> None:
    assert play(
        branches(when("event.name == 'call.done'", "{next: a}"), spec="on_error: ignore"), tools={"f": broken}
    ).runs() == ["start#1", "a#1"]
    tool = Answers(broken(), broken(), 1)
    stage = play(branches(when("event.name == 'call.done'", "{next: a}"), spec="on_error: retry"), tools={"f": tool})
    assert (len(tool.asked), ran(stage)) == (3, ["start", "a"])
    chain = when(
        "true", '[{t: {tool: {kind: python, code: g}}}, {next: {to: [{step: a, args: {k: "{{ t.result is none }}"}}]}}]'
    )
    ignored = play(branches(chain, spec="on_error: ignore"), tools={"f": lambda: 1, "g": broken})
    assert ignored.of("token.enqueued")[1].args == {"k": True}


def test_an_error_that_is_ignored_is_done_with_the_result_null_and_gives_no_variables() -> None:
    line = when("event.name == 'call.done' and response.status == 'ok' and result is none", "{next: a}")
    steps = branches(line, spec="on_error: ignore", rest='vars: {seen: "{{ result.n }}"}\n      next: d')
    stage = play(steps, tools={"f": broken})
    assert (ran(stage), stage.state.ctx) == (["start", "a"], {})
    assert (stage.state.steps["start"].status, stage.state.steps["start"].result) == ("succeeded", None)


# -- waits and pauses in chains ----------------------------------------------------------------------------------------


def test_a_chain_waits_for_a_signal_and_gets_it_whoever_is_there_then() -> None:
    line = when(
        "true",
        '[{ask: {tool: {kind: wait, signal: go}}}, {next: {to: [{step: a, args: {k: "{{ ask.result }}"}}]}}]',
    )
    stage = play(branches(line), Signal("go", "1", 5), tools={"f": lambda: 1})
    assert ran(stage) == ["start", "a"]
    assert stage.of("token.enqueued")[1].args == {"k": 5}
    assert [event.chain for event in stage.of("step.paused")] == ["case_0/"]
    carried_on_from_every_commit(stage, {"f": lambda: 1}, first=2)


def test_a_chain_calls_another_playbook() -> None:
    child = (
        "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: child, path: child}\n"
        "workflow: [{step: s, tool: [{t: {kind: noop, result: 8}}]}]\n"
    )
    line = when(
        "true",
        '[{sub: {tool: {kind: playbook, path: child}}}, {next: {to: [{step: a, args: {k: "{{ sub.result }}"}}]}}]',
    )
    stage = play(branches(line), tools={"f": lambda: 1}, children={"child": child})
    assert stage.of("token.enqueued")[1].args == {"k": 8}


def test_a_pause_stops_a_chain_between_its_tasks_and_it_continues_there() -> None:
    async def during(stage: Stage) -> None:
        async def g() -> int:
            await stage.handle(Pause())
            return 1

        stage.registry.tools["g"] = g
        await stage.drive()
        assert stage.live().status == "paused"
        assert calls(stage) == ["task_1#1", "case_0/one#1"]
        await stage.handle(Resume())
        await stage.drive()

    line = when("true", "[{one: {tool: {kind: python, code: g}}}, {two: {tool: {kind: python, code: h}}}, {next: a}]")
    stage = play(branches(line), tools={"f": lambda: 1, "h": lambda: 2}, during=during)
    assert calls(stage)[:3] == ["task_1#1", "case_0/one#1", "case_0/two#1"]
    assert ran(stage) == ["start", "a"]


# -- polls -----------------------------------------------------------------------------------------------------------


def poll(knobs: str) -> str:
    chain = f'[{{ask: {{tool: {{kind: python, code: g}}, retry: {{on: error, max_attempts: 3, initial_delay: 1}}, poll: {{{knobs}}}}}}}, {{next: {{to: [{{step: a, args: {{k: "{{{{ ask.result }}}}"}}}}]}}}}]'
    return branches(when("true", chain))


def test_a_poll_repeats_a_call_until_its_result_is_ready() -> None:
    tools = {"f": lambda: 1, "g": Answers({"status": "new"}, broken(), {"status": "busy"}, {"status": "ready"})}
    stage = play(
        poll("until: \"{{ result.status == 'ready' }}\", interval: 5s, max_attempts: 10, deadline: 300s"), tools=tools
    )
    assert ran(stage) == ["start", "a"]
    assert stage.of("token.enqueued")[1].args == {"k": {"status": "ready"}}
    assert [event.name for event in stage.events if event.name.startswith("poll.")] == [
        "poll.started",
        "poll.iteration",
        "poll.iteration",
        "poll.iteration",
        "poll.finished",
    ]
    assert [(event.iteration, event.ready) for event in stage.of("poll.iteration")] == [
        (1, False),
        (2, False),
        (3, True),
    ]
    assert stage.clock.waits == [5, 1, 5]
    finished = stage.of("poll.finished")[0]
    assert (finished.iterations, finished.reason) == (3, "ready")
    assert calls(stage)[1:5] == ["case_0/ask#1", "case_0/ask#2", "case_0/ask#2", "case_0/ask#3"]
    carried_on_from_every_commit(stage, {"f": lambda: 1, "g": lambda: {"status": "ready"}})


@pytest.mark.parametrize(
    ("knobs", "reason", "asked"),
    [("max_attempts: 3", "exhausted", 3), ("deadline: 25s", "deadline", 3), ("max_attempts: 1", "exhausted", 1)],
)
def test_a_poll_is_given_up_after_so_many_calls_or_so_much_time(knobs: str, reason: str, asked: int) -> None:
    tool = Answers(1)
    stage = play(poll(f'until: "{{{{ result == 2 }}}}", interval: 10s, {knobs}'), tools={"f": lambda: 1, "g": tool})
    assert stage.state.status == "failed"
    assert stage.state.error is not None
    assert (stage.state.error["kind"], stage.state.error["task"]) == ("timeout", "case_0/ask")
    assert (stage.of("poll.finished")[0].reason, len(tool.asked)) == (reason, asked)


def test_r10_the_deadline_of_a_poll_limits_its_call_too() -> None:
    async def hang() -> Any:
        await asyncio.sleep(60)

    stage = play(poll('until: "{{ result == 2 }}", deadline: 0.2s'), tools={"f": lambda: 1, "g": hang})
    assert stage.of("poll.finished")[0].reason == "deadline"
    assert stage.state.error["message"] == "task 'ask' was not ready within 0.2 s (1 call)"


def test_r10_a_result_after_the_deadline_is_not_accepted() -> None:
    stages: list[Stage] = []

    async def during(stage: Stage) -> None:
        stages.append(stage)
        await stage.drive()

    def slow() -> int:
        stages[0].clock.time += 6
        return 2

    stage = play(poll('until: "{{ result == 2 }}", deadline: 5s'), tools={"f": lambda: 1, "g": slow}, during=during)
    assert stage.of("poll.finished")[0].reason == "deadline"
    assert stage.state.error["message"] == "task 'ask' was not ready within 5 s (1 call)"


def test_a_poll_whose_call_fails_for_good_is_over() -> None:
    stage = play(poll('until: "{{ result == 2 }}"'), tools={"f": lambda: 1, "g": broken})
    assert stage.state.status == "failed"
    assert stage.of("poll.finished")[0].reason == "failed"


# -- sinks -----------------------------------------------------------------------------------------------------------


def test_a_sink_whose_condition_is_false_is_skipped_and_that_is_reported() -> None:
    kept = Answers(None)
    sink = '{sink: {tool: {kind: python, code: h}, when: "{{ result %s 5 }}", args: {x: "%s"}}}'
    lines = [when("true", f"[{sink % (sign, sign)}]") for sign in (">", "<")]
    steps = branches(*lines, spec="case_mode: inclusive")
    stage = play(steps, tools={"f": lambda: 3, "h": kept})
    assert kept.asked == ["<"]
    assert [(event.task.path, event.skipped) for event in stage.of("sink.processed")] == [
        ("case_0/sink#1", True),
        ("case_1/sink#1", False),
    ]
    assert [event.task.path for event in stage.of("sink.started")] == ["case_1/sink#1"]


def of_a_loop(sink: str, more: str = "") -> str:
    return f"""
    - step: start
      loop: {{in: "{{{{ workload.cities }}}}", iterator: city, mode: sequential}}
      tool: {{kind: python, args: {{x: "{{{{ city.name }}}}"}}, code: f}}
      sink: {sink}
      {more}
      next: a{ENDS}
    """


CITIES = "workload: {cities: [{name: Bonn}, {name: Ulm}]}\n"


@pytest.mark.parametrize(
    ("reads", "stored"),
    [
        ("[city.name, result]", [["Bonn", "BONN"], ["Ulm", "ULM"]]),
        ("[loop_index, this.data, response.status]", [[0, "BONN", "ok"], [1, "ULM", "ok"]]),
        ("[iter.index, result]", [[0, "BONN"], [1, "ULM"]]),
        ("result", [["BONN", "ULM"]]),
    ],
)
def test_r7_the_sink_of_a_loop_runs_per_item_if_it_reads_the_item_and_else_once(reads: str, stored: list[Any]) -> None:
    tool = Answers(None)
    sink = f'{{tool: {{kind: python, code: store}}, args: {{x: "{{{{ {reads} }}}}"}}}}'
    tools = {"f": lambda x: x.upper(), "store": tool}
    stage = play(of_a_loop(sink), tools=tools, head=CITIES)
    assert (tool.asked, ran(stage)) == (stored, ["start", "a"])
    assert stage.state.steps["start"].result == ["BONN", "ULM"]
    assert len(stage.of("sink.processed")) == len(stored)
    carried_on_from_every_commit(stage, {**tools, "store": lambda x: None})


def test_r7_a_sink_of_an_item_has_its_own_condition_and_fails_its_item() -> None:
    tool = Answers(None)
    sink = '{tool: {kind: python, code: store}, when: "{{ city.name == \'Ulm\' }}", args: {x: "{{ result }}"}}'
    stage = play(of_a_loop(sink), tools={"f": lambda x: x.upper(), "store": tool}, head=CITIES)
    assert (tool.asked, [event.skipped for event in stage.of("sink.processed")]) == (["ULM"], [True, False])
    failed_item = play(of_a_loop(sink), tools={"f": lambda x: x, "store": broken}, head=CITIES)
    assert (failed_item.state.status, ran(failed_item)) == ("failed", ["start"])


def test_r7_a_branch_of_a_loop_sees_the_end_of_the_loop_after_the_sinks_of_its_items() -> None:
    sink = '{tool: {kind: python, code: store}, args: {x: "{{ city.name }}"}}'
    more = "case: [{when: \"{{ event.name == 'call.done' and result | length == 2 }}\", then: {next: b}}]"
    stage = play(of_a_loop(sink, more), tools={"f": lambda x: x, "store": Answers(None)}, head=CITIES)
    assert ran(stage) == ["start", "b"]


def test_a_failed_sink_fails_the_step_and_no_branch_takes_that_up() -> None:
    steps = branches(
        when("event.name == 'call.done'", "{next: a}"),
        when("event.name == 'call.error'", "{next: b}"),
        rest="sink: {tool: {kind: python, code: h}}",
    )
    stage = play(steps, tools={"f": lambda: 3, "h": broken})
    assert (ran(stage), stage.state.status) == (["start"], "failed")
    assert stage.state.error is not None
    assert stage.state.error["task"] == "sink/store"


def test_a_sink_of_a_workbook_task_follows_each_call_and_leaves_its_result() -> None:
    kept = Answers(None)
    head = 'workbook: [{name: w, tool: {kind: python, code: f}, sink: {tool: {kind: python, code: h}, args: {x: "{{ result }}"}}}]\n'
    steps = f"""
    - {{step: start, loop: {{in: [1, 2], iterator: n}}, tool: {{kind: workbook, name: w, args: {{x: "{{{{ n }}}}"}}}}, next: once}}
    - {{step: once, tool: {{kind: noop, result: 5}}, case: [{{when: "{{{{ true }}}}", then: [{{call: {{tool: {{kind: workbook, name: w, args: {{x: 7}}}}}}}}, {{next: {{to: [{{step: a, args: {{k: "{{{{ call.result }}}}"}}}}]}}}}]}}]}}{ENDS}
    """
    stage = play(steps, head=head, tools={"f": lambda x: x * 10, "h": kept})
    assert kept.asked == [10, 20, 70]
    assert stage.state.steps["start"].result == [10, 20]
    assert stage.of("token.enqueued")[-1].args == {"k": 70}
    assert len(stage.of("sink.processed")) == 3


# -- envelopes -------------------------------------------------------------------------------------------------------


def test_ids_nest_and_each_call_has_an_action_of_its_own_that_its_retries_share() -> None:
    stage = play(
        branches(
            when(
                "true", "[{t: {tool: {kind: python, code: g}, retry: {max_attempts: 2, initial_delay: 0}}}, {next: a}]"
            )
        ),
        tools={"f": lambda: 1, "g": Answers(broken(), 2)},
    )
    rows = stage.store.read(EXECUTION)
    result = [envelope(EXECUTION, row.seq, row.at, event) for row, event in zip(rows, stage.events, strict=True)]
    of = {
        name: [event for event in result if event["event_type"] == name]
        for name in {event["event_type"] for event in result}
    }
    assert of["step.started"][0]["parent_id"] == of["workflow.started"][0]["workflow_run_id"] == EXECUTION
    assert {
        of[name][0]["parent_id"]
        for name in ("task.started", "case.started", "case.evaluated", "next.requested", "next.evaluated")
    } == {"start#1"}
    tries = [one for one in of["task.started"] if one["task_run_id"] == "start#1/case_0/t#1"]
    assert [attempt["attempt"] for attempt in tries] == [1, 2]
    assert len({attempt["action_id"] for attempt in tries}) == 1
    call = stage.of("task.started")[0].task
    assert tries[0]["action_id"] != action_id(EXECUTION, call)
    assert all(one["step_run_id"] == "start#1" for name in ("case.evaluated", "next.requested") for one in of[name])
    assert {one["entity_type"] for one in of["case.evaluated"]} == {"case"}
    assert of["case.evaluated"][0]["source"] == "worker"


# -- steps that listen -----------------------------------------------------------------------------------------------

APPROVAL = f"""
    - step: start
      spec: {{eval_mode: on_event, timers: {{timeout: 1h}}}}
      case:
        - when: "{{{{ event.name == 'message.received' and event.data.type == 'approval' and event.data.by != 'eve' }}}}"
          then: [{{note: {{tool: {{kind: python, args: {{x: "{{{{ event.data.payload.by }}}}"}}, code: g}}}}}}, {{next: {{to: [{{step: a, args: {{by: "{{{{ note.result }}}}"}}}}]}}}}]
        - when: "{{{{ event.name == 'timer.fired' and event.data.timer_id == 'timeout' }}}}"
          then: {{next: b}}{ENDS}
"""


def sending(*commands: Any) -> Any:
    """Send commands once the execution waits, each after the one before has been taken."""

    async def during(stage: Stage) -> None:
        async def send() -> None:
            await stage.until(lambda: stage.live().shown_status == "waiting")
            await stage.handle(*commands)

        task = asyncio.create_task(send())
        await stage.drive()
        await task

    return during


def test_a_listener_takes_the_message_it_waits_for() -> None:
    tools: dict[str, Tool] = {"g": lambda x: f"by {x}"}
    stage = play(
        APPROVAL,
        Signal("approval", "0", {"by": "eve"}),
        Signal("other", "1"),
        Signal("approval", "2", {"by": "ada"}),
        tools=tools,
    )
    assert ran(stage) == ["start", "a"]
    assert stage.of("token.enqueued")[1].args == {"by": "by ada"}
    evaluated = stage.of("case.evaluated")[0]
    assert (evaluated.trigger_event, evaluated.eval_mode, evaluated.message) == ("message.received", "on_event", "2")
    assert {name: [number for number, _ in kept] for name, kept in stage.state.signals.items()} == {
        "approval": ["0"],
        "other": ["1"],
    }
    carried_on_from_every_commit(stage, tools, first=4)


def test_a_listener_hears_its_timer() -> None:
    stage = play(APPROVAL, tools={"g": lambda x: x})
    assert ran(stage) == ["start", "b"]
    carried_on_from_every_commit(stage, {"g": lambda x: x})


def test_a_message_that_came_before_the_step_is_heard_on_entry() -> None:
    steps = APPROVAL.replace("step: start", "step: wait", 1).lstrip("\n")
    first = "\n    - {step: start, tool: {kind: wait, signal: go}, next: wait}\n"
    stage = play(first + steps, Signal("approval", "1", {"by": "ada"}), Signal("go", "2"), tools={"g": lambda x: x})
    assert ran(stage) == ["start", "wait", "a"]


def test_a_listener_outlives_its_process() -> None:
    async def during(stage: Stage) -> None:
        driving = asyncio.create_task(stage.engine.drive(EXECUTION))
        await stage.until(lambda: bool(stage.live().observers))
        for number in range(3):
            driving.cancel()
            await asyncio.gather(driving, return_exceptions=True)
            await stage.crash()
            await stage.handle(Signal("other", str(number)))
            driving = asyncio.create_task(stage.engine.drive(EXECUTION))
            await asyncio.sleep(0)
        await stage.handle(Signal("approval", "x", {"by": "ada"}))
        stage.state = await driving

    stage = play(APPROVAL.replace(", timers: {timeout: 1h}", ""), tools={"g": lambda x: x}, during=during)
    assert ran(stage) == ["start", "a"]


def test_a_listener_hears_what_happens_in_other_branches() -> None:
    stage = play(
        f"""
    - {{step: start, tool: {{kind: noop}}, next: [watch, work]}}
    - step: watch
      spec: {{eval_mode: on_event}}
      case: [{{when: "{{{{ event.name == 'step.done' and event.data.step == 'work' }}}}", then: {{next: {{to: [{{step: a, args: {{got: "{{{{ event.data.result }}}}"}}}}]}}}}}}]
    - {{step: work, tool: {{kind: noop, result: 42}}}}{ENDS}
    """
    )
    assert ran(stage) == ["start", "watch", "work", "a"]
    assert stage.of("token.enqueued")[-1].args == {"got": 42}


def test_two_listeners_do_not_take_the_same_message() -> None:
    listener = (
        "spec: {eval_mode: on_event}, case: [{when: \"{{ event.name == 'message.received' }}\", then: {next: %s}}]"
    )
    steps = f"""
    - {{step: start, tool: {{kind: noop}}, next: [one, two]}}
    - {{step: one, {listener % "a"}}}
    - {{step: two, {listener % "b"}}}{ENDS}
    """
    stage = play(steps, during=sending(Signal("x", "1"), Signal("x", "2")))
    assert sorted(ran(stage)) == ["a", "b", "one", "start", "two"]
    assert [event.message for event in stage.of("case.evaluated")] == ["1", "2"]


def test_a_listener_with_a_tool_hears_its_end_and_then_events() -> None:
    lines = [
        when("event.name == 'call.done' and result == 1", "{next: a}"),
        when("event.name == 'message.received'", '[{next: {to: [{step: b, args: {r: "{{ result }}"}}]}}]'),
        when("event.name == 'call.error'", "{next: c}"),
    ]
    steps = branches(*lines, spec="eval_mode: on_event")
    assert ran(play(steps, tools={"f": lambda: 1})) == ["start", "a"]
    heard = play(steps, tools={"f": lambda: 2}, during=sending(Signal("x", "1")))
    assert ran(heard) == ["start", "b"]
    assert heard.of("token.enqueued")[1].args == {"r": 2}
    assert ran(play(steps, tools={"f": broken})) == ["start", "c"]
    unheard = play(branches(lines[0], lines[1], spec="eval_mode: on_event"), tools={"f": broken})
    assert unheard.state.status == "failed"


def test_an_inclusive_listener_continues_listening_until_a_next_is_reached() -> None:
    lines = [
        when(
            f"event.name == 'message.received' and event.data.type == '{name}'",
            f'[{{set: {{{name}: "{{{{ event.data.payload }}}}"}}}}]',
        )
        for name in ("x", "y")
    ]
    lines.append(when("event.name == 'message.received' and event.data.type == 'end'", "{next: a}"))
    steps = branches(*lines, spec="eval_mode: on_event, case_mode: inclusive", tool="{kind: noop}")
    signals = [Signal("x", "1", 10), Signal("x", "2", 11), Signal("y", "3", 12), Signal("end", "4")]
    stage = play(steps, during=sending(*signals))
    assert stage.state.ctx == {"vars": {"x": 10, "y": 12}}
    assert ran(stage) == ["start", "a"]


def test_what_a_listener_heard_while_it_was_paused_is_run_after_the_pause() -> None:
    async def during(stage: Stage) -> None:
        await stage.handle(Pause(), Signal("approval", "1", {"by": "ada"}))
        assert [event.name for event in stage.events][-1] == "case.evaluated"
        assert not stage.live().leases
        await stage.handle(Resume())
        await stage.drive()

    assert ran(play(APPROVAL, tools={"g": lambda x: x}, during=during)) == ["start", "a"]


def test_a_listener_can_be_cancelled_and_runs_out_of_time() -> None:
    assert play(APPROVAL, Cancel("enough"), tools={"g": lambda x: x}).state.status == "cancelled"
    late = branches(
        when("event.name == 'call.error' and this.error.kind == 'timeout'", "{next: a}"),
        when("event.name == 'message.received'", "{next: b}"),
        spec="eval_mode: on_event, timeout: 60",
        tool="{kind: noop}",
    ).replace("      tool: {kind: noop}\n", "", 1)
    assert ran(play(late)) == ["start", "a"]
    unseen = branches(
        when("event.name == 'message.received'", "{next: b}"),
        spec="eval_mode: on_event, timeout: 60",
        tool="{kind: noop}",
    ).replace("      tool: {kind: noop}\n", "", 1)
    stage = play(unseen)
    assert stage.state.status == "failed"
    assert stage.state.error is not None
    assert stage.state.error["kind"] == "timeout"


def test_else_of_a_listener_is_for_messages_and_timers_that_nobody_wants() -> None:
    lines = [when("event.name == 'message.received' and event.data.type == 'yes'", "{next: a}"), "{else: [{next: b}]}"]
    steps = branches(*lines, spec="eval_mode: on_event", tool="{kind: noop}")
    assert ran(play(steps, during=sending(Signal("yes", "1")))) == ["start", "a"]
    assert ran(play(steps, during=sending(Signal("no", "1")))) == ["start", "b"]


def test_a_lost_worker_of_a_listener_is_followed_by_another() -> None:
    async def during(stage: Stage) -> None:
        await stage.handle(Signal("approval", "1", {"by": "ada"}))
        driving = asyncio.create_task(stage.drive())
        await stage.until(lambda: any(isinstance(event, e.TaskStarted) for event in stage.events) or stage.live().over)
        for fence in list(stage.live().leases):
            await stage.handle(Lost(fence))
        await driving

    assert ran(play(APPROVAL, tools={"g": lambda x: x}, during=during)) == ["start", "a"]
