"""One seed from its start to its checks."""

from __future__ import annotations

import asyncio
import gc
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from hashlib import sha256
from inspect import CORO_CREATED, getcoroutinestate
from random import Random
from types import CoroutineType
from typing import Any, NamedTuple
from unittest.mock import patch

from tests.sim.broker import Broker
from tests.sim.checks import problems_of
from tests.sim.database import Database
from tests.sim.faults import FAULTY_SECONDS, Faults
from tests.sim.forks import FORK_SHARE, RETRY_SHARE, ClientFork, ForkAction, fork_action, has_failed
from tests.sim.machines import ADMIN, TOKEN, Client, Server, WorkerMachine, World
from tests.sim.network import OUTSIDE, Network
from tests.sim.playbooks import Keep, Playbooks, Script, SimulatedTools
from tests.sim.schedule import SCHEDULE, SCHEDULED_SECONDS, drawn_schedule, firings, schedule_problems
from tests.sim.virtual import CURRENT, Node, VirtualLoop, virtual_processes

from noetl.engine.history import outline
from noetl.engine.leases import LEASE_SECONDS
from noetl.runtime import committer, outlines
from noetl.runtime.history import ForkView
from noetl.store.store import Row
from noetl.triggers import schedules

SERVERS, WORKERS = 2, 3
LONGEST_SECONDS = 4_000.0
"""Virtual time after which a run counts as stuck."""
POLL_SECONDS = 1.0
SETTLE_SECONDS = 3.0  # between the end of all runs and the checks
STOPPED_SECONDS = {"stopped worker": (0.5, 20.0), "zombie worker": (LEASE_SECONDS + 5.0, 125.0)}
OUTLINE_BLOCK_EVENTS = 12  # their logs are shorter than those of large runs
PAUSED_SECONDS = 40.0  # a run that is paused after this time is resumed by the client


class Line(NamedTuple):
    at: float
    who: str
    text: str

    def __str__(self) -> str:
        return f"{self.at:9.3f}  {self.who:8}  {self.text}"


