"""noetl migrate reads other generations of the language: a corpus with expected texts, results and refusals."""

from __future__ import annotations

import random
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner
from tests.table import for_each

from noetl.classic.writer import YamlLayout
from noetl.cli import playbook as verb
from noetl.dsl.compile import load
from noetl.dsl.migrate import Migration, migrate
from noetl.dsl.other_words import OTHER_INPUTS, SIGN_IN
from noetl.model.inputs import fields
from noetl.model.kind import Kind
from noetl.testing import run_playbook
from noetl.tools.registry import KINDS

ROOT = Path(__file__).parents[3]
CORPUS = ROOT / "tests" / "migrate" / "generations"
REFUSED = ROOT / "tests" / "migrate" / "refused"
NAMES = sorted(path.name.removesuffix(".before.yaml") for path in CORPUS.glob("*.before.yaml"))

ROWS = {
    "`apiVersion: noetl.io/v10` and `v1`": "v10_version v1_version v10_executor",
    "`{name, kind}` tasks, `set_ctx` of a step": "v10_named_tasks v10_step_state_of_outcome v10_state_without_tool",
    "`else` and directives without `then`": "v10_rules_without_then v10_else_above_then else_with_set",
    "`args` and `input` of a step": "v10_step_args step_input",
    "`result` and `output` with options of a step": "v10_result_options step_output_options",
    "the classic dialect of v10": "v10_classic",
    "`input` of a task": "task_input input_below_args workbook workbook_assert",
    "`output.status`, `.error`, `.http` in rules": "output_in_rules",
    "`output.data` in rules and patches": "output_data",
    "`output` on arcs": "arc_output arc_output_is_none",
    "`then.set`": "rule_set rule_set_without_do",
    "`set` of a task": "task_set task_set_after_error task_set_without_else task_set_beside_ctx nested_tasks",
    "`set` of a step": "step_set step_set_keys step_set_of_pipeline step_set_beside_break step_set_whole_output",
    "`NAME.results.LABEL`": "task_results",
    "`next_mode`, `next` without arcs, classic loops": "v10_routing",
    "options of a loop outside its `spec`": "loop_options",
    "`set` of an arc": "arc_set",
    "`backoff: fixed`, the backoff of classic retries": "backoff_fixed v10_classic_retry",
    "inputs under `spec`, options beside `kind`": "inputs_under_spec options_at_the_task",
    "`tool: KIND` with its inputs at the step": "inputs_at_the_step child_at_the_step",
    "http `payload`, `data`, `endpoint`, `timeout`, `verify_ssl`": "http_names",
    "playbook `return_step`, `timeout`, `payload`": "child_playbook return_step_of_calls",
    "`return_step` of the executor": "return_step return_step_is_last return_step_of_a_branch",
    "postgres `pool`, `credential`, `statement`; nats `value`": "postgres_names nats_value",
    "a list of SQL statements": "list_of_commands",
    "`auth` without a keychain": "auth_names auth_from_workload auth_maps",
    "`job.uuid`, `job.execution_id`, `loop_index`": "job_ids loop_index",
    "`input_data` in code": "input_data main_of_input_data",
    "`return` in code, `libs` with `from`": "top_level_return return_beside_result libs_from_import",
    "`command_N`": "command_results",
    "quotes by hand, `$${{ }}$$`, a whole statement": "quoted_sql quotes_in_code whole_statement",
}
"""Rows of the mapping, each with the playbooks that have it."""

