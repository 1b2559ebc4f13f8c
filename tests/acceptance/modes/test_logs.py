"""What servers and workers write of themselves, as whoever collects it gets it, and the output of tasks."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.acceptance.modes.playbooks import playbook
from tests.acceptance.modes.stage import SECONDS, Client, Process, make_token, until
from tests.servers.faulty_proxy import faulty_proxy

SECRET = "s3cret-payload"
ECHO = playbook("echo", 'workflow: [{step: a, tool: [{x: {kind: noop, result: "{{ workload.word }}"}}]}]\n')
PRINTS = playbook(
    "prints",
    """\
workflow:
  - step: a
    tool:
      - x: {kind: shell, command: "echo one; until test -e {{ workload.file }}; do sleep 0.1; done; echo two"}
""",
)


@contextmanager
def server(folder: Path, *args: str, **env: str) -> Iterator[tuple[Process, Client]]:
    db = str(folder / "data" / "noetl.db")
    token = make_token(folder, db, "admin")
    process = Process(folder, "server", "server", "--port", "0", "--db", db, "--workers", "1", *args, **env).start()
    try:
        line = process.until_said("noetl server at")
        process.until_said("takes work of pool")
        client = Client(re.findall(r"http://[\d.:]+\d", line), token)
        with client.http:
            yield process, client
    finally:
        assert process.stop() == 0, process.output_text()


def test_every_line_is_json_and_none_has_content(tmp_path: Path) -> None:
    with server(tmp_path) as (process, client):
        execution = client.start({"playbook": ECHO, "payload": {"word": SECRET}})
        assert client.ended(execution)["result"] == SECRET
    lines = [json.loads(line) for line in process.output_text().splitlines()]
    assert {"ts", "level", "msg"} <= set.intersection(*(set(line) for line in lines))
    (ended,) = [line for line in lines if line["msg"] == "execution ended"]
    assert (ended["execution_id"], ended["status"]) == (execution, "succeeded")
    (started,) = [line for line in lines if line.get("route") == "/api/v1/executions" and line["method"] == "POST"]
    assert (started["status"], started["execution_id"]) == (202, execution)
    assert started["trace_id"] == execution.replace("-", "")
    said = [line["msg"] for line in lines]
    assert "shutting down" in said  # the worker
    assert SECRET not in process.output_text()
    assert client.token not in process.output_text()


@pytest.mark.parametrize("how", ["flag", "variable"])
def test_lines_are_text_where_that_is_requested(tmp_path: Path, how: str) -> None:
    args = ("--log-format", "text", "--log-level", "info") if how == "flag" else ()
    env = {"NOETL_LOG_FORMAT": "text"} if how == "variable" else {}
    with server(tmp_path, *args, **env) as (process, client):
        client.ask("GET", "/executions")
    for line in process.output_text().splitlines():
        assert re.match(r"\d{4}-\d\d-\d\dT[\d:.]+Z (INFO|WARNING|ERROR) ", line), line
    assert " INFO request method=GET route=/api/v1/executions status=200 ms=" in process.output_text()


def test_output_is_followed_while_the_server_is_away(tmp_path: Path) -> None:
    with server(tmp_path) as (_, client), faulty_proxy(client.urls[0], random.Random(0)) as proxy:
        execution = client.start({"playbook": PRINTS, "payload": {"file": str(tmp_path / "go")}})
        command = ("runs", "logs", execution, "-f", "--server", proxy.endpoint)
        logs = Process(tmp_path, "logs", *command, NOETL_TOKEN=client.token).start()
        try:
            logs.until_said("| one")
            proxy.refuse = True
            proxy.cut()
            until(lambda: proxy.refusals > 1)
            (tmp_path / "go").touch()
            assert client.ended(execution)["status"] == "succeeded"
            proxy.refuse = False
            assert logs.process is not None
            assert logs.process.wait(SECONDS) == 0, logs.output_text()
        finally:
            logs.kill()
    assert [line.rpartition("| ")[2] for line in logs.output_text().splitlines()] == ["one", "two"]
