"""/executions/prune and /verify: remove what is old, and prove what is there."""

from __future__ import annotations

from starlette.responses import Response

from noetl.server import show
from noetl.server.call import Call, Query, Routes, json_response
from noetl.server.problems import Refused
from noetl.server.roles import is_id
from noetl.server.upkeep import BATCH
from noetl.server.wire import Pruned, PruneRequest, Verified, VerifiedPage

routes = Routes()

LISTED = 1_000
LONGEST = 100 * 366 * 86_400.0
LIMIT = Query("limit", "integer", "How many at most.", 1, 1_000)


@routes.add("POST", "/executions/prune", body=PruneRequest, answers={200: Pruned})
async def prune(call: Call) -> Response:
    """Remove a batch of executions that ended long ago, with all that is theirs; `more` says whether to ask again.

    One that is open stays, and so does its parent, and whoever has an open parent. With `dry_run` nothing is removed,
    and those that would be are listed.
    """
    request, api = await call.read(PruneRequest), call.api
    if not 0 <= request.older_than <= LONGEST:
        raise Refused(422, "older_than are seconds since the end of an execution")
    now = api.clock.now()
    before = now - request.older_than
    if request.dry_run:
        found = await api.upkeep.prunable(before, LISTED + 1)
        items = [show.item(one, now) for one in found[:LISTED]]
        return json_response({"removed": 0, "more": len(found) > LISTED, "items": items})
    removed = await api.upkeep.prune(before, BATCH)
    api.metrics.count("noetl_executions_pruned_total", removed)
    return json_response({"removed": removed, "more": removed == BATCH, "items": []})


@routes.add("GET", "/executions/{id}/verify", answers={200: Verified})
async def verify(call: Call) -> Response:
    """Check the log of an execution against every invariant."""
    found = await call.unless_gone(call.api.upkeep.verify(call.params["id"]))
    return json_response({"executions": found.executions, "violations": found.violations})


@routes.add(
    "GET",
    "/verify",
    query=(Query("cursor", says="Where the page before this one ended."), LIMIT),
    answers={200: VerifiedPage},
)
async def verify_all(call: Call) -> Response:
    """Check the logs of executions, newest first; a page takes a few seconds at most."""
    cursor = call.text("cursor")
    if cursor and not is_id(cursor):
        raise Refused(422, "the cursor is the `next` of a page")
    found = await call.unless_gone(call.api.upkeep.verify_page(cursor, call.number("limit", 1_000)))
    return json_response({"executions": found.executions, "violations": found.violations, "next": found.more})
