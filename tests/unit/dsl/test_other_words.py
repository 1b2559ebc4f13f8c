"""Words of other engines, and other names of keys and inputs, are reported with the way to write them."""

from __future__ import annotations

from textwrap import dedent

import pytest

from noetl.dsl.compile import Loaded, load
from noetl.dsl.problem import Problem
from noetl.tools.registry import KINDS

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: orders, path: shop/orders}\n"


def problems(body: str, head: str = HEAD) -> list[Problem]:
    return load("orders.yaml", head + dedent(body), KINDS).problems


def hint(problem: Problem) -> str:
    assert problem.hint is not None
    return problem.hint


@pytest.mark.parametrize(
    ("line", "advice"),
    [
        ("depends_on: [first]", "put `next: {arcs: [{step: load}]}` into step 'first'"),
        ("needs: [first, second]", "step 'first' and step 'second'; `spec: {join: all}`"),
        ("retries: 3", "`spec: {retry: 3}`"),
        ("timeout: 5m", "`spec: {timeout: 5m}`"),
        ("on_error: continue", "outcome.status == 'error'"),
        ("inputs: {a: 1}", "args"),
        ("with: {a: 1}", "args"),
        ("outputs: {a: 1}", "steps.NAME.result"),
        ("env: {A: b}", "`keychain`"),
        ("tasks: []", "`tool: [{LABEL: {kind: ...}}]`"),
        ("uses: actions/checkout", "`tool: {kind: ...}`"),
        ("type: http", "`tool: {kind: ...}`"),
        ("script: echo 1", "`tool: {kind: shell, command: ...}`"),
        ("code: x = 1", "`tool: {kind: python, code: ...}`"),
        ("foreach: '{{ workload.files }}'", 'loop: {in: "{{ workload.files }}", iterator: item}'),
        ("on_success: end", "`next: {arcs: [{step: end}]}`"),
        ("pool: big", "`spec: {pool: big}`"),
    ],
)
def test_a_word_on_a_step(line: str, advice: str) -> None:
    (problem,) = problems(f"workflow:\n  - step: load\n    {line}\n    tool: [{{call: {{kind: noop}}}}]\n")
    assert (problem.code, problem.line, problem.column) == ("NTL101", 6, 5)
    assert advice in hint(problem)


@pytest.mark.parametrize(
    ("place", "advice"),
    [
        ("executor: {spec: {retries: 2}}", "write `retry: 2`"),
        ("executor: {spec: {concurrency: 4}}", "`loop: {in: ..., iterator: item, spec: {mode: parallel"),
        ("step: {spec: {max_retries: 2}}", "write `retry: 2`"),
        ("step: {spec: {timeout_seconds: 90}}", "write `timeout: 90`"),
        ("step: {spec: {when: '{{ true }}'}}", "put it on the arc that leads here"),
        ("step: {spec: {on_failure: continue}}", "outcome.status == 'error'"),
        (
            "step: {loop: {in: [1], iterator: x, spec: {concurrency: 4}}}",
            "write `mode: parallel` and `max_in_flight: 10`",
        ),
        ("step: {loop: {in: [1], iterator: x, spec: {timeout: 5s}}}", "for one item"),
        ("executor: {return_step: end}", 'write `executor: {spec: {output: "{{ steps.end.result }}"}}`'),
        ("executor: {spec: {return_step: sum-up}}", """{output: "{{ steps['sum-up'].result }}"}"""),
        ("task: {retries: 3}", "write `retry: 3`"),
        ("task: {on_error: continue}", "outcome.status == 'error'"),
        ("task: {if: '{{ true }}'}", "{do: skip}"),
        ("task: {env: {A: b}}", "`keychain`"),
        ("rule: {if: '{{ true }}'}", "write `when`"),
        ("rule: {attempts: 3}", "put it into `then`"),
        ("then: {retries: 3}", "write `attempts`"),
        ("then: {retry: {delay: 1}}", "write `do: retry` and `attempts: 3`"),
    ],
)
def test_a_word_in_a_spec_or_a_rule(place: str, advice: str) -> None:
    part, _, value = place.partition(": ")
    keys = value[1:-1]
    then = f"{{do: retry{', ' + keys if part == 'then' else ''}}}"
    rule = f"{{when: '{{{{ true }}}}', then: {then}{', ' + keys if part == 'rule' else ''}}}"
    policy = f"policy: {{rules: [{rule}, {{else: {{then: {{do: fail}}}}}}]}}"
    task = f"{{kind: noop, spec: {{{keys if part == 'task' else policy}}}}}"
    head = f"executor: {value}\n" if part == "executor" else ""
    step = f"{{step: load, {keys + ', ' if part == 'step' else ''}tool: [{{call: {task}}}]}}"
    (problem,) = problems(f"{head}workflow:\n  - {step}\n")
    assert problem.code == "NTL101"
    assert advice in hint(problem)


