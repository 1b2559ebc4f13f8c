"""Explain steps, fork executions and retry them."""

from __future__ import annotations

import os

from starlette.responses import Response

from noetl.model.identity import uuid7
from noetl.runtime import history
from noetl.runtime.history import Edit, Forked
from noetl.runtime.report import explained
from noetl.server.call import Call
from noetl.server.endpoint import Routes
from noetl.server.models.executions import ExecutionView
from noetl.server.models.history import AgainView, ExplainQuery, ExplainView, ForkRequest, ForkView, RetryRequest
from noetl.server.problems import Refused
from noetl.server.roles import WRITE
from noetl.server.routes.executions import IDEMPOTENCY_KEY, PAYLOAD_BYTES, PREFER, once, started

routes = Routes()
MAX_NAME_LENGTH = 1_000


@routes.add("GET", "/executions/{id}/explain")
async def explain(call: Call, query: ExplainQuery) -> ExplainView:
    """Why a step ran as it did: each arc, rule and gate that was evaluated, with its values; why a token is held, what
    a join waits for, why a step never ran."""
    runtime, run = call.api.runtime, query.run or None
    if not query.step or len(query.step) > MAX_NAME_LENGTH or len(query.run) > MAX_NAME_LENGTH:
        raise Refused(422, "`step` must be the name of a step")
    explanation, state = await history.explain(runtime, call.path_params["id"], query.step, run)
    file = runtime.loaded_playbook(state.digest).file
    return ExplainView(**explained(explanation, state, run, file.name, file.places))


@routes.add(
    "POST",
    "/executions/{id}/fork",
    optional=True,
    limit=PAYLOAD_BYTES,
    headers=(PREFER, IDEMPOTENCY_KEY),
    answers={202: ForkView, 200: ExecutionView},
)
async def fork(call: Call, body: ForkRequest) -> Response:
    """Start an execution with the events of this one up to `at`, and continue from there. An edited playbook requires
    the role author."""
    edit = await _edit(call, body)
    id = await _new_id(call, f"fork {call.path_params['id']} ")
    return await _started(call, await history.fork(call.api.runtime, call.path_params["id"], id, body.at, edit))


@routes.add(
    "POST",
    "/executions/{id}/retry",
    optional=True,
    limit=PAYLOAD_BYTES,
    headers=(PREFER, IDEMPOTENCY_KEY),
    answers={202: ForkView, 200: ExecutionView},
)
async def retry(call: Call, body: RetryRequest) -> Response:
    """Fork an execution just before it failed or was cancelled. Completed steps keep their results. An edited playbook
    requires the role author."""
    edit = await _edit(call, body)
    id = await _new_id(call, f"retry {call.path_params['id']} ")
    return await _started(call, await history.retry(call.api.runtime, call.path_params["id"], id, edit))


async def _edit(call: Call, request: RetryRequest) -> Edit:
    """The changes, after the same check of the keychain as for any start."""
    playbooks = call.api.playbooks
    if request.playbook is None:
        state, _ = await call.api.load(call.path_params["id"])
        await playbooks.check_keychain(state.net.playbook)
        return Edit("", request.ctx)
    if call.caller.role not in WRITE:
        raise Refused(403, f"the role {call.caller.role} may not edit the playbook; that requires author")
    digest = await playbooks.add(call.caller.key, request.playbook.encode("utf-8", "surrogatepass"))
    await playbooks.check_keychain(call.api.runtime.playbook(digest))
    return Edit(digest, request.ctx)


async def _new_id(call: Call, operation: str) -> str:
    id = uuid7(call.api.clock.now(), os.urandom(8))
    return await once(call, id, operation) if "idempotency-key" in call.headers else id


async def _started(call: Call, forked: Forked) -> Response:
    call.starts(forked.execution_id)
    again = [AgainView(**run) for run in forked.again]
    source = forked.source_id, forked.source_seq
    return await started(call, forked.execution_id, ForkView(forked.execution_id, *source, again, forked.done))
