"""Stored values: by range, and by page, however large they are."""

from __future__ import annotations

import json
import random
import tracemalloc
from collections.abc import Iterator
from contextlib import closing
from hashlib import sha256
from pathlib import Path
from typing import Any

import httpx2
import msgspec
import pytest
from api_server import ApiServer, started
from shared_store import address_of, server_at
from tests.conformance.suites import change
from tests.servers.postgres import postgres_fixture, store_schema_fixture  # noqa: F401

from noetl.server import stored_values
from noetl.server.routes import results
from noetl.server.stored_values import BLOCK_BYTES, BLOCK_ITEMS, PAGE_BYTES, Blocks, index_of
from noetl.store.sqlite import SqliteStore

pytestmark = pytest.mark.damaged_log("the rows are made up: they only carry contents")

API = "/api/v1/results"
LARGE = 9 << 20


class Shelf:
    """Puts contents into the store of a server on SQLite."""

    def __init__(self, server: ApiServer, number: int = 0) -> None:
        self.server, self.number = server, number

    def put(self, content: bytes) -> str:
        key, self.number = sha256(content).hexdigest(), self.number + 1
        execution = f"00000000-0000-7000-8000-{self.number:012x}"

        async def commit() -> None:
            await self.server.app.api.thread.ask(
                self.server.store.commit, [change(execution, 0, blobs=[(key, content)])]
            )

        self.server.do(commit())
        return key

    def value(self, value: Any) -> str:
        return self.put(msgspec.json.encode(value))


@pytest.fixture(scope="module")
def shelf(on_disk: ApiServer) -> Shelf:
    return Shelf(on_disk)


@pytest.fixture
def viewer(on_disk: ApiServer) -> Iterator[httpx2.Client]:
    with on_disk.client("viewer") as client:
        yield client


def all_pages(client: httpx2.Client, key: str, **query: Any) -> tuple[list[Any], list[dict[str, Any]]]:
    """The items of all pages, and the pages."""
    items, pages, after = [], [], 0
    while True:
        answer = client.get(f"{API}/{key}/page", params={"after": after, **query})
        assert answer.status_code == 200, answer.text
        page = answer.json()
        pages.append(page)
        items += page["items"]
        if page["next"] is None:
            return items, pages
        assert page["next"] > after
        after = page["next"]


