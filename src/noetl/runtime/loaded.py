"""Compiled playbooks in memory, with the position of each part in its file.

The cache keeps the most recently used playbooks, up to a number and a total size. An execution in memory holds a
reference to its playbook, so an evicted playbook can be found as long as an execution uses it.
"""

from __future__ import annotations

import asyncio
import os
from collections import OrderedDict
from collections.abc import Callable, Coroutine, Hashable, Mapping
from typing import Any, NamedTuple, TypeVar
from weakref import WeakValueDictionary

import msgspec

from noetl.classic.hooks import after_call_rules
from noetl.dsl.tree import Mark
from noetl.engine.net import Net
from noetl.model.playbook import Playbook
from noetl.pipeline.plan import PipelinePlan

MAX_PLAYBOOKS = 100
MAX_BYTES = 4 << 20
"""Maximum total size of the cached playbooks, as JSON. In memory they take up to ten times as much."""

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class File(NamedTuple):
    """The source of a playbook."""

    name: str
    folder: str
    """Empty if the file is not on this machine."""
    places: Mapping[str, Mark]


class LoadedPlaybook(Net):
    """A playbook that is ready to run. Building one is slow: a server does it outside its event loop."""

    def __init__(self, playbook: Playbook, file: str = "", places: Mapping[str, Mark] | None = None) -> None:
        super().__init__(playbook, after_call_rules)
        self.digest = playbook.digest
        self.size = len(msgspec.json.encode(playbook))
        folder = os.path.dirname(os.path.abspath(file)) if os.path.isfile(file) else ""
        self.file = File(file, folder, places or {})
        self.plans: dict[str, PipelinePlan] = {}
        """Compiled pipelines by step, created on first use."""


class PlaybookCache:
    """Loaded playbooks by digest."""

    def __init__(self, playbooks: int = MAX_PLAYBOOKS, size: int = MAX_BYTES) -> None:
        self.max_playbooks, self.max_bytes = playbooks, size
        self.in_memory: WeakValueDictionary[str, LoadedPlaybook] = WeakValueDictionary()
        """Cached playbooks, and those that an execution holds."""
        self.bytes = 0
        self.evicted = False
        """Set when a playbook is evicted; cleared by the code that unloads executions."""
        self._recent: OrderedDict[str, LoadedPlaybook] = OrderedDict()

    def __len__(self) -> int:
        return len(self._recent)

    def __contains__(self, digest: str) -> bool:
        return digest in self._recent

    def get(self, digest: str) -> LoadedPlaybook | None:
        """A playbook in memory; marks it as most recently used."""
        playbook = self.in_memory.get(digest)
        if playbook is not None:
            self.add(playbook)
        return playbook

    def add(self, playbook: LoadedPlaybook) -> None:
        """Cache a playbook and evict the least recently used ones. A playbook above the limit is cached alone."""
        digest = playbook.digest
        if digest not in self._recent:
            self._recent[digest] = self.in_memory[digest] = playbook
            self.bytes += playbook.size
        self._recent.move_to_end(digest)
        while len(self._recent) > self.max_playbooks or (self.bytes > self.max_bytes and len(self._recent) > 1):
            _, oldest = self._recent.popitem(last=False)
            self.bytes -= oldest.size
            self.evicted = True


def starts_others(playbook: Playbook) -> bool:
    """Whether a playbook has a task, at any depth, that starts executions."""
    return any(task.kind == "playbook" for step in playbook.steps for _, task in step.every_task)


async def single_flight(
    flights: dict[Key, asyncio.Task[Value]], key: Key, work: Callable[[], Coroutine[Any, Any, Value]]
) -> Value:
    """The result of `work`, which runs once for concurrent callers with the same key."""
    task = flights.get(key)
    if task is None:
        task = flights[key] = asyncio.create_task(work())
        task.add_done_callback(lambda _: flights.pop(key, None))
    return await asyncio.shield(task)
