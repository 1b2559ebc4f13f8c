"""The playbook of the first seed's appendix, construct by construct, on a real Postgres and a real HTTP server.

What the appendix does, done for a library: a reader is looked up, variables are kept, a letter is sent by a task of the
workbook, and both a sink and the log tell of it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pytest_httpserver import HTTPServer
from tests.servers.postgres import Schema, postgres_fixture, schema_fixture  # noqa: F401
from werkzeug import Request, Response

PLAYBOOK = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata:
  name: library_card
  path: library/cards/new
workload:
  desk_url: "overridden by the request"
  reader_id: 7
workbook:
  - name: send_letter
    tool:
      kind: http
      method: POST
      url: "{{ workload.desk_url }}/letters"
      body:
        template: welcome
        to: "{{ address }}"
workflow:
  - step: start
    tool:
      kind: python
      args: {}
      code: |
        result = {"status": "opened"}
    case:
      - when: "{{ event.name == 'step.exit' }}"
        then:
          next:
            - step: find_reader
  - step: find_reader
    tool:
      kind: postgres
      query: "SELECT id, name, address FROM reader WHERE id = {{ workload.reader_id }}"
    vars:
      address: "{{ result[0].address }}"
      reader: "{{ result[0].name }}"
      rows: "{{ result.rows | length }}"
    case:
      - when: "{{ event.name == 'step.exit' and response is defined and this.status == 'ok' }}"
        then:
          next:
            - step: write_letter
              args: {greeting: "Dear {{ vars.reader }}"}
  - step: write_letter
    tool:
      kind: workbook
      name: send_letter
      args:
        address: "{{ vars.address }}"
    retry:
      max_attempts: 3
      initial_delay: 0
      retry_when: "{{ status_code == 503 and attempt < max_attempts and not success }}"
    case:
      - when: "{{ event.name == 'call.done' and response.status_code == 201 }}"
        then:
          set: {letter: "{{ result.id }}"}
          sink:
            tool: {kind: postgres}
            table: letter
            args: {id: "{{ result.id }}", reader: "{{ vars.reader }}", greeting: "{{ greeting }}"}
          next: tell
      - when: "{{ event.name == 'call.error' }}"
        then:
          next: [{step: end, args: {error: "{{ response.status_code }}"}}]
    next: end
  - step: tell
    loop: {in: "{{ ['desk', 'archive'] }}", iterator: place, mode: sequential}
    tool:
      kind: http
      method: PUT
      url: "{{ workload.desk_url }}/{{ place }}/{{ loop_index }}"
      body: {letter: "{{ vars.letter }}"}
    sink:
      tool: {kind: postgres}
      table: told
      when: "{{ result | length == workload.wanted | default(2) }}"
      args: {places: "{{ result | map(attribute='place') | join(',') }}"}
    next:
      - step: end
        args: {told: "{{ result }}"}
  - step: end
    tool:
      kind: python
      args: {letter: "{{ vars.letter | default(none) }}", told: "{{ args.told | default([]) }}"}
      code: |
        result = {"status": "completed", "letter": letter, "told": [one["place"] for one in told]}
"""


class Office:
    """The library's database and desk."""

    def __init__(self, folder: Path, schema: Schema, desk: HTTPServer) -> None:
        self.folder, self.schema, self.desk = folder, schema, desk
        (folder / "card.yaml").write_text(PLAYBOOK)
        env = {"NOETL_CONFIG_HOME": str(folder), "XDG_CONFIG_HOME": str(folder / "config"), "HOME": str(folder)}
        self.env = {**os.environ, **env, "PYTHONPATH": ""}

    def noetl(self, *args: str, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "noetl.cli", *args]
        return subprocess.run(
            command, cwd=self.folder, env=self.env, input=stdin, capture_output=True, text=True, timeout=300
        )

    def run(self, **more: Any) -> dict[str, Any]:
        payload = {"desk_url": self.desk.url_for("").rstrip("/"), **more}
        done = self.noetl("run", "card.yaml", "--payload", json.dumps(payload), "-o", "json")
        assert done.stdout, done.stderr
        result: dict[str, Any] = json.loads(done.stdout)
        return result

    def events(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.noetl("runs", "events", "last", "-o", "jsonl").stdout.splitlines()]


@pytest.fixture
def office(tmp_path: Path, schema: Schema, httpserver: HTTPServer) -> Office:
    schema.rows(f"CREATE TABLE {schema.name}.reader (id int PRIMARY KEY, name text, address text)")
    schema.rows(f"CREATE TABLE {schema.name}.letter (id int, reader text, greeting text)")
    schema.rows(f"CREATE TABLE {schema.name}.told (places text)")
    schema.rows(f"INSERT INTO {schema.name}.reader VALUES (7, 'O''Hara; DROP TABLE letter', 'Main St 1')")
    result = Office(tmp_path, schema, httpserver)
    fields = {**schema.server.fields(), "options": f"-c search_path={schema.name}"}
    host = f"host={fields['host']} port={fields['port']} dbname={fields['database']}"
    dsn = f"{host} user={fields['user']} password={fields['password']} options='{fields['options']}'"
    stored = result.noetl(
        "credential", "set", "postgres", "--kind", "postgres_credential", "--data", "-", stdin=json.dumps({"dsn": dsn})
    )
    assert stored.returncode == 0, stored.stderr
    return result


