"""Schedules and hooks in a SQL database. A schedule is JSON, with columns for the fields that queries look for."""

from __future__ import annotations

import msgspec
from msgspec.structs import astuple

from noetl.store.database import Database
from noetl.store.triggers import Hook, Schedule

_decode = msgspec.json.Decoder(Schedule).decode
_encode = msgspec.json.Encoder().encode


class SqlTriggers:
    def __init__(self, database: Database) -> None:
        self._db = database

    def add_schedule(self, schedule: Schedule) -> bool:
        columns = schedule.name, schedule.id, schedule.revision, schedule.look
        return bool(self._db.write("add_schedule", *columns, _encode(schedule)))

    def schedule(self, name: str) -> Schedule | None:
        row = self._db.row("get_schedule", name)
        return None if row is None else _decode(row[0])

    def schedules(self, after: str = "", limit: int = 1000) -> list[Schedule]:
        return [_decode(data) for (data,) in self._db.rows("list_schedules", after, limit)]

    def change_schedule(self, schedule: Schedule) -> bool:
        new = schedule.revision, schedule.look, _encode(schedule)
        return bool(self._db.write("change_schedule", *new, schedule.name, schedule.id, schedule.revision - 1))

    def due_schedules(self, now: float, limit: int) -> list[Schedule]:
        return [_decode(data) for (data,) in self._db.rows("find_due_schedules", now, limit)]

    def delete_schedule(self, name: str) -> bool:
        return bool(self._db.write("delete_schedule", name))

    def put_hook(self, hook: Hook) -> None:
        self._db.write("put_hook", *astuple(hook))

    def hook(self, name: str) -> Hook | None:
        row = self._db.row("get_hook", name)
        return None if row is None else Hook(*row)

    def hooks(self) -> list[Hook]:
        return [Hook(*row) for row in self._db.rows("list_hooks")]

    def delete_hook(self, name: str) -> bool:
        return bool(self._db.write("delete_hook", name))
