"""Schedules and hooks of a database. A server on the database fires them."""

from __future__ import annotations

import secrets
from collections.abc import Callable

import msgspec
from msgspec.structs import replace as replaced

from noetl.client.database import json_of, opened, registered, safe_of
from noetl.client.local import Local
from noetl.client.ports import ALL, Items, Json
from noetl.errors import Conflict, NotFound, UsageError
from noetl.server.record_views import HookView, schedule_view
from noetl.store.store import Store
from noetl.store.triggers import Firing, Schedule
from noetl.triggers import hooks, schedules


class LocalSchedules(Local):
    def put(self, name: str, request: Json, replace: bool) -> Json:
        try:
            wanted = msgspec.convert(request, schedules.ScheduleRequest)
        except msgspec.ValidationError as error:
            raise UsageError(str(error)) from None
        now = self.clock.now()
        schedule = schedules.made(name, wanted, now)
        with opened(self.db, "write") as store:
            registered(store, wanted.path, wanted.version)
            if replace:
                schedule, _ = schedules.put_in(store, name, wanted, now)
            elif not store.triggers.add_schedule(schedule):
                raise Conflict(f"schedule {name!r} exists; use --replace to change it")
            return _view(store, schedule)

    def list(self) -> Items:
        with opened(self.db) as store:
            return [_view(store, schedule) for schedule in store.triggers.schedules(limit=ALL)]

    def get(self, name: str) -> Json:
        with opened(self.db) as store:
            if (schedule := store.triggers.schedule(name)) is None:
                raise _no_schedule(name)
            return _view(store, schedule)

    def pause(self, name: str) -> Json:
        return self._change(name, schedules.paused)

    def resume(self, name: str) -> Json:
        return self._change(name, schedules.resumed)

    def _change(self, name: str, change: Callable[[Schedule, float], Schedule]) -> Json:
        with opened(self.db, "write") as store:
            return _view(store, schedules.change_in(store, name, lambda old, _: change(old, self.clock.now())))

    def trigger(self, name: str) -> Json:
        now = self.clock.now()
        firing = Firing(round(now, 3), secrets.token_hex(8))
        with opened(self.db, "write") as store:
            schedule = schedules.change_in(
                store, name, lambda old, is_open: replaced(schedules.triggered(old, firing, is_open, now), look=now)
            )
        return {"execution_id": firing.execution(schedule.id), "queued": firing in schedule.queue}

    def delete(self, name: str) -> None:
        with opened(self.db, "write") as store:
            if not store.triggers.delete_schedule(name):
                raise _no_schedule(name)


def _view(store: Store, schedule: Schedule) -> Json:
    return json_of(schedule_view(schedules.refreshed(store, schedule)))


def _no_schedule(name: str) -> NotFound:
    return NotFound(f"schedule {name!r} not found: `noetl schedule list` lists all schedules")


class LocalHooks(Local):
    def put(self, name: str, path: str, version: int | None, secret: str | None) -> Json:
        with opened(self.db, "write") as store:
            registered(store, path, version)
            hook, generated, _ = hooks.put(store, safe_of(store), name, path, version, secret, self.clock.now())
        return json_of(HookView.of(hook)) | {"secret": generated}

    def list(self) -> Items:
        with opened(self.db) as store:
            return [json_of(HookView.of(hook)) for hook in store.triggers.hooks()]

    def rotate(self, name: str) -> Json:
        with opened(self.db, "write") as store:
            hook, secret = hooks.rotate(store, safe_of(store), name, self.clock.now())
        return json_of(HookView.of(hook)) | {"secret": secret}

    def delete(self, name: str) -> None:
        with opened(self.db, "write") as store:
            hooks.delete(store, name)
