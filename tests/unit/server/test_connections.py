"""Connections of clients that send little, slowly or nothing: they are closed, and shut nobody out."""

from __future__ import annotations

import http.client
import json
import re
import resource
import shlex
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path

import pytest
from api_server import HELLO, WAITS, ApiServer, begun, register
from tests.acceptance.modes.stage import environment
from tests.servers.patience import PATIENCE_SECONDS, until

from noetl.server.endpoint import BodyMemory
from noetl.server.listen import ConnectionGroup, ConnectionLimits, Connections, raise_descriptor_limit
from noetl.server.problems import Refused

HALF = b"GET /livez HTTP/1.1\r\nHost: 127.0.0.1\r\nX: "
BODY = (
    b"POST /api/v1/sessions HTTP/1.1\r\nHost: localhost\r\n"
    b"Content-Type: application/json\r\nContent-Length: 9000\r\n\r\n{"
)
SHORT = ConnectionLimits(
    header_seconds=0.5, body_idle_seconds=0.5, body_seconds=2.0, body_bytes_per_second=1_000_000, idle_seconds=1
)
LOG_BYTES = 100_000


def connected(port: int, sent: bytes = b"") -> socket.socket:
    one = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_SECONDS)
    one.sendall(sent)
    return one


def until_closed(one: socket.socket) -> bytes:
    """Wait until the server closes the connection: what it said before."""
    said = b""
    with suppress(ConnectionError):
        while part := one.recv(65536):
            said += part
    return said


def livez(port: int) -> int:
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_SECONDS)) as connection:
        connection.request("GET", "/livez")
        return connection.getresponse().status


@pytest.fixture(scope="module")
def short() -> Iterator[ApiServer]:
    one = ApiServer(limits=SHORT)
    yield one
    one.close()


# -- deadlines ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sent", [b"", b"G", HALF, BODY], ids=["silent", "line", "headers", "body"])
def test_a_client_that_sends_nothing_more_is_disconnected(short: ApiServer, sent: bytes) -> None:
    with closing(connected(short.port, sent)) as one:
        until_closed(one)
    assert livez(short.port) == 200


@pytest.mark.parametrize("sent", [HALF, BODY], ids=["headers", "body"])
def test_a_client_that_continues_byte_by_byte_is_disconnected(short: ApiServer, sent: bytes) -> None:
    with closing(connected(short.port, sent)) as one:
        stop = threading.Event()

        def drip() -> None:
            with suppress(OSError):
                while not stop.wait(0.05):
                    one.sendall(b"x")

        thread = threading.Thread(target=drip)
        thread.start()
        try:
            until_closed(one)
        finally:
            stop.set()
            thread.join()


def test_a_body_that_nothing_waits_for_any_more_has_a_deadline(short: ApiServer) -> None:
    """The answer 401 is there at once; what the client still owes must come in time, too."""
    sent = BODY.replace(b"/sessions", b"/tokens")
    with closing(connected(short.port, sent)) as one:
        assert b" 401 " in until_closed(one)


def test_an_idle_connection_is_closed_also_after_a_body_that_came_late(short: ApiServer) -> None:
    sent = BODY.replace(b"/sessions", b"/tokens").replace(b"9000", b"2")
    with closing(connected(short.port, sent)) as one:
        assert b" 401 " in one.recv(65536)
        one.sendall(b"}")
        assert until_closed(one) is not None


def test_a_client_that_does_not_read_is_disconnected() -> None:
    server = ApiServer(limits=ConnectionLimits(write_seconds=0.5))
    try:
        with closing(socket.socket()) as one:
            one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            one.settimeout(0.2)
            one.connect(("127.0.0.1", server.port))
            headers = f"Host: localhost\r\nAuthorization: Bearer {server.tokens['viewer']}\r\n\r\n"
            asked = f"GET /api/v1/openapi.json HTTP/1.1\r\n{headers}".encode()

            def is_closed() -> bool:
                try:
                    one.sendall(asked * 100)
                except TimeoutError:
                    return False
                except ConnectionError:
                    return True
                return False

            until(is_closed)
        assert livez(server.port) == 200
    finally:
        server.close()


