"""The eight acceptance tests of seed 004, section 13, over HTTP on loopback and a SQLite store."""

# ruff: noqa: E501 (playbooks)

from __future__ import annotations

import json
import re
import threading
from hashlib import sha256
from pathlib import Path
from textwrap import dedent

import pytest
from embedded import MAX_EVENT_BYTES, run
from pytest_httpserver import HTTPServer
from tests.servers.patience import PATIENCE_SECONDS
from werkzeug import Request, Response

from noetl.dsl.compile import load
from noetl.reference import Reference
from noetl.tools.registry import KINDS

HEAD = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: acceptance, path: acceptance/seed_004}
"""


def problems(policy: str) -> list[str]:
    text = HEAD + dedent(
        f"""
        workflow:
          - step: start
            tool:
              - ask:
                  kind: noop
                  spec: {{policy: {policy}}}
        """
    )
    return [str(problem.message) for problem in load("p.yaml", text, KINDS).problems if problem.severity == "error"]


# -- 1 ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", ["continue", "[{when: true}]", "7", "{rules: {do: fail}}"])
def test_1_policy_validation_rejects_what_is_no_object(policy: str) -> None:
    assert problems(policy)


@pytest.mark.parametrize("rule", ["{then: {}}", "{then: {set_ctx: {a: 1}}}", "{then: {do: perhaps}}", "{then: retry}"])
def test_1_policy_validation_rejects_a_rule_without_a_directive(rule: str) -> None:
    assert problems(f"{{rules: [{{else: {rule}}}]}}")
    assert problems("{rules: [{else: {then: {do: continue}}}]}") == []


# -- 2 ---------------------------------------------------------------------------------------------------------------

RETRY = (
    HEAD
    + """
workflow:
  - step: start
    tool:
      - ask:
          kind: http
          url: "{{ workload.url }}/shaky"
          spec:
            policy:
              rules:
                - when: "{{ outcome.status == 'error' and outcome.http.status in [500, 502, 503] }}"
                  then: {do: retry, attempts: 4, backoff: exponential, delay: 0.5}
                - when: "{{ outcome.status == 'error' }}"
                  then: {do: fail}
                - else: {then: {do: continue}}
"""
)


def test_2_retry_gives_up_after_n_attempts(httpserver: HTTPServer, tmp_path: Path) -> None:
    httpserver.expect_request("/shaky").respond_with_data("no", status=500)
    end = run(tmp_path, RETRY, {"url": httpserver.url_for("")})
    assert len(httpserver.log) == 4
    assert end.state.status == "failed"
    assert end.state.error is not None
    assert (end.state.error["kind"], end.state.error["task"], end.state.error["attempt"]) == ("http_status", "ask", 4)
    assert "after 4 attempts" in end.state.error["message"]
    assert end.waits == [0.5, 1, 2]
    assert [event.attempt for event in end.of("task.done")] == [1, 2, 3, 4]


def test_2_retry_ends_with_the_first_success(httpserver: HTTPServer, tmp_path: Path) -> None:
    for status in (500, 503):
        httpserver.expect_ordered_request("/shaky").respond_with_data("no", status=status)
    httpserver.expect_ordered_request("/shaky").respond_with_json({"fine": True})
    end = run(tmp_path, RETRY, {"url": httpserver.url_for("")})
    assert end.state.status == "succeeded"
    assert end.state.result["data"] == {"fine": True}
    assert len(httpserver.log) == 3


def test_2_retry_is_for_what_its_rule_names(httpserver: HTTPServer, tmp_path: Path) -> None:
    httpserver.expect_request("/shaky").respond_with_data("no", status=403)
    end = run(tmp_path, RETRY, {"url": httpserver.url_for("")})
    assert end.state.status == "failed"
    assert len(httpserver.log) == 1


# -- 3 ---------------------------------------------------------------------------------------------------------------

JUMP = (
    HEAD
    + """
