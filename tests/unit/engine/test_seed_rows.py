"""Rows of the specifications about behaviour, run: each playbook is small and does the thing that its row names."""

# ruff: noqa: E501 (playbooks in one line a step are easier to compare)

from __future__ import annotations

from stage import Stage, play

from noetl.engine.commands import Signal
from noetl.model.outcome import failed


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
