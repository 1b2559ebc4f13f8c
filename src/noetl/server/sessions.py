"""Sessions of users: in the database, and with NATS also in its key-value store.

The database decides: a session that is not there has ended, whatever NATS contains. Everything keeps working while NATS
is down; a session that NATS has missed is written there when it is next used.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from noetl.errors import NatsUnavailable, NotFound
from noetl.store.access import Access, Session, User

if TYPE_CHECKING:
    from noetl.nats.connection import NatsConnection
    from noetl.server.session_keys import SessionKeys

InStore = Callable[..., Awaitable[Any]]
TOUCH_SECONDS = 60.0
"""How often the last use of a session is stored."""


class Sessions:
    def __init__(self, access: Access, in_store: InStore, bus: NatsConnection | None = None) -> None:
        self.access, self.in_store = access, in_store
        self.keys: SessionKeys | None = None
        if bus is not None:
            from noetl.server.session_keys import SessionKeys

            self.keys = SessionKeys(bus)

    async def begin(self, session: Session, user: User) -> None:
        await self.in_store(self.access.add_session, session)
        await self._in_nats(lambda keys: keys.put(session, user))

    async def find(self, hash: bytes) -> tuple[Session, User] | None:
        """The session with this hash of its secret, and its user; None if either is missing."""
        session: Session | None = await self.in_store(self.access.session, hash)
        if session is None:  # it may have been ended in the database only
            await self._in_nats(lambda keys: keys.drop(hash))
            return None
        user: User | None = await self.in_store(self.access.user, session.user)
        return None if user is None else (session, user)

    async def used(self, session: Session, user: User, now: float) -> Session | None:
        """The session with its last use on any server, which is stored now and then; None if it was ended in NATS."""
        try:
            activity = await self.keys.activity(session.hash) if self.keys is not None else None
        except NotFound:
            await self.in_store(self.access.delete_session, session.id)
            return None
        except NatsUnavailable:
            activity = (session.seen, -1)
        if activity is not None:
            session = replace(session, seen=max(session.seen, min(now, activity[0])))
        if now >= session.end:
            return session
        if now - session.seen > TOUCH_SECONDS:
            session = touched = replace(session, seen=now)
            await self.in_store(self.access.touch_session, session.id, now)
            if activity is not None and (revision := activity[1]) > 0:
                await self._in_nats(lambda keys: keys.put(touched, user, revision))
        if activity is None:
            await self._in_nats(lambda keys: keys.put(session, user))
        return session

    async def of(self, user: str | None) -> list[Session]:
        """Sessions of a user, or of all, the newest first."""
        sessions: list[Session] = await self.in_store(self.access.sessions, user)
        return sessions

    async def end(self, session: Session) -> bool:
        """End a session; False if there was none."""
        existed: bool = await self.in_store(self.access.delete_session, session.id)
        await self._in_nats(lambda keys: keys.delete([session]))
        return existed

    async def end_all(self, user: str) -> None:
        sessions = await self.of(user)
        await self.in_store(self.access.delete_sessions, user)
        await self._in_nats(lambda keys: keys.delete(sessions))

    async def delete_user(self, name: str) -> bool:
        """Delete a user and end the sessions; False if there was none."""
        sessions = await self.of(name)
        existed: bool = await self.in_store(self.access.delete_user, name)
        await self._in_nats(lambda keys: keys.delete(sessions))
        return existed

    async def publish(self, user: User) -> None:
        """Update the sessions of a user in NATS."""

        async def put_all(keys: SessionKeys) -> None:
            for session in await self.of(user.name):
                await keys.put(session, user)

        await self._in_nats(put_all)

    async def _in_nats(self, operation: Callable[[SessionKeys], Awaitable[None]]) -> None:
        """Do something with the keys in NATS, if NATS is used and up."""
        if self.keys is not None:
            with suppress(NatsUnavailable):
                await operation(self.keys)
