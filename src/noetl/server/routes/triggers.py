"""/schedules and /hooks: they start playbooks by time or by a signed request."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Collection
from urllib.parse import quote

import msgspec
from msgspec.structs import asdict
from starlette.responses import Response

from noetl.errors import AuthError, Conflict, NotFound, PlaybookInvalid, UsageError
from noetl.json_errors import NOT_JSON
from noetl.keychain.safe import Safe
from noetl.model.actor import Actor
from noetl.model.identity import uuid7
from noetl.server.endpoint import ApiCall, Routes, created, json_response
from noetl.server.parameters import JSON, Header, ItemList, ItemPage, Nothing, PageQuery, RequestBody, VersionNumber
from noetl.server.problems import Refused
from noetl.server.record_views import HookView, ScheduleView, StoredSchedule, schedule_view
from noetl.server.roles import PREFIX
from noetl.store.triggers import Firing, Hook, Schedule
from noetl.triggers import hooks, schedules
from noetl.triggers.schedules import ScheduleRequest

routes = Routes()

IDEMPOTENCY_KEY = Header("Idempotency-Key", "Requests with the same key count once.")


class NewSchedule(ScheduleRequest, frozen=True, kw_only=True):
    """A schedule to create."""

    name: str


@routes.add("POST", "/schedules", responses={201: StoredSchedule}, operation="schedules_add")
async def add_schedule(call: ApiCall, body: NewSchedule) -> Response:
    """Create a schedule. Its playbook must be registered."""
    schedule = schedules.new_schedule(body.name, body, call.api.clock.now())
    warnings = await _input_warnings(call, body)
    if not await call.in_store(call.api.store.triggers.add_schedule, schedule):
        raise Conflict(f"schedule {body.name!r} exists; use --replace (PUT in the API) to change it")
    view = StoredSchedule(**asdict(await _view(call, schedule)), warnings=warnings)
    return created(view, f"/schedules/{quote(schedule.name)}")


async def _input_warnings(call: ApiCall, request: ScheduleRequest) -> list[str]:
    digest = await call.api.playbooks.check_registered(request.path, request.version)
    loaded = await call.api.playbooks.loaded.load(digest)
    return schedules.input_warnings(request, loaded.playbook, loaded.inputs)


class SchedulePage(ItemPage[ScheduleView, str], frozen=True):
    """Schedules by name; `next` is the cursor of the next page."""


@routes.add("GET", "/schedules", operation="schedules_list_all")
async def list_schedules(call: ApiCall, query: PageQuery) -> SchedulePage:
    """Schedules by name."""
    page = await call.in_store(call.api.store.triggers.schedules, query.cursor, query.limit + 1)
    following = page[query.limit - 1].name if len(page) > query.limit else None
    store, listed = call.api.store, page[: query.limit]
    current = await call.in_store(lambda: [schedules.refreshed(store, schedule) for schedule in listed])
    return SchedulePage(list(map(schedule_view, current)), following)


@routes.add("GET", "/schedules/{name}", operation="schedules_show_one")
async def show_schedule(call: ApiCall) -> ScheduleView:
    """A schedule: its next firing, and the outcomes of its latest ones."""
    return await _view(call, await _schedule(call))


@routes.add("PUT", "/schedules/{name}", responses={200: StoredSchedule, 201: StoredSchedule}, operation="schedules_put")
async def put_schedule(call: ApiCall, body: ScheduleRequest) -> Response:
    """Change or create a schedule. If its times stay the same, its next firing does, too."""
    name, api = call.path_params["name"], call.api
    warnings = await _input_warnings(call, body)
    schedule, is_new = await call.in_store(schedules.put_in, api.store, name, body, api.clock.now())
    view = StoredSchedule(**asdict(await _view(call, schedule)), warnings=warnings)
    return created(view, f"/schedules/{quote(name)}") if is_new else json_response(view)


@routes.add("DELETE", "/schedules/{name}", operation="schedules_delete")
async def delete_schedule(call: ApiCall) -> None:
    """Delete a schedule. Executions that it has started continue."""
    if not await call.in_store(call.api.store.triggers.delete_schedule, call.path_params["name"]):
        raise NotFound(f"schedule {call.path_params['name']!r} not found: `noetl schedule list` lists all schedules")


@routes.add("POST", "/schedules/{name}/pause", optional=True, operation="schedules_pause")
async def pause_schedule(call: ApiCall, body: Nothing) -> ScheduleView:
    """Start nothing until it is resumed."""
    return await _view(call, await _change(call, lambda old, _, now: schedules.paused(old, now)))


@routes.add("POST", "/schedules/{name}/resume", optional=True, operation="schedules_resume")
async def resume_schedule(call: ApiCall, body: Nothing) -> ScheduleView:
    """Continue with the next firing. Firings during the pause are not made up for."""
    return await _view(call, await _change(call, lambda old, _, now: schedules.resumed(old, now)))


class Triggered(msgspec.Struct, frozen=True):
    """The execution of the firing. A queued one starts when the one before it has ended."""

    execution_id: str
    queued: bool


@routes.add(
    "POST",
    "/schedules/{name}/trigger",
    optional=True,
    headers=(IDEMPOTENCY_KEY,),
    responses={202: Triggered},
    operation="schedules_trigger",
)
async def trigger_schedule(call: ApiCall, body: Nothing) -> Response:
    """Fire now, in addition to the times of the schedule, even if it is paused. Its overlap policy applies."""
    firing = Firing(round(call.api.clock.now(), 3), secrets.token_hex(8), call.caller.actor)
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
        raise NotFound(f"schedule {call.path_params['name']!r} not found: `noetl schedule list` lists all schedules")
    return schedule


async def _view(call: ApiCall, schedule: Schedule) -> ScheduleView:
    return schedule_view(await call.in_store(schedules.refreshed, call.api.store, schedule))


DECOY = hooks.Decoy()
MAX_DELIVERY_LENGTH = 200
SIGNED = (
    Header("X-Noetl-Timestamp", "The signed time, in seconds since 1970; at most five minutes old."),
    Header("X-Noetl-Signature", "`sha256=` and the HMAC of `TIMESTAMP.BODY` under the hook's secret, in hex."),
    Header("X-Noetl-Delivery", "The sender's id of the delivery; deliveries with the same id count once."),
)


class Delivered(msgspec.Struct, frozen=True):
    """The execution that a delivery has started; `duplicate` if the delivery was received before. `warnings` are
    about the payload."""

    execution_id: str
    duplicate: bool
    warnings: list[str]


@routes.add("POST", "/hooks/{name}", raw=(JSON,), headers=SIGNED, status=202, any_query=True, operation="hooks_deliver")
async def deliver(call: ApiCall) -> Delivered:
    """Start the playbook of a hook. The body is its payload; the signature authorizes the sender."""
    hook, signature, body = await _verified(call)
    try:
        payload = hooks.payload_of(body)
    except NOT_JSON as error:
        raise Refused(400, f"the request body is not valid JSON: {error}") from None
    delivery = call.headers.get("x-noetl-delivery", "")
    if len(delivery) > MAX_DELIVERY_LENGTH:
        raise Refused(422, f"X-Noetl-Delivery must have at most {MAX_DELIVERY_LENGTH} characters")
    api, now = call.api, call.api.clock.now()
    execution = new = uuid7(now, os.urandom(8))
    for key in hooks.deliveries(signature, delivery, body):  # any server may have received it before
        stored = await call.in_store(api.store.remember, f"hook {hook.name}", key, execution.encode(), now)
        execution = execution if stored is None else stored.decode()
    try:
        warnings = await api.start_once(execution, hook.path, hook.version, payload, {}, Actor("hook", hook.name))
    except (PlaybookInvalid, UsageError) as error:  # for the operator; the sender gets it, too
        api.telemetry.log.write("error", "the playbook of a hook refused a payload", hook=hook.name, reason=str(error))
        raise
    return Delivered(execution, execution != new, warnings)


async def _verified(call: ApiCall) -> tuple[Hook, str, bytes]:
    """The hook, the signature and the body, if the signature is valid. All errors have the same answer: who cannot sign
    learns nothing. Invalid headers are answered before the body is read; the body for a hook that does not exist is
    read and not stored."""
    timestamp, signature_header = call.headers.get("x-noetl-timestamp", ""), call.headers.get("x-noetl-signature", "")
    if not hooks.is_plausible(timestamp, signature_header, call.api.clock.now()):
        raise _rejected(call)

    def opened_hook(safe: Safe) -> tuple[Hook, str] | None:
        name = call.path_params["name"]
        try:
            return hooks.opened(call.api.store, safe, name, DECOY)
        except AuthError as error:  # for the operator; the sender cannot do anything about it
            call.api.telemetry.log.write("error", "cannot read the secret of a hook", hook=name, reason=str(error))
            return None

    safe = call.api.settings.safe
    opened = None if safe is None else await call.in_store(opened_hook, safe)
    hook, secret = opened or (None, hooks.UNKNOWN)
    signature = hooks.signature_of(secret, timestamp)
    body = b"" if hook is None else await call.body()
    signature.update(body)
    if hook is None:
        async for part in call.stream():
            signature.update(part)
    if not hooks.fits(signature, signature_header) or hook is None:
        raise _rejected(call)
    return hook, signature.hexdigest(), body


def _rejected(call: ApiCall) -> Refused:
    call.api.telemetry.metrics.count("noetl_deliveries_refused_total")
    detail = "delivery rejected: unknown hook, invalid signature, or timestamp more than five minutes off"
    return Refused(401, detail, kind="signature", headers={"WWW-Authenticate": "Noetl-Signature"})


class HookPage(ItemList[HookView], frozen=True):
    pass


@routes.add("GET", "/hooks", operation="hooks_list_all")
async def list_hooks(call: ApiCall) -> HookPage:
    """The hooks by name, without their secrets."""
    return HookPage(list(map(HookView.of, await call.in_store(call.api.store.triggers.hooks))))


class HookRequest(RequestBody, frozen=True):
    """The playbook that a hook starts. Without `secret` a new hook gets a random one, and an existing one keeps its."""

    path: str
    version: VersionNumber | None = None
    secret: str | None = None


class HookSecret(HookView, frozen=True):
    """A hook. `secret` is a generated secret, which is sent only once; else null."""

    secret: str | None


@routes.add("PUT", "/hooks/{name}", responses={200: HookSecret, 201: HookSecret}, secret=True, operation="hooks_put")
async def put_hook(call: ApiCall, body: HookRequest) -> Response:
    """Create or change a hook. A generated secret is sent only in this response."""
    api, name = call.api, call.path_params["name"]
    await api.playbooks.check_registered(body.path, body.version)
    arguments = api.store, api.safe(), name, body.path, body.version, body.secret, api.clock.now()
    hook, secret, is_new = await call.in_store(hooks.put, *arguments)
    view = HookSecret.of(hook, secret=secret)
    return created(view, f"/hooks/{name}") if is_new else json_response(view)


@routes.add("DELETE", "/hooks/{name}", operation="hooks_delete")
async def delete_hook(call: ApiCall) -> None:
    """Delete a hook and its secret."""
    await call.in_store(hooks.delete, call.api.store, call.path_params["name"])


@routes.add("POST", "/hooks/{name}/rotate", optional=True, secret=True, operation="hooks_rotate")
async def rotate_secret(call: ApiCall, body: Nothing) -> HookSecret:
    """Replace the secret of a hook. The old one is invalid at once."""
    api = call.api
    hook, secret = await call.in_store(hooks.rotate, api.store, api.safe(), call.path_params["name"], api.clock.now())
    return HookSecret.of(hook, secret=secret)
