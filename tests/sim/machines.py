"""Servers and workers as nodes, and the client."""

from __future__ import annotations

import asyncio
import re
import traceback
from collections.abc import Callable
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import httpx2
import msgspec
from tests.sim.broker import Broker, BrokerConnection
from tests.sim.database import Connection, Database
from tests.sim.faults import Faults, Record
from tests.sim.network import HttpReply, HttpRequest, Network, NodeHttp
from tests.sim.playbooks import Playbooks
from tests.sim.virtual import Node

from noetl.access import hash_of
from noetl.clock import uptime
from noetl.engine.state import Execution
from noetl.errors import Conflict, NoetlError
from noetl.host.background import keep_running
from noetl.host.server_host import ServerHost
from noetl.log import Log
from noetl.model.actor import Actor
from noetl.runtime.history import ForkView
from noetl.runtime.loaded_playbooks import LoadedPlaybook, LoadedPlaybooks
from noetl.runtime.past import Past, PastReader, Value
from noetl.server.api import Api
from noetl.server.app import path_pattern
from noetl.server.auth import Caller
from noetl.server.endpoint import ApiCall, Endpoint, respond
from noetl.server.playbooks import Playbooks as StoredPlaybooks
from noetl.server.problems import document, refused
from noetl.server.routes import executions as execution_routes
from noetl.server.routes import history as history_routes
from noetl.server.routes import worker as worker_routes
from noetl.server.scheduler import Scheduler
from noetl.server.telemetry import Telemetry
from noetl.store.access import ApiToken
from noetl.tools.registry import Registry
from noetl.worker import wire
from noetl.worker.heartbeat import RETRY_SECONDS, Heartbeat
from noetl.worker.http_link import HttpLink
from noetl.worker.output import OutputBuffer
from noetl.worker.server_client import ServerClient, rejection_of
from noetl.worker.terms import HEARTBEAT_SECONDS
from noetl.worker.worker import Worker
from noetl.worker.worker_loop import WorkerLoop

SLOTS = 4
PACE, SHORTEST_PAUSE = 4.0, 2.0
"""Background loops of a server pause this many times as long, and at least these seconds: most of the cost of a seed is
that of scans which find nothing."""
IDLE_HEARTBEAT_SECONDS = 20.0
TOKEN = ApiToken("t1", hash_of("noetl_simulated"), "worker", "simulated", 0.0)
ADMIN = ApiToken("t2", hash_of("noetl_client"), "admin", "client", 0.0)
ENDPOINTS = [
    endpoint for module in (worker_routes, execution_routes, history_routes) for endpoint in module.routes.endpoints
]
DEFECT = re.compile(r"[A-Z]\w+ in \w+, line \d+")
"""How `described` names an error that no code raises on purpose."""


class StoryLog(Log):
    """The log of a server, as lines of the story."""

    def __init__(self, record: Record, node: str, on_defect: Callable[[str], None]) -> None:
        super().__init__()
        self.record, self.node, self.on_defect = record, node, on_defect

    def write(self, level: str, message: str, **fields: Any) -> None:
        self.record(self.node, f"logs: {message}")
        if DEFECT.search(message):
            self.on_defect(f"{self.node}: {message}")

    def defect(self, error: BaseException, **fields: Any) -> None:
        frames = traceback.extract_tb(error.__traceback__)[-3:]
        places = " < ".join(f"{Path(frame.filename).name}:{frame.lineno}" for frame in reversed(frames))
        self.on_defect(f"{self.node}: internal error: {type(error).__name__}: {error} at {places}")


class WorkerApi(Api):
    """The parts of an Api that the endpoints of workers and executions use."""

    def __init__(self, clock: Node, connection: Any, telemetry: Telemetry, host: ServerHost) -> None:
        self.clock, self.store, self.thread = clock, connection, connection
        self.telemetry, self.host = telemetry, host
        self.playbooks = StoredPlaybooks(connection, connection)


class SimulatedPast(Past):
    """Folds logs in one call of the store, without threads."""

    def __init__(self, playbooks: LoadedPlaybooks, connection: Any, load: Callable[[str], LoadedPlaybook]) -> None:
        super().__init__(playbooks)
        self.connection, self.load = connection, load

    async def do(self, work: Callable[[PastReader], Value]) -> Value:
        result: Value = await self.connection.ask(lambda: work(PastReader(self.connection, self.load)))
        return result


