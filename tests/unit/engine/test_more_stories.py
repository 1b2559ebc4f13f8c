"""The numbered semantics as far as they can fail: ends, joins, gates, limits, rules, loops, losses, pauses, sizes."""

# ruff: noqa: E501 (playbooks in one line a step are easier to compare)

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from stage import EXECUTION, Cuts, Stage, play, text_of
from tests.servers.patience import PATIENCE_SECONDS

from noetl.engine import leases, loops
from noetl.engine.commands import Cancel, Lost, Pause, Resume, Signal
from noetl.engine.evolve import evolve
from noetl.engine.state import Execution
from noetl.model.identity import TaskId, action_id
from noetl.model.outcome import Error, Outcome, failed
from noetl.reference import Reference
from noetl.store import codec
from noetl.testing import run_playbook
from noetl.tools.base import Context

BIG = {"rows": [{"i": i, "text": "x" * 50} for i in range(2000)], "more": True}
"""More than 64 KiB."""


def rules(*lines: str) -> str:
    return "spec: {policy: {rules: [" + ", ".join(lines) + "]}}"


def when(guard: str, then: str) -> str:
    return f'{{when: "{{{{ {guard} }}}}", then: {{{then}}}}}'


def otherwise(then: str) -> str:
    return f"{{else: {{then: {{{then}}}}}}}"


def broken(kind: str = "shaky", **more: Any) -> Outcome:
    return failed(kind, "it broke", **more)


class Sequence:
    """A tool that gives one answer after the other, the last one for ever."""

    def __init__(self, *answers: Any) -> None:
        self.answers, self.calls = answers, 0

    def __call__(self) -> Any:
        self.calls += 1
        answer = self.answers[min(self.calls, len(self.answers)) - 1]
        if isinstance(answer, Exception):
            raise answer
        return answer


# -- S1, S2: beginning and end ---------------------------------------------------------------------------------------


def test_s1_entry_is_what_the_executor_says_then_start_then_the_first() -> None:
    steps = "- {step: b, tool: {kind: noop}}\n- {step: a, tool: {kind: noop}}"
    assert play(steps).runs() == ["b#1"]
    assert play(steps, head="executor: {spec: {entry_step: a}}\n").runs() == ["a#1"]


def test_s1_the_first_token_has_no_args_and_the_payload_is_workload() -> None:
    end = play("- {step: s, tool: {kind: noop, result: ['{{ args }}', '{{ workload.x }}']}}", payload={"x": 5})
    assert end.state.result == [{}, 5]


def test_s2_held_tokens_are_denied_oldest_first_and_the_net_settles_between() -> None:
    end = play("""
        - {step: start, next: {spec: {mode: inclusive}, arcs: [{step: a}, {step: b}]}}
        - {step: a, spec: {policy: {admit: {rules: [{when: "{{ ctx.x }}", then: {allow: true}}]}}}, tool: {kind: noop}}
        - {step: b, spec: {policy: {admit: {rules: [{when: "{{ ctx.x }}", then: {allow: true}}]}}}, tool: {kind: noop}}
    """)
    assert [event.token for event in end.of("token.denied")] == [event.token for event in end.of("token.held")]
    assert end.state.status == "succeeded"


def test_s2_held_tokens_are_denied_before_a_blocked_join_fires() -> None:
    end = play("""
        - {step: start, next: {spec: {mode: inclusive}, arcs: [{step: gated}, {step: a}]}}
        - {step: gated, spec: {policy: {admit: {rules: [{when: "{{ ctx.x }}", then: {allow: true}}]}}}, tool: {kind: noop}, next: {arcs: [{step: j}]}}
        - {step: a, next: {arcs: [{step: j}]}}
        - {step: j, spec: {join: all}, tool: {kind: noop, result: "{{ args_by.keys() | list }}"}}
    """)
    assert end.names.index("token.denied") < end.names.index("step.scheduled", end.names.index("token.denied"))
    assert end.runs() == ["start#1", "a#1", "j#1"]
    assert end.state.result == ["a"]


def test_s2_of_joins_that_block_each_other_the_one_with_the_earliest_token_fires() -> None:
    end = play("""
        - {step: start, next: {spec: {mode: inclusive}, arcs: [{step: two}, {step: one}]}}
        - {step: one, spec: {join: all}, tool: {kind: noop}, next: {arcs: [{step: two, when: "{{ args.again | default(false) }}"}]}}
        - {step: two, spec: {join: all}, tool: {kind: noop}, next: {arcs: [{step: one, args: {from_two: true}}]}}
    """)
    assert end.runs()[:2] == ["start#1", "two#1"]
    assert end.runs().count("one#1") == 1
    assert end.state.status == "succeeded"


def test_s2_the_final_step_is_outside_the_net_and_its_failure_fails_the_execution() -> None:
    end = play(
        "- {step: start, tool: {kind: noop}}\n- {step: bye, tool: {kind: python, code: f}}",
        head="executor: {spec: {final_step: bye}}\n",
        tools={"f": lambda: broken()},
    )
    assert end.state.status == "failed"
    assert end.state.error["step"] == "bye"
    assert end.names.index("workflow.finished") < end.names.index("step.failed")


def test_s2_the_final_step_does_not_run_after_cancel() -> None:
    end = play(
        "- {step: start, tool: {kind: wait, signal: never}}\n- {step: bye, tool: {kind: noop}}",
        Cancel("enough"),
        head="executor: {spec: {final_step: bye}}\n",
    )
    assert end.state.status == "cancelled"
    assert end.runs() == ["start#1"]


def test_s2_the_summary_names_steps_and_errors_also_of_a_guard() -> None:
    end = play(
        """
        - {step: start, tool: {kind: noop}, next: {arcs: [{step: a, when: "{{ 1 / 0 > 1 }}"}]}}
        - {step: a, tool: {kind: noop}}
        - {step: bye, tool: {kind: noop, result: "{{ args.summary }}"}}
        """,
        head="executor: {spec: {final_step: bye}}\n",
    )
    summary = end.state.steps["bye"].result
    assert summary["status"] == "failed"
    assert summary["steps"] == {"start": "succeeded"}
    assert [error["kind"] for error in summary["errors"]] == ["template"]


# -- S3 to S5: failure -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "guard", ["event.name == 'step.failed'", "start.status == 'failed'", "steps.start.error.kind == 'shaky'"]
)
def test_s3_guards_that_look_at_the_end_of_the_step_see_a_failure(guard: str) -> None:
    end = play(
        f"""
        - {{step: start, tool: {{kind: python, code: f}}, next: {{arcs: [{{step: a, when: "{{{{ {guard} }}}}"}}]}}}}
        - {{step: a, tool: {{kind: noop, result: rescued}}}}
        """,
        tools={"f": broken},
    )
    assert end.state.result == "rescued"


BRANCHES = """
    - {step: start, next: {spec: {mode: inclusive}, arcs: [{step: bad}, {step: slow}]}}
    - {step: bad, tool: {kind: python, code: fail}}
    - {step: slow, tool: {kind: python, code: slow}, next: {arcs: [{step: after}]}}
    - {step: after, tool: {kind: noop}}
"""


def test_s4_stop_cancels_running_work_and_schedules_nothing_new() -> None:
    stopped = asyncio.Event()

    async def slow() -> None:
        try:
            await asyncio.sleep(30)
        except asyncio.CancelledError:
            stopped.set()
            raise

    end = play(BRANCHES, tools={"fail": broken, "slow": slow})
    assert end.state.status == "failed"
    assert end.state.error["step"] == "bad"
    assert end.state.error["task"] == "task_1"
    assert end.state.steps["slow"].status == "cancelled"
    assert "after#1" not in end.runs()
    assert stopped.is_set()


def test_s4_finish_lets_the_other_branches_end_first() -> None:
    end = play(BRANCHES, head="executor: {spec: {on_failure: finish}}\n", tools={"fail": broken, "slow": lambda: 1})
    assert end.state.status == "failed"
    assert end.state.steps["after"].status == "succeeded"


def test_s5_no_arc_matched_on_success_ends_the_branch() -> None:
    end = play("""
        - {step: start, tool: {kind: noop, result: 1}, next: {arcs: [{step: a, when: "{{ false }}"}]}}
        - {step: a, tool: {kind: noop}}
    """)
    assert end.state.status == "succeeded"
    assert end.runs() == ["start#1"]


# -- S6: joins -------------------------------------------------------------------------------------------------------


def test_s6_args_merge_in_the_order_of_the_playbook_whoever_comes_first() -> None:
    gate = asyncio.Event()

    async def first() -> None:
        await gate.wait()

    def second() -> None:
        asyncio.get_running_loop().call_later(0.05, gate.set)

    end = play(
        """
        - {step: start, next: {spec: {mode: inclusive}, arcs: [{step: a}, {step: b}]}}
        - {step: a, tool: {kind: python, code: first}, next: {arcs: [{step: j, args: {x: a, only_a: 1}}]}}
        - {step: b, tool: {kind: python, code: second}, next: {arcs: [{step: j, args: {x: b}}]}}
        - {step: j, spec: {join: all}, tool: {kind: noop, result: ["{{ args }}", "{{ args_by }}"]}}
        """,
        tools={"first": first, "second": second},
    )
    assert end.state.result == [{"x": "b", "only_a": 1}, {"a": {"x": "a", "only_a": 1}, "b": {"x": "b"}}]


def test_s6_later_tokens_open_a_new_group_also_through_a_cycle() -> None:
    end = play("""
        - {step: start, next: {spec: {mode: inclusive}, arcs: [{step: a}, {step: b}]}}
        - {step: a, next: {arcs: [{step: j}]}}
        - {step: b, next: {arcs: [{step: j}]}}
        - step: j
          spec: {join: all}
          tool:
            - t: {kind: noop, spec: {policy: {rules: [{else: {then: {do: continue, set_ctx: {n: {$add: 1}}}}}]}}}
          next: {arcs: [{step: start, when: "{{ ctx.n < 3 }}"}]}
    """)
    assert [name for name in end.runs() if name.startswith("j")] == ["j#1", "j#2", "j#3"]


def test_s6_exclusive_and_failed_branches_never_block_a_join() -> None:
    end = play(
        """
        - {step: start, next: {spec: {mode: inclusive}, arcs: [{step: a}, {step: b}, {step: c}]}}
        - {step: a, tool: {kind: noop}, next: {arcs: [{step: j, when: "{{ false }}"}, {step: other}]}}
        - {step: b, tool: {kind: python, code: f}, next: {arcs: [{step: j}, {step: other, when: "{{ event.name == 'step.failed' }}"}]}}
        - {step: c, tool: {kind: noop}, next: {arcs: [{step: j, args: {c: 1}}]}}
        - {step: other, tool: {kind: noop}}
        - {step: j, spec: {join: all}, tool: {kind: noop, result: "{{ args_by.keys() | list }}"}}
        """,
        tools={"f": broken},
    )
    assert end.runs().count("j#1") == 1
    assert end.state.steps["j"].result == ["c"]


def test_s6_a_delayed_token_on_its_way_to_the_join_is_waited_for() -> None:
    end = play("""
        - {step: start, next: {spec: {mode: inclusive}, arcs: [{step: a}, {step: b}]}}
        - {step: a, next: {arcs: [{step: j, args: {a: 1}}]}}
        - {step: b, next: {arcs: [{step: j, args: {b: 1}, spec: {delay: 60}}]}}
        - {step: j, spec: {join: all}, tool: {kind: noop, result: "{{ args }}"}}
    """)
    assert [name for name in end.runs() if name.startswith("j")] == ["j#1"]
    assert end.state.result == {"a": 1, "b": 1}


def test_s6_s7_a_join_behind_a_gate_goes_in_as_one() -> None:
    end = play(
        """
        - {step: start, next: {spec: {mode: inclusive}, arcs: [{step: a}, {step: b}, {step: opener}]}}
        - {step: a, next: {arcs: [{step: j, args: {a: 1}}]}}
        - {step: b, next: {arcs: [{step: j, args: {b: 1}}]}}
        - {step: j, spec: {join: all, policy: {admit: {rules: [{when: "{{ ctx.open and args.b == 1 }}", then: {allow: true}}]}}}, tool: {kind: noop, result: "{{ args }}"}}
        - step: opener
          tool:
            - nap: {kind: wait, signal: go}
            - open: {kind: noop, spec: {policy: {rules: [{else: {then: {do: continue, set_ctx: {open: true}}}}]}}}
    """,
        Signal("go", "1"),
    )
    assert [name for name in end.runs() if name.startswith("j")] == ["j#1"]
    assert end.state.steps["j"].result == {"a": 1, "b": 1}


