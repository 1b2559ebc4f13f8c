"""The semantics of docs/explanation/semantics.md, told as small playbooks."""

# ruff: noqa: E501 (playbooks in one line a step are easier to compare)

from __future__ import annotations

from story import run

from noetl.engine.commands import Cancel, Signal


def test_a_single_step_ends() -> None:
    end = run("- {step: only, tool: {kind: noop, result: 7}}")
    assert end.state.status == "succeeded"
    assert end.state.result == 7
    assert end.names[-2:] == ["workflow.finished", "playbook.processed"]


def test_s1_the_step_named_start_is_the_entry() -> None:
    end = run("""
        - {step: other, tool: {kind: noop}}
        - {step: start, tool: {kind: noop}}
    """)
    assert end.runs() == ["start#1"]


def test_s2_final_step_runs_once_after_success_and_failure_with_a_summary() -> None:
    for guard, status in (("true", "succeeded"), ("1 / 0", "failed")):
        end = run(
            f"""
            - step: start
              tool: {{kind: noop, result: "{{{{ {guard} }}}}"}}
            - step: bye
              tool: {{kind: noop, result: "{{{{ args.summary.status }}}}"}}
            """,
            head="executor: {spec: {final_step: bye}}\n",
        )
        assert end.state.status == status
        assert end.state.steps["bye"].result == status
        assert end.runs() == ["start#1", "bye#1"]


def test_s3_a_plain_arc_does_not_carry_on_after_a_failure() -> None:
    end = run("""
        - step: start
          tool: {kind: noop, result: "{{ ctx.nope }}"}
          next: {arcs: [{step: after}]}
        - {step: after, tool: {kind: noop}}
    """)
    assert end.state.status == "failed"
    assert end.state.error["kind"] == "template"
    assert end.state.error["step"] == "start"
    assert end.runs() == ["start#1"]


def test_s4_a_failure_that_an_arc_took_up_does_not_fail_the_execution() -> None:
    end = run("""
        - step: start
          tool: {kind: noop, result: "{{ ctx.nope }}"}
          next:
            arcs:
              - {step: good}
              - {step: rescue, when: "{{ event.name == 'step.failed' }}"}
        - {step: good, tool: {kind: noop}}
        - {step: rescue, tool: {kind: noop, result: "{{ steps.start.error.kind }}"}}
    """)
    assert end.state.status == "succeeded"
    assert end.state.result == "template"


def test_s6_join_all_fires_once_with_the_args_of_all() -> None:
    end = run("""
        - step: start
          next: {spec: {mode: inclusive}, arcs: [{step: a}, {step: b}, {step: c, when: "{{ false }}"}]}
        - {step: a, tool: {kind: noop}, next: {arcs: [{step: j, args: {x: a, only_a: 1}}]}}
        - {step: b, tool: {kind: noop}, next: {arcs: [{step: j, args: {x: b}}]}}
        - {step: c, tool: {kind: noop}, next: {arcs: [{step: j, args: {x: c}}]}}
        - {step: j, spec: {join: all}, tool: {kind: noop, result: ["{{ args }}", "{{ args_by.a.x }}"]}}
    """)
    assert end.runs().count("j#1") == 1
    assert end.state.result == [{"x": "b", "only_a": 1}, "a"]


def test_s6_without_a_join_each_token_fires() -> None:
    end = run("""
        - {step: start, next: {spec: {mode: inclusive}, arcs: [{step: a}, {step: b}]}}
        - {step: a, next: {arcs: [{step: j}]}}
        - {step: b, next: {arcs: [{step: j}]}}
        - {step: j, spec: {join: any}, tool: {kind: noop}}
    """)
    assert [name for name in end.runs() if name.startswith("j")] == ["j#1", "j#2"]


def test_s7_a_held_token_enters_when_ctx_changes() -> None:
    end = run("""
        - {step: start, next: {spec: {mode: inclusive}, arcs: [{step: gated}, {step: opener}]}}
        - step: gated
          spec: {policy: {admit: {rules: [{when: "{{ ctx.open }}", then: {allow: true}}]}}}
          tool: {kind: noop, result: in}
        - step: opener
          tool:
            - open: {kind: noop, spec: {policy: {rules: [{else: {then: {do: continue, set_ctx: {open: true}}}}]}}}
    """)
    assert end.of("token.held")
    assert end.state.steps["gated"].result == "in"


def test_s7_a_token_that_can_never_enter_is_denied_and_the_run_ends() -> None:
    end = run("""
        - step: start
          spec: {policy: {admit: {rules: [{when: "{{ ctx.open | default(false) }}", then: {allow: true}}]}}}
          tool: {kind: noop}
    """)
    assert end.state.status == "succeeded"
    assert len(end.of("token.denied")) == 1


def test_s8_a_cycle_of_steps_is_bounded() -> None:
    end = run(
        "- {step: start, tool: {kind: noop}, next: {arcs: [{step: start, when: '{{ true }}'}]}}",
        head="executor: {spec: {max_step_runs: 25}}\n",
    )
    assert end.state.status == "failed"
    assert "25" in end.state.error["message"]


