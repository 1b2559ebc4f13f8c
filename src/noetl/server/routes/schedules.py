from __future__ import annotations

import secrets
from collections.abc import Callable, Collection
from urllib.parse import quote

import msgspec
from starlette.responses import Response

from noetl.errors import Conflict, NotFound
from noetl.server.endpoint import ApiCall, Header, Routes, created, json_response
from noetl.server.record_views import ScheduleView, schedule_view
from noetl.server.roles import PREFIX
from noetl.server.schema import ItemPage, Nothing, PageQuery
from noetl.store.triggers import Firing, Schedule
from noetl.triggers import schedules
from noetl.triggers.schedules import ScheduleRequest

routes = Routes()

IDEMPOTENCY_KEY = Header("Idempotency-Key", "Requests with the same key count once.")


class NewSchedule(ScheduleRequest, frozen=True, kw_only=True):
    """A schedule to create."""

    name: str


@routes.add("POST", "/schedules", answers={201: ScheduleView})
async def add(call: ApiCall, body: NewSchedule) -> Response:
    """Create a schedule. Its playbook must be registered."""
    schedule = schedules.made(body.name, body, call.api.clock.now())
    await call.api.playbooks.check_registered(body.path, body.version)
    if not await call.in_store(call.api.store.triggers.add_schedule, schedule):
        raise Conflict(f"schedule {body.name!r} exists; use PUT to change it")
    return created(await _view(call, schedule), f"/schedules/{quote(schedule.name)}")


class SchedulePage(ItemPage[ScheduleView, str], frozen=True):
    """Schedules by name; `next` is the cursor of the next page."""


@routes.add("GET", "/schedules")
async def list_all(call: ApiCall, query: PageQuery) -> SchedulePage:
    """Schedules by name."""
    page = await call.in_store(call.api.store.triggers.schedules, query.cursor, query.limit + 1)
    following = page[query.limit - 1].name if len(page) > query.limit else None
    store, listed = call.api.store, page[: query.limit]
    current = await call.in_store(lambda: [schedules.refreshed(store, schedule) for schedule in listed])
    return SchedulePage(list(map(schedule_view, current)), following)


@routes.add("GET", "/schedules/{name}")
async def show_one(call: ApiCall) -> ScheduleView:
    """A schedule: its next firing, and the outcomes of its latest ones."""
    return await _view(call, await _schedule(call))


@routes.add("PUT", "/schedules/{name}", answers={200: ScheduleView, 201: ScheduleView})
async def put(call: ApiCall, body: ScheduleRequest) -> Response:
    """Change or create a schedule. If its times stay the same, its next firing does, too."""
    name, api = call.path_params["name"], call.api
    await call.api.playbooks.check_registered(body.path, body.version)
    schedule, is_new = await call.in_store(schedules.put_in, api.store, name, body, api.clock.now())
    view = await _view(call, schedule)
    return created(view, f"/schedules/{quote(name)}") if is_new else json_response(view)


@routes.add("DELETE", "/schedules/{name}")
async def delete(call: ApiCall) -> None:
    """Delete a schedule. Executions that it has started continue."""
    if not await call.in_store(call.api.store.triggers.delete_schedule, call.path_params["name"]):
        raise NotFound(f"there is no schedule {call.path_params['name']!r}")


@routes.add("POST", "/schedules/{name}/pause", optional=True)
async def pause(call: ApiCall, body: Nothing) -> ScheduleView:
    """Start nothing until it is resumed."""
    return await _view(call, await _change(call, lambda old, _, now: schedules.paused(old, now)))


@routes.add("POST", "/schedules/{name}/resume", optional=True)
async def resume(call: ApiCall, body: Nothing) -> ScheduleView:
    """Continue with the next firing. Firings during the pause are not made up for."""
    return await _view(call, await _change(call, lambda old, _, now: schedules.resumed(old, now)))


class Triggered(msgspec.Struct, frozen=True):
    """The execution of the firing. A queued one starts when the one before it has ended."""

    execution_id: str
    queued: bool


@routes.add("POST", "/schedules/{name}/trigger", optional=True, headers=(IDEMPOTENCY_KEY,), answers={202: Triggered})
async def trigger(call: ApiCall, body: Nothing) -> Response:
    """Fire now, in addition to the times of the schedule, even if it is paused. Its overlap policy applies."""
    firing = Firing(round(call.api.clock.now(), 3), secrets.token_hex(8))
    if "idempotency-key" in call.headers:
        schedule = await _schedule(call)
        if (stored := await call.remember(f"schedule {schedule.id}", msgspec.json.encode(firing))) is not None:
            firing = msgspec.json.decode(stored, type=Firing)
    schedule = await _change(call, lambda old, is_open, now: schedules.triggered(old, firing, is_open, now))
    if firing in schedule.starting and (error := await call.api.scheduler.start(schedule, firing)) is not None:
        raise error
    execution = firing.execution(schedule.id)
    location = {"Location": f"{PREFIX}/executions/{execution}"}
    return json_response(Triggered(execution, firing in schedule.queue), 202, location)


async def _change(call: ApiCall, change: Callable[[Schedule, Collection[str], float], Schedule]) -> Schedule:
    api, name, now = call.api, call.path_params["name"], call.api.clock.now()
    return await call.in_store(schedules.change_in, api.store, name, lambda old, is_open: change(old, is_open, now))


async def _schedule(call: ApiCall) -> Schedule:
    schedule = await call.in_store(call.api.store.triggers.schedule, call.path_params["name"])
    if schedule is None:
        raise NotFound(f"there is no schedule {call.path_params['name']!r}")
    return schedule


async def _view(call: ApiCall, schedule: Schedule) -> ScheduleView:
    return schedule_view(await call.in_store(schedules.refreshed, call.api.store, schedule))
