"""Defaults of `executor.spec` (seed 004, section 2.2) take effect in real tools."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from embedded import run
from pytest_httpserver import HTTPServer
from werkzeug import Request, Response

from noetl.tools.process.inside.linux import landlock_version

HEAD = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: defaults, path: acceptance/defaults}
"""


def test_the_timeout_of_http_applies_to_a_task_without_one(httpserver: HTTPServer, tmp_path: Path) -> None:
    def slow(request: Request) -> Response:
        time.sleep(1)
        return Response("late")

    httpserver.expect_request("/slow").respond_with_handler(slow)
    steps = f"""
workflow:
  - step: start
    tool: [{{ask: {{kind: http, url: "{httpserver.url_for("/slow")}"}}}}]
"""
    ended = run(tmp_path, f"{HEAD}executor: {{spec: {{http: {{timeout: 0.1s}}}}}}{steps}")
    assert (ended.state.status, ended.of("task.done")[0].outcome.error.kind) == ("failed", "timeout")
    other = tmp_path / "other"
    other.mkdir()
    assert run(other, HEAD + steps).state.status == "succeeded"


@pytest.mark.skipif(landlock_version() < 4, reason="the kernel has no Landlock 4")
def test_the_sandbox_holds_for_a_task_that_names_none(tmp_path: Path) -> None:
    file = tmp_path / "outside.txt"
    steps = f"\nworkflow:\n  - {{step: start, tool: [{{write: {{kind: shell, command: 'echo hi > {file}'}}}}]}}\n"
    assert run(tmp_path, f"{HEAD}executor: {{spec: {{sandbox: landlock}}}}{steps}").state.status == "failed"
    assert not file.exists()
    other = tmp_path / "other"
    other.mkdir()
    assert run(other, HEAD + steps).state.status == "succeeded"
    assert file.read_text() == "hi\n"
