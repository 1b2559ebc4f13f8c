"""The embedded engine under virtual time, from a seed: the real runtime, worker and pipeline on a store in memory.

The event loop never sleeps. When nothing is ready, its time jumps to the next timer, so hours of waits cost
milliseconds and a seed always tells the same story. `Faults` says how often the process dies, a lease is called lost
while its worker still runs, a report is sent twice, and the execution is paused.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache
from random import Random
from typing import Any, NamedTuple

from msgspec.structs import replace
from tests.conformance.memory import MemoryStore
from tests.sim.playbooks import SimulatedTools, Tool
from tests.sim.virtual import VirtualClock, VirtualLoop
from tests.verifying import verify

from noetl.dsl.compile import load
from noetl.engine import events as e
from noetl.engine.commands import Lost, Pause, Report, Resume
from noetl.engine.history.verify.log import Violation
from noetl.engine.leases import MAX_LOSSES
from noetl.engine.net import Net
from noetl.engine.state import Execution
from noetl.host.embedded import Embedded
from noetl.model.playbook import Playbook
from noetl.runtime.loaded_playbooks import LoadedPlaybooks
from noetl.store import codec
from noetl.tools.registry import KINDS
from noetl.worker.link import Link
from noetl.worker.work import Work

EXECUTION = "00000000-0000-7000-8000-000000000001"
SLOTS = 8
IDLE_SECONDS = 5.0
LONGEST_SECONDS = 100_000.0
"""Virtual time after which an execution counts as stuck."""


@lru_cache(64)
def compiled(text: str) -> Playbook:
    return load("simulated.yaml", text, KINDS).require()


class SameThread:
    """A StoreThread without a thread."""

    _shutdown = False
    """As `tests.verifying` asks of every runtime."""

    async def ask(self, call: Callable[..., Any], *arguments: Any) -> Any:
        return call(*arguments)

    look = ask

    def shutdown(self) -> None:
        pass


class Faults(NamedTuple):
    """The chance of each fault, per second of virtual time or per report."""

    crash: float = 0.0
    lose_lease: float = 0.0
    repeat_report: float = 0.0
    pause: float = 0.0


class SimulatedEngine(Embedded):
    """Nobody else writes to the store, so it is not polled: the engine sleeps until a commit or the next timer."""

    async def _sleep(self, committed: asyncio.Event) -> None:
        due = self.next_due()
        with suppress(TimeoutError):
            async with asyncio.timeout(IDLE_SECONDS if due is None else max(0.0, due - self.clock.now())):
                await committed.wait()


class RepeatingLink:
    """A worker's link whose answers get lost now and then, so that the worker sends its report again."""

    def __init__(self, link: Link, random: Random, chance: float) -> None:
        self.link, self.random, self.chance = link, random, chance

    def __getattr__(self, name: str) -> Any:
        return getattr(self.link, name)

    async def report(self, execution: str, report: Report) -> tuple[bool, list[Work]]:
        report = replace(report, foreign=True)  # no honest report may be refused
        held, works = await self.link.report(execution, report)
        if self.random.random() < self.chance:
            again, more = await self.link.report(execution, report)
            return held and again, [*works, *more]
        return held, works


class Simulation:
    """One playbook, run to its end."""

    def __init__(
        self, text: str, children: dict[str, str], tools: dict[str, Tool], random: Random, faults: Faults
    ) -> None:
        self.random, self.faults = random, faults
        self.tools = SimulatedTools(tools)
        self.playbooks = {path: compiled(child) for path, child in children.items()} | {"": compiled(text)}
        self.store = MemoryStore()
        self.crashes = 0

    def run(self) -> Execution:
        """The state at the end; AssertionError if it never comes."""
        with asyncio.Runner(loop_factory=VirtualLoop) as runner:
            return runner.run(self._run())

    async def _run(self) -> Execution:
        async with asyncio.timeout(LONGEST_SECONDS):
            engine = self._engine()
            await engine.start(EXECUTION, self.playbooks[""].digest, {}, {})
            while True:
                state = await self._until_crash(engine)
                if state is not None:
                    await engine.worker.stop()
                    return state
                engine = self._engine()
                await engine.adopt(EXECUTION)

    def _engine(self) -> Embedded:
        playbooks = LoadedPlaybooks(self.store, thread=SameThread())  # type: ignore[arg-type]
        engine = SimulatedEngine(playbooks, self.tools, VirtualClock(), self._find, slots=SLOTS, name="simulated")
        engine.worker.link = RepeatingLink(engine.link, self.random, self.faults.repeat_report)  # type: ignore[assignment]
        for playbook in self.playbooks.values():
            engine.runtime.playbooks.add(playbook)
        return engine

    async def _find(self, parent: Execution, request: dict[str, Any]) -> str:
        return self.playbooks[request["path"]].digest

    async def _until_crash(self, engine: Embedded) -> Execution | None:
        """Drive the execution to its end, or to the death of the process: None."""
        driving = asyncio.ensure_future(engine.drive(EXECUTION))
        while True:
            done, _ = await asyncio.wait([driving], timeout=self.random.expovariate(1.0))
            if done:
                state = driving.result()
                if state.over:
                    return state
                await engine.runtime.committer.handle(EXECUTION, Resume())
                driving = asyncio.ensure_future(engine.drive(EXECUTION))
            elif self.random.random() < self.faults.crash and not self._is_nearly_poison(engine):
                self.crashes += 1
                driving.cancel()
                await asyncio.gather(driving, return_exceptions=True)
                await engine.worker.stop()
                return None
            else:
                await self._disturb(engine)

    def _is_nearly_poison(self, engine: Embedded) -> bool:
        """Whether one more lost lease would fail a run by right."""
        states = [cell.state for cell in engine.runtime.executions.values()]
        losses = [count for state in states for run in state.runs.values() for count in run.losses.values()]
        return max(losses, default=0) >= MAX_LOSSES - 1

    async def _disturb(self, engine: Embedded) -> None:
        cell = engine.runtime.executions.get(EXECUTION)
        if cell is None:
            return
        lose = self.random.random() < self.faults.lose_lease and not self._is_nearly_poison(engine)
        if lose and cell.state.leases:
            await engine.runtime.committer.handle(EXECUTION, Lost(self.random.choice(sorted(cell.state.leases))))
        if self.random.random() < self.faults.pause:
            await engine.runtime.committer.handle(EXECUTION, Pause())

    # -- what came of it --------------------------------------------------------------------------------------------

    def events(self, execution: str = EXECUTION) -> list[e.Event]:
        return [codec.decode(row.type, row.data) for row in self.store.read(execution)]

    def violations(self) -> list[Violation]:
        return [
            violation
            for summary in self.store.summaries(limit=1_000)
            for violation in self._violations(summary.execution_id, summary.digest, summary.status)
        ]

    def _violations(self, execution: str, digest: str, status: str) -> list[Violation]:
        playbook = next(playbook for playbook in self.playbooks.values() if playbook.digest == digest)
        return verify(
            execution,
            self.store.read(execution),
            Net(playbook),
            lambda store, key: self.store.blob(key),
            status,
            derived=self.store.derived(execution),
        )