# -- ranges ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1_000, LARGE])
@pytest.mark.parametrize(
    ("sent", "start", "end"),
    [("bytes=0-0", 0, 1), ("bytes=10-99", 10, 100), ("bytes=900-", 900, None), ("bytes=-7", -7, None)],
)
def test_a_range_is_the_part_of_the_content(
    shelf: Shelf, viewer: httpx2.Client, size: int, sent: str, start: int, end: int | None
) -> None:
    content = random.Random(size).randbytes(size)
    key = shelf.put(content)
    answer = viewer.get(f"{API}/{key}", headers={"Range": sent})
    part = content[start:end]
    first = start % size
    assert (answer.status_code, answer.content) == (206, part)
    assert answer.headers["content-range"] == f"bytes {first}-{first + len(part) - 1}/{size}"
    assert answer.headers["content-length"] == str(len(part))


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_every_range_is_the_slice_however_its_content_is_read(
    request: pytest.FixtureRequest, tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    contents = [b"", bytes(range(200, 205))]

    def expected(content: bytes, sent: str) -> tuple[int, bytes]:
        first, _, last = sent.partition("-")
        size = len(content)
        if first and last and int(last) < int(first):
            return 200, content  # not a range
        start = int(first) if first else max(0, size - int(last))
        if start >= size:
            return 416, b""
        return 206, content[start : int(last) + 1] if first and last else content[start:]

    with closing(server_at(address_of(request, kind, tmp_path))) as server, server.client("viewer") as client:
        keys = {Shelf(server, number).put(content): content for number, content in enumerate(contents)}
        for part_bytes in (0, 1, 2, 5, 64):  # 0: in one piece
            monkeypatch.setattr(results, "MAX_PARSED_BYTES", -1 if part_bytes else 1_000)
            monkeypatch.setattr(results, "PART_BYTES", part_bytes)
            for key, content in keys.items():
                ends = ["", *range(len(content) + 2)]
                for sent in (f"{first}-{last}" for first in ends for last in ends if (first, last) != ("", "")):
                    answer = client.get(f"{API}/{key}", headers={"Range": f"bytes={sent}"})
                    status, part = expected(content, sent)
                    assert answer.status_code == status, sent
                    assert status == 416 or answer.content == part, sent
                    if status == 206:
                        first = content.index(part)  # every byte is another one
                        span = f"{first}-{first + len(part) - 1}"
                        assert answer.headers["content-range"] == f"bytes {span}/{len(content)}"


def test_the_whole_content_is_an_attachment_in_a_sandbox(shelf: Shelf, viewer: httpx2.Client) -> None:
    content = random.Random(1).randbytes(LARGE)
    key = shelf.put(content)
    answer = viewer.get(f"{API}/{key}")
    assert (answer.status_code, answer.content) == (200, content)
    assert answer.headers["accept-ranges"] == "bytes"
    assert answer.headers["etag"] == f'"{key}"'
    assert answer.headers["content-disposition"].startswith("attachment")
    assert answer.headers["content-security-policy"] == "sandbox"
    assert "content-range" not in answer.headers
    again = viewer.get(f"{API}/{key}", headers={"If-None-Match": f'"{key}"'})
    assert (again.status_code, again.content) == (304, b"")


@pytest.mark.parametrize("sent", ["bytes=1000-", "bytes=5000-6000", "bytes=-0"])
def test_a_range_beyond_the_end_is_refused(shelf: Shelf, viewer: httpx2.Client, sent: str) -> None:
    key = shelf.put(b"x" * 1_000)
    answer = viewer.get(f"{API}/{key}", headers={"Range": sent})
    assert (answer.status_code, answer.json()["title"]) == (416, "Range Not Satisfiable")
    assert answer.headers["content-range"] == "bytes */1000"


@pytest.mark.parametrize("sent", ["bytes=9-1", "bytes=0-1,5-6", "lines=0-1", "bytes=", "bytes=a-b", "bytes=--1"])
def test_another_kind_of_range_is_ignored(shelf: Shelf, viewer: httpx2.Client, sent: str) -> None:
    key = shelf.put(b"y" * 1_000)
    answer = viewer.get(f"{API}/{key}", headers={"Range": sent})
    assert (answer.status_code, len(answer.content)) == (200, 1_000)


def test_a_range_of_another_version_is_the_whole_content(shelf: Shelf, viewer: httpx2.Client) -> None:
    key = shelf.put(b"z" * 1_000)
    part = {"Range": "bytes=0-9"}
    assert len(viewer.get(f"{API}/{key}", headers=part | {"If-Range": f'"{key}"'}).content) == 10
    assert len(viewer.get(f"{API}/{key}", headers=part | {"If-Range": '"other"'}).content) == 1_000
    assert len(viewer.get(f"{API}/{key}", headers=part | {"If-Range": f'W/"{key}"'}).content) == 1_000


def test_json_is_sent_as_json_and_uncompressed(shelf: Shelf, viewer: httpx2.Client) -> None:
    key = shelf.value(["a" * 100] * 1_000)
    answer = viewer.get(f"{API}/{key}", headers={"Accept-Encoding": "gzip"})
    assert answer.headers["content-type"] == "application/json"
    assert "content-encoding" not in answer.headers


def test_a_large_content_is_read_in_parts(shelf: Shelf, viewer: httpx2.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    content = random.Random(2).randbytes(LARGE)
    key = shelf.put(content)
    monkeypatch.setattr(results, "PART_BYTES", 1 << 16)
    monkeypatch.setattr(SqliteStore, "blob", None)
    assert viewer.get(f"{API}/{key}").content == content


def test_a_result_that_is_missing(viewer: httpx2.Client) -> None:
    for path in (f"{API}/{'0' * 64}", f"{API}/{'0' * 64}/page"):
        assert viewer.get(path).status_code == 404


# -- pages ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("limit", [1, 7, 100, 1_000])
def test_the_pages_of_a_list_are_the_list(shelf: Shelf, viewer: httpx2.Client, limit: int) -> None:
    values = [{"n": n, "ü": "é😀" * (n % 5), "more": [None, True, -1.5e-7, {}, []]} for n in range(3 * limit + 5)]
    items, pages = all_pages(viewer, shelf.value(values), limit=limit)
    assert items == values
    assert len(pages) == -(-len(values) // limit)
    assert {(page["kind"], page["total"]) for page in pages} == {("list", len(values))}


def test_any_page_of_a_long_list_is_found_by_its_number(shelf: Shelf, viewer: httpx2.Client) -> None:
    values = list(range(12 * BLOCK_ITEMS))
    key = shelf.value(values)
    for after in (0, 999, 1_000, 1_001, 7_777, len(values) - 3, len(values), len(values) + 9):
        page = viewer.get(f"{API}/{key}/page", params={"after": after, "limit": 1_000}).json()
        assert page["items"] == values[after : after + 1_000]
        assert page["next"] == (after + 1_000 if after + 1_000 < len(values) else None)


def test_a_page_ends_at_a_megabyte(shelf: Shelf, viewer: httpx2.Client) -> None:
    values = ["x" * 300_000, "y" * (3 << 20), "z", *["w" * 60_000] * 100]
    items, pages = all_pages(viewer, shelf.value(values), limit=1_000)
    assert items == values
    assert [len(page["items"]) for page in pages[:2]] == [2, 19]
    assert all(len(json.dumps(page)) < PAGE_BYTES + (3 << 20) + 1_000 for page in pages)


def test_the_pages_of_a_map_are_its_keys_and_values(shelf: Shelf, viewer: httpx2.Client) -> None:
    value = {f'key {n} "ß"': {"n": n} for n in range(2_500)}
    items, pages = all_pages(viewer, shelf.value(value), limit=1_000)
    assert {item["key"]: item["value"] for item in items} == value
    assert {(page["kind"], page["total"]) for page in pages} == {("map", 2_500)}


def test_the_pages_of_a_text_are_its_lines(shelf: Shelf, viewer: httpx2.Client) -> None:
    text = "\n".join(["", "first ü", "😀" * 70_000, "", "last"])
    items, pages = all_pages(viewer, shelf.value(text), limit=2)
    assert "".join(items) == text
    assert items[:2] == ["\n", "first ü\n"]
    assert {(page["kind"], page["total"]) for page in pages} == {("text", len(text))}


@pytest.mark.parametrize(
    ("content", "kind", "total", "items"),
    [
        (b"[]", "list", 0, []),
        (b"{}", "map", 0, []),
        (b'""', "text", 0, []),
        (b' [ 1 , [2, {"a": "]"}] ]\n', "list", 2, [1, [2, {"a": "]"}]]),
        (b'{ "a" : 1 , "b":"}" }', "map", 2, [{"key": "a", "value": 1}, {"key": "b", "value": "}"}]),
        (b"17.5", "value", 1, [17.5]),
        (b"null", "value", 1, [None]),
        (b"", "binary", 0, []),
        (b"\x89PNG\r\n", "binary", 6, []),
        (b"[1, 2", "binary", 5, []),
        (b"[1 2]", "binary", 5, []),
        (b"[1,]", "binary", 4, []),
        (b"[1] x", "binary", 5, []),
        (b"[NaN]", "binary", 5, []),
        (b'{"a"}', "binary", 5, []),
        (b"[" * 100_000, "binary", 100_000, []),
    ],
)
def test_every_content_has_a_kind(
    shelf: Shelf, viewer: httpx2.Client, content: bytes, kind: str, total: int, items: list[Any]
) -> None:
    page = viewer.get(f"{API}/{shelf.put(content)}/page").json()
    assert page == {"kind": kind, "total": total, "items": items, "next": None}


def test_the_chunks_of_a_loop_are_one_list_in_order(shelf: Shelf, viewer: httpx2.Client) -> None:
    """Items are stored in the order in which they ended, and failed ones not at all."""
    order = random.Random(5).sample(range(10_000), 10_000)
    order.sort(key=lambda number: number // 500)  # neighbours end at about the same time
    pairs = [[number, {"n": number}] for number in order if number % 97]
    chunks = [shelf.value(pairs[start : start + 300]) for start in range(0, len(pairs), 300)]
    key = shelf.value({"chunks": chunks, "marked": [], "total": 10_000})
    items, pages = all_pages(viewer, key, limit=1_000)
    assert items == [{"n": number} if number % 97 else None for number in range(10_000)]
    assert {(page["kind"], page["total"]) for page in pages} == {("list", 10_000)}
    page = viewer.get(f"{API}/{key}/page", params={"after": 9_990}).json()
    assert page["items"] == [{"n": number} if number % 97 else None for number in range(9_990, 10_000)]


def test_a_page_of_chunks_reads_only_its_chunks(
    shelf: Shelf, viewer: httpx2.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    chunks = [shelf.value([[n, n] for n in range(start, start + 100)]) for start in range(0, 5_000, 100)]
    key = shelf.value({"chunks": chunks, "marked": [], "total": 5_000})
    viewer.get(f"{API}/{key}/page")
    read: list[str] = []
    blob = SqliteStore.blob
    monkeypatch.setattr(SqliteStore, "blob", lambda store, key: read.append(key) or blob(store, key))
    page = viewer.get(f"{API}/{key}/page", params={"after": 2_050, "limit": 100}).json()
    assert page["items"] == list(range(2_050, 2_150))
    assert read == chunks[20:22]


def test_a_map_that_looks_like_chunks_is_a_map(shelf: Shelf, viewer: httpx2.Client) -> None:
    key = shelf.value({"chunks": ["0" * 64], "marked": [], "total": 3})
    page = viewer.get(f"{API}/{key}/page").json()
    assert (page["kind"], [item["key"] for item in page["items"]]) == ("map", ["chunks", "marked", "total"])


def test_the_result_of_a_large_loop_can_be_paged(on_disk: ApiServer) -> None:
    text = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: many, path: tests/many}
workflow:
  - step: start
    loop: {in: "{{ range(300) }}", iterator: n, spec: {mode: parallel, max_in_flight: 50}}
    tool: {kind: noop, result: "{{ [iter.n, 'x' * 1000] }}"}
"""
    with on_disk.client("author") as author:
        reference = started(author, {"playbook": text})["steps"]["start"]["result"]
        assert reference["schema_hint"] == "chunks"
        items, _ = all_pages(author, reference["key"], limit=40)
    assert [item[0] for item in items] == list(range(300))


@pytest.mark.parametrize("seed", range(20))
def test_a_list_that_is_split_at_once_has_the_index_of_one_that_is_read_item_by_item(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen = random.Random(seed)
    monkeypatch.setattr(stored_values, "BLOCK_ITEMS", chosen.choice([1, 7, 100]))
    monkeypatch.setattr(stored_values, "BLOCK_BYTES", chosen.choice([1, 50, 1_000]))
    values = [chosen.choice([n, -1.5, None, 'a,]é"', [], [1, [2]], {"a": {"b": ","}}, "x" * 99]) for n in range(500)]
    content = msgspec.json.encode(values[: chosen.choice([1, 2, 499, 500])])
    with monkeypatch.context() as patch:
        patch.setattr(stored_values, "_value_at", None)  # not an item is read
        split = index_of(content)
    monkeypatch.setattr(stored_values, "MAX_SPLIT_ITEMS", 0)
    assert split == index_of(content)


@pytest.mark.parametrize(
    "content", [b"[]", b"[1, 2]", b" [1]", b"[1 ]", b"[1,]", b"[NaN]", b"[1", b'["\xff"]', b"[01]"]
)
def test_another_list_is_read_item_by_item(content: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    index = index_of(content)
    monkeypatch.setattr(stored_values, "MAX_SPLIT_ITEMS", 0)
    assert index == index_of(content)


def test_the_index_of_a_list_is_small_and_its_items_are_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stored_values, "MAX_SPLIT_ITEMS", 100_000)  # it has twice as many commas
    content = msgspec.json.encode([{"n": n, "text": "x" * 40} for n in range(100_000)])
    tracemalloc.start()
    try:
        index = index_of(content)
        held, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert isinstance(index, Blocks)
    assert index.total == 100_000
    assert len(index.numbers) <= 100_000 / BLOCK_ITEMS + len(content) / BLOCK_BYTES + 1
    assert held < 20_000
    assert peak < 1.2 * len(content)


@pytest.mark.parametrize(
    "content",
    [
        b'{"total":1,"chunks":["\xff"]}',
        b'{"total":1,"chunks":[1]}',
        b'{"total":1,"chunks":["' + b"0" * 64 + b'"]}',
        b'["\xff"]',
        b'"\xff"',
        b'{"\xff":1}',
        b"[" * 5_000,
        b"\xff",
    ],
)
def test_bytes_that_only_begin_like_a_value_have_pages(shelf: Shelf, viewer: httpx2.Client, content: bytes) -> None:
    key = shelf.put(content)
    for path in (f"{API}/{key}", f"{API}/{key}/page"):
        answer = viewer.get(path)
        assert answer.status_code < 500, (path, answer.text)