def test_s6_a_join_that_is_held_does_not_stop_another_from_firing() -> None:
    end = play("""
        - {step: start, next: {spec: {mode: inclusive}, arcs: [{step: shut}, {step: free}]}}
        - {step: shut, spec: {join: all, policy: {admit: {rules: [{when: "{{ ctx.open }}", then: {allow: true}}]}}}, tool: {kind: noop, result: in}}
        - {step: free, spec: {join: all}, tool: [{t: {kind: noop, spec: {policy: {rules: [{else: {then: {do: continue, set_ctx: {open: true}}}}]}}}}]}
    """)
    assert end.state.steps["shut"].result == "in"
    assert end.of("token.denied") == []


def test_s6_the_executor_sets_the_default() -> None:
    end = play(
        """
        - {step: start, spec: {join: any}, next: {spec: {mode: inclusive}, arcs: [{step: a}, {step: b}]}}
        - {step: a, next: {arcs: [{step: j}]}}
        - {step: b, next: {arcs: [{step: j}]}}
        - {step: j, tool: {kind: noop}}
        """,
        head="executor: {spec: {join: all}}\n",
    )
    assert [name for name in end.runs() if name.startswith("j")] == ["j#1"]


# -- S7: gates -------------------------------------------------------------------------------------------------------


def gate(admit: str, ctx: dict[str, Any] | None = None) -> bool:
    end = play(f"- {{step: start, spec: {{policy: {{admit: {{{admit}}}}}}}, tool: {{kind: noop}}}}", ctx=ctx)
    return end.runs() == ["start#1"]


def test_s7_without_a_match_the_opposite_of_the_last_rule() -> None:
    assert not gate('rules: [{when: "{{ false }}", then: {allow: true}}]')
    assert gate('rules: [{when: "{{ false }}", then: {allow: false}}]')
    assert gate('rules: [{when: "{{ false }}", then: {allow: true}}, {when: "{{ false }}", then: {allow: false}}]')
    assert not gate('rules: [{when: "{{ false }}", then: {allow: true}}, {else: {then: {allow: false}}}]')


def test_s7_exclusive_takes_the_first_match_and_inclusive_wants_all() -> None:
    both = '[{when: "{{ true }}", then: {allow: true}}, {when: "{{ true }}", then: {allow: false}}]'
    assert gate(f"rules: {both}")
    assert not gate(f"mode: inclusive, rules: {both}")


def test_s7_gates_see_ctx_workload_args_and_the_event_that_sent_the_token() -> None:
    end = play(
        """
        - {step: start, tool: {kind: noop, result: 7}, next: {arcs: [{step: a, args: {x: 1}}]}}
        - step: a
          spec: {policy: {admit: {rules: [{when: "{{ args.x == 1 and event.name == 'step.done' and event.data.result == 7 and workload.w == 2 and ctx.c == 3 }}", then: {allow: true}}]}}}
          tool: {kind: noop, result: in}
    """,
        payload={"w": 2},
        ctx={"c": 3},
    )
    assert end.state.result == "in"


def test_s7_a_signal_makes_held_tokens_be_checked_again() -> None:
    end = play(
        """
        - {step: start, next: {spec: {mode: inclusive}, arcs: [{step: a}, {step: w}]}}
        - {step: a, spec: {policy: {admit: {rules: [{when: "{{ ctx.big.more }}", then: {allow: true}}]}}}, tool: {kind: noop, result: in}}
        - step: w
          tool:
            - w: {kind: wait, signal: go}
            - put: {kind: python, code: big, spec: {policy: {rules: [{else: {then: {do: continue, set_ctx: {big: "{{ outcome.result }}"}}}}]}}}
    """,
        Signal("go", "1"),
        tools={"big": lambda: BIG},
    )
    assert end.state.steps["a"].result == "in"


def test_s7_a_gate_that_raises_fails_the_run_at_its_place() -> None:
    end = play(
        "- {step: start, spec: {policy: {admit: {rules: [{when: '{{ 1 / 0 > 1 }}', then: {allow: true}}]}}}, tool: {kind: noop}}"
    )
    assert end.state.status == "failed"
    assert (end.state.error["kind"], end.state.error["step"], end.state.error["place"]) == (
        "template",
        "start",
        "admit",
    )


# -- S8: bounds ------------------------------------------------------------------------------------------------------


def test_s8_a_task_is_visited_so_often_and_no_more() -> None:
    again = rules(when("true", "do: jump, to: t"), otherwise("do: continue"))[:-1] + ", max_visits: 7}"
    end = play(f"- step: start\n  tool:\n    - t: {{kind: noop, {again}}}")
    assert end.state.status == "failed"
    assert end.state.error["kind"] == "limit"
    assert end.state.error["task"] == "t"
    assert len(end.of("task.started")) == 7


def test_s8_ten_thousand_tokens_are_too_many() -> None:
    fans = "\n".join(
        f"- {{step: s{i}, next: {{spec: {{mode: inclusive}}, arcs: [{', '.join(f'{{step: s{i + 1}}}' for _ in range(22))}]}}}}"
        for i in range(3)
    )
    end = play(
        f"{fans}\n- {{step: s3, spec: {{policy: {{admit: {{rules: [{{when: '{{{{ ctx.x }}}}', then: {{allow: true}}}}]}}}}}}, tool: {{kind: noop}}}}"
    )
    assert end.state.status == "failed"
    assert "10,000 tokens" in end.state.error["message"]


def test_s8_many_firings_continue_by_a_timer() -> None:
    end = play(
        """
        - {step: start, next: {arcs: [{step: start, when: "{{ ctx.never is undefined }}"}]}}
        """,
        head="executor: {spec: {max_step_runs: 3000}}\n",
    )
    assert end.state.error["kind"] == "limit"
    assert len(end.runs()) == 3000
    assert "more" in [event.timer for event in end.of("timer.fired")]


# -- S9, S10, S12, S13: data -----------------------------------------------------------------------------------------


def test_s9_arc_args_overwrite_inherited_ones_key_by_key() -> None:
    end = play("""
        - {step: start, next: {arcs: [{step: a, args: {x: 1, y: {deep: 1}}}]}}
        - {step: a, next: {arcs: [{step: b, args: {y: {other: 2}, z: 3}}]}}
        - {step: b, tool: {kind: noop, result: "{{ args }}"}}
    """)
    assert end.state.result == {"x": 1, "y": {"other": 2}, "z": 3}


def test_s10_noop_passes_prev_on_unless_it_has_a_result_even_null() -> None:
    end = play("""
        - step: start
          tool:
            - one: {kind: noop, result: 1}
            - pass: {kind: noop}
            - null_: {kind: noop, result: null}
            - seen: {kind: noop, result: ["{{ tasks.pass.result }}", "{{ _prev }}"]}
    """)
    assert end.state.result == [1, None]


def test_s12_output_final_step_or_the_last_one() -> None:
    text = """
        - {step: start, tool: {kind: noop, result: 1}, next: {arcs: [{step: a}]}}
        - {step: a, tool: {kind: noop, result: 2}}
        - {step: bye, tool: {kind: noop, result: 3}}
    """
    assert play(text).state.result == 2
    assert play(text, head="executor: {spec: {final_step: bye}}\n").state.result == 3
    output = 'executor: {spec: {final_step: bye, output: {sum: "{{ steps.start.result + steps.bye.result }}"}}}\n'
    assert play(text, head=output).state.result == {"sum": 4}


def test_s12_an_output_that_raises_fails_the_execution() -> None:
    end = play("- {step: start, tool: {kind: noop}}", head='executor: {spec: {output: "{{ 1 / 0 }}"}}\n')
    assert end.state.status == "failed"
    assert end.state.error["place"] == "executor.spec.output"


def test_s12_collect_false_keeps_no_results() -> None:
    end = play(
        "- {step: start, loop: {in: [1, 2], iterator: n, spec: {collect: false}}, tool: {kind: noop, result: '{{ iter.n }}'}}"
    )
    assert end.state.result is None
    assert end.of("loop.done")[0].ok == 2


def test_s13_bare_names_resolve_in_order() -> None:
    text = """
        - {{step: x, tool: {{kind: noop, result: step}}, next: {{arcs: [{{step: b{args}}}]}}}}
        - step: b
          tool:
            - first: {{kind: noop, result: task}}
            - see: {{kind: noop, result: "{{{{ [x, first] }}}}"}}
    """
    assert play(text.format(args="")).state.result == ["step", "task"]
    assert play(text.format(args=""), payload={"x": "workload"}).state.result == ["workload", "task"]
    assert play(text.format(args=""), payload={"x": "workload"}, ctx={"x": "ctx"}).state.result == ["ctx", "task"]
    end = play(text.format(args=", args: {x: args}"), payload={"x": "workload"}, ctx={"x": "ctx"})
    assert end.state.result == ["args", "task"]


def test_s13_a_field_is_looked_for_in_the_result_first() -> None:
    end = play("""
        - {step: x, tool: {kind: noop, result: {status: mine, v: 1}}, next: {arcs: [{step: b}]}}
        - {step: b, tool: [{t: {kind: noop, result: {error: own}}}, {see: {kind: noop, result: ["{{ x.status }}", "{{ steps.x.status }}", "{{ x.data.v }}", "{{ x.result.v }}", "{{ x.error }}", "{{ t.error }}", "{{ t.status }}", "{{ tasks.t.status }}"]}}]}
    """)
    assert end.state.result == ["mine", "succeeded", 1, 1, None, "own", "ok", "ok"]


# -- S14, S15: retries -----------------------------------------------------------------------------------------------


def test_s14_attempts_are_counted_over_all_rules_of_a_visit() -> None:
    tool = Sequence(broken("a"), broken("a"), broken("b"), broken("b"))
    policy = rules(
        when("outcome.error.kind == 'a'", "do: retry, attempts: 5, delay: 0"),
        when("outcome.error.kind == 'b'", "do: retry, attempts: 3, delay: 0"),
        otherwise("do: continue"),
    )
    end = play(f"- step: start\n  tool:\n    - t: {{kind: python, code: f, {policy}}}", tools={"f": tool})
    assert end.state.error["kind"] == "b"
    assert end.state.error["attempt"] == tool.calls == 3


def test_s14_each_visit_counts_anew_and_defaults_are_three_attempts_a_second_apart() -> None:
    tool = Sequence(broken(), broken(), 1, broken(), broken(), 2)
    end = play(
        f"""
        - step: start
          tool:
            - t: {{kind: python, code: f, {rules(when("outcome.status == 'error'", "do: retry"), otherwise("do: continue"))}}}
            - again: {{kind: noop, {rules(when("_prev == 1", "do: jump, to: t"), otherwise("do: continue"))}}}
        """,
        tools={"f": tool},
    )
    assert end.state.result == 2
    assert end.clock.waits == [1, 1, 1, 1]
    assert [event.attempt for event in end.of("task.started") if event.task.label == "t"] == [1, 2, 3, 1, 2, 3]


def retried(then: str, *answers: Any) -> Stage:
    policy = rules(when("outcome.status == 'error'", then), otherwise("do: continue"))
    return play(
        f"- step: start\n  tool:\n    - t: {{kind: python, code: f, {policy}}}", tools={"f": Sequence(*answers)}
    )


@pytest.mark.parametrize(
    ("then", "waits"),
    [
        ("do: retry, attempts: 4, delay: 1, backoff: none", [1, 1, 1]),
        ("do: retry, attempts: 4, delay: 1, backoff: linear", [1, 2, 3]),
        ("do: retry, attempts: 4, delay: 1, backoff: exponential", [1, 2, 4]),
        ("do: retry, attempts: 4, delay: 1, backoff: exponential, max_delay: 3", [1, 2, 3]),
    ],
)
def test_s15_backoff(then: str, waits: list[float]) -> None:
    assert retried(then, broken()).clock.waits == waits


def test_s15_jitter_lies_within_bounds_is_the_same_again_and_differs_between_items() -> None:
    then = "do: retry, attempts: 4, delay: 2, jitter: true"
    first, second = retried(then, broken()).clock.waits, retried(then, broken()).clock.waits
    assert first == second
    assert all(1 <= wait <= 2 for wait in first)
    assert len(set(first)) == 3
    policy = rules(when("outcome.status == 'error'", then), otherwise("do: continue"))
    loop = f"- {{step: start, loop: {{in: [1, 2], iterator: n, spec: {{on_error: continue}}}}, tool: [{{t: {{kind: python, code: f, {policy}}}}}]}}"
    waits = play(loop, tools={"f": broken}).clock.waits
    assert len(set(waits)) == 6


