"""What has been: why a step went as it did, forks of executions at one of their events, and retries."""

from __future__ import annotations

import os

from starlette.responses import Response

from noetl.model.identity import uuid7
from noetl.runtime import history
from noetl.runtime.history import Edit, Forked
from noetl.runtime.report import explained
from noetl.server import show
from noetl.server.call import Call, Query, Routes, json_response
from noetl.server.problems import Refused
from noetl.server.roles import WRITE
from noetl.server.routes.executions import ONCE, PAYLOAD_BYTES, PREFER, begun, once
from noetl.server.wire import ExecutionView, ExplainView, ForkRequest, ForkView, RetryRequest

routes = Routes()
MAX_NAME = 1_000


@routes.add(
    "GET",
    "/executions/{id}/explain",
    query=(
        Query("step", says="The step.", required=True),
        Query("run", says="One run of it, such as `fetch#2`; all if it is not given."),
    ),
    answers={200: ExplainView},
)
async def explain(call: Call) -> Response:
    """Why a step went as it did: each arc, rule and gate that was looked at, with the values it saw; why a token is
    held, what a join waits for, why a step never ran."""
    api, step, run = call.api, call.text("step"), call.text("run") or None
    if not step or len(step) > MAX_NAME or len(run or "") > MAX_NAME:
        raise Refused(422, "step is the name of a step")
    found, state = await history.explain(api.runtime, call.params["id"], step, run)
    file = api.runtime.loaded_playbook(state.digest).file
    return json_response(explained(found, state, run, file.name, file.places), enc_hook=show.plain)


@routes.add(
    "POST",
    "/executions/{id}/fork",
    body=ForkRequest,
    optional=True,
    limit=PAYLOAD_BYTES,
    headers=(PREFER, ONCE),
    answers={202: ForkView, 200: ExecutionView},
)
async def fork(call: Call) -> Response:
    """Start an execution that begins with the events of this one, up to `at`, and goes on from there. With an edited
    playbook it takes the role author."""
    request = await call.read(ForkRequest)
    edit = await _edit(call, request)
    name = await _name(call, f"fork {call.params['id']} ")
    return await _told(call, await history.fork(call.api.runtime, call.params["id"], name, request.at, edit))


@routes.add(
    "POST",
    "/executions/{id}/retry",
    body=RetryRequest,
    optional=True,
    limit=PAYLOAD_BYTES,
    headers=(PREFER, ONCE),
    answers={202: ForkView, 200: ExecutionView},
)
async def retry(call: Call) -> Response:
    """Take up an execution that has failed or was cancelled, as a fork just before that. What was done stays done. With
    an edited playbook it takes the role author."""
    edit = await _edit(call, await call.read(RetryRequest))
    name = await _name(call, f"retry {call.params['id']} ")
    return await _told(call, await history.retry(call.api.runtime, call.params["id"], name, edit))


async def _edit(call: Call, request: ForkRequest | RetryRequest) -> Edit:
    """What is to be different. The keychain is looked at as for any start."""
    playbooks = call.api.playbooks
    if request.playbook is None:
        state, _ = await call.api.look(call.params["id"])
        await playbooks.check_keychain(state.net.playbook)
        return Edit("", request.ctx)
    if call.caller.role not in WRITE:
        raise Refused(403, f"the role {call.caller.role} may go on with the same playbook; an edited one takes author")
    digest = await playbooks.add(call.caller.key, request.playbook.encode("utf-8", "surrogatepass"))
    await playbooks.check_keychain(call.api.runtime.playbook(digest))
    return Edit(digest, request.ctx)


async def _name(call: Call, about: str) -> str:
    name = uuid7(call.api.clock.now(), os.urandom(8))
    return await once(call, name, about) if b"idempotency-key" in call.headers else name


async def _told(call: Call, forked: Forked) -> Response:
    call.begins(forked.execution_id)
    return await begun(call, forked.execution_id, forked._asdict())