def test_whoever_waits_for_an_answer_is_not_disconnected(short: ApiServer) -> None:
    """Streams and long polls outlast every deadline of the client."""
    with short.client() as client:
        register(client, HELLO), register(client, WAITS)
        execution = begun(client, {"path": "tests/waits"})
        path = f"/api/v1/executions/{execution}/events"
        with client.stream("GET", path, headers={"Accept": "text/event-stream"}) as stream:
            lines = stream.iter_lines()
            assert next(lines).startswith(":")
            waited = client.post("/api/v1/executions", json={"path": "tests/waits"}, headers={"Prefer": "wait=3"})
            assert waited.status_code == 202  # three seconds: the deadlines are 0.5 and 1
            client.post(f"/api/v1/executions/{execution}/signals", json={"name": "go"})
            assert any(line == "event: end" for line in lines)


# -- limits ---------------------------------------------------------------------------------------------------------


def test_at_the_limit_the_oldest_unfinished_connection_gives_way() -> None:
    server = ApiServer(limits=ConnectionLimits(connections=8, address_share=1.0))
    try:
        with ExitStack() as stack:
            kept = http.client.HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE_SECONDS)
            stack.callback(kept.close)
            kept.request("GET", "/livez")
            assert kept.getresponse().read()
            half = [stack.enter_context(closing(connected(server.port, HALF))) for _ in range(30)]
            assert until_closed(half[0]) == b""
            assert livez(server.port) == 200
            kept.request("GET", "/livez")
            assert kept.getresponse().status == 200  # it has shown that it finishes requests
            half[-1].sendall(b"y\r\n\r\n")
            assert b" 200 " in half[-1].recv(1000)
    finally:
        server.close()


def test_connections_that_are_being_answered_are_not_closed_for_others() -> None:
    server = ApiServer(limits=ConnectionLimits(connections=3, address_share=1.0))
    try:
        with server.client() as client, ExitStack() as stack:
            register(client, WAITS)
            execution = begun(client, {"path": "tests/waits"})
            client.close()
            headers = f"Host: localhost\r\nAuthorization: Bearer {server.tokens['viewer']}\r\nAccept: text/event-stream"
            text = f"GET /api/v1/executions/{execution}/events HTTP/1.1\r\n{headers}\r\n\r\n"
            streams = [stack.enter_context(closing(connected(server.port, text.encode()))) for _ in range(3)]
            assert all(b" 200 " in stream.recv(1000) for stream in streams)
            with closing(connected(server.port, HALF)) as one:
                assert until_closed(one) == b""
    finally:
        server.close()


class Closable:
    """Stands for a connection where only the counting matters."""

    def __init__(self, connections: Connections, address: str) -> None:
        self.connections, self.address = connections, address
        self.groups: tuple[ConnectionGroup, ...] = ()
        self.is_closed = not connections.admit(self, address)  # type: ignore[arg-type]
        for group in self.groups:
            group.unproven[self] = None  # type: ignore[index]

    def drop(self) -> None:
        self.is_closed = True
        self.connections.discard(self, self.address)  # type: ignore[arg-type]


def test_one_address_gets_its_share_and_a_proxy_gets_all() -> None:
    limits = ConnectionLimits(connections=10)
    connections = Connections(limits, 1_000, ["10.0.0.0/8"])
    other = Closable(connections, "192.0.2.2")
    many = [Closable(connections, "192.0.2.1") for _ in range(50)]
    assert not other.is_closed
    assert [one.is_closed for one in many] == [True] * 45 + [False] * 5
    assert connections.by_address.keys() == {"192.0.2.1", "192.0.2.2"}
    proxied = [Closable(connections, "10.1.2.3") for _ in range(10)]
    assert not any(one.is_closed for one in proxied)
    assert connections.all.size == 10
    assert connections.by_address.keys() == {"10.1.2.3"}


