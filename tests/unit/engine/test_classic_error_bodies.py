"""`response.data` of a classic step is the body of the response, also of a 4xx or 5xx, as its migrated text has it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
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


ENVELOPES = "{r: '{{ result }}', t: '{{ this }}', a: '{{ response }}', s: '{{ this.status }}', e: '{{ error }}'%s}"


@for_each(
    ("loop", "spec", "path", "stored"),
    [
        ("", "", "/", {"result": {"code": "fine"}, "status": "ok", "answer": 200}),
        ("loop: {in: ['/'], iterator: k}", "", "/", {"result": {"code": "fine"}, "status": "ok", "answer": 200}),
        ("", "spec: {on_error: ignore}", "/gone", {"result": None, "status": "ok", "answer": None}),
        (
            "loop: {in: ['/gone'], iterator: k}",
            "spec: {on_error: ignore}",
            "{{ k }}",
            {"result": None, "status": "ok", "answer": None},
        ),
    ],
)
def test_a_sink_stores_the_same_in_a_loop_and_after_the_migration(
    url: str, tmp_path: Path, loop: str, spec: str, path: str, stored: dict[str, Any]
) -> None:
    args = ENVELOPES % (", k: '{{ k }}'" if loop else "")
    code = f"import json; open({str(tmp_path / 'stored')!r}, 'w').write(json.dumps([r, t, a, s, e]))"
    sink = f'sink: {{tool: {{kind: python, code: "{code}"}}, args: {args}}}'
    call = f'tool: {{kind: http, url: "{url}{path}"}}'
    lines = [line for line in ("- step: start", f"  {loop}", f"  {spec}", f"  {call}", f"  {sink}") if line.strip()]
    for text in both(HEAD + "".join(f"  {line}\n" for line in lines)):
        BusyTwice.requests = 2
        finished = run_playbook(text)
        assert (finished.error, finished.status) == (None, "succeeded")
        result, this, response, status, error = json.loads((tmp_path / "stored").read_text())
        assert {"result": result, "status": status, "answer": response["status_code"]} == stored
        assert (this.pop("meta")["attempt"], this) == (1, {"status": "ok", "data": stored["result"], "error": None})
        assert (response["data"], response["status"], response["error"], error) == (stored["result"], "ok", None, None)


@pytest.mark.parametrize("read", ["this", "this.meta.attempt"])
def test_the_meta_of_a_call_is_refused_where_only_the_result_of_the_step_is_known(read: str) -> None:
    sink = f"sink: {{tool: {{kind: python, code: 'result = x'}}, args: {{x: '{{{{ {read} }}}}'}}}}"
    case = f"    case: [{{when: true, then: {{{sink}, next: [{{step: end, args: {{x: '{{{{ {read} }}}}'}}}}]}}}}]\n"
    step = "  - step: start\n    tool: {kind: python, code: 'result = 1'}\n"
    refused = migrate("p.yaml", HEAD + step + case + "  - {step: end, tool: {kind: noop}}\n", KINDS)
    assert [leftover.hint for leftover in refused.leftovers] == ["read `.status`, `.data`, `.error` of `this`"] * 2


@for_each(
    ("loop", "spec", "path", "branch", "given"),
    [
        ("", "", "/gone", "call.error", {"result": None, "this.data": None, "response.status_code": 404}),
        ("", "spec: {on_error: ignore}", "/gone", "call.done", {"result": None, "response.status_code": None}),
        ("loop: {in: [1], iterator: k}", "", "/gone", "call.error", {"result": None, "this.status": "error"}),
        ("loop: {in: [1], iterator: k}", "spec: {on_error: ignore}", "/gone", "call.done", {"this.data": [None]}),
        ("loop: {in: [1], iterator: k}", "", "/", "call.done", {"response.status_code": None, "this.error": None}),
    ],
)
def test_a_branch_gives_the_same_values_after_the_migration(
    url: str, loop: str, spec: str, path: str, branch: str, given: dict[str, Any]
) -> None:
    args = ", ".join(f"v{place}: '{{{{ {name} }}}}'" for place, name in enumerate(given))
    case = (
        f"case: [{{when: \"{{{{ event.name == '{branch}' }}}}\", then: {{next: [{{step: end, args: {{{args}}}}}]}}}}]"
    )
    lines = ["- step: start", f"  {loop}", f"  {spec}", f'  tool: {{kind: http, url: "{url}{path}"}}', f"  {case}"]
    values = ", ".join(f"'{{{{ args.v{place} }}}}'" for place in range(len(given)))
    end = f"  - {{step: end, tool: {{kind: noop, result: [{values}]}}}}\n"
    for text in both(HEAD + "".join(f"  {line}\n" for line in lines if line.strip()) + end):
        BusyTwice.requests = 2
        finished = run_playbook(text)
        assert (finished.error, finished.result) == (None, list(given.values()))


@for_each("key", ["vars: {x: '{{ %s }}'}", "sink: {tool: {kind: python, code: 'result = x'}, args: {x: '{{ %s }}'}}"])
def test_a_step_that_reads_itself_before_it_ends_is_refused(key: str) -> None:
    for name in ("start", "start.data", "steps.start.result"):
        step = f"  - step: start\n    tool: {{kind: python, code: 'result = 1'}}\n    {key % name}\n    next: end\n"
        refused = migrate("p.yaml", HEAD + step + "  - {step: end, tool: {kind: noop}}\n", KINDS)
        assert [leftover.hint for leftover in refused.leftovers] == ["read `result` or `this`"]