def test_s15_retry_after_raises_the_wait_up_to_max_delay_and_jitter_does_not_shorten_it() -> None:
    late = broken(retry_after=4)
    assert retried("do: retry, attempts: 2, delay: 1", late).clock.waits == [4]
    assert retried("do: retry, attempts: 2, delay: 1, max_delay: 3", late).clock.waits == [3]
    assert retried("do: retry, attempts: 2, delay: 1, jitter: true", late).clock.waits == [4]


def test_s15_a_long_wait_frees_the_slot_and_keeps_its_place_in_the_loop() -> None:
    flying: list[int] = []
    most = 0

    def f(n: int) -> Any:
        nonlocal most
        if n not in flying:
            flying.append(n)
        most = max(most, len(flying))
        if flying.count(n) == 1 and n not in seen:
            seen.add(n)
            return broken()
        flying.remove(n)
        return n

    seen: set[int] = set()
    policy = rules(when("outcome.status == 'error'", "do: retry, attempts: 2, delay: 60"), otherwise("do: continue"))
    end = play(
        f"- {{step: start, loop: {{in: [1, 2, 3, 4, 5], iterator: n, spec: {{mode: parallel, max_in_flight: 2}}}}, tool: [{{t: {{kind: python, code: f, args: {{n: '{{{{ iter.n }}}}'}}, {policy}}}}}]}}",
        tools={"f": f},
    )
    assert end.state.result == [1, 2, 3, 4, 5]
    assert most <= 2
    assert end.clock.waits == []  # nobody slept: the timers are in the store
    assert [event.until for event in end.of("step.paused")] == ["retry"] * 5


def test_s15_a_long_wait_inside_an_iterator_is_slept_through() -> None:
    policy = rules(when("outcome.status == 'error'", "do: retry, attempts: 2, delay: 60"), otherwise("do: continue"))
    end = play(
        f"- {{step: start, tool: [{{each: {{kind: iterator, in: [1], iterator: n, tool: [{{t: {{kind: python, code: f, {policy}}}}}]}}}}]}}",
        tools={"f": Sequence(broken(), 5)},
    )
    assert end.state.result == [5]
    assert end.clock.waits == [60]


# -- S16 to S18: rules -----------------------------------------------------------------------------------------------


def test_s16_skip_is_checked_once_a_visit() -> None:
    policy = rules(
        when("iter.tried | default(false)", "do: skip"),
        when("outcome.status == 'error'", "do: retry, attempts: 3, delay: 0, set_iter: {tried: true}"),
        otherwise("do: continue"),
    )
    tool = Sequence(broken(), 5)
    end = play(f"- step: start\n  tool:\n    - t: {{kind: python, code: f, {policy}}}", tools={"f": tool})
    assert end.state.result == 5
    assert tool.calls == 2


def test_s16_a_skipped_task_shows_as_such_and_its_patches_count() -> None:
    end = play(
        f"- step: start\n  tool:\n    - t: {{kind: noop, result: 1, {rules(when('true', 'do: skip, set_ctx: {seen: 1}'), otherwise('do: continue'))}}}"
    )
    assert end.of("task.done")[0].skipped
    assert end.of("task.started") == []
    assert end.state.ctx == {"seen": 1}
    assert end.state.result is None


@pytest.mark.parametrize("delay", [2, 90])
def test_s17_a_jump_may_wait_and_goes_forward_too(delay: int) -> None:
    end = play(
        f"""
        - step: start
          tool:
            - poll: {{kind: python, code: f, {rules(when("outcome.result < 3", f"do: jump, to: poll, delay: {delay}"), when("true", "do: jump, to: last"), otherwise("do: continue"))}}}
            - never: {{kind: noop, result: never}}
            - last: {{kind: noop, result: ["{{{{ _prev }}}}", "{{{{ _attempt }}}}"]}}
    """,
        tools={"f": Sequence(1, 2, 3)},
    )
    assert end.state.result == [3, 1]
    assert [str(event.task) for event in end.of("task.started")] == [
        "start#1/poll#1",
        "start#1/poll#2",
        "start#1/poll#3",
        "start#1/last#1",
    ]
    if delay == 2:
        assert end.clock.waits == [2, 2]
    else:
        assert end.clock.time == 1_700_000_000.0 + 180


def test_s18_no_match_continues_also_after_an_error() -> None:
    end = play(
        f"- step: start\n  tool:\n    - t: {{kind: python, code: f, {rules(when('false', 'do: fail'))}}}\n    - u: {{kind: noop, result: '{{{{ _prev }}}}'}}",
        tools={"f": broken},
    )
    assert end.state.status == "succeeded"
    assert end.state.result is None


@pytest.mark.parametrize(
    ("then", "status"),
    [
        ("do: continue", "succeeded"),
        ("do: break", "succeeded"),
        ("do: fail", "failed"),
        ("do: jump, to: u", "succeeded"),
        ("do: retry, attempts: 1", "failed"),
    ],
)
def test_s18_patches_beside_any_directive_are_applied(then: str, status: str) -> None:
    end = play(
        f"- step: start\n  tool:\n    - t: {{kind: python, code: f, {rules(when('true', then + ', set_ctx: {seen: 1}'), otherwise('do: continue'))}}}\n    - u: {{kind: noop}}",
        tools={"f": broken},
    )
    assert end.state.status == status
    assert end.state.ctx == {"seen": 1}


def test_s18_fail_on_an_ok_outcome_is_of_kind_policy() -> None:
    end = play(
        f"- step: start\n  tool:\n    - t: {{kind: noop, result: 1, {rules(when('outcome.result == 1', 'do: fail'), otherwise('do: continue'))}}}"
    )
    assert end.state.error["kind"] == "policy"


# -- S19, S20: writes ------------------------------------------------------------------------------------------------


def loop_of(mode: str, then: str, more: str = "", items: str = "[1, 2, 3]") -> str:
    return f"""
        - step: start
          loop: {{in: {items}, iterator: n, spec: {{mode: {mode}{more}}}}}
          tool:
            - t: {{kind: noop, {rules(otherwise(then))}}}
            - see: {{kind: noop, result: "{{{{ ctx.sum | default(0) }}}}"}}
    """


def test_s19_values_are_rendered_before_any_is_written() -> None:
    end = play(
        f"- step: start\n  tool:\n    - t: {{kind: noop, {rules(otherwise('do: continue, set_ctx: {a: 2, b: *x}'.replace('*x', chr(39) + '{{ ctx.a }}' + chr(39))))}}}",
        ctx={"a": 1},
    )
    assert end.state.ctx == {"a": 2, "b": 1}


def test_s19_sequential_items_see_earlier_writes_and_parallel_ones_their_own_only() -> None:
    add = 'do: continue, set_ctx: {sum: {$add: "{{ iter.n }}"}}'
    assert play(loop_of("sequential", add)).state.result == [1, 3, 6]
    parallel = play(loop_of("parallel", add), ctx={"sum": 100})
    assert parallel.state.result == [101, 102, 103]
    assert parallel.state.ctx == {"sum": 106}


def test_s19_a_plain_run_reads_ctx_as_of_its_first_grant_plus_its_own() -> None:
    end = play(
        f"""
        - {{step: start, next: {{spec: {{mode: inclusive}}, arcs: [{{step: a}}, {{step: b}}]}}}}
        - step: a
          tool:
            - mine: {{kind: noop, {rules(otherwise("do: continue, set_ctx: {mine: 1}"))}}}
            - w: {{kind: wait, signal: go}}
            - see: {{kind: noop, result: ["{{{{ ctx.mine }}}}", "{{{{ ctx.other | default('unseen') }}}}"]}}
        - step: b
          tool:
            - put: {{kind: noop, {rules(otherwise("do: continue, set_ctx: {other: 1}"))}}}
        """,
        during=lambda stage: _signal_when(stage, "b"),
    )
    assert end.state.steps["a"].result == [1, "unseen"]


async def _signal_when(stage: Stage, step: str) -> None:
    driving = asyncio.create_task(stage.drive())
    await stage.until(lambda: step in stage.live().steps)
    await stage.handle(Signal("go", "1"))
    await driving


def test_s19_ctx_is_at_most_a_mebibyte() -> None:
    text = f"""
        - step: start
          loop: {{in: "{{{{ range(60) }}}}", iterator: n}}
          tool:
            - t: {{kind: python, code: f, {rules(otherwise('do: continue, set_ctx: {all: {$append: "{{ outcome.result }}"}}'))}}}
    """
    end = play(text, tools={"f": lambda: "x" * 30_000})
    assert end.state.status == "failed"
    assert end.state.error["kind"] == "too_large"
    assert "1,048,576" in end.state.error["message"]
    assert end.state.error["task"] == "t"


def test_s20_an_item_may_rewrite_its_own_and_another_value_fails_that_item_only() -> None:
    own = f"""
        - step: start
          loop: {{in: [1], iterator: n, spec: {{mode: parallel}}}}
          tool:
            - t: {{kind: noop, {rules(otherwise("do: continue, set_ctx: {k: 1}"))}}}
            - u: {{kind: noop, {rules(otherwise("do: continue, set_ctx: {k: 2}"))}}}
    """
    assert play(own).state.ctx == {"k": 2}
    calls: list[int] = []
    text = f"""
        - step: start
          loop: {{in: "{{{{ range(200) }}}}", iterator: n, spec: {{mode: parallel, max_in_flight: 3, on_error: continue}}}}
          tool:
            - t: {{kind: noop, {rules(otherwise('do: continue, set_ctx: {k: "{{ iter.n }}"}'))}}}
            - u: {{kind: python, code: f, args: {{n: "{{{{ iter.n }}}}"}}}}
    """
    end = play(text, tools={"f": lambda n: calls.append(n)})
    done = end.of("loop.done")[0]
    assert (done.total, done.ok, done.failed) == (200, 1, 199)
    assert {failure["error"]["kind"] for failure in end.state.steps["start"].failures} == {"ctx_conflict"}
    assert calls == [end.state.ctx["k"]]


@pytest.mark.parametrize(
    ("reducer", "found"),
    [("$add", 6), ("$append", [1, 2, 3]), ("$max", 3), ("$min", 1), ("$merge", {"k1": 1, "k2": 2, "k3": 3})],
)
def test_s20_reducers_are_exact_in_parallel(reducer: str, found: Any) -> None:
    value = "\"{{ {('k' ~ iter.n): iter.n} }}\"" if reducer == "$merge" else '"{{ iter.n }}"'
    end = play(loop_of("parallel", f"do: continue, set_ctx: {{k: {{{reducer}: {value}}}}}"))
    assert (sorted(end.state.ctx["k"]) if reducer == "$append" else end.state.ctx["k"]) == found


def test_s20_a_reducer_that_does_not_fit_fails_the_task() -> None:
    end = play(loop_of("sequential", "do: continue, set_ctx: {k: {$add: 1}}"), ctx={"k": "text"})
    assert end.state.error["kind"] == "ctx_conflict"
    assert end.state.error["task"] == "t"


# -- S21 to S24: iterations ------------------------------------------------------------------------------------------


def test_s21_a_plain_step_has_one_implicit_iteration() -> None:
    end = play(
        f"- step: start\n  tool:\n    - t: {{kind: noop, {rules(otherwise('do: continue, set_iter: {page: 3}'))}}}\n    - u: {{kind: noop, result: ['{{{{ iter.page }}}}', '{{{{ iter.index }}}}']}}"
    )
    assert end.state.result == [3, 0]


def test_s22_directives_act_on_the_innermost_pipeline_and_failure_is_the_tasks_error_outcome() -> None:
    end = play(
        f"""
        - step: start
          tool:
            - each:
                kind: iterator
                in: [1, 2, 3]
                iterator: n
                tool:
                  - a: {{kind: noop, result: "{{{{ iter.n }}}}", {rules(when("iter.n == 2", "do: break"), otherwise("do: continue"))}}}
                  - b: {{kind: noop, result: "{{{{ iter.n * 10 }}}}"}}
            - bad:
                kind: iterator
                in: [1, 0]
                iterator: n
                tool: {{kind: noop, result: "{{{{ 1 / iter.n }}}}"}}
                {rules(when("outcome.status == 'error'", "do: continue, set_ctx: {kind: '{{ outcome.error.kind }}'}"), otherwise("do: continue"))}
            - last: {{kind: noop, result: ["{{{{ tasks.each.result }}}}", "{{{{ _prev }}}}"]}}
        """
    )
    assert end.state.result == [[10, 2, 30], None]
    assert end.state.ctx == {"kind": "template"}


