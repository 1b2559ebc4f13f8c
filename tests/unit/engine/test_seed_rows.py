"""Rows of the specifications about behaviour, run: each playbook is small and does the thing that its row names."""

# ruff: noqa: E501 (playbooks in one line a step are easier to compare)

from __future__ import annotations

from typing import Any

from stage import EXECUTION, Stage, play

from noetl.engine.commands import Signal
from noetl.model.outcome import Outcome, failed
from noetl.reference import Reference


def ran(stage: Stage) -> list[str]:
    return [run.partition("#")[0] for run in stage.runs()]


def test_an_arc_routes_on_step_done_and_another_on_step_failed() -> None:
    steps = """
    - step: start
      tool: [{t: {kind: python, code: f}}]
      next: {arcs: [{step: good, when: "{{ event.name == 'step.done' }}"}, {step: bad, when: "{{ event.name == 'step.failed' }}"}]}
    - {step: good, tool: [{t: {kind: noop}}]}
    - {step: bad, tool: [{t: {kind: noop}}]}
    """
    assert ran(play(steps, tools={"f": lambda: 1})) == ["start", "good"]
    assert ran(play(steps, tools={"f": lambda: failed("shaky", "it broke")})) == ["start", "bad"]


def test_a_loop_ends_with_loop_done_and_its_arc_sees_the_results() -> None:
    steps = """
    - step: start
      loop: {in: [1, 2, 3], iterator: n}
      tool: [{t: {kind: noop, result: "{{ iter.n * 10 }}"}}]
      next: {arcs: [{step: end, when: "{{ event.name == 'loop.done' and event.data.total == 3 }}", args: {all: "{{ event.data.result }}"}}]}
    - {step: end, tool: [{t: {kind: noop, result: "{{ args.all }}"}}]}
    """
    stage = play(steps)
    assert (ran(stage), stage.state.result) == (["start", "end"], [10, 20, 30])


def test_an_arc_without_a_guard_is_taken() -> None:
    steps = """
    - {step: start, tool: [{t: {kind: noop}}], next: {arcs: [{step: end}]}}
    - {step: end, tool: [{t: {kind: noop}}]}
    """
    assert ran(play(steps)) == ["start", "end"]


def test_a_step_without_a_tool_only_routes() -> None:
    steps = """
    - {step: start, next: {arcs: [{step: no, when: "{{ workload.n > 5 }}"}, {step: yes}]}}
    - {step: no, tool: [{t: {kind: noop}}]}
    - {step: yes, tool: [{t: {kind: noop}}]}
    """
    stage = play(steps, head="workload: {n: 3}\n")
    assert (ran(stage), len(stage.of("task.started"))) == (["start", "yes"], 1)


def test_guards_read_the_event_ctx_and_workload() -> None:
    steps = """
    - step: start
      tool: [{t: {kind: noop, result: 2, spec: {policy: {rules: [{else: {then: {do: continue, set_ctx: {n: "{{ outcome.result }}"}}}}]}}}}]
      next: {arcs: [{step: end, when: "{{ event.name == 'step.done' and ctx.n == workload.n }}"}]}
    - {step: end, tool: [{t: {kind: noop}}]}
    """
    assert ran(play(steps, head="workload: {n: 2}\n")) == ["start", "end"]
    assert ran(play(steps, head="workload: {n: 3}\n")) == ["start"]


def test_then_to_jumps_to_a_task() -> None:
    steps = """
    - step: start
      tool:
        - count: {kind: noop, result: "{{ iter.n | default(0) + 1 }}", spec: {policy: {rules: [{else: {then: {do: continue, set_iter: {n: "{{ outcome.result }}"}}}}]}}}
        - again: {kind: noop, result: "{{ iter.n }}", spec: {policy: {rules: [{when: "{{ iter.n < 3 }}", then: {do: jump, to: count}}, {else: {then: {do: continue}}}]}}}
    """
    stage = play(steps)
    assert (stage.state.result, len([e for e in stage.of("task.done") if e.task.label == "count"])) == (3, 3)


