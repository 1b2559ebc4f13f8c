"""`response.data` of a classic step is the body of the response, also of a 4xx or 5xx, as its migrated text has it."""

from __future__ import annotations

from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import pytest
from tests.table import for_each

from noetl.dsl.migrate import migrate
from noetl.testing import run_playbook
from noetl.tools.registry import KINDS

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: p, path: t/p}\nworkflow:\n"
END = '  - {step: end, tool: {kind: noop, result: "{{ start.data.code }}"}}\n'


class BusyTwice(BaseHTTPRequestHandler):
    """Answers 503 with {code: busy} to the first two requests, then {code: fine}; 404 below /gone."""

    requests = 0

    def do_GET(self) -> None:
        type(self).requests += 1
        status = 404 if self.path.startswith("/gone") else 503 if self.requests < 3 else 200
        code = {404: "gone", 503: "busy", 200: "fine"}[status]
        body = b"" if self.path == "/gone/silently" else b'{"code": "%s"}' % code.encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: Any) -> None:
        pass


@pytest.fixture
def url() -> Iterator[str]:
    BusyTwice.requests = 0
    with ThreadingHTTPServer(("127.0.0.1", 0), BusyTwice) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def both(text: str) -> list[str]:
    migrated = migrate("p.yaml", text, KINDS)
    assert (migrated.leftovers, migrated.changed) == ([], True)
    return [text, migrated.text]


@for_each(
    "retry",
    [
        "retry: {max_attempts: 5, initial_delay: 0, retry_when: \"{{ response.data.code == 'busy' }}\"}",
        "retry: {max_attempts: 5, initial_delay: 0, stop_when: \"{{ response.data.code == 'fine' }}\"}",
        "case: [{when: \"{{ event.name == 'call.error' and response.data.code == 'busy' }}\", "
        "then: {retry: {max_attempts: 5, initial_delay: 0}}}]",
        "case: [{when: \"{{ event.name == 'call.error' }}\", then: {retry: {max_attempts: 5, initial_delay: 0, "
        "retry_when: \"{{ error is not none and response.data.code == 'busy' }}\"}}}]",
    ],
)
def test_a_retry_reads_the_body_of_an_error_response(url: str, retry: str) -> None:
    step = f'  - step: start\n    tool: {{kind: http, url: "{url}/"}}\n    {retry}\n    next: [{{step: end}}]\n'
    for text in both(HEAD + step + END):
        BusyTwice.requests = 0
        finished = run_playbook(text)
        assert (finished.error, finished.result, BusyTwice.requests) == (None, "fine", 3)


@for_each(("path", "body"), [("/gone", {"code": "gone"}), ("/gone/silently", None)])
def test_a_branch_after_a_failure_reads_the_body_of_the_error_response(url: str, path: str, body: Any) -> None:
    case = "case: [{when: \"{{ event.name == 'call.error' and response.status_code == 404 }}\", then: {next: "
    case += '[{step: end, args: {body: "{{ response.data }}"}}]}}]'
    step = f'  - step: start\n    tool: {{kind: http, url: "{url}{path}"}}\n    {case}\n'
    for text in both(HEAD + step + '  - {step: end, tool: {kind: noop, result: "{{ body }}"}}\n'):
        finished = run_playbook(text)
        assert (finished.error, finished.result) == (None, body)


def test_a_retry_without_a_response_has_no_body() -> None:
    guard = "{{ response.data is none and error is not none and attempt < 2 }}"
    retry = f'    retry: {{initial_delay: 0, retry_when: "{guard}"}}\n'
    step = '  - step: start\n    tool: {kind: http, url: "http://127.0.0.1:1/"}\n'
    for text in both(HEAD + step + retry):
        finished = run_playbook(text)
        assert finished.status == "failed"
        assert finished.error is not None
        assert finished.error["attempt"] == 2
