"""The parts of the store in memory that do not depend on executions."""

from __future__ import annotations

import time

from msgspec.structs import replace

from noetl.store.access import Session, Token, User
from noetl.store.ports import CatalogVersion, SealedCredential
from noetl.store.triggers import Hook, Schedule


class MemoryCatalog:
    def __init__(self) -> None:
        self.playbooks: dict[str, tuple[str, bytes]] = {}
        self.catalog: dict[str, list[CatalogVersion]] = {}
        """Versions by path, the one registered last at the end."""

    def put_playbook(self, digest: str, file: str, text: bytes) -> None:
        self.playbooks.setdefault(digest, (file, text))

    def playbook(self, digest: str) -> tuple[str, bytes] | None:
        return self.playbooks.get(digest)

    def register(self, path: str, digest: str, label: str = "", now: float | None = None) -> int:
        versions = self.catalog.setdefault(path, [])
        same = next((version for version in versions if version.digest == digest), None)
        if same is not None:
            versions.remove(same)
        number = len(versions) + 1 if same is None else same.version
        versions.append(CatalogVersion(number, digest, label, or_clock(now)))
        return number

    def versions(self, path: str, limit: int | None = None) -> list[CatalogVersion]:
        return self.catalog.get(path, [])[::-1][:limit]

    def find(self, path: str, version: int | None = None) -> str | None:
        return next((entry.digest for entry in self.versions(path) if version in (None, entry.version)), None)

    def paths(self, prefix: str = "", limit: int = 1000, after: str = "") -> list[str]:
        return [path for path in sorted(self.catalog) if path.startswith(prefix) and path > after][:limit]


class MemoryCredentials:
    def __init__(self) -> None:
        self._credentials: dict[str, SealedCredential] = {}

    def all(self) -> list[SealedCredential]:
        return [self._credentials[name] for name in sorted(self._credentials)]

    def get(self, name: str) -> SealedCredential | None:
        return self._credentials.get(name)

    def put(self, credential: SealedCredential) -> None:
        created = self._credentials.get(credential.name, credential).created
        self._credentials[credential.name] = replace(credential, created=created)

    def reseal(self, name: str, before: bytes, after: bytes) -> bool:
        credential = self._credentials.get(name)
        if credential is None or credential.sealed != before:
            return False
        self._credentials[name] = replace(credential, sealed=after)
        return True

    def delete(self, name: str) -> bool:
        return self._credentials.pop(name, None) is not None


class MemoryAccess:
    def __init__(self) -> None:
        self._tokens: dict[str, Token] = {}
        self._users: dict[str, User] = {}
        self._sessions: dict[str, Session] = {}

    def add_token(self, token: Token) -> None:
        self._tokens[token.id] = token

    def token(self, hash: bytes) -> Token | None:
        return next((token for token in self._tokens.values() if token.hash == hash), None)

    def tokens(self) -> list[Token]:
        return sorted(self._tokens.values(), key=lambda token: (token.created, token.id))

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
        self._sessions = {id: other for id, other in self._sessions.items() if other.expires > session.created}
        self._sessions[session.id] = session

    def session(self, hash: bytes) -> Session | None:
        return next((session for session in self._sessions.values() if session.hash == hash), None)

    def sessions(self, user: str | None = None) -> list[Session]:
        sessions = [session for session in self._sessions.values() if user in (None, session.user)]
        return sorted(sessions, key=lambda session: (session.created, session.id), reverse=True)

    def touch_session(self, id: str, seen: float) -> None:
        if (session := self._sessions.get(id)) is not None:
            self._sessions[id] = replace(session, seen=max(session.seen, seen))

    def delete_session(self, id: str) -> bool:
        return self._sessions.pop(id, None) is not None

    def delete_sessions(self, user: str) -> int:
        return sum(self.delete_session(session.id) for session in self.sessions(user))


class MemoryTriggers:
    def __init__(self) -> None:
        self._schedules: dict[str, Schedule] = {}
        self._hooks: dict[str, Hook] = {}

    def add_schedule(self, schedule: Schedule) -> bool:
        return self._schedules.setdefault(schedule.name, schedule) is schedule

    def schedule(self, name: str) -> Schedule | None:
        return self._schedules.get(name)

    def schedules(self, after: str = "", limit: int = 1000) -> list[Schedule]:
        return [self._schedules[name] for name in sorted(self._schedules) if name > after][:limit]

    def change_schedule(self, schedule: Schedule) -> bool:
        stored = self._schedules.get(schedule.name)
        if stored is None or (stored.id, stored.revision) != (schedule.id, schedule.revision - 1):
            return False
        self._schedules[schedule.name] = schedule
        return True

    def due_schedules(self, now: float, limit: int) -> list[Schedule]:
        checks = [(schedule.look, name) for name, schedule in self._schedules.items() if schedule.look is not None]
        return [self._schedules[name] for look, name in sorted(checks) if look <= now][:limit]

    def delete_schedule(self, name: str) -> bool:
        return self._schedules.pop(name, None) is not None

    def put_hook(self, hook: Hook) -> None:
        created = self._hooks.get(hook.name, hook).created
        self._hooks[hook.name] = replace(hook, created=created)

    def hook(self, name: str) -> Hook | None:
        return self._hooks.get(name)

    def hooks(self) -> list[Hook]:
        return [self._hooks[name] for name in sorted(self._hooks)]

    def delete_hook(self, name: str) -> bool:
        return self._hooks.pop(name, None) is not None


def or_clock(now: float | None) -> float:
    return time.time() if now is None else now
