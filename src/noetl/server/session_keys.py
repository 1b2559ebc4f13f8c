"""Sessions in the key-value store of NATS, for gateways and other programs beside noetl.

`noetl.sessions.<sha256 of the secret>` describes a session, `noetl.sessions.user.<user>.<session id>` lists those of a
user. A key expires a day after it was last written; the bucket keeps its latest revisions. Other programs may write,
too: an update of `last_activity_at` keeps a session alive, and deleting the key ends it. Nothing else in a value is
trusted: the user, the role and the latest end of a session come from the database.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from noetl.errors import NotFound
from noetl.nats.connection import NatsConnection
from noetl.store.access import IDLE_SECONDS, Session, User
from noetl.timestamps import rfc3339

if TYPE_CHECKING:
    from nats.js import JetStreamContext
    from nats.js.kv import KeyValue

BUCKET = "noetl_sessions"
PREFIX = "noetl.sessions"
REVISIONS = 10

Result = TypeVar("Result")


class SessionKeys:
    """Every method raises NatsUnavailable."""

    def __init__(self, connection: NatsConnection) -> None:
        self.connection = connection
        self._open: tuple[Any, KeyValue] | None = None
        """The bucket, and the client it was opened with."""

    async def put(self, session: Session, user: User, revision: int | None = None) -> None:
        """Write the session; with a revision only if its key has not changed since."""
        from nats.js.errors import KeyWrongLastSequenceError

        key, value = key_of(session.hash), msgspec.json.encode(_value(session, user))

        async def work(bucket: KeyValue) -> None:
            with suppress(KeyWrongLastSequenceError):  # another server has just written it
                await (bucket.put(key, value) if revision is None else bucket.update(key, value, last=revision))
                await bucket.put(user_key(session), session.hash.hex().encode())

        await self._with_bucket(work)

    async def activity(self, hash: bytes) -> tuple[float, int] | None:
        """When the session was last used, and the key's revision; None if there is no key, NotFound if it was
        deleted."""
        from nats.js.errors import KeyDeletedError, KeyNotFoundError

        async def work(bucket: KeyValue) -> tuple[float, int] | None:
            try:
                entry = await bucket._get(key_of(hash))  # `get` does not distinguish deleted from missing
            except KeyDeletedError:
                raise NotFound("the session was ended in NATS") from None
            except KeyNotFoundError:
                return None
            return _activity(entry.value or b""), entry.revision or 0

        return await self._with_bucket(work)

    async def delete(self, sessions: list[Session]) -> None:
        async def work(bucket: KeyValue) -> None:
            for session in sessions:
                await bucket.delete(key_of(session.hash))
                await bucket.delete(user_key(session))

        if sessions:
            await self._with_bucket(work)

    async def drop(self, hash: bytes) -> None:
        """Delete the key of a session that is not in the database, if there is one."""
        from nats.js.errors import KeyNotFoundError

        async def work(bucket: KeyValue) -> None:
            with suppress(KeyNotFoundError):
                await bucket.get(key_of(hash))
                await bucket.delete(key_of(hash))

        await self._with_bucket(work)

    async def _with_bucket(self, work: Callable[[KeyValue], Awaitable[Result]]) -> Result:
        """The result of work on the bucket, which is created if it is missing; an existing one is used as it is."""
        from nats.js.errors import BucketNotFoundError

        async def opened(store: JetStreamContext) -> Result:
            client = self.connection.client
            if self._open is None or self._open[0] is not client:
                try:
                    bucket = await store.key_value(BUCKET)
                except BucketNotFoundError:
                    bucket = await store.create_key_value(
                        bucket=BUCKET, description="noetl: who is signed in", history=REVISIONS, ttl=IDLE_SECONDS
                    )
                self._open = (client, bucket)
            return await work(self._open[1])

        return await self.connection.jetstream(BUCKET, opened)


def key_of(hash: bytes) -> str:
    return f"{PREFIX}.{hash.hex()}"


def user_key(session: Session) -> str:
    """Characters that are invalid in a key are written as `=` and their code."""
    name = re.sub(r"[^\w-]", lambda match: f"={ord(match[0]):02X}", session.user, flags=re.ASCII)
    return f"{PREFIX}.user.{name}.{session.id}"


def _value(session: Session, user: User) -> dict[str, Any]:
    return {
        "session_id": session.id,
        "user_id": user.name,
        "email": user.name if "@" in user.name else None,
        "display_name": user.name,
        "roles": [user.role],
        "created_at": rfc3339(session.created),
        "expires_at": rfc3339(session.end),
        "last_activity_at": rfc3339(session.seen),
        "client_ip": session.address,
        "auth0_id": None,
    }


def _activity(value: bytes) -> float:
    """When the session was used according to a value; 0 if the value is invalid."""
    try:
        return datetime.fromisoformat(msgspec.json.decode(value)["last_activity_at"]).timestamp()
    except (msgspec.DecodeError, KeyError, TypeError, ValueError, OverflowError):
        return 0.0
