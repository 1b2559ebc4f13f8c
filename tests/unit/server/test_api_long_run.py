"""The past of a long run over the API, on both databases: outlines and snapshots save time, and change no answer."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import apsw
import httpx2
import pytest
from api_server import begun, register, until
from bench.long_run import fill
from shared_store import address_of, server_at
from tests.servers.patience import until as patiently
from tests.servers.postgres import Schema, postgres_fixture, store_schema_fixture  # noqa: F401

from noetl.model.identity import uuid7
from noetl.runtime import committer
from noetl.store.open import open_store

EXECUTION = uuid7(1.0, b"12345678")
API = f"/api/v1/executions/{EXECUTION}"
EVENTS = 33_000
REQUESTS = (
    "/outline",
    "/state?at=3",
    "/state?at=12345",
    f"/state?at={EVENTS - 40}",
    "/explain?step=first",
    "/explain?step=many&limit=3",
    "/explain?step=last",
    "/items?run=many%231&after=4000&limit=20",
    "/items?run=many%231&status=failed",
    "/items/summary?run=many%231",
    "/step-runs",
    "/step-run?run=last%231",
    "/step-run?run=many%231",
    "/step-run?run=many%231&item=5000",
    "/events?view=row&after=20000&limit=50",
    "/events?run=last%231",
    "/events?run=many%231&item=5000&view=row",
)


def answers(address: str) -> dict[str, Any]:
    with closing(server_at(address)) as server, server.client("viewer") as client:
        return {request: _answer(client, request) for request in REQUESTS}


def _answer(client: httpx2.Client, request: str) -> Any:
    answer = client.get(API + request)
    assert answer.status_code == 200, (request, answer.text)
    return answer.json()


def forget(request: pytest.FixtureRequest, address: str) -> None:
    """Delete every block and every snapshot."""
    for table in ("outline", "snapshot"):
        if address.startswith("postgresql:"):
            schema: Schema = request.getfixturevalue("store_schema")
            schema.rows(f"DELETE FROM {table}")
        else:
            with closing(apsw.Connection(address)) as connection:
                connection.execute(f"DELETE FROM {table}")


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_without_outline_and_snapshots_every_answer_is_the_same(
    request: pytest.FixtureRequest, kind: str, tmp_path: Path
) -> None:
    address = address_of(request, kind, tmp_path)
    with closing(open_store(address)) as store:
        assert fill(store, EVENTS, EXECUTION) >= EVENTS - 100
        blocks = store.outline(EXECUTION)
        assert len(blocks) == store.seq(EXECUTION) // 1_000
        assert store.snapshot(EXECUTION) is not None
    before = answers(address)
    forget(request, address)
    assert answers(address) == before
    with closing(open_store(address)) as store:
        assert store.outline(EXECUTION) == blocks


CHILD = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: child, path: tests/past_child}
workflow:
  - {step: start, tool: {kind: noop, result: "{{ workload.n }}"}}
"""
RICH = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: rich, path: tests/past_rich}
workflow:
  - step: start
    tool: {kind: noop}
    next: {spec: {mode: inclusive}, arcs: [{step: work}, {step: turn}, {step: ask}]}
  - step: work
    loop: {in: "{{ range(120) }}", iterator: n, spec: {mode: parallel, max_in_flight: 8, on_error: continue}}
    tool:
      - count:
          kind: noop
          spec:
            policy: {rules: [{else: {then: {do: continue, set_iter: {times: "{{ (iter.times | default(0)) + 1 }}"}}}}]}
      - again:
          kind: noop
          spec: {policy: {rules: [{when: "{{ iter.times < 3 }}", then: {do: jump, to: count}}]}}
      - odd: {kind: noop, result: "{{ 1 // (0 if iter.n % 40 == 7 else 1) }}"}
    next: {arcs: [{step: call, when: "{{ event.name == 'loop.done' }}"}]}
  - step: call
    loop: {in: [1, 2, 3], iterator: n, spec: {mode: parallel}}
    tool: {kind: playbook, path: tests/past_child, args: {n: "{{ iter.n }}"}}
  - step: turn
    tool:
      - t:
          kind: noop
          spec: {policy: {rules: [{else: {then: {do: continue, set_ctx: {turns: {$add: 1}}}}}]}}
    next: {arcs: [{step: turn, when: "{{ ctx.turns < 60 }}"}]}
  - {step: ask, tool: {kind: wait, signal: go}}
