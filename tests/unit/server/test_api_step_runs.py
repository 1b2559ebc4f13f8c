"""Step runs: pages of them, and the history of one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx2
import pytest
from api_server import ApiServer, begun, register, started, until
from tests.servers.patience import until as patiently

from noetl.engine.history.outline import Block
from noetl.runtime import step_run_pages
from noetl.store.store import Store

API = "/api/v1/executions"
COUNT = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: count, path: tests/count}
workload: {times: 300}
workflow:
  - step: start
    tool: [{a: {kind: noop}}]
    next: {spec: {mode: inclusive}, arcs: [{step: turn}, {step: asks}]}
  - {step: asks, tool: [{ask: {kind: wait, signal: go}}], next: {arcs: [{step: late}]}}
  - {step: late, tool: [{a: {kind: noop}}]}
  - step: turn
    tool:
      - add:
          kind: noop
          spec: {policy: {rules: [{else: {then: {do: continue, set_ctx: {n: {$add: 1}}}}}]}}
    next: {arcs: [{step: turn, when: "{{ ctx.n < workload.times }}"}]}
"""
FLAKY = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: flaky, path: tests/flaky}
workflow:
  - step: start
    tool: [{a: {kind: noop}}]
    next: {arcs: [{step: each, args: {size: 3}}]}
  - step: each
    loop: {in: [5, 0, 7], iterator: n, spec: {mode: parallel, on_error: continue}}
    tool:
      - divide:
          kind: python
          args: {n: "{{ iter.n }}"}
          code: "result = 35 // n"
          spec:
            policy:
              rules:
                - {when: "{{ outcome.status == 'error' }}", then: {do: retry, attempts: 2, delay: 0.01}}
                - {else: {then: {do: continue, set_iter: {half: "{{ iter.n }}"}, set_ctx: {sum: {$add: 1}}}}}
"""
ASKS = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: asks, path: tests/asks}
workflow:
  - step: ask
    tool:
      - before: {kind: noop}
      - either: {kind: wait, signals: [accept, reject]}
      - again: {kind: wait, signal: reason}
      - print: {kind: noop, result: "{{ tasks.either.result.payload.by | upper }} {{ tasks.again.result.text }}"}
    next: {arcs: [{step: each}]}
  - step: each
    loop: {in: [1, 2], iterator: n, spec: {mode: parallel}}
    tool:
      - item: {kind: wait, signal: "go-{{ iter.n }}"}
      - print: {kind: noop, result: "{{ tasks.item.result.amount * 2 }}"}
"""


LONG = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: long, path: tests/long}
workflow:
  - step: work
    loop: {in: "{{ range(600) }}", iterator: n, spec: {mode: parallel, max_in_flight: 2}}
    tool: [{a: {kind: noop}}]
