"""Compiled playbooks in memory: the most recently used ones, up to a number and a total size.

Users of a playbook hold a reference to it, so an evicted playbook can be found as long as it is in use.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import Generic, NamedTuple, TypeVar
from weakref import WeakValueDictionary

from noetl.classic.hooks import step_plan
from noetl.dsl.tree import Mark
from noetl.errors import NotFound
from noetl.model.playbook import Playbook
from noetl.pipeline.plan import PipelinePlan
from noetl.tools.registry import KINDS

MAX_PLAYBOOKS = 100
MAX_PLAYBOOK_BYTES = 4 << 20  # of the cached playbooks as text; in memory they take up to twenty times as much


class File(NamedTuple):
    name: str
    folder: str  # empty if the file is not on this machine
    places: Mapping[str, Mark]


class RunnablePlaybook:
    def __init__(self, playbook: Playbook, file: File, size: int) -> None:
        self.playbook, self.file, self.size, self.digest = playbook, file, size, playbook.digest
        self.plans: dict[str, PipelinePlan] = {}
        self._steps = {step.name: step for step in playbook.steps}

    def plan(self, step: str) -> PipelinePlan:
        if step not in self.plans:
            self.plans[step] = step_plan(self._steps[step], KINDS.require)
        return self.plans[step]


Compiled = TypeVar("Compiled", bound=RunnablePlaybook)


class PlaybookCache(Generic[Compiled]):
    def __init__(self, playbooks: int = MAX_PLAYBOOKS, size: int = MAX_PLAYBOOK_BYTES) -> None:
        self.max_playbooks, self.max_bytes, self.bytes = playbooks, size, 0
        self.in_memory: WeakValueDictionary[str, Compiled] = WeakValueDictionary()  # cached playbooks, and those in use
        self.evicted = False  # set when a playbook is evicted; cleared by the code that unloads executions
        self._recent: OrderedDict[str, Compiled] = OrderedDict()

    def __len__(self) -> int:
        return len(self._recent)

    def __contains__(self, digest: str) -> bool:
        return digest in self._recent

    def get(self, digest: str) -> Compiled | None:
        playbook = self.in_memory.get(digest)
        if playbook is not None:
            self.add(playbook)
        return playbook

    def require(self, digest: str) -> Compiled:
        """A playbook in memory, as those in use are; NotFound if it is not."""
        playbook = self.in_memory.get(digest)
        if playbook is None:
            raise NotFound(f"playbook {digest[:12]} is not in memory")
        return playbook

    def add(self, playbook: Compiled) -> None:
        """Cache a playbook and evict the least recently used ones. A playbook above the limit is cached alone."""
        digest = playbook.digest
        if digest not in self._recent:
            self._recent[digest] = self.in_memory[digest] = playbook
            self.bytes += playbook.size
        self._recent.move_to_end(digest)
        while len(self._recent) > self.max_playbooks or (self.bytes > self.max_bytes and len(self._recent) > 1):
            self.bytes -= self._recent.popitem(last=False)[1].size
            self.evicted = True