def test_s22_a_parallel_iterator_bounds_what_flies_and_isolates_its_items() -> None:
    flying = most = 0
    together = asyncio.Barrier(2)

    async def f() -> None:
        nonlocal flying, most
        flying += 1
        most = max(most, flying)
        await together.wait()
        flying -= 1

    end = play(
        f"""
        - step: start
          tool:
            - each:
                kind: iterator
                in: "{{{{ range(20) }}}}"
                iterator: n
                spec: {{mode: parallel, max_in_flight: 4}}
                tool:
                  - a: {{kind: python, code: f, {rules(otherwise('do: continue, set_iter: {mine: "{{ iter.n }}"}, set_ctx: {sum: {$add: 1}}'))}}}
                  - b: {{kind: noop, result: ["{{{{ iter.mine }}}}", "{{{{ ctx.sum }}}}"]}}
            - after: {{kind: noop, result: ["{{{{ tasks.each.result }}}}", "{{{{ ctx.sum }}}}"]}}
        """,
        tools={"f": f},
    )
    assert end.state.result == [[[n, 1] for n in range(20)], 20]
    assert 1 < most <= 4


def test_s22_s20_parallel_iterator_items_may_not_write_different_values() -> None:
    each = f"""
        - step: start
          tool:
            - each:
                kind: iterator
                in: [1, 2]
                iterator: n
                spec: {{mode: parallel}}
                tool: [{{t: {{kind: noop, {rules(otherwise('do: continue, set_ctx: {k: "{{ iter.n }}"}'))}}}}}]
    """
    assert play(each).state.error["kind"] == "ctx_conflict"


def test_s22_an_iterator_has_a_time_limit_and_cannot_wait() -> None:
    async def forever() -> None:
        await asyncio.sleep(30)

    slow = "- {step: start, tool: [{each: {kind: iterator, in: [1, 2], iterator: n, spec: {mode: parallel, timeout: 0.05}, tool: [{t: {kind: python, code: f}}]}}]}"
    assert play(slow, tools={"f": forever}).state.error["kind"] == "timeout"
    waits = (
        "- {step: start, tool: [{each: {kind: iterator, in: [1], iterator: n, tool: [{t: {kind: wait, signal: s}}]}}]}"
    )
    assert play(waits).state.error["kind"] == "input"


def test_s22_an_iterator_that_is_tried_again_runs_all_items_again() -> None:
    policy = rules(when("outcome.status == 'error'", "do: retry, attempts: 2, delay: 0"), otherwise("do: continue"))
    tool = Sequence(1, broken(), 3, 4)
    end = play(
        f"- {{step: start, tool: [{{each: {{kind: iterator, in: [1, 2], iterator: n, {policy}, tool: [{{t: {{kind: python, code: f}}}}]}}}}]}}",
        tools={"f": tool},
    )
    assert end.state.result == [3, 4]


def test_s23_arcs_of_a_loop_are_checked_once() -> None:
    end = play(
        "- {step: start, loop: {in: [1, 2, 3], iterator: n}, tool: {kind: noop}, next: {arcs: [{step: a}]}}\n- {step: a, tool: {kind: noop}}"
    )
    assert len([event for event in end.of("next.evaluated") if event.run == "start#1"]) == 1
    assert end.runs() == ["start#1", "a#1"]


def test_s23_fail_fast_revokes_the_other_lanes() -> None:
    inside = asyncio.Barrier(3)
    stopped: list[int] = []

    async def f(n: int) -> Any:
        await inside.wait()
        if n == 1:
            return broken()
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            stopped.append(n)
            raise

    end = play(
        "- {step: start, loop: {in: [1, 2, 3], iterator: n, spec: {mode: parallel}}, tool: {kind: python, code: f, args: {n: '{{ iter.n }}'}}}",
        tools={"f": f},
    )
    assert end.state.status == "failed"
    assert sorted(stopped) == [2, 3]


def test_s23_parallel_is_ten_at_a_time_by_default() -> None:
    flying = most = 0
    together = asyncio.Barrier(10)

    async def f() -> None:
        nonlocal flying, most
        flying += 1
        most = max(most, flying)
        await together.wait()
        await asyncio.sleep(0.02)
        flying -= 1

    play(
        "- {step: start, loop: {in: '{{ range(30) }}', iterator: n, spec: {mode: parallel}}, tool: {kind: python, code: f}}",
        tools={"f": f},
    )
    assert most == 10


def test_s24_a_step_entered_again_has_retries_and_write_once_of_its_own() -> None:
    end = play(f"""
        - step: start
          loop: {{in: [1, 2], iterator: n, spec: {{mode: parallel}}}}
          tool: [{{t: {{kind: noop, {rules(otherwise('do: continue, set_ctx: {k: "{{ ctx.runs | default(0) }}"}'))}}}}}]
          next: {{arcs: [{{step: count}}]}}
        - step: count
          tool: [{{t: {{kind: noop, {rules(otherwise("do: continue, set_ctx: {runs: {$add: 1}}"))}}}}}]
          next: {{arcs: [{{step: start, when: "{{{{ ctx.runs < 3 }}}}"}}]}}
    """)
    assert end.state.status == "succeeded"
    assert end.runs() == ["start#1", "count#1", "start#2", "count#2", "start#3", "count#3"]
    assert end.state.ctx == {"k": 2, "runs": 3}


# -- S26, S27: requests and children ---------------------------------------------------------------------------------


def test_s26_request_ctx_is_the_first_patch_and_lists_replace() -> None:
    end = play(
        "- {step: start, tool: {kind: noop, result: ['{{ workload.l }}', '{{ ctx.c }}']}}",
        head="workload: {l: [1, 2, 3]}\n",
        payload={"l": [9]},
        ctx={"c": 4},
    )
    assert end.state.result == [[9], 4]
    assert end.of("ctx.patched")[0].patch == (("c", "=", 4),)


def test_s26_a_workload_that_raises_fails_before_anything_runs() -> None:
    end = play("- {step: start, tool: {kind: noop}}", head='workload: {a: "{{ 1 / 0 }}"}\n')
    assert end.state.status == "failed"
    assert end.state.error["kind"] == "template"
    assert end.names == ["playbook.execution.requested", "playbook.request.evaluated", "playbook.processed"]


def test_templates_know_the_time_everywhere() -> None:
    end = play(
        "- {step: start, tool: {kind: noop, result: '{{ now() }}'}, next: {arcs: [{step: a, args: {t: '{{ now() }}'}}]}}\n- {step: a, tool: {kind: noop, result: ['{{ args.t }}', '{{ workload.t }}', '{{ steps.start.result }}']}}",
        head='workload: {t: "{{ now() }}"}\n',
    )
    assert end.state.result == ["2023-11-14T22:13:20Z"] * 3


CHILD = text_of("- {step: only, tool: {kind: noop, result: '{{ workload.n * 2 }}'}}")
CALL = "- {step: start, tool: [{call: {kind: playbook, path: child, args: {n: 21}}}]}"


def child_of(end: Stage) -> str:
    key: str = next(event.key for event in end.of("step.paused") if event.until == "child")
    return key


def test_s27_a_child_gives_its_result_and_its_id_is_derived() -> None:
    first, second = (play(CALL, children={"child": CHILD}) for _ in range(2))
    assert first.state.result == 42
    assert child_of(first) == child_of(second)
    requested = codec.decode(*first.store.read(child_of(first))[0][1:4:2])
    assert requested.parent[0] == EXECUTION  # type: ignore[attr-defined]


def test_s27_a_childs_failure_is_an_outcome_and_a_missing_one_too() -> None:
    bad = text_of("- {step: only, tool: {kind: noop, result: '{{ 1 / 0 }}'}}")
    end = play(CALL, children={"child": bad})
    assert end.state.error["kind"] == "child_failed"
    assert end.state.error["task"] == "call"
    assert play(CALL).state.error["kind"] == "not_found"


def test_s27_each_attempt_is_a_child_of_its_own() -> None:
    flaky = text_of("- {step: only, tool: {kind: python, code: f}}")
    policy = rules(when("outcome.status == 'error'", "do: retry, attempts: 2, delay: 0"), otherwise("do: continue"))
    end = play(
        f"- {{step: start, tool: [{{call: {{kind: playbook, path: child, {policy}}}}}]}}",
        children={"child": flaky},
        tools={"f": Sequence(broken(), 7)},
    )
    assert end.state.result == 7
    assert len({event.key for event in end.of("step.paused") if event.until == "child"}) == 2


def test_s27_depth_is_limited() -> None:
    end = play(CALL, children={"child": text_of(CALL)})
    assert end.state.status == "failed"
    assert "20 levels" in end.state.error["message"]


WAITING_CHILD = text_of("- {step: only, tool: {kind: wait, signal: go}}")


async def _until_child_waits(stage: Stage) -> tuple[asyncio.Task[Execution], str]:
    driving = asyncio.create_task(stage.drive())

    def children() -> list[str]:
        cells = stage.engine.runtime.executions
        return [
            name
            for name, cell in cells.items()
            if name != EXECUTION and any(run.parked for run in cell.state.runs.values())
        ]

    await stage.until(lambda: bool(children()))
    return driving, children()[0]


def status_of(stage: Stage, execution: str) -> str:
    return stage.store.runs[execution].status


def test_s27_cancel_travels_to_the_child() -> None:
    async def during(stage: Stage) -> None:
        driving, child = await _until_child_waits(stage)
        await stage.handle(Cancel("enough"))
        await driving
        assert status_of(stage, child) == "cancelled"

    assert play(CALL, children={"child": WAITING_CHILD}, during=during).state.status == "cancelled"


def test_s27_pause_and_resume_travel_to_the_child() -> None:
    async def during(stage: Stage) -> None:
        driving, child = await _until_child_waits(stage)
        await stage.handle(Pause())
        assert (await driving).status == "paused"
        assert status_of(stage, child) == "paused"
        await stage.handle(Resume())
        await stage.handle(Signal("go", "1", 5), execution=child)
        await stage.drive()

    assert play(CALL, children={"child": WAITING_CHILD}, during=during).state.result == 5


def test_s27_s30_a_child_that_takes_too_long_is_given_up_and_cancelled() -> None:
    async def during(stage: Stage) -> None:
        driving, child = await _until_child_waits(stage)
        await driving
        assert status_of(stage, child) == "cancelled"

    text = """
        - step: start
          tool: [{call: {kind: playbook, path: child, args: {n: 1}, spec: {timeout: 60}}}]
          next: {arcs: [{step: after, when: "{{ event.name == 'step.failed' }}"}]}
        - {step: after, tool: [{nap: {kind: wait, signal: never, spec: {timeout: 600, policy: {rules: [{else: {then: {do: continue}}}]}}}}]}
    """
    end = play(text, children={"child": WAITING_CHILD}, during=during)
    assert end.state.steps["start"].error["kind"] == "timeout"
    assert end.state.status == "succeeded"


def test_s27_large_args_reach_the_child() -> None:
    child = text_of("- {step: only, tool: {kind: noop, result: '{{ workload.data.rows | length }}'}}")
    many = text_of("- {step: only, tool: {kind: noop, result: '{{ workload.k7 }}'}}")
    text = """
        - {step: start, tool: {kind: python, code: big}, next: {arcs: [{step: call}]}}
        - {step: call, tool: [{call: {kind: playbook, path: child, args: {data: "{{ steps.start.result }}"}}}]}
    """
    assert play(text, children={"child": child}, tools={"big": lambda: BIG}).state.result == 2000
    keys = ", ".join(f"k{i}: {'x' * 1500}" for i in range(70))
    call = f"- {{step: start, tool: [{{call: {{kind: playbook, path: child, args: {{{keys}}}}}}}]}}"
    assert play(call, children={"child": many}).state.result == "x" * 1500


# -- S28, S29: actions and losses ------------------------------------------------------------------------------------


