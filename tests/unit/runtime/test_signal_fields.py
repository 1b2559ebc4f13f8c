"""What a playbook reads from the payload of a signal."""

# ruff: noqa: E501 (playbooks in one line a step are easier to compare)

from __future__ import annotations

import pytest

from noetl.dsl.compile import load
from noetl.runtime.signal_fields import signal_fields
from noetl.tools.registry import KINDS

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: s, path: tests/s}\nworkflow:\n"
ASK = "  - {step: ask, tool: [{v: {kind: wait, signal: go%s}}], next: {arcs: [{step: a%s}]}}\n"


def fields_of(text: str, step: str = "ask", label: str = "v") -> dict[str, str]:
    playbook = load("s.yaml", HEAD + text, KINDS).require()
    return {field.path: field.type for field in signal_fields(playbook)[step, label]}


def asked(reader: str, rules: str = "", arc: str = "") -> dict[str, str]:
    spec = f", spec: {{policy: {{rules: [{rules}, {{else: {{then: {{do: continue}}}}}}]}}}}" if rules else ""
    return fields_of(ASK % (spec, arc) + f'  - {{step: a, tool: [{{t: {{kind: noop, result: "{reader}"}}}}]}}\n')


@pytest.mark.parametrize(
    ("reader", "fields"),
    [
        ("{{ steps.ask.result.by }}", {"by": "any"}),
        ("{{ ask.by.name | upper }}", {"by.name": "string"}),
        ("{{ steps.ask.data.amount * 2 }}", {"amount": "number"}),
        ("{{ steps.ask.result.kind == 'big' }}", {"kind": "string"}),
        ("{{ steps.ask.result.n > 3 }}", {"n": "number"}),
        ("{{ 1 if steps.ask.result.ok else 2 }}", {"ok": "boolean"}),
        ("{{ not steps.ask.result.ok }}", {"ok": "boolean"}),
        ("{{ steps.ask.result.items[0].id }}", {"items[0].id": "any"}),
        ("{{ steps.ask.result.by | default('nobody') }}", {"by": "string"}),
        ("{{ steps.ask.result }} {{ steps.ask.status }} {{ ask.error.kind }}", {}),
        ("{{ steps.ask.result.a == 1 }} {{ steps.ask.result.a == 'x' }}", {"a": "any"}),
        ("{% if steps.ask.result.x %}{{ steps.ask.result.y }}{% endif %}", {"x": "boolean", "y": "any"}),
    ],
)
def test_the_use_of_a_field_shows_its_type(reader: str, fields: dict[str, str]) -> None:
    assert asked(reader) == fields


def test_rules_of_the_wait_read_its_outcome_and_give_it_names_in_ctx() -> None:
    rules = '{when: "{{ outcome.result.ship }}", then: {do: continue, set_ctx: {verdict: "{{ outcome.result }}"}}}'
    assert asked("{{ ctx.verdict.by ~ verdict.count }}", rules) == {"ship": "boolean", "by": "any", "count": "any"}


def test_args_of_an_arc_are_followed_to_their_step() -> None:
    arc = ', args: {who: "{{ event.data.result.by }}"}'
    assert asked("{{ args.who | lower }}", arc=arc) == {"by": "string"}


def test_the_next_task_reads_the_payload_as_the_previous_result() -> None:
    text = '  - {step: ask, tool: [{v: {kind: wait, signal: go}}, {t: {kind: noop, result: "{{ _prev.x }} {{ tasks.v.result.y }}"}}]}\n'
    assert fields_of(text) == {"x": "any", "y": "any"}


def test_of_several_signals_the_payload_is_a_part_of_the_result() -> None:
    text = (
        "  - {step: ask, tool: [{v: {kind: wait, signals: [yes_, no_]}}], next: {arcs: [{step: a}]}}\n"
        '  - {step: a, tool: {kind: noop, result: "{{ steps.ask.result.signal }} {{ steps.ask.result.payload.by }}"}}\n'
    )
    assert fields_of(text) == {"by": "any"}


def test_a_payload_that_is_read_in_a_loop_or_nowhere_has_no_fields() -> None:
    assert asked("nothing") == {}