"""
CLASSIC = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: classic, path: tests/past_classic}
workflow:
  - step: start
    tool: {kind: noop}
    case:
      - {when: "{{ event.name == 'step.exit' }}", then: {next: [{step: turn}]}}
  - step: turn
    tool: {kind: noop}
    loop: {in: "{{ range(250) }}", iterator: n, mode: sequential}
    next: [{step: end}]
  - {step: end, tool: {kind: noop}}
"""


@pytest.mark.damaged_log("a block of the outline is changed")
@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
@pytest.mark.parametrize("text", [RICH, CLASSIC], ids=["rich", "classic"])
def test_a_run_with_loops_jumps_and_children_needs_no_outline(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, kind: str, text: str, tmp_path: Path
) -> None:
    monkeypatch.setattr(committer, "SNAPSHOT_EVENTS", 300)
    address = address_of(request, kind, tmp_path)
    with closing(server_at(address)) as server, server.client() as client:
        register(client, CHILD)
        execution = begun(client, {"playbook": text})
        until(client, execution, "waiting" if text == RICH else "succeeded")
        if text == RICH:
            patiently(lambda: open_runs(client.get(f"/api/v1/executions/{execution}/outline").json()) == ["ask"])
    before = all_answers(address, execution)
    with closing(open_store(address)) as store:
        blocks = store.outline(execution)
        assert len(blocks) == store.seq(execution) // 1_000 >= 1
        assert text != RICH or store.snapshot_seqs(execution)
    forget(request, address)
    assert all_answers(address, execution) == before
    with closing(open_store(address)) as store:
        assert store.outline(execution) == blocks
        store.put_outline(execution, [(0, blocks[-1][1][:-9])])
    with closing(server_at(address)) as server, server.client() as client:
        violations = client.get(f"/api/v1/executions/{execution}/verify").json()["violations"]
    assert {violation["invariant"] for violation in violations} == {"outline"}


def open_runs(outline: dict[str, Any]) -> list[str]:
    """The steps that are under way."""
    runs = outline["runs"]
    opened = [step for step, ended in zip(runs["step"], runs["ended_seq"], strict=True) if not ended]
    return [outline["steps"][step] for step in opened] if "call" in outline["steps"] else ["call"]


def all_answers(address: str, execution: str) -> dict[str, Any]:
    """What the API answers about a run and its step runs, now and at earlier events."""
    with closing(server_at(address)) as server, server.client("viewer") as client:

        def get(path: str) -> Any:
            answer = client.get(f"/api/v1/executions/{execution}/{path}")
            assert answer.status_code == 200, (path, answer.text)
            return answer.json()

        outline = get("outline")
        paths = ["step-runs", "step-runs?status=failed", "related", "events?level=step&view=row"]
        paths += [f"state?at={seq}" for seq in range(1, outline["seq"], 211)]
        paths += [f"explain?step={step}" for step in outline["steps"]]
        paths += [f"step-run?run={step}%231" for step in outline["steps"]]
        for loop in outline["loops"]:
            run = loop["run"].replace("#", "%23")
            for at in ("", "&at=900"):
                paths += [f"items?run={run}{at}", f"items?run={run}&status=failed{at}", f"items/summary?run={run}{at}"]
            paths += [f"step-run?run={run}&item={item}" for item in (0, 2)]
        return {"outline": outline} | {path: get(path) for path in paths}
