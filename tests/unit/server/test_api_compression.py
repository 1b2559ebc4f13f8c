"""Large JSON answers are compressed for clients that accept it; answers with a secret never are."""

from __future__ import annotations

import gzip
from typing import Any, get_args, get_type_hints

import httpx2
import msgspec
import pytest
from api_server import HELLO, ApiServer, register, started

from noetl.server.app import endpoints
from noetl.server.compression import MIN_BYTES, accepts_gzip
from noetl.server.etag import is_current, weak_tag
from noetl.server.roles import ALLOWED, WORK

API = "/api/v1"
SECRETS = {"token", "secret", "csrf_token"}
"""Fields of answers that are secrets."""


def raw(client: httpx2.Client, path: str, **headers: str) -> tuple[httpx2.Headers, bytes]:
    """The headers and the bytes as they were sent."""
    with client.stream("GET", path, headers=headers) as answer:
        assert answer.status_code == 200
        return answer.headers, b"".join(answer.iter_raw())


def test_a_large_json_answer_is_compressed_on_request(admin: httpx2.Client) -> None:
    path = f"{API}/openapi.json"
    headers, plain = raw(admin, path, **{"Accept-Encoding": "identity"})
    assert len(plain) > MIN_BYTES
    assert "content-encoding" not in headers
    assert headers["vary"] == "Accept-Encoding"
    headers, content = raw(admin, path, **{"Accept-Encoding": "br, gzip;q=0.5"})
    assert headers["content-encoding"] == "gzip"
    assert headers["vary"] == "Accept-Encoding"
    assert int(headers["content-length"]) == len(content) < len(plain) / 4
    assert gzip.decompress(content) == plain


def test_a_small_answer_is_not_compressed(admin: httpx2.Client) -> None:
    headers, content = raw(admin, "/version", **{"Accept-Encoding": "gzip"})
    assert "content-encoding" not in headers
    assert b"noetl" in content


def test_an_event_stream_is_not_compressed(admin: httpx2.Client) -> None:
    text = HELLO.replace("hello {{ workload.name }}", "x" * 2 * MIN_BYTES)
    execution = started(admin, {"playbook": text})["execution_id"]
    path = f"{API}/executions/{execution}/events"
    headers, content = raw(admin, path, Accept="text/event-stream", **{"Accept-Encoding": "gzip"})
    assert len(content) > 2 * MIN_BYTES
    assert "content-encoding" not in headers
    headers, content = raw(admin, path, **{"Accept-Encoding": "gzip"})
    assert headers["content-encoding"] == "gzip"


def test_every_answer_with_a_secret_is_marked_and_the_workers_have_the_rest() -> None:
    """The mark is what keeps an answer from being compressed."""
    for endpoint in endpoints():
        fields = {name for kind in endpoint.responses.values() for name in field_names(kind)}
        if ALLOWED[endpoint.method, endpoint.path] != WORK:
            assert endpoint.secret == bool(fields & SECRETS), f"{endpoint.method} {endpoint.path}"


def field_names(kind: Any) -> set[str]:
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return set(get_type_hints(kind))
    parts = kind if isinstance(kind, tuple) else get_args(kind)
    return {name for part in parts for name in field_names(part)}


def test_a_large_answer_with_a_secret_is_not_compressed(admin: httpx2.Client, server: ApiServer) -> None:
    """The list of sessions carries the CSRF token."""
    user = {"name": "grace", "password": "correct horse battery", "role": "viewer"}
    assert admin.post(f"{API}/users", json=user).status_code == 201
    login = {"user": user["name"], "password": user["password"]}
    with server.client(None) as client:
        for _ in range(50):
            headers = {"User-Agent": "x" * 200}
            answer = client.post(f"{API}/sessions", json=login, headers=headers)
            assert answer.status_code == 201
        cookie = answer.headers["set-cookie"].partition(";")[0]
        headers, content = raw(client, f"{API}/sessions", Cookie=cookie, **{"Accept-Encoding": "gzip"})
    assert len(content) > MIN_BYTES
    assert "content-encoding" not in headers


@pytest.mark.parametrize(
    ("accepted", "is_accepted"),
    [
        ("gzip", True),
        ("GZIP", True),
        ("deflate, gzip ; q=1.0", True),
        ("*", True),
        ("*;q=0, gzip", True),
        ("gzip;q=0.001", True),
        ("", False),
        ("identity", False),
        ("gzip;q=0", False),
        ("gzip;q=0.000, *", False),
        ("x-gzipped", False),
    ],
)
def test_accept_encoding_decides(accepted: str, is_accepted: bool) -> None:
    assert accepts_gzip({"accept-encoding": accepted}) is is_accepted


@pytest.mark.parametrize(
    ("sent", "expected"),
    [('W/"7"', True), ('"7"', True), ('"6", W/"7"', True), ("*", True), ('"8"', False), ("7", False), ("", False)],
)
def test_if_none_match_is_compared_weakly(sent: str, expected: bool) -> None:
    assert is_current({"if-none-match": sent}, weak_tag(7)) is expected


def test_an_execution_that_has_ended_is_sent_once(admin: httpx2.Client) -> None:
    register(admin)
    execution = started(admin, {"path": "tests/hello"})["execution_id"]
    tag = admin.get(f"{API}/executions/{execution}").headers["etag"]
    answer = admin.get(f"{API}/executions/{execution}", headers={"If-None-Match": f'"0", {tag}'})
    assert (answer.status_code, answer.content, answer.headers["etag"]) == (304, b"", tag)
