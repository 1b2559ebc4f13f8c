"""A TCP proxy on loopback that loses what servers answer: connections break, fall silent or are slow.

A fault strikes a response after the server has acted: the request went through, and the client does not learn of it.
"""

from __future__ import annotations

import random
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from urllib.parse import urlsplit

READ_BYTES = 65536
KINDS = ("drop", "silence", "delay")


class FaultyProxy:
    """Passes connections on to `endpoint`. `rate` is the share of responses that a fault strikes."""

    def __init__(self, endpoint: str, dice: random.Random, delay_seconds: float = 5.0) -> None:
        there = urlsplit(endpoint)
        self.there = (there.hostname, there.port)
        self.dice, self.delay_seconds = dice, delay_seconds
        self.rate = 0.0
        self.faults = 0
        self.cut: set[int] = set()
        """Connections on which nothing comes back any more."""
        self.lock = threading.Lock()
        self.sockets: dict[int, tuple[socket.socket, socket.socket]] = {}
        self.number = 0
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.thread = threading.Thread(target=self._accept, daemon=True)
        self.thread.start()

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.listener.getsockname()[1]}"

    def silence(self) -> None:
        """From now on nothing comes back on the connections of this moment; new ones work."""
        with self.lock:
            self.cut |= set(self.sockets)

    def close(self) -> None:
        with suppress(OSError):
            self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        self.thread.join()
        with self.lock:
            pairs = list(self.sockets.values())
        for pair in pairs:
            for one in pair:
                _end(one)

    def _accept(self) -> None:
        with suppress(OSError):  # it was closed
            while True:
                client, _ = self.listener.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        try:
            server = socket.create_connection(self.there)
        except OSError:  # it is down, and whoever asks sees that
            _end(client)
            return
        with self.lock:
            self.number += 1
            number = self.number
            self.sockets[number] = (client, server)
        back = threading.Thread(target=self._answer, args=(number, server, client), daemon=True)
        back.start()
        with suppress(OSError):
            while data := client.recv(READ_BYTES):
                server.sendall(data)
        _end(server)
        back.join()
        _end(client)
        with self.lock:
            del self.sockets[number]

    def _answer(self, number: int, server: socket.socket, client: socket.socket) -> None:
        with suppress(OSError):
            while data := server.recv(READ_BYTES):
                fault = self._fault()
                if number in self.cut or fault == "silence":
                    self.cut.add(number)
                    continue
                if fault == "drop":
                    break
                if fault == "delay":
                    time.sleep(self.delay_seconds)
                client.sendall(data)
        if number not in self.cut:
            _end(client)

    def _fault(self) -> str | None:
        with self.lock:
            if self.dice.random() >= self.rate:
                return None
            self.faults += 1
            return self.dice.choice(KINDS)


def _end(one: socket.socket) -> None:
    with suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)
    one.close()


@contextmanager
def faulty_proxy(endpoint: str, dice: random.Random, delay_seconds: float = 5.0) -> Iterator[FaultyProxy]:
    made = FaultyProxy(endpoint, dice, delay_seconds)
    try:
        yield made
    finally:
        made.close()
