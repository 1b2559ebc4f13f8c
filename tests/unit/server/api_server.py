"""The real application behind the real uvicorn, in a thread of the test's process."""

from __future__ import annotations

import asyncio
import atexit
import ssl
import threading
import time
from collections.abc import Coroutine, Sequence
from concurrent.futures import Future
from contextlib import suppress
from io import StringIO
from typing import Any, TypeVar

import httpx2
from msgspec.structs import replace
from tests.conformance.memory import MemoryStore
from tests.servers.patience import PATIENCE_SECONDS

from noetl.access import new_token
from noetl.errors import NotFound
from noetl.host.local_link import LocalLink
from noetl.keychain.keychain import StoredCredential
from noetl.server.app import create_app
from noetl.server.compiler import PlaybookCompiler, _Process
from noetl.server.listen import ConnectionLimits, HttpServer, bound
from noetl.server.server_settings import ServerSettings
from noetl.store.access import ROLES, Role
from noetl.store.store import Store
from noetl.tools.registry import KINDS
from noetl.worker.output import OutputBuffer
from noetl.worker.worker import Worker

Value = TypeVar("Value")
SECONDS = PATIENCE_SECONDS
"""How long a busy machine may take for anything."""
TICK_SECONDS = 0.1
NO_TLS = ssl.create_default_context()
"""Shared by all clients: to make one takes longer than most requests."""

HELLO = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: hello, path: tests/hello, version: "1.2"}
workload: {name: world}
workflow:
  - step: start
    tool: {kind: noop, result: "hello {{ workload.name }}"}
    next: {arcs: [{step: end}]}
  - step: end
    tool: {kind: noop, result: "{{ steps.start.result }}!"}
"""
WAITS = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: waits, path: tests/waits}
workflow:
  - step: start
    tool: {kind: wait, signal: go}
"""
ELSEWHERE = HELLO.replace("tests/hello", "tests/elsewhere").replace(
    "workflow:", "executor: {profile: distributed, spec: {pool: elsewhere}}\nworkflow:"
)
"""Nobody in this process works for its pool."""
WRONG = HELLO.replace("step: end}", "step: ende}")


class OffsetClock:
    """The clock of the machine, which a test can put forward."""

    def __init__(self) -> None:
        self.offset = 0.0

    def now(self) -> float:
        return time.time() + self.offset

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class PromptHttpServer(HttpServer):
    """Ends as soon as it is told to: uvicorn itself looks ten times a second."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.ended = asyncio.Event()

    async def main_loop(self) -> None:
        counter = 0
        while not self.ended.is_set():
            await self.on_tick(counter)
            counter += 1
            with suppress(TimeoutError):
                await asyncio.wait_for(self.ended.wait(), TICK_SECONDS)


class ApiServer:
    """A server on loopback with a worker beside it, and a token for each role."""

    def __init__(
        self,
        store: Store | None = None,
        settings: ServerSettings | None = None,
        limits: ConnectionLimits | None = None,
        proxies: Sequence[str] = (),
        *,
        own_processes: bool = False,
    ) -> None:
        """Servers hand compile processes on to each other, unless one wants its own."""
        self.limits, self.proxies, self.own_processes = limits, proxies, own_processes
        self.store: Store = store or MemoryStore()
        self.clock = OffsetClock()
        self.log = StringIO()
        self.settings = settings or ServerSettings(version="9.9")
        self.tokens: dict[str, str] = {}
        self.ids: dict[str, str] = {}
        for role in ROLES:
            self.add_token(role)
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), daemon=True)
        self._thread.start()
        assert self._ready.wait(SECONDS)

    def add_token(self, role: Role, name: str = "", **more: Any) -> str:
        secret, token = new_token(role, name or role, self.clock.now(), **more)
        self.store.access.add_token(token)
        self.tokens[name or role], self.ids[name or role] = secret, token.id
        return secret

    async def _serve(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.app = create_app(self.store, self.clock, replace(self.settings, open_credential=_credential))
        self.host = self.app.api.host
        self.app.api.telemetry.log._stream = self.log
        engine = asyncio.create_task(self.host.run())
        output = OutputBuffer(self.clock)
        link = LocalLink(self.host.dispatcher, output, "default")
        worker = Worker("local", link, KINDS, self.clock, 16, output.write)
        self._claiming = asyncio.create_task(_claim(worker))
        if not self.own_processes:
            _lend_process(self._compiler)
        result = bound("127.0.0.1", 0)
        self.port: int = result.getsockname()[1]
        self._http = PromptHttpServer(self.app, self.limits, self.proxies)
        self._ready.set()
        with suppress(asyncio.CancelledError):
            await self._http.serve([result])
        engine.cancel()
        await asyncio.gather(self._claiming, engine, return_exceptions=True)
        await worker.stop()
        self.app.api.close()
        self.store.close()

    @property
    def _compiler(self) -> PlaybookCompiler:
        compiler: PlaybookCompiler = self.app.api.playbooks.compiler
        return compiler

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def client(self, who: str | None = "admin", **more: Any) -> httpx2.Client:
        headers = {"Authorization": f"Bearer {self.tokens[who]}"} if who else {}
        return httpx2.Client(
            base_url=self.url, headers=headers, timeout=SECONDS, trust_env=False, verify=NO_TLS, **more
        )

    def do(self, work: Coroutine[Any, Any, Value]) -> Value:
        """Run something in the server's loop."""
        done: Future[Value] = asyncio.run_coroutine_threadsafe(work, self.loop)
        return done.result(SECONDS)

    def close(self) -> None:
        if not self.own_processes:
            _take_back_process(self._compiler)
        self.loop.call_soon_threadsafe(self._stop)
        self._thread.join(SECONDS)
        assert not self._thread.is_alive()

    def _stop(self) -> None:
        self._claiming.cancel()  # or it would claim in vain without a pause: a server that stops lets nobody wait
        self.app.api.stop()
        self._http.ended.set()


