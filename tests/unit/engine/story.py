"""Runs playbooks on the real runtime and worker with a store in memory, and checks the fold after every run."""

from __future__ import annotations

import asyncio
from textwrap import dedent, indent
from typing import Any, NamedTuple

from tests.conformance.memory import MemoryStore

from noetl.clock import SystemClock
from noetl.dsl.compile import load
from noetl.engine.commands import Command
from noetl.engine.events import Event
from noetl.engine.evolve import evolve
from noetl.engine.state import Execution
from noetl.host.embedded import Embedded
from noetl.runtime.loaded_playbooks import LoadedPlaybooks
from noetl.store.codec import decode, freeze, thaw
from noetl.store.store import Row
from noetl.tools.registry import KINDS

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: story, path: tests/story}\n"
EXECUTION = "00000000-0000-7000-8000-000000000001"


class QuickClock(SystemClock):
    """Waits take no time; the time they would have taken is kept."""

    def __init__(self) -> None:
        self.waits: list[float] = []
        self.ahead = 0.0

    def now(self) -> float:
        return super().now() + self.ahead

    async def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.ahead += seconds
        await asyncio.sleep(0)


class Ended(NamedTuple):
    """A finished run: the state, its events, and the clock that counted waits."""

    state: Execution
    events: list[Event]
    clock: QuickClock
    rows: list[Row]

    @property
    def names(self) -> list[str]:
        return [event.name for event in self.events]

    def of(self, name: str) -> list[Any]:
        return [event for event in self.events if event.name == name]

    def runs(self) -> list[str]:
        return [event.run for event in self.of("step.scheduled")]


def run(
    workflow: str, *commands: Command, head: str = "", payload: dict[str, Any] | None = None, limit: float = 20
) -> Ended:
    """Run a workflow to its end; `commands` are given to it right after the start."""
    text = HEAD + dedent(head) + "workflow:\n" + indent(dedent(workflow), "  ")
    playbook = load("story.yaml", text, KINDS).require()
    return asyncio.run(_run(playbook, commands, payload or {}, limit))


async def _run(playbook: Any, commands: tuple[Command, ...], payload: dict[str, Any], limit: float) -> Ended:
    store, clock = MemoryStore(), QuickClock()
    engine = Embedded(LoadedPlaybooks(store), KINDS, clock, _no_children)
    digest = engine.runtime.playbooks.add(playbook)
    async with asyncio.timeout(limit):
        await engine.start(EXECUTION, digest, payload, {})
        for command in commands:
            await engine.runtime.committer.handle(EXECUTION, command)
        state = await engine.drive(EXECUTION)
    await engine.close()
    rows = store.read(EXECUTION)
    events = [decode(row.type, row.data) for row in rows]
    _check_fold(state, [(event, row.at) for event, row in zip(events, rows, strict=True)])
    return Ended(state, events, clock, rows)


def _check_fold(live: Execution, log: list[tuple[Event, float]]) -> None:
    """State is the fold of the log."""
    folded = Execution(live.id, live.net, live.digest)
    for event, at in log:
        evolve(folded, event, at)
    for state in (live, folded):
        state.changed = state.deliverable = False
    differing = [name for name in live.__struct_fields__ if getattr(folded, name) != getattr(live, name)]
    assert differing == []
    assert thaw(freeze(live), live.net) == live


async def _no_children(parent: Execution, request: dict[str, Any]) -> str:
    raise AssertionError("no children in this story")
