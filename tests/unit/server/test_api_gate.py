"""The gate: what is not in the table does not exist, and nobody gets in but who may."""

from __future__ import annotations

import http.client
import re
import time
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import httpx2
import msgspec
import pytest
from api_server import HELLO, SECONDS, YAML, ApiServer, register
from tests.conformance.memory import MemoryStore
from tests.servers.patience import until
from tests.table import for_each

from noetl.access import new_token
from noetl.errors import UsageError
from noetl.server.api import ServerSettings
from noetl.server.app import Guard, endpoints
from noetl.server.listen import check_address, is_loopback
from noetl.server.roles import ALLOWED
from noetl.store.access import ROLES, User

FILLED = {
    "{id}": "01890000-0000-7000-8000-000000000000",
    "{hash}": "a" * 64,
    "{code}": "NTL201",
    "{name}": "nobody",
    "{path}": "some/where",
    "{run}": "01890000",
    "{other_run}": "01890001",
    "{asset}": "main-3f2a.js",
}
SIGNED = ("POST", "/api/v1/hooks/{name}")
"""Open to anybody, and closed to whoever can't sign: a token does not help."""
ENDPOINTS = {(endpoint.method, endpoint.path): endpoint for endpoint in endpoints()}


def filled(path: str) -> str:
    return re.sub(r"\{\w+\}", lambda match: FILLED[match[0]], path)


class Raw:
    """Sends requests byte by byte as they are given; clients would tidy them up."""

    def __init__(self, server: ApiServer) -> None:
        self.server = server

    def ask(
        self, method: str, target: str, headers: dict[str, str] | None = None, body: bytes = b""
    ) -> tuple[int, bytes]:
        with closing(http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=120)) as connection:
            connection.putrequest(method, target, skip_host="Host" in (headers or {}), skip_accept_encoding=True)
            for name, value in (headers or {}).items():
                connection.putheader(name, value)
            if body:
                connection.putheader("Content-Length", str(len(body)))
            connection.endheaders(body or None)
            answer = connection.getresponse()
            return answer.status, answer.read()


@pytest.fixture
def raw(server: ApiServer) -> Raw:
    return Raw(server)


def status_of(client: httpx2.Client, method: str, path: str) -> int:
    """The status of a request whose content is of the right type and of no use."""
    endpoint = ENDPOINTS[method, path]
    more = {"content": b"]", "headers": {"Content-Type": endpoint.media[0]}} if endpoint.media else {}
    return client.request(method, filled(path), **more).status_code


# -- every route, every role ----------------------------------------------------------------------------------------


def test_the_table_and_the_endpoints_are_the_same(server: ApiServer) -> None:
    assert ENDPOINTS.keys() == ALLOWED.keys()
    with pytest.raises(ValueError, match="livez"):
        Guard(server.app.api, [endpoint for endpoint in endpoints() if endpoint.path != "/livez"])


@pytest.mark.parametrize(("method", "path"), sorted(ALLOWED))
def test_who_may_and_who_may_not(server: ApiServer, method: str, path: str) -> None:
    roles = ALLOWED[method, path]
    refused = () if (method, path) == SIGNED else (401,)
    for role in ROLES:
        with server.client(role) as client:
            status = status_of(client, method, path)
        if roles is not None and role not in roles:
            assert status == 403, role
        else:
            assert status not in (*refused, 403, 500), role
    with server.client(None) as nobody:
        status = status_of(nobody, method, path)
        assert status == 401 if roles is not None else status not in (*refused, 403, 500)
        assert status == 401 or (method, path) != SIGNED
        nobody.headers["Authorization"] = "Bearer noetl_" + "x" * 43
        assert status_of(nobody, method, path) == 401 if roles is not None else True


@pytest.mark.parametrize(
    "given", ["", "Bearer", "Bearer x", "Basic YTpi", "noetl_x", "Bearer  noetl_x", "Token noetl_x"]
)
def test_what_is_no_token_is_nobody(server: ApiServer, given: str) -> None:
    with server.client(
        None,
    ) as client:
        answer = client.get("/api/v1/executions", headers={"Authorization": given})
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"].startswith("Bearer")


