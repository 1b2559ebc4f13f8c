"""What the built-in kinds take: documented, and enough for every tool block of the seeds."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.table import for_each

from noetl.model.inputs import fields, misfit, rows
from noetl.model.kind import Kind
from noetl.testing import run_playbook
from noetl.tools.registry import BUILTIN, builtin

PYPROJECT = Path(__file__).parents[3] / "pyproject.toml"
EVERY_TASK = {"kind", "spec", "args"}


def kind_of(name: str) -> Kind:
    kind = builtin(name)
    assert kind is not None
    return kind


@pytest.fixture(params=BUILTIN)
def kind(request: pytest.FixtureRequest) -> Kind:
    return kind_of(request.param)


def complaints(block: dict[str, Any]) -> list[str]:
    """What a validator would say about the inputs of a tool block."""
    kind = kind_of(block["kind"])
    known = fields(kind.inputs)
    given = block.keys() - EVERY_TASK
    said = [f"unknown {name}" for name in sorted(given - known.keys())]
    for name in known.keys() & given:
        if (wrong := misfit(known[name].type, block[name])) is not None:
            said.append(": ".join(map(str, (name, *wrong.path, wrong.message))))
    said += [f"{name} is missing" for name, field in known.items() if field.required and name not in given]
    said += [f"one of {group}" for group in kind.one_of if len(given & set(group)) != 1]
    return said


def test_every_input_is_described_in_one_line(kind: Kind) -> None:
    assert kind.summary
    for row in rows(kind):
        assert row.description, f"{kind.name}.{row.name}"
        assert "\n" not in row.description
        assert not row.description.endswith(".")


def test_the_model_refuses_keys_it_does_not_know(kind: Kind) -> None:
    assert kind.inputs.__struct_config__.forbid_unknown_fields


def test_what_a_kind_says_about_its_inputs_names_inputs(kind: Kind) -> None:
    known = {row.name for row in rows(kind)}
    assert {*kind.sql, *kind.verbatim, *(name for group in kind.one_of for name in group)} <= known


def test_inputs_do_not_shadow_the_keys_of_every_task(kind: Kind) -> None:
    shared = EVERY_TASK | ({"name"} if kind.name != "workbook" else set())
    assert not shared & fields(kind.inputs).keys()


def test_extras_exist(kind: Kind) -> None:
    extras = tomllib.loads(PYPROJECT.read_text("utf-8"))["project"]["optional-dependencies"]
    assert kind.extra is None or kind.extra in extras


@pytest.mark.parametrize(
    ("names", "seconds"),
    [
        (["http"], 60),
        (["postgres", "duckdb", "snowflake"], 300),
        (["python", "shell", "script", "container"], 3600),
        (["noop", "workbook", "playbook", "iterator", "wait"], None),
    ],
)
def test_default_time_limits(names: list[str], seconds: float | None) -> None:
    assert {kind_of(name).timeout for name in names} == {seconds}


@pytest.mark.parametrize(
    ("name", "result", "outcome"),
    [
        ("http", "data", "http"),
        ("postgres", "rows", "pg"),
        ("duckdb", "rows", "duckdb"),
        ("python", "value", "py"),
    ],
)
def test_results_and_outcomes(name: str, result: str, outcome: str) -> None:
    assert (kind_of(name).result, kind_of(name).outcome) == (result, outcome)


SEEDS = """
- {kind: python, auth: {}, libs: {}, args: {}, code: 'result = {"status": "initialized"}'}
- {kind: python, args: {current_item: "{{ item }}"}, code: 'result = {"processed": current_item}'}
- {kind: http, method: GET, url: "https://api.weather.com/forecast", params: {city: "{{ city }}"}}
- {kind: http, method: GET, url: "{{ workload.api_url }}"}
- kind: http
  method: POST
  url: "https://api.example.com/notify"
  body: {user_id: "{{ vars.user_id }}", email: "{{ vars.email }}"}
- kind: http
  method: POST
  url: "{{ workload.api_url }}/email"
  body: {template: welcome, to: "{{ email }}"}
- {kind: http, url: "{{ fraud_check_api }}"}
- kind: http
  spec: {timeout: {connect: 5, read: 15}, policy: {rules: []}}
  method: GET
  url: "{{ workload.api_url }}{{ iter.endpoint.path }}"
  params: {page: "{{ iter.page }}", pageSize: "{{ iter.endpoint.page_size }}"}
- {kind: postgres, query: "SELECT * FROM users WHERE id = {{ workload.user_id }}"}
- {kind: postgres, command: "SELECT * FROM orders WHERE id = {{ order_id }}"}
- {kind: postgres, auth: pg_k8s, command: "INSERT INTO ..."}
- {kind: postgres, table: results, args: {id: "{{ result.id }}"}}
- {kind: duckdb, table: results, args: {id: "{{ result.id }}"}}
- kind: postgres
  spec: {timeout: 30s, retry: 3, async: true}
  auth: "{{ credential_ref }}"
  command: "..."
- kind: shell
  spec: {timeout: 30s, retry: 3, async: true}
  auth: "{{ credential_ref }}"
  command: "..."
