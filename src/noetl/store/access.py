"""Who may ask a server for what: tokens for programs, users and their sessions for people.

Nothing that opens a door is stored. Of a token or a session only the SHA-256 of its secret is kept, of a password its
argon2id hash.
"""

from __future__ import annotations

from typing import Literal, Protocol, get_args

import msgspec

Role = Literal["viewer", "operator", "author", "admin", "worker"]
ROLES: tuple[Role, ...] = get_args(Role)
IDLE_SECONDS = 24 * 3600.0
LONGEST_SECONDS = 7 * 24 * 3600.0
"""How long a session lasts: unused, and at all."""


class Token(msgspec.Struct, frozen=True):
    """A token as it is stored. `pool` limits the token of a worker to one pool."""

    id: str
    hash: bytes
    role: Role
    name: str
    created: float
    pool: str | None = None
    expires: float | None = None
    revoked: float | None = None

    def is_valid(self, now: float) -> bool:
        return self.revoked is None and (self.expires is None or now < self.expires)


class User(msgspec.Struct, frozen=True):
    """A person who can sign in. `password` is an argon2id hash."""

    name: str
    role: Role
    password: str
    created: float


class Session(msgspec.Struct, frozen=True):
    """A person who has signed in. It ends at `expires` whatever happens, and before that if nobody uses it."""

    id: str
    hash: bytes
    user: str
    created: float
    seen: float
    expires: float
    agent: str = ""
    address: str = ""

    @property
    def end(self) -> float:
        """When it is over by itself."""
        return min(self.expires, self.seen + IDLE_SECONDS)


class Access(Protocol):
    """Tokens, users and sessions beside the log."""

    def add_token(self, token: Token) -> None:
        """Keep a new token."""

    def token(self, hash: bytes) -> Token | None:
        """The token of a secret's hash, also one that has ended."""

    def tokens(self) -> list[Token]:
        """Every token, by its time."""

    def revoke_token(self, id: str, now: float) -> bool:
        """It opens nothing any more; False if there is no valid one of that id."""

    def put_user(self, user: User, *, new: bool) -> bool:
        """Keep a user. False, and nothing done, if a new one is there already or an old one is not."""

    def user(self, name: str) -> User | None:
        """The user of that name."""

    def users(self) -> list[User]:
        """Every user, by name."""

    def delete_user(self, name: str) -> bool:
        """Forget a user and end the sessions; False if there was none."""

    def add_session(self, session: Session) -> None:
        """Keep a new session, and forget all that have run out."""

    def session(self, hash: bytes) -> Session | None:
        """The session of a secret's hash."""

    def sessions(self, user: str | None = None) -> list[Session]:
        """Sessions of a user, or of all, the newest first."""

    def touch_session(self, id: str, seen: float) -> None:
        """It was used."""

    def delete_session(self, id: str) -> bool:
        """End it; False if there was none."""

    def delete_sessions(self, user: str) -> int:
        """End all of a user's; how many."""