workflow:
  - step: start
    tool:
      - ask:
          kind: http
          url: "{{ workload.url }}"
          spec:
            policy:
              rules:
                - {when: "{{ outcome.http.status == 404 }}", then: {do: jump, to: store_404}}
                - {when: "{{ outcome.http.status == 200 }}", then: {do: jump, to: store_200}}
                - else: {then: {do: fail}}
      - store_200:
          kind: python
          args: {data: "{{ tasks.ask.result.data }}"}
          code: "result = {'stored': data}"
          spec: {policy: {rules: [{else: {then: {do: break}}}]}}
      - store_404:
          kind: python
          args: {status: "{{ tasks.ask.http.status }}"}
          code: "result = {'missing': status}"
          spec: {policy: {rules: [{else: {then: {do: break}}}]}}
"""
)


@pytest.mark.parametrize(
    ("path", "result", "ran"),
    [("/there", {"stored": [1, 2]}, "store_200"), ("/gone", {"missing": 404}, "store_404")],
)
def test_3_jump_routing(httpserver: HTTPServer, tmp_path: Path, path: str, result: object, ran: str) -> None:
    httpserver.expect_request("/there").respond_with_json([1, 2])
    httpserver.expect_request("/gone").respond_with_data("nothing", status=404)
    end = run(tmp_path, JUMP, {"url": httpserver.url_for(path)})
    assert end.state.status == "succeeded"
    assert end.state.result == result
    assert [event.task.label for event in end.of("task.started")] == ["ask", ran]


# -- 4 ---------------------------------------------------------------------------------------------------------------

PAGES = (
    HEAD
    + """
workflow:
  - step: start
    tool:
      - init: {kind: noop, spec: {policy: {rules: [{else: {then: {do: continue, set_iter: {page: 1, has_more: true}}}}]}}}
      - fetch:
          kind: http
          url: "{{ workload.url }}/pages"
          params: {page: "{{ iter.page }}"}
          spec:
            policy:
              rules:
                - {when: "{{ outcome.status == 'error' }}", then: {do: fail}}
                - else:
                    then:
                      do: continue
                      set_iter: {has_more: "{{ outcome.result.data.paging.has_more }}"}
      - store:
          kind: python
          args: {rows: "{{ _prev.data.rows }}", file: "{{ workload.file }}"}
          code: |
            import json
            with open(file, 'a') as out:
                out.writelines(json.dumps(row) + '\\n' for row in rows)
            result = len(rows)
      - turn:
          kind: noop
          spec:
            policy:
              rules:
                - when: "{{ iter.has_more }}"
                  then: {do: jump, to: fetch, set_iter: {page: "{{ iter.page + 1 }}"}}
                - else: {then: {do: break}}
      - never: {kind: noop, result: never}
"""
)


def test_4_streaming_pagination(httpserver: HTTPServer, tmp_path: Path) -> None:
    def page(request: Request) -> Response:
        number = int(request.args["page"])
        body = {"rows": [{"page": number, "row": i} for i in range(10)], "paging": {"has_more": number < 7}}
        return Response(json.dumps(body), content_type="application/json")

    httpserver.expect_request("/pages").respond_with_handler(page)
    rows = tmp_path / "rows.jsonl"
    end = run(tmp_path, PAGES, {"url": httpserver.url_for(""), "file": str(rows)})
    assert end.state.status == "succeeded"
    assert [request.args["page"] for request, _ in httpserver.log] == [str(n) for n in range(1, 8)]
    assert len(rows.read_text().splitlines()) == 70
    assert [str(event.task) for event in end.of("task.started") if event.task.label == "fetch"][-1] == "start#1/fetch#7"
    assert end.of("task.done")[-1].do == "break"
    assert "never" not in {event.task.label for event in end.of("task.started")}


# -- 5 ---------------------------------------------------------------------------------------------------------------

PARALLEL = (
    HEAD
    + """
