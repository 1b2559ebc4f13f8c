"""A run that waits for somebody outlives every process: servers, workers and the database are killed while it waits.

Both dialects: a task of `kind: wait`, and a classic step that listens. The answer comes when nothing of what began the
run is alive any more, and it counts once.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.acceptance.modes import stage
from tests.acceptance.modes.playbooks import playbook
from tests.servers.postgres import PostgresServer

SOAK = pytest.mark.slow(part="approvals")
CANONICAL = playbook(
    "approval",
    """\
    workflow:
      - step: ask
        tool:
          - before: {kind: noop}
          - verdict: {kind: wait, signal: verdict}
        next: {arcs: [{step: done, args: {by: "{{ steps.ask.result.by }}"}}]}
      - step: done
        tool: [{say: {kind: noop, result: "approved by {{ args.by }}"}}]
    """,
)
CLASSIC = playbook(
    "classic_approval",
    """\
    workflow:
      - step: ask
        spec: {eval_mode: on_event, timers: {too_late: 48h}}
        case:
          - when: "{{ event.name == 'message.received' and event.data.type == 'verdict' }}"
            then:
              - note: {tool: {kind: python, args: {by: "{{ event.data.by }}"}, code: "result = by"}}
              - set: {by: "{{ note.result }}"}
              - next: {to: [{step: done}]}
          - when: "{{ event.name == 'timer.fired' and event.data.timer_id == 'too_late' }}"
            then: {next: expired}
      - step: done
        tool: {kind: noop, result: "approved by {{ vars.by }}"}
      - step: expired
        tool: {kind: noop, result: nobody}
    """,
)


@pytest.fixture
def own_postgres() -> Iterator[PostgresServer]:
    """A server that others do not need."""
    server = PostgresServer()
    yield server
    server.close()


def kill_everything(mode: stage.Served, postgres: PostgresServer) -> None:
    for process in (*mode.servers, *mode.workers):
        process.kill()
    postgres.kill()
    postgres.start()
    for process in (*mode.servers, *mode.workers):
        process.start()


@pytest.mark.parametrize(
    ("text", "times"),
    [
        pytest.param(CANONICAL, 1, id="canonical"),
        pytest.param(CLASSIC, 1, id="classic", marks=SOAK),
        pytest.param(CANONICAL, 100, id="canonical a hundred times", marks=SOAK),
        pytest.param(CLASSIC, 100, id="classic a hundred times", marks=SOAK),
    ],
)
def test_an_answer_is_taken_once_by_a_run_that_everything_died_under(
    tmp_path: Path, own_postgres: PostgresServer, text: str, times: int
) -> None:
    with stage.served(tmp_path, stage.database(own_postgres, "approvals"), workers=1) as mode:
        for _ in range(times):
            execution = mode.client.start({"playbook": text})
            stage.until(lambda: mode.client.show(execution)["status"] == "waiting", 120)  # noqa: B023
            kill_everything(mode, own_postgres)
            verdict = {"name": "verdict", "id": "mail-1", "payload": {"by": "ada"}}
            for _ in range(2):
                mode.client.ask("POST", f"/executions/{execution}/signals", verdict)
            result = mode.client.ended(execution, 180)
            assert (result["status"], result["result"]) == ("succeeded", "approved by ada"), result
            assert {name: step["runs"] for name, step in result["steps"].items()} == {"ask": 1, "done": 1}
            events = mode.client.ask("GET", f"/executions/{execution}/events?limit=500")["items"]
            assert [event["event_type"] for event in events].count("message.received") == 1
            listed = mode.client.ask("GET", f"/executions/{execution}/vars")["vars"]
            assert listed == ({"by": "ada"} if text is CLASSIC else {})
    mode.verify()
