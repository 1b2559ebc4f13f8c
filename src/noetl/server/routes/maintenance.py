"""/executions/prune and /verify: remove old executions, and check logs."""

from __future__ import annotations

from noetl.server.call import Call
from noetl.server.endpoint import Routes
from noetl.server.models.executions import ExecutionItem
from noetl.server.models.maintenance import Pruned, PruneRequest, Verified, VerifiedPage, VerifyQuery
from noetl.server.problems import Refused
from noetl.server.roles import is_id
from noetl.server.upkeep import BATCH

routes = Routes()

MAX_LISTED = 1_000
MAX_AGE_SECONDS = 100 * 366 * 86_400.0


@routes.add("POST", "/executions/prune")
async def prune(call: Call, body: PruneRequest) -> Pruned:
    """Remove a batch of executions that ended long ago, with all their data; if `more` is true, send it again.

    Open executions stay, and so do their parents and children. With `dry_run` nothing is removed, and the executions
    that would be are listed.
    """
    api = call.api
    if not 0 <= body.older_than <= MAX_AGE_SECONDS:
        raise Refused(422, "`older_than` must be a number of seconds")
    now = api.clock.now()
    before = now - body.older_than
    if body.dry_run:
        summaries = await api.upkeep.prunable(before, MAX_LISTED + 1)
        items = [ExecutionItem.of(summary, now) for summary in summaries[:MAX_LISTED]]
        return Pruned(0, len(summaries) > MAX_LISTED, items)
    removed = await api.upkeep.prune(before, BATCH)
    api.metrics.count("noetl_executions_pruned_total", removed)
    return Pruned(removed, removed == BATCH)


@routes.add("GET", "/executions/{id}/verify")
async def verify(call: Call) -> Verified:
    """Check the log of an execution against every invariant."""
    verified = await call.until_disconnect(call.api.upkeep.verify(call.path_params["id"]))
    return Verified(verified.executions, verified.violations)


@routes.add("GET", "/verify")
async def verify_all(call: Call, query: VerifyQuery) -> VerifiedPage:
    """Check the logs of executions, newest first; a page takes a few seconds at most."""
    if query.cursor and not is_id(query.cursor):
        raise Refused(422, "`cursor` must be the `next` of a page")
    verified = await call.until_disconnect(call.api.upkeep.verify_page(query.cursor, query.limit))
    return VerifiedPage(verified.executions, verified.violations, verified.more)