@pytest.mark.parametrize(
    ("task", "advice"),
    [
        ("{kind: noop, retry: 3}", "write `spec: {retry: 3}`"),
        ("{kind: noop, retry: {max_attempts: 3, delay: 2}}", "write `spec: {retry: {attempts: 3, delay: 2}}`"),
        ("{kind: noop, timeout: 30s}", "`spec: {timeout: 30s}`"),
        ("{kind: noop, when: '{{ true }}'}", "{do: skip}"),
        ("{kind: noop, depends_on: [a]}", "in the order of the list"),
        ("{kind: python, code: x = 1, input: {a: 1}}", "args"),
        ("{kind: python, code: x = 1, env: {a: 1}}", "args"),
        ("{kind: python, script: x = 1}", "write `code`"),
        ("{kind: http, endpoint: 'http://x.example'}", "write `url`"),
        ("{kind: http, url: 'http://x.example', payload: {a: 1}}", "write `json`"),
        ("{kind: http, url: 'http://x.example', data: {a: 1}}", "write `json`"),
        ("{kind: http, url: 'http://x.example', verify_ssl: false}", "write `tls: {verify: false}`"),
        ("{kind: http, url: 'http://x.example', method: get}", "did you mean 'GET'?"),
        ("{kind: duckdb, statement: SELECT 1}", "write `query`"),
        ("{kind: duckdb, commands: SELECT 1}", "write `command`"),
        ("{kind: playbook, path: shop/child, payload: {a: 1}}", "args"),
        ("{kind: playbook, path: shop/child, return_step: end}", "steps.NAME.result"),
        ("{kind: python, spec: {code: x = 1}}", "write `code` beside `kind`"),
        ("{type: http, url: 'http://x.example'}", "write `kind` instead of `type`"),
        ("postgres", "write `tool: {kind: postgres, ...}`"),
    ],
)
def test_a_word_on_a_task(task: str, advice: str) -> None:
    (problem,) = problems(f"workflow:\n  - step: load\n    tool: {task}\n")
    assert problem.line == 6
    assert advice in hint(problem)


@pytest.mark.parametrize(
    ("then", "advice"),
    [
        ("do: retry, backoff: fixed", "write `none`"),
        ("do: retry, max_attempts: 3", "write `attempts`"),
        ("do: continue, set: {ctx.a: 1}", "`set_ctx: {NAME: ...}`"),
        ("do: ignore", "write `continue`"),
    ],
)
def test_a_word_in_a_rule(then: str, advice: str) -> None:
    rules = f"[{{when: '{{{{ true }}}}', then: {{do: fail}}}}, {{else: {{then: {{{then}}}}}}}]"
    (problem,) = problems(f"workflow: [{{step: load, tool: {{kind: noop, spec: {{policy: {{rules: {rules}}}}}}}}}]\n")
    assert advice in hint(problem)


