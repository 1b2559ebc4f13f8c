"""Lists of executions as the API and the command line show them: the stored columns, and those computed on reading."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from noetl.model.status import ENDED
from noetl.runtime.activity import MAX_LISTED, Details, ready_waits, unattended_sentence, wait_views
from noetl.server.execution_views import ExecutionItem, execution_item
from noetl.server.worker_views import attended_pools
from noetl.store.store import Store, Summary

_decode = msgspec.json.Decoder(Details).decode


class Listed(NamedTuple):
    """The columns of an execution that describe its activity."""

    activity: str
    details: Details


def missing_pools_of(store: Store, now: float) -> list[str]:
    """The pools with ready work, of which no worker is connected."""
    pools = store.ready_pools()
    return sorted(set(pools) - attended_pools(store.workers(), now)) if pools else []


def listed_items(store: Store, summaries: Iterable[Summary], now: float) -> list[ExecutionItem]:
    missing = missing_pools_of(store, now)
    listed_summaries = list(summaries)
    versions = store.versions_of({(summary.path, summary.digest) for summary in listed_summaries})
    active = [summary.execution_id for summary in listed_summaries if missing and _may_be_ready(summary)]
    ready = store.ready_of(active) if active else {}
    items = []
    for summary in listed_summaries:
        doing = _with_missing(summary, ready.get(summary.execution_id, {}), missing)
        version = versions.get((summary.path, summary.digest))
        items.append(execution_item(summary, now, doing.activity, doing.details, version))
    return items


def listed(store: Store, summary: Summary, now: float) -> Listed:
    ready = store.ready_of([summary.execution_id]) if _may_be_ready(summary) else {}
    missing = missing_pools_of(store, now) if ready else []
    return _with_missing(summary, ready.get(summary.execution_id, {}), missing)


def stored(summary: Summary) -> Listed:
    return Listed(summary.activity, _decode(summary.details))


def _may_be_ready(summary: Summary) -> bool:
    return not summary.local and summary.status not in ENDED


def _with_missing(summary: Summary, ready: Mapping[str, tuple[str, float]], missing: Sequence[str]) -> Listed:
    """The workers that are connected change without an event, so no column has them."""
    doing = stored(summary)
    details = doing.details
    pending = list(ready_waits(ready, missing))
    if not pending:
        return doing
    waits = [view for wait in pending for view in wait_views(wait, [])]
    first = [*waits, *details.waits][:MAX_LISTED]
    return Listed(unattended_sentence(pending[0]), msgspec.structs.replace(details, waits=first))
