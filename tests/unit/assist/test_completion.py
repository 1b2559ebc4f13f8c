"""Completion, also where the text is broken at the cursor."""

from __future__ import annotations

import pytest
from tests.table import for_each

from noetl.assist import assist
from noetl.tools.registry import KINDS

from .cursor import HEAD, STEPS, ask, ask_step, labels

KEYS = [
    ("█\n", "executor"),
    ("exec█\n", "executor"),
    ("exec█: {}\n", "executor"),
    ("executor:\n  █\n", "spec"),
    ("executor:\n  spec:\n    ent█\n", "entry_step"),
    ("executor: {█}\n", "profile"),
    ("executor: {spec: {█\n", "on_failure"),
    ("executor: {profile: local, spec: {join: all, fin█}}\n", "final_step"),
    ("executor:\n  profile: local\n  █\n  spec: {}\n", "version"),
]
STEP_KEYS = [
    ("    █\n", "tool"),
    ("    to█\n", "tool"),
    ("    tool: {kind: http, █}\n", "url"),
    ("    tool: {kind: http, u█\n", "url"),
    ("    tool:\n      kind: http\n      █\n", "url"),
    ("    tool:\n      █\n      kind: http\n", "url"),
    ("    tool:\n      - get:\n          kind: http\n          hea█\n", "headers"),
    ("    tool:\n      - █\n", "kind"),
    ("    tool:\n      - get: {█\n", "kind"),
    ("    tool:\n      - get:\n          kind: http\n          spec:\n            pol█\n", "policy"),
    ("    tool: {kind: http, spec: {policy: {rules: [{█}]}}}\n", "when"),
    ("    tool: {kind: http, spec: {policy: {rules: [{when: true, then: {█}}]}}}\n", "set_ctx"),
    ("    tool: {kind: http, spec: {policy: {rules: [{else: {then: {d█}}}]}}}\n", "do"),
    ("    tool:\n      kind: iterator\n      in: [1]\n      iterator: n\n      tool:\n        - x: {kind: wait, s█}\n",
     "signal"),
    ("    spec:\n      policy:\n        █\n", "admit"),
    ("    spec:\n      http:\n        ur█\n", "url"),
    ("    loop:\n      in: [1]\n      it█\n", "iterator"),
    ("    next:\n      █\n", "arcs"),
    ("    next:\n      arcs:\n        - st█\n", "step"),
    ("    next: {arcs: [{step: start, wh█", "when"),
]  # fmt: skip


@for_each(("marked", "key"), KEYS)
def test_keys_of_the_document(marked: str, key: str) -> None:
    assert key in labels(ask(marked), "key")


@for_each(("marked", "key"), STEP_KEYS)
def test_keys_of_a_step(marked: str, key: str) -> None:
    assert key in labels(ask_step(marked), "key")


def test_keys_that_are_written_are_not_offered_again() -> None:
    answer = ask_step("    tool: {kind: noop}\n    █\n    next: {arcs: []}\n")
    assert not {"step", "tool", "next"} & set(labels(answer))
    assert {"desc", "loop", "spec"} <= set(labels(answer))


def test_a_key_brings_its_colon_unless_it_has_one() -> None:
    (new,) = ask_step("    des█\n").completions
    assert (new.insert, new.detail, new.doc) == ("desc: ", "text", "purpose of the step")
    (written,) = ask_step("    des█: x\n").completions
    assert written.insert == "desc"
    assert (
        next(completion for completion in ask_step("    █\n").completions if completion.label == "tool").insert
        == "tool:"
    )


def test_an_item_of_a_list_brings_its_dash() -> None:
    step = next(completion for completion in ask("", steps=STEPS + "  █\n").completions if completion.label == "step")
    assert step.insert == "- step: "
    first = next(
        completion for completion in ask("", steps="workflow:\n  █\n").completions if completion.label == "step"
    )
    assert first.insert == "- step: "


