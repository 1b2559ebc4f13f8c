"""Paging several endpoints of a shaky API (seed 001, section 11 and its appendix): fetch, store, turn the page."""

# ruff: noqa: E501 (playbooks)

from __future__ import annotations

import json
import re
import threading
from collections import Counter
from pathlib import Path

import pytest
from embedded import MAX_EVENT_BYTES, run
from pytest_httpserver import HTTPServer
from werkzeug import Request, Response

LIBRARY = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: library, path: acceptance/library}
workload:
  shelves:
    - {path: /novels, size: 3}
    - {path: /poems, size: 2}
    - {path: /plays, size: 5}
workflow:
  - step: copy_shelves
    spec: {policy: {admit: {rules: [{else: {then: {allow: true}}}]}}}
    loop: {in: "{{ workload.shelves }}", iterator: shelf, spec: {mode: MODE, max_in_flight: 2}}
    tool:
      - open:
          kind: noop
          spec: {policy: {rules: [{else: {then: {do: continue, set_iter: {page: 1, has_more: true}}}}]}}
      - fetch:
          kind: http
          method: GET
          url: "{{ workload.api }}{{ iter.shelf.path }}"
          params: {page: "{{ iter.page }}", size: "{{ iter.shelf.size }}"}
          spec:
            timeout: {connect: 5, read: 15}
            policy:
              rules:
                - when: "{{ outcome.status == 'error' and outcome.http.status in [429, 500, 502, 503, 504] }}"
                  then: {do: retry, attempts: 5, backoff: exponential, delay: 0.5}
                - when: "{{ outcome.status == 'error' }}"
                  then: {do: fail}
                - else:
                    then:
                      do: continue
                      set_iter:
                        has_more: "{{ outcome.result.data.paging.hasMore | default(false) }}"
                        books: "{{ outcome.result.data.books | default([]) }}"
      - keep:
          kind: python
          args: {folder: "{{ workload.folder }}", name: "{{ iter.shelf.path }}", page: "{{ iter.page }}", books: "{{ iter.books }}"}
          code: |
            import json, pathlib
            file = pathlib.Path(folder) / f"{name.strip('/')}-{page}.json"
            file.write_text(json.dumps(books))
            result = {"file": file.name, "books": len(books)}
          spec:
            policy:
              rules:
                - when: "{{ outcome.status == 'error' }}"
                  then: {do: fail}
                - else: {then: {do: continue, set_ctx: {books: {$add: "{{ outcome.result.books }}"}}}}
      - turn:
          kind: noop
          spec:
            policy:
              rules:
                - when: "{{ iter.has_more == true }}"
                  then: {do: jump, to: fetch, set_iter: {page: "{{ (iter.page | int) + 1 }}"}}
                - else: {then: {do: break}}
    next:
      spec: {mode: exclusive}
      arcs:
        - {step: count, when: "{{ event.name == 'loop.done' }}", args: {shelves: "{{ event.data.total }}"}}
        - {step: clean_up, when: "{{ event.name == 'step.failed' }}", args: {why: "{{ event.data.error.kind }}", task: "{{ event.data.task }}"}}
  - step: count
    tool: {kind: noop, result: {shelves: "{{ args.shelves }}", books: "{{ ctx.books }}", last: "{{ steps.copy_shelves.result }}"}}
  - step: clean_up
    tool:
      - sweep:
          kind: python
          args: {folder: "{{ workload.folder }}", why: "{{ args.why }}", task: "{{ args.task }}"}
          code: |
            import pathlib
            for file in pathlib.Path(folder).glob('*.json'):
                file.unlink()
            result = [why, task]
