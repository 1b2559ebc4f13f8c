"""The client of a database: playbooks, credentials, tokens and users, without a server."""

from __future__ import annotations

import os
from functools import cached_property
from typing import TYPE_CHECKING

from noetl.client.client import ALL, Items, Json, Warn
from noetl.client.database import json_of, opened, registered, safe_of
from noetl.clock import SystemClock
from noetl.errors import Conflict, NotFound, UsageError
from noetl.model.identity import is_name
from noetl.server.record_views import (
    CredentialDetails,
    CredentialView,
    NewToken,
    TokenItem,
    UserView,
    last_run,
    playbook_item,
    version_view,
)
from noetl.server.worker_views import direct_workers, pool_views, worker_view
from noetl.store.access import User
from noetl.store.store import WorkerDirective

if TYPE_CHECKING:
    from noetl.client.local_runs import LocalRuns
    from noetl.client.local_triggers import LocalHooks, LocalSchedules
    from noetl.runtime.catalog import PlaybookSource


class LocalClient:
    """Works on one database. `warn` gets lines for people. The engine and the schedules are imported on first use."""

    url = None  # there is no server

    def __init__(self, db: str | None, warn: Warn) -> None:
        self.db, self.warn = db, warn
        self.catalog = LocalCatalog(db)
        self.credentials = LocalCredentials(db)
        self.tokens = LocalTokens(db)
        self.users = LocalUsers(db)
        self.workers = LocalWorkers(db)

    @cached_property
    def runs(self) -> LocalRuns:
        from noetl.client.local_runs import LocalRuns

        return LocalRuns(self.db, self.warn)

    @property
    def schedules(self) -> LocalSchedules:
        from noetl.client.local_triggers import LocalSchedules

        return LocalSchedules(self.db)

    @property
    def hooks(self) -> LocalHooks:
        from noetl.client.local_triggers import LocalHooks

        return LocalHooks(self.db)

    def close(self) -> None:
        """Each method opens and closes the database."""


class Local:
    def __init__(self, db: str | None) -> None:
        self.db, self.clock = db, SystemClock()


class LocalCatalog(Local):
    def register(self, source: PlaybookSource) -> Json:
        playbook = source.loaded.require()
        with opened(self.db, "create") as store:
            store.put_playbook(playbook.digest, os.path.abspath(source.file), source.text)
            version = store.register(playbook.path, playbook.digest, str(playbook.version or ""), self.clock.now())
        return {"playbook_id": playbook.digest, "path": playbook.path, "version": version}

    def list(self, prefix: str | None) -> Items:
        with opened(self.db) as store:
            return [json_of(playbook_item(store, path)) for path in store.paths(prefix or "", ALL)]

    def get(self, path: str, version: int | None) -> Json:
        with opened(self.db) as store:
            digest = registered(store, path, version)
            versions = [json_of(version_view(entry)) for entry in store.versions(path)]
            version = next(entry["version"] for entry in versions if entry["playbook_id"] == digest)
            _, text = store.playbook(digest) or ("", b"")
            latest = last_run(store, path)
        playbook = {"path": path, "version": version, "playbook_id": digest, "text": text.decode("utf-8", "replace")}
        return playbook | {"versions": versions, "last_run": None if latest is None else json_of(latest)}


class LocalCredentials(Local):
    def put(self, name: str, body: Json) -> None:
        paths, pools, now = body["paths"], body["pools"], self.clock.now()
        with opened(self.db, "create") as store:
            safe_of(store).put(name, body["kind"], body["data"], paths=paths, pools=pools, now=now)

    def list(self) -> Items:
        with opened(self.db) as store:
            return [json_of(CredentialView.of(credential)) for credential in store.credentials.all()]

    def get(self, name: str) -> Json:
        """The credential with the fields that are not secret."""
        with opened(self.db) as store:
            credential, fields = safe_of(store).describe(name)
            return json_of(CredentialDetails.of(credential, fields=fields))

    def delete(self, name: str) -> None:
        with opened(self.db, "write") as store:
            if not store.credentials.delete(name):
                raise NotFound(f"credential {name!r} not found: `noetl credential list` lists all credentials")

    def rotate(self, forget_old: bool) -> Json:
        """Wrap every credential with a new master key: `credentials` is their number, `key` the id of the new key."""
        with opened(self.db, "write") as store:
            safe = safe_of(store)
            rotated = safe.rotate(forget_older=forget_old)
            return rotated._asdict() | {"key": safe.keys.read().current.id.hex(), "key_in_file": safe.keys.is_file}


class LocalTokens(Local):
    """To delete a token is to revoke it: it stays in the list."""

    def add(self, body: Json) -> Json:
        from noetl.access import new_token

        now, lifetime = self.clock.now(), body["expires_in"]
        expires = None if lifetime is None else now + lifetime
        secret, token = new_token(body["role"], body["name"], now, pool=body["pool"], expires=expires)
        with opened(self.db, "create") as store:
            store.access.add_token(token)
        return json_of(NewToken.of(token, token=secret))

    def list(self) -> Items:
        with opened(self.db) as store:
            return [json_of(TokenItem.of(token)) for token in store.access.tokens()]

    def delete(self, name: str) -> None:
        with opened(self.db, "write") as store:
            if not store.access.revoke_token(name, self.clock.now()):
                raise NotFound(f"valid token {name!r} not found: `noetl token list` lists all tokens")


class LocalWorkers(Local):
    """The workers of the servers on this database, which learn of a directive with their next heartbeat."""

    def list(self) -> Items:
        with opened(self.db) as store:
            return [json_of(worker_view(session, self.clock.now())) for session in store.workers()]

    def pools(self) -> Items:
        """The pools that have connected workers or queued step runs."""
        with opened(self.db) as store:
            return list(map(json_of, pool_views(store, self.clock.now())))

    def direct(self, directive: WorkerDirective, body: Json) -> Items:
        with opened(self.db, "write") as store:
            views = direct_workers(store, directive, body["worker"], body["pool"], self.clock.now())
            return list(map(json_of, views))


class LocalUsers(Local):
    def add(self, body: Json) -> None:
        from noetl.access import hash_password

        name = body["name"]
        if not is_name(name):
            raise UsageError(f"invalid user name {name!r}: use letters, digits and _ . @ -")
        user = User(name, body["role"], hash_password(body["password"]), self.clock.now())
        with opened(self.db, "create") as store:
            if not store.access.put_user(user, new=True):
                raise Conflict(f"user {name!r} exists; delete it first with `noetl user delete {name}`")

    def list(self) -> Items:
        with opened(self.db) as store:
            return [json_of(UserView.of(user)) for user in store.access.users()]

    def delete(self, name: str) -> None:
        with opened(self.db, "write") as store:
            if not store.access.delete_user(name):
                raise NotFound(f"user {name!r} not found: `noetl user list` lists all users")
