"""Sessions in the key-value store of NATS, for gateways and other programs beside noetl.

Under `noetl.sessions.<sha256 of the secret>` is what a session is, under `noetl.sessions.user.<user>.<session id>`
which sessions somebody has. The bucket forgets a key a day after it was last written, and keeps its latest revisions.
Others may write there, too: who updates `last_activity_at` keeps a session alive, who deletes the key ends it. Nothing
else in a value is ever believed: who somebody is, what that person may do, and when a session ends at the latest, the
database says.
"""

from __future__ import annotations

import re
from datetime import datetime
from typing import TYPE_CHECKING, Any

import msgspec

from noetl.bus.connection import Bus
from noetl.errors import NotFound
from noetl.store.access import IDLE_SECONDS, Session, User
from noetl.timestamps import rfc3339

if TYPE_CHECKING:
    from nats.js import JetStreamContext
    from nats.js.kv import KeyValue

BUCKET = "noetl_sessions"
PREFIX = "noetl.sessions"
REVISIONS = 10


class SessionKeys:
    """Keeps the keys. Every method raises Away if NATS can't be used."""

    def __init__(self, bus: Bus) -> None:
        self.bus = bus
        self._kept: tuple[Any, KeyValue] | None = None
        """The bucket, and the connection it was opened on."""

    async def put(self, session: Session, user: User) -> None:
        """Write what is known of a session."""
        value = msgspec.json.encode(_value(session, user))

        async def work(store: JetStreamContext) -> None:
            bucket = await self._bucket(store)
            await bucket.put(key_of(session.hash), value)
            await bucket.put(user_key(session), session.hash.hex().encode())

        await self.bus.ask(BUCKET, work)

    async def touch(self, session: Session, user: User, revision: int) -> None:
        """Write that it was used, unless somebody else has just done so."""
        from nats.js.errors import KeyWrongLastSequenceError

        value = msgspec.json.encode(_value(session, user))

        async def work(store: JetStreamContext) -> None:
            bucket = await self._bucket(store)
            try:
                await bucket.update(key_of(session.hash), value, last=revision)
                await bucket.put(user_key(session), session.hash.hex().encode())
            except KeyWrongLastSequenceError:
                pass  # somebody else was faster, and it comes to the same

        await self.bus.ask(BUCKET, work)

    async def activity(self, hash: bytes) -> tuple[float, int] | None:
        """When the session was last used, and the key's revision; None if NATS does not know it, NotFound if somebody
        has deleted it."""
        from nats.js.errors import KeyDeletedError, KeyNotFoundError

        async def work(store: JetStreamContext) -> tuple[bytes, int] | None:
            bucket = await self._bucket(store)
            try:
                entry = await bucket._get(key_of(hash))  # `get` does not tell deleted from missing
            except KeyDeletedError:
                return b"", 0
            except KeyNotFoundError:
                return None
            return entry.value or b"", entry.revision or 0

        found = await self.bus.ask(BUCKET, work)
        if found is None:
            return None
        if found == (b"", 0):
            raise NotFound("the session was ended in NATS")
        return _activity(found[0]), found[1]

    async def delete(self, session: Session) -> None:
        """End it also there."""

        async def work(store: JetStreamContext) -> None:
            bucket = await self._bucket(store)
            await bucket.delete(key_of(session.hash))
            await bucket.delete(user_key(session))

        await self.bus.ask(BUCKET, work)

    async def drop(self, hash: bytes) -> None:
        """Delete the key of a session that the database does not know, if there is one."""
        from nats.js.errors import KeyNotFoundError

        async def work(store: JetStreamContext) -> None:
            bucket = await self._bucket(store)
            try:
                await bucket.get(key_of(hash))
            except KeyNotFoundError:
                return
            await bucket.delete(key_of(hash))

        await self.bus.ask(BUCKET, work)

    async def _bucket(self, store: JetStreamContext) -> KeyValue:
        """The bucket, made if it is missing; one that is there is taken as it is."""
        from nats.js.errors import BucketNotFoundError

        client = self.bus.client
        if self._kept is None or self._kept[0] is not client:
            try:
                bucket = await store.key_value(BUCKET)
            except BucketNotFoundError:
                about = "noetl: who is signed in"
                bucket = await store.create_key_value(
                    bucket=BUCKET, description=about, history=REVISIONS, ttl=IDLE_SECONDS
                )
            self._kept = (client, bucket)
        return self._kept[1]


def key_of(hash: bytes) -> str:
    return f"{PREFIX}.{hash.hex()}"


def user_key(session: Session) -> str:
    """What a key can't hold of a name is written as `=` and its code."""
    name = re.sub(r"[^\w-]", lambda found: f"={ord(found[0]):02X}", session.user, flags=re.ASCII)
    return f"{PREFIX}.user.{name}.{session.id}"


def _value(session: Session, user: User) -> dict[str, Any]:
    return {
        "session_id": session.id,
        "user_id": user.name,
        "email": user.name if "@" in user.name else None,
        "display_name": user.name,
        "roles": [user.role],
        "created_at": _stamp(session.created),
        "expires_at": _stamp(session.end),
        "last_activity_at": _stamp(session.seen),
        "client_ip": session.address,
        "auth0_id": None,
    }


def _activity(value: bytes) -> float:
    """When a value says the session was used; 0 if it makes no sense."""
    try:
        return datetime.fromisoformat(msgspec.json.decode(value)["last_activity_at"]).timestamp()
    except (msgspec.DecodeError, KeyError, TypeError, ValueError, OverflowError):
        return 0.0


def _stamp(at: float) -> str:
    return rfc3339(at)