class Story:
    """The lines, problems and figures of a seed."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.lines: list[Line] = []
        self.problems: list[str] = []
        self.faults: Counter[str] = Counter()
        self.statuses: Counter[str] = Counter()
        self.events: Counter[str] = Counter()  # by type
        self.hints = 0  # that have reached a server
        self.snapshots = 0  # from which a server has loaded a run
        self.outline_blocks = 0  # that servers have stored
        self.firings = 0  # of its schedule
        self.forks: Counter[str] = Counter()  # by kind
        self.seconds = 0.0  # virtual
        self.playbook = ""
        self.blocks = 0  # of which the playbook consists

    @property
    def hash(self) -> str:
        return sha256("\n".join(map(str, self.lines)).encode()).hexdigest()

    def __str__(self) -> str:
        lines = [*map(str, self.lines)]
        verdict = [f"PROBLEM   {problem}" for problem in self.problems] or ["no problems"]
        fired = ", ".join(f"{kind} {count}" for kind, count in sorted(self.faults.items())) or "none"
        return "\n".join([self.playbook, *lines, f"faults: {fired}", *verdict])


def simulate(
    seed: int, without: Iterable[str] = (), limits: Mapping[str, int] | None = None, blocks: Iterable[int] = ()
) -> Story:
    """Run a seed; the story has no `problems` if all checks pass.

    `without` has kinds of faults that do not happen, `limits` how often a kind happens at most, and `blocks` the blocks
    of the playbook that are kept.
    """
    story = Story(seed)
    loop = VirtualLoop()
    was_enabled = gc.isenabled()
    gc.disable()  # a collection at another point would close other coroutines
    try:
        with virtual_processes(), _small_parts(seed):
            simulation = Simulation(seed, story, loop, Faults(seed, frozenset(without), limits or {}), tuple(blocks))
            loop.set_exception_handler(simulation.on_unhandled)
            try:
                loop.run_until_complete(simulation.run())
            finally:
                simulation.end()
                loop.close()
    finally:
        if was_enabled:
            gc.enable()
    return story


@contextmanager
def _small_parts(seed: int) -> Iterator[None]:
    """Snapshots and blocks of the outline after few events."""
    snapshot_events = Random(f"{seed} snapshots").choice([5, 12, committer.SNAPSHOT_EVENTS])
    with (
        patch.object(committer, "SNAPSHOT_EVENTS", snapshot_events),
        patch.object(outline, "BLOCK_EVENTS", OUTLINE_BLOCK_EVENTS),
        patch.object(outlines, "BLOCK_EVENTS", OUTLINE_BLOCK_EVENTS),
    ):
        yield


class Simulation(World):
    def __init__(self, seed: int, story: Story, loop: VirtualLoop, faults: Faults, blocks: Keep) -> None:
        self.seed, self.story, self.loop, self.faults = seed, story, loop, faults
        self.random = Random(f"{seed} world")
        self.schedule = drawn_schedule(seed)
        self.playbooks = Playbooks(seed, blocks, () if self.schedule is None else (self.schedule.path,))
        story.playbook, story.blocks = self.playbooks.main.text, self.playbooks.main.blocks
        self.script = Script(seed, self.playbooks, self._current, lambda execution: execution in self.mains)
        self.registry = SimulatedTools(self.script.tools)
        self.nodes: list[Node] = []
        self.database = Database(self._node("store"))
        for playbook in self.playbooks.all():
            text = self.playbooks.program(playbook.digest).text
            self.database.put_playbook(playbook.digest, playbook.playbook.path, text.encode())
        if self.schedule is not None:
            self.database.triggers.add_schedule(self.schedule)
        for token in (TOKEN, ADMIN):
            self.database.access.add_token(token)
        self.network = Network(loop, self.random, faults, self.record, self.is_faulty)
        random = Random(f"{seed} broker")
        self.broker = Broker(loop, random, faults, self.record, self.is_faulty) if random.random() < 0.5 else None
        self.servers: list[Server] = []
        self.workers: list[WorkerMachine] = []
        self.is_over = False
        count = self.random.choice([1, 1, 1, 1, 1, 2])
        self.mains = [f"00000000-0000-7000-8000-{seed:08x}{number:04x}" for number in range(count)]
        self.cancels = self.random.random() < 0.1
        self.forks: dict[str, ClientFork] = {}
        self.operators: list[asyncio.Task[None]] = []  # they fork and retry runs

    # -- what machines use --------------------------------------------------------------------------------------------

    def is_faulty(self) -> bool:
        return self.loop.time() < FAULTY_SECONDS

    def record(self, who: str, text: str) -> None:
        if not self.is_over:
            self.story.lines.append(Line(self.loop.time(), who, text))

    def on_defect(self, message: str) -> None:
        if not self.is_over:
            self.story.problems.append(message)
            self.record("check", f"PROBLEM {message}")

    def on_unhandled(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        self.on_defect(f"unhandled: {context.get('message')}: {type(error).__name__}: {error}")

    def crash_server(self, server: Server) -> None:
        if server.is_dead:
            return
        server.kill()
        for request in list(server.open_requests.values()):
            self.network.reset(request)
        self.loop.call_later(self.random.uniform(0.2, 15.0), self._restart_server, server)

    def _restart_server(self, server: Server) -> None:
        self.record(server.name, "starts again")
        self.servers[self.servers.index(server)] = Server(server, self)

    def _restart_worker(self, worker: WorkerMachine) -> None:
        self.record(worker.name, "starts again")
        self.workers[self.workers.index(worker)] = WorkerMachine(worker, self)

    def on_worker_end(self, worker: WorkerMachine) -> None:
        self.record(worker.name, "has stopped")
        worker.kill()
        OUTSIDE.run(self.loop.call_later, self.random.uniform(0.5, 15.0), self._restart_worker, worker)

    def _node(self, name: str) -> Node:
        node = Node(name, self.loop, Random(f"{self.seed} {name}"))
        self.nodes.append(node)
        return node

    def _current(self) -> str:
        node = CURRENT.get()
        return node.name if node is not None else ""

    # -- the run ------------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        self.servers = [Server(self._node(f"server{i}"), self) for i in range(1, SERVERS + 1)]
        self.network.servers = self.servers
        self.workers = [WorkerMachine(self._node(f"worker{i}"), self) for i in range(1, WORKERS + 1)]
        self.client = Client(self._node("client"), self.network)
        if self.schedule is not None:
            self.loop.call_later(SCHEDULED_SECONDS, self._pause_schedule)
        for execution in self.mains:
            self.nodes[-1].spawn(self._use(execution))
            self.operators.append(self.nodes[-1].spawn(self._fork(execution)))
        faults = self.loop.create_task(self._harm())
        while not await self._has_settled() and self.loop.time() < LONGEST_SECONDS:
            await asyncio.sleep(POLL_SECONDS)
            self._resume_forgotten()
        faults.cancel()
        self.story.seconds = self.loop.time()
        self.story.faults = self.faults.fired
        self.story.hints = 0 if self.broker is None else self.broker.delivered
        self.story.snapshots = self.database.snapshots_read
        self.story.outline_blocks = sum(map(len, self.database.outlines.values()))
        self.story.statuses = Counter(run.status for run in self.database.runs.values())
        self.story.events = Counter(row.type for rows in self.database.events.values() for row in rows)
        self.story.firings = len(firings(self.database))
        self.story.forks = Counter(fork.action.kind for fork in self.forks.values())
        errors = [operator.exception() for operator in self.operators if operator.done()]
        self.story.problems += [f"client: a fork or retry has failed: {error!r}" for error in errors if error]
        self.story.problems += schedule_problems(self.database, [*self.mains, *self.forks])
        self.story.problems += problems_of(
            self.database, self.playbooks, self.script, self.cancels, self.mains, self.forks
        )

    def end(self) -> None:
        """Let go of everything: nothing that is closed now belongs to the story."""
        self.is_over = True
        for task in asyncio.all_tasks(self.loop):
            task._log_destroy_pending = False  # type: ignore[attr-defined]
            work = task.get_coro()
            if isinstance(work, CoroutineType) and getcoroutinestate(work) == CORO_CREATED:
                work.close()  # of a node that died before it began

    async def _has_settled(self) -> bool:
        """Whether all runs have ended for good: a server may start a child late, and cancel it."""
        if not self._has_ended():
            return False
        await asyncio.sleep(SETTLE_SECONDS)
        return self._has_ended()

    def _has_ended(self) -> bool:
        """Whether all runs have ended, and no stopped machine may come back."""
        runs, machines = self.database.runs, [*self.servers, *self.workers]
        is_open = any(run.ended is None for run in runs.values()) or not all(main in runs for main in self.mains)
        is_busy = self._is_scheduling() or not all(operator.done() for operator in self.operators)
        return not is_open and not is_busy and not any(machine.is_stopped for machine in machines)

    def _is_scheduling(self) -> bool:
        """Whether a schedule may start runs."""
        schedule = self.database.triggers.schedule(SCHEDULE)
        return schedule is not None and (not schedule.paused or bool(schedule.starting))

    def _resume_forgotten(self) -> None:
        """A pause may be late; somebody notices."""
        if self.loop.time() > PAUSED_SECONDS and self.loop.time() % 10 < POLL_SECONDS:
            for execution, run in self.database.runs.items():
                if run.status == "paused" and run.parent is None:
                    self.nodes[-1].spawn(self.client.act(execution, "resume"))

    def _pause_schedule(self) -> None:
        schedule = self.database.triggers.schedule(SCHEDULE)
        assert schedule is not None
        self.database.triggers.change_schedule(schedules.paused(schedule, self.database.node.now()))

    async def _fork(self, execution: str) -> None:
        """Fork or retry a run, or do nothing."""
        random = Random(f"{self.seed} fork {execution}")
        draw = random.random()
        while execution not in self.database.runs:
            await self.client.node.sleep(POLL_SECONDS)
        if draw < FORK_SHARE / 2:
            await asyncio.sleep(random.uniform(0.5, 10.0))
            await self._start_fork(random, execution, ForkAction("fork of a running run", "fork", {}))
            return
        while self.database.runs[execution].ended is None:
            await self.client.node.sleep(POLL_SECONDS)
        rows = self.database.read(execution)
        if draw < (RETRY_SHARE if has_failed(rows) else FORK_SHARE):
            await self._start_fork(random, execution, fork_action(random, rows), rows)

    async def _start_fork(self, random: Random, execution: str, action: ForkAction, ended: Sequence[Row] = ()) -> None:
        self.record("client", f"sends {action.verb} {action.body} to {execution[-4:]}: {action.kind}")
        view = await self._fork_view(execution, action)
        if view is None:
            self.record("client", "is refused")
            await self._until_no_request_is_late()
            view = await self._fork_view(execution, action)
        if view is None:
            return
        self.record("client", f"gets {view.execution_id[-4:]} with {view.source_seq} events of {execution[-4:]}")
        self.forks[view.execution_id] = ClientFork(action, view, list(ended))
        for name in self.playbooks.main.signals:
            await asyncio.sleep(random.expovariate(0.3))
            await self.client.signal(view.execution_id, name, name, 1)

    async def _fork_view(self, execution: str, action: ForkAction) -> ForkView | None:
        return await self.client.fork(execution, action.verb, action.body, f"{action.kind} {execution}")

    async def _until_no_request_is_late(self) -> None:
        """A server may carry out a request without a response after another server has refused its repetition."""
        node = self.client.node
        await node.sleep(SETTLE_SECONDS)
        while self.is_faulty() or any(server.is_stopped for server in self.servers):
            await node.sleep(SETTLE_SECONDS)

    async def _use(self, execution: str) -> None:
        random, client = Random(f"{self.seed} {execution}"), self.client
        await asyncio.sleep(random.random())
        self.record("client", f"starts {execution[-4:]}")
        await client.start(execution, "main")
        actions: list[tuple[float, str]] = [(random.expovariate(0.1), name) for name in self.playbooks.main.signals]
        if random.random() < 0.15:
            at = random.uniform(0.0, 20.0)
            actions += [(at, "/pause"), (at + random.uniform(0.0, 30.0), "/resume")]
        if self.cancels:
            actions.append((random.uniform(0.0, 30.0), "/cancel"))
        began = self.loop.time()
        for at, name in sorted(actions):
            await asyncio.sleep(max(0.0, began + at - self.loop.time()))
            self.record("client", f"sends {name} to {execution[-4:]}")
            if name.startswith("/"):
                await client.act(execution, name[1:])
            else:
                for _ in range(random.choice([1, 1, 2])):
                    await client.signal(execution, name, name, 1)

    # -- faults of machines -----------------------------------------------------------------------------------------

    async def _harm(self) -> None:
        for at, kind in self.faults.plan:
            await asyncio.sleep(max(0.0, at - self.loop.time()))
            random = self.faults.random(kind)
            match kind:
                case "crashed server" | "stopped server":
                    server = random.choice(self.servers)
                    if not server.is_dead and not server.is_stopped and self._happens(kind, server):
                        if kind == "crashed server":
                            self.crash_server(server)
                        else:
                            self._stop(server, random.uniform(1.0, 40.0))
                case "crashed worker" | "drained worker" | "stopped worker" | "zombie worker":
                    workers = await self._busy_workers() if kind == "zombie worker" else self.workers
                    worker = random.choice(workers or self.workers)
                    if worker.is_dead or worker.is_stopped or not workers:
                        continue
                    if self._happens(kind, worker):
                        if kind == "crashed worker":
                            worker.kill()
                            self.loop.call_later(random.uniform(0.5, 50.0), self._restart_worker, worker)
                        elif kind == "drained worker":
                            worker.context.run(worker.run.stop)
                        else:
                            self._stop(worker, random.uniform(*STOPPED_SECONDS[kind]))
                case "clock jump":
                    nodes: list[Node] = [*self.servers, *self.workers, self.database.node]
                    node, seconds = random.choice(nodes), random.choice([-40.0, -5.0, 5.0, 40.0])
                    if self._happens(kind, node):
                        node.offset += seconds

    def _happens(self, kind: str, node: Node) -> bool:
        if not self.faults.allows(kind):
            return False
        self.record(node.name, f"FAULT {kind}")
        return True

    async def _busy_workers(self) -> list[WorkerMachine]:
        """The workers with leases, as soon as there are any."""
        for _ in range(40):
            running = (worker for worker in self.workers if not worker.is_halted)
            if busy := [worker for worker in running if worker.worker.leases]:
                return busy
            await asyncio.sleep(0.5)
        return []

    def _stop(self, node: Node, seconds: float) -> None:
        node.stop()
        self.loop.call_later(seconds, self._go_on, node)

    def _go_on(self, node: Node) -> None:
        self.record(node.name, "goes on")
        node.go_on()