def test_s28_an_action_is_the_same_over_attempts_and_another_for_every_visit() -> None:
    tool = Sequence(broken(), 1, 2)
    end = play(
        f"""
        - step: start
          tool:
            - t: {{kind: python, code: f, {rules(when("outcome.status == 'error'", "do: retry, delay: 0"), when("outcome.result == 1", "do: jump, to: t"), otherwise("do: continue"))}}}
        """,
        tools={"f": tool},
    )
    actions = [context.action for context in end.registry.contexts]
    assert actions[0] == actions[1] != actions[2]
    assert actions[0] == action_id(EXECUTION, TaskId("start#1", "t#1"))


LOSSY = """
    - step: start
      tool:
        - one: {kind: python, code: one}
        - two: {kind: python, code: two}
        - three: {kind: noop, result: "{{ tasks.one.result + _prev }}"}
"""


async def _lose_during(stage: Stage, inside: asyncio.Event) -> None:
    driving = asyncio.create_task(stage.drive())
    await asyncio.wait_for(inside.wait(), PATIENCE_SECONDS)
    driving.cancel()
    await asyncio.gather(driving, return_exceptions=True)
    await stage.crash()
    await stage.drive()


def test_s29_a_lost_run_resumes_after_the_last_accepted_task_with_the_same_action() -> None:
    inside = asyncio.Event()
    calls: list[str] = []

    def one() -> int:
        calls.append("one")
        return 1

    async def two() -> int:
        calls.append("two")
        if calls.count("two") == 1:
            inside.set()
            await asyncio.sleep(30)
        return 2

    end = play(LOSSY, tools={"one": one, "two": two}, during=lambda stage: _lose_during(stage, inside))
    assert end.state.result == 3
    assert calls == ["one", "two", "two"]
    assert end.names.count("step.regranted") == 1
    contexts = [context for context in end.registry.contexts if context.task == "two"]
    assert contexts[0].action == contexts[1].action
    assert contexts[0].attempt == contexts[1].attempt == 1


def test_s29_on_lost_error_gives_the_policy_an_outcome_instead() -> None:
    inside = asyncio.Event()
    calls: list[int] = []

    async def pay() -> None:
        calls.append(1)
        inside.set()
        await asyncio.sleep(30)

    policy = (
        rules(when("outcome.error.kind == 'lost'", "do: continue, set_ctx: {lost: true}"), otherwise("do: continue"))[
            :-1
        ]
        + ", on_lost: error}"
    )
    end = play(
        f"- step: start\n  tool:\n    - pay: {{kind: python, code: pay, {policy}}}",
        tools={"pay": pay},
        during=lambda stage: _lose_during(stage, inside),
    )
    assert end.state.status == "succeeded"
    assert end.state.ctx == {"lost": True}
    assert calls == [1]


def test_s29_a_loop_resumes_with_the_items_that_were_not_accepted() -> None:
    inside = asyncio.Event()
    calls: list[int] = []

    async def f(n: int) -> int:
        calls.append(n)
        if len(calls) == 5:
            inside.set()
            await asyncio.sleep(30)
        return n * 10

    end = play(
        "- {step: start, loop: {in: '{{ range(12) }}', iterator: n}, tool: {kind: python, code: f, args: {n: '{{ iter.n }}'}}}",
        tools={"f": f},
        during=lambda stage: _lose_during(stage, inside),
    )
    assert end.state.result == [n * 10 for n in range(12)]


def test_one_crash_with_many_lanes_is_one_loss_each_and_no_poison() -> None:
    inside = asyncio.Event()
    running = 0
    crashed = False

    async def f(n: int) -> int:
        nonlocal running
        running += 1
        if running >= 10 and not crashed:
            inside.set()
        if not crashed:
            await asyncio.sleep(30)
        return n

    async def during(stage: Stage) -> None:
        nonlocal crashed
        driving = asyncio.create_task(stage.drive())
        await asyncio.wait_for(inside.wait(), PATIENCE_SECONDS)
        driving.cancel()
        await asyncio.gather(driving, return_exceptions=True)
        crashed = True
        await stage.crash()
        await stage.drive()

    end = play(
        "- {step: start, loop: {in: '{{ range(20) }}', iterator: n, spec: {mode: parallel}}, tool: {kind: python, code: f, args: {n: '{{ iter.n }}'}}}",
        tools={"f": f},
        during=during,
    )
    assert end.state.status == "succeeded"
    assert end.state.result == list(range(20))


@pytest.mark.parametrize("loop", ["", "loop: {in: [1, 2, 3], iterator: n, spec: {mode: parallel}}, "])
def test_five_losses_without_progress_are_poison(loop: str) -> None:
    async def during(stage: Stage) -> None:
        for _ in range(5):
            stage.state = None  # type: ignore[assignment]
            driving = asyncio.create_task(stage.drive())
            await stage.until(lambda: bool(stage.engine.worker.tasks))
            await asyncio.sleep(0.01)
            driving.cancel()
            await asyncio.gather(driving, return_exceptions=True)
            await stage.crash()
        await stage.drive()

    async def f() -> None:
        await asyncio.sleep(30)

    end = play(f"- {{step: start, {loop}tool: {{kind: python, code: f}}}}", tools={"f": f}, during=during)
    assert end.state.status == "failed"
    assert end.state.error["kind"] == "poison"


# -- S30: time limits ------------------------------------------------------------------------------------------------


async def _forever() -> None:
    await asyncio.sleep(30)


def test_s30_a_task_has_its_time() -> None:
    policy = (
        rules(when("outcome.error.kind == 'timeout'", "do: continue, set_ctx: {late: 1}"), otherwise("do: continue"))[
            :-1
        ]
        + ", timeout: 0.05}"
    )
    end = play(f"- step: start\n  tool:\n    - t: {{kind: python, code: f, {policy}}}", tools={"f": _forever})
    assert end.state.ctx == {"late": 1}


def test_s30_a_step_has_its_time_from_its_first_start_and_an_arc_may_take_it_up() -> None:
    end = play(
        """
        - {step: start, spec: {timeout: 90}, tool: {kind: python, code: f}, next: {arcs: [{step: late, when: "{{ event.data.error.kind == 'timeout' }}"}]}}
        - {step: late, tool: {kind: noop, result: late}}
        """,
        tools={"f": _forever},
    )
    assert end.state.result == "late"
    assert end.clock.time == 1_700_000_090.0


@pytest.mark.parametrize("on_failure", ["stop", "finish"])
def test_s30_an_execution_has_its_time_whatever_a_failure_does(on_failure: str) -> None:
    end = play(
        "- {step: start, tool: {kind: python, code: f}}\n- {step: bye, tool: {kind: noop, result: bye}}",
        head=f"executor: {{spec: {{timeout: 100, on_failure: {on_failure}, final_step: bye}}}}\n",
        tools={"f": _forever},
    )
    assert end.state.status == "failed"
    assert end.state.error["kind"] == "timeout"
    assert end.state.steps["start"].status == "cancelled"
    assert end.state.steps["bye"].result == "bye"


# -- S32: pause and cancel -------------------------------------------------------------------------------------------


def test_s32_pause_lets_running_tasks_finish_and_begins_nothing_new() -> None:
    inside, go = asyncio.Event(), asyncio.Event()
    calls: list[str] = []

    async def one() -> int:
        calls.append("one")
        inside.set()
        await go.wait()
        return 1

    def two() -> int:
        calls.append("two")
        return 2

    async def during(stage: Stage) -> None:
        driving = asyncio.create_task(stage.drive())
        await inside.wait()
        await stage.handle(Pause())
        go.set()
        assert (await driving).status == "paused"
        assert calls == ["one"]
        assert stage.names[-1] == "step.paused"
        assert [event.outcome.result for event in stage.of("task.done")] == [1]
        await stage.handle(Resume())
        await stage.drive()

    end = play(LOSSY, tools={"one": one, "two": two}, during=during)
    assert end.state.result == 3
    assert calls == ["one", "two"]


def test_s32_no_new_iteration_while_paused() -> None:
    go = asyncio.Event()
    calls: list[int] = []
    paused = False

    async def f(n: int) -> int:
        calls.append(n)
        if n == 10:
            await go.wait()
        return n

    async def during(stage: Stage) -> None:
        nonlocal paused
        driving = asyncio.create_task(stage.drive())
        await stage.until(lambda: 10 in calls)
        await stage.handle(Pause())
        go.set()
        assert (await driving).status == "paused"
        assert calls[-1] == 10
        await stage.handle(Resume())
        await stage.drive()

    end = play(
        "- {step: start, loop: {in: '{{ range(30) }}', iterator: n}, tool: {kind: python, code: f, args: {n: '{{ iter.n }}'}}}",
        tools={"f": f},
        during=during,
    )
    assert end.state.result == list(range(30))
    assert calls == list(range(30))


def test_s32_signals_and_timers_wait_for_the_resume() -> None:
    async def during(stage: Stage) -> None:
        driving = asyncio.create_task(stage.drive())
        await stage.until(lambda: any(run.parked for run in stage.live().runs.values()))
        await stage.handle(Pause(), Signal("go", "1", 5))
        assert (await driving).status == "paused"
        assert stage.of("step.resumed") == []
        await stage.handle(Resume())
        await stage.drive()

    assert play("- {step: start, tool: {kind: wait, signal: go}}", during=during).state.result == 5


def test_s32_no_retry_while_paused() -> None:
    inside, paused = asyncio.Event(), asyncio.Event()

    async def f() -> Any:
        inside.set()
        await paused.wait()
        return tool()

    tool = Sequence(broken(), 5)
    policy = rules(when("outcome.status == 'error'", "do: retry, delay: 2"), otherwise("do: continue"))

    async def during(stage: Stage) -> None:
        driving = asyncio.create_task(stage.drive())
        await inside.wait()
        await stage.handle(Pause())
        paused.set()
        assert (await driving).status == "paused"
        assert tool.calls == 1
        await stage.handle(Resume())
        await stage.drive()

    end = play(f"- step: start\n  tool:\n    - t: {{kind: python, code: f, {policy}}}", tools={"f": f}, during=during)
    assert end.state.result == 5


def test_s32_cancel_works_while_paused_and_twice() -> None:
    end = play("- {step: start, tool: {kind: noop}}", Pause(), Pause(), Cancel("a"), Cancel("b"))
    assert end.state.status == "cancelled"
    assert end.names.count("playbook.cancelled") == end.names.count("playbook.paused") == 1


def test_s32_cancelled_stays_cancelled_after_an_earlier_failure() -> None:
    async def during(stage: Stage) -> None:
        driving = asyncio.create_task(stage.drive())
        await stage.until(lambda: stage.live().failure is not None)
        await stage.handle(Cancel("enough"))
        await driving

    end = play(
        BRANCHES,
        head="executor: {spec: {on_failure: finish}}\n",
        tools={"fail": broken, "slow": _forever},
        during=during,
    )
    assert end.state.status == "cancelled"


# -- S33: signals ----------------------------------------------------------------------------------------------------


def test_s33_signals_are_consumed_once_oldest_first() -> None:
    end = play(
        "- {step: start, loop: {in: [1, 2, 3], iterator: n}, tool: {kind: wait, signal: go}}",
        Signal("go", "a", 1),
        Signal("other", "x", 9),
        Signal("go", "b", 2),
        Signal("go", "a", 7),
        Signal("go", "c", 3),
    )
    assert end.state.result == [1, 2, 3]
    assert [event.id for event in end.of("message.received")] == ["a", "x", "b", "c"]


def test_s33_a_wait_that_nobody_answers_is_an_outcome_of_kind_timeout() -> None:
    policy = (
        rules(when("outcome.error.kind == 'timeout'", "do: continue, set_ctx: {late: 1}"), otherwise("do: fail"))[:-1]
        + ", timeout: 3600}"
    )
    end = play(f"- step: start\n  tool:\n    - w: {{kind: wait, signal: go, {policy}}}")
    assert end.state.ctx == {"late": 1}
    assert end.clock.time == 1_700_003_600.0


def test_s33_late_commands_change_nothing() -> None:
    async def during(stage: Stage) -> None:
        await stage.drive()
        before = len(stage.events)
        await stage.handle(Signal("go", "1"), Cancel("late"), Pause(), Resume(), Lost(1))
        assert len(stage.events) == before

    assert play("- {step: start, tool: {kind: noop}}", during=during).state.status == "succeeded"


# -- sizes -----------------------------------------------------------------------------------------------------------