class Server(Node):
    """One process of a server."""

    def __init__(self, base: Node, world: World) -> None:
        super().__init__(base.name, base.loop, base.random)
        self.offset = base.offset
        self.network, self.record, self.database = world.network, world.record, world.database
        self.commits_at_tick = -1  # before the last one
        self.open_requests: dict[int, HttpRequest] = {}
        self.playbooks = world.playbooks
        connection = Connection(
            world.database, self, world.faults, world.record, world.is_faulty, lambda: world.crash_server(self)
        )
        self.log = StoryLog(world.record, self.name, world.on_defect)
        self.host = self.context.run(self._create_host, connection, world.broker)
        self.api = WorkerApi(self, connection, Telemetry(self.log), self.host)
        self.scheduler = Scheduler(connection, connection, self, self.log, self._start_once)
        self.spawn(self._run())

    def _create_host(self, connection: Any, broker: Broker | None) -> ServerHost:
        nats: Any = None if broker is None else BrokerConnection(broker, self)
        playbooks = LoadedPlaybooks(connection, self._compile, connection)
        return ServerHost(
            playbooks,
            self,
            self._find,
            on_error=lambda message, execution: self.log.write("error", message),
            connection=nats,
            past=SimulatedPast(playbooks, connection, self.playbooks.of),
        )

    async def _compile(self, file: str, text: bytes) -> LoadedPlaybook:
        return self.playbooks.loaded(text.decode())

    async def _find(self, parent: Execution, request: dict[str, Any]) -> str:
        return self.playbooks.digest(request["path"])

    async def _run(self) -> None:
        host = self.host
        scans = {host.tick_once: self._tick_if_due, host.reap_once: self._reap_if_due}
        async with asyncio.TaskGroup() as group:
            for seconds, once in host.loops:
                pause = seconds and max(SHORTEST_PAUSE, seconds * PACE)
                group.create_task(keep_running(pause, scans.get(once, once), host.on_error))
            if self.database.triggers.schedules():
                group.create_task(keep_running(SHORTEST_PAUSE, self._fire_if_due, host.on_error))

    async def _fire_if_due(self) -> None:
        if self.database.triggers.due_schedules(self.now(), 1):
            await self.scheduler.fire_once(self.now())

    async def _start_once(
        self, execution: str, path: str, version: Any, payload: dict[str, Any], ctx: dict[str, Any], actor: Actor
    ) -> None:
        await self._start(execution, path)

    async def _tick_if_due(self) -> None:
        """Tick if there is a due timer, or a commit since the last tick; otherwise it would find nothing."""
        commits = self.database.commits
        if commits != self.commits_at_tick or self.database.due(self.now(), 1):
            await self.host.tick_once()
            self.commits_at_tick = commits

    async def _reap_if_due(self) -> None:
        """Reap if there is an expired lease by the clock of the store."""
        if self.database.node.context.run(self.database.expired_leases, None, 1):
            await self.host.reap_once()

    # -- requests ---------------------------------------------------------------------------------------------------

    def receive(self, request: HttpRequest) -> None:
        self.open_requests[id(request)] = request
        self.spawn(self._answer(request))

    async def _answer(self, request: HttpRequest) -> None:
        try:
            reply = await self._reply(request)
        except NoetlError as error:
            problem = refused(error)
            reply = HttpReply(problem.status, document(problem, ""))
        except Exception as error:  # as the Guard does
            self.log.defect(error)
            reply = HttpReply(500, b"{}")
        self.open_requests.pop(id(request), None)
        self.network.respond(request, self.name, reply)

    async def _reply(self, request: HttpRequest) -> HttpReply:
        self.record(
            self.name, f"gets {request.sender.name}'s request {request.number}: {request.method} {request.path}"
        )
        if request.method == "PUT" and request.path.startswith("/api/v1/executions/"):
            await self._start(request.path.rpartition("/")[2], msgspec.json.decode(request.content))
            return HttpReply(200, b"{}")
        path, _, query = request.path.partition("?")
        endpoint, path_params = _route(request.method, path)
        key = [(b"idempotency-key", request.key.encode())] if request.key else []
        scope = {
            "type": "http",
            "method": request.method,
            "path": path,
            "path_params": path_params,
            "query_string": query.encode(),
            "headers": [(b"content-type", b"application/json"), *key],
        }
        call = ApiCall(self.api, endpoint, scope, partial(_disconnect, request), "")
        call._body = request.content
        token = TOKEN if "/worker/" in path else ADMIN
        call.identity = Caller(token.role, token.name, token)
        response = await respond(call)
        return HttpReply(response.status_code, bytes(response.body))

    async def _start(self, execution: str, path: str) -> None:
        """Start an execution once, as a request with an Idempotency-Key does."""
        if await self.api.is_started(execution):
            await self.api.load(execution)
        else:
            await self.host.runtime.start(self.playbooks.digest(path), {}, {}, execution)


@lru_cache(1_000)
def _route(method: str, path: str) -> tuple[Endpoint, dict[str, str]]:
    matches = (
        (endpoint, path_pattern(endpoint.path).fullmatch(path)) for endpoint in ENDPOINTS if endpoint.method == method
    )
    return next((endpoint, match.groupdict()) for endpoint, match in matches if match is not None)


async def _disconnect(request: HttpRequest) -> dict[str, Any]:
    """The message that a server receives when the sender of a request has gone."""
    await asyncio.shield(request.given_up)
    return {"type": "http.disconnect"}


