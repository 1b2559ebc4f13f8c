"""The outline of an execution: what happened, without its events."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest
from api_server import HELLO, WAITS, ApiServer, begun, register, started, until

from noetl.engine.history import outline_fold

API = "/api/v1/executions"
BRANCHES = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: branches, path: tests/branches}
workflow:
  - step: start
    loop: {in: [1, 2, 3], iterator: n, spec: {mode: parallel, on_error: continue}}
    tool: [{work: {kind: python, args: {n: "{{ iter.n }}"}, code: "result = 6 // (n - 2)"}}]
    next: {spec: {mode: inclusive}, arcs: [{step: left}, {step: never, when: "{{ false }}"}, {step: right}]}
  - {step: left, tool: [{a: {kind: noop}}], next: {arcs: [{step: both}]}}
  - {step: right, tool: [{a: {kind: noop}}], next: {arcs: [{step: both}]}}
  - {step: both, spec: {join: all}, tool: [{a: {kind: noop}}]}
  - {step: never, tool: [{a: {kind: noop}}]}
"""


@pytest.fixture(scope="module", autouse=True)
def _registered(server: ApiServer) -> None:
    with server.client("author") as client:
        for text in (HELLO, WAITS, BRANCHES):
            register(client, text)


def outline_of(client: httpx2.Client, execution: str) -> dict[str, Any]:
    answer = client.get(f"{API}/{execution}/outline")
    assert answer.status_code == 200
    return answer.json()


def test_an_outline_names_step_runs_tokens_arcs_and_loops(admin: httpx2.Client) -> None:
    execution = started(admin, {"path": "tests/branches"})
    outline = outline_of(admin, execution["execution_id"])
    assert (outline["seq"], outline["status"]) == (execution["events"], "succeeded")
    assert outline["started"] <= outline["ended"]
    assert outline["digests"] == [[1, execution["playbook_id"]]]
    runs, steps = outline["runs"], outline["steps"]
    names = [steps[step] for step in runs["step"]]
    assert names[0] == "start"
    assert sorted(names) == ["both", "left", "right", "start"]
    assert set(runs["status"]) == {3}
    lifetimes = zip(runs["scheduled_seq"], runs["started_seq"], runs["ended_seq"], strict=True)
    assert all(0 < scheduled < began < ended for scheduled, began, ended in lifetimes)
    assert min(runs["scheduled_ms"]) >= 0
    assert runs["n"] == [1, 1, 1, 1]
    assert runs["loop"][0] == 0
    joined = names.index("both")
    assert sorted(names[run] for run in runs["from_runs"][joined]) == ["left", "right"]
    (loop,) = outline["loops"]
    assert (loop["run"], loop["total"]) == ("start#1", 3)
    assert (loop["progress"]["ok"][-1], loop["progress"]["failed"][-1]) == (2, 1)
    fired = {(arc["step"], arc["arc"]): arc["fired"] for arc in outline["arcs"]}
    assert fired == {("start", 0): 1, ("start", 2): 1, ("left", 0): 1, ("right", 0): 1}
    tokens = outline["tokens"]
    assert [steps[step] for step in tokens["step"]] == ["start", "left", "right", "both", "both"]
    assert all(tokens["consumed_seq"])
    assert [names[run] for run in outline["critical_path"]][0::2] == ["start", "both"]
    assert sum(outline["histogram"]["events"]) == outline["seq"]
    assert sum(outline["histogram"]["errors"]) >= 1
    assert {marker["kind"] for marker in outline["markers"]} == {"failure"}
    assert outline["by_step"] is None


def test_a_wait_is_open_until_it_is_answered(admin: httpx2.Client) -> None:
    execution = begun(admin, {"path": "tests/waits"})
    until(admin, execution, "waiting")
    outline = outline_of(admin, execution)
    assert outline["status"] == "waiting"
    assert outline["parked"]["to_seq"] == [0]
    assert 2 in outline["runs"]["status"]
    assert outline["ended"] is None


def test_an_outline_is_answered_once_for_each_seq(admin: httpx2.Client) -> None:
    execution = started(admin, {"path": "tests/hello"})["execution_id"]
    url = f"{API}/{execution}/outline"
    tag = admin.get(url).headers["etag"]
    assert admin.get(url, headers={"If-None-Match": tag}).status_code == 304
    assert admin.get(url, headers={"If-None-Match": 'W/"1"'}).status_code == 200


def test_above_the_limit_step_runs_are_counted_by_step(admin: httpx2.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outline_fold, "MAX_RUNS", 2)
    outline = outline_of(admin, started(admin, {"path": "tests/branches"})["execution_id"])
    assert (outline["runs"], outline["parked"], outline["tokens"], outline["critical_path"]) == (None, None, None, [])
    counts = {step["step"]: (step["runs"], step["succeeded"][-1]) for step in outline["by_step"]}
    assert counts == dict.fromkeys(["start", "left", "right", "both"], (1, 1))
    bins = len(outline["histogram"]["events"])
    assert {len(step["active"]) for step in outline["by_step"]} == {bins}


def test_an_unknown_execution_has_no_outline(admin: httpx2.Client) -> None:
    assert admin.get(f"{API}/00000000-0000-7000-8000-000000000009/outline").status_code == 404
