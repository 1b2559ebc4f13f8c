"""Requests and responses of /tokens, /users and /sessions."""

from __future__ import annotations

from typing import Annotated

import msgspec

from noetl.server.models.base import QueryString, RequestBody, text
from noetl.store.access import Role, Session, Token, User
from noetl.timestamps import optional_rfc3339, rfc3339

# -- tokens ---------------------------------------------------------------------------------------------------------


class TokenRequest(RequestBody, frozen=True):
    """A token to create. `expires_in` is in seconds; `pool` limits a worker's token to one pool."""

    role: Role
    name: str = ""
    pool: str | None = None
    expires_in: float | None = None


class TokenItem(msgspec.Struct, frozen=True):
    """A token without its secret."""

    id: str
    role: Role
    name: str
    pool: str | None
    created: str
    expires: str | None
    revoked: str | None

    @classmethod
    def of(cls, token: Token) -> TokenItem:
        times = rfc3339(token.created), optional_rfc3339(token.expires), optional_rfc3339(token.revoked)
        return cls(token.id, token.role, token.name, token.pool, *times)


class TokenPage(msgspec.Struct, frozen=True):
    items: list[TokenItem]


class NewToken(msgspec.Struct, frozen=True):
    """A new token. Its secret is sent only once: the server stores its hash."""

    id: str
    token: str
    role: Role
    name: str
    pool: str | None
    expires: str | None


# -- users ----------------------------------------------------------------------------------------------------------


class UserRequest(RequestBody, frozen=True):
    """A user to create."""

    name: str
    password: str
    role: Role = "viewer"


class UserChange(RequestBody, frozen=True):
    """The changes; a new password ends the sessions."""

    password: str | None = None
    role: Role | None = None


class UserView(msgspec.Struct, frozen=True):
    """A person who can sign in."""

    name: str
    role: Role
    created: str

    @classmethod
    def of(cls, user: User) -> UserView:
        return cls(user.name, user.role, rfc3339(user.created))


class UserPage(msgspec.Struct, frozen=True):
    items: list[UserView]


# -- sessions -------------------------------------------------------------------------------------------------------


class LoginRequest(RequestBody, frozen=True):
    """Name and password."""

    user: str
    password: str


class NewSession(msgspec.Struct, frozen=True):
    """A new session, whose secret is in the cookie. Changes need `csrf_token` in the header X-CSRF-Token."""

    session_id: str
    user: str
    role: Role
    csrf_token: str
    expires: str


class SessionQuery(QueryString, frozen=True):
    user: Annotated[str, text("Sessions of this user (admin only); `*` lists all.")] = ""


class SessionView(msgspec.Struct, frozen=True):
    """A session of a user."""

    id: str
    user: str
    created: str
    last_seen: str
    expires: str
    agent: str
    address: str
    current: bool

    @classmethod
    def of(cls, session: Session, is_current: bool) -> SessionView:
        times = rfc3339(session.created), rfc3339(session.seen), rfc3339(session.expires)
        return cls(session.id, session.user, *times, session.agent, session.address, is_current)


class SessionPage(msgspec.Struct, frozen=True):
    """The caller, and sessions; `csrf_token` if the caller has a session."""

    name: str
    role: Role
    csrf_token: str | None
    items: list[SessionView]
