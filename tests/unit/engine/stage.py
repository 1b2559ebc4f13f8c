"""A stage for longer stories: tools that tests write, a clock that jumps, children, and promises checked at the end.

A task of kind `python` whose code is a name calls the test's function of that name. Time stands still while anything
moves; when nothing does, it jumps to the next timer.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from textwrap import dedent, indent
from typing import Any

from tests.conformance.memory import MemoryStore
from tests.servers.patience import PATIENCE_SECONDS

from noetl.dsl.compile import load
from noetl.engine.commands import Command
from noetl.engine.events import Event
from noetl.engine.evolve import evolve
from noetl.engine.state import Execution
from noetl.errors import NotFound
from noetl.host.embedded import Embedded
from noetl.model.outcome import Outcome
from noetl.runtime.loaded_playbooks import LoadedPlaybooks
from noetl.store import codec
from noetl.store.store import Change
from noetl.tools.base import Context
from noetl.tools.registry import Registry

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: story, path: tests/story}\n"
EXECUTION = "00000000-0000-7000-8000-000000000001"
MAX_EVENT_BYTES = 64 * 1024
CALM_TURNS, TURN_SECONDS = 30, 0.001
"""Nothing has moved for so many turns of the event loop: time may jump, though a tool runs or the test acts beside the
engine. On a busy machine the turns take longer, but what is ready to run does so in each of them."""

Tool = Callable[..., Any]
During = Callable[["Stage"], Awaitable[None]]


class StageClock:
    """Time that moves only when it is told to."""

    def __init__(self, now: float = 1_700_000_000.0) -> None:
        self.time = now
        self.waits: list[float] = []

    def now(self) -> float:
        return self.time

    async def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.time += seconds
        await asyncio.sleep(0)


class StageRegistry(Registry):
    """Python code is the name of a function of the test."""

    def __init__(self, tools: dict[str, Tool]) -> None:
        super().__init__()
        self.tools = tools
        self.contexts: list[Context] = []

    def runner(self, name: str) -> Any:
        return self._call if name == "python" else super().runner(name)

    async def _call(self, inputs: Any, context: Context) -> Outcome:
        self.contexts.append(context)
        tool = self.tools[inputs.code.strip()]
        wanted = inspect.signature(tool).parameters
        given = {key: value for key, value in context.args.items() if key in wanted}
        if "context" in wanted:
            given["context"] = context
        result = tool(**given)
        if inspect.isawaitable(result):
            result = await result
        return result if isinstance(result, Outcome) else Outcome(result=result)


class StageEngine(Embedded):
    """Embedded whose time jumps to the next timer once nothing moves any more."""

    clock: StageClock
    watched = True
    """Whether the test acts while the engine runs."""

    async def _sleep(self, committed: asyncio.Event) -> None:
        due = self.next_due()
        is_quiet = due is not None and not self.worker.tasks and not self.watched
        if not is_quiet:
            for _ in range(CALM_TURNS):
                with suppress(TimeoutError):
                    async with asyncio.timeout(TURN_SECONDS):
                        await committed.wait()
                    return
            committing = self.runtime.committer._task
            if committing is not None and not committing.done():  # the machine is busy: something still moves
                return
            due = self.next_due()
        if due is not None:
            self.clock.time = max(self.clock.time, due)


class Cuts(MemoryStore):
    """Remembers where each commit ended: a process may die there and nowhere else."""

    def __init__(self) -> None:
        super().__init__()
        self.cuts: list[int] = []

    def commit(self, changes: Sequence[Change]) -> list[bool]:
        done = super().commit(changes)
        self.cuts += [change.rows[-1].seq for change in changes if change.execution == EXECUTION and change.rows]
        return done


class Stage:
    """One execution on its way, with everything a test wants to look at."""

    def __init__(self, text: str, tools: dict[str, Tool], children: dict[str, str], store: Cuts | None = None):
        self.text, self.children = text, children
        self.store = store or Cuts()
        self.clock = StageClock()
        self.registry = StageRegistry(tools)
        self.digest = ""
        self.engine = self._engine()
        self.state: Execution = None  # type: ignore[assignment]

    def _engine(self) -> StageEngine:
        engine = StageEngine(LoadedPlaybooks(self.store), self.registry, self.clock, self._find, slots=16, name="stage")
        self.digest = engine.runtime.playbooks.add(load("story.yaml", self.text, self.registry).require())
        self.store.put_playbook(self.digest, "story.yaml", self.text.encode())
        return engine

    async def _find(self, parent: Execution, request: dict[str, Any]) -> str:
        text = self.children.get(request["path"])
        if text is None:
            raise NotFound(f"no playbook {request['path']}")
        playbook = load("child.yaml", text, self.registry).require()
        self.store.put_playbook(playbook.digest, "child.yaml", text.encode())
        return self.engine.runtime.playbooks.add(playbook)

    async def handle(self, *commands: Command, execution: str = EXECUTION) -> None:
        for command in commands:
            await self.engine.runtime.committer.handle(execution, command)

    def live(self, execution: str = EXECUTION) -> Execution:
        return self.engine.runtime.executions[execution].state

    async def until(self, what: Callable[[], bool], seconds: float = PATIENCE_SECONDS) -> None:
        """Wait until something is true."""
        async with asyncio.timeout(seconds):
            while not what():  # noqa: ASYNC110 (nobody sets an event for what tests look at)
                await asyncio.sleep(0.001)

    async def drive(self) -> Execution:
        self.state = await self.engine.drive(EXECUTION)
        return self.state

    async def crash(self) -> None:
        """The process is gone and another takes over from the log."""
        await self.engine.worker.stop()
        self.engine.runtime.thread.shutdown()
        self.engine = self._engine()
        await self.engine.adopt(EXECUTION)

    # -- what came of it --------------------------------------------------------------------------------------------

    @property
    def events(self) -> list[Event]:
        return [codec.decode(row.type, row.data) for row in self.store.read(EXECUTION)]

    @property
    def names(self) -> list[str]:
        return [event.name for event in self.events]

    def of(self, name: str) -> list[Any]:
        return [event for event in self.events if event.name == name]

    def runs(self) -> list[str]:
        return [event.run for event in self.of("step.scheduled")]

    def check(self, execution: str = EXECUTION) -> None:
        """Small events, and state equal to the fold. All that `noetl verify` looks at is checked after every test."""
        rows = self.store.read(execution)
        live = self.live(execution)
        assert max(len(row.data) for row in rows) <= MAX_EVENT_BYTES
        folded = Execution(live.id, live.net, live.digest)
        for row in rows:
            evolve(folded, codec.decode(row.type, row.data), row.at)
        for state in (live, folded):
            state.changed = state.deliverable = False
        assert folded == live


def text_of(workflow: str, head: str = "") -> str:
    return HEAD + dedent(head) + "workflow:\n" + indent(dedent(workflow), "  ")


def play_text(text: str, tools: dict[str, Tool], limit: float = PATIENCE_SECONDS) -> Stage:
    """Play a whole playbook to its end."""
    stage = Stage(text, tools, {})
    stage.engine.watched = False

    async def whole() -> None:
        async with asyncio.timeout(limit):
            await stage.engine.start(EXECUTION, stage.digest, {}, {})
            await stage.drive()
        await stage.engine.worker.stop()
        stage.engine.runtime.thread.shutdown()

    asyncio.run(whole())
    stage.check()
    return stage


def play(
    workflow: str,
    *commands: Command,
    head: str = "",
    payload: dict[str, Any] | None = None,
    ctx: dict[str, Any] | None = None,
    tools: dict[str, Tool] | None = None,
    children: dict[str, str] | None = None,
    during: During | None = None,
    limit: float = PATIENCE_SECONDS,
) -> Stage:
    """Play a workflow to its end. `commands` come right after the start; `during` runs beside it."""
    stage = Stage(text_of(workflow, head), tools or {}, children or {})
    stage.engine.watched = during is not None

    async def whole() -> None:
        async with asyncio.timeout(limit):
            await stage.engine.start(EXECUTION, stage.digest, payload or {}, ctx or {})
            await stage.handle(*commands)
            if during is None:
                await stage.drive()
            else:
                await during(stage)
                if stage.state is None:
                    await stage.drive()
        await stage.engine.worker.stop()
        stage.engine.runtime.thread.shutdown()

    asyncio.run(whole())
    stage.check()
    return stage
