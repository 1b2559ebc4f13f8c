"""/hooks: signed requests that start a playbook, and their administration."""

from __future__ import annotations

import os

import msgspec
from starlette.responses import Response

from noetl.errors import AuthError
from noetl.keychain.safe import Safe
from noetl.model.identity import uuid7
from noetl.server.endpoint import JSON, ApiCall, Header, Routes, created, json_response
from noetl.server.problems import Refused
from noetl.server.record_views import HookView
from noetl.server.schema import ItemList, Nothing, RequestBody, VersionNumber
from noetl.store.triggers import Hook
from noetl.triggers import hooks

routes = Routes()

DECOY = hooks.Decoy()
MAX_DELIVERY_LENGTH = 200
SIGNED = (
    Header("X-Noetl-Timestamp", "The signed time, in seconds since 1970; at most five minutes old."),
    Header("X-Noetl-Signature", "`sha256=` and the HMAC of `TIMESTAMP.BODY` under the hook's secret, in hex."),
    Header("X-Noetl-Delivery", "The sender's id of the delivery; deliveries with the same id count once."),
)


class Delivered(msgspec.Struct, frozen=True):
    """The execution that a delivery has started; `duplicate` if the delivery was received before."""

    execution_id: str
    duplicate: bool


@routes.add("POST", "/hooks/{name}", raw=(JSON,), headers=SIGNED, status=202)
async def deliver(call: ApiCall) -> Delivered:
    """Start the playbook of a hook. The body is its payload; the signature authorizes the sender."""
    hook, signature, body = await _verified(call)
    try:
        payload = hooks.payload_of(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Refused(400, f"the request body is not valid JSON: {error}") from None
    delivery = call.headers.get("x-noetl-delivery", "")
    if len(delivery) > MAX_DELIVERY_LENGTH:
        raise Refused(422, f"X-Noetl-Delivery must have at most {MAX_DELIVERY_LENGTH} characters")
    api, now = call.api, call.api.clock.now()
    execution = new = uuid7(now, os.urandom(8))
    for key in hooks.deliveries(signature, delivery, body):  # any server may have received it before
        stored = await call.in_store(api.store.remember, f"hook {hook.name}", key, execution.encode(), now)
        execution = execution if stored is None else stored.decode()
    await api.start_once(execution, hook.path, hook.version, payload, {})
    return Delivered(execution, execution != new)


async def _verified(call: ApiCall) -> tuple[Hook, str, bytes]:
    """The hook, the signature and the body, if the signature is valid. All errors have the same answer: who cannot sign
    learns nothing. Invalid headers are answered before the body is read; the body for a hook that does not exist is
    read and not stored."""
    timestamp, sent = call.headers.get("x-noetl-timestamp", ""), call.headers.get("x-noetl-signature", "")
    if not hooks.is_plausible(timestamp, sent, call.api.clock.now()):
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
    if not hooks.fits(signature, sent) or hook is None:
        raise _rejected(call)
    return hook, signature.hexdigest(), body


def _rejected(call: ApiCall) -> Refused:
    call.api.telemetry.metrics.count("noetl_deliveries_refused_total")
    detail = "delivery rejected: unknown hook, invalid signature, or timestamp more than five minutes off"
    return Refused(401, detail, kind="signature", headers={"WWW-Authenticate": "Noetl-Signature"})


class HookPage(ItemList[HookView], frozen=True):
    pass


@routes.add("GET", "/hooks")
async def list_all(call: ApiCall) -> HookPage:
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


@routes.add("PUT", "/hooks/{name}", answers={200: HookSecret, 201: HookSecret})
async def put(call: ApiCall, body: HookRequest) -> Response:
    """Create or change a hook. A generated secret is sent only in this response."""
    api, name = call.api, call.path_params["name"]
    await api.playbooks.check_registered(body.path, body.version)
    arguments = api.store, api.safe(), name, body.path, body.version, body.secret, api.clock.now()
    hook, secret, is_new = await call.in_store(hooks.put, *arguments)
    view = HookSecret.of(hook, secret=secret)
    return created(view, f"/hooks/{name}") if is_new else json_response(view)


@routes.add("DELETE", "/hooks/{name}")
async def delete(call: ApiCall) -> None:
    """Delete a hook and its secret."""
    await call.in_store(hooks.delete, call.api.store, call.path_params["name"])


@routes.add("POST", "/hooks/{name}/rotate", optional=True)
async def rotate(call: ApiCall, body: Nothing) -> HookSecret:
    """Replace the secret of a hook. The old one is invalid at once."""
    api = call.api
    hook, secret = await call.in_store(hooks.rotate, api.store, api.safe(), call.path_params["name"], api.clock.now())
    return HookSecret.of(hook, secret=secret)
