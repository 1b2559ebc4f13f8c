"""Reads about one step run, in a thread of their own."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from noetl.engine.history.run_index import RunIndex
from noetl.errors import NotFound
from noetl.runtime.past import PastReader
from noetl.server.endpoint import ApiCall

Value = TypeVar("Value")


async def read_run(call: ApiCall, run: str, read: Callable[[PastReader, str, RunIndex], Value]) -> Value:
    """What `read` returns for the execution of the request and the index of a step run."""
    execution, indexes = call.path_params["id"], call.api.histories.run_indexes

    def work(past: PastReader) -> Value:
        if not past.store.seq(execution):  # a kept index may outlive its execution
            raise NotFound(f"no execution {execution}")
        return read(past, execution, indexes.of(past.store, execution, run))

    return await call.until_disconnect(call.api.host.runtime.past.do(work))
