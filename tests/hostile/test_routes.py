"""Every route, asked for in ways that a proxy, a framework or a router might understand differently.

A request is answered only if its target is the path of a route byte by byte. So whatever is done to the path of a route
that the caller may not use, the answer is 404 or the refusal of that route, and for routes that they may use it is 404.
"""

from __future__ import annotations

import json
import socket
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[1] / "unit" / "server"))

from api_server import HELLO, YAML, ApiServer
from shared_store import safe_of
from test_api_gate import ENDPOINTS, filled
from tests.conformance.memory import MemoryStore
from tests.hostile.test_corpora import corpus
from tests.table import for_each

from noetl.server.api import ServerSettings
from noetl.server.roles import ALLOWED, PAGES
from noetl.store.access import ROLES

REFUSED = (400, 401, 403, 404, 405, 415, 421)
PATH_TRICKS: dict[str, Callable[[str], str]] = {
    "trailing slash": lambda path: f"{path}/",
    "double slash in front": lambda path: f"/{path}",
    "double slash inside": lambda path: path.replace("/", "//")[1:] if path.count("/") > 1 else f"/{path}",
    "dot segment": lambda path: f"/.{path}",
    "dot segments that go back": lambda path: f"/livez/..{path}",
    "encoded dot segments": lambda path: f"/livez/%2e%2e{path}",
    "encoded slash": lambda path: f"/{path[1:].replace('/', '%2f')}" if path.count("/") > 1 else f"{path}%2f",
    "encoded letter": lambda path: f"/%{ord(path[1]):02x}{path[2:]}",
    "twice encoded letter": lambda path: f"/%25{ord(path[1]):02x}{path[2:]}",
    "capital letter": lambda path: f"/{path[1].upper()}{path[2:]}",
    "capitals": str.upper,
    "parameter": lambda path: f"{path};a=1",
    "backslash": lambda path: f"\\{path[1:]}",
    "NUL": lambda path: f"{path}%00",
    "line break": lambda path: f"{path}%0d%0aX: 1",
    "blank": lambda path: f"{path}%20",
    "ending": lambda path: f"{path}.json" if not path.endswith((".json", ".js")) else f"{path}.",
    "absolute form": lambda path: f"http://127.0.0.1{path}",
    "absolute form of another": lambda path: f"http://evil.example{path}",
    "fragment": lambda path: f"{path}#",
    "overlong slash": lambda path: path.replace("/", "/%c0%af", 1),
}
OVERRIDES = ("X-HTTP-Method-Override", "X-HTTP-Method", "X-Method-Override", "X-Original-URL", "X-Rewrite-URL")


@pytest.fixture(scope="module")
def server() -> Iterator[ApiServer]:
    store = MemoryStore()
    server = ApiServer(store, ServerSettings(safe=safe_of(store)))  # without a safe, a credential is unavailable
    yield server
    server.close()


