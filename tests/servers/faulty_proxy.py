"""A TCP proxy on loopback whose connections break, go silent, are slow or are refused.

A fault of `rate` strikes a response after the server has acted: the request went through, and the client does not learn
of it. The other faults are made by calls: `cut`, `silence`, `refuse`, `slow_seconds`.
"""

from __future__ import annotations

import random
import socket
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from urllib.parse import urlsplit

READ_BYTES = 65536
KINDS = ("drop", "silence", "delay")
RESET = struct.pack("ii", 1, 0)
"""SO_LINGER: a close sends RST at once."""


class FaultyProxy:
    """Passes connections on to `endpoint`. `rate` is the share of responses that a fault of `kinds` strikes."""

    def __init__(
        self,
        endpoint: str,
        dice: random.Random,
        delay_seconds: float = 5.0,
        kinds: tuple[str, ...] = KINDS,
    ) -> None:
        there = urlsplit(endpoint)
        self.there = (there.hostname, there.port)
        self.dice, self.delay_seconds, self.kinds = dice, delay_seconds, kinds
        self.rate = self.slow_seconds = 0.0
        self.refuse = False
        self.faults = self.refusals = 0
        self.silent: set[int] = set()
        """Connections on which nothing comes back any more."""
        self.lock = threading.Lock()
        self.sockets: dict[int, tuple[socket.socket, socket.socket]] = {}
        self.number = 0
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.thread = threading.Thread(target=self._accept, daemon=True)
        self.thread.start()

    @property
    def port(self) -> int:
        port: int = self.listener.getsockname()[1]
        return port

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def silence(self) -> None:
        """Half-open: from now on nothing comes back on the connections of this moment; new ones work."""
        with self.lock:
            self.silent |= set(self.sockets)

    def cut(self) -> None:
        """Reset the connections of this moment."""
        with self.lock:
            pairs = list(self.sockets.values())
        for pair in pairs:
            for one in pair:
                with suppress(OSError):
                    one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
                _end(one)

    def close(self) -> None:
        with suppress(OSError):
            self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        self.thread.join()
        self.cut()

    def _accept(self) -> None:
        with suppress(OSError):  # it was closed
            while True:
                client, _ = self.listener.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        try:
            if self.refuse:
                self.refusals += 1
                raise ConnectionRefusedError
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
            self.silent.discard(number)

    def _answer(self, number: int, server: socket.socket, client: socket.socket) -> None:
        with suppress(OSError):
            while data := server.recv(READ_BYTES):
                fault = self._fault()
                if number in self.silent or fault == "silence":
                    self.silent.add(number)
                    continue
                if fault == "drop":
                    break
                time.sleep(self.delay_seconds if fault == "delay" else self.slow_seconds)
                client.sendall(data)
        if number not in self.silent:
            _end(client)

    def _fault(self) -> str | None:
        with self.lock:
            if self.dice.random() >= self.rate:
                return None
            self.faults += 1
            return self.dice.choice(self.kinds)


def _end(one: socket.socket) -> None:
    with suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)
    one.close()


@contextmanager
def faulty_proxy(
    endpoint: str, dice: random.Random, delay_seconds: float = 5.0, kinds: tuple[str, ...] = KINDS
) -> Iterator[FaultyProxy]:
    made = FaultyProxy(endpoint, dice, delay_seconds, kinds)
    try:
        yield made
    finally:
        made.close()
