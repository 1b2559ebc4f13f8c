"""Run a playbook to its end, on the real engine with a store in memory."""

from __future__ import annotations

import asyncio
import inspect
import os
import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from textwrap import dedent
from typing import Any, NamedTuple

from noetl.clock import SystemClock
from noetl.dsl.compile import load
from noetl.engine.commands import Signal
from noetl.engine.state import Execution
from noetl.errors import NoetlError
from noetl.host.embedded import Embedded
from noetl.keychain.master import MasterKeySource
from noetl.keychain.safe import Safe
from noetl.keychain.sealed import KEY_BYTES
from noetl.model.actor import Actor
from noetl.model.identity import uuid7
from noetl.model.kind import Kind
from noetl.model.outcome import Outcome
from noetl.reference import Reference
from noetl.results.read import read_value
from noetl.runtime.catalog import Catalog, PlaybookSource, read
from noetl.runtime.event_envelopes import EventEnvelopes
from noetl.runtime.loaded_playbooks import LoadedPlaybooks, obstacles
from noetl.runtime.report import report
from noetl.settings import MasterKeySettings
from noetl.store.sqlite import InMemoryStore
from noetl.testing.tool import Credentials
from noetl.tools.base import Context, Run
from noetl.tools.registry import KINDS, Registry

Fake = Outcome | Callable[[Any, Context], Outcome | Awaitable[Outcome]]
"""Replaces the tool of a kind: one outcome for all calls, or a function of inputs and context."""
TESTER = Actor("local", "test")
TEXT_NAME = "playbook.yaml"  # file name of a playbook that is passed as text


class Finished(NamedTuple):
    """The end of a run. References are replaced by their values."""

    status: str  # `succeeded`, `failed` or `cancelled`
    result: Any
    ctx: dict[str, Any]
    steps: dict[str, dict[str, Any]]  # by name, each step that was entered: its `status`, `runs`, `result` and `error`
    error: dict[str, Any] | None
    """`kind`, `message`, `step`, `task`, `attempt`, `item`, `details`, and the place: `file`, `line`, `column`."""
    events: list[dict[str, Any]]  # the log, as `noetl runs events` shows it
    logs: list[tuple[str, str, str]]  # output of tasks: task, stream, line

    def of(self, event_type: str) -> list[dict[str, Any]]:
        return [event for event in self.events if event["event_type"] == event_type]


def run_playbook(
    playbook: str | os.PathLike[str],
    payload: Mapping[str, Any] | None = None,
    *,
    ctx: Mapping[str, Any] | None = None,
    tools: Mapping[str, Fake] | None = None,
    credentials: Credentials | None = None,
    signals: Mapping[str, Any] | None = None,
    wait: bool = False,
    seconds: float = 60,
) -> Finished:
    """Run a playbook to its end; a run that fails is a result too.

    `playbook` is a path, or its text if it has several lines. `tools` replaces kinds by outcomes, so that nothing is
    called. `credentials` are the credentials of the database: fields by name, with their `kind`. `signals` are sent
    when the run starts, by name with their payloads. Waits between attempts, delays and timers take no time unless
    `wait` is true: whenever nothing runs, the clock is set to the next of them. PlaybookInvalid if the playbook cannot
    run, TimeoutError if it takes longer than `seconds`.
    """
    source = _source_of(playbook)
    store, clock = InMemoryStore(), SkippingClock(skips=not wait)
    safe = Safe(store.credentials, MasterKeySource(MasterKeySettings(key=os.urandom(KEY_BYTES).hex(), file="")))
    for name, fields in (credentials or {}).items():
        plain = {field: value for field, value in fields.items() if field != "kind"}
        safe.put(name, str(fields.get("kind", "")), plain, now=time.time())
    playbooks = LoadedPlaybooks(store)
    catalog = Catalog(playbooks)
    engine = Embedded(playbooks, _WithFakes(tools or {}), clock, catalog.find, open_credential=safe.open)

    async def run() -> Finished:
        try:
            for place, reason in obstacles(source.loaded.require(), nats=True):  # the store of the test has a copy
                raise NoetlError(f"{source.display_path}: step {place}: {reason}")
            digest, execution = catalog.add(source), uuid7(time.time(), os.urandom(8))
            async with asyncio.timeout(seconds):
                await engine.start(execution, digest, dict(payload or {}), dict(ctx or {}), TESTER)
                for number, (name, content) in enumerate((signals or {}).items()):
                    signal = Signal(name, f"test-{number}", content, actor=TESTER)
                    await engine.runtime.committer.handle(execution, signal)
                skipping = asyncio.create_task(_skip_waits(engine, clock))
                try:
                    return _finished(await engine.drive(execution), source, store)
                finally:
                    skipping.cancel()
        finally:
            await engine.close()

    return asyncio.run(run())


def _source_of(playbook: str | os.PathLike[str]) -> PlaybookSource:
    if isinstance(playbook, str) and "\n" in playbook:
        text = dedent(playbook).encode()
        return PlaybookSource(str(Path(TEXT_NAME).absolute()), text, load(TEXT_NAME, text, KINDS))
    return read(os.fspath(playbook))


class SkippingClock(SystemClock):
    def __init__(self, *, skips: bool) -> None:
        self.skips, self.ahead = skips, 0.0

    def now(self) -> float:
        return time.time() + self.ahead

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(0 if self.skips else seconds)


async def _skip_waits(engine: Embedded, clock: SkippingClock) -> None:
    """Whenever everything waits for timers, set the clock to the next of them."""
    while clock.skips:
        await asyncio.sleep(0.002)
        live = [loaded.state for loaded in engine.runtime.executions.values() if not loaded.state.over]
        if engine.worker.tasks or any(state.shown_status != "waiting" for state in live):
            continue
        parked = [parked for state in live for run in state.runs.values() for parked in run.parked.values()]
        children = {state.id for state in live}
        if any(wait.until == "child" and wait.key not in children for wait in parked):
            continue  # a child is about to start, or its end is not reported yet
        if timers := [at for state in live for at in state.timers.values()]:
            clock.ahead += max(0.0, min(timers) - clock.now())


def _finished(state: Execution, source: PlaybookSource, store: InMemoryStore) -> Finished:
    def resolved(value: Any) -> Any:
        match value:
            case Reference():
                return resolved(read_value(store.blob, value))
            case dict():
                return {key: resolved(item) for key, item in value.items()}
            case list() | tuple():
                return [resolved(item) for item in value]
        return value

    run = report(state, source.display_path, source.places, 0)
    events = EventEnvelopes(store, state.id).of(store.read(state.id))
    lines = [(task, stream, line) for _, task, _, stream, line in store.output(state.id)]
    result, ctx, steps = (resolved(run[key]) for key in ("result", "ctx", "steps"))
    return Finished(run["status"], result, ctx, steps, run["error"], events, lines)


class _WithFakes(Registry):
    def __init__(self, tools: Mapping[str, Fake]) -> None:
        super().__init__()
        self.tools = tools

    def get(self, name: str) -> Kind | None:
        return KINDS.get(name)

    def runner(self, name: str) -> Run | None:
        if name not in self.tools:
            return super().runner(name)
        fake = self.tools[name]

        async def run(inputs: Any, context: Context) -> Outcome:
            if isinstance(fake, Outcome):
                return fake
            outcome = fake(inputs, context)
            return await outcome if inspect.isawaitable(outcome) else outcome

        return run
