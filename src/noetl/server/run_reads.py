"""Reads about one step run, in a thread of their own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, TypeVar

import msgspec

from noetl.engine.history.run_index import RunIndex
from noetl.errors import NotFound
from noetl.runtime.past import PastReader
from noetl.server.endpoint import ApiCall
from noetl.server.parameters import QueryString, VersionNumber, text

Value = TypeVar("Value")


class RunQuery(QueryString, frozen=True):
    run: Annotated[str, text("The step run, such as `fetch#1`.")]
    at: Annotated[VersionNumber | None, msgspec.Meta(description="As of this event; default: the last one.")] = None


async def read_run(
    call: ApiCall,
    query: RunQuery,
    check: Callable[[RunIndex, str], None],
    read: Callable[[PastReader, str, RunIndex], Value],
) -> Value:
    """What `read` returns for the execution of the request and the index of a step run, which may not have begun at
    the event of the query. NotFound if there is no such execution or event; `check` gets the index of the whole log."""
    execution, indexes = call.path_params["id"], call.api.histories.run_indexes

    def work(past: PastReader) -> Value:
        last = past.store.seq(execution)
        if not last:  # a kept index may outlive its execution
            raise NotFound(f"execution {execution!r} not found")
        if query.at is not None and query.at > last:
            raise NotFound(f"event {query.at:,} not found: {execution} has {last:,} events")
        index = indexes.of(past.store, execution, query.run)
        check(index, execution)
        if query.at not in (None, index.seq):
            index = indexes.of(past.store, execution, query.run, query.at)
        return read(past, execution, index)

    return await call.until_disconnect(call.api.host.runtime.past.do(work))