def test_a_method_that_a_route_does_not_have(admin: httpx2.Client) -> None:
    for method in ("DELETE", "PATCH", "OPTIONS", "TRACE"):
        answer = admin.request(method, "/api/v1/executions")
        assert (answer.status_code, answer.headers["allow"]) == (405, "GET, HEAD, POST")
    for method in ("GET", "HEAD"):
        answer = admin.request(method, "/api/v1/playbooks/validate")
        assert (answer.status_code, answer.headers["allow"]) == (405, "POST")


@pytest.mark.parametrize("path", sorted(path for method, path in ALLOWED if method == "GET"))
def test_head_is_answered_like_get_without_a_body(server: ApiServer, path: str) -> None:
    for role in (*ROLES, None):
        with server.client(role) as client:
            get, head = client.get(filled(path)), client.head(filled(path))
        named = [(answer.status_code, answer.headers.get("content-type")) for answer in (get, head)]
        assert named[0] == named[1], role
        assert head.content == b""


def test_head_neither_runs_a_stream_nor_counts_as_one(server: ApiServer, admin: httpx2.Client) -> None:
    register(admin)
    answer = admin.post("/api/v1/executions", json={"path": "tests/hello"}, headers={"Prefer": "wait=60"})
    execution, streams = answer.headers["location"], server.app.api.streams
    for path, accept in (
        ("/events", "text/event-stream"),
        ("/live", "*/*"),
        ("/logs", "text/plain"),
        ("/export", "*/*"),
        ("", "*/*"),
    ):
        get = admin.get(f"{execution}{path}", headers={"Accept": accept})
        head = admin.head(f"{execution}{path}", headers={"Accept": accept})
        assert (head.status_code, head.content) == (200, b"")
        changing = {"date", "x-request-id"}
        assert head.headers.keys() - changing == get.headers.keys() - changing
        assert all(head.headers[name] == get.headers[name] for name in head.headers.keys() - changing)
    until(lambda: not streams.by_caller.total())


# -- tricks with paths ----------------------------------------------------------------------------------------------

ID = FILLED["{id}"]
TRICKS = [
    "//api/v1/executions",
    "/api/v1//executions",
    "/api/v1/executions/",
    "/api/v1/executions//",
    "/api/v1/executions/.",
    "/api/v1/executions/..",
    "/api/v1/x/../executions",
    "/api/v1/./executions",
    "/api/v1/executions.",
    "/api/v1/executions.json",
    "/api/v1/executions;x",
    "/api/v1/executions;x=1",
    "/api/v1/executions%20",
    "/api/v1/executions%00",
    "/api/v1/executions%2f",
    "/api/v1%2fexecutions",
    "/api/v1/%65xecutions",
    "/api/v1/Executions",
    "/API/v1/executions",
    "/api/v1\\executions",
    "/api/v1/executions%3f",
    f"/api/v1/executions/{ID.upper().replace('8', 'A')}",
    f"/api/v1/executions/{ID}/",
    f"/api/v1/executions/{ID}.",
    f"/api/v1/executions/{ID}x",
    f"/api/v1/executions/{ID};x",
    f"/api/v1/executions/{ID}/events/",
    f"/api/v1/executions/{ID}//events",
    f"/api/v1/executions/{ID}/livez",
    f"/api/v1/executions/{ID}%2fevents",
    f"/api/v1/executions/{ID}/retry/",
    f"/api/v1/executions/{ID}/Fork",
    "/api/v1/executions/last",
    "/api/v1/tokens/livez/",
    "/livez/",
    "/livez/api/v1/tokens",
    "/livez/../api/v1/tokens",
    "/livez;/api/v1/tokens",
    "/LIVEZ",
    "/livez%2f..%2fapi/v1/tokens",
    "/version.",
    "/docs",
    "/openapi.json",
    "/api/v1/playbooks/a//b",
    "/api/v1/playbooks/a/../../tokens",
    "/api/v1/playbooks/a/%2e%2e/b",
    "/api/v1/playbooks/a%2fb",
    "/api/v1/playbooks/a%5cb",
    "/api/v1/playbooks/a%00",
    "/api/v1/playbooks/a%0a",
    "/api/v1/playbooks/%ff",
    "/api/v1/playbooks/a;b",
    "/api/v1/playbooks/",
    "/api/v1/credentials/..",
    "/api/v1/hooks/a/",
    "/api/v1/hooks/a%2frotate",
    "/api/v1/hooks/a/Rotate",
    "/api/v1/hooks//rotate",
    "/api/v1/hooks/%61",
    "/api/v1/schedules/a/pause/",
    "/api/v1/schedules/a//pause",
    "/api/v1/Schedules",
    "http://127.0.0.1/api/v1/executions",
]