def letters(desk: HTTPServer, *statuses: int) -> list[Any]:
    """The desk takes letters, after it has answered with these statuses first."""
    received: list[Any] = []
    left = list(statuses)

    def take(request: Request) -> Response:
        received.append(request.get_json())
        if left:
            return Response("not now", left.pop(0))
        return Response(json.dumps({"id": 41}), 201, content_type="application/json")

    def told(request: Request) -> Response:
        place = request.path.strip("/").partition("/")[0]
        return Response(json.dumps({"place": place, "letter": request.get_json()}), content_type="application/json")

    desk.expect_request("/letters", method="POST").respond_with_handler(take)
    for path in ("/desk/0", "/archive/1"):
        desk.expect_request(path, method="PUT").respond_with_handler(told)
    return received


def test_a_card_is_made_and_every_phase_is_in_the_log(office: Office) -> None:
    received = letters(office.desk, 503)
    process = office.run()
    assert process["status"] == "succeeded", process
    assert process["result"] == {"status": "completed", "letter": 41, "told": ["desk", "archive"]}
    assert received == [{"template": "welcome", "to": "Main St 1"}] * 2
    assert process["ctx"]["vars"] == {
        "address": "Main St 1",
        "reader": "O'Hara; DROP TABLE letter",
        "rows": 1,
        "letter": 41,
    }
    name = office.schema.name
    assert [
        list(row.values()) if isinstance(row, dict) else list(row)
        for row in office.schema.rows(f"SELECT * FROM {name}.letter")
    ] == [[41, "O'Hara; DROP TABLE letter", "Dear O'Hara; DROP TABLE letter"]]
    assert [
        list(row.values()) if isinstance(row, dict) else list(row)
        for row in office.schema.rows(f"SELECT * FROM {name}.told")
    ] == [["desk,archive"]]
    assert list(process["steps"]) == ["start", "find_reader", "write_letter", "tell", "end"]
    events = office.events()
    kinds = {event["event_type"] for event in events}
    assert kinds >= {
        "playbook.execution.requested", "playbook.request.evaluated", "playbook.started", "workflow.started",
        "step.scheduled", "step.started", "step.done", "task.started", "task.done", "task.retry.scheduled",
        "case.started", "case.evaluated", "next.requested", "next.evaluated", "sink.started", "sink.processed",
        "loop.started", "loop.iteration.started", "loop.iteration.done", "loop.done",
        "workflow.finished", "playbook.processed",
    }  # fmt: skip
    needed = ("event_id", "event_type", "execution_id", "timestamp", "entity_type", "entity_id", "status", "payload")
    assert all(event[field] is not None for event in events for field in needed)
    assert len({event["event_id"] for event in events}) == len(events)


def test_a_sink_whose_condition_is_false_stores_nothing_and_that_is_reported(office: Office) -> None:
    letters(office.desk)
    assert office.run(wanted=3)["status"] == "succeeded"
    assert office.schema.rows(f"SELECT * FROM {office.schema.name}.told") == []
    told = [
        event
        for event in office.events()
        if event["event_type"] == "sink.processed" and event["step_run_id"] == "tell#1"
    ]
    assert [one["status"] for one in told] == ["skipped"]


def test_a_letter_that_is_refused_leads_to_the_end_with_the_code_of_the_refusal(office: Office) -> None:
    letters(office.desk, 503, 503, 503)
    process = office.run()
    assert (process["status"], process["steps"]["write_letter"]["status"]) == ("succeeded", "failed")
    tokens = [event for event in office.events() if event["event_type"] == "token.enqueued"]
    assert tokens[-1]["payload"]["args"]["error"] == 503
    assert office.schema.rows(f"SELECT * FROM {office.schema.name}.letter") == []


def test_a_reader_who_is_missing_fails_the_step_that_wants_the_first_row(office: Office) -> None:
    process = office.run(reader_id=8)
    assert process["status"] == "failed"
    assert (process["error"]["step"], process["error"]["kind"]) == ("find_reader", "template")


def test_r5_a_table_that_is_missing_fails_the_run_instead_of_leading_to_its_end(office: Office) -> None:
    card = office.folder / "card.yaml"
    card.write_text(card.read_text().replace(" and this.status == 'ok'", ""))  # the condition of the seed
    office.schema.rows(f"DROP TABLE {office.schema.name}.reader")
    process = office.run()
    assert (process["status"], list(process["steps"])) == ("failed", ["start", "find_reader"])
    assert (process["error"]["step"], process["error"]["kind"]) == ("find_reader", "sql")


def test_auth_may_be_a_dsn_from_a_template_and_no_error_shows_it(office: Office) -> None:
    card = office.folder / "card.yaml"
    query = 'query: "SELECT id'
    card.write_text(card.read_text().replace(query, f'auth: "{{{{ workload.db }}}}"\n      {query}'))
    letters(office.desk)
    fields = {**office.schema.server.fields(), "options": f"-c search_path={office.schema.name}"}
    names = {"database": "dbname"}
    dsn = " ".join(f"{names.get(name, name)}='{value}'" for name, value in fields.items())
    process = office.run(db=dsn)
    assert process["status"] == "succeeded", process["error"]
    for wrong in ("postgresql://ada:s3cret-word@127.0.0.1:1/db", "password=s3cret-word nonsense=1", "s3cret-word!"):
        process = office.run(db=wrong)
        assert process["status"] == "failed"
        assert "s3cret" not in json.dumps(process["error"])
