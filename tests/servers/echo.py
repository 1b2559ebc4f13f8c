"""An HTTP server on loopback that says what it was told: in good answers, in refusals, slowly, in bulk and never."""

from __future__ import annotations

import json
import threading
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, quote, unquote, urlsplit

HOLD_SECONDS = 300.0
BULK = 400


class Heard(NamedTuple):
    """A request as it came."""

    method: str
    path: str
    query: list[tuple[str, str]]
    headers: dict[str, str]
    body: bytes

    def text(self) -> str:
        """All of it as people would write it down, with everything that was encoded in plain."""
        fields = [f"{name}={value}" for name, value in self.query]
        headers = [f"{name}: {value}" for name, value in self.headers.items()]
        return "\n".join([unquote(self.path), *fields, *headers, self.body.decode("utf-8", "replace")])


class Echo:
    """The server. `answers` are JSON values that it gives for a path as they are."""

    def __init__(self) -> None:
        self.heard: list[Heard] = []
        self.answers: dict[str, Any] = {}
        self.open = threading.Event()
        """Set when requests that are held may go on."""
        self.changed = threading.Condition()
        self.http = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self.http.daemon_threads = True
        self.thread = threading.Thread(target=self.http.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        self.thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.http.server_address[1]}"

    def hear(self, one: Heard) -> None:
        with self.changed:
            self.heard.append(one)
            self.changed.notify_all()

    def wait_for(self, *paths: str, seconds: float = HOLD_SECONDS) -> None:
        """Wait until each of the paths was asked for."""
        with self.changed:
            asked = self.changed.wait_for(lambda: {*paths} <= {one.path for one in self.heard}, seconds)
            assert asked, f"not all of {paths} were asked for: {[one.path for one in self.heard]}"

    def close(self) -> None:
        self.open.set()
        self.http.shutdown()
        self.http.server_close()
        self.thread.join()


@contextmanager
def echo_server() -> Iterator[Echo]:
    server = Echo()
    try:
        yield server
    finally:
        server.close()


def _said(one: Heard) -> dict[str, Any]:
    """What is told back, in several spellings."""
    text = one.text()
    return {
        "path": one.path,
        "query": dict(one.query),
        "headers": one.headers,
        "body": one.body.decode("utf-8", "replace"),
        "base64": b64encode(text.encode()).decode(),
        "quoted": quote(text),
        "json": json.dumps(text),
    }


def _handler(server: Echo) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_any(self) -> None:
            address = urlsplit(self.path)
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            headers = dict(self.headers.items())
            query = parse_qsl(address.query, keep_blank_values=True)
            one = Heard(self.command, address.path, query, headers, body)
            server.hear(one)
            with suppress(OSError):  # the client may have gone
                self.answer(one)

        do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = do_HEAD = do_any

        def answer(self, one: Heard) -> None:
            first = one.path.split("/")[1]
            if one.path in server.answers:
                self.reply(200, json.dumps(server.answers[one.path]).encode())
            elif first == "reject":
                self.reply(403, json.dumps({"error": _said(one)}).encode())
            elif first == "broken":
                self.reply(200, b'{"said": ' + one.body)
            elif first == "text":
                self.reply(502, one.text().encode(), "text/plain; charset=utf-8")
            elif first == "bulk":
                self.reply(200, json.dumps([_said(one) for _ in range(BULK)]).encode())
            elif first == "bytes":
                self.reply(200, b"\xff\xfe\0" + one.text().encode() + b"\0", "application/octet-stream")
            elif first == "moved":
                self.reply(307, b"", Location=f"/echo?{urlsplit(self.path).query}")
            elif first == "named":
                self.reply(200, b"{}", **{"X-Said": quote(one.text()), "Set-Cookie": f"s={b64(one)}"})
            elif first == "slow":
                self.begin(200, 10_000_000)
                self.wfile.write(one.text().encode())
                self.wfile.flush()
                server.open.wait(HOLD_SECONDS)
            else:
                if first == "hold":
                    server.open.wait(HOLD_SECONDS)
                self.reply(200, json.dumps(_said(one)).encode())

        def begin(self, status: int, size: int, kind: str = "application/json", **headers: str) -> None:
            self.send_response(status)
            for name, value in {"Content-Type": kind, "Content-Length": str(size), **headers}.items():
                self.send_header(name, value)
            self.end_headers()

        def reply(self, status: int, body: bytes, kind: str = "application/json", **headers: str) -> None:
            self.begin(status, len(body), kind, **headers)
            if self.command != "HEAD":
                self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None: ...

    return Handler


def b64(one: Heard) -> str:
    return b64encode(one.text().encode()).decode()