"""


@pytest.fixture(scope="module", autouse=True)
def _registered(server: ApiServer) -> None:
    with server.client("author") as client:
        for text in (COUNT, FLAKY, ASKS):
            register(client, text)


@pytest.fixture(scope="module")
def counted(server: ApiServer) -> str:
    """300 step runs, beside one that waits from the first block to the last, and another one after it."""
    with server.client("admin") as client:
        execution = begun(client, {"path": "tests/count"})
        until(client, execution, "waiting")
        client.post(f"{API}/{execution}/signals", json={"name": "go"})
        assert until(client, execution, "succeeded")["events"] > 2_000
        return execution


def all_runs(client: httpx2.Client, execution: str, **query: Any) -> list[dict[str, Any]]:
    runs, after = [], 0
    while after is not None:
        answer = client.get(f"{API}/{execution}/step-runs", params={"after": after, **query})
        assert answer.status_code == 200, answer.text
        runs += answer.json()["items"]
        after = answer.json()["next"]
    return runs


def step_run(client: httpx2.Client, execution: str, run: str, **query: Any) -> dict[str, Any]:
    answer = client.get(f"{API}/{execution}/step-run", params={"run": run, **query})
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


@pytest.mark.parametrize(("limit", "blocks"), [(37, 200), (1_000, 200), (1_000, 1)])
def test_pages_of_step_runs_agree_with_the_outline(
    admin: httpx2.Client, counted: str, limit: int, blocks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(step_run_pages, "MAX_BLOCKS", blocks)
    outline = admin.get(f"{API}/{counted}/outline").json()
    columns = outline["runs"]
    runs = all_runs(admin, counted, limit=limit)
    assert len(runs) == 303
    for name in columns.keys() - {"waited_ms"}:
        assert [run[name] for run in runs] == columns[name], name
    for name, waited in columns["waited_ms"].items():
        assert [run["waited_ms"][name] for run in runs] == waited, name
    names = [run["run"] for run in runs]
    assert names == [f"{outline['steps'][step]}#{n}" for step, n in zip(columns["step"], columns["n"], strict=True)]
    assert [run["place"] for run in runs] == list(range(303))
    assert [run["senders"] for run in runs] == [[names[place] for place in run["from_runs"]] for run in runs]


def test_step_runs_are_filtered_by_step_and_status(admin: httpx2.Client, counted: str) -> None:
    assert [run["run"] for run in all_runs(admin, counted, step="asks")] == ["asks#1"]
    assert len(all_runs(admin, counted, step="turn", status="succeeded", limit=50)) == 300
    assert all_runs(admin, counted, status="failed") == []
    flaky = started(admin, {"path": "tests/flaky"})["execution_id"]
    assert [(run["run"], run["loop"], run["retries"]) for run in all_runs(admin, flaky)] == [
        ("start#1", -1, 0),
        ("each#1", 0, 1),
    ]


@pytest.mark.parametrize("after", ["end", 2**31 - 1])
@pytest.mark.parametrize("filters", [{}, {"step": "turn", "status": "failed"}])
def test_behind_the_end_of_the_log_there_are_no_step_runs(
    admin: httpx2.Client, counted: str, after: int | str, filters: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is read to find that out: a search through blocks that do not exist would take hours."""
    reads: list[int] = []
    blocks_from = step_run_pages.blocks_from

    def counted_blocks(store: Store, execution: str, number: int) -> Iterator[Block]:
        reads.append(number)
        return blocks_from(store, execution, number)

    monkeypatch.setattr(step_run_pages, "blocks_from", counted_blocks)
    last = admin.get(f"{API}/{counted}/outline").json()["seq"]
    query = {"after": last if after == "end" else after, **filters}
    answer = admin.get(f"{API}/{counted}/step-runs", params=query)
    assert answer.json() == {"items": [], "next": None}
    assert reads == []


def test_a_step_run_that_waited_has_its_wait_and_its_leases(admin: httpx2.Client, counted: str) -> None:
    run = step_run(admin, counted, "asks#1")
    assert (run["status"], run["step"], run["item"], run["loop"]) == ("succeeded", "asks", None, None)
    (wait,) = run["waits"]
    assert (wait["for"], wait["name"], wait["message"]) == ("signal", "go", "Waits for the signal 'go'")
    assert run["scheduled"] <= run["started"] <= wait["since"] <= wait["to"] <= run["ended"]
    assert run["leases"][0]["end_reason"] == "waiting"
    assert all(lease["from"] <= lease["to"] for lease in run["leases"])
    assert run["waited_ms"] > 0
    (task,) = run["tasks"]
    assert (task["label"], task["kind"], task["visit"]) == ("ask", "wait", 1)
    assert run["truncated"] is False


def test_a_wait_for_a_signal_has_the_fields_that_its_playbook_reads(admin: httpx2.Client) -> None:
    execution = begun(admin, {"path": "tests/asks"})

    def send(*names: str) -> None:
        payload = {"amount": 1, "by": "me", "text": "x"}
        for name in names:
            admin.post(f"{API}/{execution}/signals", json={"name": name, "payload": payload})

    def compare(run: str, **query: int) -> list[tuple[str, list[tuple[str, str]]]]:
        waits = step_run(admin, execution, run, **query)["waits"]
        lasting = [{**wait, "message": ""} for wait in waits if wait.pop("to") is None]
        item = query.get("item")
        shown = admin.get(f"{API}/{execution}").json()["waits"]
        assert lasting == [{**wait, "message": ""} for wait in shown if wait["item"] == item]
        return [(wait["name"], [(field["path"], field["type"]) for field in wait["fields"]]) for wait in waits]

    def waits_for(*names: str) -> None:
        shown = f"{API}/{execution}"
        patiently(lambda: {wait["name"] for wait in admin.get(shown).json()["waits"]} == set(names))

    by, text, amount = (("by", "string"), ("text", "any"), ("amount", "number"))
    waits_for("accept", "reject")
    assert compare("ask#1") == [("accept", [by]), ("reject", [by])]
    send("reject")
    waits_for("reason")
    assert compare("ask#1") == [("accept", [by]), ("reject", [by]), ("reason", [text])]
    send("reason")
    waits_for("go-1", "go-2")
    assert compare("each#1", item=1) == [("go-2", [amount])]
    assert step_run(admin, execution, "each#1")["waits"] == []
    send("go-1", "go-2")
    until(admin, execution, "succeeded")