@pytest.mark.parametrize("line", ["desc█", "ste█", "█"])
def test_keys_of_the_classic_dialect_are_for_classic_playbooks_alone(line: str) -> None:
    classic = (
        "workflow:\n  - step: start\n    tool: {kind: noop}\n    next: end\n  - step: end\n    tool: {kind: noop}\n"
    )
    assert "case" not in labels(ask_step("    █\n"))
    assert "case" in labels(ask("", steps=f"{classic}    █\n"))


VALUES = [
    ("    tool: {kind: █}\n", "http", "kind"),
    ("    tool: {kind: ht█\n", "http", "kind"),
    ("    tool:\n      kind: █\n", "postgres", "kind"),
    ("    tool:\n      - get:\n          kind: po█\n", "postgres", "kind"),
    ("    tool: {kind: http, url: http://x, method: █}\n", "POST", "value"),
    ("    tool: {kind: http, spec: {policy: {rules: [{else: {then: {do: █", "retry", "value"),
    ("    spec: {join: █}\n", "all", "value"),
    ("    spec:\n      join: a█\n", "all", "value"),
    ("    loop: {in: [1], iterator: n, spec: {collect: f█}}\n", "false", "value"),
    ("    next: {arcs: [{step: █}]}\n", "load-data", "step"),
    ("    next:\n      arcs:\n        - step: lo█\n", "load-data", "step"),
    ("    next: {arcs: [{step: st█", "start", "step"),
    ("    tool:\n      - one: {kind: noop}\n      - two: {kind: noop, spec: {policy: {rules: [{else: {then: "
     "{do: jump, to: █}}}]}}}\n", "one", "task"),
    ("    tool: {kind: postgres, auth: █}\n", "shop_api", "credential"),
]  # fmt: skip


@for_each(("lines", "label", "kind"), VALUES)
def test_values(lines: str, label: str, kind: str) -> None:
    assert label in labels(ask_step(lines), kind)


def test_the_entry_step_is_a_step() -> None:
    assert labels(ask("executor: {spec: {entry_step: █}}\n"), "step") == ["start", "load-data"]
    assert labels(ask("apiVersion: █\n", head="")) == ["noetl.io/v2"]


def in_template(expression: str, task: str = "noop") -> str:
    tasks = f"      - one: {{kind: http, url: http://x}}\n      - two:\n          kind: {task}\n"
    return f'    tool:\n{tasks}          result: "{expression}'


NAMES = [
    ("{{ █ }}\"\n", {"workload", "ctx", "steps", "iter", "tasks", "keychain", "since", "total"}),
    ("{{ wor█", {"workload"}),
    ("{{ workload.█ }}\"\n", {"since", "db"}),
    ("{{ workload.db.█\n", {"host", "port"}),
    ("a {{ db.█ }} b\"\n", {"host", "port"}),
    ("{{ ctx.█ }}\"\n", {"total", "open_orders"}),
    ("{{ ctx.op█\"\n", {"open_orders"}),
    ("{{ ctx.total + workload.s█", {"since"}),
    ("{{ steps.█ }}\"\n", {"start", "load-data", "third"}),
    ("{{ steps.start.█ }}\"\n", {"result", "status", "error"}),
    ("{{ steps['█'] }}\"\n", {"load-data"}),
    ("{{ steps['load-data'].█ }}\"\n", {"result"}),
    ("{{ tasks.█ }}\"\n", {"one", "two"}),
    ("{{ tasks.one.█ }}\"\n", {"status", "result", "http"}),
    ("{{ args.█ }}\"\n", {"region"}),
    ("{{ iter.█ }}\"\n", {"index", "parent"}),
    ("{{ keychain.█ }}\"\n", {"shop_api"}),
    ("{{ workload.since | █ }}\"\n", {"upper", "default"}),
    ("{{ workload.since | up█", {"upper"}),
    ("{{ workload.since is █ }}\"\n", {"defined", "none"}),
    ("{{ workload.since is not de█", {"defined"}),
    ("{% if ctx.█ %}\"\n", {"total"}),
]  # fmt: skip