def test_templates_of_a_classic_step_read_workload_vars_loop_index_and_earlier_results() -> None:
    steps = """
    - {step: start, tool: {kind: noop, result: {n: 5}}, vars: {x: "{{ result.n }}"}, next: each}
    - step: each
      loop: {in: [7, 8], iterator: item}
      args: {one: "{{ workload.w }}", two: "{{ vars.x }}", three: "{{ start.n }}"}
      tool: {kind: noop, result: "{{ [one, two, three, item, loop_index] }}"}
      next: end
    - {step: end, tool: {kind: noop, result: "{{ each }}"}}
    """
    assert play(steps, head="workload: {w: 1}\n").state.result == [[1, 5, 5, 7, 0], [1, 5, 5, 8, 1]]


def test_a_chain_has_a_sink_a_set_and_a_next() -> None:
    stored: list[object] = []
    steps = """
    - step: start
      tool: {kind: noop, result: 3}
      case:
        - when: "{{ event.name == 'call.done' and response.data == 3 }}"
          then:
            sink: {tool: {kind: python, code: store}, args: {x: "{{ result }}"}}
            set: {seen: "{{ this.status }}"}
            next: [{step: end, args: {k: "{{ result }}"}}]
    - {step: end, tool: {kind: noop, result: "{{ [args.k, vars.seen] }}"}}
    """
    assert play(steps, tools={"store": lambda x: stored.append(x)}).state.result == [3, "ok"]
    assert stored == [3]


def test_the_first_of_several_signals_decides() -> None:
    steps = """
    - step: start
      tool: [{ask: {kind: wait, signals: [approve, reject]}}]
      next: {arcs: [{step: yes, when: "{{ steps.start.result.signal == 'approve' }}"}, {step: no}]}
    - {step: yes, tool: [{t: {kind: noop}}]}
    - {step: no, tool: [{t: {kind: noop}}]}
    """
    assert ran(play(steps, Signal("reject", "1"))) == ["start", "no"]


# -- the document ----------------------------------------------------------------------------------------------------


def test_a_run_begins_with_start_and_otherwise_with_the_first_step() -> None:
    assert ran(play("- {step: a, tool: [{t: {kind: noop}}]}\n- {step: start, next: {arcs: [{step: a}]}}")) == [
        "start",
        "a",
    ]
    assert ran(play("- {step: a, tool: [{t: {kind: noop}}]}\n- {step: b, tool: [{t: {kind: noop}}]}")) == ["a"]


def test_a_task_of_the_workbook_runs_with_args_of_its_own_and_of_its_call() -> None:
    head = 'workbook: {tasks: {double: {kind: noop, args: {n: 1, m: 7}, result: "{{ [args.n * 2, args.m] }}"}}}\n'
    stage = play("- {step: start, tool: [{t: {kind: workbook, name: double, args: {n: 21}}}]}", head=head)
    assert stage.state.result == [42, 7]


def test_all_forms_of_a_pipeline_run_the_same_tasks() -> None:
    forms = (
        "{kind: noop, result: 1}",
        "[{kind: noop, result: 1}]",
        "[{only: {kind: noop, result: 1}}]",
    )
    assert [play(f"- {{step: start, tool: {form}}}").state.result for form in forms] == [1, 1, 1]
    stage = play("- {step: start, tool: [{kind: noop, result: 1}, {kind: noop, result: '{{ _prev + 1 }}'}]}")
    assert stage.state.result == 2


def test_a_result_above_the_limit_of_a_playbook_is_stored_by_reference() -> None:
    steps = "- {step: start, tool: [{t: {kind: noop, result: \"{{ 'x' * 3000 }}\"}}]}"
    head = "executor: {spec: {policy: {limits: {max_payload_bytes: 2000}}}}\n"
    (done,) = play(steps, head=head).of("task.done")
    assert isinstance(done.outcome.result, Reference)
    (done,) = play(steps).of("task.done")
    assert done.outcome.result == "x" * 3000


