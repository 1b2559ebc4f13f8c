"""kind: http against servers on loopback.

pytest-httpserver answers where only the request or a plain response matters; `tests/servers/wire.py` elsewhere.
"""

from __future__ import annotations

import asyncio
import gzip
import shutil
import socket
import ssl
import subprocess
from collections.abc import Callable
from email.utils import formatdate
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest
from pytest_httpserver import HTTPServer
from tests.servers.listening import listening
from tests.servers.ports import reserved_port
from tests.servers.wire import (
    ACTION,
    NOW,
    SECRET,
    Answer,
    Asked,
    Wire,
    ask,
    call,
    context,
    failure,
    from_wire,
    reply,
    reset,
    whole,
    wire,
)
from werkzeug import Request, Response

from noetl.model.outcome import Outcome
from noetl.tools import http
from noetl.tools.http_client import response as responses


@pytest.fixture(autouse=True)
def direct(monkeypatch: pytest.MonkeyPatch) -> None:
    """A proxy of the machine has no part in these tests."""
    monkeypatch.setenv("NO_PROXY", "*")


class Echo:
    """Remembers requests and answers each in the same way."""

    def __init__(self, httpserver: HTTPServer) -> None:
        self.server, self.seen = httpserver, list[Request]()
        self.bodies: list[bytes] = []

    def answer(self, path: str = "/", response: Callable[[], Response] = Response, **match: Any) -> str:
        def handle(request: Request) -> Response:
            self.bodies.append(request.get_data(cache=True))
            self.seen.append(request)
            return response()

        self.server.expect_request(path, **match).respond_with_handler(handle)
        return self.server.url_for(path)

    @property
    def last(self) -> Request:
        return self.seen[-1]


@pytest.fixture
def echo(httpserver: HTTPServer) -> Echo:
    return Echo(httpserver)


# -- the request -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"])
def test_method_is_sent(echo: Echo, method: str) -> None:
    outcome = call(echo.answer(), method=method)
    assert outcome.ok
    assert echo.last.method == method


def test_lists_in_params_repeat_their_key_and_null_leaves_it_out(echo: Echo) -> None:
    url = echo.answer("/search")
    call(f"{url}?kept=1#part", params={"tag": ["a b", "ü&"], "gone": None, "page": 2, "all": True, "empty": ""})
    assert echo.last.query_string == b"kept=1&tag=a%20b&tag=%C3%BC%26&page=2&all=true&empty="


def test_digits_in_text_stay_text(echo: Echo) -> None:
    call(echo.answer(), params={"zip": "007"}, headers={"X-Zip": "007"})
    assert echo.last.args["zip"] == "007"
    assert echo.last.headers["X-Zip"] == "007"


def test_headers_are_sent_and_null_leaves_one_out(echo: Echo) -> None:
    call(echo.answer(), headers={"X-Count": 3, "X-On": True, "X-None": None, "User-Agent": None, "X-Pad": " v "})
    sent = echo.last.headers
    assert (sent["X-Count"], sent["X-On"], sent["X-Pad"]) == ("3", "true", "v")
    assert "X-None" not in sent
    assert "User-Agent" not in sent


def test_user_agent_names_noetl(echo: Echo) -> None:
    url = echo.answer()
    call(url)
    assert echo.last.headers["User-Agent"].startswith("noetl/")
    call(url, headers={"user-agent": "mine"})
    assert echo.last.headers["User-Agent"] == "mine"


@pytest.mark.parametrize("value", ["a\r\nX-Evil: 1", "a\nb", "a\rb", "a\x00b", "a\x7f", "token\n", "a\x1bb"])
def test_control_character_in_a_header_is_refused(value: str) -> None:
    error = failure(call("http://127.0.0.1:9/", headers={"Authorization": value}))
    assert error.kind == "input"
    assert "'Authorization'" in error.message
    assert not error.retryable


@pytest.mark.parametrize("name", ["a b", "a:b", "", "a\nb", "ä"])
def test_bad_header_name_is_refused(name: str) -> None:
    assert failure(call("http://127.0.0.1:9/", headers={name: "x"})).kind == "input"


@pytest.mark.parametrize("name", ["Content-Length", "transfer-encoding"])
def test_framing_of_the_message_is_not_the_authors(name: str) -> None:
    assert failure(call("http://127.0.0.1:9/", headers={name: "1"})).kind == "input"


def test_header_beyond_ascii_goes_as_utf8() -> None:
    outcome, server = from_wire(reply(), headers={"X-Name": "Jürgen"})
    assert outcome.ok
    assert server.asked[0].headers["x-name"].encode("latin-1").decode() == "Jürgen"


