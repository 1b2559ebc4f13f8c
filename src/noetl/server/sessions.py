"""Who is signed in: sessions in the database, and where there is NATS also in its key-value store.

The database has the last word. A session that it does not know is over, whatever NATS says; while NATS is away all goes
on by the database, and what NATS has missed is written there when the session is next used.
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
"""How often it is written down that a session is used."""


class Sessions:
    """Begins, finds, and ends sessions."""

    def __init__(self, access: Access, in_store: InStore, bus: NatsConnection | None = None) -> None:
        self.access, self.in_store = access, in_store
        self.keys: SessionKeys | None = None
        if bus is not None:
            from noetl.server.session_keys import SessionKeys

            self.keys = SessionKeys(bus)

    async def begin(self, session: Session, user: User) -> None:
        await self.in_store(self.access.add_session, session)
        await self._tell(session, user)

    async def find(self, hash: bytes) -> tuple[Session, User] | None:
        """The session of a secret's hash with its user, as far as there are both."""
        session: Session | None = await self.in_store(self.access.session, hash)
        if session is None:
            await self._drop(hash)
            return None
        user: User | None = await self.in_store(self.access.user, session.user)
        return None if user is None else (session, user)

    async def used(self, session: Session, user: User, now: float) -> Session | None:
        """The session with the time of its last use, here or elsewhere; None if it was ended in NATS. That it is used
        now is written down, if the last time is a while ago."""
        try:
            known = await self.keys.activity(session.hash) if self.keys is not None else None
        except NotFound:
            await self.in_store(self.access.delete_session, session.id)
            return None
        except NatsUnavailable:
            known = (session.seen, -1)
        seen = max(session.seen, min(now, known[0])) if known is not None else session.seen
        session = replace(session, seen=seen)
        if now >= session.end:
            return session
        if now - session.seen > TOUCH_SECONDS:
            session = replace(session, seen=now)
            await self.in_store(self.access.touch_session, session.id, now)
            if self.keys is not None and known is not None and known[1] > 0:
                with suppress(NatsUnavailable):
                    await self.keys.touch(session, user, known[1])
        if self.keys is not None and known is None:
            await self._tell(session, user)
        return session

    async def of(self, user: str | None) -> list[Session]:
        """Sessions of a user, or of all, the newest first."""
        found: list[Session] = await self.in_store(self.access.sessions, user)
        return found

    async def end(self, session: Session) -> bool:
        """End a session; False if there was none."""
        gone: bool = await self.in_store(self.access.delete_session, session.id)
        await self._forget([session])
        return gone

    async def end_all(self, user: str) -> None:
        """End all sessions of a user."""
        sessions = await self.of(user)
        await self.in_store(self.access.delete_sessions, user)
        await self._forget(sessions)

    async def delete_user(self, name: str) -> bool:
        """Forget a user and end the sessions; False if there was none."""
        sessions = await self.of(name)
        gone: bool = await self.in_store(self.access.delete_user, name)
        await self._forget(sessions)
        return gone

    async def tell(self, user: User) -> None:
        """Something of the user has changed that NATS knows."""
        if self.keys is not None:
            for session in await self.of(user.name):
                await self._tell(session, user)

    async def _tell(self, session: Session, user: User) -> None:
        if self.keys is not None:
            with suppress(NatsUnavailable):
                await self.keys.put(session, user)

    async def _drop(self, hash: bytes) -> None:
        """It was ended in the database alone, perhaps: others who look into NATS shall know, too."""
        if self.keys is not None:
            with suppress(NatsUnavailable):
                await self.keys.drop(hash)

    async def _forget(self, sessions: list[Session]) -> None:
        if self.keys is not None:
            with suppress(NatsUnavailable):
                for session in sessions:
                    await self.keys.delete(session)