- {kind: workbook, name: send_welcome_email, args: {email: "{{ vars.user_email }}"}}
- {kind: noop, spec: {policy: {rules: []}}}
"""

OTHERS = """
- {kind: noop, result: null}
- {kind: http, url: "https://x", tls: {verify: false, ca: /etc/ca.pem}, headers: {X-Page: 3, X-Dry: true}}
- {kind: http, url: "https://x", params: {id: [1, 2], q: null}, follow_redirects: "{{ workload.follow }}"}
- {kind: http, method: POST, url: "https://x", files: {a: a.csv, b: {content: "{{ _prev }}"}}}
- {kind: http, method: POST, url: "https://x", json: [1, 2]}
- {kind: postgres, auth: pg, table: t, columns: [a, b], rows: [[1, 2], [3, 4]]}
- {kind: postgres, auth: {dsn: "{{ keychain.pg.dsn }}"}, query: "SELECT %s", params: [1]}
- {kind: duckdb, database: data.duckdb, paths: [data], query: "SELECT * FROM 'data/x.parquet'"}
- {kind: snowflake, auth: sf, warehouse: w, database: d, schema: s, role: r, query: SELECT 1, params: {a: 1}}
- {kind: python, code: pass, libs: {pd: pandas}}
- {kind: python, code: pass, libs: [pandas]}
- {kind: shell, cmds: echo hello, env: {A: 1, B: null}, cwd: /tmp, stdin: text}
- {kind: shell, cmds: [echo hello, [ls, -l]]}
- {kind: script, path: job.sh, argv: [1, two], interpreter: [bash, -eu]}
- {kind: script, ref: "{{ steps.build.result }}"}
- {kind: playbook, path: flows/child, version: 3, args: {a: 1}}
- {kind: iterator, in: "{{ iter.pages }}", iterator: page, tool: [{save: {kind: noop}}]}
- {kind: iterator, in: [1, 2], iterator: page, tool: {kind: noop}}
- {kind: wait, signal: approved, spec: {timeout: 2h}}
- {kind: secrets, provider: google, key: projects/p/secrets/s, map: {token: value}}
- kind: container
  image: python:3.12
  command: [python, -c, "print(1)"]
  mounts: ["data:/data:ro", {source: /srv, target: /srv, read_only: true}]
  limits: {memory: 512m, cpus: 1, pids: 50}
  user: 1000
  pull: always
- {kind: gcs, operation: put, bucket: b, key: k, data: {a: 1}, content_type: application/json}
- {kind: s3, operation: copy, bucket: b, key: k, destination: "s3://other/k", endpoint: "http://minio:9000"}
- {kind: object, operation: list, url: "file:///data", prefix: 2024/, limit: 10}
- {kind: nats, operation: kv_put, bucket: b, key: k, data: text, revision: 0, auth: nats}
- kind: transfer
  source: {kind: postgres, auth: pg, query: "SELECT * FROM t WHERE day = {{ day }}"}
  target: {kind: file, path: out.parquet}
  batch_size: 500
- {kind: quantum, operation: submit, circuit: OPENQASM 3;, shots: 100, parameters: {theta: 1}, seed: 7}
"""


@for_each("block", yaml.safe_load(SEEDS) + yaml.safe_load(OTHERS))
def test_what_people_write_is_accepted(block: dict[str, Any]) -> None:
    assert complaints(block) == []


@pytest.mark.parametrize(
    ("block", "says"),
    [
        ("{kind: http}", ["url is missing"]),
        ("{kind: http, url: http://x, methode: GET}", ["unknown methode"]),
        ("{kind: http, url: http://x, tls: {verify: 'no'}}", ["tls: verify: expected yes/no, found the text 'no'"]),
        ("{kind: postgres, auth: pg}", ["one of ('command', 'query', 'table')"]),
        ("{kind: postgres, query: SELECT 1, table: t}", ["one of ('command', 'query', 'table')"]),
        ("{kind: wait, signal: s, timeout: 5}", ["unknown timeout"]),
        ("{kind: transfer, source: {}, target: {kind: file}}", ["source: 'kind' is missing"]),
    ],
)
def test_what_is_wrong_is_reported(block: str, says: list[str]) -> None:
    assert complaints(yaml.safe_load(block)) == says


@pytest.mark.parametrize(
    ("task", "column", "name"),
    [
        ('{kind: duckdb, table: "{{ workload.t }}", rows: [{a: 1}]}', 34, "table"),
        ('{kind: script, path: "{{ workload.t }}"}', 33, "path"),
        ('{kind: wait, signals: "{{ workload.t }}"}', 34, "signals"),
    ],
)
def test_a_choice_of_inputs_that_is_null_is_named_with_its_place(task: str, column: int, name: str) -> None:
    head = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: n, path: n}\nworkload: {t: null}\n"
    error = run_playbook(f"{head}workflow:\n  - step: start\n    tool:\n      - a: {task}\n").error or {}
    assert (error["kind"], error["line"], error["column"]) == ("input", 8, column)
    assert error["message"].endswith(f"the template of `{name}` gives null: give it a value, or a `default(...)`")
