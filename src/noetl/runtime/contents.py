"""Values that logs refer to instead of containing them, read for templates and for workers."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from noetl.errors import NatsUnavailable
from noetl.reference import Gone, Reference, TooLarge
from noetl.results.read import Damaged, ReadBlob, read_json, read_value
from noetl.runtime.store_thread import StoreThread
from noetl.store.store import Store

if TYPE_CHECKING:
    from noetl.nats.objects import ObjectBuckets

SERVER_BYTES = 8 << 20  # largest value that a template on the server may load
WORKER_BYTES = 64 << 20  # largest value that a worker may load
DECISION_BYTES = 16 << 20  # bytes that all templates of one decision may load together
DECISION_BRACKETS = 500_000
"""Lists and maps in the stored values that one decision may load. A list of one digit takes 4 bytes of JSON and 100
bytes of memory, and decoding holds the interpreter lock."""

_TOO_MANY_BYTES = f"limit {DECISION_BYTES:,} for all stored values of a decision"


class ReadTooMuch(Exception):
    """A limit of a decision was exceeded; the message names it."""


class DecisionContents(dict[str, Any]):
    """Content that the templates of one decision have loaded, by key, and how much they may still load."""

    bytes_left = DECISION_BYTES
    brackets_left = DECISION_BRACKETS

    def take(self, content: bytes) -> None:
        """Count content that is about to be decoded; ReadTooMuch if it is over a limit."""
        self.bytes_left -= len(content)
        if self.bytes_left < 0:
            raise ReadTooMuch(_TOO_MANY_BYTES)
        self.brackets_left -= content.count(b"[") + content.count(b"{")
        if self.brackets_left < 0:
            raise ReadTooMuch(f"limit {DECISION_BRACKETS:,} lists and maps in all stored values of a decision")

    def load(self, reference: Reference, read_blob: ReadBlob) -> None:
        """Load the content of a reference. A limit, or missing content, is an error of the template that reads it."""
        try:
            if reference.size > SERVER_BYTES:
                raise ReadTooMuch(f"limit {SERVER_BYTES:,}")
            if reference.size > self.bytes_left:
                raise ReadTooMuch(_TOO_MANY_BYTES)
            self[reference.key] = read_value(read_blob, reference, self.take)
        except ReadTooMuch as error:
            self[reference.key] = TooLarge(str(error))
        except Damaged as error:
            self[reference.key] = Gone(str(error))


class Contents:
    """Reads content by reference, also content that is not committed yet."""

    def __init__(self, store: Store, thread: StoreThread, buckets: ObjectBuckets | None) -> None:
        self.store, self.thread, self.buckets = store, thread, buckets
        self.pending_blobs: dict[str, bytes] = {}  # will be stored with the decisions of the current batch

    def blob(self, key: str) -> bytes | None:
        return self.pending_blobs.get(key) or self.store.blob(key)

    async def load_for_template(self, reference: Reference, contents: DecisionContents) -> None:
        """Load the content of a reference for a template on the server."""
        if reference.store == "object":  # an object store must not delay the users of this store
            await asyncio.to_thread(contents.load, reference, self.blob)
        else:
            await self.thread.ask(contents.load, reference, self.blob)

    async def read(self, reference: Reference) -> Any:
        """The value behind a reference for a worker, its checksum verified, or TooLarge."""
        if reference.size > WORKER_BYTES:
            return TooLarge(f"limit {WORKER_BYTES:,}")
        if reference.store == "object":
            return await asyncio.to_thread(read_value, self.blob, reference)
        return await self.thread.ask(read_value, self.blob, reference)

    async def read_json(self, reference: Reference) -> bytes | TooLarge:
        if reference.size > WORKER_BYTES:
            return TooLarge(f"limit {WORKER_BYTES:,}")
        if reference.store == "object":
            return await asyncio.to_thread(read_json, self.store.blob, reference)
        return await self.thread.ask(read_json, self.store.blob, reference)

    async def put_in_bucket(self, bucket: str, key: str, content: bytes) -> None:
        """Copy content that a report is going to store into a bucket of NATS, if there is NATS."""
        if self.buckets is not None:
            with suppress(NatsUnavailable):  # the connection logs it, and the store has the content
                await self.buckets.put(bucket, key, content)