@pytest.mark.parametrize(
    ("line", "advice"),
    [
        ("retry: {attempts: 3}", "write `max_attempts`"),
        ("retry: {max_delay: 3}", "write `backoff: {max_delay_seconds: ...}`"),
        ("retry: {backoff: fixed}", "write `backoff: {type: fixed}`"),
        ("needs: [first]", "put `next: load` into step 'first'"),
        ("on_success: end", "write `next: end`"),
    ],
)
def test_a_word_in_the_classic_dialect(line: str, advice: str) -> None:
    (problem,) = problems(f"workflow:\n  - {{step: load, {line}, vars: {{a: 1}}, tool: {{kind: noop}}}}\n")
    assert advice in hint(problem)


@pytest.mark.parametrize(
    ("body", "advice"),
    [
        ("workflow: {load: {tool: {kind: noop}}}\n", "write `- step: NAME` for each"),
        ("workflow: [{step: load, tool: {kind: bash, command: ls}}]\n", "write `kind: shell`"),
        ("workflow: [{step: load, tool: {kind: sleep, seconds: 5}}]\n", "arcs: [{step: NAME, spec: {delay: 10s}}]"),
        ("workflow: [{step: load, next: {arcs: [{to: load}]}}]\n", "write `step: load`"),
        (
            "keychain: {a: {kind: bearer}}\nworkflow: [{step: a, tool: {kind: noop}}]\n",
            "write `- {name: NAME, kind: KIND}`",
        ),
        ("workload: [{name: a}]\nworkflow: [{step: a, tool: {kind: noop}}]\n", "write `NAME: DEFAULT`"),
    ],
)
def test_another_shape_or_name(body: str, advice: str) -> None:
    (problem,) = problems(body)
    assert advice in hint(problem)


def test_other_names_of_the_parts_of_a_loop() -> None:
    loop = "{items: '{{ workload.files }}', item: file, concurrency: 3}"
    result = problems(
        f"workload: {{files: []}}\nworkflow: [{{step: load, loop: {loop}, tool: [{{a: {{kind: noop}}}}]}}]\n"
    )
    assert [hint(problem).partition(":")[0] for problem in result] == ["write `in`", "write `iterator`", "write `spec"]


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("env.HOME", "`keychain`"),
        ("outputs.x", "steps.NAME.result"),
        ("output.status", "outcome"),
        ("inputs.y", "workload"),
        ("loop_index", "iter.index"),
        ("job.uuid", "execution_id"),
    ],
)
def test_a_name_in_a_template(name: str, advice: str) -> None:
    body = f"workload: {{jobId: 1}}\nworkflow:\n  - step: load\n    tool: {{kind: noop, result: '{{{{ {name} }}}}'}}\n"
    (problem,) = problems(body)
    assert (problem.code, problem.line) == ("NTL502", 7)
    assert advice in hint(problem)


def test_a_kestra_flow() -> None:
    flow = """\
        id: load
        namespace: company
        inputs: [{id: day, type: DATE}]
        tasks:
          - {id: get, type: io.kestra.plugin.core.http.Download, uri: "{{ inputs.day }}"}
        triggers: [{id: daily, type: io.kestra.plugin.core.trigger.Schedule, cron: "0 6 * * *"}]
        """
    result = {problem.message.partition("'")[2].partition("'")[0]: hint(problem) for problem in problems(flow, "")}
    assert list(result) == ["id", "namespace", "inputs", "tasks", "triggers"]
    assert "apiVersion: noetl.io/v2" in result["tasks"]
    assert "workflow: [{step: NAME" in result["tasks"]
    assert result["inputs"] == "declare inputs with their defaults in `workload`"
    assert "noetl schedule add" in result["triggers"]


@pytest.mark.parametrize("text", ["dag_id: etl\ntasks: [{task_id: a}]\n", "name: CI\non: [push]\njobs: {build: {}}\n"])
def test_what_such_a_document_lacks_is_not_reported_one_by_one(text: str) -> None:
    assert {problem.code for problem in problems(text, "")} == {"NTL101"}


def test_a_collection_without_braces_does_not_hide_the_iterator() -> None:
    (problem,) = problems(
        """\
        workload: {files: [a]}
        workflow:
          - step: load
            loop: {in: workload.files, iterator: file}
            tool: {kind: noop, result: "{{ iter.file }}{{ file }}"}
        """
    )
    assert (problem.code, problem.line, problem.hint) == ("NTL103", 7, 'write "{{ workload.files }}"')


