"""Schedules and hooks of a database. A server on the database fires them."""

from __future__ import annotations

import secrets
from typing import Literal

import msgspec
from msgspec.structs import replace as replaced

from noetl.client.client import ALL, Items, Json
from noetl.client.database import json_of, local_actor, opened, registered, safe_of
from noetl.client.local import Local
from noetl.dsl.compile import load
from noetl.errors import Conflict, NotFound, UsageError
from noetl.server.record_views import HookView, schedule_view
from noetl.store.store import Store
from noetl.store.triggers import Firing, Schedule
from noetl.tools.registry import KINDS
from noetl.triggers import hooks, schedules


class LocalSchedules(Local):
    def put(self, name: str, body: Json, replace: bool) -> Json:
        """Conflict if the schedule exists, unless `replace` is set."""
        try:
            request = msgspec.convert(body, schedules.ScheduleRequest)
        except msgspec.ValidationError as error:
            raise UsageError(str(error)) from None
        now = self.clock.now()
        schedule = schedules.new_schedule(name, request, now)
        with opened(self.db, "write") as store:
            stored = store.playbook(registered(store, request.path, request.version))
            assert stored is not None
            loaded = load(*stored, KINDS)
            warnings = schedules.input_warnings(request, loaded.require(), loaded.inputs)
            if replace:
                schedule, _ = schedules.put_in(store, name, request, now)
            elif not store.triggers.add_schedule(schedule):
                raise Conflict(f"schedule {name!r} exists; use --replace to change it")
            return _view(store, schedule) | {"warnings": warnings}

    def list(self) -> Items:
        with opened(self.db) as store:
            return [_view(store, schedule) for schedule in store.triggers.schedules(limit=ALL)]

    def get(self, name: str) -> Json:
        with opened(self.db) as store:
            if (schedule := store.triggers.schedule(name)) is None:
                raise _no_schedule(name)
            return _view(store, schedule)

    def act(self, name: str, verb: str) -> Json:
        """Pause, resume or trigger it. A server starts the run of a trigger; it is `queued` if it has to wait for the
        previous one."""
        now = self.clock.now()
        firing = Firing(round(now, 3), secrets.token_hex(8), local_actor())
        changes: dict[str, schedules.Change] = {
            "pause": lambda old, _: schedules.paused(old, now),
            "resume": lambda old, _: schedules.resumed(old, now),
            "trigger": lambda old, is_open: replaced(schedules.triggered(old, firing, is_open, now), look=now),
        }
        with opened(self.db, "write") as store:
            schedule = schedules.change_in(store, name, changes[verb])
            if verb == "trigger":
                return {"execution_id": firing.execution(schedule.id), "queued": firing in schedule.queue}
            return _view(store, schedule)

    def delete(self, name: str) -> None:
        with opened(self.db, "write") as store:
            if not store.triggers.delete_schedule(name):
                raise _no_schedule(name)


def _view(store: Store, schedule: Schedule) -> Json:
    return json_of(schedule_view(schedules.refreshed(store, schedule)))


def _no_schedule(name: str) -> NotFound:
    return NotFound(f"schedule {name!r} not found: `noetl schedule list` lists all schedules")


class LocalHooks(Local):
    def put(self, name: str, body: Json) -> Json:
        path, version = body["path"], body["version"]
        with opened(self.db, "write") as store:
            registered(store, path, version)
            hook, generated, _ = hooks.put(store, safe_of(store), name, path, version, body["secret"], self.clock.now())
        return json_of(HookView.of(hook)) | {"secret": generated}

    def list(self) -> Items:
        with opened(self.db) as store:
            return [json_of(HookView.of(hook)) for hook in store.triggers.hooks()]

    def act(self, name: str, verb: Literal["rotate"]) -> Json:
        with opened(self.db, "write") as store:
            hook, secret = hooks.rotate(store, safe_of(store), name, self.clock.now())
        return json_of(HookView.of(hook)) | {"secret": secret}

    def delete(self, name: str) -> None:
        with opened(self.db, "write") as store:
            hooks.delete(store, name)
