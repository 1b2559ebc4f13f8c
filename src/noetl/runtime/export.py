"""The file of `noetl runs export`, made part by part: neither a long log nor large results are held in memory."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from noetl.json_errors import NOT_JSON
from noetl.model.marks import referenced_keys
from noetl.reference import encode_json
from noetl.runtime.event_envelopes import EventEnvelopes
from noetl.store.commits import parts_of
from noetl.store.store import Store
from noetl.timestamps import rfc3339

FIELDS = (
    *("execution_id", "status", "result", "ctx", "steps", "error", "events", "duration_ms", "continued_errors"),
    *("continued", "warnings", "name", "path", "parent", "started", "ended", "actor"),
)
"""The execution itself in an export."""
EVENTS_PER_PART, LINES_PER_PART = 500, 100


def exported(store: Store, execution: Mapping[str, Any], *, registered_only: bool) -> Iterator[bytes]:
    """The export of an execution, up to the events that it has. `registered_only` leaves out the text of a playbook
    that is not registered under its path."""
    contents = _Contents(store)
    yield b'{"execution":' + encode_json({name: execution[name] for name in FIELDS})
    yield b',\n"playbook":' + encode_json(_playbook(store, execution, registered_only))
    yield from _joined(b',\n"events":[\n', _events(store, execution, contents))
    yield from _joined(b'],\n"logs":[\n', _lines(store, execution["execution_id"]))
    yield from _joined(b'],\n"results":{\n', ([result] for result in contents.read()))
    yield b"}}\n"


def _joined(head: bytes, parts: Iterable[list[bytes]]) -> Iterator[bytes]:
    yield head
    separator = b""
    for items in parts:
        if items:
            yield separator + b",\n".join(items)
            separator = b",\n"


def _playbook(store: Store, execution: Mapping[str, Any], registered_only: bool) -> dict[str, Any] | None:
    digest = execution["playbook_id"]
    versions = store.versions(execution["path"]) if registered_only else []
    stored = store.playbook(digest)
    if stored is None or (registered_only and all(version.digest != digest for version in versions)):
        return None
    return {"playbook_id": digest, "file": stored[0], "text": stored[1].decode("utf-8", "replace")}


def _events(store: Store, execution: Mapping[str, Any], contents: _Contents) -> Iterator[list[bytes]]:
    id, last, seq = execution["execution_id"], execution["events"], 0
    envelopes = EventEnvelopes(store, id)
    while seq < last and (rows := store.read(id, seq, min(EVENTS_PER_PART, last - seq))):
        for row in rows:
            contents.add(referenced_keys(row.data))
        yield [encode_json(envelope) for envelope in envelopes.of(rows)]
        seq = rows[-1].seq


def _lines(store: Store, execution: str) -> Iterator[list[bytes]]:
    number = 0
    while lines := store.output(execution, number, LINES_PER_PART):
        names = ("number", "task", "timestamp", "stream", "line")
        yield [
            encode_json(dict(zip(names, (number, task, rfc3339(at), stream, line), strict=True)))
            for number, task, at, stream, line in lines
        ]
        number = lines[-1][0]


class _Contents:
    """The contents of references and, in turn, of those inside them, each once."""

    def __init__(self, store: Store) -> None:
        self.store, self.keys = store, set[str]()
        self.unread: list[str] = []

    def add(self, keys: Iterable[str]) -> None:
        for key in keys:
            if key not in self.keys:
                self.keys.add(key)
                self.unread.append(key)

    def read(self) -> Iterator[bytes]:
        while self.unread:
            key = self.unread.pop()
            content = self.store.blob(key)
            if content is not None:  # else it is not in the database
                self.add(sorted(part for _, part in parts_of([(key, content)])))
                yield b'"%b":%b' % (key.encode(), _json_of(content))


def _json_of(content: bytes) -> bytes:
    try:
        content.decode()
        msgspec.json.decode(content, type=msgspec.Raw)
        return content
    except NOT_JSON:
        return encode_json({"base64": base64.b64encode(content).decode()})