def test_a_map_is_not_a_collection() -> None:
    (problem,) = problems(
        "workflow: [{step: load, loop: {in: {a: 1}, iterator: file}, tool: [{call: {kind: noop}}]}]\n"
    )
    assert "| items }}" in hint(problem)


@pytest.mark.parametrize(
    ("then", "advice"), [("[{step: end}]", "`next: {arcs: [{step: end, when:"), ("fail", "write `then: {do: fail}`")]
)
def test_a_then_that_is_no_map(then: str, advice: str) -> None:
    rule = f"{{when: '{{{{ true }}}}', then: {then}}}"
    (problem,) = problems(f"workflow: [{{step: load, tool: {{kind: noop, spec: {{policy: {{rules: [{rule}]}}}}}}}}]\n")
    assert advice in hint(problem)


def test_a_step_in_a_chain() -> None:
    case = "case: [{when: true, then: [{step: end}]}]"
    (problem,) = problems(f"workflow:\n  - step: load\n    tool: {{kind: noop}}\n    {case}\n")
    assert hint(problem) == "write `- next: {to: [{step: end}]}`"


@pytest.mark.parametrize(
    ("version", "advice"),
    [
        ("v1", "the text may be the same: set noetl.io/v2, or run `noetl migrate orders.yaml`"),
        ("v10", "the text may be the same: set noetl.io/v2, or run `noetl migrate orders.yaml`"),
        ("v3", "set noetl.io/v2; `noetl migrate` reads only noetl.io/v1 and noetl.io/v10 besides"),
    ],
)
def test_another_version_of_the_language(version: str, advice: str) -> None:
    (problem,) = problems("workflow: [{step: load, tool: {kind: noop}}]\n", HEAD.replace("v2", version))
    assert (problem.code, problem.line) == ("NTL104", 1)
    assert hint(problem) == advice


@pytest.mark.parametrize(
    ("body", "place", "message"),
    [
        ("workflow:\n  - step: a\n   tool: 1\n", (6, 4), "this line does not fit the list that starts at line 5"),
        ("workflow:\n  - step: a\n  tool: 1\n", (6, 3), "this line does not fit the list that starts at line 5"),
        ("workload:\n  a: 1\n b: 2\n", (6, 2), "this line does not fit the map that starts at line 1"),
    ],
)
def test_indentation_is_explained_in_plain_words(body: str, place: tuple[int, int], message: str) -> None:
    (problem,) = problems(body)
    assert (problem.line, problem.column) == place
    assert problem.message.startswith(message)
    assert "spaces" in hint(problem)


def errors_of(loaded: Loaded) -> list[Problem]:
    return [problem for problem in loaded.problems if problem.severity == "error"]


@pytest.mark.parametrize(("word", "ours"), [("ignore", "continue"), ("abort", "fail"), ("collect", "collect")])
@pytest.mark.parametrize("more", ["", "    case: [{when: true, then: {next: [{step: s}]}}]\n"])
def test_the_remedy_for_an_option_of_a_loop_outside_spec_is_valid(word: str, ours: str, more: str) -> None:
    head = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: x, path: x}\nworkflow:\n  - step: s\n"
    text = f"{head}    loop: {{in: [1], iterator: n, on_error: {word}}}\n    tool: {{kind: noop}}\n{more}"
    (problem,) = errors_of(load("x.yaml", text, KINDS))
    remedy = f"spec: {{on_error: {ours}}}"
    assert problem.hint == f"move it under `spec`: `{remedy}`"
    assert errors_of(load("x.yaml", text.replace(f"on_error: {word}", remedy), KINDS)) == []


def test_the_command_in_a_remedy_names_the_file() -> None:
    text = HEAD + "workflow: [{step: a, next: b}, {step: b}]\n"
    (problem,) = errors_of(load("my book.yaml", text, KINDS, strict=True))
    assert problem.hint == "rewrite it with `noetl migrate 'my book.yaml'`"
