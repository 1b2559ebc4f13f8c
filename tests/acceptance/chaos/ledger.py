"""Counts effects: an HTTP server in the test process that tools call, and that notes when each call began."""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple


class Effect(NamedTuple):
    """A call of a tool: for which execution, task and attempt, when it began, its idempotency key, and the run that
    the test has started, which is another one if the call was made by a child."""

    execution: str
    place: str
    attempt: int
    at: float
    key: str = ""
    root: str = ""


class LedgerServer(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore workers that were killed in the middle of a request."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


class Ledger:
    """Notes effects. `on_effect` gets each one while its call lasts, `on_answer` when it was answered, and the port
    that it came from."""

    def __init__(self) -> None:
        self.effects: list[Effect] = []
        self.by_root: dict[str, list[Effect]] = {}
        self.on_effect: Callable[[Effect, int], None] = lambda effect, port: None
        self.on_answer: Callable[[Effect, int], None] = lambda effect, port: None
        self.http = LedgerServer(("127.0.0.1", 0), _handler(self))
        self.thread = threading.Thread(target=self.http.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        self.thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.http.server_address[1]}/effect"

    def of(self, execution: str) -> list[Effect]:
        return [effect for effect in list(self.effects) if effect.execution == execution]

    def of_family(self, root: str) -> list[Effect]:
        """Of a run and its children, in their order."""
        return list(self.by_root.get(root, ()))

    def close(self) -> None:
        self.http.shutdown()
        self.http.server_close()
        self.thread.join()


@contextmanager
def ledger() -> Iterator[Ledger]:
    book = Ledger()
    try:
        yield book
    finally:
        book.close()


def _handler(ledger: Ledger) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            at = time.time()
            size = int(self.headers.get("Content-Length") or 0)
            content = self.rfile.read(size)
            if len(content) < size:  # the worker was killed while it sent its request
                return
            body = json.loads(content)
            execution, key = str(body["execution"]), self.headers.get("Idempotency-Key", "")
            root = str(body.get("root") or execution)
            effect = Effect(execution, str(body["place"]), int(body["attempt"]), at, key, root)
            ledger.effects.append(effect)
            ledger.by_root.setdefault(effect.root, []).append(effect)
            ledger.on_effect(effect, self.client_address[1])
            time.sleep(float(body.get("seconds", 0)))
            status = 503 if effect.attempt <= int(body.get("failures", 0)) else 200
            data = json.dumps({"place": effect.place}).encode()
            with suppress(OSError):  # the worker may be gone
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)
            ledger.on_answer(effect, self.client_address[1])

        def log_message(self, format: str, *args: Any) -> None: ...

    return Handler


def process_at(port: int, among: Iterable[int]) -> int | None:
    """The process that has the local end of a connection from that port."""
    links = {f"socket:[{row[9]}]" for row in _connections() if int(row[1].rpartition(":")[2], 16) == port}
    return next((pid for pid in among if links & _open_files(pid)), None)


def _open_files(pid: int) -> set[str]:
    links = set()
    with suppress(OSError):  # the process has just ended
        for file in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(OSError):  # or has just closed it
                links.add(os.readlink(file))
    return links


def _connections() -> Iterator[list[str]]:
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        yield line.split()
