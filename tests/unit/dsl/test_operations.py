"""The inputs of kinds with operations: validation refuses what a call would refuse, and nothing else."""

from __future__ import annotations

import pytest

from noetl.dsl.compile import load
from noetl.tools.registry import KINDS

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: orders, path: shop/orders}\nworkload: {x: a}\n"


def found(task: str, spec: str = "{}") -> list[tuple[str, str, int]]:
    text = f"{HEAD}executor: {{spec: {spec}}}\nworkflow:\n  - step: start\n    tool: {{{task}}}\n"
    return [(problem.code, problem.message, problem.column) for problem in load("p.yaml", text, KINDS).problems]


@pytest.mark.parametrize(
    ("task", "message", "place"),
    [
        ("kind: nats, operation: kv_get, bucket: b, key: k, data: 1", "kv_get takes no `data`", "data:"),
        ("kind: nats, operation: kv_get, bucket: b, key: k, data: '{{ x }}'", "kv_get takes no `data`", "data:"),
        ("kind: nats, operation: request, subject: s, stream: t", "request takes no `stream`", "stream:"),
        ("kind: nats, operation: publish, subject: s", "publish needs `data`", "publish"),
        ("kind: nats, operation: kv_keys", "kv_keys needs `bucket`", "kv_keys"),
        ("kind: s3, bucket: bb, operation: list, key: a", "list takes no `key`", "key:"),
        ("kind: gcs, bucket: bb, operation: get", "get needs `key`", "get"),
        ("kind: gcs, bucket: bb, operation: put, key: a", "put needs either `data` or `file`", "put"),
        ("kind: s3, bucket: bb, operation: put, key: a, data: 1, file: f", "put needs either `data` or `file`", "put,"),
        ("kind: object, url: 's3://bb', operation: copy, key: a", "copy needs `destination`", "copy"),
        ("kind: quantum", "run needs `circuit`", "{kind"),
        ("kind: quantum, circuit: c, job: {id: 1}", "run takes no `job`", "job:"),
        ("kind: quantum, operation: poll, job: '{{ x }}', circuit: c", "poll takes no `circuit`", "circuit:"),
    ],
)  # fmt: skip
def test_inputs_of_another_operation_and_missing_ones_are_refused(task: str, message: str, place: str) -> None:
    line = f"    tool: {{{task}}}"
    assert found(task) == [("NTL221", f"operation {message}", line.index(place) + 1)]


@pytest.mark.parametrize(
    ("task", "spec"),
    [
        ("kind: nats, operation: '{{ x }}', bucket: b, data: 1", "{}"),
        ("kind: nats, operation: kv_get, bucket: b, key: k, subject: '{{ x }}'", "{}"),
        ("kind: nats, operation: kv_get, bucket: b, key: k, subject: null, headers: {}, format: auto", "{}"),
        ("kind: nats, operation: kv_get, key: k", "{nats: {bucket: b}}"),
        ("kind: nats, bucket: b, data: 1", "{nats: {operation: kv_put}}"),
        ("kind: s3, bucket: bb, operation: put, key: a, data: null", "{}"),
        ("kind: s3, bucket: bb, operation: put, key: a, data: 1, file: '{{ x }}'", "{}"),
        ("kind: s3, bucket: bb, operation: list, limit: 3, prefix: ''", "{}"),
        ("kind: quantum, circuit: c, shots: 3", "{}"),
    ],
)
def test_what_a_call_may_accept_is_no_problem(task: str, spec: str) -> None:
    assert [problem for problem in found(task, spec) if problem[0] == "NTL221"] == []
