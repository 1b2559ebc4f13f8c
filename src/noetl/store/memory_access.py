"""Tokens, users and sessions in dicts: the oracle of the conformance suite."""

from __future__ import annotations

from msgspec.structs import replace

from noetl.store.access import Session, Token, User


class MemoryAccess:
    """Who may ask for what, as long as the process lives."""

    def __init__(self) -> None:
        self._tokens: dict[str, Token] = {}
        self._users: dict[str, User] = {}
        self._sessions: dict[str, Session] = {}

    def add_token(self, token: Token) -> None:
        self._tokens[token.id] = token

    def token(self, hash: bytes) -> Token | None:
        return next((one for one in self._tokens.values() if one.hash == hash), None)

    def tokens(self) -> list[Token]:
        return sorted(self._tokens.values(), key=lambda one: (one.created, one.id))

    def revoke_token(self, id: str, now: float) -> bool:
        token = self._tokens.get(id)
        if token is None or token.revoked is not None:
            return False
        self._tokens[id] = replace(token, revoked=now)
        return True

    def put_user(self, user: User, *, new: bool) -> bool:
        if (user.name in self._users) is new:
            return False
        self._users[user.name] = user
        return True

    def user(self, name: str) -> User | None:
        return self._users.get(name)

    def users(self) -> list[User]:
        return [self._users[name] for name in sorted(self._users)]

    def delete_user(self, name: str) -> bool:
        self.delete_sessions(name)
        return self._users.pop(name, None) is not None

    def add_session(self, session: Session) -> None:
        self._sessions = {id: one for id, one in self._sessions.items() if one.expires > session.created}
        self._sessions[session.id] = session

    def session(self, hash: bytes) -> Session | None:
        return next((one for one in self._sessions.values() if one.hash == hash), None)

    def sessions(self, user: str | None = None) -> list[Session]:
        found = [one for one in self._sessions.values() if user in (None, one.user)]
        return sorted(found, key=lambda one: (one.created, one.id), reverse=True)

    def touch_session(self, id: str, seen: float) -> None:
        if (session := self._sessions.get(id)) is not None:
            self._sessions[id] = replace(session, seen=max(session.seen, seen))

    def delete_session(self, id: str) -> bool:
        return self._sessions.pop(id, None) is not None

    def delete_sessions(self, user: str) -> int:
        mine = [one.id for one in self._sessions.values() if one.user == user]
        for id in mine:
            del self._sessions[id]
        return len(mine)