def test_rules_guards_loops_and_inputs_look_into_large_results() -> None:
    end = play(
        f"""
        - step: start
          tool:
            - t: {{kind: python, code: f, {rules(when("outcome.result.more", 'do: continue, set_ctx: {n: "{{ outcome.result.rows | length }}"}'), otherwise("do: fail"))}}}
          next: {{arcs: [{{step: each, when: "{{{{ start.rows[0].i == 0 and event.data.result.more }}}}", args: {{all: "{{{{ steps.start.result }}}}"}}}}]}}
        - {{step: each, loop: {{in: "{{{{ args.all.rows }}}}", iterator: row, spec: {{mode: parallel}}}}, tool: {{kind: noop, result: "{{{{ iter.row.i }}}}"}}, next: {{arcs: [{{step: last}}]}}}}
        - {{step: last, tool: {{kind: noop, result: ["{{{{ ctx.n }}}}", "{{{{ steps.each.result | sum }}}}", "{{{{ steps.start.result.rows[7].i }}}}"]}}}}
        """,
        tools={"f": lambda: BIG},
    )
    assert end.state.result == [2000, sum(range(2000)), 7]
    assert isinstance(end.of("task.done")[0].outcome.result, Reference)


def test_a_guard_may_not_look_into_more_than_the_server_loads() -> None:
    end = play(
        "- {step: start, tool: {kind: python, code: f}, next: {arcs: [{step: a, when: '{{ steps.start.result[0] == 1 }}'}]}}\n- {step: a, tool: {kind: noop}}",
        tools={"f": lambda: ["x" * 1000] * 9000},
    )
    assert end.state.status == "failed"
    assert end.state.error["place"] == "next/0"
    assert "limit" in end.state.error["message"]


def test_references_inside_large_values_stay_references() -> None:
    end = play(
        """
        - {step: start, loop: {in: "{{ range(300) }}", iterator: n, spec: {mode: parallel}}, tool: {kind: python, code: f, args: {n: "{{ iter.n }}"}}, next: {arcs: [{step: last}]}}
        - {step: last, tool: {kind: noop, result: "{{ steps.start.result[299].n }}"}}
        """,
        tools={"f": lambda n: {"n": n, "text": "x" * 70_000, "$ref": "like a JSON schema"}},
    )
    assert end.state.result == 299


@pytest.mark.parametrize(
    "value",
    [
        pytest.param({f"key{i:05}": i for i in range(4100)}, id="many small keys"),
        pytest.param("\x01" * 20_000, id="control characters"),
        pytest.param("\U0001f600" * 16_000, id="emoji"),
        pytest.param([1.2345678901234567e-100] * 2500, id="floats"),
        pytest.param([2**60] * 3200, id="ints"),
        pytest.param("x" * 62_000, id="between the limits"),
        pytest.param([[[]] * 3] * 9000, id="brackets"),
        pytest.param({"deep": {"deeper": {"text": "x" * 64_000}}}, id="deep"),
    ],
)
def test_every_event_stays_small_whatever_a_tool_returns(value: Any) -> None:
    text = f"""
        - step: start
          tool:
            - t: {{kind: python, code: f, {rules(otherwise('do: continue, set_ctx: {v: "{{ outcome.result }}"}, set_iter: {v: "{{ outcome.result }}"}'))}}}
          next: {{arcs: [{{step: a, args: {{v: "{{{{ steps.start.result }}}}", w: "{{{{ ctx.v }}}}"}}}}]}}
        - {{step: a, tool: {{kind: noop, result: "{{{{ args.v == ctx.v }}}}"}}}}
    """
    assert play(text, tools={"f": lambda: value}).state.result is True


def test_fifty_megabytes_are_one_reference() -> None:
    end = play(
        "- {step: start, tool: {kind: python, code: f}, next: {arcs: [{step: a, args: {v: '{{ steps.start.result }}'}}]}}\n- {step: a, tool: {kind: noop, result: '{{ args.v | length }}'}}",
        tools={"f": lambda: "x" * 50_000_000},
    )
    assert end.state.result == 50_000_000
    assert end.state.steps["start"].result.size == 50_000_002


def test_large_payloads_errors_args_and_signals_fit_into_events() -> None:
    huge = "x" * 300_000
    end = play(
        f"""
        - step: start
          tool:
            - w: {{kind: wait, signal: go}}
            - t: {{kind: python, code: f, {rules(otherwise("do: continue"))}}}
            - n: {{kind: noop, result: ["{{{{ workload.huge | length }}}}", "{{{{ tasks.w.result | length }}}}", "{{{{ ctx.c | length }}}}", "{{{{ tasks.t.error.message | length > 1000 }}}}"]}}
        """,
        Signal("go", "1", huge),
        payload={"huge": huge},
        ctx={"c": huge},
        tools={
            "f": lambda: Outcome("error", error=Error("shaky", huge, details={f"k{i}": "x" * 100 for i in range(3000)}))
        },
    )
    assert end.state.result == [300_000, 300_000, 300_000, True]


def test_an_error_that_is_too_large_is_cut_and_still_fails_the_step() -> None:
    end = play(
        "- {step: start, tool: {kind: python, code: f}}",
        tools={"f": lambda: failed("shaky", "y" * 300_000, big="x" * 300_000)},
    )
    assert end.state.status == "failed"
    assert len(end.state.error["message"]) < 3000


def test_what_cannot_fit_is_a_clear_failure() -> None:
    many = {f"key{i}": "x" * 20 for i in range(5000)}
    end = play("- {step: start, tool: {kind: noop}}", payload=many)
    assert end.state.status == "failed"
    assert end.state.error["kind"] == "too_large"
    keys = ", ".join(f"k{i}: {'x' * 80}" for i in range(900))
    args = play(
        f"- {{step: start, next: {{arcs: [{{step: a, args: {{{keys}}}}}]}}}}\n- {{step: a, tool: {{kind: noop}}}}"
    )
    assert args.state.error["kind"] == "too_large"
    patch = play(
        f"- step: start\n  tool:\n    - t: {{kind: noop, {rules(otherwise(f'do: continue, set_ctx: {{{keys}}}'))}}}"
    )
    assert patch.state.error["kind"] == "too_large"


@pytest.mark.parametrize(
    "value",
    [[b"x"], {1}, float("nan"), 2**100, {1: 2}, object(), "\ud800", [float("inf")]],
    ids=lambda value: type(value).__name__,
)
def test_a_result_that_cannot_be_stored_is_an_error_outcome(value: Any) -> None:
    end = play("- {step: start, tool: [{t: {kind: python, code: f}}]}", tools={"f": lambda: value})
    assert end.state.status == "failed"
    assert end.state.error["kind"] == "input"
    assert end.state.error["task"] == "t"


def test_a_tool_that_raises_is_an_error_outcome() -> None:
    def f() -> None:
        raise LookupError("nobody there")

    end = play("- {step: start, tool: [{t: {kind: python, code: f}}]}", tools={"f": f})
    assert end.state.error["kind"] == "internal"
    assert "nobody there" in end.state.error["message"]


@pytest.mark.parametrize("place", ["result: '{{ X }}'", "args: {a: '{{ X }}'}"])
@pytest.mark.parametrize("x", ["1 / 0", "2 ** 100", "{1: 2}", "workload.nope"])
def test_a_bad_template_in_a_task_names_step_and_task(place: str, x: str) -> None:
    end = play("- {step: start, tool: [{t: {kind: noop, " + place.replace("X", x) + "}}]}", payload={"a": 1})
    assert (end.state.error["kind"], end.state.error["step"], end.state.error["task"]) == ("template", "start", "t")
    assert x in end.state.error["message"]


@pytest.mark.parametrize(
    "rule",
    [
        when("1 / 0 > 1", "do: continue"),
        when("1 / 0 > 1", "do: skip"),
        otherwise('do: continue, set_ctx: {a: "{{ 1 / 0 }}"}'),
        otherwise('do: continue, set_iter: {a: "{{ {1: 2} }}"}'),
        otherwise('do: fail, set_ctx: {a: "{{ 1 / 0 }}"}'),
        when("true", 'do: retry, delay: "{{ 1 / 0 }}"'),
        when("true", "do: jump, to: t, delay: \"{{ 'soon' }}\""),
    ],
)
def test_a_bad_template_in_a_rule_names_step_and_task(rule: str) -> None:
    end = play(f"- {{step: start, tool: [{{t: {{kind: noop, {rules(rule)}}}}}]}}")
    assert end.state.status == "failed"
    assert (end.state.error["kind"], end.state.error["step"], end.state.error["task"]) == ("template", "start", "t")


@pytest.mark.parametrize(
    ("text", "place"),
    [
        (
            "- {step: start, next: {arcs: [{step: a, when: '{{ true }}', args: {x: '{{ 1 / 0 }}'}}]}}\n- {step: a, tool: {kind: noop}}",
            "next/0",
        ),
        (
            "- {step: start, next: {arcs: [{step: a, when: '{{ false }}'}, {step: a, args: {x: '{{ {1: 2} }}'}}]}}\n- {step: a, tool: {kind: noop}}",
            "next/1",
        ),
    ],
)
def test_a_bad_template_in_an_arc_names_step_and_arc(text: str, place: str) -> None:
    end = play(text)
    assert (end.state.error["kind"], end.state.error["step"], end.state.error["place"]) == ("template", "start", place)


def test_a_bad_template_in_a_loop_names_the_step() -> None:
    end = play("- {step: start, loop: {in: '{{ 1 / 0 }}', iterator: n}, tool: {kind: noop}}")
    assert (end.state.error["kind"], end.state.error["step"]) == ("template", "start")
    assert "loop.in" in end.state.error["message"]


@pytest.mark.damaged_log("its stored content is removed")
def test_stored_content_that_is_gone_is_a_template_error_and_no_crash() -> None:
    async def during(stage: Stage) -> None:
        driving = asyncio.create_task(stage.drive())
        await stage.until(lambda: any(run.parked for run in stage.live().runs.values()))
        stage.store.blobs.clear()
        await stage.handle(Signal("go", "1"))
        await driving

    for look in ("{kind: noop, result: '{{ steps.start.result.more }}'}", "{kind: noop}"):
        end = play(
            f"""
            - {{step: start, tool: {{kind: python, code: f}}, next: {{arcs: [{{step: a}}]}}}}
            - {{step: a, tool: [{{w: {{kind: wait, signal: go}}}}, {{t: {look}}}], next: {{arcs: [{{step: b, when: "{{{{ steps.start.result.more }}}}"}}]}}}}
            - {{step: b, tool: {{kind: noop}}}}
            """,
            tools={"f": lambda: BIG},
            during=lambda stage: _without_check(stage, during),
        )
        assert end.state.status == "failed"
        assert end.state.error["kind"] == "template"
        assert "missing" in end.state.error["message"]


async def _without_check(stage: Stage, during: Any) -> None:
    await during(stage)
    stage.check = lambda execution=EXECUTION: None  # type: ignore[method-assign]


@pytest.mark.parametrize("durability", ["task", "step"])
def test_durability_of_a_step_reports_once(durability: str) -> None:
    stage = Stage(
        text_of(
            "- {step: start, tool: [{a: {kind: python, code: f}}, {b: {kind: noop, result: '{{ _prev.more }}'}}, {c: {kind: noop}}]}",
            f"executor: {{spec: {{durability: {durability}}}}}\n",
        ),
        {"f": lambda: BIG},
        {},
    )

    async def whole() -> None:
        await stage.engine.start(EXECUTION, stage.digest, {}, {})
        await stage.drive()
        stage.engine.runtime.thread.shutdown()

    asyncio.run(whole())
    stage.check()
    assert stage.state.result is True
    assert len(stage.store.cuts) == (3 if durability == "step" else 5)


# -- the fold --------------------------------------------------------------------------------------------------------

EVERYTHING = f"""
    - {{step: start, next: {{spec: {{mode: inclusive}}, arcs: [{{step: loop}}, {{step: page, spec: {{delay: 30}}}}]}}}}
    - {{step: loop, loop: {{in: [1, 2, 3], iterator: n}}, tool: [{{t: {{kind: noop, result: "{{{{ iter.n * 2 }}}}", {rules(otherwise('do: continue, set_ctx: {sum: {$add: "{{ iter.n }}"}}'))}}}}}, {{u: {{kind: noop}}}}], next: {{arcs: [{{step: j, args: {{l: "{{{{ event.data.total }}}}"}}}}]}}}}
    - {{step: page, tool: [{{t: {{kind: python, code: f, {rules(when("outcome.status == 'error'", "do: retry, attempts: 3, delay: 60"), otherwise("do: continue"))}}}}}], next: {{arcs: [{{step: j, args: {{p: 1}}}}]}}}}
    - {{step: j, spec: {{join: all}}, tool: [{{w: {{kind: wait, signal: go}}}}, {{r: {{kind: noop, result: "{{{{ [args, ctx.sum, _prev] }}}}"}}}}]}}
"""