workflow:
  - step: start
    loop: {in: "{{ range(24) }}", iterator: n, spec: {mode: parallel, max_in_flight: 4}}
    tool:
      - mark:
          kind: noop
          spec: {policy: {rules: [{else: {then: {do: continue, set_iter: {mine: "{{ iter.n * 100 }}"}}}}]}}
      - ask: {kind: http, url: "{{ workload.url }}/slow", params: {n: "{{ iter.n }}"}}
      - show: {kind: noop, result: ["{{ iter.n }}", "{{ iter.mine }}", "{{ _prev.data.n }}"]}
"""
)


def test_5_parallel_loop_is_bounded_and_isolated(tmp_path: Path) -> None:
    lock, flying, most = threading.Lock(), 0, 0
    both = threading.Event()

    def slow(request: Request) -> Response:
        nonlocal flying, most
        with lock:
            flying += 1
            most = max(most, flying)
            if flying > 1:
                both.set()
        both.wait(PATIENCE_SECONDS)  # the first one waits for company, so the loop is known to be parallel
        with lock:
            flying -= 1
        return Response(f'{{"n": {request.args["n"]}}}', content_type="application/json")

    with HTTPServer(threaded=True) as server:
        server.expect_request("/slow").respond_with_handler(slow)
        end = run(tmp_path, PARALLEL, {"url": server.url_for("")})
    assert end.state.result == [[n, n * 100, n] for n in range(24)]
    assert 1 < most <= 4
    started = unfinished = 0
    for row in end.rows:
        unfinished += (row.type == "loop.iteration.started") - (row.type == "loop.iteration.done")
        started = max(started, unfinished)
    assert started <= 4
    assert len(end.of("loop.done")) == 1


# -- 6 ---------------------------------------------------------------------------------------------------------------

NESTED = (
    HEAD
    + """
workflow:
  - step: cities
    loop: {in: "{{ workload.cities }}", iterator: city, spec: {mode: parallel, max_in_flight: 3}}
    tool:
      - hotels: {kind: http, url: "{{ workload.url }}/{{ iter.city }}/hotels"}
      - rooms:
          kind: iterator
          in: "{{ tasks.hotels.result.data }}"
          iterator: hotel
          tool:
            - init: {kind: noop, spec: {policy: {rules: [{else: {then: {do: continue, set_iter: {page: 1, seen: []}}}}]}}}
            - fetch:
                kind: http
                url: "{{ workload.url }}/{{ iter.parent.city }}/{{ iter.hotel }}"
                params: {page: "{{ iter.page }}"}
                spec:
                  policy:
                    rules:
                      - {when: "{{ outcome.status == 'error' }}", then: {do: fail}}
                      - when: "{{ outcome.result.data.has_more }}"
                        then:
                          do: jump
                          to: fetch
                          set_iter: {page: "{{ iter.page + 1 }}", seen: {$append: "{{ outcome.result.data.room }}"}}
                      - else: {then: {do: continue, set_iter: {seen: {$append: "{{ outcome.result.data.room }}"}}}}
            - show: {kind: noop, result: "{{ iter.parent.city }}/{{ iter.hotel }}: {{ iter.seen | join(' ') }}"}
"""
)


def test_6_nested_loops(httpserver: HTTPServer, tmp_path: Path) -> None:
    order: dict[str, list[int]] = {}

    def answer(request: Request) -> Response:
        city, what = request.path.strip("/").split("/")
        if what == "hotels":
            return Response(f'["{city}1", "{city}2"]', content_type="application/json")
        page = int(request.args["page"])
        order.setdefault(what, []).append(page)
        more = "true" if page < 3 else "false"
        return Response(f'{{"room": "r{page}", "has_more": {more}}}', content_type="application/json")

    httpserver.expect_request(re.compile("^/.*")).respond_with_handler(answer)
    end = run(tmp_path, NESTED, {"url": httpserver.url_for("").rstrip("/"), "cities": ["a", "b", "c", "d"]})
    assert end.state.result == [[f"{city}/{city}{n}: r1 r2 r3" for n in (1, 2)] for city in "abcd"]
    assert order == {f"{city}{n}": [1, 2, 3] for city in "abcd" for n in (1, 2)}


# -- 7 ---------------------------------------------------------------------------------------------------------------

NEXT = (
    HEAD
    + """
