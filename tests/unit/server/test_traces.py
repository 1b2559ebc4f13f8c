"""Traces: a request, its execution, steps and tasks, as a receiver of OpenTelemetry gets them."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

import httpx2
import pytest
from api_server import HELLO, WAITS, WRONG, ApiServer, begun, register, started, until
from pytest_httpserver import HTTPServer
from tests.servers.otlp import OtlpReceiver, Received
from tests.servers.patience import PATIENCE_SECONDS

from noetl.errors import UsageError
from noetl.server import traces
from noetl.server.server_settings import ServerSettings
from noetl.server.traces import caller_of
from noetl.settings import traces_endpoint

LOOPS = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: loops, path: tests/loops}
workflow:
  - step: each
    loop: {in: "{{ [1, 2, 3] }}", iterator: n, spec: {mode: parallel}}
    tool: [{one: {kind: noop, result: "{{ iter.n }}"}}, {two: {kind: noop}}]
"""
FAILS = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: fails, path: tests/fails}
workflow:
  - step: boom
    tool:
      - call:
          kind: python
          code: raise ValueError("s3cret")
          spec: {policy: {rules: [{else: {then: {do: fail}}}]}}
"""
CALLER = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.fixture(scope="module")
def receiver() -> Iterator[OtlpReceiver]:
    one = OtlpReceiver()
    yield one
    one.close()


@pytest.fixture(scope="module")
def traced(receiver: OtlpReceiver) -> Iterator[ApiServer]:
    one = ApiServer(settings=ServerSettings(version="9.9", traces=f"{receiver.url}/v1/traces"))
    yield one
    one.do(one.app.api.telemetry.traces.close())
    one.close()


@pytest.fixture
def client(traced: ApiServer) -> Iterator[httpx2.Client]:
    with traced.client("admin") as one:
        yield one


class Trace:
    """The spans of a trace when they have all come."""

    def __init__(self, spans: list[Received]) -> None:
        self.spans = spans

    def named(self, name: str) -> list[Received]:
        return [span for span in self.spans if span.name == name]

    def span(self, name: str) -> Received:
        (result,) = self.named(name)
        return result


def arrived(server: ApiServer, receiver: OtlpReceiver, found: Callable[[Received], bool]) -> list[Received]:
    """Spans that fit; waits until there is one."""
    give_up = time.monotonic() + PATIENCE_SECONDS
    while True:
        server.do(_flushed(server))
        spans = [span for span in list(receiver.spans) if found(span)]
        if spans or time.monotonic() > give_up:
            return spans
        time.sleep(0.05)


async def _flushed(server: ApiServer) -> None:
    traces = server.app.api.telemetry.traces
    await asyncio.gather(*traces.reading)
    await asyncio.to_thread(traces.sending.force_flush)


def trace_of(server: ApiServer, receiver: OtlpReceiver, execution: str) -> Trace:
    trace = execution.replace("-", "")
    arrived(server, receiver, lambda span: span.trace == trace and span.name.startswith("execution "))
    return Trace([span for span in receiver.spans if span.trace == trace])


# -- the tree -------------------------------------------------------------------------------------------------------


def test_request_execution_steps_and_tasks_are_one_trace(
    traced: ApiServer, receiver: OtlpReceiver, client: httpx2.Client
) -> None:
    execution = started(client, {"playbook": HELLO})["execution_id"]
    (event,) = client.get(f"/api/v1/executions/{execution}/events?limit=1").json()["items"]
    request_of = arrived(
        traced,
        receiver,
        lambda span: span.name.startswith("POST ") and span.attributes.get("noetl.execution_id") == execution,
    )
    trace = trace_of(traced, receiver, execution)
    (request,) = request_of
    whole = trace.span("execution tests/hello")
    assert {request.trace, whole.trace} == {event["trace_id"]}
    assert (request.parent, whole.parent) == ("", request.id)
    assert (request.name, request.kind) == ("POST /api/v1/executions", 2)
    assert request.attributes["http.response.status_code"] == 200
    assert whole.attributes["noetl.status"] == "succeeded"
    for step in ("start", "end"):
        span = trace.span(f"step {step}")
        assert (span.parent, span.attributes["noetl.step_run_id"]) == (whole.id, f"{step}#1")
        assert whole.start <= span.start <= span.end <= whole.end
        assert step in trace.span(f"step {step}").name
    tasks = trace.named("task task_1")
    assert {task.parent for task in tasks} == {trace.span("step start").id, trace.span("step end").id}
    assert whole.resource["service.name"] == "noetl"
    assert set(receiver.paths) == {"/v1/traces"}


def test_iterations_stand_between_step_and_tasks(
    traced: ApiServer, receiver: OtlpReceiver, client: httpx2.Client
) -> None:
    execution = started(client, {"playbook": LOOPS})["execution_id"]
    trace = trace_of(traced, receiver, execution)
    items = trace.named("iteration each")
    assert sorted(item.attributes["noetl.iteration"] for item in items) == [0, 1, 2]
    assert {item.parent for item in items} == {trace.span("step each").id}
    assert sorted(task.parent for task in trace.named("task two")) == sorted(item.id for item in items)


def test_an_error_is_marked_and_its_message_not_sent(
    traced: ApiServer, receiver: OtlpReceiver, client: httpx2.Client
) -> None:
    execution = started(client, {"playbook": FAILS})["execution_id"]
    trace = trace_of(traced, receiver, execution)
    for name in ("task call", "step boom", "execution tests/fails"):
        span = trace.span(name)
        assert (span.error, span.attributes["error.type"]) == (True, "python"), name
    assert "s3cret" not in repr(trace.spans)


def test_what_a_cancel_cuts_off_has_an_end(traced: ApiServer, receiver: OtlpReceiver, client: httpx2.Client) -> None:
    execution = begun(client, {"playbook": WAITS})
    until(client, execution, "waiting")
    client.post(f"/api/v1/executions/{execution}/cancel")
    trace = trace_of(traced, receiver, execution)
    assert trace.span("execution tests/waits").attributes["noetl.status"] == "cancelled"
    assert trace.span("step start").parent == trace.span("execution tests/waits").id


def test_a_callers_trace_is_joined_and_linked(traced: ApiServer, receiver: OtlpReceiver, client: httpx2.Client) -> None:
    register(client)
    headers = {"traceparent": CALLER, "Prefer": "wait=60"}
    answer = client.post("/api/v1/executions", json={"path": "tests/hello"}, headers=headers)
    execution = answer.json()["execution_id"]
    trace = trace_of(traced, receiver, execution)
    whole = trace.span("execution tests/hello")
    (request,) = arrived(
        traced,
        receiver,
        lambda span: span.attributes.get("noetl.execution_id") == execution and span.name.startswith("POST "),
    )
    assert (request.trace, request.parent) == (CALLER.split("-")[1], CALLER.split("-")[2])
    assert request.links == [(whole.trace, whole.id)]
    assert (whole.parent, whole.links) == ("", [(request.trace, request.id)])
    assert whole.trace == execution.replace("-", "")


def test_a_refused_request_has_a_span_and_no_execution(
    traced: ApiServer, receiver: OtlpReceiver, client: httpx2.Client
) -> None:
    headers = {"traceparent": CALLER.replace("b7ad", "beef")}
    assert client.post("/api/v1/executions", json={"playbook": WRONG}, headers=headers).status_code == 422
    (request,) = arrived(traced, receiver, lambda span: span.parent.startswith("beef"))
    assert request.attributes["http.response.status_code"] == 422
    assert not request.error


def test_a_long_loop_is_cut_and_reports_it(
    traced: ApiServer, receiver: OtlpReceiver, client: httpx2.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(traces, "MAX_SPANS", 4)
    execution = started(client, {"playbook": LOOPS})["execution_id"]
    trace = trace_of(traced, receiver, execution)
    assert trace.span("execution tests/loops").attributes["noetl.spans_left_out"] > 0


# -- what is passed on ----------------------------------------------------------------------------------------------


def test_a_call_names_its_task_to_whom_it_calls(
    traced: ApiServer,
    receiver: OtlpReceiver,
    client: httpx2.Client,
    monkeypatch: pytest.MonkeyPatch,
    httpserver: HTTPServer,
) -> None:
    httpserver.expect_request("/").respond_with_json({})
    text = HELLO.replace("tests/hello", "tests/calls").replace(
        '{kind: noop, result: "hello {{ workload.name }}"}', f"{{kind: http, url: '{httpserver.url_for('/')}'}}"
    )
    started(client, {"playbook": text})
    assert "traceparent" not in httpserver.log[0][0].headers  # this process was not told to
    monkeypatch.setenv("NOETL_TRACES", receiver.url)
    execution = started(client, {"playbook": text})["execution_id"]
    trace = trace_of(traced, receiver, execution)
    calls = {f"00-{task.trace}-{task.id}-01" for task in trace.named("task task_1")}
    assert httpserver.log[1][0].headers["traceparent"] in calls


@pytest.mark.parametrize(
    "text",
    [
        "",
        "nonsense",
        CALLER.upper(),
        CALLER.replace("00-", "ff-"),
        f"00-{'0' * 32}-b7ad6b7169203331-01",
        f"00-0af7651916cd43dd8448eb211c80319c-{'0' * 16}-01",
        CALLER + "x",
    ],
)
def test_a_traceparent_that_makes_no_sense_counts_as_none(text: str) -> None:
    assert caller_of(text) is None


def test_a_traceparent_of_a_later_version_is_understood() -> None:
    assert caller_of(CALLER.replace("00-", "01-", 1) + "-more") == tuple(CALLER.split("-")[1:3])


# -- on and off -----------------------------------------------------------------------------------------------------


def test_where_spans_go() -> None:
    endpoint = "OTEL_EXPORTER_OTLP_ENDPOINT"
    assert traces_endpoint(None, {}) is None
    assert traces_endpoint(None, {endpoint: "http://c:4318/"}) == "http://c:4318/v1/traces"
    assert traces_endpoint(None, {endpoint: "http://c", "NOETL_TRACES": "http://d"}) == "http://d/v1/traces"
    assert traces_endpoint("http://e", {"NOETL_TRACES": "http://d"}) == "http://e/v1/traces"
    assert traces_endpoint(None, {endpoint: "http://c", "NOETL_TRACES": "off"}) is None
    assert traces_endpoint(None, {endpoint: "http://c", "OTEL_SDK_DISABLED": "TRUE"}) is None
    exact = {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://c/own", endpoint: "http://d"}
    assert traces_endpoint(None, exact) == "http://c/own"
    with pytest.raises(UsageError, match="http://"):
        traces_endpoint("collector:4318", {})


def test_nothing_is_imported_while_it_is_off() -> None:
    code = (
        "import sys\n"
        "from noetl.server.app import create_app\n"
        "import noetl.cli.server\n"
        "ours = ('opentelemetry.sdk', 'opentelemetry.exporter', 'opentelemetry.proto')\n"
        "assert not [name for name in sys.modules if name.startswith(ours)]\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=PATIENCE_SECONDS)


def test_without_the_packages_it_is_said_what_to_install() -> None:
    code = (
        "import sys; sys.modules['opentelemetry'] = None\n"
        "from noetl.server.traces import Traces\n"
        "from noetl.errors import UsageError\n"
        "try: Traces('http://x', None, None, '')\n"
        "except UsageError as error: assert \"pip install 'noetl-engine[otel]'\" in str(error)\n"
        "else: raise AssertionError\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=PATIENCE_SECONDS)