RESULTS: dict[str, Any] = {
    "arc_output": "good 7",
    "arc_output_is_none": ["good", None, 7],
    "arc_set": "ada reviews 70 (slow)",
    "command_results": "2 1",
    "else_with_set": "4 5",
    "input_below_args": 4,
    "input_data": 3,
    "inputs_at_the_step": 6,
    "inputs_under_spec": 16,
    "job_ids": True,
    "libs_from_import": ['["2026-11-17", 3.0]', 4.0],
    "list_of_commands": [1, 2],
    "loop_index": "0a 1b",
    "main_of_input_data": 3,
    "nested_tasks": [30, 30],
    "options_at_the_task": 5,
    "return_beside_result": [None, None],
    "return_step": 6,
    "return_step_is_last": 2,
    "return_step_of_a_branch": None,
    "quoted_sql": {"name": "it's here", "a": "b'c", "dollars": "it's here", "tagged": "<it's here>"},
    "rule_set": "3 12",
    "step_input": 4,
    "step_output_options": 3,
    "step_set_beside_break": "0 0",
    "step_set_whole_output": "ok 5",
    "task_results": "True False",
    "rule_set_without_do": 4,
    "v10_classic_retry": 9,
    "v10_executor": 1,
    "loop_options": [2, 4, 6],
    "v10_routing": "0a1b",
    "workbook_assert": "hot",
    "step_set": "[1, 10, 2, 20, 3, 30] 3",
    "step_set_keys": "5 red 2",
    "step_set_of_pipeline": "1 2 ok 2",
    "task_input": "ADA, GRACE",
    "task_set": ["ok", 3, 3],
    "task_set_beside_ctx": [1, 2],
    "task_set_after_error": [6.0, None],
    "task_set_without_else": 1,
    "top_level_return": {"half": 2, "lines": 2},
    "v10_classic": 4,
    "v10_else_above_then": 1,
    "v10_named_tasks": "24 of 12",
    "v10_result_options": 5,
    "v10_rules_without_then": 3,
    "v10_state_without_tool": "1 0",
    "v10_step_args": "BERLIN in kelvin",
    "v10_step_state_of_outcome": "error: python",
    "v10_version": "hello world",
    "v1_version": "done",
    "whole_statement": 42,
    "workbook": 42,
}
"""What the rewritten playbooks give, of all that need no other server."""

NOTES = {
    "auth_from_workload": ["10:7 `auth` was the input 'pg_auth' and is now its default 'shop_db'"],
    "child_at_the_step": ["10:5 `return_step` was dropped: the result is that of the last step"],
    "child_playbook": ["14:7 `return_step` was dropped: the result is that of the last step"],
    "list_of_commands": ["13:11 the whole statement is a template and is spliced with `raw_sql`"],
    "postgres_names": ["9:7 `pool` was dropped"],
    "quotes_in_code": ["9:7 the code doubles quotes"],
    "return_step_is_last": ["6:10 `return_step` was dropped: the result is that of the last step"],
    "return_step_of_calls": [
        "6:5 `return_step` was dropped: the result is that of the last step",
        "13:14 `return_step` was dropped: the result is that of the last step",
    ],
    "v10_executor": ["5:3 `profile: auto` was dropped"],
    "workbook_assert": ["12:5 `assert` of a workbook entry was dropped"],
    "step_output_options": ["10:5 `output` with options of the result was dropped"],
    "v10_result_options": ["10:5 `result` with options of the result was dropped"],
    "whole_statement": ["7:26 the whole statement is a template and is spliced with `raw_sql`"],
}


HEAD = "apiVersion: noetl.io/v10\nkind: Playbook\nmetadata: {name: n, path: t/n}\n"


def before(name: str) -> str:
    return (CORPUS / f"{name}.before.yaml").read_text()


def kind_named(name: str) -> Kind:
    kind = KINDS.get(name)
    assert kind is not None
    return kind


def comments(text: str) -> list[str]:
    layout = YamlLayout(text.replace("\r\n", "\n"))
    return sorted(layout.behind(offset).strip() for offset in layout.comments.values())


def test_the_corpus_has_every_row_of_the_mapping() -> None:
    assert sorted(name for names in ROWS.values() for name in names.split()) == NAMES
    assert len(NAMES) >= 40


@for_each("name", NAMES)
def test_a_playbook_of_the_corpus_becomes_the_expected_text(name: str) -> None:
    migration = migrate("p.yaml", before(name), KINDS)
    assert (migration.leftovers, migration.changed) == ([], True)
    assert migration.text == (CORPUS / f"{name}.after.yaml").read_text()
    assert comments(migration.text) == comments(before(name))
    notes = [f"{note.line}:{note.column} {note.message}" for note in migration.notes]
    assert notes == NOTES.get(name, [])


@for_each("name", NAMES)
def test_the_rewritten_text_is_canonical_and_stays_as_it_is(name: str) -> None:
    text = (CORPUS / f"{name}.after.yaml").read_text()
    loaded = load("p.yaml", text, KINDS)
    assert loaded.playbook is not None, loaded.problems
    assert loaded.dialect == "canonical"
    assert migrate("p.yaml", text, KINDS) == Migration(text, False, loaded.problems, [], [])


