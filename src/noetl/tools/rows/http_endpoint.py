"""HTTP as a side of a transfer: one answer as the source, one request for each batch as the target."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from typing import Any

import msgspec

from noetl.model.outcome import Failure
from noetl.tools.rows.columns import Column
from noetl.tools.rows.ends import Plain, Rows
from noetl.tools.rows.file_end import file_source, for_file
from noetl.tools.rows.hub import Hub
from noetl.tools.rows.progress import Progress
from noetl.tools.rows.thread import Stop

Send = Callable[[list[dict[str, Any]], int], Future[None]]
"""Sends one batch, which has a number. What it gives ends with a Failure if the server does not take it."""


def rows_of(answer: Any, path: str | None) -> list[dict[str, Any]]:
    """The rows in the answer of a server: a list of maps, at a path such as `data.items`."""
    found = answer
    for key in (path or "").split(".") if path else []:
        if not isinstance(found, dict) or key not in found:
            raise Failure("input", f"the answer has nothing at `{path}`: there is no {key!r}")
        found = found[key]
    if not isinstance(found, list) or not all(isinstance(row, dict) for row in found):
        where = f"at `{path}`" if path else "of the server"
        raise Failure("input", f"the answer {where} is not a list of maps: `source.rows` is the path of the rows")
    return found


def http_source(hub: Hub, rows: list[dict[str, Any]]) -> Plain:
    """Rows that came with an answer."""
    path = os.path.join(hub.folder, "answer.jsonl")
    with open(path, "wb") as file:
        for row in rows:
            file.write(msgspec.json.encode(row) + b"\n")
    return file_source(hub, path, "jsonl", typed=True)


class HttpTarget:
    """An address that takes each batch as a JSON list. What it has taken can't be taken back."""

    def __init__(self, send: Send, batch_size: int, stop: Stop) -> None:
        self.send, self.batch_size, self.stop = send, batch_size, stop
        self.sending: Future[None] | None = None
        stop.by(self.abort)

    def abort(self) -> None:
        if self.sending is not None:
            self.sending.cancel()

    def accepts(self) -> dict[str, str] | None:
        return None

    def prepare(self, columns: list[Column]) -> None: ...

    def write(self, hub: Hub, rows: Rows, progress: Progress) -> int:
        shown = ", ".join(f"{for_file(column, 'json')} AS {column.quoted}" for column in rows.columns)
        query = f"SELECT to_json(row) FROM (SELECT {shown} FROM ({rows.query})) AS row"
        hub.checked(lambda: hub.connection.execute(query))
        count = batches = 0
        while batch := hub.checked(lambda: hub.connection.fetchmany(self.batch_size)):
            batches += 1
            self.sending = self.send([msgspec.json.decode(row[0]) for row in batch], batches)
            with suppress(CancelledError):
                self.sending.result()
            self.stop.check()
            count += len(batch)
            progress.reach(count)
        return count

    def commit(self) -> None: ...
