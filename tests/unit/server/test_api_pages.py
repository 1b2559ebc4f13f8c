"""The web page and its assets: a build is served with the headers that protect a browser, and nothing else is."""

from __future__ import annotations

import gzip
import re
from collections.abc import Iterator
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path

import httpx2
import msgspec
import pytest
from api_server import ApiServer

from noetl.errors import NoetlError
from noetl.server.page_files import read_page
from noetl.server.roles import PAGES
from noetl.server.server_settings import ServerSettings

INDEX = b'<!doctype html><script type="module" src="/assets/main-3f2a.js"></script>' + b"<!-- noetl -->" * 20
SCRIPT = b"export const answer = 42\n" * 50
FONT = bytes(range(256))
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)
IDENTITY = {"Accept-Encoding": "identity"}
PATHS = [
    "/",
    "/runs",
    "/runs/01a1",
    "/runs/01890000-0000-7000-8000-000000000000/fork?at=16&retry=1",
    "/compare/01890000-0000-7000-8000-000000000000/01890000-0000-7000-8000-000000000001",
    "/playbooks/shop/orders?version=7",
    "/edit/shop/a%20b",
    "/start/shop/orders",
    "/schedules/nightly",
    "/sign-in?next=/runs",
]


def build(folder: Path) -> Path:
    """A build as Vite writes it, with one script that was compressed by the build."""
    (folder / "assets").mkdir(parents=True)
    (folder / "index.html").write_bytes(INDEX)
    (folder / "assets" / "main-3f2a.js").write_bytes(SCRIPT)
    (folder / "assets" / "main-3f2a.js.gz").write_bytes(gzip.compress(SCRIPT, 1, mtime=0))
    (folder / "assets" / "main-77.css").write_bytes(b"body { margin: 0 }\n" * 20)
    (folder / "assets" / "inter-1b.woff2").write_bytes(FONT)
    (folder / "assets" / "secret.txt").write_bytes(b"not in the manifest")
    manifest = {
        "index.html": {
            "file": "assets/main-3f2a.js",
            "name": "index",
            "src": "index.html",
            "isEntry": True,
            "css": ["assets/main-77.css"],
            "assets": ["assets/inter-1b.woff2"],
        }
    }
    (folder / "manifest.json").write_bytes(msgspec.json.encode(manifest))
    return folder


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx2.Client]:
    """A client without a token, of a server with a page."""
    folder = build(tmp_path_factory.mktemp("build") / "ui")
    server = ApiServer(settings=ServerSettings(page=folder))
    with server.client(None) as client:
        yield client
    server.close()


@pytest.mark.parametrize("path", PATHS)
def test_every_path_of_the_page_has_the_document_and_its_headers(browser: httpx2.Client, path: str) -> None:
    answer = browser.get(path)
    assert (answer.status_code, answer.content) == (200, INDEX)
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert answer.headers["content-security-policy"] == POLICY
    assert answer.headers["referrer-policy"] == "no-referrer"
    assert answer.headers["cross-origin-opener-policy"] == "same-origin"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["cache-control"] == "no-cache"


def test_a_browser_that_has_the_document_is_told_so(browser: httpx2.Client) -> None:
    tag = browser.get("/runs").headers["etag"]
    answer = browser.get("/", headers={"If-None-Match": tag})
    assert (answer.status_code, answer.content, answer.headers["cache-control"]) == (304, b"", "no-cache")
    assert answer.headers["content-security-policy"] == POLICY


@pytest.mark.parametrize(
    ("name", "media"),
    [
        ("main-3f2a.js", "text/javascript; charset=utf-8"),
        ("main-77.css", "text/css; charset=utf-8"),
        ("inter-1b.woff2", "font/woff2"),
    ],
)
def test_an_asset_of_the_manifest_is_immutable(browser: httpx2.Client, name: str, media: str) -> None:
    answer = browser.get(f"/assets/{name}")
    assert (answer.status_code, answer.headers["content-type"]) == (200, media)
    assert answer.headers["cache-control"] == "public, max-age=31536000, immutable"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.content == browser.get(f"/assets/{name}", headers=IDENTITY).content


def test_an_asset_is_compressed_once(browser: httpx2.Client) -> None:
    with browser.stream("GET", "/assets/main-3f2a.js", headers={"Accept-Encoding": "gzip"}) as answer:
        assert b"".join(answer.iter_raw()) == gzip.compress(SCRIPT, 1, mtime=0), "not the file of the build"
        assert answer.headers["content-encoding"] == "gzip"
        assert answer.headers["vary"] == "Accept-Encoding"
    for name in ("main-77.css", "inter-1b.woff2"):
        is_text = name.endswith("css")
        answer = browser.get(f"/assets/{name}", headers={"Accept-Encoding": "gzip"})
        assert ("content-encoding" in answer.headers) is is_text, "a font does not get smaller"