@for_each("target", TRICKS)
@for_each("method", ["GET", "POST"])
def test_an_address_that_only_looks_like_one_does_not_exist(
    server: ApiServer, raw: Raw, method: str, target: str
) -> None:
    for who in ("admin", None):
        headers = {"Authorization": f"Bearer {server.tokens[who]}"} if who else {}
        status, body = raw.ask(method, target, headers)
        assert status == 404, body


def test_names_of_playbooks_may_be_written_with_signs(server: ApiServer, admin: httpx2.Client) -> None:
    register(admin, HELLO.replace("tests/hello", '"täglich/a b+c"'))
    assert admin.get("/api/v1/playbooks/t%C3%A4glich/a%20b+c").json()["path"] == "täglich/a b+c"


# -- whom it answers ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "host",
    [
        *("evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "", "noetl:80", "[::1].evil.example"),
        *(
            "[::1]evil",
            "[::1]:80evil",
            "localhost:evil",
            "localhost:80:80",
            "localhost:99999",
            "[127.0.0.1]",
            "[::1",
            "::1",
        ),
        *("[::1", "::1", "[evil.example]", "[::1]@evil.example", "evil.example@localhost", "localhost/"),
        *("127.0.0.1:", "[::1%25x]"),
    ],
)
def test_a_name_that_is_not_ours_is_misdirected(server: ApiServer, raw: Raw, host: str) -> None:
    assert raw.ask("GET", "/livez", {"Host": host})[0] in (400, 421)
    headers = {"Host": host, "Authorization": f"Bearer {server.tokens['admin']}"}
    assert raw.ask("GET", "/api/v1/executions", headers)[0] in (400, 421)


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:99", "127.0.0.1", "[::1]:80", "10.1.2.3:8082"])
def test_localhost_and_addresses_are_ours(raw: Raw, host: str) -> None:
    assert raw.ask("GET", "/livez", {"Host": host})[0] == 200


@pytest.mark.parametrize(
    "origin", ["https://evil.example", "null", "http://127.0.0.1", "http://127.0.0.1:1", "file://"]
)
def test_pages_of_others_may_not_ask(server: ApiServer, raw: Raw, origin: str) -> None:
    headers = {"Authorization": f"Bearer {server.tokens['admin']}", "Origin": origin}
    assert raw.ask("GET", "/api/v1/executions", headers)[0] == 403
    headers["Origin"] = f"http://127.0.0.1:{server.port}"
    assert raw.ask("GET", "/api/v1/executions", headers)[0] == 200


def test_a_header_that_is_there_twice_counts_for_nothing(server: ApiServer) -> None:
    with closing(http.client.HTTPConnection("127.0.0.1", server.port, timeout=120)) as connection:
        connection.putrequest("GET", "/api/v1/executions")
        for role in ("admin", "viewer"):
            connection.putheader("Authorization", f"Bearer {server.tokens[role]}")
        connection.endheaders()
        assert connection.getresponse().status == 400


@pytest.fixture
def named() -> Iterator[ApiServer]:
    server = ApiServer(settings=ServerSettings(hosts=("noetl.example.com", "Noetl.Example.Org:8443")))
    yield server
    server.close()


def test_names_and_origins_that_are_allowed(named: ApiServer) -> None:
    headers = {"Host": "noetl.example.com", "Authorization": f"Bearer {named.tokens['viewer']}"}
    for host in ("noetl.example.com", "NOETL.example.com:8082", "noetl.example.org", "noetl.example.org:443"):
        assert Raw(named).ask("GET", "/api/v1/workers", headers | {"Host": host})[0] == 200
    status, body = Raw(named).ask("GET", "/api/v1/workers", headers | {"Host": "example.org"})
    assert (status, b"`noetl server --allow-host example.org`" in body) == (421, True)
    assert Raw(named).ask("GET", "/api/v1/workers", headers | {"Origin": "https://noetl.example.com"})[0] == 200
    assert Raw(named).ask("GET", "/api/v1/workers", headers | {"Origin": "https://other.example.com"})[0] == 403


