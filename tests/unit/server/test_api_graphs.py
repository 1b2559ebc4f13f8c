"""Graphs of stored playbooks through the API."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx2
import pytest
from api_server import HELLO, YAML, ApiServer, register

from noetl.server import graphs
from noetl.server.compiler import PlaybookCompiler

API = "/api/v1/graphs"


def named(name: str) -> str:
    return HELLO.replace("tests/hello", f"graphs/{name}")


def test_a_graph_is_found_by_the_digest_of_its_playbook_and_cached_for_ever(admin: httpx2.Client) -> None:
    digest = register(admin)["playbook_id"]
    answer = admin.get(f"{API}/{digest}")
    assert answer.headers["cache-control"] == "private, max-age=31536000, immutable"
    graph = answer.json()
    assert [(node["name"], node["entry"]) for node in graph["nodes"]] == [("start", True), ("end", False)]
    assert [(edge["source"], edge["target"], edge["arc"]) for edge in graph["edges"]] == [(0, 1, 0)]
    assert graph["edges"][0]["path"].startswith("M")
    again = admin.get(f"{API}/{digest}", headers={"If-None-Match": answer.headers["etag"]})
    assert (again.status_code, again.headers["etag"]) == (304, answer.headers["etag"])
    higher = admin.get(f"{API}/{digest}", params={"run_row": 1})
    assert higher.json()["nodes"][0]["h"] > graph["nodes"][0]["h"]
    assert higher.headers["etag"] != answer.headers["etag"]
    assert admin.get(f"{API}/{digest}", params={"run_row": 2}).status_code == 422


def test_a_text_is_found_by_its_digest_though_it_is_registered_under_no_path(admin: httpx2.Client) -> None:
    text = named("inline")
    started = admin.post("/api/v1/executions", json={"playbook": text}).json()["execution_id"]
    digest = admin.get(f"/api/v1/executions/{started}").json()["playbook_id"]
    answer = admin.get(f"/api/v1/texts/{digest}")
    assert answer.json() == {"playbook_id": digest, "file": answer.json()["file"], "text": text}
    assert "immutable" in answer.headers["cache-control"]
    again = admin.get(f"/api/v1/texts/{digest}", headers={"If-None-Match": answer.headers["etag"]})
    assert again.status_code == 304
    assert admin.get(f"/api/v1/texts/{'0' * 64}").status_code == 404


def test_an_unknown_digest_is_not_found(admin: httpx2.Client) -> None:
    answer = admin.get(f"{API}/{'0' * 64}")
    assert (answer.status_code, "not found" in answer.json()["detail"]) == (404, True)


def test_a_graph_is_drawn_once_for_all_who_ask(server: ApiServer, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn, compile = [], PlaybookCompiler.compile

    async def counted(self: PlaybookCompiler, *given: Any, **more: Any) -> Any:
        drawn.append(more.get("parts"))
        return await compile(self, *given, **more)

    with server.client() as admin:
        digest = register(admin, named("once"))["playbook_id"]
        monkeypatch.setattr(PlaybookCompiler, "compile", counted)
        with ThreadPoolExecutor(4) as callers:
            answers = list(callers.map(lambda _: admin.get(f"{API}/{digest}").text, range(8)))
        assert len(set(answers)) == 1
        assert drawn == [["graph"]]


def test_the_cache_is_bounded_in_bytes(server: ApiServer, monkeypatch: pytest.MonkeyPatch) -> None:
    with server.client() as admin:
        digests = [register(admin, text)["playbook_id"] for text in map(named, "ab")]
        monkeypatch.setattr(graphs, "MAX_BYTES", 10)
        for digest in digests:
            assert admin.get(f"{API}/{digest}").status_code == 200
        assert [key.digest for key in server.app.api.graphs._cache] == digests[1:]


def test_a_stored_playbook_that_cannot_be_read_is_a_conflict(server: ApiServer) -> None:
    server.store.put_playbook("1" * 64, "broken.yaml", b"- 1")
    with server.client() as admin:
        answer = admin.get(f"{API}/{'1' * 64}")
    assert (answer.status_code, "broken.yaml" in answer.json()["detail"]) == (409, True)


def _end_of_file() -> bytes:
    raise EOFError


def test_a_graph_that_is_too_expensive_makes_no_playbook_invalid(
    server: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = PlaybookCompiler._parts

    def killed(self: PlaybookCompiler, process: Any, request: Any) -> Any:
        """The kernel ends the process after its first message."""
        if getattr(request, "parts", ()):
            process.kill()
            process._process.wait()
            process._connection.poll = lambda seconds: True
            process._connection.recv_bytes = _end_of_file
        return parts(self, process, request)

    monkeypatch.setattr(PlaybookCompiler, "_parts", killed)
    with server.client() as admin:
        text = named("large")
        digest = register(admin, text)["playbook_id"]
        body = admin.post(
            "/api/v1/playbooks/validate", content=text.encode(), headers=YAML, params={"with": "graph"}
        ).json()
        assert (body["valid"], body["graph"]) == (True, None)
        answer = admin.get(f"{API}/{digest}")
        assert (answer.status_code, "too long" in answer.json()["detail"]) == (422, True)
