"""http tasks on the real engine: a loop uses its connections again, credentials and binary bodies arrive."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from tests.servers.wire import Answer, Wire, reply

from noetl.testing import run_playbook

PLAYBOOK = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: many, path: tests/many}
workload: {url: ""}
workflow:
  - step: start
    loop: {in: "{{ range(1000) }}", iterator: n, spec: {mode: parallel, max_in_flight: 50}}
    tool:
      - get:
          kind: http
          url: "{{ workload.url }}/items"
          params: {n: "{{ iter.n }}"}
"""


@contextmanager
def serving(answer: Answer) -> Iterator[Wire]:
    """A server in a thread of its own: the engine has an event loop for itself."""
    server, loop = Wire(answer), asyncio.new_event_loop()
    listener = loop.run_until_complete(asyncio.start_server(server.serve, "127.0.0.1", 0))
    server.port = listener.sockets[0].getsockname()[1]
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        yield server
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        for task in server.tasks:
            task.cancel()
        loop.run_until_complete(asyncio.gather(*server.tasks))
        listener.close()
        loop.run_until_complete(listener.wait_closed())
        loop.close()


@pytest.fixture(autouse=True)
def direct(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "*")


def test_a_thousand_requests_with_fifty_in_flight_need_fifty_connections() -> None:
    with serving(reply(b'{"a": 1}', Content_Type="application/json")) as server:
        ended = run_playbook(PLAYBOOK, {"url": server.url}, seconds=120)
    assert ended.status == "succeeded", ended.error
    assert [one["data"] for one in ended.result] == [{"a": 1}] * 1000
    assert sorted(int(asked.line.split("n=")[1].split()[0]) for asked in server.asked) == list(range(1000))
    assert server.connections <= 50


SIGNED = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: signed, path: tests/signed}
workload: {url: ""}
keychain:
  - {name: shop, kind: bearer, credential: shop_token}
workflow:
  - step: start
    tool:
      - get: {kind: http, url: "{{ workload.url }}/picture", auth: shop}
    next: {arcs: [{step: back}]}
  - step: back
    tool:
      - put: {kind: http, method: PUT, url: "{{ workload.url }}/copy", body: "{{ steps.start.result.data }}"}
"""
TOKEN = "shop-token-3f9a1c7e"
PICTURE = b"\x89PNG\x00\xff" * 10


def test_credential_of_the_keychain_signs_in_and_binary_content_goes_there_and_back() -> None:
    credentials = {"shop_token": {"kind": "bearer", "token": TOKEN}}
    with serving(reply(PICTURE, Content_Type="image/png")) as server:
        ended = run_playbook(SIGNED, {"url": server.url}, credentials=credentials)
    assert ended.status == "succeeded", ended.error
    get, put = server.asked
    assert get.headers["authorization"] == f"Bearer {TOKEN}"
    assert "authorization" not in put.headers
    assert (put.body, put.headers["content-type"]) == (PICTURE, "application/octet-stream")
    assert ended.result["data"] == PICTURE
    assert TOKEN not in str(ended)