def test_a_public_address_needs_somebody_who_can_sign_in() -> None:
    store = MemoryStore()
    for host in ("127.0.0.1", "::1", "localhost", "127.8.8.8"):
        assert is_loopback(host)
        check_address(host, store.access, 0.0)
    for host in ("0.0.0.0", "::", "10.0.0.1", "example.com", ""):
        with pytest.raises(UsageError, match="nobody can sign in"):
            check_address(host, store.access, 0.0)
    store.access.add_token(new_token("worker", "", 0.0)[1])  # it only works; it can't be used to sign in
    with pytest.raises(UsageError, match="nobody can sign in"):
        check_address("0.0.0.0", store.access, 0.0)
    store.access.put_user(User("ada", "admin", "hash", 0.0), new=True)
    check_address("0.0.0.0", store.access, 0.0)


# -- content --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "kind", ["", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "application/jsonx"]
)
def test_content_of_another_type_is_not_taken(server: ApiServer, raw: Raw, kind: str) -> None:
    headers = {"Authorization": f"Bearer {server.tokens['admin']}"} | ({"Content-Type": kind} if kind else {})
    for target in ("/api/v1/executions", "/api/v1/playbooks", f"/api/v1/executions/{ID}/cancel"):
        assert raw.ask("POST", target, headers, b'{"path":"a"}')[0] == 415


def test_parameters_of_a_type_do_not_matter(admin: httpx2.Client) -> None:
    headers = {"Content-Type": "Application/JSON; charset=utf-8"}
    assert admin.post("/api/v1/executions", content=b"{}", headers=headers).status_code == 422


