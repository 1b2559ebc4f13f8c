"""Checks before an execution starts: parts of a playbook that can be read here, but not run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from noetl.model.playbook import Playbook
from noetl.results.stores import fault, named_stores
from noetl.tools.registry import KINDS

INTERPRETED = frozenset(["iterator", "workbook"])
"""Kinds without a tool: the pipeline runs them itself, or the compiler has replaced them."""


class Obstacle(NamedTuple):
    """A part that cannot run here: its place (`STEP` or `STEP/LABEL`) and the reason."""

    place: str
    reason: str


def obstacles(playbook: Playbook, *, nats: bool = False) -> Iterator[Obstacle]:
    """The parts that cannot run here. `nats` says whether NATS is available."""
    for place, store in named_stores(playbook):
        if (reason := fault(store, nats=nats)) is not None:
            yield Obstacle(place, reason)
    for step in playbook.steps:
        for place, task in step.every_task:
            if task.kind not in INTERPRETED and KINDS.runner(task.kind) is None:
                yield Obstacle(place, f"this version of noetl cannot run tools of kind {task.kind!r}")
