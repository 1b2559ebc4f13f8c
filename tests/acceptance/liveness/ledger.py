"""Counts effects: an HTTP server in the test process that tools call, and that notes when each call began."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple


class Effect(NamedTuple):
    """A call of a tool: for which execution, task and attempt, and when it began."""

    execution: str
    place: str
    attempt: int
    at: float


class Ledger:
    """Notes effects. `on_effect` gets each one while its call lasts, and the port that it came from."""

    def __init__(self) -> None:
        self.effects: list[Effect] = []
        self.on_effect: Callable[[Effect, int], None] = lambda effect, port: None
        self.http = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self.http.daemon_threads = True
        self.thread = threading.Thread(target=self.http.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        self.thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.http.server_address[1]}/effect"

    def of(self, execution: str) -> list[Effect]:
        return [effect for effect in list(self.effects) if effect.execution == execution]

    def close(self) -> None:
        self.http.shutdown()
        self.http.server_close()
        self.thread.join()


@contextmanager
def ledger() -> Iterator[Ledger]:
    one = Ledger()
    try:
        yield one
    finally:
        one.close()


def _handler(ledger: Ledger) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            at = time.time()
            body = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)))
            effect = Effect(str(body["execution"]), str(body["place"]), int(body["attempt"]), at)
            ledger.effects.append(effect)
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

        def log_message(self, format: str, *args: Any) -> None: ...

    return Handler


def process_at(port: int, among: Iterable[int]) -> int | None:
    """The process that has the local end of a connection from that port."""
    inode = next((row[9] for row in _connections() if int(row[1].rpartition(":")[2], 16) == port), None)
    for pid in among:
        with suppress(OSError):  # it has just ended
            if any(os.readlink(fd) == f"socket:[{inode}]" for fd in Path(f"/proc/{pid}/fd").iterdir()):
                return pid
    return None


def _connections() -> Iterator[list[str]]:
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        yield line.split()
