"""Large values: stored once, replaced by references, and looked into when somebody asks."""

# ruff: noqa: E501 (playbooks in one line a step are easier to compare)

from __future__ import annotations

from pathlib import Path

import pytest
from story import run

from noetl.reference import Reference

BIG = '"{{ range(30000) }}"'


def test_a_large_result_becomes_a_reference_and_templates_look_into_it() -> None:
    end = run(f"""
        - step: start
          tool: {{kind: noop, result: {BIG}}}
          next: {{arcs: [{{step: use, when: "{{{{ steps.start.result[7] == 7 }}}}", args: {{all: "{{{{ steps.start.result }}}}"}}}}]}}
        - {{step: use, tool: {{kind: noop, result: ["{{{{ args.all[29999] }}}}", "{{{{ steps.start.result | length }}}}"]}}}}
    """)
    assert end.state.result == [29999, 30000]
    assert isinstance(end.state.steps["start"].result, Reference)
    token = end.of("token.enqueued")[-1]
    assert isinstance(token.args["all"], Reference)


def test_a_reference_that_is_passed_on_keeps_its_key() -> None:
    end = run(f"""
        - step: start
          tool:
            - make: {{kind: noop, result: {BIG}, spec: {{policy: {{rules: [{{else: {{then: {{do: continue, set_ctx: {{kept: "{{{{ outcome.result }}}}"}}}}}}}}]}}}}}}
    """)
    assert end.state.ctx["kept"] == end.state.steps["start"].result


def test_results_can_be_kept_in_files(tmp_path: Path) -> None:
    end = run(
        f"""
        - {{step: start, tool: {{kind: noop, result: {BIG}}}, next: {{arcs: [{{step: use}}]}}}}
        - {{step: use, tool: {{kind: noop, result: "{{{{ steps.start.result[5] }}}}"}}}}
        """,
        head=f"executor: {{spec: {{results: {{store: {{kind: file, path: {tmp_path}}}}}}}}}\n",
    )
    reference = end.state.steps["start"].result
    assert reference.store == "file"
    assert Path(reference.key).is_relative_to(tmp_path)
    assert Path(reference.key).stat().st_size == reference.size
    assert end.state.result == 5


def test_every_event_stays_small_whatever_the_values_are() -> None:
    end = run(
        """
        - step: start
          loop: {in: "{{ workload.many }}", iterator: text, spec: {mode: parallel}}
          tool: {kind: noop, result: "{{ iter.text }}"}
          next: {arcs: [{step: after, when: "{{ event.name == 'loop.done' }}", args: {all: "{{ steps.start.result }}"}}]}
        - {step: after, tool: {kind: noop, result: "{{ args.all | length }}"}}
        """,
        payload={"many": ["x" * 9_000] * 40},
    )
    assert end.state.result == 40
    assert max(len(row.data) for row in end.rows) < 65_536


@pytest.mark.parametrize("count", [10, 5_000])
def test_results_of_a_loop_are_read_by_index(count: int) -> None:
    end = run(f"""
        - step: start
          loop: {{in: "{{{{ range({count}) }}}}", iterator: n, spec: {{mode: parallel}}}}
          tool: {{kind: noop, result: "{{{{ iter.n * 2 }}}}"}}
          next: {{arcs: [{{step: after, when: "{{{{ event.name == 'loop.done' }}}}"}}]}}
        - {{step: after, tool: {{kind: noop, result: ["{{{{ steps.start.result[{count - 1}] }}}}", "{{{{ start | length }}}}"]}}}}
    """)
    assert end.state.result == [(count - 1) * 2, count]
