"""Tokens, users and sessions in a SQL database."""

from __future__ import annotations

from msgspec.structs import astuple

from noetl.store.access import Session, Token, User
from noetl.store.database import Database


class SqlAccess:
    def __init__(self, database: Database) -> None:
        self._db = database

    def add_token(self, token: Token) -> None:
        self._db.write("add_token", *astuple(token))

    def token(self, hash: bytes) -> Token | None:
        row = self._db.row("get_token", hash)
        return None if row is None else Token(*row)

    def tokens(self) -> list[Token]:
        return [Token(*row) for row in self._db.rows("list_tokens")]

    def revoke_token(self, id: str, now: float) -> bool:
        return bool(self._db.write("revoke_token", now, id))

    def put_user(self, user: User, *, new: bool) -> bool:
        if new:
            return bool(self._db.write("add_user", *astuple(user)))
        return bool(self._db.write("change_user", user.role, user.password, user.name))

    def user(self, name: str) -> User | None:
        row = self._db.row("get_user", name)
        return None if row is None else User(*row)

    def users(self) -> list[User]:
        return [User(*row) for row in self._db.rows("list_users")]

    def delete_user(self, name: str) -> bool:
        deleted, _ = self._db.write_all(("delete_user", (name,)), ("delete_sessions", (name,)))
        return bool(deleted)

    def add_session(self, session: Session) -> None:
        self._db.write_all(("delete_expired_sessions", (session.created,)), ("add_session", astuple(session)))

    def session(self, hash: bytes) -> Session | None:
        row = self._db.row("get_session", hash)
        return None if row is None else Session(*row)

    def sessions(self, user: str | None = None) -> list[Session]:
        return [Session(*row) for row in self._db.rows("list_sessions", user, user)]

    def touch_session(self, id: str, seen: float) -> None:
        self._db.write("touch_session", seen, id, seen)

    def delete_session(self, id: str) -> bool:
        return bool(self._db.write("delete_session", id))

    def delete_sessions(self, user: str) -> int:
        return len(self._db.write("delete_sessions", user))
