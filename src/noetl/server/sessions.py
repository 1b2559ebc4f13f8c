"""Sessions of users, or of people with a token: in the database, and with NATS also in its key-value store, for
gateways and other programs.

The database decides: a session that is missing there has ended, even if NATS has it. Everything keeps working while
NATS is down; a session that NATS has missed is written there when it is next used.

In NATS `noetl.sessions.<sha256 of the secret>` describes a session, `noetl.sessions.user.<user>.<session id>` lists
those of a user. Other programs may write, too: an update of `last_activity_at` keeps a session alive, and deleting the
key ends it. Nothing else in a value is trusted.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
from msgspec.structs import replace

from noetl.errors import NatsUnavailable, NotFound
from noetl.runtime.store_thread import InStore
from noetl.store.access import IDLE_SECONDS, Access, ApiToken, Session, User
from noetl.timestamps import rfc3339

if TYPE_CHECKING:
    from nats.js import JetStreamContext
    from nats.js.kv import KeyValue

    from noetl.nats.connection import NatsConnection

TOUCH_SECONDS = 60.0  # how often the last use of a session is stored
BUCKET = "noetl_sessions"
PREFIX = "noetl.sessions"

Owner = User | ApiToken
Result = TypeVar("Result")
Operation = Callable[["KeyValue"], Awaitable[Result]]


class Sessions:
    def __init__(self, access: Access, in_store: InStore, bus: NatsConnection | None = None) -> None:
        self.access, self.in_store = access, in_store
        self.bucket = SessionBucket(bus) if bus is not None else None

    async def begin(self, session: Session, owner: Owner) -> None:
        await self.in_store(self.access.add_session, session)
        await self._in_nats(lambda bucket: _put(bucket, session, owner))

    async def find(self, hash: bytes, now: float) -> tuple[Session, Owner] | None:
        """The session with this hash of its secret, and its owner; None if either is missing or not valid."""
        session: Session | None = await self.in_store(self.access.session, hash)
        if session is None:  # it may have been ended in the database only
            await self._in_nats(lambda bucket: _drop(bucket, hash))
            return None
        if session.token_id is None:
            user: User | None = await self.in_store(self.access.user, session.user)
            return None if user is None else (session, user)
        token: ApiToken | None = await self.in_store(self.access.token_by_id, session.token_id)
        if token is None or not token.is_valid(now):
            await self.end(session)
            return None
        return session, token

    async def used(self, session: Session, owner: Owner, now: float) -> Session | None:
        """The session with its last use on any server, which is stored now and then; None if it was ended in NATS."""
        hash = session.hash
        try:
            activity = await self.bucket.use(lambda bucket: _activity(bucket, hash)) if self.bucket else None
        except NotFound:
            await self.in_store(self.access.delete_session, session.id)
            return None
        except NatsUnavailable:
            activity = (session.last_used, -1)
        if activity is not None:
            session = replace(session, last_used=max(session.last_used, min(now, activity[0])))
        if now >= session.end:
            return session
        if now - session.last_used > TOUCH_SECONDS:
            session = touched = replace(session, last_used=now)
            await self.in_store(self.access.touch_session, session.id, now)
            if activity is not None and (revision := activity[1]) > 0:
                await self._in_nats(lambda bucket: _put(bucket, touched, owner, revision))
        if activity is None:
            await self._in_nats(lambda bucket: _put(bucket, session, owner))
        return session

    async def of(self, account: str | None) -> list[Session]:
        """Sessions of a user or a token, or of all, the newest first."""
        sessions: list[Session] = await self.in_store(self.access.sessions, account)
        return sessions

    async def end(self, session: Session) -> bool:
        return await self._delete([session], self.access.delete_session, session.id)

    async def end_all(self, account: str) -> None:
        await self._delete(await self.of(account), self.access.delete_sessions, account)

    async def delete_user(self, name: str) -> bool:
        return await self._delete(await self.of(name), self.access.delete_user, name)

    async def _delete(self, sessions: list[Session], delete: Callable[[str], Any], name: str) -> bool:
        existed: bool = await self.in_store(delete, name)
        if sessions:
            await self._in_nats(lambda bucket: _delete(bucket, sessions))
        return existed

    async def publish(self, user: User) -> None:
        for session in await self.of(user.name) if self.bucket else []:
            await self._in_nats(partial(_put, session=session, owner=user))

    async def _in_nats(self, operation: Operation[None]) -> None:
        if self.bucket is not None:
            with suppress(NatsUnavailable):
                await self.bucket.use(operation)


class SessionBucket:
    def __init__(self, connection: NatsConnection) -> None:
        self.connection = connection
        self._open: tuple[Any, KeyValue] | None = None  # the bucket, and the client it was opened with

    async def use(self, operation: Operation[Result]) -> Result:
        """The result of an operation on the bucket, which is created if it is missing; NatsUnavailable."""
        from nats.js.errors import BucketNotFoundError

        async def opened(store: JetStreamContext) -> Result:
            client = self.connection.client
            if self._open is None or self._open[0] is not client:
                try:
                    bucket = await store.key_value(BUCKET)
                except BucketNotFoundError:
                    bucket = await store.create_key_value(
                        bucket=BUCKET, description="noetl: who is signed in", history=10, ttl=IDLE_SECONDS
                    )
                self._open = (client, bucket)
            return await operation(self._open[1])

        return await self.connection.jetstream(BUCKET, opened)


async def _put(bucket: KeyValue, session: Session, owner: Owner, revision: int | None = None) -> None:
    """Write the session; with a revision only if its key has not changed since."""
    from nats.js.errors import KeyWrongLastSequenceError

    value = {
        "session_id": session.id,
        "user_id": session.user,
        "email": session.user if "@" in session.user else None,
        "display_name": owner.name,
        "roles": [owner.role],
        "created_at": rfc3339(session.created),
        "expires_at": rfc3339(session.end),
        "last_activity_at": rfc3339(session.last_used),
        "client_ip": session.address,
        "auth0_id": None,
    }
    key, content = _key(session.hash), msgspec.json.encode(value)
    with suppress(KeyWrongLastSequenceError):  # another server has just written it
        await (bucket.put(key, content) if revision is None else bucket.update(key, content, last=revision))
        await bucket.put(_user_key(session), session.hash.hex().encode())


async def _activity(bucket: KeyValue, hash: bytes) -> tuple[float, int] | None:
    """The last use (0 if the value is invalid), and the key's revision; None without a key, NotFound if deleted."""
    from nats.js.errors import KeyDeletedError, KeyNotFoundError

    try:
        entry = await bucket._get(_key(hash))  # `get` does not distinguish deleted from missing
    except KeyDeletedError:
        raise NotFound("the session was ended in NATS") from None
    except KeyNotFoundError:
        return None
    try:
        value = msgspec.json.decode(entry.value or b"")
        return datetime.fromisoformat(value["last_activity_at"]).timestamp(), entry.revision or 0
    except (msgspec.DecodeError, KeyError, TypeError, ValueError, OverflowError):
        return 0.0, entry.revision or 0


async def _delete(bucket: KeyValue, sessions: list[Session]) -> None:
    for session in sessions:
        await bucket.delete(_key(session.hash))
        await bucket.delete(_user_key(session))


async def _drop(bucket: KeyValue, hash: bytes) -> None:
    """Delete the key of a session that is not in the database, if there is one."""
    from nats.js.errors import KeyNotFoundError

    with suppress(KeyNotFoundError):
        await bucket.get(_key(hash))
        await bucket.delete(_key(hash))


def _key(hash: bytes) -> str:
    return f"{PREFIX}.{hash.hex()}"


def _user_key(session: Session) -> str:
    """Characters that are invalid in a key are written as `=` and their code."""
    name = re.sub(r"[^\w-]", lambda match: f"={ord(match[0]):02X}", session.user, flags=re.ASCII)
    return f"{PREFIX}.user.{name}.{session.id}"
