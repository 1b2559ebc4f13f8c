"""/executions/prune and /verify: remove old executions, and check logs."""

from __future__ import annotations

import msgspec

from noetl.engine.history.verify import Violation
from noetl.server.endpoint import Call, Limit, PageQuery, RequestBody, Routes
from noetl.server.execution_views import ExecutionItem, execution_item
from noetl.server.maintenance import EXECUTIONS_PER_BATCH
from noetl.server.problems import Refused
from noetl.server.roles import is_id

routes = Routes()

MAX_LISTED = 1_000
MAX_AGE_SECONDS = 100 * 366 * 86_400.0


class PruneRequest(RequestBody, frozen=True):
    """Remove executions that ended more than `older_than` seconds ago."""

    older_than: float = 30 * 86_400.0
    dry_run: bool = False


class Pruned(msgspec.Struct, frozen=True):
    """The number of removed executions, and whether there may be more; `items` is the result of a dry run."""

    removed: int
    more: bool
    items: list[ExecutionItem] = []


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
        summaries = await api.maintenance.prunable(before, MAX_LISTED + 1)
        items = [execution_item(summary, now) for summary in summaries[:MAX_LISTED]]
        return Pruned(0, len(summaries) > MAX_LISTED, items)
    removed = await api.maintenance.prune(before, EXECUTIONS_PER_BATCH)
    api.telemetry.metrics.count("noetl_executions_pruned_total", removed)
    return Pruned(removed, removed == EXECUTIONS_PER_BATCH)


class Verified(msgspec.Struct, frozen=True):
    """The number of checked executions, and the invariants that they violate."""

    executions: int
    violations: list[Violation]


@routes.add("GET", "/executions/{id}/verify")
async def verify(call: Call) -> Verified:
    """Check the log of an execution against every invariant."""
    result = await call.until_disconnect(call.api.maintenance.verify(call.path_params["id"]))
    return Verified(result.executions, result.violations)


class VerifyQuery(PageQuery, frozen=True):
    limit: Limit = 1_000


class VerifiedPage(Verified, frozen=True):
    """The same for a page of executions; `next` is the cursor of the next page."""

    next: str | None


@routes.add("GET", "/verify")
async def verify_all(call: Call, query: VerifyQuery) -> VerifiedPage:
    """Check the logs of executions, newest first; a page takes a few seconds at most."""
    if query.cursor and not is_id(query.cursor):
        raise Refused(422, "`cursor` must be the `next` of a page")
    return VerifiedPage(*await call.until_disconnect(call.api.maintenance.verify_page(query.cursor, query.limit)))