@pytest.mark.parametrize("name", RESULTS)
def test_a_rewritten_playbook_does_what_its_author_meant(name: str) -> None:
    finished = run_playbook((CORPUS / f"{name}.after.yaml").read_text())
    assert (finished.error, finished.status) == (None, "succeeded")
    assert finished.result == RESULTS[name]


@for_each(("name", "result"), [("arc_output", "bad python"), ("arc_output_is_none", ["bad", "python", None])])
def test_an_arc_on_output_sees_the_failure(name: str, result: Any) -> None:
    finished = run_playbook((CORPUS / f"{name}.after.yaml").read_text(), {"fail": True})
    assert (finished.status, finished.result) == ("succeeded", result)


@for_each("name", sorted(path.stem for path in REFUSED.glob("*.yaml")))
def test_what_cannot_be_rewritten_is_listed_with_place_reason_and_remedy(name: str) -> None:
    text = (REFUSED / f"{name}.yaml").read_text()
    migration = migrate("p.yaml", text, KINDS)
    assert (migration.text, migration.changed, migration.failed) == (text, False, True)
    errors = migration.leftovers or [problem for problem in migration.problems if problem.severity == "error"]
    listed = [
        f"{problem.line}:{problem.column}: {problem.code} {problem.message}\n  = {problem.hint}" for problem in errors
    ]
    assert "\n".join(listed) + "\n" == (REFUSED / f"{name}.txt").read_text()


def test_a_file_with_windows_line_ends_keeps_them_and_its_places() -> None:
    text = before("task_input").replace("\n", "\r\n")
    migration = migrate("p.yaml", "\ufeff" + text, KINDS)
    assert migration.text == "\ufeff" + (CORPUS / "task_input.after.yaml").read_text().replace("\n", "\r\n")
    refused = (REFUSED / "context_in_code.yaml").read_text().replace("\n", "\r\n")
    assert [(problem.line, problem.column) for problem in migrate("p.yaml", refused, KINDS).leftovers] == [(13, 18)]


@pytest.mark.parametrize("style", ['"{}"', "'{}'", "|\n          {}", ">-\n          {}"])
def test_a_problem_of_a_rewritten_template_has_its_place_in_the_text_as_it_was_read(style: str) -> None:
    url = "http://{{ job.uuid }}/{{ job.uuid }}/{{ workload.x | nosuch }}"
    text = f"""\
apiVersion: noetl.io/v10
kind: Playbook
metadata: {{name: p, path: corpus/p}}
workflow:
  - step: work
    tool:
      - name: call
        kind: http
        url: {style.format(url)}
"""
    (problem,) = [problem for problem in migrate("p.yaml", text, KINDS).problems if problem.severity == "error"]
    line = text.splitlines()[problem.line - 1]
    assert (problem.code, line[problem.column - 1 :].startswith("nosuch")) == ("NTL503", True)


def test_a_name_that_the_playbook_declares_is_its_own() -> None:
    text = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: own, path: tests/own}
workload: {output: {data: 1}, job: {uuid: x}, loop_index: 2}
workflow:
  - step: s
    tool: {kind: noop, result: "{{ output.data }} {{ job.uuid }} {{ loop_index }}"}
    next: {arcs: [{step: t, when: "{{ output.data == 1 or output.data is none }}"}]}
  - step: t
    tool: {kind: noop}
