"""Starts executions under ids that were chosen before, so that a repeated start is the same execution."""

from __future__ import annotations

import os
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import msgspec

from noetl.model.identity import uuid7
from noetl.server.call import Call
from noetl.server.endpoint import Header
from noetl.server.problems import Refused

if TYPE_CHECKING:
    from noetl.server.api import Api

PREFER = Header("Prefer", "`wait=SECONDS`: respond when the execution has ended, or after that time (at most 60).")
IDEMPOTENCY_KEY = Header("Idempotency-Key", "Requests with the same key and content count once.")
MAX_KEY_LENGTH = 200


async def start_once(
    api: Api, execution: str, path: str, version: int | None, payload: dict[str, Any], ctx: dict[str, Any]
) -> None:
    """Start an execution of a registered playbook, unless it was started before; NoetlError if it cannot start."""
    if await is_started(api, execution):
        return
    digest = await api.playbooks.registered(path, version)
    await api.playbooks.check_keychain(api.runtime.playbooks.get(digest).playbook)
    if execution in api.runtime.executions:  # started in the meantime
        return
    await api.runtime.start(digest, payload, ctx, execution)


async def is_started(api: Api, execution: str) -> bool:
    return execution in api.runtime.executions or bool(await api.in_store(api.store.seq, execution))


async def execution_id(call: Call, operation: str = "") -> str:
    """A new id, or that of an earlier request with the same Idempotency-Key, which is for one operation with one
    request body."""
    now = call.api.clock.now()
    execution = uuid7(now, os.urandom(8))
    if "idempotency-key" not in call.headers:
        return execution
    content = sha256(operation.encode() + await call.body()).hexdigest()
    stored = await remembered(call, "executions", msgspec.json.encode([execution, content]))
    if stored is None:
        return execution
    earlier, earlier_content = msgspec.json.decode(stored, type=tuple[str, str])
    if earlier_content != content:
        raise Refused(422, "this Idempotency-Key was used with another request", kind="idempotency-key-reused")
    return earlier


async def remembered(call: Call, scope: str, record: bytes) -> bytes | None:
    """Store a record under the caller's Idempotency-Key; returns the one of an earlier request."""
    key = call.headers["idempotency-key"]
    if not key or len(key) > MAX_KEY_LENGTH or not key.isprintable():
        raise Refused(422, f"Idempotency-Key must have 1 to {MAX_KEY_LENGTH} printable characters")
    api = call.api
    return await api.in_store(api.store.remember, f"{scope} {call.caller.key}", key, record, api.clock.now())