@pytest.mark.parametrize(
    ("inputs", "content_type", "body"),
    [
        ({"body": "text ü"}, "text/plain; charset=utf-8", "text ü".encode()),
        ({"body": {"a": [1, None, "x"]}}, "application/json", b'{"a":[1,null,"x"]}'),
        ({"body": [1, 2]}, "application/json", b"[1,2]"),
        ({"body": 5}, "application/json", b"5"),
        ({"body": b"\x00\xff"}, "application/octet-stream", b"\x00\xff"),
        ({"json": "text"}, "application/json", b'"text"'),
        ({"json": None}, "application/json", b"null"),
        ({"form": {"a": ["1", 2], "b": "x y&"}}, "application/x-www-form-urlencoded", b"a=1&a=2&b=x+y%26"),
        ({"form": {}}, "application/x-www-form-urlencoded", b""),
        ({}, None, b""),
    ],
)
def test_body_and_its_type(echo: Echo, inputs: dict[str, Any], content_type: str | None, body: bytes) -> None:
    assert call(echo.answer(), method="POST", **inputs).ok
    assert echo.last.headers.get("Content-Type") == content_type
    assert echo.bodies[-1] == body


def test_content_type_of_the_author_stands(echo: Echo) -> None:
    call(echo.answer(), method="POST", body="<a/>", headers={"content-type": "application/xml"})
    assert echo.last.headers.getlist("Content-Type") == ["application/xml"]


@pytest.mark.parametrize(
    ("several", "says"),
    [
        ({"body": "a", "json": 1}, "`body` and `json`"),
        ({"form": {"a": 1}, "json": None}, "`json` and `form`"),
        ({"files": {"f": "x"}, "body": "a"}, "`body` and `files`"),
        ({"body": {}, "json": 1, "form": {}}, "`body`, `json` and `form`"),
        ({"json": 1, "files": {}, "form": {}}, "`json` and `files`"),
    ],
)
def test_there_is_one_body_at_most(several: dict[str, Any], says: str) -> None:
    error = failure(call("http://127.0.0.1:9/", method="POST", **several))
    assert error.kind == "input"
    assert f"{says} cannot all be the body" in error.message


def test_what_is_no_json_is_refused() -> None:
    assert failure(call("http://127.0.0.1:9/", method="POST", json={"x": object()})).kind == "input"
    assert failure(call("http://127.0.0.1:9/", method="POST", json=b"binary")).kind == "input"


def test_text_that_has_no_encoding_is_refused() -> None:
    assert failure(call("http://127.0.0.1:9/", method="POST", body="\ud800")).kind == "input"
    assert failure(call("http://127.0.0.1:9/", params={"a": "\ud800"})).kind == "input"


def test_files_go_as_a_multipart_form(echo: Echo, tmp_path: Path) -> None:
    report = tmp_path / "report.csv"
    report.write_bytes(b"a,b\n1,2\n")
    seen: dict[str, Any] = {}

    def handle(request: Request) -> Response:
        seen["form"] = request.form.to_dict(flat=False)
        seen["files"] = {k: (f.filename, f.mimetype, f.read()) for k, f in request.files.items()}
        return Response()

    echo.server.expect_request("/up").respond_with_handler(handle)
    outcome = call(
        echo.server.url_for("/up"),
        method="POST",
        headers={"Content-Type": "multipart/form-data"},
        form={"who": "me", "tag": ["a", "b"]},
        files={
            "plain": str(report),
            "named": {"path": str(report), "filename": "r.bin", "content_type": "application/x-own"},
            "made": {"content": "hello", "filename": "hello.txt"},
            "data": {"content": {"a": 1}},
            "binary": {"content": b"\xff\x00"},
        },
    )
    assert outcome.ok, outcome.error
    assert seen["form"] == {"who": ["me"], "tag": ["a", "b"]}
    assert seen["files"] == {
        "plain": ("report.csv", "text/csv", b"a,b\n1,2\n"),
        "named": ("r.bin", "application/x-own", b"a,b\n1,2\n"),
        "made": ("hello.txt", "text/plain", b"hello"),
        "data": ("data", "application/json", b'{"a":1}'),
        "binary": ("binary", "application/octet-stream", b"\xff\x00"),
    }


@pytest.mark.parametrize(
    ("upload", "kind"),
    [
        ("/no/such/file", "not_found"),
        ("/", "input"),
        ({}, "input"),
        ({"path": "a", "content": "b"}, "input"),
        ({"content": "b", "content_type": "a/b\r\nX: 1"}, "input"),
    ],
)
def test_bad_upload_is_refused(upload: Any, kind: str) -> None:
    assert failure(call("http://127.0.0.1:9/", method="POST", files={"f": upload})).kind == kind