@for_each(("expression", "names"), NAMES)
def test_names_in_templates(expression: str, names: set[str]) -> None:
    assert names <= set(labels(ask_step(in_template(expression)))), labels(ask_step(in_template(expression)))


@for_each(
    ("lines", "present", "absent"),
    [
        ('    next: {arcs: [{step: start, when: "{{ █ }}"}]}\n', "event", "outcome"),
        ('    loop: {in: "{{ █ }}", iterator: x}\n', "ctx", "iter"),
        (
            '    tool: {kind: http, spec: {policy: {rules: [{when: "{{ █ }}", then: {do: fail}}]}}}\n',
            "outcome",
            "event",
        ),
        ('    tool: {kind: http, spec: {policy: {rules: [{when: "{{ █ }}", then: {do: skip}}]}}}\n', "ctx", "outcome"),
        ('    spec: {policy: {admit: {rules: [{when: "{{ █ }}", then: {allow: true}}]}}}\n', "event", "tasks"),
    ],
)
def test_names_are_those_of_the_place(lines: str, present: str, absent: str) -> None:
    result = labels(ask_step(lines))
    assert present in result
    assert absent not in result


@for_each("key", ["case", "vars", "retry", "sink", "args"])
def test_keys_of_the_classic_dialect_in_a_canonical_playbook_have_names(key: str) -> None:
    assert "workload" in labels(ask_step(f'    {key}:\n      x: "{{{{ █ }}}}"\n'))


def test_fields_of_an_outcome_are_those_of_its_kind() -> None:
    lines = '    tool: {kind: http, spec: {policy: {rules: [{when: "{{ outcome.█ }}", then: {do: fail}}]}}}\n'
    assert labels(ask_step(lines)) == ["status", "result", "error", "meta", "http"]
    assert "retryable" in labels(ask_step(lines.replace("outcome.", "outcome.error.")))


def test_names_of_a_loop_are_seen_inside_it() -> None:
    lines = '    loop: {in: [1], iterator: order}\n    tool: {kind: noop, result: "{{ iter.█ }}"}\n'
    assert labels(ask_step(lines)) == ["order", "index", "parent"]


def test_sql_filters_are_for_sql() -> None:
    assert "ident" in labels(ask_step('    tool: {kind: postgres, query: "select {{ workload.since | █ }}"}\n'))
    assert "ident" not in labels(ask_step('    tool: {kind: http, url: "{{ workload.since | █ }}"}\n'))


@for_each(
    "lines",
    [
        "    # a comm█ent\n",
        "    desc: some █text\n",
        "    tool: {kind: noop, result: \"{{ 'a text █' }}\"}\n",
        "    tool: {kind: noop, result: '{{ ctx.total }} █'}\n",
    ],
)
def test_free_text_has_no_completions(lines: str) -> None:
    assert ask_step(lines).completions == []


def test_a_block_of_code_has_names_in_its_templates_only() -> None:
    lines = "    tool:\n      kind: python\n      code: |\n        def main():\n            return █1\n"
    assert labels(ask_step(lines)) == []
    query = "    tool:\n      kind: postgres\n      query: |\n        select 1\n        where a = {{ workload.█ }}\n"
    assert labels(ask_step(query)) == ["since", "db"]


def test_the_rest_of_a_broken_document_is_still_known() -> None:
    text = HEAD + STEPS.replace("kind: http", "kind: ht: {[") + '  - step: "third\n    next: {arcs: [{step: █'
    before, _, after = text.partition("█")
    answer = assist(before + after, before.count("\n") + 1, len(before) - before.rfind("\n"), KINDS)
    assert {"start", "load-data"} <= set(labels(answer, "step"))


def test_an_empty_text_offers_the_keys_of_a_playbook() -> None:
    assert labels(assist("", 1, 1, KINDS))[:3] == ["apiVersion", "kind", "metadata"]
    assert labels(assist("", 7, 9, KINDS))[:1] == ["apiVersion"]
