"""What starts executions without anybody asking: schedules by the clock, hooks by a request that is signed.

A schedule is one row that any server may change, each change at the revision it was made from. What a server has
decided is in the row before it is done: a firing stands in `starting`, from which the id of its execution follows,
until it is known to have started. So whoever finds it there, after a crash or at the same time, starts the same one.
"""

from __future__ import annotations

from hashlib import sha256
from typing import Any, Literal, Protocol

import msgspec

from noetl.model.identity import uuid7

Overlap = Literal["skip", "queue", "allow"]
"""What happens when a firing comes while an execution of the schedule is open."""
Missed = Literal["skip", "once", "all"]
"""What happens to firings for which there was no server."""
Outcome = Literal["started", "skipped", "missed", "failed"]


class Firing(msgspec.Struct, frozen=True, omit_defaults=True):
    """A time at which a schedule is to start an execution. `key` tells apart those that people ask for."""

    due: float
    key: str = ""

    def execution(self, schedule: str) -> str:
        """The id of its execution: the same, whoever starts it and however often."""
        return uuid7(self.due, sha256(f"{schedule}|{self.due!r}|{self.key}".encode()).digest())


class Fired(msgspec.Struct, frozen=True, omit_defaults=True):
    """What became of a firing. `count` stands for as many in a row, of which `due` is the last."""

    due: float
    at: float
    outcome: Outcome
    execution: str | None = None
    reason: str = ""
    count: int = 1


class Schedule(msgspec.Struct, frozen=True, omit_defaults=True):
    """When to start which playbook, and how far it is. One of `cron`, `every` (seconds) and `at` says when."""

    name: str
    id: str
    """Drawn when it is made: another one of the same name is another schedule."""
    path: str
    version: int | None = None
    payload: dict[str, Any] = {}
    ctx: dict[str, Any] = {}
    cron: str | None = None
    every: float | None = None
    at: float | None = None
    timezone: str = "UTC"
    overlap: Overlap = "skip"
    missed: Missed = "once"
    paused: bool = False
    created: float = 0.0
    updated: float = 0.0
    anchor: float = 0.0
    """Where intervals are counted from."""
    next: float | None = None
    """The next firing; None when there will be none."""
    starting: tuple[Firing, ...] = ()
    """Decided, and on their way to an execution."""
    queue: tuple[Firing, ...] = ()
    """Waiting until an execution has ended."""
    running: tuple[str, ...] = ()
    """Executions that were open when somebody last looked."""
    recent: tuple[Fired, ...] = ()
    """What became of the latest firings, the last one last."""
    look: float | None = None
    """When a server has to look at it again; None: never."""
    revision: int = 1

    @property
    def status(self) -> Literal["active", "paused", "retired"]:
        if self.paused:
            return "paused"
        return "retired" if self.next is None and not self.queue and not self.starting else "active"


class Hook(msgspec.Struct, frozen=True):
    """A name under which signed requests start a playbook. The secret is among the credentials."""

    name: str
    path: str
    version: int | None
    created: float
    updated: float


class Triggers(Protocol):
    """Schedules and hooks beside the log."""

    def add_schedule(self, schedule: Schedule) -> bool:
        """Keep a new one; False, and nothing done, if there is one of that name."""

    def schedule(self, name: str) -> Schedule | None:
        """The schedule of that name."""

    def schedules(self, after: str = "", limit: int = 1000) -> list[Schedule]:
        """Schedules by name, behind one name."""

    def change_schedule(self, schedule: Schedule) -> bool:
        """Put it in the place of the revision before it. False, and nothing done, if that is not what is there:
        somebody else was faster, or it is gone."""

    def due_schedules(self, now: float, limit: int) -> list[Schedule]:
        """Those that a server has to look at by now, the earliest first."""

    def delete_schedule(self, name: str) -> bool:
        """Forget it; False if there was none."""

    def put_hook(self, hook: Hook) -> None:
        """Keep a hook in the place of what had its name, but remember when that was created."""

    def hook(self, name: str) -> Hook | None:
        """The hook of that name."""

    def hooks(self) -> list[Hook]:
        """Every hook, by name."""

    def delete_hook(self, name: str) -> bool:
        """Forget it; False if there was none."""
