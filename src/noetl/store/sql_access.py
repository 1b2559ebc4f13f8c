"""Tokens, users and sessions in a SQL database, on the connection of its store."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from msgspec.structs import astuple

from noetl.store.access import Session, Token, User
from noetl.store.credentials import Ask

Write = Callable[[Sequence[tuple[str, tuple[Any, ...]]]], list[list[Any]]]
"""Runs queries in one transaction and gives the rows of each."""


class SqlAccess:
    """Who may ask for what."""

    def __init__(self, read: Ask, written: Write) -> None:
        self._read, self._written = read, written

    def add_token(self, token: Token) -> None:
        self._write("add_token", astuple(token))

    def token(self, hash: bytes) -> Token | None:
        rows = self._read("get_token", (hash,))
        return Token(*rows[0]) if rows else None

    def tokens(self) -> list[Token]:
        return [Token(*row) for row in self._read("list_tokens", ())]

    def revoke_token(self, id: str, now: float) -> bool:
        return bool(self._write("revoke_token", (now, id)))

    def put_user(self, user: User, *, new: bool) -> bool:
        if new:
            return bool(self._write("add_user", astuple(user)))
        return bool(self._write("change_user", (user.role, user.password, user.name)))

    def user(self, name: str) -> User | None:
        rows = self._read("get_user", (name,))
        return User(*rows[0]) if rows else None

    def users(self) -> list[User]:
        return [User(*row) for row in self._read("list_users", ())]

    def delete_user(self, name: str) -> bool:
        gone, _ = self._written([("delete_user", (name,)), ("delete_sessions", (name,))])
        return bool(gone)

    def add_session(self, session: Session) -> None:
        self._written([("delete_expired_sessions", (session.created,)), ("add_session", astuple(session))])

    def session(self, hash: bytes) -> Session | None:
        rows = self._read("get_session", (hash,))
        return Session(*rows[0]) if rows else None

    def sessions(self, user: str | None = None) -> list[Session]:
        return [Session(*row) for row in self._read("list_sessions", (user, user))]

    def touch_session(self, id: str, seen: float) -> None:
        self._write("touch_session", (seen, id, seen))

    def delete_session(self, id: str) -> bool:
        return bool(self._write("delete_session", (id,)))

    def delete_sessions(self, user: str) -> int:
        return len(self._write("delete_sessions", (user,)))

    def _write(self, name: str, bindings: tuple[Any, ...]) -> list[Any]:
        return self._written([(name, bindings)])[0]
