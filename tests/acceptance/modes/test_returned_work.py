"""A worker that is told to end returns its work, and others go on with it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.acceptance.modes import stage
from tests.acceptance.modes.playbooks import playbook

ITEMS = 200
SECONDS = 600
"""How long a run may take on a machine that has much else to do."""
LOOP = playbook(
    "returned_work",
    """\
    workload: {items: 0}
    workflow:
      - step: each
        loop: {in: "{{ range(workload.items) | list }}", iterator: n, spec: {mode: parallel, max_in_flight: 8}}
        tool:
          - work:
              kind: python
              args: {n: "{{ iter.n }}"}
              code: |
                import time
                time.sleep(0.1)
                result = n * 3
          - keep:
              kind: noop
              result: "{{ _prev }}"
              spec:
                policy:
                  rules:
                    - else: {then: {do: continue, set_ctx: {total: {$add: 1}}}}
        next: {arcs: [{step: end}]}
      - step: end
        tool: [{say: {kind: noop, result: "{{ steps.each.result | sum }}"}}]
    """,
)


def request(items: int) -> dict[str, Any]:
    return {"playbook": LOOP, "payload": {"items": items}}


def check(mode: stage.Served, execution: str, items: int = ITEMS) -> None:
    """Every item was done, and counted once."""
    result = mode.client.ended(execution, SECONDS)
    assert (result["status"], result["result"]) == ("succeeded", sum(n * 3 for n in range(items))), result["error"]
    assert result["ctx"] == {"total": items}


def _is_worked_on(mode: stage.Served, execution: str, worker: str) -> bool:
    """Whether the worker has a part of the loop, as far as it has said so itself or the log tells."""
    granted = [event for event in mode.client.events(execution) if event["event_type"] == "step.started"]
    return any(str(event["payload"].get("worker", "")).startswith(worker) for event in granted)


def test_a_worker_that_is_told_to_end_hands_back_what_it_cannot_finish(tmp_path: Path) -> None:
    """It does not wait for the end of the loop. Others go on with it, and nothing counts as lost."""
    with stage.served(tmp_path, str(tmp_path / "data" / "noetl.db"), workers=2) as mode:
        execution = mode.client.start(request(2_000))
        stage.until(lambda: _is_worked_on(mode, execution, "worker0"))
        assert mode.workers[0].stop() == 0
        assert mode.client.show(execution)["status"] == "running"
        done = mode.client.show(execution)["progress"]["each#1"]["ok"]
        stage.until(lambda: mode.client.show(execution)["progress"]["each#1"]["ok"] > done + 5)
        mode.client.ask("POST", f"/executions/{execution}/cancel", {})
        assert mode.client.ended(execution)["status"] == "cancelled"
        names = [event["event_type"] for event in mode.client.events(execution)]
        assert "step.regranted" not in names
    mode.verify()
