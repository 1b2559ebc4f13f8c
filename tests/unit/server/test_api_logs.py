"""The output of tasks: pages in both directions, filters, and the whole log as a file."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest
from api_server import ApiServer, started

from noetl.server import log_pages

API = "/api/v1"
AT = 1_700_000_000.25
LAST = 2**31 - 1


@pytest.fixture
def client(on_disk: ApiServer) -> Iterator[httpx2.Client]:
    with on_disk.client("author") as author:
        yield author


class Log:
    """An execution with output."""

    def __init__(self, server: ApiServer, client: httpx2.Client, lines: list[tuple[str, str, str]]) -> None:
        text = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: l, path: tests/l}\n"
        text += "workflow: [{step: start, tool: {kind: noop}}]\n"
        self.client, self.execution = client, started(client, {"playbook": text})["execution_id"]
        self.url = f"{API}/executions/{self.execution}/logs"
        rows = [(self.execution, task, AT, stream, line) for task, stream, line in lines]

        async def append() -> None:
            await server.app.api.thread.ask(server.store.append_output, rows)

        server.do(append())

    def page(self, **query: Any) -> dict[str, Any]:
        answer = self.client.get(self.url, params=query)
        assert answer.status_code == 200, answer.text
        return dict(answer.json())

    def lines(self, **query: Any) -> list[str]:
        return [line["line"] for line in self.page(**query)["items"]]


TASKS = [
    ("start#1/get#1", "stdout", "one"),
    ("fetch#1[0]/get#1", "stdout", "Two"),
    ("fetch#1[0]/get#2", "stderr", "three"),
    ("fetch#1[10]/each#1[3]/get#1", "stdout", "four"),
    ("fetch#2[0]/save#1", "stderr", "two again"),
]


def test_a_log_can_be_read_from_both_ends(on_disk: ApiServer, client: httpx2.Client) -> None:
    log = Log(on_disk, client, [("start#1/t#1", "stdout", str(n)) for n in range(250)])
    Log(on_disk, client, [("start#1/t#1", "stdout", "of another run")])
    page = log.page(before=LAST, limit=100)
    assert [line["line"] for line in page["items"]] == [str(n) for n in range(150, 250)]
    assert page["next"] is None
    pages = [page]
    while page["prev"] is not None:
        page = log.page(before=page["prev"], limit=100)
        pages.insert(0, page)
    assert [line["line"] for page in pages for line in page["items"]] == [str(n) for n in range(250)]
    assert len(pages) == 3
    again = [pages[0]["items"]]
    following = pages[0]["next"]
    while following is not None:
        page = log.page(after=following, limit=100)
        again.append(page["items"])
        assert log.page(before=page["prev"], limit=1)["items"][0]["number"] == following
        following = page["next"]
    assert [line["line"] for items in again for line in items] == [str(n) for n in range(250)]
    assert log.page()["prev"] is None
    assert log.page(before=0)["next"] == 0


def test_lines_have_places_from_which_a_page_begins(on_disk: ApiServer, client: httpx2.Client) -> None:
    Log(on_disk, client, [("start#1/t#1", "stdout", "of another run")])
    log = Log(on_disk, client, [("start#1/t#1", "stdout", str(n)) for n in range(250)])
    assert log.lines(row=120, limit=3) == ["120", "121", "122"]
    assert log.lines(row=250) == []
    page = log.page(row=200, limit=20, count="true")
    assert (page["row"], page["total"]) == (200, 250)
    number = page["items"][5]["number"]
    assert log.page(after=number - 1, limit=1, count="true")["row"] == 205
    assert [log.page(before=LAST, limit=1, count="true")[name] for name in ("row", "total")] == [249, 250]
    assert "total" not in log.page()
    for refused in ({"q": "1"}, {"after": 3}, {"before": 3}, {"run": "start#1"}):
        assert client.get(log.url, params={"row": 1, **refused}).status_code == 422


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({"run": "fetch#1"}, ["Two", "three", "four"]),
        ({"run": "fetch#1", "item": 0}, ["Two", "three"]),
        ({"item": 1}, []),
        ({"item": 10}, ["four"]),
        ({"task": "get"}, ["one", "Two", "three", "four"]),
        ({"task": "get#2"}, ["three"]),
        ({"stream": "stderr"}, ["three", "two again"]),
        ({"q": "TWO"}, ["Two", "two again"]),
        ({"q": "two", "stream": "stdout"}, ["Two"]),
        ({"q": "nothing"}, []),
    ],
)
def test_filters_select_lines(
    on_disk: ApiServer, client: httpx2.Client, query: dict[str, Any], expected: list[str]
) -> None:
    log = Log(on_disk, client, TASKS)
    assert log.lines(**query) == expected
    assert log.lines(**query, before=LAST) == expected
    assert log.page(**query)["next"] is None


def test_a_search_stops_at_its_limit_and_continues(
    on_disk: ApiServer, client: httpx2.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_pages, "MAX_SCANNED_LINES", 300)
    log = Log(on_disk, client, [("s#1/t#1", "stdout", "needle" if n in (5, 890) else "hay") for n in range(1_000)])
    numbers = [line["number"] for line in log.page()["items"][:1]]
    page, result, requests = log.page(q="needle"), [], 1
    assert page["scanned_to"] == page["next"] == numbers[0] + 299
    while True:
        result += [line["number"] - numbers[0] for line in page["items"]]
        if page["next"] is None:
            break
        page, requests = log.page(q="needle", after=page["next"]), requests + 1
    assert (result, requests) == ([5, 890], 4)
    assert page["scanned_to"] == numbers[0] + 999
    page, requests = log.page(q="needle", before=LAST), 1
    assert page["scanned_to"] == page["prev"] == numbers[0] + 700
    while page["prev"] is not None:
        page, requests = log.page(q="needle", before=page["prev"]), requests + 1
    assert ([line["number"] - numbers[0] for line in page["items"]], requests) == ([5], 4)


def test_the_whole_log_is_a_file(on_disk: ApiServer, client: httpx2.Client) -> None:
    log = Log(on_disk, client, TASKS * 100)
    answer = client.get(log.url, headers={"Accept": "text/plain"})
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "text/plain; charset=utf-8"
    assert answer.headers["content-disposition"] == f'attachment; filename="{log.execution}.log"'
    assert answer.headers["content-security-policy"] == "sandbox"
    lines = answer.text.splitlines()
    assert len(lines) == 500
    assert lines[2] == "2023-11-14T22:13:20.250Z stderr fetch#1[0]/get#2 | three"
    errors = client.get(log.url, params={"stream": "stderr"}, headers={"Accept": "text/plain"}).text
    assert [line.rpartition(" | ")[2] for line in errors.splitlines()] == ["three", "two again"] * 100


def test_a_long_log_is_sent_without_holding_it(on_disk: ApiServer, client: httpx2.Client) -> None:
    log = Log(on_disk, client, [("s#1/t#1", "stdout", "x" * 1_000)] * 20_000)
    size = 0
    tracemalloc.start()  # the server runs in this process
    try:
        with client.stream("GET", log.url, headers={"Accept": "text/plain"}) as answer:
            for part in answer.iter_raw():
                size += len(part)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert size > 20_000_000
    assert peak < 8_000_000


def test_a_log_that_is_missing(client: httpx2.Client) -> None:
    url = f"{API}/executions/01890000-0000-7000-8000-000000000000/logs"
    for accept in ("application/json", "text/plain"):
        assert client.get(url, headers={"Accept": accept}).status_code == 404


@pytest.mark.parametrize("query", [{"after": 1, "before": 2}, {"stream": "stdin"}, {"item": -1}, {"before": "x"}])
def test_a_query_that_makes_no_sense_is_refused(
    on_disk: ApiServer, client: httpx2.Client, query: dict[str, Any]
) -> None:
    log = Log(on_disk, client, [])
    assert client.get(log.url, params=query).status_code == 422


def test_a_file_has_no_page_before_a_line(on_disk: ApiServer, client: httpx2.Client) -> None:
    log = Log(on_disk, client, [])
    assert client.get(log.url, params={"before": 5}, headers={"Accept": "text/plain"}).status_code == 422
    assert log.page() == {"items": [], "next": None, "prev": None, "scanned_to": None}
