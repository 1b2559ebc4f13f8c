"""/schedules: playbooks that start on a schedule."""

from __future__ import annotations

import secrets
from collections.abc import Collection
from urllib.parse import quote

import msgspec
from starlette.responses import Response

from noetl.errors import Conflict, NotFound
from noetl.server import schedules
from noetl.server.call import Call, json_response
from noetl.server.endpoint import Header, Routes
from noetl.server.models.base import Nothing, Page
from noetl.server.models.schedules import NewSchedule, SchedulePage, ScheduleRequest, ScheduleView, Triggered
from noetl.server.playbooks import unknown
from noetl.server.roles import PREFIX
from noetl.server.routes.executions import idempotency_key
from noetl.store.triggers import Firing, Schedule

routes = Routes()

IDEMPOTENCY_KEY = Header("Idempotency-Key", "Requests with the same key count once.")


@routes.add("POST", "/schedules", answers={201: ScheduleView})
async def add(call: Call, body: NewSchedule) -> Response:
    """Create a schedule. Its playbook must be registered."""
    schedule = schedules.made(body.name, body, call.api.clock.now())
    await _check_path(call, body)
    if not await call.in_store(call.api.store.triggers.add_schedule, schedule):
        raise Conflict(f"schedule {body.name!r} exists; use PUT to change it")
    return await _created(call, schedule)


@routes.add("GET", "/schedules")
async def list_all(call: Call, query: Page) -> SchedulePage:
    """Schedules by name."""
    page = await call.in_store(call.api.store.triggers.schedules, query.cursor, query.limit + 1)
    following = page[query.limit - 1].name if len(page) > query.limit else None
    views = await call.in_store(lambda: [schedules.view(call.api.store, schedule) for schedule in page[: query.limit]])
    return SchedulePage(views, following)


@routes.add("GET", "/schedules/{name}")
async def show_one(call: Call) -> ScheduleView:
    """A schedule: its next firing, and the outcomes of its latest ones."""
    return await _view(call, await _schedule(call))


@routes.add("PUT", "/schedules/{name}", answers={200: ScheduleView, 201: ScheduleView})
async def put(call: Call, body: ScheduleRequest) -> Response:
    """Change or create a schedule. If its times stay the same, its next firing does, too."""
    name, api = call.path_params["name"], call.api
    await _check_path(call, body)
    schedule, is_new = await call.in_store(schedules.put_in, api.store, name, body, api.clock.now())
    return await _created(call, schedule) if is_new else json_response(await _view(call, schedule))


@routes.add("DELETE", "/schedules/{name}")
async def delete(call: Call) -> None:
    """Delete a schedule. Executions that it has started continue."""
    if not await call.in_store(call.api.store.triggers.delete_schedule, call.path_params["name"]):
        raise _not_found(call)


@routes.add("POST", "/schedules/{name}/pause", optional=True)
async def pause(call: Call, body: Nothing) -> ScheduleView:
    """Start nothing until it is resumed."""
    now = call.api.clock.now()
    return await _view(call, await _change(call, lambda old, _: schedules.paused(old, now)))


@routes.add("POST", "/schedules/{name}/resume", optional=True)
async def resume(call: Call, body: Nothing) -> ScheduleView:
    """Continue with the next firing. Firings during the pause are not made up for."""
    now = call.api.clock.now()
    return await _view(call, await _change(call, lambda old, _: schedules.resumed(old, now)))


@routes.add("POST", "/schedules/{name}/trigger", optional=True, headers=(IDEMPOTENCY_KEY,), answers={202: Triggered})
async def trigger(call: Call, body: Nothing) -> Response:
    """Fire now, in addition to the times of the schedule, even if it is paused. Its overlap policy applies."""
    api = call.api
    firing = await _firing(call)
    now = api.clock.now()
    schedule = await _change(call, lambda old, is_open: _triggered(old, firing, is_open, now))
    if firing in schedule.starting and (error := await api.scheduler.start(schedule, firing)) is not None:
        raise error
    execution = firing.execution(schedule.id)
    location = {"Location": f"{PREFIX}/executions/{execution}"}
    return json_response(Triggered(execution, firing in schedule.queue), 202, location)


def _triggered(old: Schedule, firing: Firing, is_open: Collection[str], now: float) -> Schedule:
    execution = firing.execution(old.id)
    fired = {recent.execution for recent in old.recent}
    if firing in old.starting or firing in old.queue or execution in fired or execution in old.running:
        return msgspec.structs.replace(old, revision=old.revision + 1)  # a repeated request
    return schedules.asked(old, firing, is_open, now)


async def _firing(call: Call) -> Firing:
    """A new firing, or the one of an earlier request with the same Idempotency-Key."""
    now = call.api.clock.now()
    firing = Firing(round(now, 3), secrets.token_hex(8))
    if "idempotency-key" not in call.headers:
        return firing
    key = idempotency_key(call)
    scope = f"schedule {(await _schedule(call)).id} {call.caller.key}"
    stored = await call.in_store(call.api.store.remember, scope, key, msgspec.json.encode(firing), now)
    return firing if stored is None else msgspec.json.decode(stored, type=Firing)


async def _change(call: Call, change: schedules.Change) -> Schedule:
    return await call.in_store(schedules.change_in, call.api.store, call.path_params["name"], change)


async def _schedule(call: Call) -> Schedule:
    schedule = await call.in_store(call.api.store.triggers.schedule, call.path_params["name"])
    if schedule is None:
        raise _not_found(call)
    return schedule


def _not_found(call: Call) -> NotFound:
    return NotFound(f"there is no schedule {call.path_params['name']!r}")


async def _check_path(call: Call, request: ScheduleRequest) -> None:
    path = request.path
    if "\0" in path or await call.in_store(call.api.store.find, path, request.version) is None:
        raise unknown(path, request.version)


async def _view(call: Call, schedule: Schedule) -> ScheduleView:
    return await call.in_store(schedules.view, call.api.store, schedule)


async def _created(call: Call, schedule: Schedule) -> Response:
    location = {"Location": f"{PREFIX}/schedules/{quote(schedule.name)}"}
    return json_response(await _view(call, schedule), 201, location)