_idle_processes: list[_Process] = []
"""Compile processes of servers that have ended: to start one takes longer than most tests."""


def _lend_process(compiler: PlaybookCompiler) -> None:
    with suppress(IndexError):
        process = _idle_processes.pop()
        compiler._processes.add(process)
        compiler._idle.append(process)


def _take_back_process(compiler: PlaybookCompiler) -> None:
    with suppress(IndexError):
        process = compiler._idle.pop()
        compiler._processes.discard(process)
        _idle_processes.append(process)


@atexit.register
def _end_processes() -> None:
    for process in _idle_processes:
        process.end()


async def _claim(worker: Worker) -> None:
    while True:
        if worker.free > 0:
            await worker.claim()
        else:
            await asyncio.sleep(0.005)


def _credential(name: str) -> StoredCredential:
    """What stands in for the safe: one credential that any may use, and one with restrictions."""
    if name == "open":
        return StoredCredential("open", "bearer", {"token": "s3cret-value"})
    if name == "closed":
        return StoredCredential("closed", "bearer", {"token": "s3cret-value"}, ("shop/*",), ("shop",))
    raise NotFound(f"credential {name!r} not found")


YAML = {"Content-Type": "application/yaml"}


def register(client: httpx2.Client, text: str = HELLO) -> dict[str, Any]:
    answer = client.post("/api/v1/playbooks", content=text.encode(), headers=YAML)
    assert answer.status_code == 201, answer.text
    return dict(answer.json())


def started(client: httpx2.Client, request: dict[str, Any]) -> dict[str, Any]:
    """An execution that has ended."""
    answer = client.post("/api/v1/executions", json=request, headers={"Prefer": "wait=60"})
    if answer.status_code == 202:  # the machine is busy
        return until(client, answer.json()["execution_id"], "succeeded", "failed", "cancelled")
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def begun(client: httpx2.Client, request: dict[str, Any]) -> str:
    answer = client.post("/api/v1/executions", json=request)
    assert answer.status_code == 202, answer.text
    return str(answer.json()["execution_id"])


def until(client: httpx2.Client, execution: str, *statuses: str) -> dict[str, Any]:
    """The execution when it has one of the statuses."""
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        body = client.get(f"/api/v1/executions/{execution}").json()
        if body["status"] in statuses:
            return dict(body)
        time.sleep(0.02)
    raise AssertionError(f"{execution} is {body['status']}")