@pytest.mark.parametrize(
    ("target", "kind", "limit"),
    [
        ("/api/v1/playbooks", "application/yaml", 1 << 20),
        ("/api/v1/playbooks/validate", "application/yaml", 1 << 20),
        ("/api/v1/executions", "application/json", 8 << 20),
        ("/api/v1/sessions", "application/json", 16_384),
        ("/api/v1/schedules", "application/json", 1 << 20),
        ("/api/v1/hooks/nobody", "application/json", 1 << 20),
    ],
)
def test_more_than_the_limit_is_not_taken(admin: httpx2.Client, target: str, kind: str, limit: int) -> None:
    signed = {"X-Noetl-Timestamp": str(int(time.time())), "X-Noetl-Signature": f"sha256={'0' * 64}"}
    headers = {"Content-Type": kind} | signed  # without these a hook reads no body at all
    response = admin.post(target, content=b" " * (limit + 1), headers=headers)
    assert response.status_code == 413
    in_parts = admin.post(target, content=(b" " * 65_536 for _ in range(limit // 65_536 + 2)), headers=headers)
    assert in_parts.status_code == 413
    assert admin.post(target, content=b" " * limit, headers=headers).status_code not in (413, 500)


def test_a_playbook_of_the_largest_size_is_checked(admin: httpx2.Client) -> None:
    text = (HELLO + "#" * (1 << 20))[: 1 << 20]
    assert admin.post("/api/v1/playbooks/validate", content=text.encode(), headers=YAML).json()["valid"]


# -- what it says of itself -----------------------------------------------------------------------------------------


def test_every_answer_has_an_id_and_is_not_guessed_at(server: ApiServer, admin: httpx2.Client) -> None:
    answer = admin.get("/api/v1/executions", headers={"X-Request-Id": "mine-1"})
    assert answer.headers["x-request-id"] == "mine-1"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["cache-control"] == "no-store"
    other = admin.get("/nowhere", headers={"X-Request-Id": "not good\u0041!"})
    assert re.fullmatch("[0-9a-f]{16}", other.headers["x-request-id"])
    assert other.json()["request_id"] == other.headers["x-request-id"]


def test_the_log_is_json_without_secrets(server: ApiServer) -> None:
    ours = {"X-Request-Id": "ours-and-no-other"}
    with server.client("author") as client:
        client.get("/api/v1/executions?prefix=s3cret", headers=ours)
        client.get("/livez", headers=ours)
        client.post("/api/v1/sessions", json={"user": "ada", "password": "s3cret-password"}, headers=ours)

    def lines() -> list[dict[str, Any]]:
        result = [msgspec.json.decode(line) for line in server.log.getvalue().splitlines()]
        return [line for line in result if line.get("request_id") == ours["X-Request-Id"]]

    end = time.monotonic() + SECONDS  # a line is written after its request was answered
    while len(lines()) < 2 and time.monotonic() < end:
        time.sleep(0.02)
    assert [line["route"] for line in lines()] == ["/api/v1/executions", "/api/v1/sessions"]
    assert lines()[0]["who"] == f"token:{server.ids['author']}"
    assert "s3cret" not in server.log.getvalue()
    assert server.tokens["author"] not in server.log.getvalue()


def test_health_version_and_numbers(server: ApiServer) -> None:
    with server.client(None) as nobody:
        assert nobody.get("/livez").json() == {"status": "ok"}
        body = nobody.get("/readyz").json()
        assert (body["status"], body["checks"]) == ("ok", {"store": "ok"})
        assert nobody.get("/version").json() == {"name": "noetl", "version": "9.9", "api": "v1"}
        text = nobody.get("/metrics").text
    assert "noetl_executions_started_total" in text
    assert 'noetl_http_requests_total{method="GET",route="/livez",status="200"}' in text


def test_a_store_that_is_down_is_named(monkeypatch: pytest.MonkeyPatch, server: ApiServer) -> None:
    from noetl.errors import StoreError

    def broken(execution: str) -> int:
        raise StoreError("the disk is gone")

    monkeypatch.setattr(server.store, "seq", broken)
    with server.client("admin") as client:
        answer = client.get("/readyz")
        assert (answer.status_code, answer.json()["checks"]) == (503, {"store": "the disk is gone"})
        (store,) = answer.json()["dependencies"]
        assert (store["name"], store["status"], store["required"]) == ("store", "down", True)
        assert store["seconds"] >= 0
        assert 'noetl_dependency_up{dependency="store"} 0' in client.get("/metrics").text
        assert client.get("/livez").status_code == 200
        problem = client.get(f"/api/v1/executions/{ID}/logs")
        assert (problem.status_code, problem.headers["retry-after"]) == (503, "1")


def test_a_defect_is_a_problem_without_its_inside(monkeypatch: pytest.MonkeyPatch, server: ApiServer) -> None:
    def broken() -> None:
        raise RuntimeError("s3cret")

    monkeypatch.setattr(server.store, "workers", broken)
    with server.client("admin") as client:
        answer = client.get("/api/v1/workers")
    assert (answer.status_code, answer.headers["content-type"]) == (500, "application/problem+json")
    assert "s3cret" not in answer.text + server.log.getvalue()
    assert '"error":"RuntimeError"' in server.log.getvalue()


def test_routes_of_the_api_refuse_query_parameters_that_they_do_not_have(server: ApiServer) -> None:
    """An option that is spelled wrong must not do the whole: `cancel?dry_run=true` would cancel."""
    strict = [endpoint for endpoint in endpoints() if endpoint.path.startswith("/api/v1/") and not endpoint.any_query]
    assert {
        endpoint.operation for endpoint in endpoints() if endpoint.path.startswith("/api/v1/") and endpoint.any_query
    } == {"hooks_deliver"}
    with server.client("admin") as admin:
        for endpoint in strict:
            body = b"{}" if endpoint.media else b""
            headers = {"Content-Type": endpoint.media[0]} if endpoint.media else {}
            path = filled(endpoint.path) + "?no_such_parameter=1"
            response = admin.request(endpoint.method, path, content=body, headers=headers)
            if response.status_code != 403:  # of another role
                assert (response.status_code, response.json()["detail"].partition(";")[0]) == (
                    422,
                    "unknown query parameter 'no_such_parameter'",
                ), endpoint.path
    assert len(strict) > 60