@pytest.mark.parametrize(
    "url",
    [
        "",
        "/path",
        "example.org",
        "ftp://example.org/",
        "file:///etc/passwd",
        "http://",
        "http://a:b/",
        "http://a:0/",
        "http://a:99999/",
        "http://a\x00b/",
    ],
)
def test_bad_address_is_refused(url: str) -> None:
    outcome = call(url)
    assert failure(outcome).kind == "input"
    assert outcome.extra["http"]["status"] is None


def test_refusal_of_an_address_does_not_show_its_password() -> None:
    assert SECRET not in failure(call(f"http://user:{SECRET}/x@host:port/")).message


def test_space_around_an_address_is_no_part_of_it(echo: Echo) -> None:
    assert call(f" {echo.answer()}\n").ok


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH"])
def test_effect_carries_the_action_as_idempotency_key(echo: Echo, method: str) -> None:
    url = echo.answer()
    call(url, method=method)
    assert echo.last.headers["Idempotency-Key"] == ACTION
    call(url, method=method, headers={"idempotency-key": "mine"})
    assert echo.last.headers.getlist("Idempotency-Key") == ["mine"]
    call(url, method=method, headers={"Idempotency-Key": None})
    assert "Idempotency-Key" not in echo.last.headers


@pytest.mark.parametrize("method", ["GET", "DELETE", "HEAD", "OPTIONS"])
def test_other_methods_carry_no_idempotency_key(echo: Echo, method: str) -> None:
    call(echo.answer(), method=method)
    assert "Idempotency-Key" not in echo.last.headers


def test_user_in_the_address_signs_in_and_is_not_shown(echo: Echo) -> None:
    url = echo.answer(response=lambda: Response(status=401)).replace("http://", f"http://user:{SECRET}@")
    outcome = call(url)
    assert echo.last.authorization is not None
    assert echo.last.authorization.password == SECRET
    assert SECRET not in str(msgspec.to_builtins(outcome))


# -- the answer ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "content_type", "data", "encoding"),
    [
        (b'{"a": [1, 2.5, null]}', "application/json", {"a": [1, 2.5, None]}, "json"),
        (b'{"status": "error"}', "application/json", {"status": "error"}, "json"),
        (b'\xef\xbb\xbf{"a": 1}', "application/json; charset=utf-8", {"a": 1}, "json"),
        (b'{"title": "x"}', "Application/Problem+JSON", {"title": "x"}, "json"),
        (b"123456789012345678901234567890", "application/json", 123456789012345678901234567890, "json"),
        (b"null", "application/json", None, "json"),
        (b"{broken", "application/json", "{broken", "text"),
        (b"[" * 100_000, "application/json", "[" * 100_000, "text"),
        ("grün".encode("latin-1"), "text/plain; charset=ISO-8859-1", "grün", "text"),
        ("grün".encode(), "text/plain", "grün", "text"),
        ("grün".encode("latin-1"), "text/plain", "grün", "text"),
        ("grün".encode("latin-1"), "text/plain; charset=utf-8", "gr\ufffdn", "text"),
        (b"a", 'text/plain; charset="no-such-charset"', "a", "text"),
        (b"007", "text/csv", "007", "text"),
        (b'{"a":1}\n{"a":2}\n', "application/x-ndjson", '{"a":1}\n{"a":2}\n', "text"),
        (b"<a/>", "image/svg+xml", "<a/>", "text"),
        (b"\x89PNG\x00\xff", "image/png", b"\x89PNG\x00\xff", "binary"),
        (b"abc", "application/octet-stream", b"abc", "binary"),
        (b"", "application/json", None, None),
    ],
)
def test_data_follows_the_content_type(body: bytes, content_type: str, data: Any, encoding: str | None) -> None:
    outcome, _ = from_wire(reply(body, Content_Type=content_type))
    assert outcome.ok
    assert outcome.result["data"] == data
    assert outcome.extra["http"]["encoding"] == encoding


@pytest.mark.parametrize(
    ("body", "data"), [(b"plain", "plain"), (b"\xff\xfe\x00", b"\xff\xfe\x00"), (b"a\x00b", b"a\x00b")]
)
def test_body_without_a_content_type_is_text_if_it_can_be(body: bytes, data: Any) -> None:
    outcome, _ = from_wire(reply(body))
    assert outcome.result["data"] == data


