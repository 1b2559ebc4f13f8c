"""/schedules: playbooks that start by the clock."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Collection
from urllib.parse import quote

import msgspec
from starlette.responses import Response

from noetl.errors import Conflict, NotFound
from noetl.server import schedules
from noetl.server.call import MIB, Call, Query, Routes, json_response
from noetl.server.playbooks import unknown
from noetl.server.problems import Refused
from noetl.server.roles import PREFIX
from noetl.server.wire import (
    NewSchedule,
    Nothing,
    SchedulePage,
    ScheduleRequest,
    ScheduleView,
    Triggered,
)
from noetl.store.triggers import Firing, Schedule

routes = Routes()

ONCE = Query("Idempotency-Key", says="Sent again with the same key, the request counts once.")
KEY_LENGTH = 200


@routes.add("POST", "/schedules", body=NewSchedule, limit=MIB, answers={201: ScheduleView})
async def add(call: Call) -> Response:
    """Make a schedule. Its playbook must be registered."""
    request = await call.read(NewSchedule)
    made = schedules.made(request.name, request, call.api.clock.now())
    await _check_path(call, request)
    if not await call.in_store(call.api.store.triggers.add_schedule, made):
        raise Conflict(f"there is a schedule {request.name!r} already: PUT changes it")
    return await _answer(call, made, 201)


@routes.add(
    "GET",
    "/schedules",
    query=(
        Query("cursor", says="Where the page before this one ended."),
        Query("limit", "integer", "How many at most.", 1, 1_000),
    ),
    answers={200: SchedulePage},
)
async def list_all(call: Call) -> Response:
    """Schedules by name."""
    limit = call.number("limit", 100)
    found = await call.in_store(call.api.store.triggers.schedules, call.text("cursor"), limit + 1)
    more = found[limit - 1].name if len(found) > limit else None
    items = await call.in_store(lambda: [schedules.shown(call.api.store, one) for one in found[:limit]])
    return json_response({"items": items, "next": more})


@routes.add("GET", "/schedules/{name}", answers={200: ScheduleView})
async def show_one(call: Call) -> Response:
    """A schedule: when it fires next, and what became of its latest firings."""
    return await _answer(call, await _found(call), 200)


@routes.add("PUT", "/schedules/{name}", body=ScheduleRequest, limit=MIB, answers={200: ScheduleView, 201: ScheduleView})
async def put(call: Call) -> Response:
    """Change a schedule, or make it. If it fires at the same times as before, it goes on where it was."""
    request, name, api = await call.read(ScheduleRequest), call.params["name"], call.api
    await _check_path(call, request)
    one, new = await call.in_store(schedules.put_in, api.store, name, request, api.clock.now())
    return await _answer(call, one, 201 if new else 200)


@routes.add("DELETE", "/schedules/{name}", answers={204: None})
async def delete(call: Call) -> Response:
    """Forget a schedule. Executions that it has started go on."""
    name = call.params["name"]
    if not await call.in_store(call.api.store.triggers.delete_schedule, name):
        raise NotFound(f"there is no schedule {name!r}")
    return Response(status_code=204)


@routes.add("POST", "/schedules/{name}/pause", body=Nothing, optional=True, answers={200: ScheduleView})
async def pause(call: Call) -> Response:
    """Start nothing until it is resumed."""
    await call.read(Nothing)
    return await _changed(call, schedules.paused)


@routes.add("POST", "/schedules/{name}/resume", body=Nothing, optional=True, answers={200: ScheduleView})
async def resume(call: Call) -> Response:
    """Go on with the next firing. What fell into the pause is not made up for."""
    await call.read(Nothing)
    return await _changed(call, schedules.resumed)


@routes.add("POST", "/schedules/{name}/trigger", body=Nothing, optional=True, headers=(ONCE,), answers={202: Triggered})
async def trigger(call: Call) -> Response:
    """Fire now, beside the times of the schedule, also if it is paused. Its overlap policy holds."""
    await call.read(Nothing)
    api = call.api
    firing = await _firing(call)
    now = api.clock.now()
    one = await _change(call, lambda old, is_open: _asked(old, firing, is_open, now))
    if firing in one.starting and (refused := await api.scheduler.start(one, firing)) is not None:
        raise refused
    execution = firing.execution(one.id)
    location = {"Location": f"{PREFIX}/executions/{execution}"}
    return json_response({"execution_id": execution, "queued": firing in one.queue}, 202, location)


def _asked(old: Schedule, firing: Firing, is_open: Collection[str], now: float) -> Schedule:
    execution = firing.execution(old.id)
    known = {fired.execution for fired in old.recent}
    if firing in old.starting or firing in old.queue or execution in known or execution in old.running:
        return msgspec.structs.replace(old, revision=old.revision + 1)  # asked for before, under the same key
    return schedules.asked(old, firing, is_open, now)


async def _firing(call: Call) -> Firing:
    """A firing of its own, or the one that an Idempotency-Key has stood for before."""
    firing = Firing(round(call.api.clock.now(), 3), secrets.token_hex(8))
    if b"idempotency-key" not in call.headers:
        return firing
    key = call.header(b"idempotency-key")
    if not key or len(key) > KEY_LENGTH or not key.isprintable():
        raise Refused(422, f"an Idempotency-Key has 1 to {KEY_LENGTH} printable characters")
    scope = f"schedule {(await _found(call)).id} {call.caller.key}"
    answer = msgspec.json.encode(firing)
    kept = await call.in_store(call.api.store.remember, scope, key, answer, call.api.clock.now())
    return firing if kept is None else msgspec.json.decode(kept, type=Firing)


async def _changed(call: Call, change: Callable[[Schedule, float], Schedule]) -> Response:
    now = call.api.clock.now()
    return await _answer(call, await _change(call, lambda old, _: change(old, now)), 200)


async def _change(call: Call, change: schedules.Change) -> Schedule:
    return await call.in_store(schedules.change_in, call.api.store, call.params["name"], change)


async def _found(call: Call) -> Schedule:
    name = call.params["name"]
    found = await call.in_store(call.api.store.triggers.schedule, name)
    if found is None:
        raise NotFound(f"there is no schedule {name!r}")
    return found


async def _check_path(call: Call, request: ScheduleRequest) -> None:
    """A playbook that is not there now would not be there later either."""
    path = request.path
    if "\0" in path or await call.in_store(call.api.store.find, path, request.version) is None:
        raise unknown(path, request.version)


async def _answer(call: Call, one: Schedule, status: int) -> Response:
    location = {"Location": f"{PREFIX}/schedules/{quote(one.name)}"} if status == 201 else None
    return json_response(await call.in_store(schedules.shown, call.api.store, one), status, location)