def test_s10_prev_and_skip_and_continue_after_error() -> None:
    end = run("""
        - step: start
          tool:
            - one: {kind: noop, result: 1}
            - skipped:
                kind: noop
                result: 2
                spec: {policy: {rules: [{when: "{{ _prev == 1 }}", then: {do: skip}}, {else: {then: {do: continue}}}]}}
            - seen: {kind: noop}
            - broken:
                kind: noop
                result: "{{ ctx.nope }}"
                spec: {policy: {rules: [{else: {then: {do: continue}}}]}}
            - last: {kind: noop, result: {prev: "{{ _prev }}", seen: "{{ tasks.seen.result }}"}}
    """)
    assert end.state.result == {"prev": None, "seen": 1}


def test_s11_data_that_looks_like_an_envelope_or_a_reducer_stays_data() -> None:
    end = run(
        """
        - step: start
          tool:
            - odd:
                kind: noop
                result: "{{ workload.odd }}"
                spec: {policy: {rules: [{else: {then: {do: continue, set_ctx: {kept: "{{ outcome.result }}"}}}}]}}
        """,
        payload={"odd": {"$add": 1}},
    )
    assert end.state.status == "succeeded"
    assert end.state.ctx == {"kept": {"$add": 1}}


def test_s14_attempts_are_counted_in_all_and_the_message_tells_them() -> None:
    end = run("""
        - step: start
          tool:
            - t:
                kind: noop
                result: "{{ ctx.nope }}"
                spec: {policy: {rules: [{when: "{{ outcome.status == 'error' }}", then: {do: retry, attempts: 4, delay: 1, backoff: exponential}}, {else: {then: {do: continue}}}]}}
    """)
    assert end.state.status == "failed"
    assert "after 4 attempts" in end.state.error["message"]
    assert end.state.error["attempt"] == 4
    assert end.clock.waits == [1, 2, 4]
    assert [event.attempt for event in end.of("task.done")] == [1, 2, 3, 4]


def test_s15_a_long_wait_is_a_durable_timer() -> None:
    end = run("""
        - step: start
          tool:
            - t:
                kind: noop
                result: "{{ 1 if _attempt == 2 else ctx.nope }}"
                spec: {policy: {rules: [{when: "{{ outcome.status == 'error' }}", then: {do: retry, attempts: 2, delay: 0.01}}, {else: {then: {do: continue}}}]}}
    """)
    assert end.state.result == 1


def test_s17_a_jump_is_a_new_visit() -> None:
    end = run("""
        - step: start
          tool:
            - init: {kind: noop, spec: {policy: {rules: [{else: {then: {do: continue, set_iter: {n: 0}}}}]}}}
            - count: {kind: noop, result: "{{ iter.n }}", spec: {policy: {rules: [{else: {then: {do: continue, set_iter: {n: "{{ iter.n + 1 }}"}}}}]}}}
            - decide:
                kind: noop
                spec: {policy: {rules: [{when: "{{ iter.n < 3 }}", then: {do: jump, to: count}}, {else: {then: {do: break}}}]}}
            - never: {kind: noop, result: never}
    """)
    assert end.state.result == 2
    assert [str(event.task) for event in end.of("task.started")][-1] == "start#1/decide#3"


def test_s20_parallel_items_may_not_write_different_values_but_reducers_are_exact() -> None:
    loop = """
        - step: start
          loop: {{in: "{{{{ range(20) }}}}", iterator: n, spec: {{mode: parallel}}}}
          tool:
            - t: {{kind: noop, spec: {{policy: {{rules: [{{else: {{then: {{do: continue, set_ctx: {{k: {value}}}}}}}}}]}}}}}}
    """
    summed = run(loop.format(value='{$add: "{{ iter.n }}"}'))
    assert summed.state.ctx == {"k": 190}
    same = run(loop.format(value="1"))
    assert same.state.ctx == {"k": 1}
    clash = run(loop.format(value='"{{ iter.n }}"'))
    assert clash.state.status == "failed"
    assert clash.state.error["kind"] == "ctx_conflict"


def test_s22_iterators_nest_and_see_their_parents() -> None:
    end = run("""
        - step: start
          loop: {in: [1, 2], iterator: city}
          tool:
            - each:
                kind: iterator
                in: "{{ range(iter.city) }}"
                iterator: hotel
                tool:
                  - one: {kind: noop, result: "{{ iter.parent.city }}-{{ iter.hotel }}-{{ iter.parent.index }}"}
    """)
    assert end.state.result == [["1-0-0"], ["2-0-1", "2-1-1"]]
    assert str(end.of("task.started")[-1].task) == "start#1[1]/each#1[1]/one#1"