def test_result_has_status_headers_and_data() -> None:
    async def answer(asked: Asked, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 201 Created\r\nX-Two: a\r\nX-TWO: b\r\nX-Request-Id: r1\r\nContent-Length: 2\r\n\r\nok")

    outcome, server = from_wire(answer, "/orders?key=1")
    headers = {"x-two": "a, b", "x-request-id": "r1", "content-length": "2"}
    assert outcome.result == {"status": 201, "headers": headers, "data": "ok"}
    assert outcome.extra["http"] == {
        "status": 201,
        "headers": headers,
        "request_id": "r1",
        "url": f"{server.url}/orders?...",
        "version": "HTTP/1.1",
        "encoding": "text",
    }


def test_head_has_no_data_whatever_length_it_tells() -> None:
    outcome, _ = from_wire(reply(b"", Content_Length=str(responses.MAX_BODY_BYTES + 1)), method="HEAD")
    assert outcome.ok
    assert outcome.result["data"] is None


@pytest.mark.parametrize("status", ["204 No Content", "304 Not Modified"])
def test_answer_without_a_body_is_ok(status: str) -> None:
    async def answer(asked: Asked, writer: asyncio.StreamWriter) -> None:
        writer.write(f"HTTP/1.1 {status}\r\n\r\n".encode())

    outcome, _ = from_wire(answer)
    assert outcome.ok
    assert outcome.result["data"] is None


def test_gzip_is_unpacked(echo: Echo) -> None:
    packed = gzip.compress(b'{"a": 1}')
    headers = {"Content-Encoding": "gzip", "Content-Type": "application/json"}
    assert call(echo.answer(response=lambda: Response(packed, headers=headers))).result["data"] == {"a": 1}


def test_broken_gzip_is_an_error() -> None:
    outcome, _ = from_wire(reply(b"this is not gzip", Content_Encoding="gzip"))
    error = failure(outcome)
    assert (error.kind, error.retryable) == ("connect", True)
    assert "decompress" in error.message


def test_chunked_body_is_joined() -> None:
    async def answer(asked: Asked, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        for part in (b"one ", b"two ", b"three"):
            writer.write(b"%x\r\n%s\r\n" % (len(part), part))
            await writer.drain()
            await asyncio.sleep(0)
        writer.write(b"0\r\n\r\n")

    outcome, _ = from_wire(answer)
    assert outcome.result["data"] == "one two three"


def test_body_of_exactly_the_limit_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(responses, "MAX_BODY_BYTES", 1000)
    assert from_wire(reply(b"x" * 1000))[0].ok
    assert failure(from_wire(reply(b"x" * 1001))[0]).kind == "too_large"


def test_body_that_says_it_is_too_large_is_not_read() -> None:
    async def answer(asked: Asked, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 999999999999\r\n\r\n")  # and not one byte follows

    outcome, _ = from_wire(answer)
    assert failure(outcome).kind == "too_large"
    assert failure(outcome).details == {"status": 200, "limit": responses.MAX_BODY_BYTES}
    assert outcome.extra["http"]["status"] == 200


def test_endless_body_is_cut_off() -> None:
    part = b"10000\r\n" + b"x" * 65536 + b"\r\n"

    async def answer(asked: Asked, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        while not writer.is_closing():
            writer.write(part)
            await writer.drain()

    assert failure(from_wire(answer)[0]).kind == "too_large"


def test_bomb_is_cut_off() -> None:
    bomb = gzip.compress(b"\0" * (60 * 2**20))
    assert len(bomb) < 100_000
    assert failure(from_wire(reply(bomb, Content_Encoding="gzip"))[0]).kind == "too_large"


# -- errors ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [400, 401, 404, 408, 409, 425, 429, 500, 501, 502, 503, 504])
def test_4xx_and_5xx_are_errors(echo: Echo, status: int) -> None:
    url = echo.answer("/things", response=lambda: Response('{"why": "so"}', status, content_type="application/json"))
    outcome = call(f"{url}?token={SECRET}")
    error = failure(outcome)
    assert (error.kind, error.retryable) == ("http_status", status in {408, 425, 429, 500, 502, 503, 504})
    assert error.message.startswith(f"GET {url}?... returned {status}")
    assert error.details == {"status": status, "body": {"why": "so"}}
    assert outcome.extra["http"]["status"] == status


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("120", 120),
        ("0", 0),
        (formatdate(NOW + 90, usegmt=True), 90),
        (formatdate(NOW - 90, usegmt=True), 0),
        ("soon", None),
        ("-5", None),
        ("9" * 30, None),
        ("Wed, 99 Oct 2015 07:28:00 GMT", None),
    ],
)
def test_retry_after_is_told_in_seconds(value: str, seconds: int | None) -> None:
    outcome, _ = from_wire(reply(b"", "503 Service Unavailable", Retry_After=value))
    assert failure(outcome).details.get("retry_after") == seconds


def test_body_of_an_error_is_cut_to_4_kib() -> None:
    outcome, _ = from_wire(reply("ü".encode() * 100_000, "500 Oops", Content_Type="text/plain; charset=utf-8"))
    assert failure(outcome).details["body"] == "ü" * 2048
    assert failure(outcome).message.endswith("returned 500 Oops")


def test_large_json_of_an_error_is_text() -> None:
    body = msgspec.json.encode(["x" * 5000])
    outcome, _ = from_wire(reply(body, "400 Bad Request", Content_Type="application/json"))
    assert failure(outcome).details["body"] == body[:4096].decode()


def test_binary_body_of_an_error_is_left_out() -> None:
    outcome, _ = from_wire(reply(b"\xff\x00", "400 Bad Request", Content_Type="image/png"))
    assert failure(outcome).details == {"status": 400}


def test_endless_body_of_an_error_is_not_read_to_its_end() -> None:
    async def answer(asked: Asked, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 500 Oops\r\nContent-Type: text/plain\r\n\r\n")
        while not writer.is_closing():
            writer.write(b"x" * 65536)
            await writer.drain()

    outcome, _ = from_wire(answer)
    assert failure(outcome).details["body"] == "x" * 4096


def test_error_whose_body_breaks_off_keeps_its_status() -> None:
    async def answer(asked: Asked, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 503 Busy\r\nContent-Length: 100\r\nRetry-After: 7\r\n\r\nhalf")
        await writer.drain()
        writer.close()

    error = failure(from_wire(answer)[0])
    assert (error.kind, error.retryable, error.details) == ("http_status", True, {"status": 503, "retry_after": 7})


def test_credentials_do_not_come_back_in_an_error() -> None:
    async def answer(asked: Asked, writer: asyncio.StreamWriter) -> None:
        body = msgspec.json.encode({"you": asked.headers, "line": asked.line})
        head = f"HTTP/1.1 403 Forbidden\r\nSet-Cookie: id={SECRET}-set\r\nContent-Type: application/json\r\n"
        writer.write(head.encode() + b"Content-Length: %d\r\n\r\n" % len(body) + body)

    sent = {
        "Authorization": f"Bearer {SECRET}-bearer",
        "Cookie": f"id={SECRET}-cookie; theme=dark",
        "X-Api-Key": f'{SECRET}-"key"',
        "X-Plain": "shown",
    }
    outcome, _ = from_wire(answer, f"/?access_token={SECRET}-query", headers=sent)
    assert SECRET not in str(msgspec.to_builtins(outcome))
    you = failure(outcome).details["body"]["you"]
    assert (you["authorization"], you["cookie"], you["x-plain"]) == ("***", "***", "shown")
    assert outcome.extra["http"]["headers"]["set-cookie"] == "***"


def test_cookies_are_in_the_result_only() -> None:
    outcome, _ = from_wire(reply(Set_Cookie="id=value-of-it; Path=/"))
    assert outcome.result["headers"]["set-cookie"] == "id=value-of-it; Path=/"
    assert "value-of-it" not in str(outcome.extra)


def test_nothing_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")
    assert from_wire(reply(), f"/?token={SECRET}", headers={"Authorization": SECRET})[0].ok
    assert SECRET not in caplog.text


def test_nobody_listens() -> None:
    port = reserved_port()
    outcome = call(f"http://127.0.0.1:{port}/x?token={SECRET}")
    error = failure(outcome)
    assert (error.kind, error.retryable) == ("connect", True)
    assert f"127.0.0.1:{port}/x" in error.message
    assert "refused" in error.message.lower() or "connect" in error.message.lower()
    assert SECRET not in error.message
    assert outcome.extra["http"] == {
        "status": None,
        "headers": {},
        "request_id": None,
        "url": f"http://127.0.0.1:{port}/x?...",
        "version": None,
        "encoding": None,
    }


def test_host_that_does_not_exist(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*asked: Any, **more: Any) -> Any:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    error = failure(call("http://no-such-host.invalid/"))
    assert (error.kind, error.retryable) == ("connect", True)
    assert "cannot resolve host name" in error.message


@pytest.mark.parametrize(
    "before",
    [
        b"",
        b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf of",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n",
        b"HTTP/1.1 200 OK\r\nCont",
    ],
)
@pytest.mark.parametrize("rude", [True, False])
def test_connection_lost_before_the_end(before: bytes, rude: bool) -> None:
    async def answer(asked: Asked, writer: asyncio.StreamWriter) -> None:
        writer.write(before)
        await writer.drain()
        reset(writer) if rude else writer.close()

    outcome, _ = from_wire(answer)
    error = failure(outcome)
    assert (error.kind, error.retryable) == ("connect", True)
    assert outcome.extra["http"]["status"] is None


def test_server_that_does_not_speak_http() -> None:
    async def answer(asked: Asked, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220 mail ready\r\n\r\n")
        await writer.drain()
        writer.close()

    assert failure(from_wire(answer)[0]).kind == "connect"


def test_read_limit_is_kept() -> None:
    async def answer(asked: Asked, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf")
        await writer.drain()
        await asyncio.sleep(3600)

    outcome, _ = from_wire(answer, given=context(timeout={"connect": 5, "read": 0.05}))
    error = failure(outcome)
    assert (error.kind, error.retryable) == ("timeout", True)
    assert "no data for 0.05 s" in error.message
    assert outcome.extra["http"]["status"] is None


def test_connect_limit_is_kept() -> None:
    """A full backlog: the kernel answers no further SYN."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        port = listener.getsockname()[1]
        fillers = [socket.socket() for _ in range(8)]
        try:
            for filler in fillers:
                filler.setblocking(False)
                filler.connect_ex(("127.0.0.1", port))
            error = failure(call(f"http://127.0.0.1:{port}/", given=context(timeout={"connect": 0.1})))
        finally:
            for filler in fillers:
                filler.close()
    assert (error.kind, error.retryable) == ("timeout", True)
    assert "no connection within 0.1 s" in error.message


def test_call_can_be_cancelled_and_the_client_continues() -> None:
    entered = asyncio.Event()

    async def main() -> None:
        hold = True

        async def answer(asked: Asked, writer: asyncio.StreamWriter) -> None:
            if hold:
                entered.set()
                await asyncio.Event().wait()
            await reply()(asked, writer)

        async with wire(answer) as server:
            first = asyncio.create_task(ask(server.url))
            await entered.wait()
            first.cancel()
            with pytest.raises(asyncio.CancelledError):
                await first
            hold = False
            assert (await ask(server.url)).ok
            assert server.connections == 2

    whole(main())


# -- retries ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", ["500 Oops", None])
def test_a_call_sends_one_request_whatever_comes_back(status: str | None) -> None:
    async def broken(asked: Asked, writer: asyncio.StreamWriter) -> None:
        writer.close()

    outcome, server = from_wire(reply(b"", status) if status else broken, method="POST")
    failure(outcome)
    assert len(server.asked) == 1


# -- redirects -------------------------------------------------------------------------------------------------------


def redirecting(**places: str) -> Answer:
    """Answers `/a` as told, `a="302 /b"`; every other path is ok."""

    async def answer(asked: Asked, writer: asyncio.StreamWriter) -> None:
        status, _, location = places.get(asked.line.split()[1].lstrip("/"), "").partition(" ")
        if location:
            await reply(b"moved", f"{status} Moved", Location=location, Set_Cookie="on_the_way=1")(asked, writer)
        else:
            await reply()(asked, writer)

    return answer


CREDENTIALS = {"Authorization": SECRET, "Cookie": f"id={SECRET}", "X-Api-Key": SECRET, "X-Own": SECRET, "Accept": "a/b"}


def test_redirect_on_one_host_keeps_credentials() -> None:
    outcome, server = from_wire(redirecting(a="302 /b"), "/a", headers=CREDENTIALS)
    assert outcome.ok
    assert outcome.extra["http"]["url"] == f"{server.url}/b"
    first, second = server.asked
    assert second.headers["authorization"] == SECRET
    assert second.headers["x-api-key"] == SECRET
    assert second.headers["cookie"] == f"id={SECRET}; on_the_way=1"
    assert first.connection == second.connection


def test_redirect_to_another_host_takes_no_credentials_along() -> None:
    async def main() -> tuple[Outcome, Wire]:
        async with wire(reply()) as other, wire(redirecting(a=f"307 http://localhost:{other.port}/b")) as first:
            return await ask(f"{first.url}/a", method="POST", body="data", headers=CREDENTIALS), other

    outcome, other = whole(main())
    assert outcome.ok
    (asked,) = other.asked
    assert asked.line == "POST /b HTTP/1.1"
    assert asked.body == b"data"
    assert asked.headers["host"] == f"localhost:{other.port}"
    assert asked.headers["accept"] == "a/b"
    assert SECRET not in str(asked.headers)
    assert "cookie" not in asked.headers


def test_another_port_is_another_host() -> None:
    async def main() -> Wire:
        async with wire(reply()) as other, wire(redirecting(a=f"302 {other.url}/b")) as first:
            await ask(f"{first.url.replace('//', f'//user:{SECRET}@')}/a", headers={"X-Key": SECRET})
            assert "authorization" in first.asked[0].headers
            return other

    (asked,) = whole(main()).asked
    assert "authorization" not in asked.headers
    assert "x-key" not in asked.headers


@pytest.mark.parametrize(
    ("status", "method", "then"),
    [
        ("301", "POST", "GET"),
        ("302", "POST", "GET"),
        ("303", "PUT", "GET"),
        ("307", "POST", "POST"),
        ("308", "PUT", "PUT"),
    ],
)
def test_method_after_a_redirect(status: str, method: str, then: str) -> None:
    outcome, server = from_wire(redirecting(a=f"{status} /b"), "/a", method=method, json={"a": 1})
    assert outcome.ok
    assert server.asked[1].line == f"{then} /b HTTP/1.1"
    assert server.asked[1].body == (b"" if then == "GET" else b'{"a":1}')


def test_file_is_sent_again_after_a_redirect(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"content of the file")
    outcome, server = from_wire(redirecting(a="308 /b"), "/a", method="POST", files={"f": str(tmp_path / "f")})
    assert outcome.ok
    assert server.asked[0].body == server.asked[1].body
    assert b"content of the file" in server.asked[1].body


def test_redirect_is_a_result_when_it_is_not_followed() -> None:
    outcome, server = from_wire(redirecting(a="302 /b"), "/a", follow_redirects=False)
    assert outcome.ok
    assert (outcome.result["status"], outcome.result["headers"]["location"]) == (302, "/b")
    assert len(server.asked) == 1


def test_redirects_in_a_circle_end() -> None:
    outcome, server = from_wire(redirecting(a="302 /b", b="302 /a"), "/a")
    error = failure(outcome)
    assert (error.kind, error.retryable) == ("http_status", False)
    assert "more than 20 times" in error.message
    assert len(server.asked) == 21


@pytest.mark.parametrize(
    "target", ["file:///etc/passwd", "ftp://127.0.0.1/", "javascript:1", "http://127.0.0.1:99999/"]
)
def test_redirect_away_from_http_is_not_followed(target: str) -> None:
    error = failure(from_wire(redirecting(a=f"302 {target}"), "/a")[0])
    assert (error.kind, error.retryable) == ("http_status", False)


def test_cookie_of_one_call_is_unknown_to_the_next() -> None:
    async def main() -> None:
        async with wire(reply(Set_Cookie="id=1; Path=/")) as server:
            await ask(server.url)
            await ask(server.url)
            assert [("cookie" in asked.headers) for asked in server.asked] == [False, False]
            assert server.connections == 1

    whole(main())


# -- connections -----------------------------------------------------------------------------------------------------


def test_connections_are_used_again() -> None:
    """1,000 requests, 50 at a time, need no more than 50 connections."""

    async def main() -> None:
        async with wire(reply(b'{"a": 1}', Content_Type="application/json")) as server:
            gate = asyncio.Semaphore(50)

            async def one() -> Outcome:
                async with gate:
                    return await ask(server.url)

            outcomes = await asyncio.gather(*(one() for _ in range(1000)))
            assert all(outcome.ok for outcome in outcomes)
            assert len(server.asked) == 1000
            assert server.connections <= 50

    whole(main())


def test_fifty_are_in_flight_at_once() -> None:
    async def main() -> None:
        together = asyncio.Barrier(50)

        async def answer(asked: Asked, writer: asyncio.StreamWriter) -> None:
            await together.wait()
            await reply()(asked, writer)

        async with wire(answer) as server:
            assert all(one.ok for one in await asyncio.gather(*(ask(server.url) for _ in range(50))))

    whole(main())


@pytest.mark.parametrize("status", ["404 Not Found", "302 Found", "200 OK"])
def test_connection_survives_every_status(status: str) -> None:
    async def main() -> int:
        async with wire(reply(b"body", status)) as server:
            for _ in range(3):
                await ask(server.url)
            return server.connections

    assert whole(main()) == 1


def test_connection_the_server_closed_is_opened_again() -> None:
    async def main() -> None:
        async with wire(reply()) as server:
            assert (await ask(server.url)).ok
            server.writers[0].close()
            await server.writers[0].wait_closed()
            await asyncio.sleep(0.01)
            assert (await ask(server.url)).ok
            assert server.connections == 2

    whole(main())


def test_connection_that_broke_is_not_taken_for_one_that_has_its_number() -> None:
    """The numbers of closed sockets are given to new ones: here to those of another server."""

    async def main() -> None:
        async with wire(reply()) as server, wire(reply()) as other:
            for _ in range(5):
                assert all(one.ok for one in await asyncio.gather(*(ask(server.url) for _ in range(5))))
                for writer in server.writers:
                    reset(writer) if not writer.is_closing() else None
                await asyncio.sleep(0.01)
                assert all(one.ok for one in await asyncio.gather(*(ask(other.url) for _ in range(5))))
            assert all(one.ok for one in await asyncio.gather(*(ask(server.url) for _ in range(5))))

    whole(main())


def test_each_event_loop_has_connections_of_its_own(echo: Echo) -> None:
    url = echo.answer()
    assert call(url).ok
    assert call(url).ok


def test_closing_twice_and_calling_again() -> None:
    async def main() -> None:
        async with wire(reply()) as server:
            assert (await ask(server.url)).ok
            await http.close()
            await http.close()
            assert (await ask(server.url)).ok

    whole(main())


# -- TLS -------------------------------------------------------------------------------------------------------------


class Certificates(NamedTuple):
    cert: str
    key: str
    server: ssl.SSLContext


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    if shutil.which("openssl") is None:
        pytest.skip("needs the openssl command to make a certificate")
    folder = tmp_path_factory.mktemp("tls")
    cert, key = str(folder / "cert.pem"), str(folder / "key.pem")
    curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"]
    names = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
    command = ["openssl", "req", "-x509", *curve, *names, "-keyout", key, "-out", cert]
    subprocess.run(command, check=True, capture_output=True)
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(cert, key)
    return Certificates(cert, key, server)


def over_tls(server: ssl.SSLContext, host: str = "localhost", calls: int = 1, **inputs: Any) -> tuple[Outcome, Wire]:
    async def main() -> tuple[Outcome, Wire]:
        async with wire(reply(), server) as made:
            for _ in range(calls):
                outcome = await ask(f"https://{host}:{made.port}/", **inputs)
            return outcome, made

    return whole(main())


def test_unknown_authority_is_not_trusted(certificates: Certificates) -> None:
    outcome, server = over_tls(certificates.server)
    error = failure(outcome)
    assert (error.kind, error.retryable) == ("connect", False)
    assert "certificate" in error.message.lower()
    assert server.asked == []


def test_named_authority_is_trusted_and_connections_are_kept(certificates: Certificates) -> None:
    outcome, server = over_tls(certificates.server, calls=3, tls={"ca": certificates.cert})
    assert outcome.ok, outcome.error
    assert server.connections == 1


def test_name_of_the_host_is_checked(certificates: Certificates) -> None:
    assert not failure(over_tls(certificates.server, "127.0.0.1", tls={"ca": certificates.cert})[0]).retryable


def test_check_can_be_switched_off(certificates: Certificates) -> None:
    assert over_tls(certificates.server, "127.0.0.1", tls={"verify": False})[0].ok


def test_options_do_not_leak_into_other_calls(certificates: Certificates) -> None:
    async def main() -> list[bool]:
        async with wire(reply(), certificates.server) as made:
            url = f"https://localhost:{made.port}/"
            return [(await ask(url, tls=tls)).ok for tls in ({"verify": False}, None, {"verify": True})]

    assert whole(main()) == [True, False, False]


def test_certificate_is_shown_to_the_server(certificates: Certificates) -> None:
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(certificates.cert, certificates.key)
    server.load_verify_locations(certificates.cert)
    server.verify_mode = ssl.CERT_REQUIRED
    mine = {"ca": certificates.cert, "cert": certificates.cert, "key": certificates.key}
    assert over_tls(server, tls=mine)[0].ok
    error = failure(over_tls(server, tls={"ca": certificates.cert})[0])
    assert error.kind == "connect"


@pytest.mark.parametrize(
    ("tls", "kind"),
    [
        ({"ca": "/no/such/file"}, "not_found"),
        ({"ca": __file__}, "input"),
        ({"cert": __file__}, "input"),
        ({"key": __file__}, "input"),
    ],
)
def test_bad_tls_files_are_refused(tls: dict[str, str], kind: str) -> None:
    assert failure(call("https://127.0.0.1:9/", tls=tls)).kind == kind


def test_server_without_tls_behind_https() -> None:
    async def plain(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(b"HTTP/1.0 400 Bad Request\r\n\r\n")
        await writer.drain()

    async def main() -> Outcome:
        async with listening(plain) as port:
            return await ask(f"https://127.0.0.1:{port}/")

    error = failure(whole(main()))
    assert (error.kind, error.retryable) == ("connect", False)
    assert "TLS failed" in error.message
    assert error.message.endswith("is it a server without TLS, at http:// rather than https://?")


def test_server_that_is_missing() -> None:
    url = f"http://127.0.0.1:{reserved_port()}/"
    error = failure(call(url))
    assert (error.kind, error.retryable) == ("connect", True)
    words = "the connection was refused: nothing listens there, or a firewall rejects it"
    assert error.message == f"GET {url}: {words}"