class Connection:
    """Sends requests byte by byte, one after the other."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.open()

    def open(self) -> None:
        self.socket = socket.create_connection(("127.0.0.1", self.port), timeout=120)
        self.file = self.socket.makefile("rb")

    def close(self) -> None:
        self.file.close()
        self.socket.close()

    def ask(self, method: str, target: str, *headers: str) -> int:
        """The status of the answer; 400 if the server hung up."""
        lines = [f"{method} {target} HTTP/1.1", "Host: 127.0.0.1", *headers, "Content-Length: 0", "", ""]
        self.socket.sendall("\r\n".join(lines).encode("latin-1"))
        status = self.file.readline()
        if not status:
            self.close()
            self.open()
            return 400
        size, closes = 0, False
        while (line := self.file.readline().lower()) not in (b"\r\n", b""):
            size = int(line.split(b":")[1]) if line.startswith(b"content-length:") else size
            closes = closes or line.startswith((b"connection: close", b"transfer-encoding"))
        if method != "HEAD":
            self.file.read(size)
        if closes:
            self.close()
            self.open()
        return int(status.split()[1])


def routes() -> list[tuple[str, str]]:
    """Those with data: the document of the web page is the same for everybody, and paths below it may be anything."""
    return sorted(route for route in ALLOWED if route[1] not in PAGES and not route[1].startswith("/assets"))


def refusals(server: ApiServer, who: str | None, tricks: dict[str, Callable[[str], str]]) -> list[str]:
    """The requests of somebody that were not refused."""
    connection = Connection(server.port)
    token = [f"Authorization: Bearer {server.tokens[who]}"] if who else []
    passed = []
    for method, path in routes():
        for name, trick in tricks.items():
            if "{path}" in path and name in ("encoded letter", "ending"):
                continue  # it is another name of the same kind
            target = trick(filled(path))
            kind = [f"Content-Type: {ENDPOINTS[method, path].media[0]}"] if ENDPOINTS[method, path].media else []
            if (status := connection.ask(method, target, *token, *kind)) not in REFUSED:
                passed.append(f"{who} {method} {target}: {status}")
    connection.close()
    return passed


def test_no_trick_with_a_path_opens_a_route(server: ApiServer) -> None:
    few = ("double slash in front", "encoded dot segments", "encoded slash", "capital letter", "absolute form")
    tricks = {name: PATH_TRICKS[name] for name in few}
    assert refusals(server, None, tricks) + refusals(server, "viewer", tricks) == []


@pytest.mark.slow(part="fuzz")
@pytest.mark.parametrize("who", [*ROLES, None])
def test_no_trick_with_a_path_opens_a_route_to_any_role(server: ApiServer, who: str | None) -> None:
    assert refusals(server, who, PATH_TRICKS) == []


def test_a_header_does_not_change_the_method_or_the_path(server: ApiServer) -> None:
    connection = Connection(server.port)
    viewer = f"Authorization: Bearer {server.tokens['viewer']}"
    passed = [
        f"{header}: {value}: {status}"
        for header in OVERRIDES
        for value in ("DELETE", "/api/v1/tokens")
        if (status := connection.ask("GET", "/api/v1/executions", viewer, f"{header}: {value}")) != 200
    ]
    connection.close()
    assert passed == []


@pytest.mark.parametrize("header", ["Authorization", "Host", "Cookie", "Origin", "Content-Type", "X-CSRF-Token"])
def test_a_repeated_header_is_refused_whichever_is_right(server: ApiServer, header: str) -> None:
    connection = Connection(server.port)
    admin = f"Bearer {server.tokens['admin']}"
    value = {"Authorization": admin, "Host": "127.0.0.1", "Origin": "http://127.0.0.1"}.get(header, "a")
    own = [] if header == "Authorization" else [f"Authorization: {admin}"]
    twice = [f"{header}: {value}"] * (1 if header == "Host" else 2)
    status = connection.ask("GET", "/api/v1/executions", *own, *twice)
    connection.close()
    assert status == 400


@for_each("path", corpus("traversal")["paths"])
def test_no_playbook_is_registered_under_a_path_that_leads_elsewhere(server: ApiServer, path: str) -> None:
    text = HELLO.replace("path: tests/hello", f"path: {json.dumps(path)}")
    with server.client() as admin:
        response = admin.post("/api/v1/playbooks", content=text.encode(), headers=YAML)
    assert response.status_code == 422
    assert "metadata.path" in response.json()["detail"]


def test_methods_that_a_route_does_not_have_are_refused_for_every_role(server: ApiServer) -> None:
    connection = Connection(server.port)
    methods: dict[str, set[str]] = {}
    for method, path in routes():
        methods.setdefault(path, set()).add(method)
    passed = []
    for path, allowed in methods.items():
        for method in {"GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT", "get"} - allowed:
            if method == "HEAD" and "GET" in allowed:
                continue
            status = connection.ask(method, filled(path), f"Authorization: Bearer {server.tokens['viewer']}")
            if status not in (400, 404, 405):
                passed.append(f"{method} {path}: {status}")
    connection.close()
    assert passed == []