def test_s23_loops_fail_fast_or_continue() -> None:
    text = """
        - step: start
          loop: {{in: [1, 0, 2], iterator: num, spec: {{mode: {mode}, on_error: {on_error}}}}}
          tool: {{kind: noop, result: "{{{{ 10 / iter.num }}}}"}}
          next: {{arcs: [{{step: after, when: "{{{{ event.name == 'loop.done' }}}}", args: {{n: "{{{{ event.data.failed }}}}"}}}}]}}
        - {{step: after, tool: {{kind: noop, result: "{{{{ [args.n, steps.start.result, steps.start.failures[0].index] }}}}"}}}}
    """
    for mode in ("sequential", "parallel"):
        stopped = run(text.format(mode=mode, on_error="fail"))
        assert stopped.state.status == "failed"
        went_on = run(text.format(mode=mode, on_error="continue"))
        assert went_on.state.result == [1, [10, None, 5], 1]


def test_s23_an_empty_loop_is_done_at_once_and_no_list_is_an_error() -> None:
    text = '- {{step: start, loop: {{in: "{{{{ workload.x }}}}", iterator: n}}, tool: {{kind: noop}}}}'.format()
    assert run(text, payload={"x": []}).state.result == []
    assert run(text, payload={"x": 5}).state.error["kind"] == "loop_input"


def test_s24_each_entry_is_a_run_of_its_own() -> None:
    end = run("""
        - step: start
          tool:
            - t: {kind: noop, spec: {policy: {rules: [{else: {then: {do: continue, set_ctx: {n: {$add: 1}}}}}]}}}
          next: {arcs: [{step: start, when: "{{ ctx.n < 3 }}"}, {step: end}]}
        - {step: end, tool: {kind: noop, result: "{{ ctx.n }}"}}
    """)
    assert end.runs() == ["start#1", "start#2", "start#3", "end#1"]
    assert end.state.result == 3


def test_s26_payload_is_data_and_later_templates_see_it() -> None:
    end = run(
        "- {step: start, tool: {kind: noop, result: '{{ workload }}'}}",
        head='workload: {host: a, url: "http://{{ workload.host }}/x", deep: {k: 1, t: "{{ workload.host }}"}}\n',
        payload={"host": "{{ 1 + 1 }}", "deep": {"k": 2}},
    )
    assert end.state.result == {
        "host": "{{ 1 + 1 }}",
        "url": "http://{{ 1 + 1 }}/x",
        "deep": {"k": 2, "t": "{{ 1 + 1 }}"},
    }


def test_s32_cancel_ends_everything() -> None:
    end = run("- {step: start, tool: {kind: wait, signal: never}}", Cancel("enough"))
    assert end.state.status == "cancelled"
    assert end.names[-3:] == ["playbook.cancelled", "workflow.finished", "playbook.processed"]


def test_s33_a_signal_sent_before_the_wait_is_not_lost() -> None:
    end = run(
        "- {step: start, tool: {kind: wait, signal: go}}",
        Signal("go", "1", {"by": "me"}),
        Signal("go", "1", {"by": "again"}),
    )
    assert end.state.result == {"by": "me"}
    assert len(end.of("message.received")) == 1


def test_exclusive_takes_the_first_arc_and_inclusive_all() -> None:
    text = """
        - {{step: start, next: {{spec: {{mode: {mode}}}, arcs: [{{step: a, when: "{{{{ true }}}}"}}, {{step: b, when: "{{{{ true }}}}"}}]}}}}
        - {{step: a, tool: {{kind: noop}}}}
        - {{step: b, tool: {{kind: noop}}}}
    """
    assert run(text.format(mode="exclusive")).runs() == ["start#1", "a#1"]
    assert run(text.format(mode="inclusive")).runs() == ["start#1", "a#1", "b#1"]


def test_a_guard_that_raises_fails_the_run_and_names_its_place() -> None:
    end = run("""
        - {step: start, next: {arcs: [{step: a, when: "{{ 1 / 0 > 2 }}"}]}}
        - {step: a, tool: {kind: noop}}
    """)
    assert end.state.status == "failed"
    assert end.state.error["step"] == "start"
    assert end.state.error["place"] == "next/0"


def test_parallel_loop_never_has_more_in_flight_than_allowed() -> None:
    end = run("""
        - step: start
          loop: {in: "{{ range(200) }}", iterator: n, spec: {mode: parallel, max_in_flight: 3}}
          tool: {kind: noop, result: "{{ iter.n }}"}
    """)
    flying = most = 0
    for event in end.events:
        flying += (event.name == "loop.iteration.started") - (
            event.name in ("loop.iteration.done", "loop.iteration.failed")
        )
        most = max(most, flying)
    assert most <= 3
    assert end.state.result == list(range(200))
    assert sorted(event.index for event in end.of("loop.iteration.done")) == list(range(200))


def test_s33_timers_of_a_step_are_armed_on_entry_fire_and_go_with_the_run() -> None:
    end = run("""
        - step: start
          spec: {timers: {soon: 0.01, late: 1h}}
          tool:
            - wait: {kind: wait, signal: never, spec: {timeout: 0.3, policy: {rules: [{else: {then: {do: continue}}}]}}}
    """)
    assert [event.timer for event in end.of("timer.armed")] == ["timer:start#1:soon", "timer:start#1:late"]
    assert "timer:start#1:soon" in [event.timer for event in end.of("timer.fired")]
    assert end.state.timers == {}