# -- layers of specs ---------------------------------------------------------------------------------------------------


def layered(executor: str = "{}", step: str = "{}", loop: str = "{}", task: str = "{}") -> dict[str, Any]:
    """The spec with which the tool is called."""
    steps = f"""
    - step: start
      spec: {step}
      loop: {{in: [1], iterator: x, spec: {loop}}}
      tool: [{{t: {{kind: python, code: f, spec: {task}}}}}]
    """
    stage = play(steps, head=f"executor: {{spec: {executor}}}\n", tools={"f": lambda: 1})
    return stage.registry.contexts[0].spec


def test_a_call_gets_the_spec_of_the_innermost_scope_that_has_one() -> None:
    box = "{{sandbox: {{kind: landlock, memory_bytes: {}}}}}".format
    specs = [box(number * 2**20) for number in (11, 12, 13, 14)]
    result = [layered(*specs[:count])["sandbox"]["memory_bytes"] for count in (1, 2, 3, 4)]
    assert result == [number * 2**20 for number in (11, 12, 13, 14)]


def test_a_call_gets_merged_maps_and_replaced_lists() -> None:
    result = layered(
        executor="{sandbox: {kind: bubblewrap, read: [/usr, /opt], write: [/tmp]}}",
        step="{sandbox: {kind: bubblewrap, network: false}}",
        loop="{sandbox: {kind: bubblewrap, read: [/data]}}",
    )
    assert result["sandbox"] == {"kind": "bubblewrap", "read": ["/data"], "write": ["/tmp"], "network": False}


def test_attempts_follow_the_layers() -> None:
    calls: list[int] = []

    def f() -> Outcome:
        calls.append(1)
        return failed("shaky", "not yet", retryable=True)

    for executor, step, task, count in (("2", "", "", 3), ("2", "retry: 3", "", 4), ("2", "retry: 3", "retry: 0", 1)):
        calls.clear()
        steps = f"- {{step: start, spec: {{{step}}}, tool: [{{t: {{kind: python, code: f, spec: {{{task}}}}}}}]}}"
        play(steps, head=f"executor: {{spec: {{retry: {executor}}}}}\n", tools={"f": f})
        assert len(calls) == count


# -- gates and rules -----------------------------------------------------------------------------------------------------


def test_a_step_without_a_gate_admits_every_token_and_a_gate_denies_or_admits() -> None:
    gate = 'spec: {policy: {admit: {rules: [{when: "{{ args.n > 1 }}", then: {allow: true}}, {else: {then: {allow: false}}}]}}},'
    steps = """
    - step: start
      next: {{spec: {{mode: inclusive}}, arcs: [{{step: end, args: {{n: 1}}}}, {{step: end, args: {{n: 2}}}}]}}
    - {{step: end, {} tool: [{{t: {{kind: noop}}}}]}}
    """
    assert ran(play(steps.format(""))) == ["start", "end", "end"]
    gated = play(steps.format(gate))
    assert (ran(gated), len(gated.of("token.denied"))) == (["start", "end"], 1)


def test_the_first_rule_that_matches_decides_and_else_the_rest() -> None:
    rules = """[
      {when: "{{ outcome.result > 2 }}", then: {do: continue, set_ctx: {size: large}}},
      {when: "{{ outcome.result > 1 }}", then: {do: continue, set_ctx: {size: medium}, set_iter: {seen: "{{ outcome.result }}"}}},
      {else: {then: {do: fail}}}]"""
    steps = f"""
    - step: start
      tool:
        - t: {{kind: noop, result: "{{{{ workload.n }}}}", spec: {{policy: {{rules: {rules}}}}}}}
        - u: {{kind: noop, result: "{{{{ iter.seen | default(0) }}}}"}}
    """
    stages = [play(steps, head=f"workload: {{n: {n}}}\n") for n in (3, 2, 1)]
    assert [stage.state.ctx.get("size") for stage in stages] == ["large", "medium", None]
    assert [stage.state.result for stage in stages] == [0, 2, None]
    assert [stage.state.status for stage in stages] == ["succeeded", "succeeded", "failed"]


