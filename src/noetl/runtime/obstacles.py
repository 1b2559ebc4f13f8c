"""What of a playbook this version can read and not run. Asked before anything starts, so nothing is passed over."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from noetl.model.playbook import Playbook
from noetl.results.stores import fault, named_stores
from noetl.tools.registry import KINDS

INTERPRETED = frozenset(["iterator", "workbook"])
"""Kinds that no tool runs: the pipeline itself does, or the compiler has put something else in their place."""


class Obstacle(NamedTuple):
    """A part that can't be run: its place (`STEP` or `STEP/LABEL`) and the reason."""

    place: str
    reason: str


def obstacles(playbook: Playbook, *, nats: bool = False) -> Iterator[Obstacle]:
    """Every part of the playbook that would have to be left out. `nats` tells whether there is NATS here."""
    for place, store in named_stores(playbook):
        if (reason := fault(store, nats=nats)) is not None:
            yield Obstacle(place, reason)
    for step in playbook.steps:
        for place, task in step.every_task:
            if task.kind not in INTERPRETED and KINDS.runner(task.kind) is None:
                yield Obstacle(place, f"this version of noetl can't run tools of kind {task.kind!r}")