def everything() -> Stage:
    return play(EVERYTHING, Signal("go", "1", "x"), tools={"f": Sequence(broken(), 5)})


def test_the_same_execution_and_clock_give_the_same_events_again() -> None:
    first, second = everything(), everything()
    assert first.state.result == [{"l": 3, "p": 1}, 6, "x"]
    rows = [
        [(row.type, row.data, row.at, row.hash) for row in stage.store.read(EXECUTION)] for stage in (first, second)
    ]
    assert rows[0] == rows[1]


def test_any_prefix_of_a_log_can_be_carried_on() -> None:
    whole = everything()
    rows = whole.store.read(EXECUTION)

    async def carried_on(stage: Stage) -> None:
        async with asyncio.timeout(PATIENCE_SECONDS):
            await stage.engine.adopt(EXECUTION)
            await stage.drive()
        stage.engine.runtime.thread.shutdown()

    for end in whole.store.cuts[2:-1]:  # the start, then the signal, then everything else
        store = Cuts()
        store.events[EXECUTION] = rows[:end]
        store.blobs.update(whole.store.blobs)
        stage = Stage(whole.text, {"f": Sequence(5)}, {}, store)
        stage.clock.time = rows[end - 1].at
        asyncio.run(carried_on(stage))
        assert stage.state.result == [{"l": 3, "p": 1}, 6, "x"], end
        stage.check()


def test_folding_a_prefix_and_then_the_rest_is_folding_all() -> None:
    whole = everything()
    rows = whole.store.read(EXECUTION)
    live = whole.live()
    for cut in range(0, len(rows), 7):
        state = Execution(live.id, live.net, live.digest)
        for row in rows[:cut]:
            evolve(state, codec.decode(row.type, row.data), row.at)
        for row in rows[cut:]:
            evolve(state, codec.decode(row.type, row.data), row.at)
        state.changed = state.deliverable = False
        assert state == live


# -- odds ------------------------------------------------------------------------------------------------------------


def test_texts_that_are_too_long_are_cut_and_signals_still_meet() -> None:
    name = "n" * 200_000
    end = play(
        f"- {{step: start, tool: {{kind: wait, signal: '{name[:3000]}'}}}}",
        Signal(name[:3000], "i" * 200_000, 5),
        Signal(name[:3000], "i" * 200_000, 6),
        Signal(name, "other", 7),
    )
    assert end.state.result == 5
    assert len(end.of("message.received")) == 2
    stopped = play("- {step: start, tool: {kind: wait, signal: go}}", Cancel("r" * 200_000))
    assert stopped.state.status == "cancelled"


def test_s26_a_template_of_the_workload_does_not_see_one_that_comes_later() -> None:
    head = 'workload: {a: "{{ workload.b }}", b: "{{ 1 + 1 }}", c: "{{ workload.b + 1 }}", d: {x: 1, y: "{{ workload.d.x }}"}}\n'
    end = play("- {step: start, tool: {kind: noop, result: '{{ workload }}'}}", head=head)
    assert end.state.error["kind"] == "template"
    stage = play("- {step: start, tool: {kind: noop, result: '{{ workload }}'}}", head=head, payload={"a": 0})
    assert stage.state.result == {"a": 0, "b": 2, "c": 3, "d": {"x": 1, "y": 1}}


def test_a_failure_is_not_lost_when_another_run_of_the_step_succeeds_during_a_pause() -> None:
    inside, go = asyncio.Event(), asyncio.Event()

    async def f(bad: bool) -> Any:
        inside.set()
        await go.wait()
        return broken() if bad else 1

    async def during(stage: Stage) -> None:
        driving = asyncio.create_task(stage.drive())
        await inside.wait()
        await stage.until(lambda: len(stage.registry.contexts) == 2)
        await stage.handle(Pause())
        go.set()
        assert (await driving).status == "paused"
        await stage.handle(Resume())
        await stage.drive()

    end = play(
        """
        - {step: start, next: {spec: {mode: inclusive}, arcs: [{step: a, args: {bad: true}}, {step: a, args: {bad: false}}]}}
        - {step: a, spec: {join: any}, tool: {kind: python, code: f, args: {bad: "{{ args.bad }}"}}}
        """,
        tools={"f": f},
        during=during,
    )
    assert end.state.status == "failed"
    assert end.state.error["kind"] == "shaky"


@pytest.mark.parametrize("name", ["message", "details", "type", "key", "reason", "error", "result"])
def test_data_is_never_cut_whatever_it_is_called(name: str) -> None:
    end = play(
        f"""
        - {{step: start, tool: [{{t: {{kind: noop, {rules(otherwise(f'do: continue, set_ctx: {{{name}: "{{{{ workload.{name} }}}}"}}'))}}}}}], next: {{arcs: [{{step: a, args: {{{name}: "{{{{ workload.{name} }}}}"}}}}]}}}}
        - {{step: a, tool: {{kind: noop, result: ["{{{{ args.{name} | length }}}}", "{{{{ ctx.{name} | length }}}}", "{{{{ workload.{name} | length }}}}"]}}}}
        """,
        payload={name: "x" * 100_000},
    )
    assert end.state.result == [100_000] * 3


def test_the_output_of_a_task_is_stored_before_its_outcome() -> None:
    sizes: list[int] = []
    early: list[int] = []

    class Recorder(Cuts):
        def append_output(self, lines: Any) -> None:
            sizes.append(len(lines))
            super().append_output(lines)

        def commit(self, changes: Any) -> list[bool]:
            done = super().commit(changes)
            outcomes = sum(row.type == "task.done" for row in self.read(EXECUTION))
            early.append(6 * outcomes - len(self.lines))
            return done

    def talk(context: Context) -> None:
        for number in range(6):
            context.log("stdout", str(number))

    workflow = """
        - step: start
          loop: {in: "{{ range(500) }}", iterator: n}
          tool: {kind: python, code: talk}
    """
    stage = Stage(text_of(workflow), {"talk": talk}, {}, Recorder())

    async def whole() -> None:
        await stage.engine.start(EXECUTION, stage.digest, {}, {})
        await stage.drive()
        await stage.engine.close()

    asyncio.run(whole())
    assert max(early) <= 0  # who sees the end of a task also sees its output
    assert max(sizes) < 1_000  # nor does output gather in memory while items follow each other
    assert [line[4] for line in stage.store.output(EXECUTION)] == [
        str(number) for _ in range(500) for number in range(6)
    ]


# -- R8, R9: outcomes stay in the log --------------------------------------------------------------------------------

ORDER = {"id": "order-77"}


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        (when("outcome.result.id > 1", "do: continue"), "rule 1 of task 'post': "),
        (otherwise('do: continue, set_ctx: {x: "{{ outcome.result.nothing }}"}'), "rule 1 of task 'post': "),
        (otherwise('do: retry, delay: "{{ outcome.result.nothing }}"'), "rule 1 of task 'post': "),
        (
            when("_attempt == 1", "do: jump, to: post, delay: '{{ outcome.result.id }}'"),
            "rule 1 of task 'post': `delay` must be",
        ),
        (otherwise('do: fail, set_ctx: {x: "{{ outcome.result.nothing }}"}'), "rule 1 of task 'post': "),
    ],
)
def test_r8_a_rule_that_cannot_be_evaluated_leaves_the_outcome_in_the_log(rule: str, text: str) -> None:
    stage = play(
        f"- {{step: a, tool: [{{post: {{kind: python, code: post, {rules(rule)}}}}}]}}", tools={"post": lambda: ORDER}
    )
    (done,) = stage.of("task.done")
    assert (done.outcome.ok, done.outcome.result, done.do) == (True, ORDER, "fail")
    assert done.error.kind == "template"
    assert done.error.message.startswith(text)
    assert (done.error.details["task"], done.error.details["rule"]) == ("a#1/post#1", 0)
    error = stage.state.error
    assert (error["kind"], error["task"], error["details"]["rule"]) == ("template", "post", 0)


def test_r8_a_patch_that_conflicts_leaves_the_outcome_in_the_log() -> None:
    rule = rules(otherwise('do: continue, set_ctx: {x: "{{ iter.n }}"}'))
    body = f"tool: [{{post: {{kind: python, code: post, {rule}}}}}]"
    loop = "loop: {in: [1, 2], iterator: n, spec: {mode: parallel}}"
    stage = play(f"- {{step: a, {loop}, {body}}}", tools={"post": lambda: ORDER})
    assert stage.state.error["kind"] == "ctx_conflict"
    assert [done.outcome.result for done in stage.of("task.done")] == [ORDER, ORDER]


def test_r8_the_error_of_a_call_stays_the_outcome_if_its_rule_fails_too() -> None:
    rule = when("outcome.error.message > 7", "do: continue")
    stage = play(
        f"- {{step: a, tool: [{{post: {{kind: python, code: post, {rules(rule)}}}}}]}}", tools={"post": broken}
    )
    (done,) = stage.of("task.done")
    assert (done.outcome.error.kind, done.error.kind) == ("shaky", "template")


def test_r9_a_skipped_task_has_an_outcome() -> None:
    skip = rules(when("_prev == 1", "do: skip"))
    steps = f"""
    - step: a
      tool:
        - one: {{kind: noop, result: 1}}
        - two: {{kind: python, code: never, {skip}}}
        - three: {{kind: noop, result: "{{{{ tasks.two }}}} {{{{ tasks.two.status }}}} {{{{ _prev }}}}"}}
    """
    stage = play(steps, tools={})
    assert stage.state.result == "{'status': 'skipped', 'result': None} skipped 1"


# -- R3: spec.retry --------------------------------------------------------------------------------------------------


def flaky(times: int, **more: Any) -> Sequence:
    """Fails so often with an error that is worth another try, then succeeds."""
    return Sequence(*[broken("connect", retryable=True, **more)] * times, "ok")


def tries(stage: Stage) -> list[tuple[int, str, str]]:
    return [(done.attempt, done.do, done.layer) for done in stage.of("task.done")]


@pytest.mark.parametrize("retry", ["3", "{attempts: 4, backoff: none, delay: 1s}"])
def test_r3_a_call_is_repeated_while_its_error_is_retryable(retry: str) -> None:
    stage = play(f"- {{step: a, tool: {{kind: python, code: f, spec: {{retry: {retry}}}}}}}", tools={"f": flaky(3)})
    assert stage.state.result == "ok"
    assert tries(stage) == [(1, "retry", "spec"), (2, "retry", "spec"), (3, "retry", "spec"), (4, "continue", "policy")]
    assert [event.attempt for event in stage.of("task.retry.scheduled")] == [2, 3, 4]


def test_r3_the_waits_double_and_a_server_may_ask_for_more() -> None:
    tool = Sequence(broken(retryable=True), broken(retryable=True), broken(retryable=True, retry_after=30), "ok")
    stage = play("- {step: a, tool: {kind: python, code: f, spec: {retry: 3}}}", tools={"f": tool})
    retries = [row for row in stage.store.read(EXECUTION) if row.type == "task.retry.scheduled"]
    waits = [event.due - row.at for row, event in zip(retries, stage.of("task.retry.scheduled"), strict=True)]
    assert [round(wait) for wait in waits] == [1, 2, 30]


def test_r3_an_error_that_is_not_retryable_is_final() -> None:
    tool = Sequence(broken(), "ok")
    stage = play("- {step: a, tool: {kind: python, code: f, spec: {retry: 3}}}", tools={"f": tool})
    assert (stage.state.status, tool.calls) == ("failed", 1)
    assert stage.state.error["details"]["hint"].startswith("`spec.retry` repeats retryable errors only")


@pytest.mark.parametrize("spec", ["", ", spec: {retry: 0}", f", {rules(when('false', 'do: retry'))}"])
def test_r3_nothing_is_said_of_retries_where_none_are_expected(spec: str) -> None:
    stage = play(f"- {{step: a, tool: {{kind: python, code: f{spec}}}}}", tools={"f": Sequence(broken())})
    assert "hint" not in stage.of("task.done")[0].outcome.error.details