def test_an_error_fails_a_task_without_a_policy_and_passes_rules_without_a_match() -> None:
    tools = {"f": lambda: failed("shaky", "it broke")}
    assert play("- {step: start, tool: [{t: {kind: python, code: f}}]}", tools=tools).state.status == "failed"
    rules = "{policy: {rules: [{when: \"{{ outcome.status == 'ok' }}\", then: {do: fail}}]}}"
    stage = play(f"- {{step: start, tool: [{{t: {{kind: python, code: f, spec: {rules}}}}}]}}", tools=tools)
    assert (stage.state.status, stage.state.continued_errors) == ("succeeded", 1)


def test_a_retry_waits_for_its_computed_delay() -> None:
    rules = '{policy: {rules: [{when: "{{ outcome.status == \'error\' }}", then: {do: retry, attempts: 3, delay: "{{ _attempt * 20 }}"}}, {else: {then: {do: continue}}}]}}'
    steps = f"- {{step: start, tool: [{{t: {{kind: python, code: f, spec: {rules}}}}}]}}"
    stage = play(steps, tools={"f": lambda: failed("shaky", "it broke")})
    times = {row.seq: row.at for row in stage.store.read(EXECUTION)}
    waits = [
        event.due - times[seq] for seq, event in enumerate(stage.events, 1) if event.name == "task.retry.scheduled"
    ]
    assert [round(wait) for wait in waits] == [20, 40]


# -- names -----------------------------------------------------------------------------------------------------------------


def test_bare_names_are_found_in_every_namespace() -> None:
    steps = """
    - step: start
      tool: [{t: {kind: noop, spec: {policy: {rules: [{else: {then: {do: continue, set_ctx: {inner: 2}}}}]}}}}]
      next: {arcs: [{step: end, when: "{{ inner == 2 and event.name == 'step.done' }}", args: {sent: 3}}]}
    - step: end
      loop: {in: [4], iterator: item}
      tool: [{t: {kind: noop, result: "{{ [outer, inner, sent, item] }}"}}]
    """
    assert play(steps, head="workload: {outer: 1}\n").state.result == [[1, 2, 3, 4]]


def test_a_reference_that_a_playbook_keeps_in_ctx_leads_to_the_stored_value() -> None:
    steps = """
    - step: start
      tool: [{big: {kind: noop, result: {text: "{{ 'x' * 3000 }}"}, spec: {policy: {rules: [{else: {then: {do: continue, set_ctx: {saved: "{{ outcome.result }}"}}}}]}}}}]
      next: {arcs: [{step: end}]}
    - {step: end, tool: [{t: {kind: noop, result: "{{ ctx.saved.text | length }}"}}]}
    """
    stage = play(steps, head="executor: {spec: {results: {inline_bytes: 2000}}}\n")
    assert (stage.state.result, type(stage.state.ctx["saved"])) == (3000, Reference)


# -- routing and loops -------------------------------------------------------------------------------------------------------


def test_a_router_is_exclusive_by_default() -> None:
    steps = """
    - {{step: start, next: {{{} arcs: [{{step: a}}, {{step: b}}]}}}}
    - {{step: a, tool: [{{t: {{kind: noop}}}}]}}
    - {{step: b, tool: [{{t: {{kind: noop}}}}]}}
    """
    assert ran(play(steps.format(""))) == ["start", "a"]
    assert ran(play(steps.format("spec: {mode: exclusive},"))) == ["start", "a"]
    assert ran(play(steps.format("spec: {mode: inclusive},"))) == ["start", "a", "b"]


def test_next_is_a_name_a_list_or_a_list_with_args() -> None:
    steps = """
    - {{step: start, tool: {{kind: noop}}, next: {}}}
    - {{step: a, tool: {{kind: noop, result: "{{{{ args.k | default(0) }}}}"}}}}
    - {{step: b, tool: {{kind: noop}}}}
    """
    assert ran(play(steps.format("a"))) == ["start", "a"]
    assert ran(play(steps.format("[a, b]"))) == ["start", "a", "b"]
    assert play(steps.format("[{step: a, args: {k: 5}}]")).state.result == 5


