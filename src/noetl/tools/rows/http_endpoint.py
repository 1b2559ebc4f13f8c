"""HTTP as an endpoint of a transfer: one response as the source, one request for each batch as the target."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from typing import Any

import msgspec

from noetl.model.outcome import Failure
from noetl.tools.rows.blocking import Cancellation
from noetl.tools.rows.endpoints import SourceEndpoint, StagedRows, TargetEndpoint, TransferProgress
from noetl.tools.rows.file_endpoint import file_source, for_file
from noetl.tools.rows.staging import Staging

Send = Callable[[list[dict[str, Any]], int], Future[None]]
"""Sends a batch with its number; the future fails with a Failure if the server rejects it."""


def rows_of(response: Any, path: str | None) -> list[dict[str, Any]]:
    """The rows in a response: a list of maps, at a path such as `data.items`."""
    rows = response
    for key in path.split(".") if path else []:
        if not isinstance(rows, dict) or key not in rows:
            raise Failure("input", f"the response has no `{path}`: {key!r} is missing")
        rows = rows[key]
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        place = f"at `{path}`" if path else "of the server"
        raise Failure("input", f"the response {place} is not a list of maps: set `source.rows` to the path of the rows")
    return rows


def http_source(staging: Staging, rows: list[dict[str, Any]]) -> SourceEndpoint:
    path = os.path.join(staging.folder, "response.jsonl")
    with open(path, "wb") as file:
        for row in rows:
            file.write(msgspec.json.encode(row) + b"\n")
    return file_source(staging, path, "jsonl", typed=True)


class HttpTarget(TargetEndpoint):
    """A URL that receives each batch as a JSON list. A batch that was sent cannot be rolled back."""

    def __init__(self, send: Send, batch_size: int, cancellation: Cancellation) -> None:
        self.send, self.batch_size, self.cancellation = send, batch_size, cancellation
        self.sending: Future[None] | None = None
        cancellation.on_cancel(self.abort)

    def abort(self) -> None:
        if self.sending is not None:
            self.sending.cancel()

    def write(self, staging: Staging, rows: StagedRows, progress: TransferProgress) -> int:
        query = f"SELECT to_json(row) FROM ({rows.select(lambda column: for_file(column, 'json'))}) AS row"
        count = 0
        for number, batch in enumerate(staging.batches(query, self.batch_size), start=1):
            self.sending = self.send([msgspec.json.decode(row[0]) for row in batch], number)
            with suppress(CancelledError):
                self.sending.result()
            self.cancellation.check()
            count += len(batch)
            progress.reach(count)
        return count