@pytest.mark.parametrize(
    "path",
    [
        "/assets/secret.txt",
        "/assets/main-3f2a.js.gz",
        "/assets/..",
        "/assets/../index.html",
        "/assets/%2e%2e/manifest.json",
        "/assets/..%2fmanifest.json",
        "/assets/",
        "/assets",
        "/manifest.json",
        "/index.html",
        "/runs/",
        "/runs/last",
        "/playbooks/../assets",
        "/nowhere",
        "/api/v1/runs",
    ],
)
def test_everything_else_is_not_found(browser: httpx2.Client, path: str) -> None:
    with closing(HTTPConnection("127.0.0.1", browser.base_url.port)) as connection:  # sends the path as it is
        connection.request("GET", path)
        answer = connection.getresponse()
        assert (answer.status, answer.headers["content-type"]) == (404, "application/problem+json")


@pytest.mark.parametrize("path", ["/nowhere", "/runs/", "/runs/nope", "/playbooks/../assets", "/schedules/a%2Fb"])
def test_a_browser_gets_the_page_for_an_unknown_path(browser: httpx2.Client, path: str) -> None:
    with closing(HTTPConnection("127.0.0.1", browser.base_url.port)) as connection:
        connection.request("GET", path, headers={"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"})
        answer = connection.getresponse()
        assert (answer.status, answer.read()) == (404, INDEX)
        assert answer.headers["content-type"] == "text/html; charset=utf-8"
        assert answer.headers["content-security-policy"] == POLICY
        assert answer.headers["cache-control"] == "no-cache"


@pytest.mark.parametrize("path", ["/api/v1/nowhere", "/assets/nowhere.js"])
def test_a_browser_gets_a_problem_where_the_page_has_no_links(browser: httpx2.Client, path: str) -> None:
    answer = browser.get(path, headers={"Accept": "text/html"})
    assert (answer.status_code, answer.headers["content-type"]) == (404, "application/problem+json")


def test_an_unknown_path_of_another_host_is_refused(browser: httpx2.Client) -> None:
    headers = {"Host": "rebound.example.com", "Accept": "text/html"}
    assert browser.get("/nowhere", headers=headers).status_code == 421


def test_the_api_still_needs_a_token(browser: httpx2.Client) -> None:
    assert browser.get("/api/v1/executions").status_code == 401
    assert browser.post("/runs").status_code == 405


def test_a_page_is_for_the_names_of_this_server_only(browser: httpx2.Client) -> None:
    assert browser.get("/runs", headers={"Host": "rebound.example.com"}).status_code == 421


@pytest.mark.parametrize(
    ("manifest", "message"),
    [
        (b'{"a": {"file": "assets/gone.js"}}', "gone.js"),
        (b'{"a": {"file": "../settings.py"}}', "'../settings.py', which is not an asset"),
        (b'{"a": {"file": "assets/../../x.js"}}', "which is not an asset"),
        (b'{"a": {"file": "assets/run.exe"}}', "which is not an asset"),
        (b"{", "truncated"),
    ],
)
def test_an_incomplete_build_is_reported_when_the_server_starts(tmp_path: Path, manifest: bytes, message: str) -> None:
    folder = build(tmp_path / "ui")
    (folder / "manifest.json").write_bytes(manifest)
    with pytest.raises(NoetlError, match=re.escape(message)):
        read_page(folder)


# -- without a build, and with a new one ----------------------------------------------------------------------------


def test_without_a_build_every_path_says_in_one_line_how_to_make_one(tmp_path: Path) -> None:
    server = ApiServer(settings=ServerSettings(page=tmp_path))
    filled = (re.sub(r"\{(run|other_run)\}", "01a1", path) for path in PAGES)
    with closing(server), server.client(None) as client:
        for path in (path.replace("{path}", "shop/orders").replace("{name}", "nightly") for path in filled):
            answer = client.get(path)
            assert (answer.status_code, answer.headers["content-type"]) == (200, "text/plain; charset=utf-8"), path
            assert (answer.text.count("\n"), "`make page`" in answer.text) == (1, True)
            assert answer.headers["content-security-policy"] == POLICY
        assert client.get("/assets/main-3f2a.js").status_code == 404
        unknown = client.get("/nowhere", headers={"Accept": "text/html"})
        assert (unknown.status_code, "`make page`" in unknown.text) == (404, True)


def test_a_running_server_serves_a_new_build_once_it_is_complete(tmp_path: Path) -> None:
    server = ApiServer(settings=ServerSettings(page=tmp_path / "ui"))
    with closing(server), server.client(None) as client:
        folder = build(tmp_path / "ui")
        assert client.get("/runs").content == INDEX
        (folder / "index.html").unlink()
        assert client.get("/runs").content == INDEX
        assert client.get("/assets/main-3f2a.js").content == SCRIPT
        (folder / "index.html").write_bytes(b"<!doctype html>")
        assert client.get("/runs").content == b"<!doctype html>"
