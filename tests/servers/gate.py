"""A gate before a server on loopback: while it is shut, requests are heard and go no further."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from urllib.parse import urlsplit

READ_BYTES = 65536


class Gate:
    """Passes connections on to the server at `endpoint` once it is open."""

    def __init__(self, endpoint: str) -> None:
        there = urlsplit(endpoint)
        self.there = (there.hostname, there.port)
        self.heard, self.open = threading.Event(), threading.Event()
        """Set when something has come, and when it may go on."""
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.thread = threading.Thread(target=self._accept, daemon=True)
        self.thread.start()

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.listener.getsockname()[1]}"

    def close(self) -> None:
        self.open.set()
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        self.thread.join()

    def _accept(self) -> None:
        with suppress(OSError):  # it was closed
            while True:
                client, _ = self.listener.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with client, suppress(OSError):  # either side may go
            first = client.recv(READ_BYTES)
            self.heard.set()
            self.open.wait()
            with socket.create_connection(self.there) as server:
                server.sendall(first)
                back = threading.Thread(target=_pump, args=(server, client), daemon=True)
                back.start()
                _pump(client, server)
                back.join()


def _pump(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):  # either side may go
        while data := source.recv(READ_BYTES):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)


@contextmanager
def gate(endpoint: str) -> Iterator[Gate]:
    made = Gate(endpoint)
    try:
        yield made
    finally:
        made.close()
