"""A server that answers workers as a test wants it to, and remembers what they said."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

from tests.servers.ports import reserved_port

PREFIX = "/api/v1/worker"


class Asked(NamedTuple):
    """A request."""

    method: str
    path: str
    content: bytes
    token: str

    @property
    def json(self) -> Any:
        return json.loads(self.content)


Answer = tuple[int, Any]
"""Status, and bytes or something for JSON; status 0 hangs up."""


class Scripted:
    """Answers with what `answer` gives; by default as a server does that has no work."""

    def __init__(self) -> None:
        self.asked: list[Asked] = []
        self.answer: Callable[[Asked], Answer] = plain
        self.port = reserved_port()
        self._server: ThreadingHTTPServer | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def of(self, path: str) -> list[Asked]:
        return [one for one in list(self.asked) if one.path.partition("?")[0].startswith(path)]

    def start(self) -> None:
        """Listen, always at the same port."""
        scripted = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def serve(self) -> None:
                content = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                token = self.headers.get("Authorization", "").removeprefix("Bearer ")
                asked = Asked(self.command, self.path.removeprefix(PREFIX), content, token)
                scripted.asked.append(asked)
                status, said = scripted.answer(asked)
                if not status:
                    self.close_connection = True
                    return
                data = said if isinstance(said, bytes) else json.dumps(said).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            do_GET = do_POST = do_PUT = serve

            def log_message(self, format: str, *args: Any) -> None:
                pass

        class Server(ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, request: Any, client_address: Any) -> None:
                pass

        self._server = Server(("127.0.0.1", self.port), Handler)
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def stop(self) -> None:
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
        self._server = None


def plain(asked: Asked) -> Answer:
    match asked.path:
        case "/report":
            return 200, [{"verdict": "accepted", "held": True, "works": []} for _ in asked.json]
        case "/claim":
            return 200, []
        case "/heartbeat":
            return 200, {"revoked": [], "paused": []}
    return 404, {"title": "There is no such thing", "detail": f"no {asked.path}"}


@contextmanager
def scripted_server() -> Iterator[Scripted]:
    server = Scripted()
    server.start()
    try:
        yield server
    finally:
        server.stop()