def test_addresses_of_one_ipv6_network_share_their_share() -> None:
    connections = Connections(ConnectionLimits(connections=10), 1_000)
    many = [Closable(connections, f"2001:db8::{number:x}") for number in range(1, 20)]
    assert sum(not one.is_closed for one in many) == 5


def test_there_are_fewer_connections_than_descriptors() -> None:
    assert Connections(ConnectionLimits(), 65_536).all.limit == 4_096
    assert Connections(ConnectionLimits(), 1_024).all.limit == 896
    assert Connections(ConnectionLimits(), 64).all.limit == 32


def test_the_descriptor_limit_is_raised() -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(256, before[1]), before[1]))
        assert raise_descriptor_limit() == min(before[1], 65_536)
        assert resource.getrlimit(resource.RLIMIT_NOFILE)[1] == before[1]
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


# -- the whole server -----------------------------------------------------------------------------------------------


@contextmanager
def little_server(folder: Path, descriptors: int) -> Iterator[tuple[int, Path]]:
    """`noetl server` with few descriptors: its port, and the file of its log."""
    log = folder / "server.err"
    command = f"ulimit -n {descriptors}; exec {shlex.quote(sys.executable)} -m noetl.cli server --port 0 --db x.db"
    with log.open("wb") as errors:
        process = subprocess.Popen(["/bin/sh", "-c", command], cwd=folder, env=environment(folder), stderr=errors)
    try:
        until(lambda: process.poll() is not None or b"noetl server at" in log.read_bytes())
        match = re.search(r"http://127.0.0.1:(\d+)", log.read_text())
        assert match, log.read_text()
        yield int(match[1]), log
    finally:
        process.terminate()
        process.wait(PATIENCE_SECONDS)


@pytest.mark.parametrize(("descriptors", "held"), [(512, 1_100), (64, 200)], ids=["few", "none left"])
def test_half_sent_requests_shut_nobody_out_and_fill_no_log(tmp_path: Path, descriptors: int, held: int) -> None:
    """With 64 there are not even enough for what is accepted at once, and the server runs out of them."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    raise_descriptor_limit()
    try:
        with little_server(tmp_path, descriptors) as (port, log), ExitStack() as stack:
            for number in range(held):
                stack.enter_context(closing(connected(port, HALF)))
                if number % 100 == 0:
                    assert livez(port) == 200
            assert livez(port) == 200
            assert log.stat().st_size < LOG_BYTES, log.read_text()[-2000:]
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


# -- memory for bodies ----------------------------------------------------------------------------------------------


def test_bodies_of_strangers_have_a_limit_in_sum() -> None:
    memory = BodyMemory(100)
    memory.reserve(60)
    with pytest.raises(Refused) as refused:
        memory.reserve(41)
    assert refused.value.status == 503
    memory.held -= 60
    memory.reserve(100)


def test_held_bodies_of_strangers_are_refused_beyond_the_limit() -> None:
    server = ApiServer()
    memory = server.app.anonymous_bodies
    memory.limit = 40_000
    try:
        with ExitStack() as stack:
            held = [stack.enter_context(closing(connected(server.port, BODY + b"x" * 8_000))) for _ in range(20)]
            until(lambda: memory.held > 30_000)
            with server.client(None) as client:
                answer = client.post("/api/v1/sessions", json={"user": "x" * 15_000, "password": "y"})
            assert (answer.status_code, answer.headers["retry-after"]) == (503, "5")
            assert memory.held <= memory.limit
            for one in held:
                one.close()
            until(lambda: memory.held == 0)
            with server.client(None) as client:
                assert client.post("/api/v1/sessions", json={"user": "x", "password": "y"}).status_code == 401
        assert not [line for line in server.log.getvalue().splitlines() if json.loads(line)["msg"] == "internal error"]
    finally:
        server.close()
