from __future__ import annotations

from typing import Annotated

import msgspec

from noetl.server.endpoint import ApiCall, Routes
from noetl.server.execution_lists import listed_items
from noetl.server.execution_views import ExecutionItem
from noetl.server.maintenance import EXECUTIONS_PER_BATCH, Verified, VerifiedPage
from noetl.server.parameters import Limit, RequestBody, RunPageQuery
from noetl.store.store import Store

routes = Routes()

MAX_LISTED = 1_000
MAX_AGE_SECONDS = 100 * 366 * 86_400.0


class PruneRequest(RequestBody, frozen=True):
    """Remove executions that ended more than `older_than` seconds ago."""

    older_than: Annotated[float, msgspec.Meta(ge=0, le=MAX_AGE_SECONDS)] = 30 * 86_400.0
    dry_run: bool = False


class Pruned(msgspec.Struct, frozen=True):
    """The number of removed executions, and whether there may be more; `items` is the result of a dry run."""

    removed: int
    more: bool
    items: list[ExecutionItem] = []


@routes.add("POST", "/executions/prune")
async def prune(call: ApiCall, body: PruneRequest) -> Pruned:
    """Remove a batch of executions that ended long ago, with all their data; if `more` is true, send it again. Open
    executions stay, and so do their parents and children. With `dry_run` nothing is removed, and the executions that
    would be are listed."""
    api = call.api
    now = api.clock.now()
    before = now - body.older_than
    if body.dry_run:

        def prunable(store: Store) -> Pruned:
            summaries = store.prunable(before, MAX_LISTED + 1)
            return Pruned(0, len(summaries) > MAX_LISTED, listed_items(store, summaries[:MAX_LISTED], now))

        return await api.maintenance.do(prunable)
    removed = await api.maintenance.do(lambda store: store.prune(before, EXECUTIONS_PER_BATCH))
    api.telemetry.metrics.count("noetl_executions_pruned_total", removed)
    return Pruned(removed, removed == EXECUTIONS_PER_BATCH)


@routes.add("GET", "/executions/{id}/verify")
async def verify(call: ApiCall) -> Verified:
    """Check the log of an execution against every invariant."""
    return await call.until_disconnect(call.api.maintenance.verify(call.path_params["id"]))


class VerifyQuery(RunPageQuery, frozen=True):
    limit: Limit = 1_000


@routes.add("GET", "/verify")
async def verify_all(call: ApiCall, query: VerifyQuery) -> VerifiedPage:
    """Check the logs of executions, newest first; a page takes a few seconds at most."""
    return await call.until_disconnect(call.api.maintenance.verify_page(query.before, query.limit))