workflow:
  - step: start
    tool: [{ask: {kind: http, url: "{{ workload.url }}/score"}}]
    next:
      spec: {mode: MODE}
      arcs:
        - {step: low, when: "{{ steps.start.result.data.score < 3 }}"}
        - {step: good, when: "{{ steps.start.result.data.score > 3 }}", args: {score: "{{ event.data.result.data.score }}"}}
        - {step: great, when: "{{ steps.start.result.data.score > 7 }}"}
  - {step: low, tool: {kind: noop}}
  - {step: good, tool: {kind: noop, result: "{{ args.score }}"}}
  - {step: great, tool: {kind: noop}}
"""
)


@pytest.mark.parametrize(
    ("mode", "score", "runs"),
    [
        ("exclusive", 9, ["start#1", "good#1"]),
        ("inclusive", 9, ["start#1", "good#1", "great#1"]),
        ("inclusive", 1, ["start#1", "low#1"]),
        ("exclusive", 3, ["start#1"]),
    ],
)
def test_7_next_routing(httpserver: HTTPServer, tmp_path: Path, mode: str, score: int, runs: list[str]) -> None:
    httpserver.expect_request("/score").respond_with_json({"score": score})
    end = run(tmp_path, NEXT.replace("MODE", mode), {"url": httpserver.url_for("")})
    assert end.state.status == "succeeded"
    assert [event.run for event in end.of("step.scheduled")] == runs


# -- 8 ---------------------------------------------------------------------------------------------------------------

LARGE = (
    HEAD
    + """
workflow:
  - step: start
    tool:
      - ask:
          kind: http
          url: "{{ workload.url }}/large"
          spec:
            policy:
              rules:
                - {when: "{{ outcome.result.data.rows | length == 5000 }}", then: {do: continue, set_ctx: {all: "{{ outcome.result }}"}}}
                - else: {then: {do: fail}}
      - count: {kind: python, args: {rows: "{{ _prev.data.rows }}"}, code: "result = sum(row['n'] for row in rows)"}
      - pass: {kind: noop, result: {sum: "{{ _prev }}", all: "{{ tasks.ask.result }}"}}
    next: {arcs: [{step: each, when: "{{ steps.start.result.all.data.rows[4999].n == 4999 }}"}]}
  - step: each
    loop: {in: "{{ ctx.all.data.rows }}", iterator: row, spec: {mode: parallel}}
    tool: {kind: noop, result: "{{ iter.row.n }}"}
    next: {arcs: [{step: last}]}
  - {step: last, tool: {kind: noop, result: ["{{ steps.start.result.sum }}", "{{ steps.each.result | sum }}"]}}
"""
)


def test_8_result_references(httpserver: HTTPServer, tmp_path: Path) -> None:
    rows = [{"n": n, "text": "x" * 100} for n in range(5000)]
    httpserver.expect_request("/large").respond_with_json({"rows": rows})
    end = run(tmp_path, LARGE, {"url": httpserver.url_for("")})
    assert end.state.error is None
    assert end.state.result == [sum(range(5000))] * 2
    assert max(len(row.data) for row in end.rows) < MAX_EVENT_BYTES
    reference = end.of("task.done")[0].outcome.result
    assert isinstance(reference, Reference)
    assert end.state.ctx["all"] == reference
    stored = end.blobs[reference.key]
    assert (reference.size, reference.checksum) == (len(stored), f"sha256:{sha256(stored).hexdigest()}")
    assert reference.size > 500_000
