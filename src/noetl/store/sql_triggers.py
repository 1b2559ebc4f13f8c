"""Schedules and hooks in a SQL database, on the connection of its store."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec.structs import astuple

from noetl.store.credentials import Ask
from noetl.store.triggers import Hook, Schedule


class SqlTriggers:
    """What starts executions. Of a schedule, the columns are what is looked for; the rest is JSON."""

    def __init__(self, read: Ask, write: Ask) -> None:
        self._read, self._write = read, write

    def add_schedule(self, one: Schedule) -> bool:
        return bool(self._write("add_schedule", (one.name, one.id, one.revision, one.look, _data(one))))

    def schedule(self, name: str) -> Schedule | None:
        rows = self._read("get_schedule", (name,))
        return _schedule(rows[0]) if rows else None

    def schedules(self, after: str = "", limit: int = 1000) -> list[Schedule]:
        return [_schedule(row) for row in self._read("list_schedules", (after, limit))]

    def change_schedule(self, one: Schedule) -> bool:
        return bool(
            self._write("change_schedule", (one.revision, one.look, _data(one), one.name, one.id, one.revision - 1))
        )

    def due_schedules(self, now: float, limit: int) -> list[Schedule]:
        return [_schedule(row) for row in self._read("find_due_schedules", (now, limit))]

    def delete_schedule(self, name: str) -> bool:
        return bool(self._write("delete_schedule", (name,)))

    def put_hook(self, hook: Hook) -> None:
        self._write("put_hook", astuple(hook))

    def hook(self, name: str) -> Hook | None:
        rows = self._read("get_hook", (name,))
        return Hook(*rows[0]) if rows else None

    def hooks(self) -> list[Hook]:
        return [Hook(*row) for row in self._read("list_hooks", ())]

    def delete_hook(self, name: str) -> bool:
        return bool(self._write("delete_hook", (name,)))


_schedules = msgspec.json.Decoder(Schedule)


def _data(one: Schedule) -> bytes:
    return msgspec.json.encode(one)


def _schedule(row: tuple[Any, ...]) -> Schedule:
    return _schedules.decode(row[0])
