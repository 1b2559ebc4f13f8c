"""Copies of large values in object buckets, in addition to those in the database.

JetStream acknowledges a message before it is safe on disk, so an object is never the only copy: it is there so that
workers and other programs can read it without a request to a server. Buckets that are created here expire objects
after a month. An object is named by the hash of its content; one that exists is not sent again.
"""

from __future__ import annotations

from base64 import urlsafe_b64encode
from contextlib import suppress
from hashlib import sha256

from nats.js import JetStreamContext
from nats.js.errors import NotFoundError

from noetl.nats.connection import NatsConnection

TTL_SECONDS = 30 * 24 * 3600.0


class ObjectBuckets:
    """Both methods raise NatsUnavailable."""

    def __init__(self, connection: NatsConnection) -> None:
        self.connection = connection

    async def put(self, bucket: str, key: str, content: bytes) -> None:
        async def operation(jetstream: JetStreamContext) -> None:
            try:
                objects = await jetstream.object_store(bucket)
            except NotFoundError:
                description = "noetl: results, by the hash of their content"
                objects = await jetstream.create_object_store(bucket, description=description, ttl=TTL_SECONDS)
            digest = f"SHA-256={urlsafe_b64encode(sha256(content).digest()).decode()}"
            with suppress(NotFoundError):
                if (await objects.get_info(key)).digest == digest:
                    return
            await objects.put(key, content)

        await self.connection.attempted.wait()
        await self.connection.jetstream(bucket, operation)

    async def get(self, bucket: str, key: str) -> bytes | None:
        """The content with that hash; None if it is missing or damaged. Reads chunk by chunk: the driver's own method
        leaves a consumer behind if it is cancelled."""

        async def operation(jetstream: JetStreamContext) -> bytes | None:
            stream = f"OBJ_{bucket}"
            try:
                direct = bool((await jetstream.stream_info(stream)).config.allow_direct)
                info = await (await jetstream.object_store(bucket)).get_info(key)
                chunks, after = [], 0
                for _ in range(info.chunks or 0):
                    subject = f"$O.{bucket}.C.{info.nuid}"
                    chunk = await jetstream.get_msg(stream, after + 1, subject, direct=direct, next=True)
                    chunks.append(chunk.data or b"")
                    after = chunk.seq or 0
            except NotFoundError:  # the bucket, the object, or one of its chunks
                return None
            return b"".join(chunks)

        await self.connection.attempted.wait()
        content = await self.connection.jetstream(bucket, operation)
        return content if content is not None and sha256(content).hexdigest() == key else None
