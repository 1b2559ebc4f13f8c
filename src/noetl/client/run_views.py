"""Runs of a database as the JSON bodies of the API. No other module of the client knows how the server builds them."""

from __future__ import annotations

from typing import Any

import msgspec

from noetl.client.ports import Json
from noetl.clock import SystemClock
from noetl.engine.envelope import envelope
from noetl.engine.state import Execution
from noetl.runtime.catalog import PlaybookSource
from noetl.runtime.loaded_playbooks import File
from noetl.server.execution_views import ExecutionView, StateView, encode_reference, execution_item
from noetl.store.codec import decode
from noetl.store.store import Row, Summary
from noetl.timestamps import rfc3339


def plain(value: Any) -> Json:
    """A map of JSON values; references to stored values stay references."""
    converted: Json = msgspec.to_builtins(value, enc_hook=encode_reference)
    return converted


def run_item(summary: Summary) -> Json:
    return plain(execution_item(summary, SystemClock().now()))


def run_view(state: Execution, summary: Summary, source: PlaybookSource) -> Json:
    """`GET /executions/{id}`, and what only the database of a run knows."""
    file = File(source.shown, "", source.places)
    run = plain(ExecutionView.of(state, summary, file, SystemClock().now()))
    line = run["error"]["line"] if run["error"] is not None else None
    return run | {"error_line": source.line(line) if line else "", "cancel_reason": state.cancel_reason}


def state_view(state: Execution, at: float) -> Json:
    return plain(StateView.of(state, at, File("", "", {})))


def event_view(execution: str, row: Row) -> Json:
    return envelope(execution, row.seq, row.at, decode(row.type, row.data))


def output_view(line: tuple[int, str, float, str, str]) -> Json:
    number, task, at, stream, text = line
    return {"number": number, "task": task, "timestamp": rfc3339(at), "stream": stream, "line": text}
