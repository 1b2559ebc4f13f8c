"""Playbooks through the API: registered, found, checked."""

from __future__ import annotations

import httpx2
import pytest
from api_server import HELLO, WRONG, YAML, register

API = "/api/v1/playbooks"


def test_equal_content_has_an_equal_version(admin: httpx2.Client) -> None:
    text = HELLO.replace("tests/hello", "tests/versions")
    first, again = register(admin, text), register(admin, text)
    assert (first["version"], first["path"]) == (1, "tests/versions")
    assert again == first
    other = register(admin, text.replace("world", "moon"))
    assert (other["version"], other["playbook_id"] != first["playbook_id"]) == (2, True)
    body = admin.get(f"{API}/tests/versions").json()
    assert (body["version"], [version["version"] for version in body["versions"]]) == (2, [2, 1])
    assert body["versions"][0]["label"] == "1.2"
    old = admin.get(f"{API}/tests/versions", params={"version": 1}).json()
    assert (old["text"], old["playbook_id"]) == (text, first["playbook_id"])
    assert admin.get(f"{API}/tests/versions", params={"version": 3}).status_code == 404


def test_the_location_leads_to_it(admin: httpx2.Client) -> None:
    answer = admin.post(API, content=HELLO.encode(), headers=YAML)
    assert admin.get(answer.headers["location"]).json()["text"] == HELLO


def test_the_text_alone_and_only_when_it_has_changed(admin: httpx2.Client) -> None:
    register(admin)
    answer = admin.get(f"{API}/tests/hello", headers={"Accept": "application/yaml"})
    assert (answer.text, answer.headers["content-type"].split(";")[0]) == (HELLO, "application/yaml")
    text, other = answer.headers["etag"], admin.get(f"{API}/tests/hello").headers["etag"]
    for accept, tag, status in (
        ("application/yaml", text, 304),
        ("application/yaml", other, 200),
        ("*/*", other, 304),
        ("*/*", text, 200),
    ):
        again = admin.get(f"{API}/tests/hello", headers={"If-None-Match": tag, "Accept": accept})
        assert (again.status_code, again.headers["vary"]) == (status, "Accept")


def test_problems_have_line_and_column(admin: httpx2.Client) -> None:
    answer = admin.post(API, content=WRONG.encode(), headers=YAML)
    assert (answer.status_code, answer.headers["content-type"]) == (422, "application/problem+json")
    problem = answer.json()
    assert problem["type"] == "urn:noetl:problem:playbook-invalid"
    first = next(one for one in problem["problems"] if one["severity"] == "error")
    assert (first["line"], first["hint"]) == (8, "did you mean 'end'?")
    assert first["column"] > 0
    assert "line 8" in problem["detail"]


def test_validation_finds_the_same_and_keeps_nothing(admin: httpx2.Client) -> None:
    good = admin.post(f"{API}/validate", content=HELLO.replace("tests/hello", "tests/x").encode(), headers=YAML)
    assert good.json() == {"valid": True, "problems": [], "next_version": 1}
    bad = admin.post(f"{API}/validate", content=WRONG.encode(), headers=YAML).json()
    assert (bad["valid"], bad["problems"][0]["line"]) == (False, 8)
    assert admin.get(f"{API}/tests/x").status_code == 404
    classic = HELLO.replace("{arcs: [{step: end}]}", "end")
    assert admin.post(f"{API}/validate", content=classic.encode(), headers=YAML).json()["valid"]
    strict = admin.post(f"{API}/validate", content=classic.encode(), headers=YAML, params={"strict": "true"})
    assert not strict.json()["valid"]


@pytest.mark.parametrize("path", ["/a", "a/", "a//b", "a/../b", "..", "a\\\\b", '"a\\tb"'])
def test_a_path_that_could_not_be_requested_is_refused(admin: httpx2.Client, path: str) -> None:
    text = HELLO.replace("tests/hello", path if path.startswith('"') else f'"{path}"')
    assert admin.post(API, content=text.encode(), headers=YAML).status_code == 422


@pytest.mark.parametrize("text", [b"", b"\xff\xfe", b"[" * 60_000, b"a: &a [*a]", b"- 1", b"\0"])
def test_hostile_texts_are_told_so(admin: httpx2.Client, text: bytes) -> None:
    answer = admin.post(API, content=text, headers=YAML)
    assert answer.status_code == 422, answer.text


def test_lists_go_by_path(admin: httpx2.Client) -> None:
    for name in ("c", "a", "b"):
        register(admin, HELLO.replace("tests/hello", f"list/{name}"))
    page = admin.get(API, params={"prefix": "list/", "limit": 2}).json()
    assert [item["path"] for item in page["items"]] == ["list/a", "list/b"]
    rest = admin.get(API, params={"prefix": "list/", "limit": 2, "cursor": page["next"]}).json()
    assert ([item["path"] for item in rest["items"]], rest["next"]) == (["list/c"], None)
    assert [item["path"] for item in admin.get(API, params={"q": "IST/B"}).json()["items"]] == ["list/b"]


def test_a_keychain_that_cannot_be_opened_is_said_before_anything_runs(admin: httpx2.Client) -> None:
    text = HELLO.replace("workload:", "keychain: [{name: shop, kind: bearer, credential: none}]\nworkload:")
    answer = admin.post("/api/v1/executions", json={"playbook": text})
    assert (answer.status_code, "'none'" in answer.json()["detail"]) == (422, True)