def test_a_step_run_in_the_middle_of_a_long_log_has_its_writes(admin: httpx2.Client, counted: str) -> None:
    run = step_run(admin, counted, "turn#250")
    (write,) = run["writes"]
    assert (write["scope"], write["key"], write["op"], write["value"]) == ("ctx", "n", "$add", 1)
    (attempt,) = run["tasks"][0]["attempts"]
    assert (attempt["attempt"], attempt["status"], attempt["do"], attempt["seq"]) == (1, "ok", "continue", write["seq"])
    assert (run["result"], run["error"], run["children"]) == (None, None, [])


def test_a_loop_is_summed_up_and_an_item_has_its_attempts(admin: httpx2.Client) -> None:
    execution = started(admin, {"path": "tests/flaky"})["execution_id"]
    loop = step_run(admin, execution, "each#1")
    assert loop["loop"] == {"total": 3, "ok": 2, "failed": 1, "running": 0}
    assert (loop["args"], loop["tasks"], loop["result"]) == ({"size": 3}, [], [7, None, 5])
    assert all(lease["to"] and lease["end_reason"] for lease in loop["leases"])
    item = step_run(admin, execution, "each#1", item=1)
    assert (item["item"], item["status"], item["error"]["kind"], item["loop"]) == (1, "failed", "python", None)
    (task,) = item["tasks"]
    assert [
        (attempt["attempt"], attempt["status"], attempt["do"], bool(attempt["due"])) for attempt in task["attempts"]
    ] == [
        (1, "error", "retry", True),
        (2, "error", "fail", False),
    ]
    assert (task["task"], task["kind"]) == ("each#1[1]/divide#1", "python")
    assert task["attempts"][0]["error"]["kind"] == "python"
    good = step_run(admin, execution, "each#1", item=0)
    assert {(write["scope"], write["key"]) for write in good["writes"]} == {("ctx", "sum"), ("iter", "half")}
    assert (good["status"], good["result"]) == ("succeeded", 7)
    assert good["worked_ms"] <= good["worked_ms"] + good["waited_ms"]


def test_every_item_of_a_long_loop_has_the_lease_that_it_ran_under(admin: httpx2.Client) -> None:
    execution = started(admin, {"playbook": LONG})["execution_id"]
    granted = [
        event["payload"] | {"seq": event["seq"]}
        for event in admin.get(f"{API}/{execution}/events?types=step.started&run=work%231&limit=1000").json()["items"]
    ]
    for item in range(0, 600, 7):
        (fence,) = [grant["fence"] for grant in granted if grant["items"][0] <= item < grant["items"][1]]
        run = step_run(admin, execution, "work#1", item=item)
        assert [(lease["fence"], lease["to"]) for lease in run["leases"]] == [(fence, run["ended"])], item


def test_a_step_run_that_never_ended_was_cancelled(admin: httpx2.Client) -> None:
    execution = begun(admin, {"path": "tests/count", "payload": {"times": 1}})
    until(admin, execution, "waiting")
    run = step_run(admin, execution, "asks#1")
    assert (run["status"], run["ended"], run["waits"][0]["to"]) == ("waiting", None, None)
    admin.post(f"{API}/{execution}/cancel")
    until(admin, execution, "cancelled")
    run = step_run(admin, execution, "asks#1")
    assert run["status"] == "cancelled"
    assert run["ended"] is not None
    assert run["waits"][0]["to"] is not None


def test_step_runs_that_do_not_exist_are_not_found(admin: httpx2.Client, counted: str) -> None:
    unknown = "00000000-0000-7000-8000-000000000000"
    assert admin.get(f"{API}/{unknown}/step-runs").status_code == 404
    assert admin.get(f"{API}/{unknown}/step-run", params={"run": "turn#1"}).status_code == 404
    assert admin.get(f"{API}/{counted}/step-run", params={"run": "turn#999"}).status_code == 404
    for number in ("0", "01", "1_0", "\u0661", "9" * 5_000):  # other ways to write a number, and one that is too long
        answer = admin.get(f"{API}/{counted}/step-run", params={"run": f"turn#{number}"})
        assert answer.status_code == 404, number
    assert admin.get(f"{API}/{counted}/step-run", params={"run": "turn#1", "item": 0}).status_code == 404
