"""What an editor asks a server: problems with more around them, completion, kinds and the schema."""

from __future__ import annotations

from pathlib import Path

import httpx2
import pytest
from api_server import HELLO, WRONG, YAML, ApiServer, register, started

from noetl.dsl.schema import playbook_schema
from noetl.problem_pages import problem_page
from noetl.tools.registry import KINDS

API = "/api/v1/playbooks"


def validated(client: httpx2.Client, text: str, **params: str) -> dict[str, object]:
    answer = client.post(f"{API}/validate", content=text.encode(), headers=YAML, params=params)
    assert answer.status_code == 200, answer.text
    body: dict[str, object] = answer.json()
    return body


def test_a_problem_has_a_range_and_a_fix(admin: httpx2.Client) -> None:
    problem = validated(admin, WRONG)["problems"][0]  # type: ignore[index]
    line = WRONG.split("\n")[problem["line"] - 1]
    assert problem["end_line"] == problem["line"]
    assert problem["fix"] == {"text": "end"}
    assert line[problem["column"] - 1 : problem["end_column"] - 1] in problem["message"]
    assert problem["path"] == []


def test_parts_are_added_on_request_alone(admin: httpx2.Client) -> None:
    assert set(validated(admin, HELLO)) == {"valid", "problems", "next_version"}
    result = validated(admin, HELLO, **{"with": "graph,names,form"})
    assert [node["name"] for node in result["graph"]["nodes"]] == ["start", "end"]  # type: ignore[index]
    assert result["names"]["steps"] == ["start", "end"]  # type: ignore[index]
    assert {field["path"] for field in result["form"]} == {"name"}  # type: ignore[union-attr]
    assert set(validated(admin, HELLO, **{"with": "names"})) == {"valid", "problems", "next_version", "names"}


def test_an_invalid_text_has_names_and_form_but_no_graph(admin: httpx2.Client) -> None:
    result = validated(admin, WRONG, **{"with": "graph,names,form"})
    assert (result["graph"], result["next_version"]) == (None, None)
    assert result["names"]["steps"][0] == "start"  # type: ignore[index]
    unreadable = validated(admin, HELLO + "  - [", **{"with": "names,form"})
    assert unreadable["form"] is None
    assert "start" in unreadable["names"]["steps"]  # type: ignore[index]


def test_unknown_parts_are_refused(admin: httpx2.Client) -> None:
    for wrong in ("colour", "graph,", "graph,run_graph"):
        answer = admin.post(f"{API}/validate", content=b"", headers=YAML, params={"with": wrong})
        assert (answer.status_code, "with" in answer.json()["detail"]) == (422, True)
    assert "with" in admin.post(f"{API}/validate", content=b"", headers=YAML, params={"x": "1"}).json()["detail"]


def test_the_next_version_is_the_one_that_a_registration_gets(admin: httpx2.Client) -> None:
    text = HELLO.replace("tests/hello", "authoring/next")
    assert validated(admin, text)["next_version"] == 1
    register(admin, text)
    assert validated(admin, text)["next_version"] == 1
    other = text.replace("world", "moon")
    assert validated(admin, other)["next_version"] == 2
    register(admin, other)
    assert (validated(admin, text)["next_version"], validated(admin, other)["next_version"]) == (1, 2)


def assist(client: httpx2.Client, text: str, line: int, column: int) -> httpx2.Response:
    params = {"line": line, "column": column}
    return client.post(f"{API}/assist", content=text.encode(), headers=YAML, params=params)


def test_a_text_that_is_being_typed_has_completions_and_hover(admin: httpx2.Client) -> None:
    text = HELLO + "  - step: more\n    next: {arcs: [{step: st"
    body = assist(admin, text, text.count("\n") + 1, len(text.split("\n")[-1]) + 1).json()
    assert [(completion["label"], completion["kind"], completion["insert"]) for completion in body["completions"]] == [
        ("start", "step", "start")
    ]
    hover = assist(admin, HELLO, 1, 3).json()["hover"]
    assert (hover["from"], hover["to"]) == ({"line": 1, "column": 1}, {"line": 1, "column": 11})
    assert "version of the language" in hover["text"]