"""

PAGES = {"novels": 4, "poems": 1, "plays": 3}


class Api:
    """Pages of shelves; the first answers to some pages are errors."""

    def __init__(self, trouble: dict[tuple[str, int], list[tuple[int, dict[str, str]]]], padding: int = 0) -> None:
        self.trouble, self.padding = trouble, padding
        self.asked: list[tuple[str, int]] = []
        self.lock = threading.Lock()

    def __call__(self, request: Request) -> Response:
        shelf, page, size = request.path.strip("/"), int(request.args["page"]), int(request.args["size"])
        with self.lock:
            self.asked.append((shelf, page))
            waiting = self.trouble.get((shelf, page), [])
            if waiting:
                status, headers = waiting.pop(0)
                return Response("not now", status=status, headers=headers)
        books = [{"title": f"{shelf} {page}.{i}", "text": "x" * self.padding} for i in range(size)]
        body = {"books": books, "paging": {"hasMore": page < PAGES[shelf], "page": page}}
        return Response(json.dumps(body), content_type="application/json")


def shelves(httpserver: HTTPServer, api: Api) -> dict[str, str]:
    httpserver.expect_request(re.compile("^/.*")).respond_with_handler(api)
    return {"api": httpserver.url_for("").rstrip("/")}


BOOKS = 4 * 3 + 1 * 2 + 3 * 5
FILES = sorted(f"{shelf}-{page}.json" for shelf, pages in PAGES.items() for page in range(1, pages + 1))


@pytest.mark.parametrize("mode", ["sequential", "parallel"])
def test_all_pages_of_all_endpoints_are_kept_through_errors(httpserver: HTTPServer, tmp_path: Path, mode: str) -> None:
    folder = tmp_path / "books"
    folder.mkdir()
    api = Api(
        {
            ("novels", 2): [(500, {}), (503, {})],
            ("poems", 1): [(429, {"Retry-After": "3"})],
            ("plays", 3): [(502, {})],
        }
    )
    end = run(tmp_path, LIBRARY.replace("MODE", mode), {**shelves(httpserver, api), "folder": str(folder)})
    assert end.state.error is None
    assert end.state.result["shelves"] == 3
    assert end.state.result["books"] == end.state.ctx["books"] == BOOKS
    assert [one["file"] for one in end.state.result["last"]] == ["novels-4.json", "poems-1.json", "plays-3.json"]
    assert sorted(file.name for file in folder.iterdir()) == FILES
    assert Counter(api.asked)["novels", 2] == 3
    assert sorted(end.waits) == [0.5, 0.5, 1, 3]
    if mode == "sequential":
        assert list(dict.fromkeys(api.asked)) == [
            (shelf, page) for shelf, pages in PAGES.items() for page in range(1, pages + 1)
        ]
    assert [event.run for event in end.of("step.scheduled")] == ["copy_shelves#1", "count#1"]


@pytest.mark.parametrize("status", [500, 404])
def test_an_endpoint_that_stays_broken_takes_the_other_arc(httpserver: HTTPServer, tmp_path: Path, status: int) -> None:
    folder = tmp_path / "books"
    folder.mkdir()
    api = Api({("plays", 2): [(status, {})] * 99})
    end = run(tmp_path, LIBRARY.replace("MODE", "sequential"), {**shelves(httpserver, api), "folder": str(folder)})
    assert end.state.status == "succeeded"  # an arc took the failure up
    assert end.state.steps["copy_shelves"].status == "failed"
    assert end.state.result == ["http_status", "fetch"]
    assert list(folder.iterdir()) == []
    assert Counter(api.asked)["plays", 2] == (5 if status == 500 else 1)
    assert [event.run for event in end.of("step.scheduled")] == ["copy_shelves#1", "clean_up#1"]


def test_large_pages_travel_by_reference(httpserver: HTTPServer, tmp_path: Path) -> None:
    folder = tmp_path / "books"
    folder.mkdir()
    api = Api({}, padding=40_000)
    end = run(tmp_path, LIBRARY.replace("MODE", "parallel"), {**shelves(httpserver, api), "folder": str(folder)})
    assert end.state.error is None
    assert end.state.ctx["books"] == BOOKS
    assert max(len(row.data) for row in end.rows) < MAX_EVENT_BYTES
    assert len(json.loads((folder / "plays-3.json").read_text())) == 5