"""
    assert migrate("p.yaml", text, KINDS).text == text


@for_each(
    "path", sorted((ROOT / "tests" / "checks").glob("*.yaml")) + sorted((ROOT / "tests" / "kinds").glob("*.yaml"))
)
def test_any_text_is_rewritten_or_listed(path: Path) -> None:
    migration = migrate("p.yaml", path.read_bytes(), KINDS)
    if migration.changed:
        assert load("p.yaml", migration.text, KINDS).playbook is not None
    else:
        assert migration.failed or load("p.yaml", path.read_bytes(), KINDS).dialect == "canonical"


@for_each("path", sorted((ROOT / "examples").glob("*.yaml")))
def test_a_canonical_example_comes_back_as_it_is(path: Path) -> None:
    if load("p.yaml", path.read_bytes(), KINDS).dialect == "canonical":
        assert migrate("p.yaml", path.read_bytes(), KINDS).text == path.read_text()


@for_each(
    "part",
    [
        "workflow: [1, {step: 2}, {step: s, tool: 3}, {step: t, tool: [4, {x: 5}], set: 6, next: 7}]",
        "workflow: [{step: s, tool: {kind: python, input: 1, set: [], libs: {a: {}}, code: 2, spec: 3}}]",
        "workflow: [{step: s, tool: {kind: noop, spec: {policy: {rules: [1, {else: 2}, {then: 3}]}}}}]",
        "workflow: [{step: s, loop: 1, set: {}, set_ctx: {a: '{{ ('}, next: {arcs: [1, {set: {a: 1}}]}}]",
        "workflow: [{step: s, tool: {kind: postgres, auth: [1], command: 2, pool: {}, timeout: {}}}]\nworkbook: [1]",
        "keychain: 3\nworkload: 4\nworkflow: [{step: s, tool: {kind: postgres, auth: a, query: SELECT 1}}]",
        "workflow: [{step: s, tool: {kind: [1]}}, {step: t, tool: {kind: {a: 1}}}]\nworkbook: [{name: {}, tool: {}}]",
        "workflow: {}",
    ],
)
def test_a_malformed_document_is_reported_and_never_crashes(part: str) -> None:
    text = f"{HEAD}{part}\n"
    assert migrate("p.yaml", text, KINDS).failed
    assert migrate("p.yaml", text.replace("metadata: {name: n, path: t/n}\n", ""), KINDS).failed


@for_each(
    ("kind", "name"),
    [(kind, name) for kind, names in OTHER_INPUTS.items() for name in sorted({*names, *SIGN_IN})],
)
def test_another_name_of_an_input_is_rewritten_or_listed_at_its_place(kind: str, name: str) -> None:
    own = OTHER_INPUTS[kind].get(name, name)
    declared = fields(kind_named(kind).inputs)
    assert own in declared or name in SIGN_IN
    for value in ("x", "[x]", "{a: x}"):
        text = f"{HEAD}workflow:\n  - step: s\n    tool:\n      kind: {kind}\n      {name}: {value}\n"
        migrated = migrate("p.yaml", text, KINDS)
        errors = migrated.leftovers or [problem for problem in migrated.problems if problem.severity == "error"]
        assert own in declared or (7, 7) in [(problem.line, problem.column) for problem in errors]
        if own in kind_named(kind).sql and value != "{a: x}":
            assert 7 not in [problem.line for problem in errors]


def _places(node: Any) -> Iterator[tuple[Any, Any]]:
    for key in node if isinstance(node, dict) else range(len(node)) if isinstance(node, list) else ():
        yield node, key
        yield from _places(node[key])


def test_a_damaged_playbook_of_the_corpus_never_crashes() -> None:
    chance = random.Random(20261117)
    documents = [yaml.safe_load(before(name)) for name in NAMES]
    values = [None, 1, "x", "{{ output }}", "{{ (", [], {}, [1], {"a": 1}, {"kind": 3}, {"kind": "python"}]
    for _ in range(300):
        document = deepcopy(chance.choice(documents))
        for _ in range(2):
            container, key = chance.choice(list(_places(document)))
            container[key] = deepcopy(chance.choice(values))
        migrate("p.yaml", yaml.safe_dump(document, sort_keys=False), KINDS)


def test_the_command_prints_notes_and_refusals_and_exits_with_3(tmp_path: Path) -> None:
    file = tmp_path / "p.yaml"
    file.write_text(before("child_playbook"))
    done = CliRunner().invoke(verb.migrate_command, [str(file), "--write"])
    assert done.exit_code == 0
    assert "warning NTL603: `return_step` was dropped" in done.stderr
    assert file.read_text() == (CORPUS / "child_playbook.after.yaml").read_text()
    file.write_text(text := (REFUSED / "set_of_a_loop.yaml").read_text())
    refused = CliRunner().invoke(verb.migrate_command, [str(file), "--write"])
    assert refused.exit_code == 3
    assert f"{file}:8:5: error NTL602: `set` of a loop step" in refused.stderr
    assert "move it to a step that follows the loop" in refused.stderr
    assert file.read_text() == text
