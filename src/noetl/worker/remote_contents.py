"""Stored content as a worker of a server reads it: from the server, or from NATS if the worker has a connection."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from noetl.errors import NatsUnavailable, NotFound
from noetl.reference import CHUNKS, Reference, TooLarge, decoded
from noetl.results.read import ReadBlob, read_json, read_value
from noetl.worker.server_client import ServerClient

if TYPE_CHECKING:
    from noetl.nats.objects import ObjectBuckets

CACHE_BYTES = 32 << 20  # size of the cache of stored content, which is often read by many leases at once
MAX_READ_BYTES = 64 << 20


class RemoteContents:
    def __init__(self, server: ServerClient, object_buckets: ObjectBuckets | None) -> None:
        self.server, self.object_buckets = server, object_buckets
        self.buckets: dict[str, str] = {}  # bucket by key of content, for the server to copy it to
        self._recent: OrderedDict[str, bytes] = OrderedDict()
        self._cached_bytes = 0

    async def read(self, reference: Reference) -> Any:
        return await self._read(read_value, reference)

    async def read_json(self, reference: Reference) -> bytes | TooLarge:
        content: bytes | TooLarge = await self._read(read_json, reference)
        return content

    async def put_in_bucket(self, bucket: str, key: str, content: bytes) -> None:
        if self.object_buckets is not None:
            with suppress(NatsUnavailable):  # the server may have a connection
                await self.object_buckets.put(bucket, key, content)
                return
        self.buckets[key] = bucket

    async def _read(self, read: Callable[[ReadBlob, Reference], Any], reference: Reference) -> Any:
        if reference.size > MAX_READ_BYTES:
            return TooLarge(f"limit {MAX_READ_BYTES:,}")
        parts: dict[str, bytes | None] = {}
        if reference.store == "object":
            return await asyncio.to_thread(read, parts.get, reference)
        if reference.store != "file":
            object_key = reference.key if reference.store == "nats_object" else None
            content = parts[reference.digest] = await self._content(reference.digest, object_key)
            if reference.schema_hint == CHUNKS and content is not None:
                for key in decoded(content, reference)["chunks"]:
                    parts[key] = await self._content(key)
        return read(parts.get, reference)

    async def _content(self, key: str, object_key: str | None = None) -> bytes | None:
        """Content from the cache, from the object `BUCKET/KEY` of NATS, or from the server; None if there is none."""
        content = self._recent.get(key)
        if content is not None:
            self._recent.move_to_end(key)
            return content
        if object_key is not None and self.object_buckets is not None:
            with suppress(NatsUnavailable):
                content = await self.object_buckets.get(*object_key.split("/", 1))
        if content is None:
            try:
                content = await self.server.call("GET", f"/blobs/{key}")
            except NotFound:
                return None
        if key not in self._recent and len(content) <= CACHE_BYTES // 4:
            self._recent[key] = content
            self._cached_bytes += len(content)
            while self._cached_bytes > CACHE_BYTES:
                self._cached_bytes -= len(self._recent.popitem(last=False)[1])
        return content
