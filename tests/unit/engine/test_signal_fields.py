"""What a playbook reads from the payload of a signal."""

# ruff: noqa: E501 (playbooks in one line a step are easier to compare)

from __future__ import annotations

import json

import pytest

from noetl.dsl.compile import load
from noetl.engine.net import Net
from noetl.engine.signal_fields import signal_commands, signal_parts
from noetl.tools.registry import KINDS

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: s, path: tests/s}\nworkflow:\n"
ASK = "  - {step: ask, tool: [{v: {kind: wait, signal: go%s}}], next: {arcs: [{step: a%s}]}}\n"


def fields_of(text: str, step: str = "ask", label: str = "v") -> dict[str, str]:
    playbook = load("s.yaml", HEAD + text, KINDS).require()
    return {part.field.path: part.field.type for part in signal_parts(playbook)[step, label]}


def command_of(text: str, name: str = "go") -> str:
    net = Net(load("s.yaml", HEAD + text, KINDS).require())
    (command,) = signal_commands(net, "01a", "ask", [name])
    return command.removeprefix("noetl runs signal 01a ")


def fields_read(reader: str, rules: str = "", arc: str = "") -> dict[str, str]:
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
    assert fields_read(reader) == fields


def test_rules_of_the_wait_read_its_outcome_and_give_it_names_in_ctx() -> None:
    rules = '{when: "{{ outcome.result.ship }}", then: {do: continue, set_ctx: {verdict: "{{ outcome.result }}"}}}'
    assert fields_read("{{ ctx.verdict.by ~ verdict.count }}", rules) == {
        "ship": "boolean",
        "by": "any",
        "count": "any",
    }


def test_args_of_an_arc_are_followed_to_their_step() -> None:
    arc = ', args: {who: "{{ event.data.result.by }}"}'
    assert fields_read("{{ args.who | lower }}", arc=arc) == {"by": "string"}


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
    assert fields_read("nothing") == {}


@pytest.mark.parametrize(
    ("reader", "command"),
    [
        ("nothing", "go"),
        ("{{ steps.ask.result }}", "go"),
        ("{{ 1 if ask.ok else ask.by.name }}", """go --data '{"ok": true, "by": {"name": "..."}}'"""),
        ("{{ ask.n * 2 }} {{ ask.lines[1].id }}", """go --data '{"n": 1, "lines": [null, {"id": "..."}]}'"""),
        ("{{ ask.lines[4000].id }}", "go"),
        ('{{ ask["it\'s"] }}', """go --data '{"it'"'"'s": "..."}'"""),
    ],
)
def test_the_command_that_answers_a_wait_has_the_fields_that_are_read(reader: str, command: str) -> None:
    text = "  - {step: ask, tool: [{v: {kind: wait, signal: go}}], next: {arcs: [{step: a}]}}\n"
    assert (
        command_of(text + f"  - {{step: a, tool: [{{t: {{kind: noop, result: {json.dumps(reader)}}}}}]}}\n") == command
    )


def test_the_fields_of_a_command_are_those_of_its_signal() -> None:
    waits = "{v: {kind: wait, signal: go}}, {t: {kind: noop, result: '{{ _prev.x }}'}}, {w: {kind: wait, signal: %s}}"
    text = f"  - {{step: ask, tool: [{waits}, {{u: {{kind: noop, result: '{{{{ _prev.y }}}}'}}}}]}}\n"
    assert command_of(text % "stop", "stop") == """stop --data '{"y": "..."}'"""
    assert command_of(text % '"{{ execution_id }}-s"', "01a-s") == """01a-s --data '{"y": "..."}'"""
    assert command_of(text % "go") == """go --data '{"x": "...", "y": "..."}'"""
    assert command_of(text % "stop", "renamed") == "renamed"
