"""`noetl runs replay`: a log folded again, from a database or from the API of a server."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

import msgspec

from noetl.classic.events import NextRequested
from noetl.client.client import Json
from noetl.client.database import json_of
from noetl.clock import SystemClock
from noetl.engine.events import EVENTS, Event, ExecutionForked, ExecutionRequested, NextEvaluated
from noetl.engine.state import Execution
from noetl.errors import NoetlError, Unreadable
from noetl.reference import Reference
from noetl.runtime import history
from noetl.runtime.catalog import PlaybookSource
from noetl.runtime.loaded_playbooks import LoadedPlaybooks
from noetl.runtime.report import report
from noetl.runtime.runtime import Runtime
from noetl.server.execution_views import state_view
from noetl.store.codec import ZERO, chained, encode
from noetl.store.sqlite import InMemoryStore
from noetl.store.store import Change, Row
from noetl.worker.playbook_cache import File

Contents = Callable[[Sequence[str]], dict[str, bytes]]
COMPARED = ("status", "workload", "ctx", "steps", "progress", "result")
RESULT = ("execution_id", "events", "status", "ctx", "steps")
STATE_PARTS = ("ctx", "steps")  # parts of the state that are printed
INITIAL_STATE: Json = {"status": "pending", "ctx": {}, "steps": {}}  # the state before the first event


async def replay_stored(runtime: Runtime, execution: str, source: PlaybookSource | None) -> Json:
    if source is not None:
        return await _decide_again(runtime, execution, source)
    replayed = await history.replay(runtime, execution)
    return _result(replayed.state, replayed.equal)


def replay_remote(
    execution: str,
    expected: Json,
    envelopes: list[Json],
    text_of: Callable[[str], bytes],
    contents: Contents,
) -> Json:
    """The same with the events of a server; `expected` is the state that the server has after the last of them."""

    async def replay() -> Json:
        runtime = Runtime(LoadedPlaybooks(store), SystemClock())
        try:
            state, at = await runtime.past.do(lambda past: past.state_at(execution, len(rows)))
            replayed = json_of(state_view(state, at, File("", "", {})))
            return _result(state, all(replayed[key] == expected[key] for key in COMPARED))
        finally:
            runtime.close()

    events, rows, head = [event_of(envelope) for envelope in envelopes], [], ZERO
    for envelope, event in zip(envelopes, events, strict=True):
        at, data = _seconds(envelope), encode(event)
        head = chained(head, event.name, at, data)
        rows.append(Row(envelope["seq"], event.name, at, data, head))
    store = _RemoteContents(contents)
    store.commit([Change(execution, 0, rows)])
    for event in events:
        if isinstance(event, ExecutionRequested | ExecutionForked) and event.playbook:
            store.put_playbook(event.playbook, "", text_of(event.playbook))
    return asyncio.run(replay())


async def _decide_again(runtime: Runtime, execution: str, source: PlaybookSource) -> Json:
    digest = runtime.playbooks.add(source.loaded.require(), source.display_path, source.places)
    replayed = await history.replay_with(runtime, execution, digest)
    seq = replayed.scanned_to
    if not seq:
        return decided_again(json_of(replayed), INITIAL_STATE | {"execution_id": execution})
    state, at = await runtime.past.do(lambda past: past.state_at(execution, seq))
    return decided_again(json_of(replayed), json_of(state_view(state, at, File("", "", {}), STATE_PARTS)))


def decided_again(replayed: Json, state: Json) -> Json:
    """A replay, and the state of the log as far as it is equal."""
    about = {key: state[key] for key in RESULT if key != "events"} | {"events": replayed["scanned_to"]}
    return {key: about[key] for key in RESULT} | {key: replayed[key] for key in ("equal", "first_difference")}


def _result(state: Execution, equal: bool) -> Json:
    reported = report(state, "", {}, 0.0)
    return json_of({key: reported[key] for key in RESULT} | {"equal": equal})


class _RemoteContents(InMemoryStore):
    """Fetches the content of references when a template reads it."""

    def __init__(self, contents: Contents) -> None:
        super().__init__()
        self.contents = contents

    def blob(self, key: str) -> bytes | None:
        return self.contents([key]).get(key)


def event_of(envelope: Json) -> Event:
    """The event of an envelope; Unreadable if this version does not know it."""
    kind, payload = EVENTS.get(envelope["event_type"]), dict(envelope["payload"])
    if kind is None:
        name = envelope["event_type"]
        raise Unreadable(f"this version does not know events of type {name!r}: upgrade noetl to read this log")
    if kind is NextEvaluated and payload.get("selected") and isinstance(payload["selected"][0], dict):
        payload["to"] = payload.pop("selected")
        payload.pop("routing_committed", None)
    if kind in (NextEvaluated, NextRequested) and "to" in payload:
        payload["to"] = [{"args": to["with"], **to} for to in payload["to"]]
    try:
        event: Event = msgspec.convert(_with_references(payload), kind, strict=False)
        return event
    except msgspec.ValidationError as error:
        raise Unreadable(f"event {envelope['event_id']} is invalid: {error}") from None


def row_of(envelope: Json) -> Row | None:
    """The event as a row; None for one that this version does not know."""
    try:
        event = event_of(envelope)
        return Row(envelope["seq"], event.name, _seconds(envelope), encode(event), b"")
    except NoetlError:
        return None


def _seconds(envelope: Json) -> float:
    return datetime.fromisoformat(envelope["timestamp"]).timestamp()


def _with_references(value: Any) -> Any:
    if isinstance(value, dict):
        if value.keys() == set(Reference.__slots__):
            return Reference(**value)
        return {key: _with_references(item) for key, item in value.items()}
    return [_with_references(item) for item in value] if isinstance(value, list) else value
