"""Large values in buckets of NATS, beside their copies in the database.

JetStream says that it has something before it is safe on a disk, so what is here is never the only copy: it is put here
so that workers and other programs can read it without asking a server for it. A bucket that is made here forgets after
a month. Objects are named by the hash of their content; one that is there is not sent again.
"""

from __future__ import annotations

from base64 import urlsafe_b64encode
from hashlib import sha256
from typing import TYPE_CHECKING

from noetl.bus.connection import Bus

if TYPE_CHECKING:
    from nats.js import JetStreamContext
    from nats.js.object_store import ObjectStore

KEPT_SECONDS = 30 * 24 * 3600.0


class Shelf:
    """Puts and gets. Both raise Away if NATS can't be used."""

    def __init__(self, bus: Bus) -> None:
        self.bus = bus

    async def put(self, bucket: str, key: str, content: bytes) -> None:
        """Put content under its hash."""
        from nats.js.errors import ObjectNotFoundError

        async def work(store: JetStreamContext) -> None:
            objects = await _opened(store, bucket)
            try:
                if (await objects.get_info(key)).digest == _digest(content):
                    return
            except ObjectNotFoundError:
                pass
            await objects.put(key, content)

        await self.bus.attempted.wait()
        await self.bus.ask(bucket, work)

    async def get(self, bucket: str, key: str) -> bytes | None:
        """The content of that hash; None if it is not there as it was put.

        Read piece by piece: the driver's own way leaves a consumer behind if it is given up halfway.
        """
        from nats.js.errors import NotFoundError

        async def work(store: JetStreamContext) -> bytes | None:
            stream = f"OBJ_{bucket}"
            try:
                direct = bool((await store.stream_info(stream)).config.allow_direct)
                info = await (await store.object_store(bucket)).get_info(key)
                pieces, after = [], 0
                for _ in range(info.chunks or 0):
                    subject = f"$O.{bucket}.C.{info.nuid}"
                    piece = await store.get_msg(stream, after + 1, subject, direct=direct, next=True)
                    pieces.append(piece.data or b"")
                    after = piece.seq or 0
            except NotFoundError:  # of the bucket, the object, or a piece of it
                return None
            return b"".join(pieces)

        await self.bus.attempted.wait()
        content = await self.bus.ask(bucket, work)
        return content if content is not None and sha256(content).hexdigest() == key else None


async def _opened(store: JetStreamContext, bucket: str) -> ObjectStore:
    """The bucket, made if it is missing; one that is there is taken as it is."""
    from nats.js.errors import NotFoundError

    try:
        return await store.object_store(bucket)
    except NotFoundError:
        about = "noetl: results, by the hash of their content"
        return await store.create_object_store(bucket, description=about, ttl=KEPT_SECONDS)


def _digest(content: bytes) -> str:
    """As NATS writes it."""
    return f"SHA-256={urlsafe_b64encode(sha256(content).digest()).decode()}"
