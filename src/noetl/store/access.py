"""Tokens for programs, users and their sessions. Of a secret only a hash is stored: SHA-256, of a password argon2id."""

from __future__ import annotations

from typing import Literal, get_args

import msgspec
from msgspec.structs import astuple

from noetl.store.database import Database

Role = Literal["viewer", "operator", "author", "admin", "worker"]
ROLES: tuple[Role, ...] = get_args(Role)
TOKEN_ACCOUNT = "token:"  # starts the account of a session that was begun with a token; no user has such a name
IDLE_SECONDS = 24 * 3600.0  # lifetime of a session without use
MAX_SESSION_SECONDS = 7 * 24 * 3600.0  # and in total


class ApiToken(msgspec.Struct, frozen=True):
    id: str
    hash: bytes
    role: Role
    name: str
    created: float
    pool: str | None = None  # to which the token of a worker is limited
    expires: float | None = None
    revoked: float | None = None

    @property
    def account(self) -> str:
        return TOKEN_ACCOUNT + self.id

    def is_valid(self, now: float) -> bool:
        return self.revoked is None and (self.expires is None or now < self.expires)


class User(msgspec.Struct, frozen=True):
    name: str
    role: Role
    password: str  # an argon2id hash
    created: float


class Session(msgspec.Struct, frozen=True):
    id: str
    hash: bytes
    user: str  # the name of a user, or `token:ID` if it was begun with a token
    created: float
    last_used: float
    expires: float  # it ends earlier if it is not used
    agent: str = ""
    address: str = ""

    @property
    def token_id(self) -> str | None:
        return self.user.removeprefix(TOKEN_ACCOUNT) if self.user.startswith(TOKEN_ACCOUNT) else None

    @property
    def end(self) -> float:
        return min(self.expires, self.last_used + IDLE_SECONDS)


class Access:
    """Methods that change a missing record, or end one that has ended, return False."""

    def __init__(self, database: Database) -> None:
        self._db = database

    def add_token(self, token: ApiToken) -> None:
        self._db.write("add_token", *astuple(token))

    def token(self, hash: bytes) -> ApiToken | None:
        return self._db.get(ApiToken, "get_token", hash)

    def token_by_id(self, id: str) -> ApiToken | None:
        return self._db.get(ApiToken, "get_token_by_id", id)

    def tokens(self) -> list[ApiToken]:
        return self._db.all(ApiToken, "list_tokens")

    def revoke_token(self, id: str, now: float) -> bool:
        return bool(self._db.write("revoke_token", now, id))

    def put_user(self, user: User, *, new: bool) -> bool:
        """Add a user, or change one. False if a new one exists already."""
        if new:
            return bool(self._db.write("add_user", *astuple(user)))
        return bool(self._db.write("change_user", user.role, user.password, user.name))

    def user(self, name: str) -> User | None:
        return self._db.get(User, "get_user", name)

    def users(self) -> list[User]:
        return self._db.all(User, "list_users")

    def delete_user(self, name: str) -> bool:
        deleted, _ = self._db.write_all(("delete_user", (name,)), ("delete_sessions", (name,)))
        return bool(deleted)

    def add_session(self, session: Session) -> None:
        """Add a session, and delete all that have expired."""
        self._db.write_all(("delete_expired_sessions", (session.created,)), ("add_session", astuple(session)))

    def session(self, hash: bytes) -> Session | None:
        return self._db.get(Session, "get_session", hash)

    def sessions(self, user: str | None = None) -> list[Session]:
        """The sessions of a user, or of all, the newest first."""
        return self._db.all(Session, "list_sessions", user, user)

    def touch_session(self, id: str, at: float) -> None:
        self._db.write("touch_session", at, id, at)

    def delete_session(self, id: str) -> bool:
        return bool(self._db.write("delete_session", id))

    def delete_sessions(self, user: str) -> int:
        return len(self._db.write("delete_sessions", user))