def test_r3_after_the_last_try_the_failure_stands_and_the_policy_sees_it_once() -> None:
    policy = rules(when("outcome.status == 'error'", "do: continue, set_ctx: {seen: {$add: 1}}"))
    task = "{kind: python, code: f, " + policy.replace("spec: {", "spec: {retry: 2, ") + "}"
    tool = flaky(9)
    stage = play(f"- {{step: a, tool: {task}}}", tools={"f": tool}, ctx={"seen": 0})
    assert (stage.state.ctx, tool.calls) == ({"seen": 1}, 3)


def test_r3_rules_count_a_call_with_its_repetitions_as_one_attempt() -> None:
    policy = rules(when("outcome.status == 'error'", "do: retry, attempts: 2, delay: 1"))
    tool = flaky(9)
    task = "{kind: python, code: f, " + policy.replace("spec: {", "spec: {retry: 2, ") + "}"
    stage = play(f"- {{step: a, tool: {task}}}", tools={"f": tool})
    assert tries(stage) == [
        (1, "retry", "spec"),
        (2, "retry", "spec"),
        (3, "retry", "policy"),
        (4, "retry", "spec"),
        (5, "retry", "spec"),
        (6, "fail", "policy"),
    ]
    assert stage.state.error["message"] == "it broke (after 6 attempts)"


@pytest.mark.parametrize(
    ("executor", "step", "task", "calls"),
    [
        ("retry: 1", "", "", 2),
        ("retry: 1", "retry: 2", "", 3),
        ("retry: 1", "retry: 2", "retry: 0", 1),
        ("retry: 5", "", "retry: {attempts: 2}", 2),
        ("retry: {attempts: 4, delay: 2s}", "retry: {delay: 3s}", "", 4),
        ("python: {retry: 3}", "", "", 4),
    ],
)
def test_r3_retries_are_layered_from_executor_step_and_task(executor: str, step: str, task: str, calls: int) -> None:
    tool = flaky(9)
    head = f"executor: {{spec: {{{executor}}}}}\n"
    stage = play(
        f"- {{step: a, spec: {{{step}}}, tool: {{kind: python, code: f, spec: {{{task}}}}}}}",
        head=head,
        tools={"f": tool},
    )
    assert (stage.state.status, tool.calls) == ("failed", calls)


def test_r3_a_lost_worker_does_not_start_the_count_again() -> None:
    tool = flaky(9)

    async def during(stage: Stage) -> None:
        driving = asyncio.create_task(stage.drive())
        await stage.until(lambda: tool.calls == 2)
        await stage.crash()
        driving.cancel()
        await stage.drive()

    stage = play(
        "- {step: a, tool: {kind: python, code: f, spec: {retry: {attempts: 4, delay: 20s, backoff: none}}}}",
        tools={"f": tool},
        during=during,
    )
    assert [done.attempt for done in stage.of("task.done")] == [1, 2, 3, 4]
    assert stage.state.status == "failed"


# -- R12: the first of several signals -------------------------------------------------------------------------------

CHOICE = "- {step: a, tool: {kind: wait, signals: [yes, no]}}"


def test_r12_the_first_of_several_signals_ends_the_wait_and_is_named() -> None:
    async def during(stage: Stage) -> None:
        driving = asyncio.create_task(stage.drive())
        await stage.until(lambda: "step.paused" in stage.names)
        await stage.handle(Signal("other", "0"), Signal("no", "1", {"by": "ada"}), Signal("yes", "2"))
        await driving

    stage = play(CHOICE, during=during)
    assert stage.state.result == {"signal": "no", "payload": {"by": "ada"}}
    (paused,) = stage.of("step.paused")
    assert (paused.key, paused.keys) == ("", ("yes", "no"))


def test_r12_of_signals_that_were_sent_before_the_oldest_counts() -> None:
    stage = play(CHOICE, Signal("yes", "1", 1), Signal("no", "2", 2))
    assert stage.state.result == {"signal": "yes", "payload": 1}
    stage = play(CHOICE, Signal("no", "1", 1), Signal("other", "0"), Signal("yes", "2", 2))
    assert stage.state.result == {"signal": "no", "payload": 1}


def test_r12_a_signal_that_is_not_kept_counts_only_for_a_run_that_waits() -> None:
    async def during(stage: Stage) -> None:
        driving = asyncio.create_task(stage.drive())
        await stage.until(lambda: "step.paused" in stage.names)
        await stage.handle(Signal("no", "2", keep=False), Signal("yes", "3", keep=False))
        await driving

    stage = play(CHOICE, Signal("yes", "1", keep=False), during=during)
    assert stage.state.result == {"signal": "no", "payload": None}
    assert [message.id for message in stage.of("message.received")] == ["2"]


def test_r12_a_signal_that_is_not_kept_does_not_count_for_a_paused_run_that_has_its_signal() -> None:
    async def during(stage: Stage) -> None:
        driving = asyncio.create_task(stage.drive())
        await stage.until(lambda: "step.paused" in stage.names)
        await stage.handle(Pause())
        for number, name in enumerate(["no", "no", "yes"]):
            await stage.handle(Signal(name, str(number), keep=False))
        await driving
        await stage.handle(Resume())
        await stage.drive()

    stage = play(CHOICE, during=during)
    assert stage.state.result == {"signal": "no", "payload": None}
    assert [message.id for message in stage.of("message.received")] == ["0"]


# -- R13: loops that collect their failures --------------------------------------------------------------------------


def test_r13_a_loop_that_collects_runs_all_items_and_then_fails() -> None:
    def odd(n: int) -> Any:
        return broken() if n % 2 else n

    loop = "loop: {in: [1, 2, 3, 4, 5], iterator: n, spec: {mode: MODE, on_error: collect}}"
    body = "tool: {kind: python, code: odd, args: {n: '{{ iter.n }}'}}"
    for mode in ("sequential", "parallel"):
        stage = play(f"- {{step: a, {loop.replace('MODE', mode)}, {body}}}", tools={"odd": odd})
        assert stage.names.count("loop.iteration.done") == 2
        assert stage.names.count("loop.iteration.failed") == 3
        error = stage.state.error
        assert (error["kind"], error["step"]) == ("items_failed", "a")
        assert error["message"] == "3 of 5 items failed; item 0: it broke"
        assert [failure["index"] for failure in error["details"]["first"]] == [0, 2, 4]
        assert "loop.done" not in stage.names


def test_r13_the_error_names_the_first_items_and_not_those_that_failed_first() -> None:
    stage = play(
        """
        - step: a
          loop: {in: [1, 2, 3], iterator: n, spec: {mode: parallel, on_error: collect}}
          tool:
            kind: python
            code: fails
            spec: {policy: {rules: [{when: "{{ iter.n == 1 }}", then: {do: retry, attempts: 2, delay: 2}}, {else: {then: {do: fail}}}]}}
        """,
        tools={"fails": broken},
    )
    assert [event.index for event in stage.of("loop.iteration.failed")] == [1, 2, 0]
    error = stage.state.error
    assert error["message"].startswith("3 of 3 items failed; item 0: it broke")
    assert [failure["index"] for failure in error["details"]["first"]] == [0, 1, 2]


def test_r13_a_loop_that_collects_succeeds_without_failures() -> None:
    loop = "loop: {in: [1, 2], iterator: n, spec: {on_error: collect}}"
    stage = play(f"- {{step: a, {loop}, tool: {{kind: noop, result: '{{{{ iter.n }}}}'}}}}")
    assert stage.state.result == [1, 2]


# -- R4: errors that a policy continued past -------------------------------------------------------------------------


@pytest.mark.parametrize("do", ["continue", "break", "jump, to: after"])
def test_r4_errors_that_a_policy_continued_past_are_counted(do: str) -> None:
    policy = rules(when("outcome.status == 'error'", f"do: {do}"), otherwise("do: continue"))
    steps = f"- {{step: a, tool: [{{call: {{kind: python, code: f, {policy}}}}}, {{after: {{kind: noop}}}}]}}"
    stage = play(steps, tools={"f": broken})
    assert (stage.state.status, stage.state.continued_errors) == ("succeeded", 1)
    (error,) = stage.state.continued
    assert (error["step"], error["task"], error["kind"], error["message"]) == ("a", "call", "shaky", "it broke")


def test_r4_only_the_first_are_kept_and_all_are_counted() -> None:
    policy = rules(otherwise("do: continue"))
    loop = 'loop: {in: "{{ range(20) }}", iterator: n, spec: {mode: parallel}}'
    stage = play(f"- {{step: a, {loop}, tool: {{kind: python, code: f, {policy}}}}}", tools={"f": broken})
    assert (stage.state.continued_errors, len(stage.state.continued)) == (20, 5)
    assert [error["item"] for error in stage.state.continued] == [0, 1, 2, 3, 4]


def test_r4_a_retry_a_failure_and_a_skip_are_no_continued_errors() -> None:
    policy = rules(when("outcome.status == 'error'", "do: retry, attempts: 2"))
    stage = play(f"- {{step: a, tool: {{kind: python, code: f, {policy}}}}}", tools={"f": broken})
    assert (stage.state.status, stage.state.continued_errors) == ("failed", 0)


def test_work_continues_while_its_execution_is_loaded_again() -> None:
    """Another process wrote to the log: the state is dropped and loaded, and the lease is as alive as before."""
    started, end = asyncio.Event(), asyncio.Event()

    async def slow() -> str:
        started.set()
        await end.wait()
        return "done"

    async def during(stage: Stage) -> None:
        driving = asyncio.create_task(stage.drive())
        await started.wait()
        stage.engine.runtime.executions.pop(EXECUTION)
        await stage.engine.link.revoke_void(stage.engine.worker)
        end.set()
        await driving

    stage = play("- {step: a, tool: {kind: python, code: slow}}", tools={"slow": slow}, during=during)
    assert (stage.state.status, stage.state.result) == ("succeeded", "done")
    assert [event.name for event in stage.events].count("step.started") == 1


HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: a, path: a}\n"
ALL_STEPS = """
workflow:
  - step: first
    tool: {kind: noop, result: LARGE}
    next: {arcs: [{step: second, args: {all: "{{ steps }}", one: "{{ steps.first }}"}}]}
  - step: second
    loop: {in: "{{ steps | list }}", iterator: name}
    tool: {kind: noop, result: {name: "{{ iter.name }}", all: "{{ steps }}", count: "{{ args.all | length }}"}}
"""


@pytest.mark.parametrize("output", ["{{ steps }}", "{{ [steps][0] }}", "{{ dict(steps) }}"])
def test_steps_as_a_value_are_a_map_of_all_that_have_ended(output: str) -> None:
    first = {"result": 5, "status": "succeeded", "error": None}
    text = ALL_STEPS.replace("LARGE", "5")
    result = run_playbook(f'{HEAD}executor: {{spec: {{output: "{output}"}}}}\n{text}').result
    assert result["first"] == first
    assert result["second"]["result"] == [{"name": "first", "all": {"first": first}, "count": 1}]
    assert result["second"].keys() == {"result", "status", "error", "failures"}


def test_a_stored_result_is_part_of_the_map_of_all_steps() -> None:
    large = "x" * 100_000
    text = ALL_STEPS.replace("LARGE", large)
    finished = run_playbook(f'{HEAD}executor: {{spec: {{output: "{{{{ steps }}}}"}}}}\n{text}')
    assert finished.status == "succeeded"
    assert finished.result["first"]["result"] == large


# -- R20: evolve makes no choice --------------------------------------------------------------------------------------


def test_r20_a_log_folds_to_the_same_state_whatever_the_limits_of_decisions_are_now(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stage = play(
        """
        - step: start
          loop: {in: "{{ range(40) }}", iterator: n, spec: {mode: parallel, max_in_flight: 4, on_error: continue}}
          tool: [{t: {kind: noop, result: "{{ 'x' * 3000 if iter.n % 7 else 1 / 0 }}"}}]
        """
    )
    assert len({event.lane for event in stage.of("step.started")}) > 1
    for limits, values in (
        (leases, {"LEASE_SECONDS": 1.0, "MAX_LOSSES": 1}),
        (
            loops,
            {"FIRST_LANE": 9, "MAX_LANE": 2, "FAST_LANE_SECONDS": 0.0, "RESULTS_PER_CHUNK": 1, "BYTES_PER_CHUNK": 1},
        ),
    ):
        for name, value in values.items():
            monkeypatch.setattr(limits, name, value)
    stage.check()