@pytest.mark.parametrize("text", ["", "\0", "[" * 60_000, "a: &a [*a]", "- 1"])
def test_any_text_has_an_answer(admin: httpx2.Client, text: str) -> None:
    assert assist(admin, text, 1, 1).status_code == 200


def test_a_position_is_needed(admin: httpx2.Client) -> None:
    assert assist(admin, HELLO, 0, 1).status_code == 422
    assert admin.post(f"{API}/assist", content=b"", headers=YAML).status_code == 422


def test_tool_kinds_have_documentation_and_inputs(admin: httpx2.Client) -> None:
    answer = admin.get("/api/v1/tools")
    kinds = {kind["kind"]: kind for kind in answer.json()["items"]}
    assert set(kinds) == set(KINDS.all())
    assert kinds["http"]["summary"] == KINDS.require("http").summary
    url = next(field for field in kinds["http"]["inputs"] if field["name"] == "url")
    assert (url["required"], url["type"], bool(url["description"])) == (True, "text", True)
    again = admin.get("/api/v1/tools", headers={"If-None-Match": answer.headers["etag"]})
    assert again.status_code == 304


def test_the_schema_is_the_one_of_noetl_schema(admin: httpx2.Client) -> None:
    assert admin.get("/api/v1/schema").json() == playbook_schema(KINDS.all())


def test_a_viewer_may_read_and_validate(server: ApiServer) -> None:
    with server.client("viewer") as viewer:
        assert viewer.get("/api/v1/tools").status_code == 200
        assert viewer.get("/api/v1/schema").status_code == 200
        assert viewer.get("/api/v1/problems/NTL201").status_code == 200
        assert assist(viewer, HELLO, 1, 1).status_code == 200
    with server.client("worker") as worker:
        assert worker.get("/api/v1/tools").status_code == 403


def test_a_broken_plug_in_breaks_no_completion(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    info = tmp_path / "broken-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[noetl.tools]\nbroken = broken_tool\n")
    (tmp_path / "broken_tool.py").write_text("raise RuntimeError('no')\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=":")
    server = ApiServer(own_processes=True)
    try:
        with server.client() as admin:
            text = "workflow:\n  - step: a\n    tool: {kind: "
            labels = [completion["label"] for completion in assist(admin, text, 3, 18).json()["completions"]]
            assert {"http", "broken"} <= set(labels)
            assert "broken" in admin.get("/api/v1/tools").json()["detail"]
    finally:
        server.close()


def test_a_playbook_names_its_latest_execution(admin: httpx2.Client) -> None:
    path = "authoring/ran"
    register(admin, HELLO.replace("tests/hello", path))
    assert admin.get(f"{API}/{path}").json()["last_run"] is None
    tag = admin.get(f"{API}/{path}").headers["etag"]
    runs = [started(admin, {"path": path})["execution_id"] for _ in range(2)]
    answer = admin.get(f"{API}/{path}", headers={"If-None-Match": tag})
    assert answer.status_code == 200
    last = answer.json()["last_run"]
    assert (last["execution_id"], last["status"]) == (runs[1], "succeeded")
    assert last["started"].endswith("Z")
    assert admin.get(f"{API}/{path}", headers={"If-None-Match": answer.headers["etag"]}).status_code == 304
    (item,) = admin.get(API, params={"prefix": path}).json()["items"]
    assert item["last_run"] == last


def test_a_registered_playbook_has_a_form_on_request(admin: httpx2.Client) -> None:
    path = "authoring/form"
    register(admin, HELLO.replace("tests/hello", path))
    assert "form" not in admin.get(f"{API}/{path}").json()
    form = admin.get(f"{API}/{path}", params={"with": "form"}).json()["form"]
    assert [(field["path"], field["default"]) for field in form] == [("name", "world")]
    assert admin.get(f"{API}/{path}", params={"with": "graph"}).status_code == 422


def test_a_problem_has_a_page(admin: httpx2.Client) -> None:
    page = admin.get("/api/v1/problems/NTL201").json()
    assert page == {"code": "NTL201", "text": problem_page("NTL201")}
    assert "Two steps have the same name." in page["text"]
    unknown = admin.get("/api/v1/problems/NTL999")
    assert (unknown.status_code, unknown.json()["detail"].partition(":")[0]) == (404, "problem 'NTL999' not found")
