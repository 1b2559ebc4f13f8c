"""/hooks: signed requests that start a playbook, and who looks after them."""

from __future__ import annotations

import os

import msgspec
from starlette.responses import Response

from noetl.errors import AuthError
from noetl.keychain.safe import Safe
from noetl.model.identity import uuid7
from noetl.server import hooks
from noetl.server.begin import begin
from noetl.server.call import MIB, Call, Query, Routes, json_response
from noetl.server.playbooks import unknown
from noetl.server.problems import Refused
from noetl.server.roles import PREFIX
from noetl.server.wire import Delivered, HookPage, HookRequest, HookSecret, Nothing
from noetl.store.triggers import Hook

routes = Routes()

DELIVERY_LENGTH = 200
SIGNED = (
    Query("X-Noetl-Timestamp", says="Seconds since 1970, as they were signed; five minutes old at most."),
    Query("X-Noetl-Signature", says="`sha256=` and the HMAC of `TIMESTAMP.BODY` under the hook's secret, in hex."),
    Query("X-Noetl-Delivery", says="The sender's own id of the delivery: sent again, it counts once."),
)


@routes.add("POST", "/hooks/{name}", body=bytes, limit=MIB, headers=SIGNED, answers={202: Delivered})
async def deliver(call: Call) -> Response:
    """Start the playbook of a hook. The body is its payload; the signature decides who may."""
    api, name = call.api, call.params["name"]
    hook, signed, body = await _signed(call, name)
    try:
        payload = hooks.payload_of(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Refused(400, f"the content is no valid JSON: {error}") from None
    execution, duplicate = await _once(call, name, signed, body)
    await begin(api, execution, hook.path, hook.version, payload, {})
    return json_response({"execution_id": execution, "duplicate": duplicate}, 202)


async def _signed(call: Call, name: str) -> tuple[Hook, str, bytes]:
    """The hook, the signature and the body, if they fit. All that is wrong is answered alike: who can't sign learns
    nothing. Headers that can't be right are answered before the body is read; the body for a hook that does not exist
    is read and not kept."""
    timestamp, given = call.header(b"x-noetl-timestamp"), call.header(b"x-noetl-signature")
    if not hooks.is_plausible(timestamp, given, call.api.clock.now()):
        raise _unsigned(call)
    found = await call.in_store(_opened, call, name)
    if found is None:
        signature = hooks.Signature(hooks.UNKNOWN, timestamp)
        async for part in call.parts():
            signature.update(part)
        signature.fits(given)
        raise _unsigned(call)
    hook, secret = found
    body = await call.content()
    signature = hooks.Signature(secret, timestamp, body)
    if not signature.fits(given):
        raise _unsigned(call)
    return hook, signature.hex(), body


def _unsigned(call: Call) -> Refused:
    call.api.metrics.count("noetl_deliveries_refused_total")
    return Refused(
        401,
        "delivery rejected: unknown hook, invalid signature, or timestamp more than five minutes off",
        kind="signature",
        headers={"WWW-Authenticate": "Noetl-Signature"},
    )


def _opened(call: Call, name: str) -> tuple[Hook, str] | None:
    safe = call.api.settings.safe
    try:
        return None if safe is None else hooks.opened(call.api.store, safe, name, call.api.decoy)
    except AuthError as error:  # for whoever runs the server; the sender can't do anything about it
        call.api.log.write("error", "the secret of a hook can't be read", hook=name, reason=str(error))
        return None


async def _once(call: Call, name: str, signed: str, body: bytes) -> tuple[str, bool]:
    """The execution that belongs to a delivery, and whether it has come before, to whichever server."""
    api, delivery = call.api, call.header(b"x-noetl-delivery")
    if len(delivery) > DELIVERY_LENGTH:
        raise Refused(422, f"X-Noetl-Delivery has at most {DELIVERY_LENGTH} characters")
    now = api.clock.now()
    execution = ours = uuid7(now, os.urandom(8))
    for key in hooks.deliveries(signed, delivery, body):
        kept = await call.in_store(api.store.remember, f"hook {name}", key, execution.encode(), now)
        execution = execution if kept is None else kept.decode()
    return execution, execution != ours


# -- looking after them ---------------------------------------------------------------------------------------------


@routes.add("GET", "/hooks", answers={200: HookPage})
async def list_all(call: Call) -> Response:
    """The hooks by name, without their secrets."""
    found = await call.in_store(call.api.store.triggers.hooks)
    return json_response({"items": list(map(hooks.shown, found))})


@routes.add("PUT", "/hooks/{name}", body=HookRequest, answers={200: HookSecret, 201: HookSecret})
async def put(call: Call) -> Response:
    """Keep a hook. A secret that is made for it is said this once."""
    request, api = await call.read(HookRequest), call.api
    path, version = request.path, request.version
    if "\0" in path or await call.in_store(api.store.find, path, version) is None:
        raise unknown(path, version)
    safe, name, now = _safe(call), call.params["name"], api.clock.now()
    hook, made, new = await call.in_store(hooks.put, api.store, safe, name, path, version, request.secret, now)
    location = {"Location": f"{PREFIX}/hooks/{name}"} if new else None
    return json_response(hooks.shown(hook) | {"secret": made}, 201 if new else 200, location)


@routes.add("DELETE", "/hooks/{name}", answers={204: None})
async def delete(call: Call) -> Response:
    """Forget a hook and its secret."""
    await call.in_store(hooks.delete, call.api.store, call.params["name"])
    return Response(status_code=204)


@routes.add("POST", "/hooks/{name}/rotate", body=Nothing, optional=True, answers={200: HookSecret})
async def rotate(call: Call) -> Response:
    """Give a hook another secret. The one before it ends at once."""
    await call.read(Nothing)
    api = call.api
    hook, made = await call.in_store(hooks.rotate, api.store, _safe(call), call.params["name"], api.clock.now())
    return json_response(hooks.shown(hook) | {"secret": made})


def _safe(call: Call) -> Safe:
    if call.api.settings.safe is None:
        raise Refused(503, "this server has no master key to seal secrets with")
    return call.api.settings.safe
