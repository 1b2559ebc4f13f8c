"""Playbooks that are ready to run, with the position of each part in its file; read from the store on first use."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Collection, Coroutine, Hashable, Iterator, Mapping
from typing import Any, TypeVar

import msgspec

from noetl.classic.hooks import after_call_rules
from noetl.dsl.payload import UNKNOWN_INPUTS, Json, KeptParts, PlaybookInputs, check_kept_parts, check_payload
from noetl.dsl.tree import Mark
from noetl.engine.net import Net
from noetl.errors import NotFound
from noetl.model.playbook import Playbook
from noetl.results.stores import fault, named_stores
from noetl.runtime.store_thread import StoreThread
from noetl.store.store import Store
from noetl.tools.registry import KINDS
from noetl.worker.playbook_cache import File, PlaybookCache, RunnablePlaybook

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")

INTERPRETED = frozenset(["iterator", "workbook"])  # run by the pipeline itself, or replaced by the compiler


class LoadedPlaybook(Net, RunnablePlaybook):
    """A playbook that is ready to run. Building one is slow: a server does it outside its event loop."""

    def __init__(
        self,
        playbook: Playbook,
        file: str = "",
        places: Mapping[str, Mark] | None = None,
        inputs: PlaybookInputs = UNKNOWN_INPUTS,
    ) -> None:
        Net.__init__(self, playbook, after_call_rules)
        self.inputs = inputs
        folder = os.path.dirname(os.path.abspath(file)) if os.path.isfile(file) else ""
        size = len(msgspec.json.encode(playbook))
        RunnablePlaybook.__init__(self, playbook, File(file, folder, places or {}), size)

    def check_payload(self, payload: Json, ctx: Json, strict_keys: Collection[str] = ()) -> list[str]:
        """Warnings about the inputs of a request; NoetlError if it cannot start."""
        return check_payload(self.playbook, self.inputs, self.file.name, payload, ctx, strict_keys)

    def check_kept_parts(self, kept_parts: KeptParts, payload: Json, strict_keys: Collection[str]) -> list[str]:
        """Warnings about inputs of a fork that nothing reads again; UsageError for a strict key."""
        return check_kept_parts(self.inputs, kept_parts, payload, strict_keys)


Compile = Callable[[str, bytes], Awaitable[LoadedPlaybook]]  # of a file name and a text; NoetlError if it cannot


async def compile_here(file: str, text: bytes) -> LoadedPlaybook:
    """Compile a stored text in this process, which serves no other callers."""
    from noetl.dsl.compile import load

    compiled = load(file, text, KINDS, stored=True)
    return LoadedPlaybook(compiled.require(), file, compiled.places, compiled.inputs)


class LoadedPlaybooks:
    def __init__(self, store: Store, compile: Compile = compile_here, thread: StoreThread | None = None) -> None:
        self.store, self.compile, self.thread = store, compile, thread or StoreThread()
        self.cache: PlaybookCache[LoadedPlaybook] = PlaybookCache()
        self.get = self.cache.require
        self._loading: dict[str, asyncio.Task[LoadedPlaybook]] = {}

    def add(
        self,
        playbook: Playbook,
        file: str = "",
        places: Mapping[str, Mark] | None = None,
        inputs: PlaybookInputs = UNKNOWN_INPUTS,
    ) -> str:
        digest = playbook.digest
        if self.cache.get(digest) is None:
            self.cache.add(LoadedPlaybook(playbook, file, places, inputs))
        return digest

    async def load(self, digest: str) -> LoadedPlaybook:
        """A playbook of the store; NotFound if there is none."""
        playbook = self.cache.get(digest)
        if playbook is None:
            playbook = await single_flight(self._loading, digest, lambda: self._read(digest))
        return playbook

    async def _read(self, digest: str) -> LoadedPlaybook:
        stored = await self.thread.ask(self.store.playbook, digest)
        if stored is None:
            raise NotFound(f"playbook {digest!r} not found")
        playbook = await self.compile(*stored)
        self.cache.add(playbook)
        return playbook


def obstacles(playbook: Playbook, *, nats: bool = False) -> Iterator[tuple[str, str]]:
    """The parts of a playbook that cannot run here: the place of each, `STEP` or `STEP/LABEL`, and the reason."""
    for place, store in named_stores(playbook):
        if (reason := fault(store, nats=nats)) is not None:
            yield place, reason
    for step in playbook.steps:
        for place, task in step.every_task:
            if task.kind not in INTERPRETED and KINDS.runner(task.kind) is None:
                yield place, f"this version of noetl cannot run tools of kind {task.kind!r}"


async def single_flight(
    flights: dict[Key, asyncio.Task[Value]], key: Key, work: Callable[[], Coroutine[Any, Any, Value]]
) -> Value:
    """The result of `work`, which runs once for concurrent callers with the same key."""
    task = flights.get(key)
    if task is None:
        task = flights[key] = asyncio.create_task(work())
        task.add_done_callback(lambda _: flights.pop(key, None))
    return await asyncio.shield(task)
