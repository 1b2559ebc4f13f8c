"""Requests and responses of /executions/prune and /verify."""

from __future__ import annotations

import msgspec

from noetl.engine.history.verify import Violation
from noetl.server.models.base import Cursor, Limit, QueryString, RequestBody
from noetl.server.models.executions import ExecutionItem


class PruneRequest(RequestBody, frozen=True):
    """Remove executions that ended more than `older_than` seconds ago."""

    older_than: float = 30 * 86_400.0
    dry_run: bool = False


class Pruned(msgspec.Struct, frozen=True):
    """The number of removed executions, and whether there may be more; `items` is the result of a dry run."""

    removed: int
    more: bool
    items: list[ExecutionItem] = []


class Verified(msgspec.Struct, frozen=True):
    """The number of checked executions, and the invariants that they violate."""

    executions: int
    violations: list[Violation]


class VerifyQuery(QueryString, frozen=True):
    cursor: Cursor = ""
    limit: Limit = 1_000


class VerifiedPage(Verified, frozen=True):
    """The same for a page of executions; `next` is the cursor of the next page."""

    next: str | None