class Output(OutputBuffer):
    """Wakes a task instead of a thread."""

    def __init__(self, clock: Node) -> None:
        super().__init__(clock)
        self.wanted = asyncio.Event()

    def send_now(self) -> None:
        super().send_now()
        self.wanted.set()


class WorkerMachine(Node):
    """One process of a worker."""

    def __init__(self, base: Node, world: World) -> None:
        super().__init__(base.name, base.loop, base.random)
        self.offset = base.offset
        self.network, self.record, self.on_defect = world.network, world.record, world.on_defect
        self.context.run(self._create, world.playbooks, world.registry)
        self.spawn(self._run(world.on_worker_end))
        self.spawn(self._send_heartbeats())

    def _create(self, playbooks: Playbooks, registry: Registry) -> None:
        http: Any = NodeHttp(self.network, self)
        self.output = Output(self)
        self.link = HttpLink(http, self.name, "default", self.output)
        for playbook in playbooks.all():
            self.link.playbooks.add(playbook)
        self.worker = Worker(self.name, self.link, registry, self, SLOTS, self.output.write)
        self.run = WorkerLoop(self.worker, self._on_error)
        session = wire.HeartbeatRequest(self.name, "default", SLOTS, {}, "host", self.now(), "1")
        log = lambda level, message: self.record(self.name, f"logs: {message}")  # noqa: E731
        self.heartbeat = Heartbeat(self.worker, self.link, session, self.run.reject, log)  # its thread is never started

    def _on_error(self, message: str) -> None:
        self.record(self.name, f"logs: {message}")
        if "a lease was dropped" in message and "Cancelled" not in message:
            self.on_defect(f"{self.name}: {message}")

    async def _run(self, on_end: Callable[[WorkerMachine], None]) -> None:
        """Until it is told to stop; its last heartbeat releases all leases."""
        await self.run.run()
        await self._send_heartbeat()
        on_end(self)

    async def _send_heartbeat(self) -> bool:
        heartbeat, sent = self.heartbeat, uptime()
        request = heartbeat.next_request()
        try:
            reply = await self.link.server.http.request(
                "POST", "/heartbeat", content=wire.encode(request), timeout=httpx2.Timeout(5.0)
            )
            if not reply.is_success:
                raise rejection_of(reply)
            answered = heartbeat.answered(request, wire.decode_as(wire.HeartbeatReply, reply.content), sent)
            return answered or await self._send_heartbeat()
        except (httpx2.TransportError, NoetlError) as error:
            heartbeat.missed(request, error)
            return False

    async def _send_heartbeats(self) -> None:
        """Every few seconds; an idle worker skips most of them, since they concern leases."""
        sent = -IDLE_HEARTBEAT_SECONDS
        while True:
            self.output.wanted.clear()
            pause = HEARTBEAT_SECONDS
            if self.worker.leases or uptime() - sent > IDLE_HEARTBEAT_SECONDS:
                if await self._send_heartbeat():
                    sent = uptime()
                else:
                    pause = RETRY_SECONDS
            try:
                async with asyncio.timeout(pause):
                    await self.output.wanted.wait()
            except TimeoutError:
                continue


class Client:
    """Starts runs and acts on them; repeats each request until it gets a response."""

    def __init__(self, node: Node, network: Network) -> None:
        self.node, self.network = node, network
        self.server = ServerClient(NodeHttp(network, node))  # type: ignore[arg-type]

    async def start(self, execution: str, path: str) -> None:
        await self.server.call("PUT", f"/executions/{execution}", msgspec.json.encode(path))

    async def signal(self, execution: str, name: str, id: str, payload: Any) -> None:
        await self._act(execution, "signals", {"name": name, "id": id, "payload": payload})

    async def act(self, execution: str, verb: str) -> None:
        """`cancel`, `pause` or `resume`; a run that has ended refuses it."""
        await self._act(execution, verb, {})

    async def _act(self, execution: str, verb: str, body: dict[str, Any]) -> None:
        try:
            await self.server.call("POST", f"/executions/{execution}/{verb}", msgspec.json.encode(body))
        except Conflict:
            return

    async def fork(self, execution: str, verb: str, body: dict[str, Any], key: str) -> ForkView | None:
        """Send `fork` or `retry`; None on a conflict."""
        server = ServerClient(NodeHttp(self.network, self.node, key))  # type: ignore[arg-type]
        try:
            content = await server.call("POST", f"/executions/{execution}/{verb}", msgspec.json.encode(body))
        except Conflict:
            return None
        return msgspec.json.decode(content, type=ForkView)


class World:
    """The parts of the simulation that machines use."""

    network: Network
    broker: Broker | None
    database: Database
    faults: Faults
    playbooks: Playbooks
    registry: Registry
    record: Record
    on_defect: Callable[[str], None]

    def is_faulty(self) -> bool:
        raise NotImplementedError

    def crash_server(self, server: Server) -> None:
        raise NotImplementedError

    def on_worker_end(self, worker: WorkerMachine) -> None:
        raise NotImplementedError
