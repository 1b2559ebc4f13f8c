"""Schedules start executions at given times, hooks on signed requests.

A server writes its decision to the row of a schedule before it acts, if the row still has the revision that it has
read: a firing is in `starting` until its execution has started, and the id of the execution follows from the firing. So
a server that finds it there, after a crash or at the same time, starts the same execution.
"""

from __future__ import annotations

from hashlib import sha256
from typing import Any, Literal

import msgspec
from msgspec.structs import astuple

from noetl.model.actor import Actor
from noetl.model.identity import uuid7
from noetl.store.database import Database

Overlap = Literal["skip", "queue", "allow"]  # policy for a firing while an execution of the schedule is open
Missed = Literal["skip", "once", "all"]  # policy for firings that were due while no server was running
Outcome = Literal["started", "skipped", "missed", "failed"]


class Firing(msgspec.Struct, frozen=True, omit_defaults=True):
    due: float
    key: str = ""  # identifies a firing that a user requested
    actor: Actor | None = None  # who requested it

    def execution(self, schedule: str) -> str:
        """The id of its execution, the same on every server and at every attempt."""
        return uuid7(self.due, sha256(f"{schedule}|{self.due!r}|{self.key}".encode()).digest())


class Fired(msgspec.Struct, frozen=True, omit_defaults=True):
    due: float
    at: float
    outcome: Outcome
    execution: str | None = None
    reason: str = ""
    count: int = 1  # such firings in a row, of which `due` is the last


class Schedule(msgspec.Struct, frozen=True, omit_defaults=True):
    name: str
    id: str  # random: a deleted and recreated schedule has another one
    path: str
    version: int | None = None
    payload: dict[str, Any] = {}
    ctx: dict[str, Any] = {}
    cron: str | None = None  # one of `cron`, `every` (seconds) and `at` gives the times
    every: float | None = None
    at: float | None = None
    timezone: str = "UTC"
    overlap: Overlap = "skip"
    missed: Missed = "once"
    paused: bool = False
    created: float = 0.0
    updated: float = 0.0
    anchor: float = 0.0  # the time from which intervals are counted
    next: float | None = None
    starting: tuple[Firing, ...] = ()  # firings whose executions are being started
    queue: tuple[Firing, ...] = ()  # firings that wait until an execution has ended
    running: tuple[str, ...] = ()  # executions that were open at the last check
    recent: tuple[Fired, ...] = ()  # outcomes of the latest firings, the last one last
    look: float | None = None  # when a server has to check it again; None: never
    revision: int = 1

    @property
    def status(self) -> Literal["active", "paused", "retired"]:
        if self.paused:
            return "paused"
        return "retired" if self.next is None and not self.queue and not self.starting else "active"


class Hook(msgspec.Struct, frozen=True):
    name: str
    path: str
    version: int | None
    created: float
    updated: float


class Triggers:
    """A schedule is stored as JSON, with columns for the fields that queries look for. To delete a record that does not
    exist returns False."""

    def __init__(self, database: Database) -> None:
        self._db = database

    def add_schedule(self, schedule: Schedule) -> bool:
        """False if there is a schedule of that name."""
        columns = schedule.name, schedule.id, schedule.revision, schedule.look
        return bool(self._db.write("add_schedule", *columns, _encode(schedule)))

    def schedule(self, name: str) -> Schedule | None:
        return self._db.get(_decode, "get_schedule", name)

    def schedules(self, after: str = "", limit: int = 1000) -> list[Schedule]:
        return self._db.all(_decode, "list_schedules", after, limit)

    def change_schedule(self, schedule: Schedule) -> bool:
        """Replace the revision before this one. False if that is not the stored one: it was changed or deleted."""
        new = schedule.revision, schedule.look, _encode(schedule)
        return bool(self._db.write("change_schedule", *new, schedule.name, schedule.id, schedule.revision - 1))

    def due_schedules(self, now: float, limit: int) -> list[Schedule]:
        return self._db.all(_decode, "find_due_schedules", now, limit)

    def delete_schedule(self, name: str) -> bool:
        return bool(self._db.write("delete_schedule", name))

    def put_hook(self, hook: Hook) -> None:
        """Add or replace a hook; `created` stays."""
        self._db.write("put_hook", *astuple(hook))

    def hook(self, name: str) -> Hook | None:
        return self._db.get(Hook, "get_hook", name)

    def hooks(self) -> list[Hook]:
        return self._db.all(Hook, "list_hooks")

    def delete_hook(self, name: str) -> bool:
        return bool(self._db.write("delete_hook", name))


_decode = msgspec.json.Decoder(Schedule).decode
_encode = msgspec.json.Encoder().encode