def test_every_mode_of_a_classic_loop_runs_all_items() -> None:
    for mode in ("sequential", "parallel", "async"):
        steps = f"- {{step: start, loop: {{in: [1, 2, 3], iterator: n, mode: {mode}}}, tool: {{kind: noop, result: '{{{{ n * 2 }}}}'}}}}"
        assert play(steps).state.result == [2, 4, 6]


def test_a_classic_loop_counts_failed_items_with_on_error_continue_and_stops_without() -> None:
    steps = """
    - step: start
      loop: {{collection: [1, 0, 2], element: n, spec: {{mode: parallel, batch_size: 2{}}}}}
      tool: {{kind: noop, result: "{{{{ 4 / n }}}}"}}
    """
    stage = play(steps.format(", on_error: continue"))
    assert (stage.state.status, stage.of("loop.done")[0].failed) == ("succeeded", 1)
    assert play(steps.format("")).state.status == "failed"


def test_a_classic_retry_repeats_a_failed_call_with_growing_waits() -> None:
    steps = """
    - step: start
      retry: {max_attempts: 4, initial_delay: 10, backoff_multiplier: 2}
      tool: {kind: python, code: f}
    """
    stage = play(steps, tools={"f": lambda: failed("shaky", "it broke")})
    times = {row.seq: row.at for row in stage.store.read(EXECUTION)}
    waits = [
        event.due - times[seq] for seq, event in enumerate(stage.events, 1) if event.name == "task.retry.scheduled"
    ]
    assert ([round(wait) for wait in waits], stage.state.status) == ([10, 20, 40], "failed")


def test_every_key_of_a_classic_step_takes_part() -> None:
    stored: list[object] = []
    steps = """
    - step: start
      desc: All keys at once
      args: {k: "{{ workload.n }}"}
      loop: {in: [1, 2], iterator: i}
      retry: {max_attempts: 2, initial_delay: 0}
      tool: {kind: python, code: f, args: {i: "{{ i }}"}}
      vars: {total: "{{ result | sum }}"}
      case: [{when: "{{ event.name == 'call.done' and vars.total > 100 }}", then: {next: wrong}}]
      sink: {tool: {kind: python, code: store}, args: {x: "{{ result }}"}}
      next: end
    - {step: wrong, tool: {kind: noop}}
    - {step: end, tool: {kind: noop, result: "{{ [start, vars.total] }}"}}
    """
    tools = {"f": lambda k, i: k + i, "store": lambda x: stored.append(x)}
    assert play(steps, head="workload: {n: 10}\n", tools=tools).state.result == [[11, 12], 23]
    assert stored == [[11, 12]]


def test_a_sweep_submits_a_job_per_item_polls_it_by_a_jump_and_fetches_its_result() -> None:
    polls: dict[str, int] = {}

    def poll(job: str) -> dict[str, bool]:
        polls[job] = polls.get(job, 0) + 1
        return {"ready": polls[job] == 3}

    steps = """
    - step: start
      loop: {in: [10, 20], iterator: theta, spec: {mode: parallel}}
      tool:
        - submit: {kind: python, code: submit, args: {theta: "{{ iter.theta }}"}}
        - poll:
            kind: python
            code: poll
            args: {job: "{{ tasks.submit.result }}"}
            spec: {policy: {rules: [{when: "{{ not outcome.result.ready }}", then: {do: jump, to: poll, delay: 5}}, {else: {then: {do: continue}}}]}}
        - fetch: {kind: python, code: fetch, args: {job: "{{ tasks.submit.result }}"}}
    """
    tools = {"submit": lambda theta: f"job-{theta}", "poll": poll, "fetch": lambda job: f"counts of {job}"}
    assert play(steps, tools=tools).state.result == ["counts of job-10", "counts of job-20"]
    assert polls == {"job-10": 3, "job-20": 3}
